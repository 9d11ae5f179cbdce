"""A gRPC call as the services see it, and the description of a service: its descriptor and methods."""

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from google.protobuf.descriptor import ServiceDescriptor
from google.protobuf.message import Message

from online.api.audit import Actor
from online.api.auth import KEY_HEADER, check_key, is_loopback, is_proxy_header
from online.api.dependencies import ROUTE_HEADER
from online.api.responses import prediction_headers
from online.serving.predictor import PredictionResult
from online.settings import Settings, reveal


@dataclass(slots=True)
class Call:
    """The context of one call.

    metadata: the last value of each name. peer: the caller's address, as gRPC writes it. timeout_s:
    the time until the caller's deadline. trailing: metadata that is sent with the answer.
    """

    metadata: Mapping[str, str]
    peer: str
    timeout_s: float | None = None
    trailing: dict[str, str] = field(default_factory=dict)

    @property
    def route(self) -> str | None:
        return self.metadata.get(ROUTE_HEADER)

    @property
    def actor(self) -> Actor:
        """The sender, for the audit log."""
        return Actor("admin" if KEY_HEADER in self.metadata else "address only", parse_host(self.peer))

    def check_admin(self, settings: Settings) -> None:
        """Raises Unauthorized or Forbidden.

        The Host is not checked as over HTTP: no page in a browser speaks gRPC.
        """
        key = self.metadata.get(KEY_HEADER) or self.metadata.get("authorization", "").removeprefix("Bearer ")
        is_local = is_loopback(parse_host(self.peer)) and not any(map(is_proxy_header, self.metadata))
        check_key(reveal(settings.admin_key), key, is_local)

    def set_prediction(self, predicted: PredictionResult) -> None:
        """Send the version that answered and the prediction ids in the trailing metadata."""
        self.trailing |= {name.lower(): value for name, value in prediction_headers(predicted).items()}


def parse_host(peer: str) -> str:
    """ipv4:127.0.0.1:5000 -> 127.0.0.1; "" for any other kind of address."""
    family, _, address = unquote(peer).partition(":")
    return urlsplit(f"//{address}").hostname or "" if family in ("ipv4", "ipv6") else ""


Method = Callable[[Any, Call], Coroutine[Any, Any, Message]]


class Service(NamedTuple):
    descriptor: ServiceDescriptor
    methods: Mapping[str, Method]

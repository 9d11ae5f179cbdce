"""A gRPC call as the services see it, and the description of a service: its descriptor and methods."""

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urlsplit

from google.protobuf.descriptor import ServiceDescriptor
from google.protobuf.message import Message

from online.api.auth.scopes import Access
from online.api.dependencies import ROUTE_HEADER
from online.api.responses import prediction_headers
from online.schemas.access.callers import Caller
from online.serving.predictor import PredictionResult


@dataclass(slots=True)
class Call:
    """The context of one call.

    caller: who sends it. metadata: the last value of each name. timeout_s: the time until the caller's deadline.
    trailing: metadata that is sent with the answer.
    """

    caller: Caller
    metadata: Mapping[str, str]
    timeout_s: float | None = None
    trailing: dict[str, str] = field(default_factory=dict)

    @property
    def route(self) -> str | None:
        """The model that the metadata names; None without it."""
        return self.metadata.get(ROUTE_HEADER)

    def set_prediction(self, predicted: PredictionResult) -> None:
        """Send the version that answered and the prediction ids in the trailing metadata."""
        self.trailing |= {name.lower(): value for name, value in prediction_headers(predicted).items()}


def parse_host(peer: str) -> str:
    """ipv4:127.0.0.1:5000 -> 127.0.0.1; "" for any other kind of address."""
    family, _, address = unquote(peer).partition(":")
    return urlsplit(f"//{address}").hostname or "" if family in ("ipv4", "ipv6") else ""


Method = Callable[[Any, Call], Coroutine[object, object, Message]]


@dataclass(frozen=True, slots=True)
class Service:
    """A gRPC service. access: what a caller of any method needs, except those in `exceptions`."""

    descriptor: ServiceDescriptor
    methods: Mapping[str, Method]
    access: Access
    exceptions: Mapping[str, Access] = field(default_factory=dict)

    def access_of(self, method: str) -> Access:
        """Return the scope that a method needs."""
        return self.exceptions.get(method, self.access)

    def list_access(self) -> dict[str, Access]:
        """Return what each method needs, by SERVICE/METHOD."""
        return {f"{self.descriptor.full_name}/{name}": self.access_of(name) for name in self.methods}

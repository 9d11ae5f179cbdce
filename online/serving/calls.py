"""One call over gRPC as a service sees it, and what a service is: a descriptor and a method for each of its names."""

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from google.protobuf.descriptor import ServiceDescriptor
from google.protobuf.message import Message

from online.serving.api import ROUTE, headers_of
from online.serving.keys import HEADER, allow, is_loopback
from online.serving.predictor import Predicted
from online.settings import Settings


@dataclass(slots=True)
class Call:
    """metadata: of names that came twice the last. left_s: until the caller's deadline. trailing: told with the answer."""

    metadata: Mapping[str, str]
    peer: str
    left_s: float | None = None
    trailing: dict[str, str] = field(default_factory=dict)

    @property
    def route(self) -> str | None:
        return self.metadata.get(ROUTE)

    def check_admin(self, settings: Settings) -> None:
        """Raises Unauthorized or Forbidden. That no page of a browser speaks gRPC is why its host need not be asked for."""
        given = self.metadata.get(HEADER) or self.metadata.get("authorization", "").removeprefix("Bearer ")
        here = is_loopback(host_of(self.peer)) and "x-forwarded-for" not in self.metadata
        allow(settings.admin_key, given, here)

    def tell(self, told: Predicted) -> None:
        """Which version answered, and the ids that feedback refers to."""
        self.trailing |= {name.lower(): value for name, value in headers_of(told).items()}


def host_of(peer: str) -> str:
    """ipv4:127.0.0.1:5000 -> 127.0.0.1; "" for what is no such address."""
    family, _, address = unquote(peer).partition(":")
    return urlsplit(f"//{address}").hostname or "" if family in ("ipv4", "ipv6") else ""


Method = Callable[[Any, Call], Coroutine[Any, Any, Message]]


class Service(NamedTuple):
    descriptor: ServiceDescriptor
    methods: Mapping[str, Method]

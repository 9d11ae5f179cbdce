"""The route that was chosen for a request."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from online.errors import OnlineError
from online.plugins.router.chat_requests import can_answer
from online.plugins.router.route_settings import RouteSettings
from online.plugins.router.upstream import RouteClient
from online.schemas.json_values import JSONObject


class NoRouteAnswers(OnlineError):
    """Every route that could answer has failed, or none can. failures: their kinds, by route; the log of the service says more."""

    status = 502

    def __init__(self, reason: str, failures: Mapping[str, str]) -> None:
        tried = ", ".join(f"{name} ({kind})" for name, kind in failures.items())
        super().__init__(f"{reason}{f': {tried}' if tried else ''}")
        self.failures = failures


@dataclass(frozen=True, slots=True)
class ChosenRoute:
    """A route that was chosen for a request. id: of the completion. is_recorded: whether feedback may refer to it."""

    client: RouteClient
    id: str
    is_recorded: bool
    version: int
    headers: dict[str, str]

    @property
    def route(self) -> RouteSettings:
        """The settings of the route."""
        return self.client.route

    @property
    def fingerprint(self) -> str:
        """The `system_fingerprint` of the completion: the route, and the version that chose it."""
        return f"{self.route.name}@{self.version}"


def is_available(client: RouteClient, facts: JSONObject) -> bool:
    """Return whether a route can be asked now, and takes such requests."""
    is_busy = client.running >= client.route.max_parallel
    return client.breaker.state != "open" and not is_busy and can_answer(client.route, facts)


def find_cheapest(clients: Iterable[RouteClient]) -> RouteClient:
    """Return the client of the route with the lowest prices."""
    return min(clients, key=lambda client: (client.route.price_in + client.route.price_out, client.route.name))


def describe_choice(client: RouteClient, propensity: float) -> dict[str, str]:
    """Return the headers that name a route and the probability with which it was chosen."""
    return {"X-Route": client.route.name, "X-Propensity": f"{propensity:.6g}"}

"""Routes and the budget, changed while the service runs."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.conftest import Start
from tests.plugins.router.fake_upstream import FakeUpstream, serve_fake
from tests.plugins.router.test_routed_chat import ask, models, rate, wait_learned
from tests.support import Service, until


@pytest.fixture(scope="module")
def upstream() -> Iterator[FakeUpstream]:
    with serve_fake() as fake:
        yield fake


@pytest.fixture
def service(start: Start, upstream: FakeUpstream) -> Service:
    return start(models(upstream, {"small": "say:from small"}, explore=0.0, explore_new=0.0))


def table(upstream: FakeUpstream, name: str = "vendor/large", **more: Any) -> dict[str, Any]:
    return {"name": name, "url": upstream.url, "model": "say:from large", "price_in": 5.0, "price_out": 20.0, **more}


def add(service: Service, body: dict[str, Any]) -> int:
    added = service.http.post("/v1/models/router/routes", json=body)
    assert added.status_code == 201, added.text
    return int(added.json()["offset"])


def list_states(service: Service) -> dict[str, str]:
    routes = service.http.get("/v1/models/router/routes").raise_for_status().json()["routes"]
    return {each["name"]: each["state"] for each in routes}


def test_an_added_route_gets_questions_and_stays_after_a_restart(
    start: Start, service: Service, upstream: FakeUpstream
) -> None:
    wait_learned(service, add(service, table(upstream)))
    until(lambda: list_states(service) == {"small": "closed", "vendor/large": "closed"}, what="its client")
    offset = max(rate(service, ask(service).json(), 0.0) for _ in range(3))
    wait_learned(service, offset)
    answer = ask(service)
    assert answer.headers["X-Route"] == "vendor/large"
    assert answer.json()["choices"][0]["message"]["content"] == "from large" and float(answer.headers["X-Cost"]) > 0
    service.process.kill()
    service.process.wait()
    again = start(models(upstream, {"small": "say:from small"}, explore=0.0, explore_new=0.0))
    assert ask(again).headers["X-Route"] == "vendor/large"


def test_a_retired_route_is_gone_at_once_and_can_be_restored(service: Service, upstream: FakeUpstream) -> None:
    wait_learned(service, add(service, table(upstream)))
    until(lambda: len(list_states(service)) == 2, what="its client")
    gone = service.http.delete("/v1/models/router/routes/small").raise_for_status()
    wait_learned(service, gone.json()["offset"])
    assert list_states(service)["small"] == "retired"
    assert {ask(service, f"question {n}").headers["X-Route"] for n in range(5)} == {"vendor/large"}
    back = service.http.put("/v1/models/router/routes/small").raise_for_status()
    wait_learned(service, back.json()["offset"])
    assert list_states(service)["small"] == "closed"
    gone = service.http.delete("/v1/models/router/routes/vendor/large").raise_for_status()
    wait_learned(service, gone.json()["offset"])
    assert ask(service).headers["X-Route"] == "small"


def test_a_budget_that_is_set_counts_from_the_next_version_on(service: Service) -> None:
    changed = service.http.put("/v1/models/router/routes/settings", json={"max_cost_per_1k": 2.5})
    assert changed.status_code == 202, changed.text
    wait_learned(service, changed.json()["offset"])
    assert service.http.get("/v1/models/router/routes").json()["max_cost_per_1k"] == 2.5


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "reason"),
    [
        ("POST", "", {"name": "small"}, 409, "is in the configuration"),
        ("POST", "", {"key_env": "ONLINE_SECRET"}, 400, "begins with ONLINE_ROUTE_"),
        ("POST", "", {"key_env": "ONLINE_ROUTE_MISSING"}, 400, "is no variable that is set"),
        ("POST", "", {"url": "ftp://x"}, 400, "url"),
        ("POST", "", {"name": "settings"}, 400, "name"),
        ("POST", "", {"price_in": -1}, 400, "price_in"),
        ("PUT", "/settings", {}, 400, "give one of"),
        ("PUT", "/settings", {"explore": 2}, 400, "explore"),
        ("PUT", "/settings", {"explore": 0.3}, 400, "explore"),
        ("PUT", "/settings", {"budget": 2}, 400, "budget"),
        ("DELETE", "/unknown", None, 404, "its routes are small"),
    ],
)
def test_a_change_that_cannot_be_is_refused(
    service: Service, upstream: FakeUpstream, method: str, path: str, body: Any, status: int, reason: str
) -> None:
    content = {**table(upstream), **body} if method == "POST" else body
    refused = service.http.request(method, f"/v1/models/router/routes{path}", json=content)
    assert refused.status_code == status and reason in refused.json()["error"], refused.text

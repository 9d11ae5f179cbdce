"""Conversations stay with their routes, whichever process answers the next question."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from online.plugins.router.held_routes import delete_held_routes, load_held_route, save_held_routes
from online.store import Store
from tests.conftest import config
from tests.plugins.router.fake_upstream import FakeUpstream, serve_fake
from tests.plugins.router.test_routed_chat import ask, models, wait_learned
from tests.support import Service, until


@pytest.fixture(scope="module")
def upstream() -> Iterator[FakeUpstream]:
    with serve_fake() as fake:
        yield fake


def continue_conversation(service: Service) -> Any:
    turns = [("user", "Hello"), ("assistant", "from large"), ("user", "And then?")]
    return ask(service, messages=[{"role": role, "content": text} for role, text in turns])


def change(service: Service, method: str) -> int:
    """Retire the route `small` or restore it; return the offset of the event."""
    changed = service.http.request(method, "/v1/models/router/routes/small").raise_for_status()
    return int(changed.json()["offset"])


def test_a_conversation_stays_with_its_route_at_the_other_replica(
    tmp_path: Path, upstream: FakeUpstream, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONLINE_SECRET", "a secret of the test, long enough")
    text = models(
        upstream, {"small": "say:from small", "large": "say:from large"}, explore=0.0, explore_new=0.0, stay=0.9
    )
    one, two = (Service(tmp_path / name, config(tmp_path, text, store=postgres_url)) for name in "ab")
    try:
        assert ask(one, "other").headers["X-Route"] == "small"  # the cheaper one, while nothing is rated
        wait_learned(one, change(one, "DELETE"))
        assert ask(one, "Hello").headers["X-Route"] == "large"
        offset = change(one, "PUT")
        for service in (one, two):
            wait_learned(service, offset)
        assert ask(two, "Bonjour").headers["X-Route"] == "small"
        until(lambda: continue_conversation(two).headers["X-Route"] == "large", 10, "the route of the conversation")
    finally:
        one.stop()
        two.stop()


def test_routes_of_conversations_are_replaced_and_end_after_a_day(tmp_path: Path) -> None:
    store = Store(f"sqlite:///{tmp_path / 'online.db'}")
    for route in ("small", "large"):
        store.submit(partial(save_held_routes, model="m", routes={"c": route, "d": route})).result()
    assert store.read(lambda connection: load_held_route(connection, "m", "c")) == "large"
    assert store.read(lambda connection: load_held_route(connection, "other", "c")) == ""
    later = (datetime.now(UTC) + timedelta(minutes=1)).isoformat()
    assert store.submit(lambda connection: delete_held_routes(connection, "m", later)).result() == 2
    assert store.read(lambda connection: load_held_route(connection, "m", "c")) == ""
    store.close()

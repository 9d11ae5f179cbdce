"""The first repertoire of a ranker, where several replicas start on one empty store."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from online.serving.model_runtime import ModelRuntime
from online.store.events import head_of
from tests.api.auth.access import CHAT, build
from tests.conftest import REPERTOIRE


@pytest.fixture
def models(tmp_path: Path, postgres_url: str) -> Iterator[list[ModelRuntime]]:
    """The model of two replicas that have not started yet."""
    secret = "of the test, and long enough"
    runtimes = [
        build(tmp_path / name, CHAT, store=postgres_url, secret=secret).state.runtime for name in ("first", "second")
    ]
    yield [runtime.models["chat"] for runtime in runtimes]
    for runtime in runtimes:
        runtime.workspace.store.close()


def count_events(model: ModelRuntime) -> int:
    return model.transactions.store.read(lambda connection: head_of(connection, "chat"))


EVENTS = sum(1 + len(reply["examples"]) for reply in REPERTOIRE)


def test_replicas_that_start_at_once_add_it_once(models: list[ModelRuntime]) -> None:
    async def start() -> None:
        await asyncio.gather(*(model.add_starter_replies(will_learn=True) for model in models))

    asyncio.run(start())
    assert [count_events(model) for model in models] == [EVENTS, EVENTS]
    assert {model.readiness.starter_until for model in models} == {EVENTS}


def test_a_replica_that_found_the_log_empty_adds_nothing_once_another_has(models: list[ModelRuntime]) -> None:
    first, second = models
    assert len(asyncio.run(first.repertoire.add_first(first.starter_replies))) == len(REPERTOIRE)
    assert asyncio.run(second.repertoire.add_first(second.starter_replies)) == []
    assert count_events(second) == EVENTS

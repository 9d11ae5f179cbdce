"""Many seeded schedules of replicas that are killed between any two steps: they agree, whatever the order was."""

import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.learning.schedules import run_schedule
from tests.threadless import InlineStore

FIRST = int(os.environ.get("ONLINE_SCHEDULE", "0"))  # a seed that failed
SHORT = 1 if FIRST else 6
LONG = int(os.environ.get("ONLINE_SCHEDULES", "10000"))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InlineStore]:
    opened = InlineStore(tmp_path_factory.mktemp("schedules") / "shared.db")
    yield opened
    opened.close()


def run_schedules(store: InlineStore, redis_url: str, seeds: range) -> None:
    for seed in seeds:
        with TemporaryDirectory(dir=os.environ["PYTEST_DEBUG_TEMPROOT"]) as folder:
            try:
                run_schedule(Path(folder), store, redis_url, seed)
            except Exception as error:
                raise AssertionError(f"schedule {seed} fails: run it again with ONLINE_SCHEDULE={seed}") from error


def test_replicas_agree_after_each_schedule(store: InlineStore, redis_url: str) -> None:
    run_schedules(store, redis_url, range(FIRST, FIRST + SHORT))


def test_a_schedule_is_the_same_again(store: InlineStore, redis_url: str, tmp_path: Path) -> None:
    found = set[str]()
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        found.add(run_schedule(tmp_path / name, store, redis_url, 7))
    assert len(found) == 1


@pytest.mark.long
def test_replicas_agree_after_ten_thousand_schedules(store: InlineStore, redis_url: str) -> None:
    run_schedules(store, redis_url, range(SHORT, LONG))

"""Seeded schedules of servers and learners on a simulated event loop, with crashes, lost messages and roll backs."""

import os
from collections.abc import Iterator

import pytest

from tests.simulation.processes import Server
from tests.simulation.simulation import Simulation
from tests.threadless import InlineStore, store_of_workspaces

FIRST = int(os.environ.get("ONLINE_SCHEDULE", "0"))  # a seed that failed
SHORT = 1 if FIRST else 20
LONG = int(os.environ.get("ONLINE_SCHEDULES", "10000"))


@pytest.fixture(scope="module")
def simulation(tmp_path_factory: pytest.TempPathFactory, redis_url: str) -> Iterator[Simulation]:
    store = InlineStore(tmp_path_factory.mktemp("simulation") / "shared.db")
    with store_of_workspaces(store):
        yield Simulation(store, redis_url)
    store.close()


def run_schedules(simulation: Simulation, seeds: range) -> None:
    for seed in seeds:
        result = simulation.run(seed)
        if result.error is not None:
            raise AssertionError(f"schedule {seed} fails: run it again with ONLINE_SCHEDULE={seed}") from result.error


def test_each_schedule_keeps_what_is_promised(simulation: Simulation) -> None:
    run_schedules(simulation, range(FIRST, FIRST + SHORT))


@pytest.mark.long
def test_ten_thousand_schedules_keep_what_is_promised(simulation: Simulation) -> None:
    run_schedules(simulation, range(SHORT, LONG))


class HastyServer(Server):
    """A server with a defect: an answer leaves before it is in the journal."""

    has_late_journal = True


def test_an_answer_that_leaves_before_it_is_journalled_is_found_and_found_again(simulation: Simulation) -> None:
    hasty = Simulation(simulation.store, simulation.redis_url, HastyServer)
    failed = next(each for each in map(hasty.run, range(60)) if each.error is not None)
    again = hasty.replay(failed.tape)
    assert repr(again.error) == repr(failed.error)

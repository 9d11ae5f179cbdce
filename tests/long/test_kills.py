"""Processes that are killed many times: the short variants are in tests/e2e/test_survival.py and tests/store/test_journal_kills.py."""

import os
import random
import signal
import threading
from collections.abc import Callable
from contextlib import closing

import httpx
import pytest
from sqlalchemy import create_engine, text

from online.journal import list_segments
from tests.conftest import Start
from tests.e2e.test_survival import VECTOR, kill_learners_while_learning
from tests.serving.processes.test_workers import other_workers
from tests.support import Service, until

KILLS = 25  # of each combination
ITEMS = 200  # of one feedback request
PAUSE_S = 0.03  # between two requests of one thread: all answers are to be given feedback in the end


def test_a_learner_killed_twenty_times_reaches_the_same_state(start: Start) -> None:
    kill_learners_while_learning(start, events=5_000, kills=20)


class Askers:
    """Threads that ask the present service, and keep the ids of all answers that have reached them."""

    def __init__(self, service: Service) -> None:
        self.service, self.ids = service, list[str]()
        self._stopping = threading.Event()
        self._threads = [threading.Thread(target=self._ask, args=(size,)) for size in (1, 3)]
        for thread in self._threads:
            thread.start()

    def _ask(self, size: int) -> None:
        body = {"instances": [[0.25, 1, 2, 3]] * size}
        while not self._stopping.is_set():
            with httpx.Client(base_url=self.service.url, timeout=30) as http:
                try:
                    while not self._stopping.is_set():
                        answer = http.post("/v1/models/vec:predict", json=body)
                        if answer.status_code == 200:
                            self.ids += answer.json()["prediction_ids"]
                        self._stopping.wait(PAUSE_S)
                except httpx.TransportError:
                    self._stopping.wait(0.02)  # the process is killed, and the next one has another port

    def wait_for(self, count: int) -> None:
        before = len(self.ids)
        until(lambda: len(self.ids) >= before + count, 120, f"{count} more answers")

    def stop(self) -> list[str]:
        self._stopping.set()
        for thread in self._threads:
            thread.join()
        return self.ids


def kill_process(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def kill_copier(service: Service, killed: set[int]) -> None:
    pid = until(lambda: service.copier_pid() if service.copier_pid() not in killed else None, what="a new copier")
    killed.add(pid)
    kill_process(pid)


def kill_worker(service: Service, chance: random.Random) -> None:
    kill_process(chance.choice(until(lambda: other_workers(service), what="another worker")))


def kill_service(service: Service, start_again: Callable[[], Service], with_copier: bool) -> Service:
    copier = service.copier_pid()
    service.process.kill()
    if with_copier and copier is not None:
        kill_process(copier)
    service.process.wait()
    return start_again()


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_every_answered_prediction_takes_feedback_whatever_is_killed(
    start: Start, request: pytest.FixtureRequest, database: str, workers: int
) -> None:
    settings: dict[str, str | int | float] = {"workers": workers, "restart_max_s": 0.2, "max_instances": 1_000}
    if database == "postgres":
        settings["store"] = request.getfixturevalue("postgres_url")
    chance, killed = random.Random(f"{database} {workers}"), set[int]()
    service = start(VECTOR, **settings)
    askers = Askers(service)
    for _ in range(KILLS):
        askers.wait_for(chance.randrange(1, 150))
        victim = chance.choice(("copier", "copier", "service", "service and copier", "worker"))
        if victim == "worker" and workers > 1:
            kill_worker(service, chance)
        elif victim in ("copier", "worker"):
            kill_copier(service, killed)
        else:
            service = askers.service = kill_service(service, lambda: start(VECTOR, **settings), victim != "service")
    ids = askers.stop()
    for first in range(0, len(ids), ITEMS):
        items = [{"prediction_id": id, "label": "a"} for id in ids[first : first + ITEMS]]
        given = service.http.post("/v1/models/vec:feedback", json={"feedback": items})
        assert given.status_code == 202, given.text
    assert service.stop() == 0 and list_segments(service.state / "journal") == []
    engine = create_engine(str(settings.get("store", f"sqlite:///{service.state / 'online.db'}")))
    with closing(engine.connect()) as store:
        rated = "SELECT count(*), count(DISTINCT feedback.prediction_id) FROM feedback JOIN prediction p ON p.id = prediction_id"
        assert tuple(store.execute(text(rated)).one()) == (len(ids), len(ids))
        stored, different = store.execute(text("SELECT count(*), count(DISTINCT id) FROM prediction")).one()
        assert len(ids) <= stored == different
    engine.dispose()

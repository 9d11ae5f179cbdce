"""Accidents with the store and with Redis, while processes are killed: the exported log replays to the live state in the end.

The short variants are in tests/e2e/test_restored_logs.py and tests/e2e/test_log_identity.py.
"""

import random
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from redis import Redis
from redis.exceptions import RedisError

from tests.conftest import Start
from tests.e2e.test_log_identity import ACCIDENTS, check_state, give
from tests.e2e.test_restored_logs import bring_back, check_export, copy_database, learn_all
from tests.e2e.test_survival import VECTOR, items
from tests.long.test_kills import Askers, kill_copier, kill_service
from tests.support import PostgresBackup, Service, skip_or_fail, until

RESTORES = 6
PARTS, PART = 40, 25  # accidents with Redis, and feedback items between two of them


class Rated:
    """Gives feedback on answers; which of them a restored store does not know is found out."""

    def __init__(self) -> None:
        self.known, self.unknown = list[str](), list[str]()

    def rate(self, service: Service, ids: list[str]) -> None:
        for id in ids:
            item = {"prediction_id": id, "label": f"class {len(self.known) % 3}"}

            def answered(body: dict[str, Any] = {"feedback": [item]}) -> int | None:  # noqa: B006
                status = service.http.post("/v1/models/vec:feedback", json=body).status_code
                return status if status in (202, 404) else None

            (self.known if until(answered, 60, "an answer") == 202 else self.unknown).append(id)


def kill_something(service: Service, chance: random.Random, killed: set[int]) -> None:
    if chance.random() < 0.5:
        service.kill_learner()
    else:
        kill_copier(service, killed)


@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_a_log_that_goes_back_in_time_again_and_again_replays_to_the_live_state(
    start: Start, request: pytest.FixtureRequest, tmp_path: Path, database: str
) -> None:
    url = str(request.getfixturevalue("postgres_url")) if database == "postgres" else ""
    settings: dict[str, str | float] = {"restart_max_s": 0.2, "durable_every_s": 0.2, **({"store": url} if url else {})}
    chance, killed, rated, feedback = random.Random(database), set[int](), Rated(), iter(items(5_000))
    service = start(VECTOR, **settings)
    askers = Askers(service)
    for turn in range(RESTORES):
        with PostgresBackup(url) if url else nullcontext() as backup:
            give(service, [next(feedback) for _ in range(30)])
            rated.rate(service, askers.ids[-10:])
            if backup is None:
                copy_database(service.state, tmp_path / "backup.db")
            else:
                backup.keep()
            for _ in range(3):
                askers.wait_for(chance.randrange(5, 40))
                kill_something(service, chance, killed)
                service.wait_learned(
                    "vec", give(service, [next(feedback) for _ in range(chance.randrange(5, 60))]), 120
                )
            if backup is None:
                service = askers.service = kill_service(service, lambda: restore(start, settings, tmp_path), True)
            else:
                backup.bring_back()
            lost = askers.ids[-60:]
            rated.rate(service, chance.sample(lost, 30))
            give(service, [{**next(feedback), "id": f"{turn}-{n}"} for n in range(chance.randrange(1, 40))])
    ids = askers.stop()
    rated.rate(service, ids[-40:])
    state = learn_all(service, give(service, [next(feedback)]))
    assert service.stop() == 0
    lines = check_export(tmp_path, state, None)
    assert any("prediction_id" in line.get("event", {}) for line in lines) and len(rated.known) > 10 * RESTORES


def restore(start: Start, settings: dict[str, str | float], folder: Path) -> Service:
    bring_back(folder / "backup.db", folder / "state")
    return start(VECTOR, **settings)


@pytest.fixture
def own_redis(tmp_path: Path) -> Iterator[str]:
    """The URL of a server of its own, which may be emptied."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    try:
        command = ["redis-server", "--port", str(port), "--save", "", "--dir", str(tmp_path)]
        server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    except FileNotFoundError:
        skip_or_fail("redis-server is not installed")
    url = f"redis://127.0.0.1:{port}/0"
    until(lambda: answers(url), what="the start of Redis")
    yield url
    server.kill()
    server.wait()


def answers(url: str) -> bool:
    try:
        return bool(Redis.from_url(url).ping())
    except RedisError:
        return False


def test_nothing_is_lost_or_learned_twice_whatever_is_deleted_in_redis_and_whoever_is_killed(
    start: Start, own_redis: str
) -> None:
    redis: Any = Redis.from_url(own_redis)
    accidents: list[Callable[[Any, bytes], object]] = [*ACCIDENTS.values(), lambda redis, key: redis.flushdb()]
    settings: dict[str, str | float] = {"stream": own_redis, "restart_max_s": 0.2, "durable_every_s": 0.2}
    chance, killed = random.Random(1), set[int]()
    service, feedback = start(VECTOR, **settings), items(PARTS * PART)[: PARTS * PART]
    last = 0
    for part in range(PARTS):
        last = give(service, feedback[PART * part : PART * (part + 1)])
        for key in redis.scan_iter("online:*:stream:vec"):
            if redis.type(key) == b"stream" and redis.xlen(key):
                chance.choice(accidents)(redis, key)
        victim = chance.choice(("nobody", "learner", "copier", "service"))
        if victim == "learner":
            service.kill_learner()
        elif victim == "copier":
            kill_copier(service, killed)
        elif victim == "service":
            service = kill_service(service, lambda: start(VECTOR, **settings), with_copier=True)
        if chance.random() < 0.5:
            service.wait_learned("vec", last)
    service.wait_learned("vec", last)
    check_state(service, feedback, last)
    assert service.http.get("/readyz").json()["ready"] is True
    assert service.stop() == 0

"""A service whose database is replaced by an older one while it runs, and a Redis that somebody else writes to."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest
from redis import Redis

from tests.conftest import Start
from tests.e2e.test_survival import VECTOR, WAIT_MS, expected_state, items
from tests.support import PostgresBackup, Service, run_online, until


def give(service: Service, feedback: list[dict[str, Any]]) -> int:
    """Give feedback and return its last offset. Connections that a fail-over ended are opened again."""

    def acknowledged() -> httpx.Response | None:
        response = service.http.post("/v1/models/vec:feedback", json={"feedback": feedback})
        return response if response.status_code == 202 else None

    return int(until(acknowledged, what="an acknowledgement").json()["receipts"][-1]["offset"])


def check_state(service: Service, feedback: list[dict[str, Any]], offset: int) -> None:
    """The live version is what a model would be that had learned this feedback and nothing else."""

    def live() -> dict[str, Any] | None:
        versions = (each for each in service.versions("vec") if each["live"] and each["learned_until"] == offset)
        return next(versions, None)

    assert until(live, what=f"a live version of {offset} events")["state_sha256"] == expected_state(feedback)


@pytest.mark.parametrize("with_redis", [False, pytest.param(True, marks=pytest.mark.long)], ids=["store", "redis"])
def test_a_failover_to_a_stale_replica_is_noticed_said_and_learned(
    request: pytest.FixtureRequest, start: Start, postgres_url: str, with_redis: bool
) -> None:
    stream = {"stream": request.getfixturevalue("redis_url")} if with_redis else {}
    service, feedback = start(VECTOR, store=postgres_url, **stream), items(60)
    client = service.client("vec")
    with PostgresBackup(postgres_url) as backup:
        kept = give(service, feedback[:20])
        service.wait_learned("vec", kept)
        backup.keep()
        lost = give(service, feedback[20:50])
        service.wait_learned("vec", lost)
        newest = client.versions()[0]["version"]
        service.http.put("/v1/models/vec/version_labels/stable", json={"version": newest}).raise_for_status()
        backup.bring_back()
        offset = give(service, feedback[50:])
        assert offset < lost, "an offset is used again"
        notice = until(lambda: service.http.get("/readyz").json()["models"]["vec"].get("set_aside"), what="the notice")
        assert newest in notice["versions"] and notice["labels"] == ["stable"]
        assert notice["learned_until"] in (lost, lost + 1)  # or with the label, which is an event, too
        figures = {"head": notice["head"], "learned_until": notice["learned_until"]}
        assert notice["cause"] == {"code": "log_ends_early", "figures": figures}
        answer = client.predict([[0, 0, 0, 0]], min_offset=offset, timeout_ms=WAIT_MS)
        assert answer["learned_until"] == offset and int(answer["model_version"]) > int(newest)
        check_state(service, feedback[:20] + feedback[50:], offset)
        until(lambda: service.http.get("/readyz").status_code == 200, what="readiness")
        assert client.feedback_status(feedback[-1]["id"])["status"] == "learned"
        assert "stable" not in str(service.http.get("/v1/models/vec/versions").json()["labels"])
        assert "snapshots set aside" in service.output
        assert service.stop() == 0
    state = ("--state", str(service.state), "--config", str(service.state.parent / "state.toml"))
    shown = (run_online("versions", *state, *flags) for flags in ((), ("--forget-set-aside",)))
    assert ["were set aside" in process.stdout for process in shown] == [True, False]


def wait_repairs(service: Service, count: int) -> None:
    line = f'online_stream_repairs_total{{model="vec"}} {count}.0\n'
    until(lambda: line in service.http.get("/metrics").text, what=f"repair {count} of the copy in Redis")


@pytest.mark.long
def test_a_service_learns_what_is_in_its_log_whatever_others_write_to_redis(start: Start, redis_url: str) -> None:
    redis: Any = Redis.from_url(redis_url)
    others = set(redis.scan_iter("online:*:stream:vec"))
    service, feedback = start(VECTOR, stream=redis_url), items(60)
    service.wait_learned("vec", give(service, feedback[:20]))
    key = next(key for key in redis.scan_iter("online:*:stream:vec") if key not in others)
    ours = redis.xrevrange(key, count=1)[0][1]
    both = redis.pipeline(transaction=True)  # one repair: the copy is looked at every second, also between two commands
    both.xadd(key, {"body": ours[b"body"], "features": ours[b"features"]}).xadd(key, {"mac": "?"}).execute()
    service.wait_learned("vec", give(service, feedback[20:40]))
    wait_repairs(service, 1)  # before the next damage, which one repair would otherwise mend with this one
    redis.set(key, "not a stream")
    last = give(service, feedback[40:])
    service.wait_learned("vec", last)
    check_state(service, feedback, last)
    wait_repairs(service, 2)
    assert "the copy in Redis is written again" in service.output
    assert service.stop() == 0
    redis.delete(key)


ACCIDENTS: dict[str, Callable[[Any, bytes], object]] = {
    "trimmed to nothing": lambda redis, key: redis.xtrim(key, maxlen=0, approximate=False),
    "trimmed to the end": lambda redis, key: redis.xtrim(key, maxlen=3, approximate=False),
    "its newest entry deleted": lambda redis, key: redis.xdel(key, redis.xrevrange(key, count=1)[0][0]),
    "entries in the middle deleted": lambda redis, key: redis.xdel(key, *(f"{n}-1" for n in range(5, 15))),
    "deleted": lambda redis, key: redis.delete(key),
    "a list": lambda redis, key: redis.delete(key) and redis.rpush(key, "what?"),
}


@pytest.mark.long
def test_a_copy_that_is_emptied_under_a_running_learner_is_filled_again_and_nothing_is_learned_twice(
    start: Start, redis_url: str
) -> None:
    redis: Any = Redis.from_url(redis_url)
    others = set(redis.scan_iter("online:*:stream:vec"))
    service, feedback = start(VECTOR, stream=redis_url), items(140)[:140]
    last = give(service, feedback[:20])
    for number, accident in enumerate(ACCIDENTS.values(), 1):
        service.wait_learned("vec", last)
        key = wait_copied(redis, others, last)
        accident(redis, key)
        last = give(service, feedback[20 * number : 20 * number + 20])
    service.wait_learned("vec", last)
    check_state(service, feedback, last)
    assert redis.xlen(wait_copied(redis, others, last)) == last, "the copy is whole again"
    assert service.stop() == 0
    redis.delete(key)


def wait_copied(redis: Any, others: set[bytes], offset: int) -> bytes:
    """Return the key of the service's copy once that ends at an offset."""

    def find() -> bytes | None:
        key = next((key for key in redis.scan_iter("online:*:stream:vec") if key not in others), None)
        is_copied = key and redis.type(key) == b"stream" and redis.xrevrange(key, count=1)[:1]
        return key if is_copied and is_copied[0][0] == b"%d-1" % offset else None

    return bytes(until(find, what=f"the copy until offset {offset}"))


@pytest.mark.long
def test_a_service_without_a_learner_says_that_its_versions_are_of_another_log(start: Start) -> None:
    service = start(VECTOR)
    service.wait_learned("vec", give(service, items(5)))
    service.stop()
    for path in service.state.glob("online.db*"):
        path.unlink()
    service = start(VECTOR, flags=("--no-learner",))
    ready = service.http.get("/readyz")
    assert ready.status_code == 503
    assert ready.json()["models"]["vec"]["reason"] == "the log of vec ends at offset 0, but was learned until 5"
    assert service.stop() == 0

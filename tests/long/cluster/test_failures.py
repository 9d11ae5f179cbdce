"""Parts of a cluster that fail while it works, one after another, and what its clients see of each.

Redis is a copy: without it everything goes on. Postgres is the truth: without it predictions go on, and feedback is refused
until it is back, which clients then send again. The single-service versions are in tests/e2e/test_log_identity.py.
"""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from online.schemas.events import Event, chain_digest
from tests.cluster.agreement import hash_at, list_entries, read_log, wait_equal
from tests.cluster.history import check_log, check_states
from tests.cluster.local_cluster import LOOPBACK, LocalCluster, Replica, wait_for
from tests.cluster.servers import MissingServer, OwnPostgres, OwnRedis
from tests.support import skip_or_fail

pytestmark = pytest.mark.long

FEEDBACK, PREDICT = "/v1/models/vec:feedback", "/v1/models/vec:predict"
SLOWEST_S = 5.0  # answer while Redis fails
NOTICED_S = 3.0  # until answers say that Postgres is away
FAKETIME = Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1")


@dataclass
class Scene:
    """A cluster, its servers, and what its clients were answered."""

    cluster: LocalCluster
    store: str
    redis: OwnRedis | None = None
    given: list[str] = field(default_factory=list)
    seen: dict[str, int] = field(default_factory=dict)
    slowest_s: float = 0.0

    def items(self, count: int) -> list[dict[str, Any]]:
        first = len(self.given)
        self.given += [f"item-{n}" for n in range(first, first + count)]
        return [
            {"id": f"item-{n}", "input": [n % 3, n % 2, 1, n % 5], "label": f"class {n % 3}"}
            for n in range(first, first + count)
        ]

    def post(self, replica: Replica, path: str, body: object, timeout_s: float = 60.0) -> httpx.Response:
        began = time.monotonic()
        answer = httpx.post(replica.url + path, json=body, timeout=timeout_s, trust_env=False)
        self.slowest_s = max(self.slowest_s, time.monotonic() - began)
        name = f"{path.rpartition(':')[2]} {answer.status_code}"
        self.seen[name] = self.seen.get(name, 0) + 1
        return answer

    def give(self, replica: Replica, count: int = 5) -> int:
        """Give feedback that is acknowledged at once; return its last offset."""
        answer = self.post(replica, FEEDBACK, {"feedback": self.items(count)})
        assert answer.status_code == 202, f"{answer.status_code} {answer.text}"
        return int(answer.json()["receipts"][-1]["offset"])

    def predict(self, replica: Replica, min_offset: int | None = None) -> dict[str, Any]:
        body: dict[str, Any] = {"instances": [[0, 0, 0, 0]]}
        body |= {} if min_offset is None else {"min_offset": min_offset, "timeout_ms": 30_000}
        answer = self.post(replica, PREDICT, body)
        assert answer.status_code == 200, f"{answer.status_code} {answer.text}"
        content: dict[str, Any] = answer.json()
        return content

    def use_all(self, rounds: int = 3) -> int:
        """Give and predict at each replica in turn, and read what was written at the next one; return the last offset."""
        replicas, last = self.cluster.replicas, 0
        for number in range(rounds * len(replicas)):
            last = self.give(replicas[number % len(replicas)])
            learned = self.predict(replicas[(number + 1) % len(replicas)], last)["learned_until"]
            assert learned >= last, f"{learned} is learned, and {last} was asked for"
        return last

    def check_agreed(self, until: int, timeout_s: float = 30.0) -> float:
        """Every replica is equal to one process that learns the log, and each feedback is in it once; return after how long."""
        states, seconds = wait_equal(self.cluster.replicas, until, timeout_s)
        events = read_log(self.store)
        assert [*check_log(list_entries(events))] == []
        assert [*check_states(states, hash_at(events))] == []
        assert {event.id for event in events if event.kind == "label"} == {*self.given}
        return seconds

    def print_seen(self, capsys: pytest.CaptureFixture[str], name: str, more: str = "") -> None:
        with capsys.disabled():
            print(f"\n{name}: {self.seen}, slowest answer {self.slowest_s:.2f} s{more}")
        self.seen, self.slowest_s = {}, 0.0


# Redis


@pytest.fixture(scope="module")
def with_redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """Two replicas with a Redis of their own."""
    folder = tmp_path_factory.mktemp("failures")
    try:
        redis, server = OwnRedis(folder / "redis"), OwnPostgres()
    except MissingServer as error:
        skip_or_fail(str(error))
    with LocalCluster(folder / "cluster", server.url, redis.url, namespaces=False, durable_every_s=0.3) as cluster:
        yield Scene(cluster, server.url, redis)
    redis.kill()
    server.close()


def delay_all(scene: Scene, seconds: float) -> None:
    for replica in scene.cluster.replicas:
        assert replica.stream_link is not None
        replica.stream_link.delay(seconds)


def redis_of(scene: Scene) -> OwnRedis:
    assert scene.redis is not None
    return scene.redis


def start_empty(scene: Scene) -> None:
    redis_of(scene).kill()
    redis_of(scene).start()


def delete_newest(scene: Scene) -> None:
    redis, key = redis_of(scene).client, redis_of(scene).find_copy()
    redis.xdel(key, redis.xrevrange(key, count=1)[0][0])


def trim(scene: Scene) -> None:
    redis_of(scene).client.xtrim(redis_of(scene).find_copy(), maxlen=3, approximate=False)


def fill_memory(scene: Scene) -> None:
    redis_of(scene).client.config_set("maxmemory-policy", "noeviction")
    redis_of(scene).client.config_set("maxmemory", "1")


def nothing(scene: Scene) -> None: ...


Fault = tuple[Callable[[Scene], object], Callable[[Scene], object]]  # what breaks it, what mends it
REDIS: dict[str, Fault] = {
    "dead": (lambda scene: redis_of(scene).kill(), lambda scene: redis_of(scene).start()),
    "slow": (lambda scene: delay_all(scene, 0.2), lambda scene: delay_all(scene, 0)),
    "frozen": (
        lambda scene: redis_of(scene).signal(signal.SIGSTOP),
        lambda scene: redis_of(scene).signal(signal.SIGCONT),
    ),
    "flushed": (lambda scene: redis_of(scene).client.flushall(), nothing),
    "restarted empty": (start_empty, nothing),
    "trimmed": (trim, nothing),
    "its newest entry deleted": (delete_newest, nothing),
    "out of memory": (fill_memory, lambda scene: redis_of(scene).client.config_set("maxmemory", "0")),
}


@pytest.mark.parametrize("name", REDIS)
def test_serving_feedback_and_learning_go_on_whatever_happens_to_redis(
    with_redis: Scene, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    scene, (damage, mend) = with_redis, REDIS[name]
    before = scene.use_all(1)
    wait_for(lambda: redis_of(scene).copied_until() == before, 30, f"copy until {before}")
    scene.seen, scene.slowest_s = {}, 0.0
    damage(scene)
    last = scene.use_all()
    seen_slowest_s = scene.slowest_s
    mend(scene)
    began = time.monotonic()
    wait_for(lambda: redis_of(scene).copied_until() >= last, 30, f"copy until {last}, after Redis was {name}")
    rebuilt_s = time.monotonic() - began
    last = scene.use_all(1)
    equal_s = scene.check_agreed(last)
    scene.print_seen(capsys, f"Redis {name}", f"; copy whole {rebuilt_s:.2f} s after, equal after {equal_s:.2f} s")
    assert seen_slowest_s < SLOWEST_S


def test_a_redis_that_takes_over_and_missed_writes_is_completed(
    with_redis: Scene, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scene, standby = with_redis, OwnRedis(tmp_path)
    try:
        before = scene.use_all(1)
        wait_for(lambda: redis_of(scene).copied_until() == before, 30, "copy")
        standby.client.replicaof(LOOPBACK, redis_of(scene).port)
        wait_for(lambda: standby.copied_until() == before, 30, "copy of the copy")
        standby.client.replicaof("NO", "ONE")
        missed = scene.use_all(1)
        for replica in scene.cluster.replicas:
            assert replica.stream_link is not None
            replica.stream_link.target = (LOOPBACK, standby.port)
            replica.stream_link.reset()
        last = scene.use_all()
        assert last > missed > before
        wait_for(lambda: standby.copied_until() >= last, 30, f"copy until {last} in the standby")
        equal_s = scene.check_agreed(last)
        scene.print_seen(capsys, "Redis failed over and had missed writes", f"; equal after {equal_s:.2f} s")
    finally:
        for replica in scene.cluster.replicas:
            assert replica.stream_link is not None
            replica.stream_link.target = (LOOPBACK, redis_of(scene).port)
            replica.stream_link.reset()
        standby.kill()


# Postgres


def check_refused(scene: Scene, replica: Replica, items: list[dict[str, Any]]) -> None:
    """Feedback is refused with 503, and the client learns when to try again."""
    answer = scene.post(replica, FEEDBACK, {"feedback": items})
    assert answer.status_code == 503, f"{answer.status_code} {answer.text}"
    assert int(answer.headers["retry-after"]) >= 1 and answer.json()["error"]


def repeat_until_acknowledged(scene: Scene, items: list[dict[str, Any]], times: int = 2) -> int:
    """Send the same several times to each replica; every acknowledgement has the same offsets."""
    offsets = set[tuple[int, ...]]()
    for replica in scene.cluster.replicas * times:

        def acknowledged(replica: Replica = replica) -> tuple[int, ...] | None:
            answer = scene.post(replica, FEEDBACK, {"feedback": items})
            return tuple(each["offset"] for each in answer.json()["receipts"]) if answer.status_code == 202 else None

        offsets.add(wait_for(acknowledged, 60, "acknowledgement"))
    assert len(offsets) == 1, f"the same feedback has {offsets}"
    return offsets.pop()[-1]


def is_in_journal(scene: Scene, replica: Replica) -> bool:
    """Whether an answer says that its prediction is in the journal only."""
    answer = scene.post(replica, PREDICT, {"instances": [[0, 0, 0, 0]]})
    return bool(answer.headers.get("x-recorded") == "journal")


@pytest.mark.parametrize("how", ["dead", "half-open"])
def test_predictions_go_on_without_postgres_and_feedback_is_refused_and_taken_later(
    tmp_path: Path, own_postgres: OwnPostgres, how: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with LocalCluster(tmp_path, own_postgres.url, namespaces=False, durable_every_s=0.3, restart_max_s=0.5) as cluster:
        scene = Scene(cluster, own_postgres.url)
        last = scene.use_all()
        scene.check_agreed(last)
        if how == "dead":
            own_postgres.stop()
        else:
            for link in cluster.links():
                link.freeze()
        scene.seen, scene.slowest_s = {}, 0.0
        meanwhile, ids = scene.items(4), list[str]()
        for replica in cluster.replicas:
            for _ in range(3):
                answer = scene.predict(replica)
                assert answer["learned_until"] == last
                ids += answer["prediction_ids"]
        predicted_s = scene.slowest_s
        for replica in cluster.replicas:
            wait_for(partial(is_in_journal, scene, replica), NOTICED_S, "header that says where a prediction is")
            check_refused(scene, replica, meanwhile)
        if how == "dead":
            own_postgres.start()
        cluster.heal()
        began = time.monotonic()
        repeat_until_acknowledged(scene, meanwhile)
        back_s = time.monotonic() - began
        rated = [{"id": f"rated-{id}", "prediction_id": id, "label": "class 1"} for id in ids]
        scene.given += [str(each["id"]) for each in rated]
        last = repeat_until_acknowledged(scene, rated)
        equal_s = scene.check_agreed(last)
        scene.print_seen(
            capsys,
            f"Postgres {how}",
            f", slowest prediction {predicted_s:.2f} s; acknowledged {back_s:.1f} s after it was back, equal after {equal_s:.1f} s",
        )
        assert predicted_s < 1.0


def test_a_standby_that_lacks_the_last_commits_takes_over_and_every_replica_learns_its_log(
    tmp_path: Path, own_postgres: OwnPostgres, capsys: pytest.CaptureFixture[str]
) -> None:
    with LocalCluster(tmp_path, own_postgres.url, namespaces=False, durable_every_s=0.3, restart_max_s=0.5) as cluster:
        scene = Scene(cluster, own_postgres.url)
        kept = scene.use_all()
        scene.check_agreed(kept)
        standby = own_postgres.add_standby()
        wait_for(lambda: len(read_log(standby.url)) == kept, 30, "everything in the standby")
        standby.stop_following()
        known = len(scene.given)
        lost = scene.use_all()
        scene.check_agreed(lost)
        own_postgres.stop()
        standby.promote()
        for replica in cluster.replicas:
            replica.store_link.target = (LOOPBACK, standby.port)
            replica.store_link.reset()
        scene.store = standby.url
        lost_ids, scene.given = scene.given[known:], scene.given[:known]
        scene.seen, scene.slowest_s = {}, 0.0
        began = time.monotonic()
        new = [{"id": f"new-{n}", "input": [n, 1, 0, 0], "label": "class 2"} for n in range(3)]
        scene.given += [str(each["id"]) for each in new]
        last = repeat_until_acknowledged(scene, new)
        assert last < lost, "an offset is used again"
        equal_s = scene.check_agreed(last, 60)
        settled_s = time.monotonic() - began
        for replica in cluster.replicas:
            assert scene.predict(replica, last)["learned_until"] == last
            assert "snapshots set aside" in replica.output
        for id in lost_ids[:3]:  # its client finds that it is not known, and sends it again
            assert httpx.get(f"{cluster.replicas[0].url}/v1/models/vec/feedback/{id}").status_code == 404
        scene.print_seen(
            capsys,
            f"Postgres failed over and {lost - kept} events were lost",
            f"; equal {settled_s:.1f} s after, {equal_s:.1f} s after the last acknowledgement",
        )


def test_a_transaction_that_commits_late_is_neither_skipped_nor_passed(
    tmp_path: Path, own_postgres: OwnPostgres, capsys: pytest.CaptureFixture[str]
) -> None:
    with LocalCluster(tmp_path, own_postgres.url, namespaces=False, durable_every_s=0.3) as cluster:
        scene = Scene(cluster, own_postgres.url)
        head = scene.use_all()
        scene.check_agreed(head)
        events = read_log(own_postgres.url)
        late, visible = make_events(events, 2)
        server = own_postgres.url.replace("+psycopg", "")
        with psycopg.connect(server) as first, psycopg.connect(server) as second:
            insert_event(first, late)
            insert_event(second, visible)
            second.commit()
            states, _ = wait_equal(cluster.replicas, head)
            answer = scene.post(
                cluster.replicas[0],
                PREDICT,
                {"instances": [[0, 0, 0, 0]], "min_offset": visible.offset, "timeout_ms": 1_500},
            )
            assert answer.status_code >= 400, "an event was learned before the one in front of it"
            assert {each.learned_until for each in states} == {head}
            first.commit()
        scene.given += [late.id, visible.id]
        for replica in cluster.replicas:
            assert scene.predict(replica, visible.offset)["learned_until"] >= visible.offset
        equal_s = scene.check_agreed(visible.offset)
        scene.print_seen(capsys, "a later offset was visible first", f"; equal {equal_s:.2f} s after the late commit")


def make_events(log: list[Event], count: int) -> list[Event]:
    """Return events that continue a log, with their digests."""
    made, offset, digest = list[Event](), log[-1].offset, log[-1].digest
    for number in range(count):
        offset += 1
        event = Event(f"late-{number}", "label", log[0].features, "class 0")
        digest = chain_digest(digest, offset, event)
        made.append(event.at(offset, digest))
    return made


def insert_event(connection: "psycopg.Connection[Any]", event: Event) -> None:
    """Insert an event without the lock of the log, as no transaction of the product does."""
    columns = 'model, "offset", id, label, features, body, kind, source, digest'
    values = (
        "vec",
        event.offset,
        event.id,
        event.label,
        event.features,
        event.body(),
        "label",
        "feedback",
        event.digest,
    )
    connection.execute(f"INSERT INTO event ({columns}) VALUES ({', '.join(['%s'] * len(values))})", values)
    connection.execute("SELECT pg_notify('online', 'vec')")


# clocks


def test_clocks_that_jump_change_nothing_that_is_learned(
    tmp_path: Path, own_postgres: OwnPostgres, capsys: pytest.CaptureFixture[str]
) -> None:
    library = next((path for path in FAKETIME.parent.parent.parent.glob("*/faketime/libfaketime.so.1")), FAKETIME)
    if not library.exists():
        skip_or_fail("libfaketime is not installed: a clock that jumps cannot be shown")
    files = [tmp_path / f"clock-{number}" for number in (1, 2)]
    for file in files:
        set_clock(file, "+0")
    cluster = LocalCluster(tmp_path / "cluster", own_postgres.url, namespaces=False, durable_every_s=0.3)
    for replica, file in zip(cluster.replicas, files, strict=True):
        faked = {"LD_PRELOAD": str(library), "FAKETIME_TIMESTAMP_FILE": str(file), "FAKETIME_NO_CACHE": "1"}
        replica.variables = {
            **replica.variables,
            **faked,
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "DONT_FAKE_MONOTONIC": "1",
        }
    with cluster:
        scene = Scene(cluster, own_postgres.url)
        last = scene.use_all(1)
        for first, second in (("+3d", "-2h"), ("-400d", "+10y"), ("+0", "+0")):
            set_clock(files[0], first)
            set_clock(files[1], second)
            last = scene.use_all(2)
        equal_s = scene.check_agreed(last)
        with suppress(httpx.HTTPError):
            scene.predict(cluster.replicas[0])
    scene.print_seen(capsys, "clocks jumped", f"; equal after {equal_s:.2f} s")


def set_clock(file: Path, offset: str) -> None:
    """Set the clock of the processes that read a file."""
    aside = file.with_suffix(".new")
    aside.write_text(f"{offset}\n")
    os.replace(aside, file)

r"""A seeded schedule of several replicas: which step is next, and where each is killed, follows from one number.

    append, relay, learn, look, damage Redis, cut off from Redis, kill    one step at a time, of a random replica
         \__ with a crash before or after each write that others see: claim, files, live, entry in Redis, deletion of the copy

No thread and no clock decides anything, so a seed that fails fails again: `ONLINE_SCHEDULE=417 pytest -k schedule`. All replicas use
one store of this process, and nothing waits, so that ten thousand of them take an hour.
"""

import random
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from redis import Redis

from online.errors import Unavailable
from online.learning.learner import Learner
from online.schemas.events import Event
from online.snapshots.agreed import Publication
from online.store.publications import StoredPublications, load_serving
from online.stream.redis import RedisStream
from online.stream.relay import relay
from online.stream.verified import VerifiedStream
from tests.learning.scene import Scene, retraction, vector_events
from tests.threadless import InlineExecutor, InlineStore, store_of_workspaces

T = TypeVar("T")

REPLICAS, EVENTS = 3, (2, 14)  # how many events there are is drawn too
CRASHES = 0.04  # chance at each of the points
SECRET = b"of the copies"


class Crash(BaseException):
    """The process is killed here."""


class CrashPoints:
    """Raises Crash before or after a call, at random."""

    def __init__(self, draw: random.Random) -> None:
        self.draw, self.is_active, self.count = draw, True, 0

    def around(self, call: Callable[..., T]) -> Callable[..., T]:
        """Return the call with a point before it and one after it."""

        def run(*given: Any, **named: Any) -> T:
            self._reach()
            result = call(*given, **named)
            self._reach()
            return result

        return run

    def _reach(self) -> None:
        if self.is_active and self.draw.random() < CRASHES:
            self.count += 1
            raise Crash


class SlowClock:
    """A clock that goes on by itself at each look."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        self.now += 0.03
        return self.now


class UnreachableRedis(RedisStream):
    """A copy in Redis that may be out of reach."""

    is_cut = False

    def _call(self, call: Callable[..., Any], *args: object, **kwargs: object) -> Any:
        if self.is_cut:
            raise Unavailable("Redis is cut off")
        return super()._call(call, *args, **kwargs)

    def read(self, after: int, count: int, block_ms: float = 0, digest: str = "") -> list[Event]:
        """Read without a wait: nobody appends meanwhile."""
        return super().read(after, count, digest=digest)


class ScheduledReplica(Scene):
    """A replica whose learner reads the copy in Redis and whose relay writes it."""

    def __init__(self, folder: Path, copy: UnreachableRedis, points: CrashPoints, name: str) -> None:
        self.copy, self.points, self.name, self.clock = copy, points, name, SlowClock()
        super().__init__(folder)

    def start_learner(self, **settings: Any) -> Learner:
        """Start it as a new process does, with points of crashes around all that others see."""
        verified = VerifiedStream(self.copy, self.stream, self.clock)
        source, self.stream = self.stream, verified  # type: ignore[assignment]
        try:
            learner = super().start_learner(
                replica=self.name, clock=self.clock, publish_every_ms=20.0, durable_every_s=0.2
            )
        finally:
            self.stream = source
        learner.publisher.disk_writer.shutdown()
        learner.publisher.disk_writer = InlineExecutor()  # type: ignore[assignment]
        agreement = learner.publisher.agreement
        assert agreement is not None
        agreement.claim = self.points.around(agreement.claim)  # type: ignore[method-assign]
        writer = self.snapshots.publisher
        if not hasattr(writer, "has_points"):
            writer.place = self.points.around(writer.place)  # type: ignore[method-assign]
            writer.prepare = self.points.around(writer.prepare)  # type: ignore[method-assign]
            writer.has_points = True  # type: ignore[attr-defined]
        return learner

    def kill_and_start(self) -> None:
        """Start again after a kill, until that succeeds."""
        while True:
            try:
                self.learner = self.start_learner()
                return
            except Crash:
                continue

    def step(self) -> None:
        try:
            self.learner.step()
        except Crash:
            self.kill_and_start()

    def relay(self) -> None:
        try:
            relay(self.stream, self.copy, count=3)
        except (Crash, Unavailable):
            return

    def served(self) -> tuple[int, str]:
        live = self.snapshots.folder.live()
        return (0, "") if live is None else (live.version, self.snapshots.folder.manifest(live.version).state_sha256)

    def served_by_store(self) -> tuple[int, str]:
        state = self.workspace.store.read(lambda connection: load_serving(connection, "m"))
        if state is None or not state.live:
            return 0, ""
        found = self.workspace.store.read(lambda connection: StoredPublications(connection, "m").find(state.live))
        return (0, "") if found is None else (state.live, found.state_sha256)

    def publications(self) -> list[Publication]:
        return self.workspace.store.read(lambda connection: StoredPublications(connection, "m").list(1_000))[::-1]

    def follow(self) -> None:
        """Step until it serves what the store says, and that is the whole log."""
        for _ in range(500):
            self.relay()
            self.learner.publisher.agreement.look(is_due=True)  # type: ignore[union-attr]
            self.step()
            if self.served() == self.served_by_store() and self.live_until() == self.stream.head():
                return
        raise AssertionError(f"{self.served()} is served, and not {self.served_by_store()}")


def run_schedule(folder: Path, store: InlineStore, redis_url: str, seed: int) -> str:
    """Run a schedule, heal everything, and check that all agree; return the state hash. Raises AssertionError.

    folder: empty. store: is emptied first.
    """
    store.empty()
    draw = random.Random(seed)
    points = CrashPoints(draw)
    points.is_active = False
    namespace = f"online:{uuid.uuid4().hex}"
    replicas = list[ScheduledReplica]()
    with store_of_workspaces(store):
        for number in range(REPLICAS):
            copy = UnreachableRedis(redis_url, "m", namespace, SECRET)
            copy._write = points.around(copy._write)  # type: ignore[method-assign]
            copy.clear = points.around(copy.clear)  # type: ignore[method-assign]
            replicas.append(ScheduledReplica(folder / f"replica-{number}", copy, points, f"replica-{number}"))
    redis: Any = replicas[0].copy.redis
    try:
        points.is_active = True
        play(draw, replicas, redis)
        points.is_active = False
        for replica in replicas:
            replica.copy.is_cut = False
        for replica in [*replicas, *replicas]:
            replica.follow()
        return check_agreed(replicas)
    finally:
        points.is_active = False
        redis.delete(replicas[0].copy.key, replicas[0].copy.ids)
        for replica in replicas:
            replica.copy.close()
            replica.stream.close()


def play(draw: random.Random, replicas: list[ScheduledReplica], redis: Redis) -> None:
    """Do one step after another until all events are in the log."""
    events, retracted = vector_events(draw.randint(*EVENTS)), set[int]()
    while events:
        replica = draw.choice(replicas)
        match draw.randrange(20):
            case 0:
                replica.kill_and_start()
            case 1 | 2 | 3:
                replica.stream.append(events.pop(0))
            case 4 if (head := replica.stream.head()) and (target := draw.randint(1, head)) not in retracted:
                if is_label(replica, target):
                    retracted.add(target)
                    replica.stream.append(retraction(replica.stream, target))
            case 5:
                damage(draw, replica, redis)
            case 6:
                replica.copy.is_cut = not replica.copy.is_cut
            case 7 | 8 | 9:
                replica.relay()
            case _:
                replica.step()


def is_label(replica: ScheduledReplica, offset: int) -> bool:
    event: Event = replica.stream.read(offset - 1, 1)[0]
    return event.kind == "label"


def damage(draw: random.Random, replica: ScheduledReplica, redis: Any) -> None:
    """Delete something of the copy, as somebody else does."""
    key = replica.copy.key
    match draw.randrange(4):
        case 0:
            redis.delete(key)
        case 1:
            redis.delete(key, replica.copy.ids)
        case 2:
            redis.xtrim(key, maxlen=2, approximate=False)
        case _:
            if rows := redis.xrevrange(key, count=1):
                redis.xdel(key, rows[0][0])


def check_agreed(replicas: list[ScheduledReplica]) -> str:
    """Check that every replica serves one version, with the state of one process; return the hash."""
    [(_, sha256)] = {replica.served() for replica in replicas}
    first = replicas[0]
    log = first.stream.read(0, 10_000)
    gone = {event.target.id for event in log if event.kind == "retraction" and event.target is not None}
    assert {replica.fingerprint() for replica in replicas} == {sha256} == {first.fingerprint_without(*gone)}
    assert [event.offset for event in log] == [*range(1, len(log) + 1)] and len({event.id for event in log}) == len(log)
    published = first.publications()
    places = [each.place for each in published]
    assert places == sorted(set(places)), "a version was published twice, or an older state after a newer one"
    assert [each.parent for each in published[1:]] == [each.version for each in published[:-1]]
    copied = first.copy.read(0, 10_000)
    assert [event.offset for event in copied] == [*range(1, len(log) + 1)], "the copy is not whole"
    return sha256

"""A schedule: clients, faults, and what must be true whatever the order was.

clients     predict, also with min_offset; give feedback, again and again until it is acknowledged; retract it
faults      kill a process, cut Redis off, damage the copy in it, roll back a version
after that  everything works again, and all must agree
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import simloom
from sqlalchemy import select

from online.errors import Conflict, CorruptSnapshot, NotFound, NotLearnedYet, Unavailable
from online.models import Example, create
from online.schemas.access.callers import SERVICE, Caller
from online.schemas.events import Event
from online.schemas.feedback import FeedbackItem, Receipt
from online.schemas.predict import PredictRequest
from online.serving.model_runtime import ModelRuntime
from online.store.events import read_events
from online.store.predictions import PREDICTIONS
from online.store.publications import StoredPublications
from tests.simulation.processes import LearnerProcess, Server, Site, Unreachable
from tests.simulation.seams import PowerSwitch

T = TypeVar("T")

MODEL = "m"
CLIENTS, ROUNDS, FAULTS = 2, 3, 6
AGREED_WITHIN_S = 60.0  # of simulated time, once nothing fails any more
KEPT_WITHIN_S = 30.0


@dataclass(frozen=True)
class Answered:
    """A prediction as a client received it."""

    id: str
    choice: str | None
    version: int


@dataclass
class Replica:
    """A server and a learner on one state folder."""

    server: Server
    learner: LearnerProcess


@dataclass
class Record:
    """The knowledge of the clients. acknowledged, retracted: id of feedback -> offset. roll_backs: begun or ended."""

    answered: list[Answered] = field(default_factory=list)
    acknowledged: dict[str, int] = field(default_factory=dict)
    retracted: dict[str, int] = field(default_factory=dict)
    roll_backs: int = 0


class Client:
    """Sends one request after the other, each to any replica."""

    def __init__(self, number: int, replicas: list[Replica], record: Record) -> None:
        self.number, self.replicas, self.record = number, replicas, record
        self.caller: Caller = replace(SERVICE, id=f"client-{number}")
        self.acknowledged_until = 0
        self.unrated = list[Answered]()
        self.seen = dict[int, tuple[int, int]]()  # replica -> version of its last answer, roll backs until then

    async def run(self) -> None:
        for number in range(1 + simloom.draw("rounds", ROUNDS)):
            await self.predict()
            if simloom.draw("gives feedback", 4):
                await self.give(f"client-{self.number}-{number}")
                await self.predict()
            if simloom.draw("retracts", 6) == 0:
                await self.retract()

    async def predict(self) -> None:
        """Ask once; check that the answer is of a version that is new enough."""
        place = simloom.draw("replica", len(self.replicas))
        needed = self.acknowledged_until if simloom.draw("reads its own write", 2) else None
        request = PredictRequest(instances=[draw_input()], min_offset=needed, timeout_ms=3_000)
        roll_backs = self.record.roll_backs
        try:
            result = await self.replicas[place].server.ask(
                lambda runtime: runtime.predictor.predict(request, self.caller)
            )
        except (Unreachable, Unavailable, NotLearnedYet):
            return
        served = result.served
        assert needed is None or served.learned_until >= needed, f"min_offset {needed}: learned {served.learned_until}"
        before, roll_backs_before = self.seen.get(place, (0, roll_backs))
        if roll_backs_before == self.record.roll_backs:
            assert served.version >= before, f"version {served.version} answers after version {before}"
        self.seen[place] = served.version, roll_backs
        [id], [answer] = result.ids, result.answers
        answered = Answered(id, answer.choice, served.version)
        self.record.answered.append(answered)
        self.unrated.append(answered)

    async def give(self, id: str) -> None:
        """Give feedback about an earlier answer, or about an input, until it is acknowledged."""
        label = "ab"[simloom.draw("label", 2)]
        if self.unrated and simloom.draw("about an answer", 4):
            answered = self.unrated.pop(simloom.draw("answer", len(self.unrated)))
            item = FeedbackItem(id=id, prediction_id=answered.id, label=label)
        else:
            item = FeedbackItem(id=id, input=draw_input(), label=label)

        async def submit(runtime: ModelRuntime) -> Receipt:
            [receipt] = await runtime.feedback.submit([item], self.caller)
            return receipt

        receipt = await self._insist(submit)
        assert receipt.id == id
        assert receipt.offset > self.acknowledged_until, "feedback is in the log before feedback that was given earlier"
        self.record.acknowledged[id] = self.acknowledged_until = receipt.offset

    async def retract(self) -> None:
        own = [id for id in self.record.acknowledged if id.startswith(f"client-{self.number}-")]
        left = [id for id in own if id not in self.record.retracted]
        if left:
            id = left[simloom.draw("retracted", len(left))]
            receipt = await self._insist(lambda runtime: runtime.feedback.retract(id, self.caller))
            self.record.retracted[id] = receipt.offset
            self.acknowledged_until = max(self.acknowledged_until, receipt.offset)

    async def _insist(self, handle: Callable[[ModelRuntime], Any]) -> Receipt:
        """Send a request to one replica after the other, until one answers."""
        for _ in range(200):
            place = simloom.draw("replica", len(self.replicas))
            try:
                receipt: Receipt = await self.replicas[place].server.ask(handle)
                return receipt
            except (Unreachable, Unavailable):
                await asyncio.sleep((1 + simloom.draw("retry", 10)) / 10)
        raise AssertionError("feedback is never acknowledged")


def draw_input() -> list[float]:
    return [simloom.draw("input", 9) / 4 - 1 for _ in range(3)]


@dataclass
class Schedule:
    """One run of everything."""

    world: Any
    site: Site
    folder: Path
    server_class: type[Server] = Server

    async def run(self) -> None:
        """Play, heal, check. Raises AssertionError, or what a task of a process has raised."""
        replicas = [self._create_replica(number) for number in range(2 if self.site.has_replicas else 1)]
        processes = [each for replica in replicas for each in (replica.server, replica.learner)]
        record = Record()
        keepers = [asyncio.create_task(keep_on(each.power)) for each in processes]
        faults = asyncio.create_task(self._break(replicas, record))
        await asyncio.gather(*(Client(number, replicas, record).run() for number in range(CLIENTS)))
        await faults
        for each in processes:
            each.power.has_points = False
        self.site.redis_is_cut = False
        last = Client(CLIENTS, replicas, record)
        await last.give(f"client-{CLIENTS}-last")  # what a roll back holds goes live with it
        await self.world.until(lambda: self._has_agreed(replicas), timeout=AGREED_WITHIN_S)
        await self.world.until(lambda: self._has_kept(record), timeout=KEPT_WITHIN_S)
        for keeper in keepers:
            keeper.cancel()
        self._check(replicas, record)

    def _create_replica(self, number: int) -> Replica:
        folder = self.folder / f"replica-{number}"
        folder.mkdir()
        name = f"replica-{number}"
        return Replica(
            self.server_class(self.site, self.world.host(f"server-{number}"), folder, name),
            LearnerProcess(self.site, self.world.host(f"learner-{number}"), folder, name),
        )

    async def _break(self, replicas: list[Replica], record: Record) -> None:
        for _ in range(simloom.draw("faults", FAULTS)):
            await pause()
            replica = replicas[simloom.draw("replica", len(replicas))]
            match simloom.draw("fault", 6):
                case 0 | 1:
                    cut(replica.server.power, "a server is killed")
                case 2:
                    cut(replica.learner.power, "a learner is killed")
                case 3:
                    self.site.redis_is_cut = not self.site.redis_is_cut
                    simloom.reached("Redis is cut off, or back")
                case 4:
                    self._damage_copy(replica)
                case 5:
                    await roll_back(replica.server, record)

    def _damage_copy(self, replica: Replica) -> None:
        """Delete something of the copy in Redis, as somebody else does."""
        if replica.server.runtime is None or replica.server.runtime.relay is None:
            return
        copy = replica.server.runtime.relay.copy[1]
        if simloom.draw("damage", 2):
            copy.redis.delete(copy.key)
        else:
            copy.redis.xtrim(copy.key, maxlen=1, approximate=False)
        simloom.reached("the copy in Redis is damaged")

    # what must be true

    def _read_log(self) -> list[Event]:
        return self.site.store.read(lambda connection: read_events(connection, MODEL, 0, 10_000, ""))

    def _has_agreed(self, replicas: list[Replica]) -> bool:
        """Return whether every replica serves and has learned the whole log, and the copy in Redis is whole."""
        self.raise_errors()
        if any(each.server.runtime is None or each.learner.learner is None for each in replicas):
            return False
        head = len(self._read_log())
        served = {each.server.runtime.live.current.learned_until for each in replicas if each.server.runtime}
        learned = {each.learner.learner.training.learned_until for each in replicas if each.learner.learner}
        return served == learned == {head} == {len(self._read_copy(replicas[0]))}

    def _read_copy(self, replica: Replica) -> list[Event]:
        assert replica.server.runtime is not None and replica.server.runtime.relay is not None
        copy = replica.server.runtime.relay.copy[1]
        return copy.read(0, 10_000) if copy.head() else []

    def _has_kept(self, record: Record) -> bool:
        """Return whether every prediction that was answered is in the store, as it was answered."""
        self.raise_errors()
        columns = PREDICTIONS.c.id, PREDICTIONS.c.choice, PREDICTIONS.c.version
        rows = self.site.store.read(lambda connection: connection.execute(select(*columns)).all())
        stored = {row.id: Answered(row.id, row.choice, int(row.version)) for row in rows}
        assert len(stored) == len(rows)
        assert all(stored.get(each.id, each) == each for each in record.answered), "another answer is recorded"
        return all(each.id in stored for each in record.answered)

    def raise_errors(self) -> None:
        """Raise what a task of a process has raised: the service would have stopped."""
        if self.site.errors:
            raise self.site.errors[0]

    def _check(self, replicas: list[Replica], record: Record) -> None:
        self.raise_errors()
        log = self._read_log()
        assert [event.offset for event in log] == [*range(1, len(log) + 1)]
        assert len({event.id for event in log}) == len(log), "an event is in the log twice"
        for id, offset in record.acknowledged.items():
            assert log[offset - 1].id == id, f"{id} was acknowledged at offset {offset}, and is not there"
        for id, offset in record.retracted.items():
            target = log[offset - 1].target
            assert target is not None and target.id == id, f"the retraction of {id} is not in the log"
        assert self._read_copy(replicas[0]) == log, "the copy in Redis is not the log"
        expected = fingerprint(replicas[0], log)
        for replica in replicas:
            assert replica.learner.learner is not None and replica.server.runtime is not None
            assert replica.learner.learner.training.model.fingerprint() == expected, "a learner has another state"
            loaded = replica.server.runtime.live.current.loaded
            assert loaded is not None and loaded.manifest.state_sha256 == expected, "another state is served"
        if self.site.has_replicas:
            published = self.site.store.read(lambda connection: StoredPublications(connection, MODEL).list(10_000))
            places = [each.place for each in published[::-1]]
            assert places == sorted(set(places)), "a version was published twice, or an older state after a newer one"


def fingerprint(replica: Replica, log: list[Event]) -> str:
    """Return the fingerprint of a model that learns the log at once, without what was retracted."""
    assert replica.learner.learner is not None
    model = create(replica.learner.learner.kind, replica.learner.learner.options)
    gone = {event.target.id for event in log if event.kind == "retraction" and event.target is not None}
    model.learn(
        [
            Example(event.offset, event.kind, event.features, event.label, event.text, event.reward)
            for event in log
            if event.kind == "label" and event.id not in gone
        ]
    )
    return model.fingerprint()


async def pause() -> None:
    """Let some steps of the loop pass, or some time."""
    if simloom.draw("pause", 2):
        for _ in range(simloom.draw("steps", 60)):
            await asyncio.sleep(0)
    else:
        await asyncio.sleep(simloom.draw("milliseconds", 800) / 1000)


async def keep_on(power: PowerSwitch) -> None:
    """Start a process again after each kill."""
    while True:
        await power.was_cut.wait()
        await asyncio.sleep(simloom.draw("off", 500) / 1000)
        power.start_again()


def cut(power: PowerSwitch, how: str) -> None:
    if power.is_on:
        simloom.reached(how)
        power.cut()


async def roll_back(server: Server, record: Record) -> None:
    """Make an earlier version live."""

    async def perform(runtime: ModelRuntime) -> None:
        versions = runtime.snapshots.folder.versions()
        if len(versions) > 1:
            version = versions[simloom.draw("version", len(versions) - 1)]
            recipe = runtime.live.encoder_config.recipe
            await asyncio.to_thread(runtime.transactions.versions.roll_back, version, recipe)
            simloom.reached("a version is rolled back")

    record.roll_backs += 1
    try:
        await server.ask(perform)
    except (Unreachable, Unavailable, NotFound, CorruptSnapshot, Conflict):
        pass
    finally:
        record.roll_backs += 1

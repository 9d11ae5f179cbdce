"""What a server consists of, built once at start: one `Parts`, and one `ModelParts` for each model it serves."""

import asyncio
import json
import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakValueDictionary

from sqlalchemy import Connection

from online import store
from online.errors import EncoderMoved, NotFound, SetupError, Unavailable
from online.models import Encoder, Options
from online.models.encoder import adapts, encoder, with_encoder
from online.observability import Metrics, fact
from online.schemas import LearnerState, NewReply
from online.serving.live import LiveModel, Served
from online.serving.predictor import Predictor, shown_fate
from online.serving.repertoire import Repertoire, read_repertoire, starter
from online.serving.supervisor import Supervisor
from online.serving.tuner import Tuner
from online.settings import ModelSettings, Settings
from online.snapshots import Snapshots
from online.stream import RedisStream, SqlStream, relay
from online.workspace import Workspace, cache_folder

log = logging.getLogger("online.serving")

RELAY_RETRY_S = 1.0
FATES_GATHER_S = 0.1
FEED_KEPT = 1_000  # events kept for a listener that does not read

Copy = tuple[SqlStream, RedisStream]  # what is copied, of one encoder's features alone, and where to


class Feed:
    """What happens to a model, told to whoever listens: (event name, data) pairs."""

    def __init__(self) -> None:
        self._listeners: set[asyncio.Queue[tuple[str, dict[str, Any]] | None]] = set()

    def tell(self, name: str, **data: Any) -> None:
        for listener in list(self._listeners):
            try:
                listener.put_nowait((name, data))
            except asyncio.QueueFull:  # it stopped reading long ago: it may connect again
                self._listeners.discard(listener)
                listener.get_nowait()
                listener.put_nowait(None)

    @property
    def heard(self) -> bool:
        return bool(self._listeners)

    def listen(self) -> "asyncio.Queue[tuple[str, dict[str, Any]] | None]":
        listener: asyncio.Queue[tuple[str, dict[str, Any]] | None] = asyncio.Queue(FEED_KEPT)
        self._listeners.add(listener)
        return listener

    def leave(self, listener: "asyncio.Queue[tuple[str, dict[str, Any]] | None]") -> None:
        self._listeners.discard(listener)

    def close(self) -> None:
        for listener in self._listeners:
            with suppress(asyncio.QueueFull):
                listener.put_nowait(None)


@dataclass(slots=True)
class ModelParts:
    """One served model: its predictor, its live snapshot, and who is told about them."""

    spec: ModelSettings
    predictor: Predictor
    live: LiveModel
    snapshots: Snapshots
    stream: SqlStream
    copy: Copy | None
    open_copy: Callable[[str], Copy | None]
    feed: Feed
    metrics: Metrics
    first_replies: list[NewReply]
    to_mark: list[tuple[int, int, int, str]] = field(default_factory=list)
    to_tell: list[str] = field(default_factory=list)
    marked_until: int = 0
    rung: asyncio.Event = field(default_factory=asyncio.Event)
    fates_due: asyncio.Event = field(default_factory=asyncio.Event)
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    marking: asyncio.Lock = field(default_factory=asyncio.Lock)

    def swapped(self, before: Served, served: Served) -> None:
        """Called at every swap, on the event loop: count it, tell it, remember whose fate it decides."""
        name = self.spec.name
        self.metrics.swaps.labels(name).inc()
        self.metrics.live_version.labels(name).set(served.version)
        self.metrics.learned_until.labels(name).set(served.learned_until)
        if served.loaded is not None:
            self.metrics.drift_alarms.labels(name).set(served.loaded.manifest.metrics.get("drift_alarms", 0))
        freshness_ms = self._freshness(served.learned_until)
        kind = "rolled_back" if served.version < before.version else "published"
        data = {"version": str(served.version), "learned_until": served.learned_until}
        self.feed.tell(kind, **data, **({"freshness_ms": freshness_ms} if kind == "published" else {}))
        if served.learned_until > self.marked_until:
            self.to_mark.append((self.marked_until, served.learned_until, served.version, store.now()))
            self.marked_until = served.learned_until
            self.fates_due.set()

    def _freshness(self, learned_until: int) -> float | None:
        """ms from the acknowledgement to now, of the newest feedback this version is the first to know."""
        age, waiting = None, self.predictor.acknowledged
        while waiting and waiting[0][0] <= learned_until:
            _, id, acknowledged_at = waiting.popleft()
            age = self.predictor.clock() - acknowledged_at
            self.metrics.freshness_seconds.labels(self.spec.name).observe(age)
            self.to_tell.append(id)
        return None if age is None else round(age * 1000, 1)

    async def mark_fates(self) -> None:
        """Write which version learned which feedback, until cancelled. Versions gather while a write is under way."""
        while True:
            await self.fates_due.wait()
            self.fates_due.clear()
            with suppress(TimeoutError):  # whoever asks meanwhile has them written at once
                await asyncio.wait_for(self.stopping.wait(), FATES_GATHER_S)
            await self.flush_fates()

    async def flush_fates(self) -> None:
        """Return once every fate decided so far is written."""
        async with self.marking:
            due, self.to_mark = self.to_mark, []
            if not due:
                return
            work = self.predictor.store.submit(
                lambda connection: store.mark_spans(connection, self.spec.name, due), False
            )
            try:
                await asyncio.wrap_future(work)
            except Unavailable as error:
                self.to_mark = due + self.to_mark
                fact(log, "fates not written yet", logging.WARNING, model=self.spec.name, reason=str(error))
                return
        await self._tell_fates()

    async def _tell_fates(self) -> None:
        """Tell whoever listens what became of each feedback."""
        ids, self.to_tell = self.to_tell, []
        if not (ids and self.feed.heard):
            return
        try:
            rows = await self.predictor.read(lambda connection: store.feedback_of(connection, self.spec.name, ids))
        except Unavailable as error:
            fact(log, "fates not told", logging.WARNING, model=self.spec.name, reason=str(error))
            return
        for row in rows.values():
            if row.status in ("learned", "refused", "retracted"):
                self.feed.tell(row.status, **shown_fate(row).model_dump(exclude_none=True))

    def adapted(self, connection: Connection) -> dict[str, Any]:
        """The encoder in use, and the last attempt to tune one."""
        name = self.spec.name
        return {"encoder": store.encoder_of(connection, name), "adaptation": store.adaptation_of(connection, name)}

    def ring(self) -> None:
        self.stream.bell.ring()
        self.rung.set()

    async def relay(self) -> None:
        """Copy committed events to Redis, until cancelled. Redis may die and come back empty: the copy is made anew."""
        failing = False
        while self.copy is not None:
            self.rung.clear()
            try:
                self.copy = await self._copied(self.copy)
                failing = False
            except Unavailable as error:
                if not failing:
                    fact(log, "relay waits", logging.WARNING, model=self.spec.name, reason=str(error))
                failing = True
            with suppress(TimeoutError):
                await asyncio.wait_for(self.rung.wait(), RELAY_RETRY_S)

    async def _copied(self, copy: Copy) -> Copy | None:
        """The copy that is due next: features of another encoder go to another copy, and the one before it is dropped."""
        try:
            await asyncio.to_thread(relay, *copy)
        except EncoderMoved:
            await self.live.follow()
            source, before = copy
            await asyncio.to_thread(before.clear)
            before.close()
            source.close()
            self.rung.set()
            return self.open_copy(self.live.made.encoder_name)
        return copy


@dataclass(slots=True)
class Parts:
    """Everything a handler may reach."""

    settings: Settings
    workspace: Workspace
    metrics: Metrics
    models: dict[str, ModelParts]
    supervisor: Supervisor | None
    tuner: Tuner | None
    tasks: list[asyncio.Task[None]] = field(default_factory=list)
    stopping: bool = False

    def model(self, name: str) -> ModelParts:
        if name not in self.models:
            raise NotFound(f"there is no model {name!r}; this service has {', '.join(self.models)}")
        return self.models[name]

    def learner(self) -> LearnerState:
        return self.supervisor.state if self.supervisor is not None else LearnerState(state="external")

    async def start(self) -> None:
        for model in self.models.values():
            await model.live.refresh()
            for work in (model.live.watch(), model.predictor.batcher.run(), model.mark_fates()):
                self._keep(work)
            if model.copy is not None:
                self._keep(model.relay())
            await seed(model)
        if self.supervisor is not None:
            await self.supervisor.start()
        if self.tuner is not None:
            self.tuner.start()

    def _keep(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        task.add_done_callback(self._ended)
        self.tasks.append(task)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """A background task never ends by itself; if one does, the service says why and stops, rather than limp."""
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a background task failed; stopping", exc_info=error)
            os.kill(os.getpid(), signal.SIGTERM)

    def close_feeds(self) -> None:
        """End every event stream, so that connections can close."""
        self.stopping = True
        for model in self.models.values():
            model.stopping.set()
            model.feed.close()

    async def stop(self) -> None:
        self.close_feeds()
        if self.tuner is not None:
            await self.tuner.stop()
        if self.supervisor is not None:
            await self.supervisor.stop()
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        for model in self.models.values():
            await model.flush_fates()
            model.stream.close()
            if model.copy is not None:
                model.copy[0].close()
        await asyncio.to_thread(self.workspace.store.close)


def build(settings: Settings, with_learner: bool) -> Parts:
    """Open everything. Raises SetupError that says what cannot be opened."""
    workspace, metrics = Workspace(settings), Metrics()
    workspace.store.make_room()
    encoders = Encoders(workspace)
    models = {spec.name: build_model(spec, settings, workspace, metrics, encoders) for spec in settings.models}

    def tell_all(state: LearnerState) -> None:
        for model in models.values():
            model.feed.tell("status", **status_of(model, state))

    supervisor = Supervisor(settings, metrics, tell_all) if with_learner else None

    def tell(model: str, outcome: dict[str, Any]) -> None:
        version = outcome["version"]
        models[model].feed.tell("adapted", **{**outcome, "version": None if version is None else str(version)})

    tuner = Tuner(settings, workspace.store, tell) if settings.encoder_adapt else None
    return Parts(settings, workspace, metrics, models, supervisor, tuner)


class Encoders:
    """Every encoder is loaded once, however many models read by it, and kept for as long as one does."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace, self.settings = workspace, workspace.settings
        self._loaded: WeakValueDictionary[str, Any] = WeakValueDictionary()
        self._loading = threading.Lock()

    def encoder(self, kind: str, options: Options) -> Encoder:
        """Raises ValueError or FileNotFoundError where there is none."""
        reads = {"ranker": {"input": "text"}, "river": {"input": "table"}}.get(kind, {"input": "text", **options})
        tuned = str(options.get("encoder", ""))
        key = json.dumps([tuned, *(reads.get(name) for name in ("input", "size"))])
        with self._loading:
            made: Encoder | None = self._loaded.get(key)
            if made is None:
                threads, most = self.settings.encoder_threads, self.settings.max_text_chars
                made = encoder(reads, cache_folder(), threads, most, self.workspace.tuned(tuned))
                self._loaded[key] = made
            return made


@dataclass(frozen=True, slots=True)
class ModelSource:
    """Where one model's options and encoders come from."""

    workspace: Workspace
    spec: ModelSettings
    encoders: Encoders

    def options(self) -> Options:
        return self.workspace.options(self.spec)

    def others(self) -> Iterator[Options]:
        if adapts(self.spec.kind, self.spec.options):
            names = (path.stem for path in self.workspace.encoders.glob("*.safetensors"))
            yield from (with_encoder(self.spec.options, name) for name in ("", *names))

    def announced(self) -> Options | None:
        name = self.workspace.announced_encoder(self.spec.name) if adapts(self.spec.kind, self.spec.options) else None
        return None if name is None else with_encoder(self.spec.options, name)

    def encoder(self, options: Options) -> Encoder:
        return self.encoders.encoder(self.spec.kind, options)


def build_model(
    spec: ModelSettings, settings: Settings, workspace: Workspace, metrics: Metrics, encoders: Encoders
) -> ModelParts:
    snapshots, stream, feed = workspace.snapshots(spec.name), workspace.sql_stream(spec.name), Feed()
    try:
        source = ModelSource(workspace, spec, encoders)
        live = LiveModel(spec.kind, source, snapshots, lambda before, served: parts.swapped(before, served))
    except (ValueError, FileNotFoundError) as error:
        raise SetupError(f"model {spec.name!r}: {error}") from None
    predictor = Predictor(spec, settings, live, workspace.store, metrics, lambda: parts.ring(), new_id, time.monotonic)

    def open_copy(encoder: str) -> Copy | None:
        copy = workspace.redis_stream(spec.name, encoder)
        return None if copy is None else (workspace.sql_stream(spec.name, encoder), copy)

    first = read_repertoire(settings.repertoire or starter()) if spec.kind == "ranker" else []
    copy = open_copy(live.made.encoder_name)
    parts = ModelParts(spec, predictor, live, snapshots, stream, copy, open_copy, feed, metrics, first)
    return parts


def status_of(model: ModelParts, learner: LearnerState) -> dict[str, Any]:
    served = model.live.current
    return {
        "version": str(served.version),
        "learned_until": served.learned_until,
        "learner": learner.model_dump(exclude_none=True),
    }


async def seed(model: ModelParts) -> None:
    """Give a ranker without a history its first repertoire."""
    if model.first_replies and await asyncio.to_thread(model.stream.head) == 0:
        await Repertoire(model.predictor).add(model.first_replies, origin="starter")
        fact(log, "repertoire loaded", model=model.spec.name, replies=len(model.first_replies))


def new_id() -> str:
    """32 hex digits that begin with the time, so that rows are written at the end of their index."""
    return f"{time.time_ns() // 1_000:014x}{os.urandom(9).hex()}"

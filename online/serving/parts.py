"""What a server consists of, built once at start: one `Parts`, and one `ModelParts` for each model it serves."""

import asyncio
import json
import logging
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any
from weakref import WeakValueDictionary

from sqlalchemy import Connection

from online import store
from online.errors import EncoderMoved, NotFound, SetupError, Unavailable
from online.models import Encoder, Options
from online.models.encoder import adapts, encoder, reads, with_encoder
from online.observability import Metrics, fact
from online.schemas import LearnerState, NewReply
from online.serving.child import start_child
from online.serving.curve import CurveKeeper
from online.serving.jobs import Jobs
from online.serving.langfuse import Langfuse
from online.serving.links import Links
from online.serving.live import LiveModel, Served
from online.serving.open_webui import OpenWebui
from online.serving.opinions import Opinions
from online.serving.predictor import Predictor, shown_fate
from online.serving.repertoire import Repertoire, read_repertoire, starter
from online.serving.replays import Replays
from online.serving.reports import Reports
from online.serving.supervisor import Supervisor
from online.serving.tuner import Tuner
from online.serving.workers import Workers, say
from online.settings import ModelSettings, Settings
from online.snapshots import Snapshots
from online.stream import RedisStream, SqlStream, relay
from online.workspace import Workspace, cache_folder

log = logging.getLogger("online.serving")

RELAY_RETRY_S = 1.0
FATES_GATHER_S = 0.1
FRESHNESS_SHOWN = 1_000  # newest feedbacks of which it is told how soon they were learned
RANDOM_BYTES, IDS_AT_ONCE = 9, 256  # of an id
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
    """One served model: its predictor, its live snapshot, and who is told about them. leads: as Parts says."""

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
    curve: CurveKeeper
    leads: bool
    to_mark: list[tuple[int, int, int, str]] = field(default_factory=list)
    to_tell: list[str] = field(default_factory=list)
    marked_until: int = 0
    freshness_ms: deque[float] = field(default_factory=lambda: deque(maxlen=FRESHNESS_SHOWN))
    rung: asyncio.Event = field(default_factory=asyncio.Event)
    fates_due: asyncio.Event = field(default_factory=asyncio.Event)
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    marking: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def ready(self) -> bool:
        """Not so: there are versions, and none of them could be loaded. One that is about to be loaded for the first time is
        no reason: until then a model answers as one that knows nothing, as it did before.
        """
        return not self.live.unservable

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
        if served.learned_until > self.marked_until and self.leads:
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
            self.freshness_ms.append(round(age * 1000, 1))
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
    """Everything a handler may reach. leads: whether this is the first worker, which does what only one may do."""

    settings: Settings
    workspace: Workspace
    metrics: Metrics
    models: dict[str, ModelParts]
    supervisor: Supervisor | None
    tuner: Tuner | None
    reports: Reports
    replays: Replays
    jobs: Jobs
    links: Links
    opinions: Opinions
    open_webui: OpenWebui | None
    langfuse: Langfuse | None
    workers: Workers
    leads: bool
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
            for work in (model.live.watch(), model.predictor.batcher.run(), model.predictor.shadow.run()):
                self._keep(work)
            if model.predictor.watch is not None:
                self._keep(model.predictor.watch.run())
        if self.leads:
            await self._lead()
        else:
            self._keep(say({name: model.live for name, model in self.models.items()}))

    async def _lead(self) -> None:
        for model in self.models.values():
            self._keep(model.mark_fates())
            if model.copy is not None:
                self._keep(model.relay())
            await seed(model)
        await asyncio.to_thread(self.replays.prune)
        self.jobs.start()
        if self.supervisor is not None:
            await self.supervisor.start()
        if self.tuner is not None:
            self.tuner.start()
        if self.open_webui is not None:
            self._keep(self.open_webui.run(self.settings.open_webui_every_s))

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
        await self.reports.stop()
        await self.replays.stop()
        await self.jobs.stop()
        if self.supervisor is not None:
            await self.supervisor.stop()
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        for model in self.models.values():
            await model.flush_fates()
            await model.curve.stop()
            model.stream.close()
            if model.copy is not None:
                model.copy[0].close()
        await asyncio.to_thread(self.workspace.store.close)


def build(settings: Settings, with_learner: bool, leads: bool = True) -> Parts:
    """Open everything. leads: as Parts says. Raises SetupError that says what cannot be opened."""
    workspace, metrics = Workspace(settings), Metrics()
    if leads:
        workspace.store.make_room()
    encoders = Encoders(workspace)
    models = {spec.name: build_model(spec, settings, workspace, metrics, encoders, leads) for spec in settings.models}

    def changed(state: LearnerState) -> None:
        metrics.learner_up.set(state.state == "running")
        metrics.learner_restarts.inc(state.state == "restarting")
        for model in models.values():
            model.feed.tell("status", **status_of(model, state))

    learn = partial(start_child, settings, "learn", "--supervised")
    supervisor = Supervisor("learner", learn, settings.restart_max_s, changed) if with_learner else None

    def tell(model: str, outcome: dict[str, Any]) -> None:
        version = outcome["version"]
        models[model].feed.tell("adapted", **{**outcome, "version": None if version is None else str(version)})

    tuner = Tuner(settings, workspace.store, tell) if settings.encoder_adapt and leads else None
    reports, replays = Reports(settings, workspace), Replays(settings, workspace)
    links, opinions = Links(workspace.secret, settings.public_url), Opinions()
    predictors = {name: each.predictor for name, each in models.items()}
    jobs = Jobs(settings, workspace, predictors, metrics)
    outside = pages_outside(settings, workspace.store, predictors, opinions)
    beside = (supervisor, tuner, reports, replays, jobs)
    return Parts(
        settings,
        workspace,
        metrics,
        models,
        *beside,
        links,
        opinions,
        *outside,
        Workers(settings, metrics.forget),
        leads,
    )


def pages_outside(
    settings: Settings, truth: store.Store, predictors: Mapping[str, Predictor], opinions: Opinions
) -> tuple[OpenWebui | None, Langfuse | None]:
    """The chat pages of others whose ratings are learned; none unless they are set up."""
    ours = (truth, predictors, opinions)
    url, key = settings.open_webui_url, settings.open_webui_key
    public, secret = settings.langfuse_public_key, settings.langfuse_secret_key
    open_webui = OpenWebui(url, key, *ours) if url and key else None
    return open_webui, Langfuse(public, secret, *ours) if public and secret else None


class Encoders:
    """Every encoder is loaded once, however many models read by it, and kept for as long as one does."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace, self.settings = workspace, workspace.settings
        self._loaded: WeakValueDictionary[str, Any] = WeakValueDictionary()
        self._loading = threading.Lock()

    def encoder(self, kind: str, options: Options) -> Encoder:
        """Raises ValueError or FileNotFoundError where there is none."""
        read = reads(kind, options)
        tuned = str(options.get("encoder", ""))
        key = json.dumps([tuned, read])
        with self._loading:
            made: Encoder | None = self._loaded.get(key)
            if made is None:
                threads, most = self.settings.encoder_threads, self.settings.max_text_chars
                made = encoder(read, cache_folder(), threads, most, self.workspace.tuned(tuned))
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
    spec: ModelSettings, settings: Settings, workspace: Workspace, metrics: Metrics, encoders: Encoders, leads: bool
) -> ModelParts:
    snapshots, stream, feed = workspace.snapshots(spec.name), workspace.sql_stream(spec.name), Feed()
    try:
        source = ModelSource(workspace, spec, encoders)
        live = LiveModel(
            spec.kind, source, snapshots, lambda before, served: parts.swapped(before, served), feed.tell, spec.versions
        )
    except (ValueError, FileNotFoundError) as error:
        raise SetupError(f"model {spec.name!r}: {error}") from None
    predictor = Predictor(spec, settings, live, workspace.store, metrics, lambda: parts.ring(), Ids(), time.monotonic)

    def open_copy(encoder: str) -> Copy | None:
        copy = workspace.redis_stream(spec.name, encoder)
        return None if copy is None else (workspace.sql_stream(spec.name, encoder), copy)

    first = read_repertoire(settings.repertoire or starter()) if spec.kind == "ranker" else []
    copy = open_copy(live.made.encoder_name) if leads else None
    curve = CurveKeeper(spec.name, spec.kind == "regressor", workspace.store, feed.tell)
    parts = ModelParts(spec, predictor, live, snapshots, stream, copy, open_copy, feed, metrics, first, curve, leads)
    return parts


def status_of(model: ModelParts, learner: LearnerState) -> dict[str, Any]:
    served = model.live.current
    return {
        "version": str(served.version),
        "learned_until": served.learned_until,
        "learner": learner.model_dump(exclude_none=True),
        "frozen": None if model.live.frozen is None else asdict(model.live.frozen),
    }


async def seed(model: ModelParts) -> None:
    """Give a ranker without a history its first repertoire."""
    if model.first_replies and await asyncio.to_thread(model.stream.head) == 0:
        await Repertoire(model.predictor).add(model.first_replies, origin="starter")
        fact(log, "repertoire loaded", model=model.spec.name, replies=len(model.first_replies))


class Ids:
    """32 hex digits that begin with the time, so that rows are written at the end of their index.

    The random ones are taken from the system many at once: asking it lets go of the interpreter each time.
    """

    def __init__(self) -> None:
        self._random: Iterator[str] = iter(())

    def __call__(self) -> str:
        return f"{time.time_ns() // 1_000:014x}{next(self._random, None) or self._more()}"

    def _more(self) -> str:
        found = os.urandom(RANDOM_BYTES * IDS_AT_ONCE)
        self._random = (found[at : at + RANDOM_BYTES].hex() for at in range(0, len(found), RANDOM_BYTES))
        return next(self._random)

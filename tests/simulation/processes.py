"""The processes of a simulated replica: the server and the learner, put together from the parts of the real ones.

Server    predictor, journal, copier, feedback, watcher of LIVE, relay to Redis, follower of the store     one loop
Learner   stream in Redis or in the store, training state, publisher                                       one loop
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import simloom

from online.errors import LearningLost, Unavailable
from online.learning.learner import Learner
from online.learning.setup import LearnerSetup
from online.schemas.events import Event
from online.serving.devices.replica import ServingPlace
from online.serving.disk_space import DiskSpace, DiskUsage
from online.serving.model_building import ModelBuilder
from online.serving.model_runtime import ModelRuntime
from online.serving.processes.journal_copier import COPY_EVERY_S, JournalCopier
from online.serving.rates import RateLimits
from online.serving.replica_follower import ReplicaFollower
from online.settings import Settings
from online.state.workspace import Workspace
from online.store.journal_copy import JournalCopy, copy_all
from online.stream.redis import RedisStream
from online.stream.verified import VerifiedStream
from online.telemetry import Metrics, Tracer
from tests.simulation.seams import PowerSwitch, ProcessStore, SimulatedExecutor
from tests.threadless import InlineStore, store_of_workspaces

T = TypeVar("T")

PATIENCE_S = 8.0  # of a client
LOOK_EVERY_S = 0.25
RETRY_S = 0.5


class Unreachable(Exception):
    """A server that is not there, or does not answer."""


@dataclass
class Site:
    """The things that all processes have in common.

    settings: of a state folder. has_replicas: whether several replicas share the store. redis_is_cut: whether Redis cannot be
    reached. errors: of tasks; each is a defect.
    """

    settings: Callable[[Path], Settings]
    store: InlineStore
    has_replicas: bool
    redis_is_cut: bool = False
    errors: list[BaseException] = field(default_factory=list)
    opened: list[Any] = field(default_factory=list)  # what the kernel closes for a process that is killed

    def check_redis(self, call: Callable[..., T]) -> Callable[..., T]:
        """Return a call of Redis that fails while it cannot be reached."""

        def run(*args: Any, **kwargs: Any) -> T:
            if self.redis_is_cut:
                raise Unavailable("Redis is cut off")
            return call(*args, **kwargs)

        return run


class SimulatedProcess:
    """A process that is started again after each kill."""

    store_class = ProcessStore

    def __init__(self, site: Site, host: Any, folder: Path, name: str) -> None:
        """host: of simloom. folder: the state folder of the replica. name: of the replica."""
        self.site, self.folder, self.name = site, folder, name
        self.power = PowerSwitch(host)
        self.tasks = list[asyncio.Task[None]]()
        host.spawn(self._run)

    def open_workspace(self) -> Workspace:
        (self.folder / "state").mkdir(exist_ok=True)
        (self.folder / "state" / "replica").write_text(self.name)
        store = self.store_class(self.site.store, self.power, self.site.has_replicas)
        with store_of_workspaces(store):
            return Workspace(self.site.settings(self.folder / "state"))

    def prepare_copy(self, copy: RedisStream) -> None:
        """Let Redis be out of reach, and the process be killed beside each write to it."""
        self.site.opened.append(copy)
        copy._call = self.site.check_redis(copy._call)  # type: ignore[method-assign]
        copy._write = self.power.around(copy._write, "an entry in Redis")  # type: ignore[method-assign]
        copy.clear = self.power.around(copy.clear, "the deletion of the copy in Redis")  # type: ignore[method-assign]

    def start_task(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        task.add_done_callback(self._note_end)
        self.tasks.append(task)

    def _note_end(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and isinstance(error := task.exception(), Exception):
            self.site.errors.append(error)

    async def _run(self) -> None:
        try:
            await self.run()
        except Exception as error:
            self.site.errors.append(error)

    async def run(self) -> None:
        raise NotImplementedError


class Server(SimulatedProcess):
    """The process that answers. runtime: of its model, since it is ready; None before."""

    runtime: ModelRuntime | None = None
    has_late_journal = False  # a defect: the answers leave before they are in the journal

    async def run(self) -> None:
        """Start as `Runtime.start` does, then answer."""
        self.runtime, inbox = None, asyncio.Queue[Callable[[], Coroutine[Any, Any, None]]]()
        workspace = self.open_workspace()
        runtime, journal = self._build(workspace)
        with suppress(Unavailable):
            await asyncio.to_thread(runtime.transactions.versions.catch_up, runtime.live.encoder_config.recipe)
        await runtime.live.refresh()
        for work in runtime.background_work(is_primary=True):
            self.start_task(work)
        self.start_task(self._copy_journal(workspace, journal))
        if self.site.has_replicas:
            self.start_task(self._follow(workspace, runtime))
        self.runtime, self.inbox = runtime, inbox
        while True:
            self.start_task((await inbox.get())())

    def _build(self, workspace: Workspace) -> tuple[ModelRuntime, JournalCopy]:
        settings, metrics, around = workspace.settings, Metrics(), self.power.around
        disk = DiskSpace(lambda: DiskUsage(1 << 40, 1 << 41), settings.min_free_bytes, metrics)
        rates = RateLimits(settings)
        builder = ModelBuilder(
            settings, workspace, metrics, True, None, lambda model: ServingPlace(), rates, disk, Tracer()
        )
        runtime = builder.build(settings.models[0])
        writer, journal = builder.journal_writer, builder.journal
        writer.append = around(writer.append, "a frame of the journal")  # type: ignore[method-assign]
        if self.has_late_journal:
            append = writer.append
            writer.append = lambda *frames: asyncio.get_running_loop().call_soon(append, *frames)  # type: ignore
        journal.note_committed = around(journal.note_committed, "the deletion of a segment")  # type: ignore[method-assign]
        self.site.opened.append(writer)
        assert runtime.relay is not None
        self.prepare_copy(runtime.relay.copy[1])
        return runtime, journal

    async def _copy_journal(self, workspace: Workspace, journal: JournalCopy) -> None:
        """Do what the thread of `JournalCopier` does."""
        copier = JournalCopier(workspace.store, journal)
        await asyncio.to_thread(journal.seal_all)
        while True:
            await asyncio.to_thread(copier._copy)
            if simloom.sometimes("segments are sealed", 10):
                await asyncio.to_thread(journal.seal_all)
            await asyncio.sleep(COPY_EVERY_S)

    async def _follow(self, workspace: Workspace, runtime: ModelRuntime) -> None:
        """Do what the thread of the follower does. It hears of a change early, late, or never."""
        clock = asyncio.get_running_loop().time
        journal = workspace.journal_copy()
        follower = ReplicaFollower(
            workspace.store, {runtime.spec.name: runtime}, self.name, lambda: copy_all(workspace.store, journal), clock
        )
        follower._fetcher = SimulatedExecutor()  # type: ignore[assignment]
        while True:
            heard = {runtime.spec.name} if simloom.sometimes("a change is heard of", 30) else set[str]()
            with suppress(Unavailable):
                await asyncio.to_thread(follower._hear, heard)
            await asyncio.sleep(LOOK_EVERY_S * simloom.draw("look", 4) / 4)

    async def ask(self, handle: Callable[[ModelRuntime], Awaitable[T]]) -> T:
        """Send a request, from outside of the process; `handle` is called within it. Raises Unreachable."""
        runtime = self.runtime
        if runtime is None or not self.power.is_on:
            raise Unreachable
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        async def answer_request() -> None:
            try:
                result = await handle(runtime)
            except Exception as error:
                if not answer.done():
                    answer.set_exception(error)
            else:
                if not answer.done():
                    answer.set_result(result)

        self.inbox.put_nowait(answer_request)
        try:
            async with asyncio.timeout(PATIENCE_S):
                return await answer
        except TimeoutError:
            raise Unreachable from None


class LearnerProcess(SimulatedProcess):
    """The process that learns. learner: since it has started; None before."""

    learner: Learner | None = None

    async def run(self) -> None:
        """Do what `keep_learning` and `Learner.run` do; an event wakes it sooner or later."""
        self.learner = None
        workspace = self.open_workspace()
        learner = self._create(workspace)
        await self._insist(learner.start)
        self.learner = learner
        while True:
            try:
                await asyncio.to_thread(learner.step)
            except LearningLost:
                await self._insist(learner.resume)
            except Unavailable:
                await asyncio.sleep(RETRY_S)
            await asyncio.sleep(simloom.draw("idle", 50) / 1000)

    def _create(self, workspace: Workspace) -> Learner:
        model = workspace.settings.models[0]
        around, clock = self.power.around, asyncio.get_running_loop().time
        copy = workspace.redis_stream(model.name, "")
        assert copy is not None
        self.prepare_copy(copy)
        stream = VerifiedStream(copy, workspace.sql_stream(model.name, ""), clock)
        read = stream.read

        def read_at_once(after: int, count: int, block_ms: float = 0, digest: str = "") -> list[Event]:
            return read(after, count, digest=digest)

        stream.read = read_at_once  # type: ignore[method-assign]
        setup = LearnerSetup(clock=clock, replica=self.name, durable_every_s=0.3, waits_for_disk=False)
        options, snapshots = workspace.options(model), workspace.snapshots(model.name)
        learner = Learner(model.kind, options, snapshots, stream, workspace.store, setup)
        learner.publisher.disk_writer.shutdown()
        learner.publisher.disk_writer = SimulatedExecutor()  # type: ignore[assignment]
        writer = snapshots.publisher
        writer.prepare = around(writer.prepare, "the files of a version")  # type: ignore[method-assign]
        writer.place = around(writer.place, "the name of a version")  # type: ignore[method-assign]
        writer.make_durable = around(writer.make_durable, "a version is on the disk")  # type: ignore[method-assign]
        snapshots.folder.set_live = around(snapshots.folder.set_live, "LIVE names a version")  # type: ignore
        return learner

    async def _insist(self, call: Callable[[], None]) -> None:
        while True:
            try:
                await asyncio.to_thread(call)
                return
            except Unavailable:
                await asyncio.sleep(RETRY_S)

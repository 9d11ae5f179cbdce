"""The running service without its protocols: its models, its processes, and its background tasks."""

import asyncio
import logging
import os
import signal
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import IO

from online import __version__
from online.errors import OnlineError, Unavailable, UnknownModel
from online.installed import ContributedParts
from online.models.devices.observer import DeviceObserver
from online.schemas.json_values import JSON
from online.schemas.models import LearnerState
from online.serving.disk_space import DiskSpace, measure_space
from online.serving.erasure.erasures import Erasures
from online.serving.feed_sharing import FeedSharing
from online.serving.feedback.feedback_slots import FeedbackSlots
from online.serving.model_runtime import ModelRuntime
from online.serving.parts import ServicePart
from online.serving.processes.journal_copier import JournalCopier
from online.serving.processes.supervisor import Supervisor
from online.serving.processes.workers import Workers, report_versions
from online.serving.rates import RateLimits
from online.serving.readiness import ModelReadiness
from online.serving.replica_follower import ReplicaFollower
from online.serving.retention import RetentionJob
from online.settings import Settings
from online.state.shared_keys import compute_revision
from online.state.signing_keys import REFRESH_S
from online.state.workspace import Workspace
from online.store.journal_copy import copy_all
from online.telemetry import Metrics, OutageLog, Tracer

log = logging.getLogger("online.serving")


@dataclass(slots=True)
class Runtime:
    """Everything a handler may use.

    supervisor: of the learner; None if the learner runs elsewhere. store_process: commits feedback, and copies predictions
    from the journal. journal_thread: does the latter where there is no such process. is_primary: whether this is the
    first worker, which does what only one process may do. observer: informed of where this process answers. new_id: draws an id. follower: follows other
    replicas, where the store may have any. parts: what plugins keep.
    """

    settings: Settings
    workspace: Workspace
    metrics: Metrics
    tracer: Tracer
    disk: DiskSpace
    rates: RateLimits
    models: dict[str, ModelRuntime]
    supervisor: Supervisor | None
    retention: RetentionJob
    store_process: Supervisor | None
    journal_thread: JournalCopier | None
    feedback_slots: FeedbackSlots
    erasures: Erasures
    workers: Workers
    is_primary: bool
    observer: DeviceObserver
    new_id: Callable[[], str]
    parts: ContributedParts = field(default_factory=ContributedParts)
    tasks: list[asyncio.Task[None]] = field(default_factory=list)
    stopping: bool = False
    follower: ReplicaFollower | None = None
    _lock: IO[str] | None = None  # held by one service on the state folder

    def model(self, name: str) -> ModelRuntime:
        """Return a model by name. Raises UnknownModel that names the models there are."""
        if name not in self.models:
            raise UnknownModel(f"there is no model {name!r}; this service has {', '.join(self.models)}", name)
        return self.models[name]

    def learner(self) -> LearnerState:
        """Return the state of the learner's process; its reason, while it runs, names the models that another replica learns."""
        if self.supervisor is None:
            return LearnerState(state="external")
        state, others = self.supervisor.state, self.follower.standing_by if self.follower is not None else None
        if state.state != "running" or not others:
            return state
        return state.model_copy(
            update={"reason": f"standing by for {', '.join(sorted(others))}: another replica learns"}
        )

    def describe(self) -> dict[str, JSON]:
        """Return what this service tells the replicas beside it, other than what its models answer from."""
        return {
            "release": __version__,
            "learner": self.learner().state,
            "free_disk_bytes": measure_space(self.workspace.state).free_bytes,
            "signing_keys": compute_revision(self.workspace.keys.table),
        }

    async def readiness(self) -> dict[str, ModelReadiness]:
        """Return for each model whether it can answer and record its answers."""
        names = list(self.models)
        checks = await asyncio.gather(*(self.models[name].readiness.check() for name in names))
        return dict(zip(names, checks, strict=True))

    async def is_ready(self) -> bool:
        """Return whether every model can answer and record its answers, and the service is not stopping."""
        return not self.stopping and all(check.is_ready for check in (await self.readiness()).values())

    @property
    def has_started(self) -> bool:
        """Whether the service may announce itself: every worker answers with the first repertoire, or with the base.

        A learner that has failed ends the wait: the service answers, and /readyz says why it is not ready.
        """
        if self.learner().state == "restarting":
            return self.workers.all_up
        starters = {name: model.readiness.starter_until for name, model in self.models.items()}
        learned = all(model.readiness.has_learned_starter for model in self.models.values())
        has_bases = self.supervisor is None or not any(model.readiness.waits_for_base for model in self.models.values())
        versioned = [name for name, model in self.models.items() if model.live.current.version]
        return learned and has_bases and self.workers.have_learned(starters) and self.workers.have_versions(versioned)

    @property
    def is_first(self) -> bool:
        """Whether this is the first worker of the first service on the state folder."""
        return self._lock is not None

    async def start(self) -> None:
        """Load the live versions, and start the background work and the other processes."""
        if self.is_primary:
            self._lock = await asyncio.to_thread(self.workspace.lock_service)
            await asyncio.to_thread(self._catch_up)
        if self.is_first and self.workspace.store.is_shared:
            await asyncio.to_thread(self.erasures.participation.catch_up)
            self.follower = self._create_follower()
            self.follower.describe_service = self.describe
            self.erasures.listen(self.follower)
        for model in self.models.values():
            await model.live.refresh()
            await model.readiness.look_for_base()
            await model.start_parts()
            for work in model.background_work(self.is_primary):
                self.run_until_stop(work)
        await self.start_parts(self.parts)
        self.run_until_stop(self.disk.watch())
        self.workspace.store.start_watch()
        if self.rates.shared is not None:
            self.run_until_stop(self.rates.share())
        if self.is_primary:
            await self._start_primary()
        else:
            self.run_until_stop(report_versions({name: model.live for name, model in self.models.items()}))

    def _create_follower(self) -> ReplicaFollower:
        store = self.workspace.store
        copy_journal = partial(copy_all, store, self.workspace.journal_copy())
        follower = ReplicaFollower(store, self.models, self.workspace.replica, copy_journal)
        FeedSharing(store, self.workspace.replica, self.models, asyncio.get_running_loop()).start(follower)
        return follower

    def _catch_up(self) -> None:
        """Carry out changes of versions that were recorded while this service was away, or killed."""
        for model in self.models.values():
            with suppress(Unavailable):  # the follower, or the learner, does it later
                model.transactions.versions.catch_up(model.live.encoder_config.recipe)

    async def start_parts(self, parts: ContributedParts) -> None:
        """Start what plugins keep, and their work in the background. Raises SetupError."""
        for part in parts.list(ServicePart):
            await part.start()
            for work in part.background(self.is_primary):
                self.run_until_stop(work)

    async def _start_primary(self) -> None:
        for model in self.models.values():
            await model.add_starter_replies(will_learn=self.supervisor is not None)
        if self.store_process is not None:
            await self.store_process.start()
        if self.journal_thread is not None:
            self.journal_thread.start()
        self.run_until_stop(self.retention.run())
        if self.follower is not None:
            self.follower.start()
        if self.workspace.shared_keys.is_copied:
            self.run_until_stop(self._refresh_keys())
        if self.supervisor is not None:
            await self.supervisor.start()
        self.run_until_stop(self.erasures.run())

    async def _refresh_keys(self) -> None:
        """Follow the signing keys in the store until cancelled. During an outage those in use stay."""
        outage = OutageLog(log, "the signing keys in the store cannot be read")
        while True:
            await asyncio.sleep(REFRESH_S)
            try:
                await asyncio.to_thread(self.workspace.refresh_from_store)
                outage.record_success()
            except (OnlineError, OSError) as error:
                outage.record_failure(error)

    def run_until_stop(self, work: Coroutine[object, object, None]) -> None:
        """Run work that never ends by itself, in the background. Its failure stops the service."""
        task = asyncio.create_task(work)
        task.add_done_callback(self._stop_on_failure)
        self.tasks.append(task)

    def _stop_on_failure(self, task: asyncio.Task[None]) -> None:
        """Stop the service if a background task fails: none of them ever ends by itself."""
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a background task failed; stopping", exc_info=error)
            os.kill(os.getpid(), signal.SIGTERM)

    def close_feeds(self) -> None:
        """End every event stream, so that connections can close."""
        self.stopping = True
        for model in self.models.values():
            model.close_feed()

    async def stop(self) -> None:
        """Stop the background work and the other processes, then close the store."""
        self.close_feeds()
        if self.supervisor is not None:
            await self.supervisor.stop()
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        self.observer.close()
        if self.follower is not None:
            await asyncio.to_thread(self.follower.stop)
        for part in self.parts.list(ServicePart):
            await part.close()
        for model in self.models.values():
            await model.close()
        if self.store_process is not None:
            await self.store_process.stop()
            await asyncio.to_thread(self._copy_rest)
        if self.journal_thread is not None:
            await asyncio.to_thread(self.journal_thread.stop)
        await asyncio.to_thread(self.workspace.store.close)
        await asyncio.to_thread(self.tracer.close)
        if self._lock is not None:
            self._lock.close()

    def _copy_rest(self) -> None:
        """Copy what the store process has left in the journal: it may have ended before it could begin."""
        with suppress(Unavailable, OSError):  # what stays there is copied at the next start
            copy_all(self.workspace.store, self.workspace.journal_copy(), is_sealing=True)

"""Erasures beside the service: begun by a request, continued in the background until nothing is left to do.

    DELETE --begin--> the store --run--> one step of each unfinished erasure, until all of them wait or have ended
                                         and the part of this replica in those that other replicas carry out

They are continued by the first worker, also those that a killed service left.
"""

import asyncio
import json
import logging
import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress

from online.errors import OnlineError
from online.schemas.feedback import ErasureStarted, ErasureStatus
from online.schemas.json_values import JSONObject
from online.serving.erasure.participation import ErasureParticipation
from online.serving.erasure.progress import last_offset
from online.serving.erasure.work import ErasureWork
from online.serving.replica_follower import ReplicaFollower
from online.store.erasure.jobs import ErasureModelRow, ErasureRow
from online.store.erasure.replicas import MESSAGE
from online.telemetry import OutageLog, log_event

log = logging.getLogger("online.erasure")

SHARED_POLL_S = 1.0  # until this replica looks for erasures that others have begun, where it has not heard of one
POLL_S = 0.25  # until an erasure that waits for the learner, a reader or a job is tried again
ID_BYTES = 16


class Erasures:
    """The erasures of one service."""

    def __init__(self, work: ErasureWork, wake_learners: Callable[[], None]) -> None:
        """wake_learners: called on the event loop after the log may have changed."""
        self.work, self.wake_learners = work, wake_learners
        self.participation = ErasureParticipation(work)
        self._due = asyncio.Event()
        self._beginning: set[str] = set()  # erasures whose first step a request does now
        self._outage = OutageLog(log, "erasure interrupted")

    async def begin(self, user: str, models: Sequence[str]) -> ErasureStarted:
        """Erase a user from models; return once their feedback is retracted and their words are blanked."""
        id, loop = secrets.token_hex(ID_BYTES), asyncio.get_running_loop()
        self._beginning.add(id)

        def wake() -> None:
            loop.call_soon_threadsafe(self.wake_learners)

        try:
            await asyncio.to_thread(self.work.begin, id, user, models, wake)
            _, rows = await asyncio.to_thread(self.work.load, id)
        finally:
            self._beginning.discard(id)
            self._due.set()
            self.wake_learners()
        log_event(log, "erasure begun", id=id, models=",".join(models))
        return describe_start(id, rows)

    async def load(self, id: str) -> ErasureStatus:
        """Return what is stored under an id. Raises NotFound."""
        return describe_status(*await asyncio.to_thread(self.work.load, id))

    async def run(self) -> None:
        """Continue erasures until cancelled."""
        while True:
            self._due.clear()
            unfinished, has_moved = await self._advance_all()
            if has_moved:
                self.wake_learners()
                continue
            with suppress(TimeoutError):
                async with asyncio.timeout(POLL_S if unfinished else self._idle_s):
                    await self._due.wait()

    @property
    def _idle_s(self) -> float | None:
        return SHARED_POLL_S if self.work.store.is_shared else None

    def listen(self, follower: ReplicaFollower) -> None:
        """Look for a part of this replica as soon as a follower hears of an erasure."""
        loop = asyncio.get_running_loop()

        def look(content: JSONObject) -> None:
            loop.call_soon_threadsafe(self._due.set)

        follower.handlers[MESSAGE] = look

    async def _advance_all(self) -> tuple[bool, bool]:
        """Return whether an erasure is unfinished, and whether one has moved on."""
        try:
            ids = [id for id in await asyncio.to_thread(self.work.list_unfinished) if id not in self._beginning]
            moved = [await asyncio.to_thread(self._advance, id) for id in ids]
            if self.work.store.is_shared:
                moved.append(await asyncio.to_thread(self.participation.advance))
        except (OnlineError, OSError) as error:  # the store or the disk does not answer: try again
            self._outage.record_failure(error)
            return True, False
        self._outage.record_success()
        return bool(ids), any(moved)

    def _advance(self, id: str) -> bool:
        has_moved = self.work.advance(id)
        if has_moved and self.work.load(id)[0].ended_at is not None:
            log_event(log, "erasure done", id=id)
        return has_moved


def describe_start(id: str, rows: Sequence[ErasureModelRow]) -> ErasureStarted:
    """Return the answer to a request for erasure."""
    counts = [json.loads(row.counts) for row in rows]
    feedback = sum(each.get("feedback", 0) + each.get("feedback_without_user", 0) for each in counts)
    return ErasureStarted(
        id=id,
        feedback=feedback,
        predictions=sum(each.get("predictions", 0) for each in counts),
        offsets={row.model: last_offset(row) for row in rows},
    )


def describe_status(row: ErasureRow, models: Sequence[ErasureModelRow]) -> ErasureStatus:
    """Return the state of an erasure, with the signed statement once it is done."""
    return ErasureStatus(
        id=row.id,
        state="running" if row.ended_at is None else "done",
        created_at=row.created_at,
        ended_at=row.ended_at,
        step=row.step,
        models={model.model: model.step for model in models},
        statement=None if row.statement is None else json.loads(row.statement),
    )

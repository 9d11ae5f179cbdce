"""Access of one model's handlers to the store: reads, transactions, and the check of the encoder.

Features in the store are those of one encoder. Code that writes features checks in its transaction
that the store still uses the encoder that computed them. Where it does not, `EncoderMoved` is raised,
the texts are encoded again, and the transaction is repeated.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import TypeVar

from sqlalchemy import Connection

from online.errors import EncoderMoved, NotFound, Unavailable
from online.models import can_tune_encoder
from online.serving.disk_space import DiskSpace
from online.serving.live import LiveModel
from online.serving.versions import EncoderConfig
from online.settings import ModelSettings
from online.state.version_control import VersionControl
from online.store import Store
from online.store.encoder_moves import check_encoder, hold_encoder
from online.store.journal_copy import JournalCopy, copy_all
from online.store.leases import read_clock
from online.store.predictions import PredictionRow, load_predictions
from online.store.replica_messages import send_message
from online.store.replicas import list_uncopied
from online.telemetry import OutageLog

log = logging.getLogger("online.store")

T = TypeVar("T")

REPLICA_PAUSES_S = (0.05, 0.1)  # a copier copies every 0.1 s
ASKED_PAUSES_S = (0.02, 0.05, 0.1, 0.2)  # the last one is repeated
REPLICA_WAIT_S = 5.0  # for a replica that was asked to copy its journal


class OutageWatch:
    """Counts blocks that end with Unavailable as failures of one dependency, and others as successes."""

    def __init__(self, outage: OutageLog) -> None:
        self._outage = outage

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if isinstance(error, Unavailable):
            self._outage.record_failure(error)
        elif kind is None:
            self._outage.record_success()


class Transactions:
    """Runs reads and writes of one model against the store, off the event loop."""

    def __init__(
        self,
        spec: ModelSettings,
        live: LiveModel,
        store: Store,
        wake_learner: Callable[[], None],
        wake_relay: Callable[[], None],
        new_id: Callable[[], str],
        disk: DiskSpace,
        journal: JournalCopy,
    ) -> None:
        """wake_learner, wake_relay: called on the event loop after every commit; the first wakes the relay as well.

        new_id: returns a unique id.
        """
        self.disk, self.journal = disk, journal
        self.versions = VersionControl(live.snapshots, store)
        self.spec, self.name, self.live, self.store = spec, spec.name, live, store
        self.encoder_is_tunable = can_tune_encoder(spec.kind, spec.options)
        self.wake_learner, self.wake_relay, self.new_id = wake_learner, wake_relay, new_id
        self._outages = OutageWatch(OutageLog(log, "store unavailable", model=self.name))

    async def read(self, query: Callable[[Connection], T]) -> T:
        """Run a read-only query in a thread, so that a slow store does not block the event loop."""
        with self._outages:
            return await asyncio.to_thread(self.store.read, query)

    async def copy_journal(self) -> None:
        """Return once every prediction that this machine has answered before is in the store."""
        with self._outages:
            await asyncio.to_thread(copy_all, self.store, self.journal)

    async def load_predictions(self, ids: Sequence[str]) -> dict[str, PredictionRow]:
        """Return id -> prediction, for those that exist, also of those that were answered a moment ago.

        Those of this machine are copied now. In a store that is shared, one may still be in the journal of another replica. So
        those that are present are asked to copy their journals, and only then it counts as one that does not exist. Raises
        Unavailable if a replica does not do so in time.
        """
        wanted, found = len({*ids}), await self._find_predictions(ids)
        if len(found) < wanted:
            await self.copy_journal()
            found = await self._find_predictions(ids)
        for pause_s in REPLICA_PAUSES_S if self.store.is_shared else ():
            if len(found) == wanted:
                break
            await asyncio.sleep(pause_s)
            found = await self._find_predictions(ids)
        return found if len(found) == wanted or not self.store.is_shared else await self._ask_replicas(ids)

    async def _ask_replicas(self, ids: Sequence[str]) -> dict[str, PredictionRow]:
        """Return what is found once each replica has copied its journal, or all of it before. Raises Unavailable."""
        asked_at, uncopied = await self.write(ask_for_journals), list[str]()
        pauses, until = iter(ASKED_PAUSES_S), time.monotonic() + REPLICA_WAIT_S
        while time.monotonic() < until:
            await asyncio.sleep(next(pauses, ASKED_PAUSES_S[-1]))
            uncopied = await self.read(partial(list_uncopied, since=asked_at))  # before the look for the predictions
            found = await self._find_predictions(ids)
            if not uncopied or len(found) == len({*ids}):
                return found
        raise Unavailable(
            f"a prediction is not in the store, and may still be in the journal of the replica {', '.join(uncopied)}, which has not "
            f"copied it within {REPLICA_WAIT_S:g} s; send the feedback again"
        )

    async def with_predictions(self, ids: Sequence[str], attempt: Callable[[], Awaitable[T]]) -> T:
        """Call `attempt`, which needs these predictions; if some were missing, wait for them and call it again.

        Raises NotFound if they do not exist, and Unavailable if a replica may still have them.
        """
        try:
            return await attempt()
        except NotFound:
            if not ids or len(await self.load_predictions(ids)) < len({*ids}):
                raise
        return await attempt()

    async def _find_predictions(self, ids: Sequence[str]) -> dict[str, PredictionRow]:
        return await self.read(lambda connection: load_predictions(connection, self.name, ids))

    async def commit(self, work: Callable[[Connection], T], needs_room: bool = True) -> T:
        """Run `work` in a durable transaction, then wake the learner.

        needs_room: raise InsufficientStorage if the disk is too full. False for work that deletes.
        """
        if needs_room:
            self.disk.check_room()
        with self._outages:
            result = await asyncio.wrap_future(self.store.submit(work))
        self.wake_learner()
        return result

    async def commit_elsewhere(self, perform: Callable[[], Awaitable[T]], needs_room: bool = True) -> T:
        """As `commit`, for work that may run in another process, which wakes the learner itself."""
        if needs_room:
            self.disk.check_room()
        result = await self.watch(perform())
        self.wake_relay()
        return result

    async def watch(self, work: Awaitable[T]) -> T:
        """Wait for work on the store that somebody else does, and notice outages."""
        with self._outages:
            return await work

    async def write(self, work: Callable[[Connection], T]) -> T:
        """Run `work` in a transaction that may be lost if the machine fails, and is not learned."""
        with self._outages:
            return await asyncio.wrap_future(self.store.submit(work, durable=False))

    def hold_encoder(self, connection: Connection) -> None:
        """Keep the store's encoder, and its features, unchanged until the transaction ends."""
        if self.encoder_is_tunable:
            hold_encoder(connection, self.name)

    def check_encoder(self, connection: Connection, encoders: Iterable[str]) -> None:
        """Raise EncoderMoved if any of these encoder names is not that of the store."""
        for encoder in encoders if self.encoder_is_tunable else ():
            check_encoder(connection, self.name, encoder)

    async def retry_on_encoder_change(self, attempt: Callable[[EncoderConfig], Awaitable[T]]) -> T:
        """Call `attempt` with the current encoder, and again if the encoder changed during the call."""
        while True:
            try:
                return await attempt(self.live.encoder_config)
            except EncoderMoved:
                await self.live.refresh_encoder_config()


def ask_for_journals(connection: Connection) -> float:
    """Ask every replica to copy its journal; return the time, in seconds of the database's clock."""
    at = read_clock(connection)
    send_message(connection, "copy_journal", {"at": at})
    return at

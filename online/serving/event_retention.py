"""Retention of events: removes the contents of those that the base of their model has learned, beside the service.

    learner: base (online/state/base_snapshot.py) --> begin --one page after another--> contents are gone --> copy in Redis

Where several replicas share the store, it is the base in the store that counts: each of them can take that over.

The store says how far it is, so that what was stopped, or killed, goes on there.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from sqlalchemy import Connection

from online.models import spec_of
from online.settings import ModelSettings
from online.snapshots import Snapshots
from online.snapshots.manifest import Manifest
from online.state.base_snapshot import closed_at, find_base
from online.store import Store
from online.store.bases import load_stored_base
from online.store.deletion.event_expiry import EventExpiry, begin_removal, load_expiry, mark_copied
from online.store.deletion.expired_events import ExpiryCounts, remove_page
from online.stream.contract import StreamCopy
from online.telemetry import Metrics, log_event

log = logging.getLogger("online.retention")

T = TypeVar("T")

PAGE = 200  # events of one transaction, which takes milliseconds

Write = Callable[[Callable[[Connection], Any]], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class ExpiringModel:
    """One model, as the retention of events sees it. copy: of the log in Redis, if there is one.

    find_recipe: the recipe that is learned and served at present.
    """

    spec: ModelSettings
    snapshots: Snapshots
    copy: StreamCopy | None
    find_recipe: Callable[[], str]


class EventRetention:
    """Removes the contents of expired events of every model."""

    def __init__(self, store: Store, models: Mapping[str, ExpiringModel], metrics: Metrics) -> None:
        self.store, self.models, self.metrics = store, models, metrics
        self._copying: dict[str, tuple[int, int]] = {}  # model -> what is removed, rebuilds of the copy before

    async def prune(self, write: Write) -> None:
        """Remove what may be removed now. write: runs work in a transaction, in a quiet moment. Raises Unavailable."""
        for name, model in self.models.items():
            await self._prune_model(name, model, write)
            if model.copy is not None:
                await self._rewrite_copy(name, model.copy, write)

    async def _prune_model(self, name: str, model: ExpiringModel, write: Write) -> None:
        base = await self._read(partial(self._find_base, model=model))
        if base is None:
            return
        await write(partial(begin_removal, model=name, until=base.learned_until, closed_at=closed_at(base)))
        events = predictions = 0
        page = partial(remove_page, model=name, has_classes=spec_of(model.spec.kind).has_retirable_classes, count=PAGE)
        while (removed := await write(page)) is not None:
            self._count(removed)
            events, predictions = events + removed.events, predictions + removed.predictions
        if events or predictions:
            facts = {"events": events, "predictions": predictions, "until": base.learned_until}
            log_event(log, "expired events pruned", model=name, **facts)

    def _find_base(self, connection: Connection, model: ExpiringModel) -> Manifest | None:
        recipe = model.find_recipe()
        if not self.store.is_shared:
            return find_base(connection, model.snapshots, recipe)
        stored = load_stored_base(connection, model.snapshots.model, recipe)
        return None if stored is None else stored.manifest

    def _count(self, removed: ExpiryCounts) -> None:
        self.metrics.pruned.labels("events").inc(removed.events)
        self.metrics.pruned.labels("predictions").inc(removed.predictions)

    async def _rewrite_copy(self, name: str, copy: StreamCopy, write: Write) -> None:
        """Let the copy be written again after contents were removed; a later call notes that it was."""
        expiry: EventExpiry = await self._read(partial(load_expiry, model=name))
        asked = self._copying.get(name)
        if asked is not None and copy.rebuilds > asked[1]:
            await write(partial(mark_copied, model=name, until=asked[0]))
            del self._copying[name]
            asked, expiry = None, await self._read(partial(load_expiry, model=name))
        if asked is None and expiry.copied_until < expiry.removed_until:
            self._copying[name] = expiry.removed_until, copy.rebuilds
            copy.request_rebuild()

    async def _read(self, query: Callable[[Connection], T]) -> T:
        return await asyncio.to_thread(self.store.read, query)

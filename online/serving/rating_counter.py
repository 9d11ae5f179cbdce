"""Counts the ratings of a model's log, page by page, until everything is counted."""

import asyncio
import logging
from functools import partial

from online.errors import Unavailable
from online.store import Store
from online.store.usage.ratings import CountingProgress, count_page, load_progress
from online.telemetry import log_event

log = logging.getLogger("online.usage")

PATIENCE_S = 0.2  # how long a request waits for the newest counts


class RatingCounter:
    """Counts for one model. A request begins it, and gets what is counted by then if there is much to count."""

    def __init__(self, model: str, store: Store) -> None:
        self.model, self.store = model, store
        self._counting: asyncio.Task[None] | None = None

    async def catch_up(self) -> None:
        """Return once everything is counted, or after `PATIENCE_S`; the rest is counted in the background."""
        if self._counting is None or self._counting.done():
            progress: CountingProgress = await asyncio.to_thread(
                self.store.read, partial(load_progress, model=self.model)
            )
            if progress.is_complete:
                return
            self._counting = asyncio.create_task(self._count())
        await asyncio.wait([self._counting], timeout=PATIENCE_S)

    async def stop(self) -> None:
        """Stop counting."""
        if self._counting is not None:
            self._counting.cancel()
            await asyncio.gather(self._counting, return_exceptions=True)

    async def _count(self) -> None:
        count = partial(count_page, model=self.model)
        is_complete = False
        while not is_complete:
            try:
                progress: CountingProgress = await asyncio.wrap_future(
                    self.store.submit(count, durable=False, is_background=True)
                )
            except Unavailable as error:  # the next request tries again
                log_event(log, "ratings were not counted", logging.WARNING, model=self.model, reason=str(error))
                return
            is_complete = progress.is_complete

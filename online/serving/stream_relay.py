"""Copies committed events from the store to Redis, where a learner on another machine reads them.

The store is the truth: if Redis is lost or comes back empty, the copy is written again from it.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

from online.errors import EncoderMoved, Unavailable
from online.serving.live import LiveModel
from online.stream.redis import RedisStream
from online.stream.relay import relay
from online.stream.sql import SqlStream
from online.telemetry import OutageLog, log_event

log = logging.getLogger("online.serving")

RETRY_S = 1.0

Copy = tuple[SqlStream, RedisStream]  # source and target; both hold features of one encoder only


class StreamRelay:
    """Relays one model's stream."""

    def __init__(
        self, live: LiveModel, copy: Copy, open_copy: Callable[[str], Copy | None], count_repair: Callable[[], None]
    ) -> None:
        """open_copy: opens source and target for the encoder of that name. count_repair: called at each repair."""
        self.live, self.copy, self.open_copy, self.count_repair = live, copy, open_copy, count_repair
        self.rebuilds = 0  # how often the copy was written again at a request
        self._rebuild_is_due = False
        self._wakeup = asyncio.Event()
        self._outage = OutageLog(log, "relay failed", model=live.snapshots.model)

    def wake(self) -> None:
        """Relay now: something was committed."""
        self._wakeup.set()

    def request_rebuild(self) -> None:
        """Let the copy be deleted and written again when it is relayed next: events in the store have changed."""
        self._rebuild_is_due = True

    async def run(self) -> None:
        """Relay until cancelled."""
        copy: Copy | None = self.copy
        while copy is not None:
            self._wakeup.clear()
            try:
                copy = await self._relay(copy)
                self.copy = copy or self.copy
                self._outage.record_success()
            except Unavailable as error:
                self._outage.record_failure(error)
            with suppress(TimeoutError):
                async with asyncio.timeout(RETRY_S):
                    await self._wakeup.wait()

    async def _relay(self, copy: Copy) -> Copy | None:
        """Return the copy to continue with: after a change of encoder, a new one in place of the old."""
        rebuilds, self._rebuild_is_due = self._rebuild_is_due, False
        try:
            if rebuilds:
                await asyncio.to_thread(copy[1].clear_all)
            await asyncio.to_thread(relay, *copy, on_broken=self._note_repair)
            self.rebuilds += rebuilds
        except EncoderMoved:
            self._rebuild_is_due = self._rebuild_is_due or rebuilds
            await self.live.refresh_encoder_config()
            source, target = copy
            await asyncio.to_thread(target.clear)
            target.close()
            source.close()
            self._wakeup.set()
            return self.open_copy(self.live.encoder_config.encoder_name)
        except Unavailable:  # after EncoderMoved, which is one too
            self._rebuild_is_due = self._rebuild_is_due or rebuilds
            raise
        return copy

    def _note_repair(self, reason: str) -> None:
        self.count_repair()
        model = self.live.snapshots.model
        log_event(log, "the copy in Redis is written again", logging.WARNING, model=model, reason=reason)

    def close(self) -> None:
        """Close the connection to Redis."""
        self.copy[0].close()

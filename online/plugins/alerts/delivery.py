"""Delivers alerts to one endpoint: one after the other, again after a failure, later each time, for a limited time.

due --claim--> send --accepted--> delivered
 ^               +---failed----> due again after 5 s, 20 s, 80 s ... --after the last attempt--> given up
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import partial

import httpx

from online.plugins.alerts.deliveries import (
    AlertDeliveryRow,
    DeliveryStatus,
    claim_delivery,
    end_attempt,
    load_next_due,
)
from online.plugins.alerts.messages import TIMEOUT_S, Attempt, Webhook, send
from online.plugins.alerts.watching import Clock, utc_now
from online.store import Store
from online.telemetry import OutageLog

log = logging.getLogger("online.alerts")

PAUSES_S = (5.0, 20.0, 80.0, 320.0, 1_280.0, 5_120.0, 7_200.0)  # after each failed attempt; then it is given up
CLAIM_S = 3 * TIMEOUT_S  # how long one server has for an attempt
LOOK_EVERY_S = 15.0  # for alerts that other servers have added


class Deliverer:
    """Delivers to one endpoint. count: called with the outcome of each attempt."""

    def __init__(
        self,
        endpoint: Webhook,
        secret: str | None,
        store: Store,
        count: Callable[[str], None],
        pauses_s: Sequence[float] = PAUSES_S,
        clock: Clock = utc_now,
    ) -> None:
        self.endpoint, self.secret, self.store, self.count = endpoint, secret, store, count
        self.pauses_s, self.clock = pauses_s, clock
        self.wake = asyncio.Event()
        self._outage = OutageLog(log, "an alert webhook fails", endpoint=endpoint.name)
        self._store_outage = OutageLog(log, "alerts wait for the store", endpoint=endpoint.name)

    async def run(self, client: httpx.AsyncClient) -> None:
        """Deliver until cancelled."""
        while True:
            self.wake.clear()
            try:
                while await self.deliver_next(client):
                    pass
                pause_s = await self._find_pause()
                self._store_outage.record_success()
            except Exception as error:  # any error: serving goes on, and the alerts wait
                self._store_outage.record_failure(error)
                pause_s = LOOK_EVERY_S
            try:
                async with asyncio.timeout(pause_s):
                    await self.wake.wait()
            except TimeoutError:
                continue

    async def deliver_next(self, client: httpx.AsyncClient) -> bool:
        """Make one attempt; return False if nothing is due. Raises Unavailable."""
        at = self.clock()
        claim = partial(
            claim_delivery,
            endpoint=self.endpoint.id,
            at=at.isoformat(),
            claimed_until=(at + timedelta(seconds=CLAIM_S)).isoformat(),
        )
        claimed: tuple[AlertDeliveryRow, str] | None = await asyncio.wrap_future(self.store.submit(claim))
        if claimed is None:
            return False
        row, body = claimed
        attempt = await send(client, self.endpoint, row.alert_id, body.encode(), self.secret)
        await self._end(row, attempt)
        return True

    async def _end(self, row: AlertDeliveryRow, attempt: Attempt) -> None:
        at, has_more = self.clock(), row.attempts <= len(self.pauses_s)
        status: DeliveryStatus = "waiting" if has_more else "given_up"
        due = at + timedelta(seconds=self.pauses_s[row.attempts - 1] if has_more else 0)
        if attempt.error is None:
            status = "delivered"
            self._outage.record_success()
        else:
            self._outage.record_failure(attempt.error)
        self.count("failed" if status == "waiting" else status)
        end = partial(
            end_attempt, row=row, status=status, due_at=due.isoformat(), error=attempt.error, at=at.isoformat()
        )
        await asyncio.wrap_future(self.store.submit(end))

    async def _find_pause(self) -> float:
        due: str | None = await asyncio.to_thread(self.store.read, partial(load_next_due, endpoint=self.endpoint.id))
        if due is None:
            return LOOK_EVERY_S
        return min(max((datetime.fromisoformat(due) - self.clock()).total_seconds(), 0.0), LOOK_EVERY_S)

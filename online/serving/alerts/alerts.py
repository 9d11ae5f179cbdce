"""The alerts of a service: a watch and one delivery for each endpoint, beside the requests, in the first worker."""

import asyncio
import logging
from collections.abc import Callable

from online.errors import BadInput
from online.serving.alerts.delivery import Deliverer
from online.serving.alerts.messages import Attempt, Endpoint, build_body, create_client, encode, send
from online.serving.alerts.observations import Observation
from online.serving.alerts.watching import ChangeRecorder, Sources, utc_now
from online.settings import Settings, reveal
from online.store import Store
from online.telemetry import Metrics, OutageLog

log = logging.getLogger("online.alerts")

WATCH_EVERY_S = 5.0
TEST_SENTENCE = "This is a test. If you can read it, alerts arrive."


class Alerts:
    """endpoints: the webhooks; none: nothing is watched."""

    def __init__(
        self, settings: Settings, store: Store, sources: Sources, metrics: Metrics, new_id: Callable[[], str]
    ) -> None:
        self.settings, self.store, self.sources = settings, store, sources
        self.endpoints = list_endpoints(settings)
        secret = reveal(settings.alert_secret)
        ids = [endpoint.id for endpoint in self.endpoints]
        self.recorder = ChangeRecorder(settings, store, ids, new_id)
        self.deliverers = [
            Deliverer(each, secret, store, lambda outcome: metrics.alert_deliveries.labels(outcome).inc())
            for each in self.endpoints
        ]
        self._outage = OutageLog(log, "the watch for alerts failed")

    async def run(self) -> None:
        """Watch and deliver until cancelled. Without a webhook it does nothing."""
        if not self.endpoints:
            return
        async with create_client() as client, asyncio.TaskGroup() as tasks:
            tasks.create_task(self._watch())
            for deliverer in self.deliverers:
                tasks.create_task(deliverer.run(client))

    async def _watch(self) -> None:
        while True:
            try:
                await self.look()
                self._outage.record_success()
            except Exception as error:  # any error: serving goes on, and the next look tries again
                self._outage.record_failure(f"{type(error).__name__}: {error}")
            await asyncio.sleep(WATCH_EVERY_S)

    async def look(self) -> int:
        """Notice what has changed; return the number of new alerts. Raises Unavailable."""
        observations = [each async for each in self.sources.observe()]
        alerts = await asyncio.to_thread(self.recorder.record, observations)
        if alerts:
            for deliverer in self.deliverers:
                deliverer.wake.set()
        return alerts


def list_endpoints(settings: Settings) -> list[Endpoint]:
    return [Endpoint(url.get_secret_value()) for url in settings.alert_webhooks]


async def send_test(settings: Settings, model: str, id: str) -> list[tuple[Endpoint, Attempt]]:
    """Send a test alert to every endpoint at once, and return what each said. Raises BadInput if there is none."""
    endpoints = list_endpoints(settings)
    if not endpoints:
        raise BadInput("there is no webhook to test: set alert_webhooks, and start the service again")
    observation = Observation(model, "test", "test", "", TEST_SENTENCE)
    body, secret = (
        encode(build_body(id, utc_now().isoformat(), observation, settings.public_url)),
        reveal(settings.alert_secret),
    )
    async with create_client() as client:
        attempts = await asyncio.gather(*(send(client, each, id, body, secret) for each in endpoints))
    return list(zip(endpoints, attempts, strict=True))

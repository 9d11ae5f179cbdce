"""The alerts of a service: a watch and one delivery for each endpoint, beside the requests, in the first worker."""

import asyncio
import logging
from collections.abc import Iterable

from online.errors import BadInput
from online.plugins.alerts.delivery import Deliverer
from online.plugins.alerts.messages import Attempt, Webhook, build_body, create_client, encode, send
from online.plugins.alerts.metrics import AlertMetrics
from online.plugins.alerts.observations import Observation
from online.plugins.alerts.settings import AlertSettings
from online.plugins.alerts.watching import ChangeRecorder, Sources, utc_now
from online.serving.parts import ServicePart, Work
from online.serving.runtime import Runtime
from online.settings import Settings, reveal
from online.telemetry import OutageLog

log = logging.getLogger("online.alerts")

WATCH_EVERY_S = 5.0
TEST_SENTENCE = "This is a test. If you can read it, alerts arrive."


class Alerts(ServicePart):
    """endpoints: the webhooks; none: nothing is watched."""

    def __init__(self, runtime: Runtime) -> None:
        self.store = runtime.workspace.store
        replica = runtime.workspace.replica if self.store.is_shared else ""
        self.sources = Sources(runtime.models, runtime.learner, runtime.disk, replica)
        settings, metrics = runtime.settings.part(AlertSettings), runtime.metrics.parts.find(AlertMetrics)
        self.endpoints = list_endpoints(runtime.settings)
        secret = reveal(settings.alert_secret)
        ids = [endpoint.id for endpoint in self.endpoints]
        self.recorder = ChangeRecorder(runtime.settings, self.store, ids, runtime.new_id)
        self.deliverers = [
            Deliverer(each, secret, self.store, lambda outcome: metrics.deliveries.labels(outcome).inc())
            for each in self.endpoints
        ]
        self._outage = OutageLog(log, "the watch for alerts failed")

    def background(self, is_primary: bool) -> Iterable[Work]:
        """Yield the first worker watches and delivers, if there is a webhook."""
        if is_primary and self.endpoints:
            yield self.run()

    async def run(self) -> None:
        """Watch and deliver until cancelled."""
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


def list_endpoints(settings: Settings) -> list[Webhook]:
    """Return the webhooks of the settings."""
    return [Webhook(url.get_secret_value()) for url in settings.part(AlertSettings).alert_webhooks]


async def send_test(settings: Settings, model: str, id: str) -> list[tuple[Webhook, Attempt]]:
    """Send a test alert to every endpoint at once, and return what each said. Raises BadInput if there is none."""
    endpoints = list_endpoints(settings)
    if not endpoints:
        raise BadInput("there is no webhook to test: set alert_webhooks, and start the service again")
    observation = Observation(model, "test", "test", "", TEST_SENTENCE)
    body, secret = (
        encode(build_body(id, utc_now().isoformat(), observation, settings.public_url)),
        reveal(settings.part(AlertSettings).alert_secret),
    )
    async with create_client() as client:
        attempts = await asyncio.gather(*(send(client, each, id, body, secret) for each in endpoints))
    return list(zip(endpoints, attempts, strict=True))

"""Notices changes, and turns each into one alert, however many servers notice it.

    every few seconds: observations --differ from what was last noticed--> the new state and the alert, in one transaction

What changes again within `alert_min_interval_s` of an alert is alerted after it, if it is still different.
"""

import logging
import socket
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial

from sqlalchemy import Connection

from online.plugins.alerts.deliveries import AlertRow, add_alert
from online.plugins.alerts.messages import build_body, encode
from online.plugins.alerts.noticed import AlertStateRow, load_states, note_change
from online.plugins.alerts.observations import Observation, observe_disk, observe_learner, observe_model
from online.plugins.alerts.settings import AlertSettings
from online.plugins.monitoring.model_monitoring import ModelMonitoring
from online.schemas.models import LearnerState
from online.serving.disk_space import DiskSpace
from online.serving.model_runtime import ModelRuntime
from online.settings import Settings
from online.store import Store
from online.store.quarantine import load_open

log = logging.getLogger("online.alerts")

Clock = Callable[[], datetime]


def utc_now() -> datetime:
    """Return the time now, aware, in UTC."""
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Sources:
    """The sources of observations. learner: its state; "external" where another server runs it.

    replica: the name of this one, where others may share the store; otherwise "".
    """

    models: Mapping[str, ModelRuntime]
    learner: Callable[[], LearnerState]
    disk: DiskSpace
    replica: str = ""
    host: str = field(default_factory=socket.gethostname)

    async def observe(self) -> AsyncIterator[Observation]:
        """Yield the present observations. Raises Unavailable."""
        learner = self.learner()
        for name, model in self.models.items():
            health = await model.parts.find(ModelMonitoring).assess(learner)
            quarantine = await model.read(partial(load_open, model=name))
            for observation in observe_model(name, health, quarantine):
                yield observation
        if learner.state != "external":
            yield observe_learner(learner, self.host, self.replica)
        yield observe_disk(self.disk, self.host)


class ChangeRecorder:
    """Turns observations into alerts in the store. endpoints: ids of those to which each alert is delivered."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
        endpoints: Sequence[str],
        new_id: Callable[[], str],
        clock: Clock = utc_now,
    ) -> None:
        self.settings, self.store, self.endpoints = settings, store, endpoints
        self.new_id, self.clock = new_id, clock
        self._unsettled = dict[tuple[str, str], str]()  # states that were seen once

    def record(self, observations: Sequence[Observation]) -> int:
        """Record what is new; return the number of alerts. It blocks. Raises Unavailable."""
        known, alerts = self.store.read(load_states), 0
        for observation in observations:
            before = known.get((observation.model, observation.key))
            if self._is_new(observation, before):
                alerts += self.store.submit(partial(self._note, observation, before)).result()
        return alerts

    def _is_new(self, observation: Observation, known: AlertStateRow | None) -> bool:
        place = observation.model, observation.key
        if known is not None and known.state == observation.state:
            self._unsettled.pop(place, None)
            return False
        if observation.is_settled or self._unsettled.get(place) == observation.state:
            return not (self._is_news(observation, known) and self._is_too_early(known))
        self._unsettled[place] = observation.state
        return False

    def _is_news(self, observation: Observation, known: AlertStateRow | None) -> bool:
        return observation.sentence is not None and (observation.is_alarming if known is None else True)

    def _is_too_early(self, known: AlertStateRow | None) -> bool:
        if known is None or not known.alerted_at:
            return False
        earliest = datetime.fromisoformat(known.alerted_at) + timedelta(
            seconds=self.settings.part(AlertSettings).alert_min_interval_s
        )
        return self.clock() < earliest

    def _note(self, observation: Observation, known: AlertStateRow | None, connection: Connection) -> int:
        is_news, at = self._is_news(observation, known), self.clock().isoformat()
        alerted_at = at if is_news else known.alerted_at if known is not None else ""
        row = AlertStateRow(
            model=observation.model, event=observation.key, state=observation.state, alerted_at=alerted_at
        )
        if not note_change(connection, known, row) or not is_news:
            return 0
        add_alert(connection, self.build_alert(observation, at), self.endpoints)
        return 1

    def build_alert(self, observation: Observation, at: str) -> AlertRow:
        """Return the row of a new alert."""
        id = self.new_id()
        body = build_body(id, at, observation, self.settings.public_url)
        return AlertRow(
            id=id, model=observation.model, event=observation.event, created_at=at, body=encode(body).decode()
        )

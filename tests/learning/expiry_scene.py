"""A learner whose log has feedback of different ages, and the removal of what has expired, as a service does both."""

import asyncio
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, select

from online.learning.base_building import RetentionPeriod
from online.learning.learner import Learner
from online.schemas.events import Event
from online.schemas.feedback import FeedbackItem
from online.serving.event_retention import EventRetention, ExpiringModel
from online.serving.feedback.recording import build_row, prepare_item
from online.serving.feedback.retraction import record_retraction
from online.serving.processes.store_messages import NewFeedback
from online.settings import Drift
from online.snapshots.manifest import Manifest
from online.state.base_snapshot import find_base
from online.store.deletion.event_expiry import EventExpiry, load_expiry
from online.store.events import EVENTS, append_events
from online.store.feedback import add_feedback
from online.store.predictions import add_predictions
from online.stream.contract import StreamCopy
from online.telemetry import Metrics
from tests.learning.scene import Scene

DAYS = 30.0
NOW = datetime(2030, 6, 1, tzinfo=UTC)
OLD, YOUNG = NOW - timedelta(days=40), NOW - timedelta(days=1)


class ExpiryScene(Scene):
    """A scene whose learner makes bases. at: the time of the day."""

    def __init__(self, folder: Path, *arguments: Any, drift: Drift = "act", **options: Any) -> None:
        self.at, self.drift, self.metrics = NOW, drift, Metrics()
        self.copy: StreamCopy | None = None
        self.retention: EventRetention | None = None
        super().__init__(folder, *arguments, **options)

    def start_learner(self, **settings: Any) -> Learner:
        retention = RetentionPeriod(DAYS, lambda: self.at, check_every_s=0.0)
        return super().start_learner(**{"retention": retention, "drift": self.drift, **settings})

    def give(self, event: Event, at: datetime, user: str = "bert") -> None:
        """Ask a question and give feedback on it, as a service records both."""
        asked_id = f"asked-{event.id.rpartition('-')[2]}"
        asked = {"id": asked_id, "model": "m", "version": 0, "learned_until": 0, "user": user}
        answer = {"input": json.dumps(f"words of {event.id}"), "features": event.features, "choice": event.choice}
        more = {"propensity": 1.0, "candidates": json.dumps([[event.choice, 1.0]]), "created_at": at.isoformat()}
        item = FeedbackItem(id=event.id, prediction_id=asked_id, label=event.label, user=user)

        def record(connection: Connection) -> None:
            add_predictions(connection, [{**asked, **answer, **more}])
            offset = append_events(connection, "m", [event])[0]
            row = build_row("m", prepare_item(item), offset, "local", event.label)
            row["created_at"] = at.isoformat()
            add_feedback(connection, [row])

        self.workspace.store.submit(record).result()

    def give_again(self, id: str, prediction_id: str, at: datetime) -> None:
        """Give further feedback about a prediction, by somebody else."""
        event = Event(id, "label", self.entries()[0].features, "b")
        item = FeedbackItem(id=id, prediction_id=prediction_id, label="b", user="carl")

        def record(connection: Connection) -> None:
            row = build_row("m", prepare_item(item), append_events(connection, "m", [event])[0], "local", "b")
            row["created_at"] = at.isoformat()
            add_feedback(connection, [row])

        self.workspace.store.submit(record).result()

    def give_sums(self, event: Event, at: datetime) -> None:
        """Send the sums of a device."""
        item = NewFeedback(event.id, "{}", features=event.features, example_count=1)

        def record(connection: Connection) -> None:
            row = build_row("m", item, append_events(connection, "m", [event])[0], "local", None)
            row["created_at"] = at.isoformat()
            add_feedback(connection, [row])

        self.workspace.store.submit(record).result()

    def retract(self, id: str) -> None:
        spec = self.workspace.settings.models[0]
        self.workspace.store.submit(lambda connection: record_retraction(connection, spec, id)).result()

    def catch_up(self) -> None:
        """Let the learner learn all there is, and make the base that is due."""
        steps = 0
        while self.learner.training.learned_until < self.stream.head() or steps < 5 or self.learner.bases.building:
            self.learner.publisher.durable_cost_s = 0.0  # a slow machine must not make it rest
            self.learner.step()
            steps += 1
            assert steps < 10_000

    def remove(self) -> None:
        """Remove contents as the service does."""
        spec, recipe = self.workspace.settings.models[0], self.learner.recipe
        model = ExpiringModel(spec, self.snapshots, self.copy, lambda: recipe)
        store = self.workspace.store
        self.retention = self.retention or EventRetention(store, {"m": model}, self.metrics)

        async def write(work: Callable[[Connection], Any]) -> Any:
            return store.submit(work, durable=False).result()

        asyncio.run(self.retention.prune(write))

    def expire(self) -> None:
        self.catch_up()
        self.remove()

    def base(self) -> Manifest | None:
        found: Manifest | None = self.workspace.store.read(
            lambda connection: find_base(connection, self.snapshots, self.learner.recipe)
        )
        return found

    def progress(self) -> EventExpiry:
        expiry: EventExpiry = self.workspace.store.read(lambda connection: load_expiry(connection, "m"))
        return expiry

    def entries(self) -> list[Event]:
        return self.stream.read(0, 100_000)

    def kinds(self) -> list[str]:
        """The kinds of the events in the store, in order."""
        query = select(EVENTS.c.kind).where(EVENTS.c.model == "m").order_by(EVENTS.c.offset)
        return list(self.workspace.store.read(lambda connection: connection.scalars(query).all()))

    def count(self, table: Any) -> int:
        return len(self.workspace.store.read(lambda connection: connection.execute(select(table)).all()))

    def damage_versions(self, since: int = 0) -> None:
        """Damage every version from one on, as a broken disk does."""
        for version in self.snapshots.folder.versions():
            for path in (self.snapshots.folder.path / str(version)).glob("*.safetensors") if version >= since else ():
                path.unlink()  # a file may have a hard link in another version
                path.write_bytes(b"damaged")

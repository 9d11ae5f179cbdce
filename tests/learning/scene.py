"""A learner on a real store and real snapshots, driven step by step, and events for it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from online.learning.learner import Learner
from online.learning.setup import LearnerSetup
from online.models import Example, Options, create
from online.models.classifier import Classifier
from online.schemas.events import Event
from online.settings import ModelSettings, Settings
from online.state.workspace import Workspace
from online.stream.contract import Stream

VECTOR: Options = {"input": "vector", "size": 3, "scale": 4.0}


def vector_event(id: str, label: str, seed: int) -> Event:
    centre = {"a": -1.0, "b": 1.0}.get(label, 0.0)
    values = np.random.default_rng(seed).normal(centre, 0.5, 3)
    return Event(id, "label", values.tobytes(), label, choice="a")


def vector_events(count: int, start: int = 0) -> list[Event]:
    return [vector_event(f"e{n}", "ab"[n % 2], n) for n in range(start, start + count)]


def sums_event(id: str, events: Sequence[Event]) -> Event:
    """What a device sends that has learned these events by itself."""
    device = Classifier(VECTOR)
    device.learn([Example(n, "label", event.features, event.label) for n, event in enumerate(events)])
    return Event(id, "sums", device.write_contribution())


def text_features(seed: int) -> bytes:
    vector = np.random.default_rng(seed).normal(size=384)
    return np.clip(np.rint(512 * vector / np.linalg.norm(vector)), -127, 127).astype(np.int8).tobytes()


def retraction(stream: Stream, offset: int) -> Event:
    event = stream.read(offset - 1, 1)[0]
    return Event(f"{event.id}#retraction", "retraction", event.features, target=event.at(offset))


class Scene:
    """A workspace with one model, and its learner."""

    def __init__(
        self, folder: Path, kind: str = "classifier", options: Options = VECTOR, store: str | None = None
    ) -> None:
        """store: its URL; None: a SQLite file in the state folder."""
        spec = ModelSettings.model_validate({"name": "m", "kind": kind, "options": options})
        self.workspace = Workspace(Settings(state=folder / "state", models=(spec,), store=store))
        self.kind, self.options = kind, self.workspace.options(spec)
        self.stream, self.snapshots = self.workspace.sql_stream("m"), self.workspace.snapshots("m")
        self.learner = self.start_learner()

    def start_learner(self, **settings: Any) -> Learner:
        """Start a learner as a new process does."""
        settings = {"publish_every_ms": 0.0, "durable_every_s": 1e-9, "idle_ms": 1.0, **settings}
        learner = Learner(
            self.kind, self.options, self.snapshots, self.stream, self.workspace.store, LearnerSetup(**settings)
        )
        learner.start()
        return learner

    def learn(self, *events: Event) -> None:
        for event in events:
            self.stream.append(event)
        while self.learner.training.learned_until < self.stream.head():
            self.learner.step()

    def live_until(self) -> int:
        live = self.snapshots.folder.live()
        assert live is not None
        return self.snapshots.folder.manifest(live.version).learned_until

    def fingerprint(self) -> str:
        return self.learner.training.model.fingerprint()

    def fingerprint_without(self, *ids: str) -> str:
        """The fingerprint of a model that never saw the events with these ids, nor any retraction."""
        model = create(self.kind, self.options)
        for entry in self.stream.read(0, 10_000):
            event = entry
            if event.kind == "retraction" or event.kind == "void" or event.kind == "relearn" or event.kind == "control":
                continue
            if event.id not in ids:
                model.learn([Example(entry.offset, event.kind, event.features, event.label, event.text, event.reward)])
        return model.fingerprint()

"""One model with its admission, review and learner in this process, and callers with texts whose meaning is a number.

A question is a direction in the space of features, with some noise: two questions of one topic are the same question.
"""

import asyncio
import json
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from online.learning.building import create_learner
from online.learning.learner import Learner
from online.models.encoders.text import TEXT_WIDTH
from online.plugins.moderation.callers.standing import StandingRow, load_standing
from online.plugins.moderation.model_moderation import ModelModeration
from online.schemas.access.callers import Caller, Scope
from online.schemas.feedback import FeedbackItem, Receipt
from online.serving.building import build
from online.settings import ModelSettings, Settings
from online.store import now
from online.store.feedback import count_unretracted
from online.store.predictions import add_predictions

T = TypeVar("T")
UNTRUSTED: tuple[Scope, ...] = ("predict", "feedback", "teach")


def caller(name: str, *scopes: Scope, **fields: Any) -> Caller:
    return Caller(name, frozenset({*UNTRUSTED, *scopes}), user=name, **fields)


def question(topic: int, seed: int = 0) -> bytes:
    """Features of a question of a topic."""
    centre = np.random.default_rng(topic).normal(size=TEXT_WIDTH)
    noise = np.random.default_rng([topic, seed]).normal(size=TEXT_WIDTH)
    vector = centre + 0.3 * noise
    return np.clip(np.rint(512 * vector / np.linalg.norm(vector)), -127, 127).astype(np.int8).tobytes()


class Scene:
    def __init__(self, folder: Path, **settings: Any) -> None:
        spec = ModelSettings(name="m", kind="classifier", options={"input": "text"}, guard=False)
        self.settings = Settings(
            state=folder / "state", models=(spec,), publish_every_ms=0.0, durable_every_s=3_600.0, **settings
        )
        self.runtime = build(self.settings, with_learner=False)
        self.model = self.runtime.models["m"]
        self.feedback, self.moderation = self.model.feedback, self.model.parts.find(ModelModeration)
        self.review, self.holders = self.moderation.review, self.moderation.holders
        self.count = 0
        self.learner = self._start_learner(spec)

    def _start_learner(self, spec: ModelSettings) -> Learner:
        workspace = self.runtime.workspace
        learner = create_learner(workspace, spec, workspace.options(spec), self.model.stream, "cpu")
        learner.start()
        return learner

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run(work)

    def ask(self, by: Caller, topic: int, choice: str = "x") -> str:
        """Record a prediction; return its id."""
        self.count += 1
        row = {
            "id": f"p{self.count}",
            "model": "m",
            "version": 0,
            "learned_until": 0,
            "user": by.user,
            "input": json.dumps("?"),
            "features": question(topic, self.count),
            "choice": choice,
            "propensity": 1.0,
            "candidates": "[]",
            "created_at": now(),
        }
        self.store.submit(lambda connection: add_predictions(connection, [row])).result()
        return f"p{self.count}"

    def say(self, by: Caller, topic: int, label: str, choice: str = "x") -> Receipt:
        return self.give(by, self.ask(by, topic, choice), label=label)

    def give(self, by: Caller, prediction_id: str, **signal: Any) -> Receipt:
        item = FeedbackItem(prediction_id=prediction_id, **signal)
        return self.run(self.feedback.submit([item], by))[0]

    def learn(self) -> None:
        while self.learner.training.learned_until < self.model.stream.head():
            self.learner.step()

    @property
    def fingerprint(self) -> str:
        self.learn()
        return self.learner.training.model.fingerprint()

    @property
    def store(self) -> Any:
        return self.runtime.workspace.store

    def standing(self, holder: str) -> StandingRow | None:
        row: StandingRow | None = self.store.read(lambda connection: load_standing(connection, "m", holder))
        return row

    def state(self, holder: str) -> str:
        row = self.standing(holder)
        return row.state if row is not None else "unknown"

    def learned(self, holder: str) -> int:
        """How much of a holder's feedback stands."""
        count: int = self.store.read(lambda connection: count_unretracted(connection, "m", holder, "", None, None))
        return count

    def close(self) -> None:
        self.run(self.model.close())
        self.store.close()

"""10,000 events from a seed that a learner must learn alike in every language, and what Python makes of them.

    Scenario --write--> JSON for the learner in JavaScript
             --learn--> Classifier, whose fingerprint is expected

A merge is the sums of examples, which Python learns one by one: the same is expected of both.
"""

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from online.models import Example
from online.models.classifier import Classifier
from online.models.encoders.hashed import HASHED_EPOCH, hash_text
from online.models.encoders.text import TEXT_WIDTH
from online.models.exchange.sums_file import write_sums
from online.plugins.export.learner_file import LearnerFacts, write_learner_file

Operation = Literal["learn", "unlearn", "merge", "subtract"]
CHECKED_EVERY = 40  # steps after which the fingerprint is compared

# Names whose order differs between code points and UTF-16 units, that look alike, or that need care in JSON.
NAMES = (
    *("a", "b", "10", "9", "é", "e\u0301", "ß", "\uffff", "\ue000", "\U00010000", "😀", "😀\ufe0f", "𝔘"),
    *('"', "\\", "line\nbreak", " a ", "日本", "Ω", "__proto__", "constructor", "line\u2028break"),
)
WORDS = (
    *(
        "where",
        "IS",
        "my",
        "ÖRDER",
        "Straße",
        "don’t",
        "can't",
        "Καλημέρα",
        "ПРИВЕТ",
        "日本語",
        "👍🏽",
        "👩‍👩‍👧",
        "e\u0301",
    ),
    *("ﬁ", "İstanbul", "\U00010400", "\ufeffx", "10,5", "a_b", "…", "!", "\u00a0", "\t", "\ud83d", "x" * 50),
)


@dataclass(frozen=True, slots=True)
class Row:
    """An example. value: numbers of a vector, int8 features, or a text. offset: its place in the log, by which it is un-learned."""

    value: Any
    label: str
    reward: float
    offset: int


@dataclass(slots=True)
class Step:
    operation: Operation
    rows: list[Row]
    fingerprint: str = ""


@dataclass(slots=True)
class Scenario:
    """Steps from a model, which is empty or has learned `start` rows.

    reads: vector, features or text. create: options of the learner in JavaScript, if it does not begin with a file.
    """

    name: str
    reads: Literal["vector", "features", "text"]
    options: dict[str, Any]
    create: dict[str, Any] | None
    start: list[Row]
    steps: list[Step] = field(default_factory=list)
    probes: list[Row] = field(default_factory=list)

    def create_model(self) -> Classifier:
        """The model before the first step."""
        model = Classifier(self.options)
        model.learn(self.as_examples(self.start))
        return model

    def as_examples(self, rows: Sequence[Row]) -> list[Example]:
        return [Example(row.offset, "reward", self.as_bytes(row.value), row.label, reward=row.reward) for row in rows]

    def as_bytes(self, value: Any) -> bytes:
        if self.reads == "text":
            return hash_text(value)
        return np.array(value, np.float64 if self.reads == "vector" else np.int8).tobytes()

    def apply(self, model: Classifier, step: Step) -> None:
        if step.operation in ("learn", "merge"):
            model.learn(self.as_examples(step.rows))
        else:
            model.unlearn(self.as_examples(step.rows))

    def learn(self) -> Classifier:
        """The model after all steps, whose fingerprints are noted on the way."""
        model = self.create_model()
        for place, step in enumerate(self.steps):
            self.apply(model, step)
            is_checked = place % CHECKED_EVERY == 0 or place == len(self.steps) - 1
            step.fingerprint = model.fingerprint() if is_checked else ""
        return model

    def sum_up(self, rows: Sequence[Row]) -> bytes:
        """What a device that learned these rows sends."""
        device = Classifier(self.options)
        device.learn(self.as_examples(rows))
        meta = {"reads": device.feature_epoch(), "octave": device.head.projection.octave, **device.inputs.mapping()}
        return write_sums(device.statistics, meta)

    def write(self) -> str:
        """The scenario as JSON."""
        file = write_learner_file(self.create_model(), LearnerFacts("m", "1", len(self.start)))
        return json.dumps(
            {
                "create": self.create,
                "file": None if self.create is not None else encode(file),
                "steps": [self.describe(step) for step in self.steps],
                "probes": [row.value for row in self.probes],
            }
        )

    def describe(self, step: Step) -> dict[str, Any]:
        if step.operation in ("merge", "subtract"):
            return {
                "operation": step.operation,
                "file": encode(self.sum_up(step.rows)),
                "fingerprint": step.fingerprint,
            }
        rows = [[row.value, row.label, row.reward] for row in step.rows]
        return {"operation": step.operation, "rows": rows, "fingerprint": step.fingerprint}

    @property
    def count(self) -> int:
        return sum(len(step.rows) for step in self.steps)


def encode(data: bytes) -> str:
    return base64.b64encode(data).decode()


class Generator:
    """Draws rows and steps from a seed."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.drawn = 0

    def vector(self, size: int, scale: float) -> list[float]:
        """Numbers on and around the places where rounding turns, and out of range."""
        quantum = 2.0 ** -np.floor(np.log2(127 / scale))
        values = self.random.integers(-130, 131, size) * quantum
        values += self.random.choice([0, 0.5, -0.5, 0.5 - 2**-40, 0.25], size) * quantum
        extreme = self.random.random(size) < 0.02
        values[extreme] = self.random.choice([1e300, -1e300, 5e-324, -0.0, 2.0**-1040, scale, -scale], extreme.sum())
        return [float(value) for value in values]

    def features(self) -> list[int]:
        return [int(value) for value in self.random.integers(-128, 128, TEXT_WIDTH)]

    def text(self) -> str:
        count = self.random.integers(0, 9)
        return "".join(
            f"{word}{self.random.choice([' ', '  ', ', ', ''])}" for word in self.random.choice(WORDS, count)
        )

    def row(self, value: Any) -> Row:
        reward = float(self.random.choice([1.0, 1.0, 1.0, 0.5, np.nextafter(0.5, 0), 0.0]))
        self.drawn += 1
        return Row(value, str(self.random.choice(NAMES)), reward, self.drawn)

    def steps(self, count: int, draw: Any) -> list[Step]:
        """Steps with `count` rows in all. What is taken back was learned or merged before."""
        steps, kept, merged = list[Step](), list[Row](), list[list[Row]]()
        while count > 0:
            rows = [draw() for _ in range(min(count, int(self.random.integers(1, 9))))]
            operation: Operation = self.random.choice(["learn"] * 6 + ["unlearn"] * 2 + ["merge", "subtract"])
            if operation == "unlearn" and len(kept) > len(rows):
                rows = [kept.pop(int(self.random.integers(len(kept)))) for _ in rows]
            elif operation == "subtract" and merged and len(merged[-1]) <= count:
                rows = merged.pop()
            elif operation == "merge":
                merged.append(rows)
            else:
                operation = "learn"
                kept += rows
            steps.append(Step(operation, rows))
            count -= len(rows)
        return steps


def create_scenarios() -> list[Scenario]:
    random = Generator(19)

    def short() -> Row:
        return random.row(random.vector(16, 16.0))

    def long() -> Row:
        return random.row(random.vector(80, 3.7))

    def features() -> Row:
        return random.row(random.features())

    def text() -> Row:
        return random.row(random.text())

    vector = {"input": "vector", "size": 16, "scale": 16.0}
    ridge = {"input": "vector", "size": 80, "scale": 3.7, "head": "ridge"}
    hashed = {"input": "text", "text_features": "hashed"}
    plans: list[tuple[Scenario, Any, int]] = [
        (Scenario("bumps", "vector", vector, None, []), short, 4_000),
        (Scenario("created", "vector", ridge, ridge, []), long, 2_000),
        (Scenario("features", "features", {"shrinkage": 2.0}, None, []), features, 1_500),
        (
            Scenario("texts", "text", hashed, {"input": "features", "size": TEXT_WIDTH, "reads": HASHED_EPOCH}, []),
            text,
            2_500,
        ),
    ]
    for scenario, draw, count in plans:
        if scenario.create is None:
            scenario.start = [draw() for _ in range(200)]
        scenario.steps = random.steps(count, draw)
        scenario.probes = [draw() for _ in range(20)]
    return [scenario for scenario, _, _ in plans]

"""Seeded examples in the format of encoded inputs, so that models are tested without an encoder."""

import json
from collections.abc import Sequence

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from online.models import Example, ExampleKind
from online.models.encoders.text import TEXT_SCALE, TEXT_WIDTH
from online.plugins.router.inputs import StatedFacts, build_tail

TOPICS = ("mango", "melon", "nut", "olive")
NEWCOMER = "aardvark"  # a fifth topic, whose name sorts before the others
NAMES = (*TOPICS, NEWCOMER)
KNOWN = range(len(TOPICS))


def unit(seed: int) -> NDArray[np.float64]:
    vector = np.random.default_rng([384, seed]).normal(size=TEXT_WIDTH)
    return np.asarray(vector / np.linalg.norm(vector), np.float64)


def as_features(vector: NDArray[np.float64]) -> bytes:
    scaled = np.rint(TEXT_SCALE * vector / np.linalg.norm(vector))
    return np.clip(scaled, -127, 127).astype(np.int8).tobytes()


def text(topic: int, variant: int = 0, spread: float = 0.7) -> bytes:
    """A sentence about a topic; variant 0 is the topic's centre. Two variants have a cosine of 1 / (1 + spread^2)."""
    return as_features(unit(topic) + (spread * unit(1_000 + 97 * topic + 10_007 * variant) if variant else 0))


def texts(count: int, seed: int = 0, among: range = KNOWN) -> list[Example]:
    rng = np.random.default_rng(seed)
    topics = rng.integers(among.start, among.stop, count)
    return with_feedback([text(int(topic), n + 1) for n, topic in enumerate(topics)], topics, rng)


def vectors(count: int, seed: int = 0, among: range = KNOWN, size: int = 6) -> list[Example]:
    rng = np.random.default_rng(seed)
    topics = rng.integers(among.start, among.stop, count)
    values = 1.5 * np.eye(len(NAMES), size)[topics] + rng.normal(0, 0.4, (count, size))
    return with_feedback([row.tobytes() for row in values], topics, rng)


def tables(count: int, seed: int = 0, among: range = KNOWN) -> list[Example]:
    """Three numbers, of which one is often missing, and categories, of which one is rare."""
    rng = np.random.default_rng(seed)
    topics = rng.integers(among.start, among.stop, count)
    return with_feedback([row(table_row(int(topic), n, rng)) for n, topic in enumerate(topics)], topics, rng)


def table_row(topic: int, index: int, rng: np.random.Generator) -> dict[str, float | str]:
    values: dict[str, float | str] = {"width": float(4 * topic + rng.normal()), "shape": f"s{topic // 2}"}
    values["height"] = float(6 * (topic % 2) + rng.normal())
    if rng.random() < 0.5:
        values["weight"] = float(10 - 2 * topic + rng.normal())
    if index % 50 == 7:
        values["stamp"] = f"lot {index}"
    return values


def row(values: dict[str, float | str]) -> bytes:
    """Encode as TableEncoder does."""
    return json.dumps(values, sort_keys=True, separators=(",", ":")).encode()


def with_feedback(features: Sequence[bytes], topics: NDArray[np.int64], rng: np.random.Generator) -> list[Example]:
    """Labels, and a reward at every fifth index: 1 for the right class, or 0 for a wrong one."""
    examples = []
    for index, (data, topic) in enumerate(zip(features, topics.tolist(), strict=True)):
        negative = index % 10 == 5
        label = TOPICS[(topic + int(rng.integers(1, 4))) % len(TOPICS)] if negative else NAMES[topic]
        kind: ExampleKind = "reward" if index % 5 == 0 else "label"
        examples.append(Example(index + 1, kind, data, label, reward=0.0 if negative else 1.0))
    return examples


def labels_only(examples: Sequence[Example]) -> list[Example]:
    """The examples that a river classifier can learn, which are those without a reward of 0."""
    return [example for example in examples if example.reward >= 0.5]


def numbers(examples: Sequence[Example]) -> list[Example]:
    """The labels alone, each with a number instead of a topic: ten times the topic's index, with some noise."""
    kept = [example for example in examples if example.kind == "label"]
    noise = np.random.default_rng(len(kept)).normal(0, 0.1, len(kept))
    return [
        structs.replace(example, label=repr(round(10.0 * NAMES.index(example.label) + float(error), 3)))
        for example, error in zip(kept, noise, strict=True)
    ]


def routed(count: int, seed: int = 0, among: range = KNOWN) -> list[Example]:
    """What a router learns: declarations, then an outcome and a rating for each of its answers, and labels now and then."""
    rng = np.random.default_rng(seed)
    examples = [
        Example(1, "declare", b"", "", json.dumps({"max_cost_per_1k": 2.0})),
        *(
            Example(place + 2, "declare", b"", name, json.dumps({"price_in": 1.0, "price_out": 4.0**place}))
            for place, name in enumerate(TOPICS)
        ),
    ]
    while len(examples) < count:
        offset, topic = len(examples) + 1, int(rng.integers(among.start, among.stop))
        facts = {"turns": offset % 3, "exclude": [TOPICS[0]] if offset % 11 == 0 else [], "group": f"g{offset % 5}"}
        features, name = (
            text(topic, offset) + build_tail("how?", StatedFacts(facts), 0),
            NAMES[int(rng.integers(len(TOPICS)))],
        )
        took = json.dumps({"cost": float(rng.uniform(1e-4, 1e-2)), "seconds": 2.0, "unit": 1.5})
        reward = float(name == NAMES[topic])
        examples += [
            Example(offset, "label", features, NAMES[topic])
            if offset % 7 == 0
            else Example(offset, "outcome", features, name, took),
            Example(offset + 1, "reward", features, name, reward=reward, signal="copy" if offset % 4 == 0 else ""),
        ]
    return examples[:count]


def reply(topic: int, offset: int, name: str) -> Example:
    return Example(offset, "reply", text(topic), name, f"All about {name}.")


def replies() -> list[Example]:
    """A reply per topic at offsets 1, 2, ..., and one on a topic that no question is about."""
    return [reply(topic, index, name) for index, (topic, name) in enumerate([*enumerate(TOPICS), (9, "other")], 1)]


def ranker_log(count: int, seed: int = 0, among: range = KNOWN) -> list[Example]:
    """Replies, then labels, corrections and rewards for them, with occasional retirements and restorations."""
    rng = np.random.default_rng(seed)
    kinds: list[ExampleKind] = ["label", "correction", "reward", "reward"]
    examples = replies()
    for index in range(len(examples), count):
        topic = int(rng.integers(among.start, among.stop))
        kind, negative = kinds[index % 4], index % 4 == 3
        label = TOPICS[(topic + 1) % len(TOPICS)] if negative else NAMES[topic]
        examples.append(Example(index + 1, kind, text(topic, index), label, reward=0.1 if negative else 1.0))
        if index % 40 in (20, 30):
            examples[-1] = Example(index + 1, "retire" if index % 40 == 20 else "restore", b"", "other")
    return examples

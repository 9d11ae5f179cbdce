"""Seeded data in the shape of encoded inputs, so that models are tested without an encoder."""

import json
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from online.models import Example, Kind
from online.models.encoder import TEXT_SCALE, TEXT_WIDTH

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
    """A sentence about a topic; variant 0 is its very centre. Two variants have a cosine of 1 / (1 + spread^2)."""
    return as_features(unit(topic) + (spread * unit(1_000 + 97 * topic + 10_007 * variant) if variant else 0))


def texts(count: int, seed: int = 0, among: range = KNOWN) -> list[Example]:
    rng = np.random.default_rng(seed)
    topics = rng.integers(among.start, among.stop, count)
    return judged([text(int(topic), n + 1) for n, topic in enumerate(topics)], topics, rng)


def vectors(count: int, seed: int = 0, among: range = KNOWN, size: int = 6) -> list[Example]:
    rng = np.random.default_rng(seed)
    topics = rng.integers(among.start, among.stop, count)
    values = 1.5 * np.eye(len(NAMES), size)[topics] + rng.normal(0, 0.4, (count, size))
    return judged([row.tobytes() for row in values], topics, rng)


def tables(count: int, seed: int = 0, among: range = KNOWN) -> list[Example]:
    """Three numbers, of which one is often missing, and categories, of which one is rare."""
    rng = np.random.default_rng(seed)
    topics = rng.integers(among.start, among.stop, count)
    return judged([row(table_row(int(topic), n, rng)) for n, topic in enumerate(topics)], topics, rng)


def table_row(topic: int, place: int, rng: np.random.Generator) -> dict[str, float | str]:
    made: dict[str, float | str] = {"width": float(4 * topic + rng.normal()), "shape": f"s{topic // 2}"}
    made["height"] = float(6 * (topic % 2) + rng.normal())
    if rng.random() < 0.5:
        made["weight"] = float(10 - 2 * topic + rng.normal())
    if place % 50 == 7:
        made["stamp"] = f"lot {place}"
    return made


def row(values: dict[str, float | str]) -> bytes:
    """As TableEncoder writes it."""
    return json.dumps(values, sort_keys=True, separators=(",", ":")).encode()


def judged(features: Sequence[bytes], topics: NDArray[np.int64], rng: np.random.Generator) -> list[Example]:
    """Labels, with a thumb in every fifth place: up for the right answer, down for another."""
    made = []
    for place, (data, topic) in enumerate(zip(features, topics.tolist(), strict=True)):
        down = place % 10 == 5
        answer = TOPICS[(topic + int(rng.integers(1, 4))) % len(TOPICS)] if down else NAMES[topic]
        kind: Kind = "reward" if place % 5 == 0 else "label"
        made.append(Example(place + 1, kind, data, answer, reward=0.0 if down else 1.0))
    return made


def labels_only(examples: Sequence[Example]) -> list[Example]:
    """What a river classifier can learn: no thumbs down."""
    return [example for example in examples if example.reward >= 0.5]


def numbers(examples: Sequence[Example]) -> list[Example]:
    """The same inputs with a number instead of a topic: its place among the names, and some noise. Labels alone."""
    kept = [example for example in examples if example.kind == "label"]
    noise = np.random.default_rng(len(kept)).normal(0, 0.1, len(kept))
    return [
        replace(example, label=repr(round(10.0 * NAMES.index(example.label) + float(away), 3)))
        for example, away in zip(kept, noise, strict=True)
    ]


def reply(topic: int, offset: int, name: str) -> Example:
    return Example(offset, "reply", text(topic), name, f"All about {name}.")


def replies() -> list[Example]:
    """A reply per topic at offsets 1, 2, ..., and one about something that nobody asks."""
    return [reply(topic, place, name) for place, (topic, name) in enumerate([*enumerate(TOPICS), (9, "other")], 1)]


def ranker_log(count: int, seed: int = 0, among: range = KNOWN) -> list[Example]:
    """Replies, then labels, corrections and thumbs about them, with a retirement and a restoration now and then."""
    rng = np.random.default_rng(seed)
    kinds: list[Kind] = ["label", "correction", "reward", "reward"]
    made = replies()
    for place in range(len(made), count):
        topic = int(rng.integers(among.start, among.stop))
        kind, down = kinds[place % 4], place % 4 == 3
        answer = TOPICS[(topic + 1) % len(TOPICS)] if down else NAMES[topic]
        made.append(Example(place + 1, kind, text(topic, place), answer, reward=0.1 if down else 1.0))
        if place % 40 in (20, 30):
            made[-1] = Example(place + 1, "retire" if place % 40 == 20 else "restore", b"", "other")
    return made

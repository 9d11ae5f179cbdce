"""Streams on which `best_of` is judged, apart from those on which its settings were chosen.

TUNE   river's generators with seeds and concepts of their own, three classes of Yeast, shuffled wine, 200 digits
JUDGE  the streams of `benchmarks.streams`, SolarFlare, shuffled iris and breast cancer, other generators and seeds

A stream of few rows is shuffled or generated several times; a result is the mean over these.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.streams import encode_rows, stream_of
from online.models.encoders.rows import TableEncoder

ROWS = 3_000  # of a long stream; Elec2 and digits have twice as many
TUNE_ROWS = 3_000


@dataclass(frozen=True, slots=True)
class Rows:
    """A stream of N rows. inputs: each row as a model reads it. options: what a model must know about it."""

    inputs: list[bytes]
    labels: list[str]
    options: Mapping[str, Any] = field(default_factory=dict)


def as_vectors(x: NDArray[Any], y: Iterable[Any]) -> Rows:
    rows = np.ascontiguousarray(x, np.float64)
    return Rows([row.tobytes() for row in rows], [str(label) for label in y], {"input": "vector", "size": x.shape[1]})


def generated(name: str, *concepts: Mapping[str, Any], rows: int) -> Rows:
    """A generator of river: one part of the stream for each concept."""
    from river.datasets import synth

    parts = [getattr(synth, name)(**concept) for concept in concepts]
    taken = [row for part in parts for row in islice(iter(part), rows // len(parts))]
    x, y = encode_rows(taken)
    return as_vectors(x, y.tolist())


def shared(name: str, rows: int) -> Rows:
    """The first rows of a stream of `benchmarks.streams`."""
    stream = stream_of(name)
    return as_vectors(stream.x[:rows], stream.y[:rows].tolist())


def shuffled(name: str, rows: int, seed: int) -> Rows:
    from sklearn import datasets

    x, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(x))[:rows]
    return as_vectors(x[order], y[order].tolist())


def yeast(place: int) -> Rows:
    """Whether a gene has one of Yeast's 14 functions."""
    from river import datasets

    rows = [(list(x.values()), list(y.values())[place]) for x, y in datasets.Yeast()]
    return as_vectors(np.array([x for x, _ in rows], np.float64), [int(y) for _, y in rows])


def solar_flare() -> Rows:
    """The number of flares of class C. Columns are words and numbers."""
    from river import datasets

    rows = list(datasets.SolarFlare())
    return Rows(
        TableEncoder().encode([x for x, _ in rows]), [str(y["c-class-flares"]) for _, y in rows], {"input": "table"}
    )


def hardly_foreseeable(share: float, strength: float, rows: int, seed: int) -> Rows:
    """Two classes of an unequal share that depend a little on one of six numbers."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, 6))
    chances = 1 / (1 + np.exp(-strength * x[:, 0] - np.log(share / (1 - share))))
    return as_vectors(x, (rng.random(rows) < chances).astype(int).tolist())


Make = Callable[[], Rows]


def concepts(option: str, *values: int, seed: int = 42, **others: Any) -> list[dict[str, Any]]:
    return [{option: value, "seed": seed, **others} for value in values]


def tuned(name: str, *concepts: Mapping[str, Any]) -> list[Make]:
    return [partial(generated, name, *concepts, rows=TUNE_ROWS)]


def judged(name: str, *concepts: Mapping[str, Any]) -> list[Make]:
    return [partial(generated, name, *concepts, rows=ROWS)]


CENTRES = {"n_classes": 3, "n_centroids": 15}
TUNE: dict[str, list[Make]] = {
    "wine": [partial(shuffled, "wine", 178, seed) for seed in range(8)],
    "digits, 200": [partial(shuffled, "digits", 200, 100 + seed) for seed in range(3)],
    **{f"yeast {place}": [partial(yeast, place)] for place in (3, 8, 12)},
    "rare class": [partial(hardly_foreseeable, 0.1, 0.5, 2_000, 1)],
    "rare class, short": [partial(hardly_foreseeable, 0.2, 0.5, 300, 100 + seed) for seed in range(8)],
    "noise, short": [partial(hardly_foreseeable, 0.5, 1.2, 300, 200 + seed) for seed in range(8)],
    "Agrawal 2": tuned("Agrawal", {"classification_function": 2, "seed": 11, "perturbation": 0.05}),
    "Agrawal 5": tuned("Agrawal", {"classification_function": 5, "seed": 12}),
    "SEA 3, 0, 2": tuned("SEA", *concepts("variant", 3, 0, 2, seed=70, noise=0.2)),
    "Hyperplane, 7": tuned(
        "Hyperplane",
        {"seed": 7, "n_features": 8, "n_drift_features": 3, "mag_change": 0.005, "noise_percentage": 0.1},
    ),
    "Hyperplane, 8": tuned(
        "Hyperplane", {"seed": 8, "n_features": 20, "n_drift_features": 0, "noise_percentage": 0.05}
    ),
    "RBF, 5": tuned("RandomRBF", {"seed_model": 5, "seed_sample": 5, "n_features": 6, **CENTRES}),
    "RBF moving, 6": tuned(
        "RandomRBFDrift",
        {"seed_model": 6, "seed_sample": 6, "n_features": 8, "change_speed": 0.002, "n_drift_centroids": 15, **CENTRES},
    ),
    "RandomTree, 3": tuned("RandomTree", {"seed_tree": 3, "seed_sample": 3, "n_classes": 3}),
    "Sine 1, 3": tuned("Sine", *concepts("classification_function", 1, 3, seed=31)),
    "Mixed 1, 0": tuned("Mixed", *concepts("classification_function", 1, 0, seed=41)),
    "LED, 9": tuned("LED", {"seed": 9, "noise_percentage": 0.2}),
}
JUDGE: dict[str, list[Make]] = {
    "SolarFlare": [solar_flare],
    "iris": [partial(shuffled, "iris", 150, seed) for seed in range(20)],
    "breast cancer": [partial(shuffled, "breast_cancer", 569, seed) for seed in range(3)],
    "Hyperplane": judged("Hyperplane", {"seed": 42, "n_features": 10, "n_drift_features": 2, "mag_change": 0.001}),
    "Hyperplane, fast": judged("Hyperplane", {"seed": 43, "n_features": 10, "n_drift_features": 5, "mag_change": 0.01}),
    "Agrawal 0, 7": judged("Agrawal", *concepts("classification_function", 0, 7)),
    "RandomTree": judged("RandomTree", {"seed_tree": 42, "seed_sample": 42}),
    "Waveform": judged("Waveform", {"seed": 42}),
    "STAGGER": judged("STAGGER", *concepts("classification_function", 0, 1, 2)),
    "Sine 0, 2": judged("Sine", *concepts("classification_function", 0, 2)),
    "Mixed 0, 1": judged("Mixed", *concepts("classification_function", 0, 1)),
    **{
        name: [partial(shared, name, 2 * ROWS if name in ("elec2", "digits5") else ROWS)]
        for name in ("phishing", "imagesegments", "bananas", "digits5", "sea", "rbf", "led", "elec2")
    },
}

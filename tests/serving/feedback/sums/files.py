"""Files of sums, as devices send them to the models that tests serve."""

from collections.abc import Sequence

import numpy as np

from online.models import Example, Options
from online.models.classifier import Classifier

SIZE = 2
OPTIONS: Options = {"input": "vector", "size": SIZE, "scale": 4.0}

Labelled = tuple[list[float], str]


def draw(count: int, seed: int = 0, swapped: bool = False) -> list[Labelled]:
    """Labelled vectors of two classes around opposite points. swapped: each has the label of the other class."""
    random = np.random.default_rng(seed)
    places = random.integers(0, 2, count)
    values = random.normal(0, 0.4, (count, SIZE)) + np.where(places, 1.5, -1.5)[:, None]
    return [(row.tolist(), "ab"[place ^ swapped]) for row, place in zip(values, places.tolist(), strict=True)]


def to_examples(rows: Sequence[Labelled], start: int = 1) -> list[Example]:
    return [Example(n, "label", np.array(values).tobytes(), label) for n, (values, label) in enumerate(rows, start)]


def make_file(rows: Sequence[Labelled], options: Options = OPTIONS) -> bytes:
    """What a device sends that has learned these rows by itself."""
    device = Classifier(options)
    device.learn(to_examples(rows))
    return device.write_contribution()


def central_fingerprint(rows: Sequence[Labelled], options: Options = OPTIONS) -> str:
    """The hash of a model that saw all rows."""
    model = Classifier(options)
    model.learn(to_examples(rows))
    return model.fingerprint()

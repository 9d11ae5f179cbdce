"""The classified rows that a network learns in `labs.parameter_server.benchmark`, and the same rows as examples of an exact kind.

digits: scikit-learn's 1,797 drawings; each seed splits them in another way. clinc150: 150 intents, as the int8 features
of the project's encoder; its own splits.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from benchmarks import clinc150
from benchmarks import digits as split_digits
from labs.parameter_server.gradients import GradientTask
from online.models import Example, Options

TEXT_SCALE = 26.0  # the typical size of an int8 feature of a text


@dataclass(frozen=True, slots=True)
class Data:
    """Rows to learn and rows to judge. x: float32 [N, D]. features: of each row, as an exact kind reads them."""

    x_ND: Tensor
    class_N: Tensor
    features: Sequence[bytes]
    judged_x_ND: Tensor
    judged_class_N: Tensor
    judged_features: Sequence[bytes]

    def examples(self) -> list[Example]:
        rows = zip(self.features, self.class_N.tolist(), strict=True)
        return [Example(offset, "label", data, str(label)) for offset, (data, label) in enumerate(rows, 1)]


@dataclass(frozen=True, slots=True)
class DataSet:
    """load: the data of a seed; with True, validation rows in place of the test rows.

    rows: of a micro-batch. passes: over the data. rates: to choose from, for single micro-batches and for 32 of them at
    once. options: of the exact kind, by its name.
    """

    load: Callable[[int, bool], Data]
    hidden: int
    rows: int
    passes: int
    rates: Sequence[float]
    synchronous_rates: Sequence[float]
    options: Mapping[str, Options]

    def create_task(self, seed: int, validate: bool = False) -> GradientTask:
        data = self.load(seed, validate)
        return GradientTask(data.x_ND, data.class_N, hidden=self.hidden, rows=self.rows, seed=seed)


@lru_cache(maxsize=4)
def load_digits(seed: int, validate: bool) -> Data:
    _, learned, judged = split_digits.split(seed, validate)
    return Data(*read_digits(learned), *read_digits(judged))


def read_digits(rows: split_digits.Rows) -> tuple[Tensor, Tensor, Sequence[bytes]]:
    pixels: NDArray[np.float64] = np.frombuffer(b"".join(rows.features)).reshape(len(rows.features), -1)
    return torch.from_numpy(pixels / 16).float(), torch.from_numpy(rows.class_N), rows.features


@lru_cache(maxsize=2)
def load_clinc150(validate: bool) -> Data:
    learned, judged = clinc150.split("train"), clinc150.split("val" if validate else "test")
    places = {name: place for place, name in enumerate(sorted(set(learned.labels)))}
    return Data(*read_clinc150(learned, places), *read_clinc150(judged, places))


def read_clinc150(split: clinc150.Split, places: Mapping[str, int]) -> tuple[Tensor, Tensor, Sequence[bytes]]:
    x_ND = torch.from_numpy(split.features / TEXT_SCALE).float()
    return x_ND, torch.tensor([places[label] for label in split.labels]), [row.tobytes() for row in split.features]


VECTOR: Options = {**split_digits.VECTOR, "scale": 16.0}
TEXT: Options = {"input": "text"}

DATA_SETS: Mapping[str, DataSet] = {
    "digits": DataSet(
        load_digits,
        hidden=64,
        rows=8,
        passes=10,
        rates=(0.03, 0.1, 0.3),
        synchronous_rates=(0.1, 0.3, 1.0, 2.0),
        options={"slda": {**VECTOR, "head": "slda"}, "rp_ridge": {**VECTOR, "head": "rp_ridge"}},
    ),
    "clinc150": DataSet(
        lambda _, validate: load_clinc150(validate),
        hidden=128,
        rows=32,
        passes=3,
        rates=(0.1, 0.3, 1.0),
        synchronous_rates=(1.0, 3.0, 10.0),
        options={"slda": {**TEXT, "head": "slda"}, "rp_ridge": {**TEXT, "head": "rp_ridge"}},
    ),
}

"""The data of `benchmarks.federated`, shared out to clients of one class each: scikit-learn's digits, and CLINC150."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from benchmarks import clinc150
from benchmarks.cohorts.averaging import Problem
from online.models import Options
from online.models.classifier import Classifier
from online_federated.values import SumLimits

Row = tuple[bytes, str]  # input as a service logs it, class
Rows = list[Row]


@dataclass(frozen=True, slots=True)
class Task:
    """clients: the rows of each. limit: of the total of so many clients."""

    name: str
    options: Options
    classes: list[str]
    clients: list[Rows]
    test: Rows
    limit: Callable[[int], SumLimits]

    @property
    def width(self) -> int:
        return Classifier(self.options).statistics.width


def load_digits(clients: int, seed: int) -> Task:
    """70 % of the rows, one or two for each client."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    digits = load_digits()
    x_train, x_test, y_train, y_test = train_test_split(
        digits.data.astype(np.float64), digits.target, test_size=0.3, stratify=digits.target, random_state=seed
    )
    train, test = (
        [(row.tobytes(), str(label)) for row, label in zip(x, y, strict=True)]
        for x, y in ((x_train, y_train), (x_test, y_test))
    )
    options: Options = {"input": "vector", "size": 64, "scale": 16.0}
    classes = [str(digit) for digit in range(10)]
    return Task("digits", options, classes, deal(train, classes, clients, seed), test, partial(limit_digits, 8))


def load_texts(clients: int, seed: int) -> Task:
    """Five questions for each client, of 100 questions of each of the 150 intents of CLINC150."""
    train, test = (
        [(row.tobytes(), label) for row, label in zip(split.features, split.labels, strict=True)]
        for split in (clinc150.split("train"), clinc150.split("test"))
    )
    classes = sorted({label for _, label in train})
    dealt = deal(train, classes, clients, seed, most=5)
    return Task("texts", {"input": "text"}, classes, dealt, test, partial(limit_texts, 5))


def limit_digits(examples: int, clients: int) -> SumLimits:
    return SumLimits(examples * clients)


def limit_texts(examples: int, clients: int) -> SumLimits:
    return SumLimits(examples * clients, class_examples=32, negative_examples=0, mean_square=2_500)


TASKS: dict[str, Callable[[int, int], Task]] = {"digits": load_digits, "texts": load_texts}


def deal(rows: Sequence[Row], classes: Sequence[str], clients: int, seed: int, most: int | None = None) -> list[Rows]:
    """The rows of each client: of one class, about as many as of any other client, and `most` at most."""
    random, dealt = np.random.default_rng(seed), list[Rows]()
    labels = np.array([label for _, label in rows])
    for label, part in zip(classes, np.array_split(np.arange(clients), len(classes)), strict=True):
        own = random.permutation(np.flatnonzero(labels == label))
        dealt += [[rows[place] for place in places[:most].tolist()] for places in np.array_split(own, len(part))]
    return [dealt[place] for place in random.permutation(clients).tolist()]


def as_problem(task: Task) -> Problem:
    """The same features and clients for averaging."""
    place = {label: number for number, label in enumerate(task.classes)}
    most = max(map(len, task.clients))
    x_KED = np.zeros((len(task.clients), most, task.width + 1), np.float32)
    weight_KE = np.zeros((len(task.clients), most), np.float32)
    for client, rows in enumerate(task.clients):
        x_KED[client, : len(rows)] = read_features(task, rows)
        weight_KE[client, : len(rows)] = 1 / len(rows)
    class_K = np.array([place[rows[0][1]] for rows in task.clients])
    class_N = np.array([place[label] for _, label in task.test])
    return Problem(x_KED, class_K, weight_KE, read_features(task, task.test), class_N, len(task.classes))


def read_features(task: Task, rows: Rows) -> NDArray[np.float32]:
    """Features in [-1, 1], and a constant."""
    features = Classifier(task.options)._features([data for data, _ in rows]) / 127
    return np.concatenate([features, np.ones((len(rows), 1))], 1).astype(np.float32)

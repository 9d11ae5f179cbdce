"""Split-Digits: scikit-learn's digits as five tasks of two classes, one pass, class-incremental.

    python -m benchmarks.digits [--seeds 5] [--only er,slda] [--validate] [--json]

For each seed: 30 % of the rows are the test, stratified; the classes come in a drawn order, two by two; every training
row is learned once. accuracy: on all test rows, after the last task. forgetting: how much worse a task's test rows are
answered at the end than at their best, mean of the first four tasks. anytime: accuracy on the classes seen so far, mean
over the five ends of a task. --validate takes a third of the training rows in place of the test: options are chosen so.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from benchmarks.report import command, parser, print_json, say, table, verdict
from online.models import Example, Model, Options, create

TASKS = 5
VECTOR: Options = {"input": "vector", "size": 64}
TOWER: Options = {**VECTOR, "batch": 10, "steps": 5, "replay": 20, "buffer": 200, "rate": 0.003}
STRATEGIES = ("naive", "er", "er_ace", "derpp", "ewc", "lwf", "agem")
HEADS = ("slda", "rp_ridge")
TARGETS = {"best tower": 87.0, "classifier slda": 94.5, "classifier rp_ridge": 98.3}

Entrant = tuple[str, str, Options]  # a name, a kind of model and its options
ENTRANTS: list[Entrant] = [
    *((f"tower {name}", "tower", {**TOWER, "strategy": name}) for name in STRATEGIES),
    *((f"classifier {head}", "classifier", {**VECTOR, "scale": 16.0, "head": head}) for head in HEADS),
]


@dataclass(frozen=True, slots=True)
class Rows:
    """N rows: float64 bytes and their classes."""

    features: Sequence[bytes]
    class_N: NDArray[np.int64]

    @classmethod
    def of(cls, digits: Any, places: NDArray[np.int64]) -> "Rows":
        return cls([row.tobytes() for row in digits.data[places].astype(np.float64)], digits.target[places])

    def of_classes(self, classes: NDArray[np.int64]) -> "Rows":
        kept = np.flatnonzero(np.isin(self.class_N, classes))
        return Rows([self.features[place] for place in kept.tolist()], self.class_N[kept])

    def accuracy(self, model: Model) -> float:
        answers = model.predict(self.features)
        right = [answer.choice == str(c) for answer, c in zip(answers, self.class_N, strict=True)]
        return 100 * float(np.mean(right))


@dataclass(frozen=True, slots=True)
class Outcome:
    """Percent of one run; learned_per_second: examples."""

    accuracy: float
    forgetting: float
    anytime: float
    learned_per_second: float


def split(seed: int, validate: bool) -> tuple[list[NDArray[np.int64]], Rows, Rows]:
    """The classes of each task, the training rows in a drawn order, the test rows."""
    digits = load_digits()
    every = np.arange(len(digits.target))
    train, test = train_test_split(every, test_size=0.3, stratify=digits.target, random_state=seed)
    if validate:
        train, test = train_test_split(train, test_size=1 / 3, stratify=digits.target[train], random_state=seed)
    draw = np.random.Generator(np.random.Philox(seed))
    tasks = np.split(draw.permutation(10), TASKS)
    return tasks, Rows.of(digits, draw.permutation(train)), Rows.of(digits, test)


def run(kind: str, options: Options, seed: int, validate: bool) -> Outcome:
    tasks, train, test = split(seed, validate)
    model, learned, seconds = create(kind, options), 0, 0.0
    by_task_TT, anytime = np.zeros((TASKS, TASKS)), list[float]()
    for ended, classes in enumerate(tasks):
        rows = train.of_classes(classes)
        lessons = [
            Example(learned + place + 1, "label", data, str(label))
            for place, (data, label) in enumerate(zip(rows.features, rows.class_N, strict=True))
        ]
        started = time.perf_counter()
        model.learn(lessons)
        seconds += time.perf_counter() - started
        learned += len(lessons)
        anytime.append(test.of_classes(np.concatenate(tasks[: ended + 1])).accuracy(model))
        by_task_TT[ended] = [test.of_classes(task).accuracy(model) for task in tasks]
    forgotten = by_task_TT.max(0)[:-1] - by_task_TT[-1][:-1]
    return Outcome(anytime[-1], float(forgotten.mean()), float(np.mean(anytime)), learned / seconds)


def outcomes(entrant: Entrant, seeds: int, validate: bool) -> Iterator[Outcome]:
    name, kind, options = entrant
    for seed in range(seeds):
        say(f"{name}, seed {seed}")
        yield run(kind, {**options, **({"seed": seed} if kind == "tower" else {})}, seed, validate)


def summary(found: Sequence[Outcome]) -> dict[str, float]:
    mean = {name: float(np.mean([asdict(outcome)[name] for outcome in found])) for name in asdict(found[0])}
    return {**mean, "deviation": float(np.std([outcome.accuracy for outcome in found]))}


def main() -> int:
    flags = parser(__doc__ or "")
    flags.add_argument("--seeds", type=int, default=5, help="how many splits, class orders and first weights")
    flags.add_argument("--only", default="", help="some of the entrants, by a part of their names, comma-separated")
    flags.add_argument("--validate", action="store_true", help="on held-out training rows, to choose options by")
    told = flags.parse_args()
    torch.set_num_threads(1)
    results = dict[str, dict[str, float]]()
    for entrant in ENTRANTS:
        if not any(part in entrant[0] for part in told.only.split(",")):
            continue
        try:
            results[entrant[0]] = summary(list(outcomes(entrant, told.seeds, told.validate)))
        except ValueError as error:
            say(f"{entrant[0]} is left out: {error}")
    if told.json:
        print_json({"rows": "validation" if told.validate else "test", "seeds": told.seeds, "results": results})
    else:
        show(results, "validation" if told.validate else "test", told.seeds)
    return 0


def show(results: dict[str, dict[str, float]], rows: str, seeds: int) -> None:
    columns = ("accuracy", "deviation", "forgetting", "anytime", "learned_per_second")
    table(
        f"Split-Digits, 5 tasks of 2 classes, one pass, mean of {seeds} seeds, {rows} rows",
        ("learner", "accuracy %", "± sd", "forgetting", "anytime %", "examples/s"),
        ((name, *(figures[column] for column in columns)) for name, figures in results.items()),
    )
    best = max((figures["accuracy"], name) for name, figures in results.items() if name.startswith("tower"))
    reached = {"best tower": best[0], **{name: figures["accuracy"] for name, figures in results.items()}}
    for name, target in TARGETS.items():
        if name in reached:
            say(f"{name} {reached[name]:.1f} %, target {target}: {verdict(reached[name], target, ' %', at_least=True)}")


if __name__ == "__main__":
    command(main)

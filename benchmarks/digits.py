"""Split-Digits: scikit-learn's digits as five tasks of two classes, one pass, class-incremental.

    python -m benchmarks.digits [--seeds 5] [--only er,slda] [--validate] [--json]

For each seed, a stratified 30 % of the rows are the test. The classes come two by two in a random
order, and every training row is learned once. accuracy: on all test rows after the last task.
forgetting: the fall from a task's best accuracy to its last, mean of the first four tasks. anytime:
accuracy on the classes seen so far, mean over the ends of the five tasks. --validate uses a third of
the training rows instead of the test rows, to choose options.
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

from benchmarks.report import command, create_parser, print_json, say, table, verdict
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
    """The figures of one run in percent. learned_per_second: examples."""

    accuracy: float
    forgetting: float
    anytime: float
    learned_per_second: float


def split(seed: int, validate: bool) -> tuple[list[NDArray[np.int64]], Rows, Rows]:
    """Return the classes of each task, the training rows in random order, and the test rows."""
    digits = load_digits()
    places = np.arange(len(digits.target))
    train, test = train_test_split(places, test_size=0.3, stratify=digits.target, random_state=seed)
    if validate:
        train, test = train_test_split(train, test_size=1 / 3, stratify=digits.target[train], random_state=seed)
    draw = np.random.Generator(np.random.Philox(seed))
    tasks = np.split(draw.permutation(10), TASKS)
    return tasks, Rows.of(digits, draw.permutation(train)), Rows.of(digits, test)


def run(kind: str, options: Options, seed: int, validate: bool) -> Outcome:
    tasks, train, test = split(seed, validate)
    model, learned, seconds = create(kind, options), 0, 0.0
    accuracy_TT, anytime = np.zeros((TASKS, TASKS)), list[float]()
    for task, classes in enumerate(tasks):
        rows = train.of_classes(classes)
        examples = [
            Example(learned + place + 1, "label", data, str(label))
            for place, (data, label) in enumerate(zip(rows.features, rows.class_N, strict=True))
        ]
        started = time.perf_counter()
        model.learn(examples)
        seconds += time.perf_counter() - started
        learned += len(examples)
        anytime.append(test.of_classes(np.concatenate(tasks[: task + 1])).accuracy(model))
        accuracy_TT[task] = [test.of_classes(each).accuracy(model) for each in tasks]
    forgotten = accuracy_TT.max(0)[:-1] - accuracy_TT[-1][:-1]
    return Outcome(anytime[-1], float(forgotten.mean()), float(np.mean(anytime)), learned / seconds)


def run_seeds(entrant: Entrant, seeds: int, validate: bool) -> Iterator[Outcome]:
    name, kind, options = entrant
    for seed in range(seeds):
        say(f"{name}, seed {seed}")
        yield run(kind, {**options, **({"seed": seed} if kind == "tower" else {})}, seed, validate)


def summarize(outcomes: Sequence[Outcome]) -> dict[str, float]:
    mean = {name: float(np.mean([asdict(outcome)[name] for outcome in outcomes])) for name in asdict(outcomes[0])}
    return {**mean, "deviation": float(np.std([outcome.accuracy for outcome in outcomes]))}


def main() -> int:
    parser = create_parser(__doc__ or "")
    parser.add_argument("--seeds", type=int, default=5, help="number of splits, class orders and initial weights")
    parser.add_argument("--only", default="", help="only models whose names contain one of these, comma-separated")
    parser.add_argument("--validate", action="store_true", help="measure on held-out training rows, to choose options")
    flags = parser.parse_args()
    torch.set_num_threads(1)
    results = dict[str, dict[str, float]]()
    for entrant in ENTRANTS:
        if not any(part in entrant[0] for part in flags.only.split(",")):
            continue
        try:
            results[entrant[0]] = summarize(list(run_seeds(entrant, flags.seeds, flags.validate)))
        except ValueError as error:
            say(f"{entrant[0]} is skipped: {error}")
    if flags.json:
        print_json({"rows": "validation" if flags.validate else "test", "seeds": flags.seeds, "results": results})
    else:
        print_table(results, "validation" if flags.validate else "test", flags.seeds)
    return 0


def print_table(results: dict[str, dict[str, float]], rows: str, seeds: int) -> None:
    columns = ("accuracy", "deviation", "forgetting", "anytime", "learned_per_second")
    table(
        f"Split-Digits, 5 tasks of 2 classes, one pass, mean of {seeds} seeds, {rows} rows",
        ("learner", "accuracy %", "± sd", "forgetting", "anytime %", "examples/s"),
        ((name, *(figures[column] for column in columns)) for name, figures in results.items()),
    )
    reached = {name: figures["accuracy"] for name, figures in results.items()}
    if towers := [accuracy for name, accuracy in reached.items() if name.startswith("tower")]:
        reached["best tower"] = max(towers)
    for name, target in TARGETS.items():
        if name in reached:
            say(f"{name} {reached[name]:.1f} %, target {target}: {verdict(reached[name], target, ' %', at_least=True)}")


if __name__ == "__main__":
    command(main)

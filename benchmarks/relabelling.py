"""Measures how soon a model is right again after its classes change, and what that costs where nothing changes.

    digits, CLINC150 (20 or 60 intents), clusters --taught--> every label becomes the next one --> how many examples?
    sudden: all at once | gradual: over 20 examples a class | partial: a fifth of the classes, at once
    still: digits again and again, CLINC150, SEA, noisy labels, unequal classes, 15,000 each --> false alarms, loss

Each example is answered, then learned; where nothing changes, `--together` of them at a time, as between two published
versions, and acting is measured only where an alarm was raised: without one both runs are the same. `recovered after`: examples a class after the end of the change until the
accuracy of the last 100 is 90 % of what it was over the 300 before; never counts as the end of the stream, 40.
`unchanged`: accuracy on the classes that a partial change leaves alone, after it less before it, in points. Settings
were chosen with seeds from 100 on; the figures are medians and ranges over other seeds.
"""

from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from benchmarks.clinc150 import split
from benchmarks.report import command, create_parser, print_json, run_on_one_thread, say, table, verdict
from online.learning.training_state import TrainingState
from online.models import Options, describe_options, spec_of
from online.models.updates import answer_by_updates
from online.schemas.events import Event
from online.scoring.drift_changes import Alarm
from online.settings import Drift

LAST, BEFORE, RECOVERED_RATIO = 100, 300, 0.9
TARGET_PER_CLASS, MOST_LOSS_POINTS, TUNING_SEED = 15.0, 0.3, 100
STILL_ROWS = 15_000
RAMP_PER_CLASS, AFTER_PER_CLASS = 20, 40
PARTIAL_RATIO = 0.2
TEXTS = "CLINC150"  # in the names of streams of texts
CHANGES = ("sudden", "gradual", "partial")
CLASSIFIERS: dict[str, tuple[str, Options]] = {
    head: ("classifier", {"head": head}) for head in ("slda", "ridge", "rp_ridge", "best")
}
MODELS: dict[str, tuple[str, Options]] = {
    **CLASSIFIERS,
    "logistic": ("logistic", {}),
    "knn": ("knn", {}),
    "tower": ("tower", {}),
    "best_of": ("best_of", {}),
}
DRIFTS: dict[str, Drift] = {"off": "watch", "act": "act"}  # watched, alarms are counted and have no effect

Rows = tuple[Options, Sequence[bytes], Sequence[str]]  # options of the input; rows; classes


@dataclass(frozen=True, slots=True)
class Stream:
    """Entries in order. starts, ends: the first offset with a new label, and the last with an old one (0: still)."""

    name: str
    options: Options
    entries: Sequence[Event]
    starts: int = 0
    ends: int = 0
    changed: frozenset[str] = frozenset()

    @property
    def classes(self) -> int:
        return len({entry.label for entry in self.entries})


@dataclass(frozen=True, slots=True)
class Run:
    """alarms: the first of each change. raised: all of them."""

    right: NDArray[np.bool_]
    alarms: list[Alarm]
    raised: list[Alarm]


# data


@cache
def read_digits() -> Rows:
    digits = load_digits()
    rows = [row.astype(np.float64).tobytes() for row in digits.data]
    return {"input": "vector", "size": 64, "scale": 16.0}, rows, [str(label) for label in digits.target]


@cache
def read_clinc(intents: int) -> Rows:
    train = split("train")
    names = sorted({*train.labels})
    chosen = {names[place] for place in np.random.default_rng(intents).permutation(len(names))[:intents].tolist()}
    kept = [place for place, label in enumerate(train.labels) if label in chosen]
    return {"input": "text"}, [train.features[at].tobytes() for at in kept], [train.labels[at] for at in kept]


@cache
def draw_clusters(classes: int = 8, width: int = 16, count: int = 4_000, seed: int = 7) -> Rows:
    rng = np.random.default_rng(seed)
    centres, label_N = rng.normal(0, 1.0, (classes, width)), rng.integers(classes, size=count)
    rows = centres[label_N] + rng.normal(0, 0.8, (count, width))
    return (
        {"input": "vector", "size": width, "scale": 4.0},
        [row.tobytes() for row in rows],
        [f"c{label}" for label in label_N.tolist()],
    )


def draw_sea(seed: int) -> Rows:
    from river.datasets import synth

    rows = list(synth.SEA(variant=seed % 4, noise=0.1, seed=seed).take(STILL_ROWS))
    data = [np.array([*x.values()], np.float64).tobytes() for x, _ in rows]
    return {"input": "vector", "size": 3, "scale": 10.0}, data, [str(y) for _, y in rows]


WORLDS: dict[str, tuple[Callable[[], Rows], int]] = {  # rows; examples a class before the change
    "digits": (read_digits, 90),
    "CLINC150, 20 intents": (lambda: read_clinc(20), 50),
    "CLINC150, 60 intents": (lambda: read_clinc(60), 40),
    "clusters": (draw_clusters, 90),
}


# streams that change


def create_change(name: str, change: str, seed: int) -> Stream:
    read, before = WORLDS[name]
    options, rows, labels = read()
    rng, names = np.random.default_rng(seed), sorted({*labels})
    count = len(names)
    changed = names
    if change == "partial":
        changed = [names[place] for place in rng.permutation(count)[: max(2, int(PARTIAL_RATIO * count))].tolist()]
    after = dict(pairwise([*changed, changed[0]]))
    ramp = RAMP_PER_CLASS * count if change == "gradual" else 0
    starts = before * count + 1
    total = starts + ramp + AFTER_PER_CLASS * count
    order = draw_places(len(rows), total, rng)
    entries = []
    for offset, place in enumerate(order, 1):
        share = 1.0 if offset >= starts + ramp else max(0.0, (offset - starts) / max(ramp, 1))
        label = labels[place]
        entries.append(create_entry(offset, rows[place], after.get(label, label) if rng.random() < share else label))
    return Stream(f"{name}, {change}", options, entries, starts, starts + ramp - 1, frozenset(changed))


def draw_places(rows: int, count: int, rng: np.random.Generator) -> list[int]:
    """Places of rows, all of them in another order each time."""
    rounds = -(-count // rows)
    return [place for _ in range(rounds) for place in rng.permutation(rows).tolist()][:count]


def create_entry(offset: int, row: bytes, label: str) -> Event:
    return Event(str(offset), "label", row, label, offset=offset)


# streams that stand still


def create_still(name: str, seed: int, count: int) -> Stream:
    rng = np.random.default_rng(1_000 + seed)
    options, rows, labels = STILL[name](seed)
    names = sorted({*labels})
    places = draw_places(len(rows), count, rng)
    if name == "unequal classes":  # the most frequent one a hundred times as often as the rarest
        weight = {label: 100 ** (-place / (len(names) - 1)) for place, label in enumerate(rng.permutation(names))}
        chance = np.array([weight[label] for label in labels])
        places = rng.choice(len(rows), count, p=chance / chance.sum()).tolist()
    given = [labels[place] for place in places]
    if name == "20 % wrong labels":
        given = [str(rng.choice(names)) if rng.random() < 0.2 else label for label in given]
    entries = [
        create_entry(offset, rows[place], label)
        for offset, (place, label) in enumerate(zip(places, given, strict=True), 1)
    ]
    return Stream(name, options, entries)


STILL: dict[str, Callable[[int], Rows]] = {
    "digits": lambda seed: read_digits(),
    "20 % wrong labels": lambda seed: draw_clusters(count=STILL_ROWS, seed=2_000 + seed),
    "unequal classes": lambda seed: read_digits(),
    "SEA": draw_sea,
    "clusters": lambda seed: draw_clusters(count=STILL_ROWS, seed=3_000 + seed),
    "CLINC150": lambda seed: read_clinc(150),
}


# runs


def run(model: str, drift: str, stream: Stream, together: int = 1) -> Run:
    """together: examples that are answered, then learned, at once."""
    kind, options = MODELS[model]
    known = {option.name for option in describe_options(kind)}
    shared = {name: value for name, value in stream.options.items() if name in known}
    training = TrainingState(kind, {**shared, **options}, "cpu", lambda until: [], drift=DRIFTS[drift])
    answer_by_updates(training.model)
    right = list[bool]()
    for start in range(0, len(stream.entries), together):
        entries = stream.entries[start : start + together]
        choices = [answer.choice for answer in training.model.predict([entry.features for entry in entries])]
        right += [choice == entry.label for choice, entry in zip(choices, entries, strict=True)]
        training.apply([replace(entry, choice=choice) for choice, entry in zip(choices, entries, strict=True)])
    return Run(np.array(right), training.monitor.alarms, training.monitor.raised)


def measure_recovery(stream: Stream, right: NDArray[np.bool_]) -> float:
    """Return the examples a class after the change until the model is right again."""
    level = float(right[stream.starts - 1 - BEFORE : stream.starts - 1].mean())
    for end in range(stream.ends + LAST, len(right) + 1):
        if right[end - LAST : end].mean() >= RECOVERED_RATIO * level:
            return (end - stream.ends) / stream.classes
    return float(AFTER_PER_CLASS)


def measure_unchanged(stream: Stream, right: NDArray[np.bool_]) -> float:
    """Return the points that the classes without a change gained or lost."""
    spared = np.array([entry.label not in stream.changed for entry in stream.entries])
    start = stream.starts - 1
    old = slice(start - 2 * BEFORE, start)
    before, after = right[old][spared[old]], right[start:][spared[start:]]
    return 100 * float(after.mean() - before.mean())


def measure_changes(model: str, world: str, changes: Sequence[str], seeds: Sequence[int]) -> Iterator[dict[str, Any]]:
    for change in changes:
        streams = [create_change(world, change, seed) for seed in seeds]
        for drift in DRIFTS:
            runs = [run(model, drift, stream) for stream in streams]
            after = [sum(a.offset >= s.starts for a in r.alarms) for r, s in zip(runs, streams, strict=True)]
            early = [sum(a.offset < s.starts for a in r.alarms) for r, s in zip(runs, streams, strict=True)]
            pairs = [*zip(streams, runs, strict=True)]
            unchanged = [measure_unchanged(s, r.right) for s, r in pairs] if change == "partial" else []
            last = [100 * float(r.right[-LAST:].mean()) for r in runs]
            recovered = [measure_recovery(s, r.right) for s, r in pairs]
            yield {
                "model": model,
                "stream": world,
                "change": change,
                "drift": drift,
                "recovered_after": recovered,
                "alarms": after,
                "false_alarms": early,
                "unchanged_points": unchanged,
                "last_percent": last,
            }


def measure_still(model: str, name: str, seeds: Sequence[int], count: int, together: int) -> dict[str, Any]:
    loss, alarms = [], []
    for seed in seeds:
        stream = create_still(name, seed, count)
        acted = run(model, "act", stream, together)
        alarms.append(len(acted.alarms))
        plain = run(model, "off", stream, together) if acted.alarms else acted  # without an alarm the two are the same
        loss.append(100 * float(plain.right.mean() - acted.right.mean()))
    return {"model": model, "stream": name, "loss_points": loss, "false_alarms": alarms}


# tables


def span(values: Sequence[float], digits: int = 1) -> str:
    if not values:
        return "-"
    return f"{np.median(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def print_changes(rows: Sequence[Mapping[str, Any]]) -> None:
    columns = ("model, stream", "change", "drift", "recovered after", f"<= {TARGET_PER_CLASS:.0f}", "alarms", "early")
    table(
        "examples a class until the last 100 are 90 % as good as before: median (range) over the seeds",
        (*columns, "last 100, %", "unchanged, points"),
        [
            (
                f"{row['model']}, {row['stream']}",
                row["change"],
                row["drift"],
                span(row["recovered_after"]),
                verdict(max(row["recovered_after"]), TARGET_PER_CLASS) if row["drift"] == "act" else "-",
                span(row["alarms"], 0),
                sum(row["false_alarms"]),
                span(row["last_percent"]),
                span(row["unchanged_points"]),
            )
            for row in rows
        ],
    )


def print_still(rows: Sequence[Mapping[str, Any]], count: int) -> None:
    table(
        f"{count:,} examples without a change: points that acting costs, and alarms",
        ("model, stream", "loss, points", f"<= {MOST_LOSS_POINTS}", "false alarms", "none"),
        [
            (
                f"{row['model']}, {row['stream']}",
                span(row["loss_points"], 2),
                verdict(max(row["loss_points"]), MOST_LOSS_POINTS),
                row["false_alarms"],
                verdict(sum(row["false_alarms"]), 0),
            )
            for row in rows
        ],
    )


def parse_flags() -> Namespace:
    parser = create_parser(__doc__ or "")
    parser.add_argument("--seeds", type=int, default=3, help="streams of each kind")
    parser.add_argument("--tune", action="store_true", help="use the seeds on which settings are chosen")
    parser.add_argument(
        "--models", default="slda,ridge,logistic,knn", help=f"of {', '.join(MODELS)}; separated by commas"
    )
    parser.add_argument("--worlds", default="; ".join(WORLDS), help="streams that change, separated by semicolons")
    parser.add_argument("--changes", default=",".join(CHANGES), help="kinds of change, separated by commas")
    parser.add_argument("--still", default="; ".join(STILL), help="streams that do not; '' for none")
    parser.add_argument(
        "--together", type=int, default=16, help="examples that are answered, then learned, at once: still ones"
    )
    parser.add_argument("--rows", type=int, default=STILL_ROWS, help="examples of a stream that does not change")
    return parser.parse_args()


def select_worlds(model: str, given: str) -> list[str]:
    """The streams that a model can read. given: their names, separated by semicolons."""
    names = [name for name in map(str.strip, given.split(";")) if name]
    return names if "text" in spec_of(MODELS[model][0]).inputs else [n for n in names if not n.startswith(TEXTS)]


def main() -> int:
    flags = parse_flags()
    run_on_one_thread()
    seeds = range(TUNING_SEED, TUNING_SEED + flags.seeds) if flags.tune else range(flags.seeds)
    changes: list[dict[str, Any]] = []
    still: list[dict[str, Any]] = []
    for model in flags.models.split(","):
        for world in select_worlds(model, flags.worlds):
            say(f"{model}: {world} ...")
            changes += measure_changes(model, world, flags.changes.split(","), seeds)
        for name in select_worlds(model, flags.still):
            say(f"{model}: {name}, still ...")
            still.append(measure_still(model, name, seeds, flags.rows, flags.together))
    if flags.json:
        print_json({"benchmark": "relabelling", "changes": changes, "still": still})
    else:
        print_changes(changes)
        print_still(still, flags.rows)
    return 0


if __name__ == "__main__":
    command(main)

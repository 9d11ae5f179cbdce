"""Measures what each member of best_of adds: every member alone, best_of without it, and best_of.

    stream -> each member and no change, alone: its answer to every row before it learns the row   (cached)
           -> the same answers -> best_of with all members, and with one fewer
           -> best_of as it is shipped, with members at rest: accuracy and rows a second

The streams of `--half judge` had no part in choosing settings; those of `--half tune` had: see
`member_streams`. Members do not influence each other, so best_of without a member is the same code over
recorded answers. Rates are of processor time on one core, answering every row before it is learned: "rows/s" in
calls of TURN rows, as a replay and the learner make them, and "one by one" with an answer asked for before
every row. Both must end in the same state. A busy machine halves the rates, so best_of takes turns with river's
logistic regression, and the table prints how many times longer it takes.
"""

import hashlib
import json
import time
from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.member_streams import JUDGE, TUNE, Rows
from benchmarks.report import command, create_parser, print_json, run_on_one_thread, say, table, verdict
from benchmarks.service import BenchmarkError
from benchmarks.streams import streams_folder
from online.models import Answer, Example, Model, create
from online.models.contract import build_candidates
from online.models.encoders.columns import column_name
from online.models.encoders.values import parse_row
from online.plugins.ensembles.best_of import CONTENDERS, BestOf

TOLERANCE_POINTS = 0.5  # behind the best of the members and no change
RATE_TARGET = 1_000
TURN = 256  # rows that best_of learns at once, as a replay does, before it is the peer's turn
NO_CHANGE = "no change"

Floats = NDArray[np.float64]
Bits = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Alone:
    """A member's answers to the N rows of a stream. chances: [N, C]; all 0 where it had no answer."""

    chances: Floats
    right: Bits
    seconds: float


def examples_of(rows: Rows) -> list[Example]:
    return [
        Example(n, "label", data, label)
        for n, (data, label) in enumerate(zip(rows.inputs, rows.labels, strict=True), 1)
    ]


class RiverLogistic:
    """river's logistic regression, one for each class, on standardised numbers; the peer for rates."""

    def __init__(self) -> None:
        from river import linear_model, multiclass, preprocessing

        each: Any = linear_model.LogisticRegression()
        self.learner: Any = preprocessing.StandardScaler() | multiclass.OneVsRestClassifier(each)

    def answer_and_learn(self, rows: Sequence[tuple[dict[Any, float], str]]) -> float:
        """The processor time."""
        started = time.process_time()
        for x, label in rows:
            self.learner.predict_one(x)
            self.learner.learn_one(x, label)
        return time.process_time() - started


def rows_for_river(rows: Rows) -> list[tuple[dict[Any, float], str]]:
    """The rows as river reads them: a category is a column of its own."""
    if rows.options["input"] == "vector":
        read: list[dict[Any, float]] = [dict(enumerate(np.frombuffer(data).tolist())) for data in rows.inputs]
    else:
        values = [parse_row(data).items() for data in rows.inputs]
        read = [{column_name(name, v): v if isinstance(v, float) else 1.0 for name, v in each} for each in values]
    return list(zip(read, rows.labels, strict=True))


@dataclass(frozen=True, slots=True)
class Served:
    """What best_of answered row by row, and processor times: in calls of TURN rows, one by one, and of the peer."""

    answers: list[Answer]
    seconds: float
    seconds_one_by_one: float
    seconds_of_peer: float


def measure_served(rows: Rows) -> Served:
    """Let best_of, the same one by one, and the peer take turns."""
    model, one_by_one, peer = create("best_of", rows.options), create("best_of", rows.options), RiverLogistic()
    examples, others, answers, times = examples_of(rows), rows_for_river(rows), list[Answer](), np.zeros(3)
    for start in range(0, len(examples), TURN):
        turn = examples[start : start + TURN]
        started = time.process_time()
        model.learn(turn)
        times[0] += time.process_time() - started
        given, seconds = answer_and_learn(one_by_one, turn)
        answers += given
        times[1:] += seconds, peer.answer_and_learn(others[start : start + TURN])
    if model.fingerprint() != one_by_one.fingerprint():
        raise BenchmarkError("best_of learned something else in calls of several rows than one by one")
    return Served(answers, *times.tolist())


def answer_and_learn(model: Model, examples: Sequence[Example]) -> tuple[list[Answer], float]:
    """Every answer, and the processor time."""
    answers, started = list[Answer](), time.process_time()
    for example in examples:
        answers += model.predict([example.features])
        model.learn([example])
    return answers, time.process_time() - started


def measure_alone(rows: Rows, own: Mapping[str, Any]) -> Alone:
    """Run one member on a stream, or read what it did before."""
    seen = hashlib.sha256(
        json.dumps([*map(bytes.hex, rows.inputs), rows.labels, own, rows.options]).encode()
    ).hexdigest()
    path = streams_folder() / f"member-{seen[:16]}.npz"
    if not path.exists():
        alone = run_alone(rows, own)
        np.savez(path, chances=alone.chances, right=alone.right, seconds=alone.seconds)
    found = np.load(path)
    return Alone(found["chances"], found["right"], float(found["seconds"]))


def run_alone(rows: Rows, own: Mapping[str, Any]) -> Alone:
    options = {name: value for name, value in own.items() if name != "kind"}
    answers, seconds = answer_and_learn(create(own["kind"], {**rows.options, **options}), examples_of(rows))
    chances = tabulate(answers, sorted(set(rows.labels)))
    right = [answer.choice == label for answer, label in zip(answers, rows.labels, strict=True)]
    return Alone(chances, np.array(right), seconds)


def tabulate(answers: Sequence[Answer], labels: Sequence[str]) -> Floats:
    place = {label: at for at, label in enumerate(labels)}
    chances_NC = np.zeros((len(answers), len(labels)))
    for row_C, answer in zip(chances_NC, answers, strict=True):
        for label, chance, _ in answer.candidates:
            row_C[place[label]] = chance
    return chances_NC


class Recorded:
    """A member that gives recorded answers, one after another."""

    def __init__(self, chances_NC: Floats, labels: Sequence[str]) -> None:
        self.answers, self.at = [build_answer(row_C, labels) for row_C in chances_NC], 0

    def predict(self, inputs: Sequence[bytes], keys: Sequence[int | None] = ()) -> list[Answer]:
        return [self.answers[self.at]]

    def learn(self, examples: Sequence[Example]) -> None:
        self.at += 1


def build_answer(chances_C: Floats, labels: Sequence[str]) -> Answer:
    order = [int(at) for at in np.argsort(-chances_C, kind="stable") if chances_C[at] > 0]
    candidates = build_candidates([labels[at] for at in order], [float(chances_C[at]) for at in order])
    return Answer(candidates[0].id, candidates, candidates[0].score) if candidates else Answer(None, ())


def accuracy_of(rows: Rows, alone: Mapping[str, Alone], names: Sequence[str], **options: Any) -> float:
    """The accuracy of best_of with these members, all awake, over their recorded answers. options: of best_of."""
    model = BestOf({**rows.options, "rest": False, **options})
    model.keep_members(names)
    for name in names:
        model.models[name] = Recorded(alone[name].chances, sorted(set(rows.labels)))  # type: ignore[assignment]
    answers, _ = answer_and_learn(model, examples_of(rows))
    return percent([answer.choice == label for answer, label in zip(answers, rows.labels, strict=True)])


def percent(right: Sequence[bool] | Bits) -> float:
    return 100 * float(np.mean(right))


def no_change(rows: Rows) -> float:
    return percent([one == other for one, other in zip(rows.labels[1:], rows.labels[:-1], strict=True)])


def measure(rows: Rows, leave_out: bool) -> dict[str, dict[str, float]]:
    members = CONTENDERS[rows.options["input"]]
    alone = {name: measure_alone(rows, own) for name, own in members.items()}
    served = measure_served(rows)
    shipped = [answer.choice == label for answer, label in zip(served.answers, rows.labels, strict=True)]
    names = list(members)
    without = {name: accuracy_of(rows, alone, [n for n in names if n != name]) for name in names if leave_out}
    return {
        "alone": {**{name: percent(each.right) for name, each in alone.items()}, NO_CHANGE: no_change(rows)},
        "ms": {name: 1000 * each.seconds / len(rows.labels) for name, each in alone.items()},
        "without": without,
        "best_of": {
            "percent": percent(shipped),
            "awake": accuracy_of(rows, alone, names),
            "per_second": len(rows.labels) / served.seconds,
            "one_by_one_per_second": len(rows.labels) / served.seconds_one_by_one,
            "times_river": served.seconds / served.seconds_of_peer,
            "rows": len(rows.labels),
        },
    }


def summarise(name: str, runs: Sequence[dict[str, dict[str, float]]]) -> dict[str, Any]:
    """Means over the shuffles or seeds of a stream."""
    keys = {part: {key: float(np.mean([run[part][key] for run in runs])) for key in runs[0][part]} for part in runs[0]}
    best = max(keys["alone"], key=keys["alone"].__getitem__)
    leads = [run["best_of"]["percent"] - run["alone"][best] for run in runs]
    deviation = float(np.std(leads, ddof=1)) if len(leads) > 1 else float("nan")
    return {
        "stream": name,
        "runs": len(runs),
        **keys,
        "best_alone": best,
        "lead": float(np.mean(leads)),
        "interval": 1.96 * deviation / len(leads) ** 0.5,
    }


def print_streams(summary: Sequence[dict[str, Any]]) -> None:
    lines = [
        (
            one["stream"],
            f"{one['best_of']['rows']:,.0f}" + (f" x {one['runs']}" if one["runs"] > 1 else ""),
            one["best_of"]["percent"],
            f"{one['best_alone']} {one['alone'][one['best_alone']]:.2f}",
            f"{one['lead']:+.2f}" + (f" ±{one['interval']:.2f}" if one["runs"] > 1 else ""),
            verdict(one["lead"], -TOLERANCE_POINTS, " points", at_least=True),
            one["alone"].get("majority", float("nan")),
            one["alone"][NO_CHANGE],
            f"{one['best_of']['per_second']:,.0f}",
            f"{one['best_of']['one_by_one_per_second']:,.0f}",
            f"{one['best_of']['times_river']:.0f}",
        )
        for one in summary
    ]
    columns = (
        *("", "rows", "best_of %", "best alone %", "lead", "within 0.5", "majority %", "no change %"),
        *("rows/s", "one by one", "x river's logistic"),
    )
    table("best_of beside its best member", columns, lines)
    rates = [one["best_of"]["per_second"] for one in summary]
    print(
        f"behind by more than {TOLERANCE_POINTS}: {sum(one['lead'] < -TOLERANCE_POINTS for one in summary)} of {len(summary)}"
    )
    print(
        f"slowest {min(rates):,.0f} rows/s: {verdict(min(rates), RATE_TARGET, at_least=True)}; median {np.median(rates):,.0f}, "
        f"{np.median([one['best_of']['times_river'] for one in summary]):.0f} times the time of river's logistic regression"
    )


def print_members(summary: Sequence[dict[str, Any]]) -> None:
    """What each member adds: the accuracy of best_of with all members, minus that without it."""
    lines = []
    for name in summary[0]["without"]:
        added = {
            one["stream"]: one["best_of"]["awake"] - one["without"][name] for one in summary if name in one["without"]
        }
        most, least = max(added, key=added.__getitem__), min(added, key=added.__getitem__)
        lines.append(
            (
                name,
                f"{np.mean([one['alone'][name] for one in summary]):.2f}",
                f"{np.mean([*added.values()]):+.2f}",
                f"{added[most]:+.2f} {most}",
                f"{added[least]:+.2f} {least}",
                f"{np.mean([one['ms'][name] for one in summary]):.2f}",
            )
        )
    columns = ("", "alone %", "adds on average", "at most", "at least", "ms a row")
    table("What each member adds", columns, lines)


def parse_flags() -> Namespace:
    parser = create_parser(__doc__ or "")
    parser.add_argument("--half", choices=("judge", "tune"), default="judge", help="the streams")
    parser.add_argument("--streams", default="", help="only these, separated by semicolons")
    parser.add_argument("--no-leave-out", action="store_true", help="do not measure best_of without each member")
    return parser.parse_args()


def main() -> int:
    flags = parse_flags()
    run_on_one_thread()
    half = JUDGE if flags.half == "judge" else TUNE
    wanted = [name for name in flags.streams.split(";") if name] or list(half)
    if unknown := sorted({*wanted} - half.keys()):
        raise BenchmarkError(f"there is no {unknown[0]!r}; the streams are {'; '.join(half)}")
    summary = []
    for name in wanted:
        say(f"{name} ...")
        summary.append(summarise(name, [measure(make(), not flags.no_leave_out) for make in half[name]]))
    if flags.json:
        print_json({"benchmark": "members", "half": flags.half, "streams": summary})
    else:
        print_streams(summary)
        if not flags.no_leave_out:
            print_members(summary)
    return int(any(one["lead"] < -TOLERANCE_POINTS for one in summary))


if __name__ == "__main__":
    command(main)

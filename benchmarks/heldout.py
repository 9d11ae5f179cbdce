"""Tuned here, tested there: would another half of the data choose the defaults that are shipped?

    grid around each shipped value --tuning half--> the value with the best mean --+
                                                                                   v
    table, intervals <-- shipped - chosen, set by set <--judging half, once-- shipped and chosen value

The halves (`benchmarks.halves`) share no intent, scenario, dataset or seed. All choices are made before the first set of the
judging half is read, and no other value is ever measured there. The interval of a difference is Student's, at 95 %, over the
sets. Every figure is kept in the user's cache, under the code of the models that it was measured with, so that an
interrupted run goes on where it was.
"""

import ast
import hashlib
import json
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import benchmarks
import online
from benchmarks.halves import JUDGE_SEED, TUNE_SEED, Half
from benchmarks.report import command, create_parser, print_json, progress, run_on_one_thread, table
from benchmarks.tuned_defaults import SETTINGS, Setting
from online.io.atomic import replace_file
from online.io.cache import cache_folder
from online.plugins.regression.tracking.reach import student_t

LEVEL = 0.95
QUICK_SETS = 2  # of each half
SEEDS = {"tune": TUNE_SEED, "judge": JUDGE_SEED}
Score = Callable[[Setting, Any, Half[Any], str], float]  # of a value of a setting on a set of a half


@dataclass(frozen=True, slots=True)
class Choice:
    """What the tuning half says. means: the score of each value, the mean over the sets."""

    setting: Setting
    means: Mapping[Any, float]

    @property
    def shipped(self) -> Any:
        return self.setting.target.shipped

    @property
    def chosen(self) -> Any:
        """The value with the best mean; the shipped one if it is as good."""
        return max(self.means, key=lambda value: (self.means[value], value == self.shipped))


@dataclass(frozen=True, slots=True)
class Judgement:
    """What the judging half says. differences: shipped less chosen, by set."""

    choice: Choice
    shipped_mean: float
    differences: Mapping[str, float]

    @property
    def difference(self) -> float:
        return float(np.mean([*self.differences.values()]))

    @property
    def interval(self) -> float:
        """The half-width of the interval of the mean difference; NaN for a single set."""
        count = len(self.differences)
        if count < 2:
            return float("nan")
        deviation = float(np.std([*self.differences.values()], ddof=1))
        return float(student_t(LEVEL, count - 1) * deviation / count**0.5)

    @property
    def verdict(self) -> str:
        if len({*self.choice.means.values()}) == 1:
            return "changes nothing here"  # nothing on these sets depends on it
        if self.choice.chosen == self.choice.shipped:
            return "chosen again"
        if self.difference - self.interval > 0:
            return "shipped is better"
        if self.difference + self.interval < 0:
            return "shipped is worse"
        return "no difference shown"


def choose(setting: Setting, tune: Half[Any], score: Score) -> Choice:
    """Measure every value of the grid on the tuning half, which is all that this sees."""
    return Choice(
        setting,
        {value: float(np.mean([score(setting, value, tune, name) for name in tune.sets])) for value in setting.grid},
    )


def judge(choice: Choice, half: Half[Any], score: Score) -> Judgement:
    """Measure the shipped and the chosen value on the judging half."""
    shipped, chosen = (
        {name: score(choice.setting, value, half, name) for name in half.sets}
        for value in (choice.shipped, choice.chosen)
    )
    differences = {name: shipped[name] - chosen[name] for name in half.sets}
    return Judgement(choice, float(np.mean([*shipped.values()])), differences)


def run(settings: Sequence[Setting], score: Score, sets: int | None = None) -> list[Judgement]:
    """Make all choices on the tuning halves, then judge each once. sets: of each half; None: all."""
    choices = [choose(each, shorten(each.task.halves.tune, sets), score) for each in progress(settings, "choosing")]
    return [
        judge(choice, shorten(choice.setting.task.halves.judge, sets), score) for choice in progress(choices, "judging")
    ]


def shorten(half: Half[Any], sets: int | None) -> Half[Any]:
    """The first sets of a half."""
    return Half(half.name, dict([*half.sets.items()][:sets]))


# scores that are kept


def score_once(setting: Setting, value: Any, half: Half[Any], name: str) -> float:
    """Measure a value on a set, or read what was measured before with the same code."""
    change, seed = setting.change(value), SEEDS[half.name]
    constants = [[*key, repr(changed)] for key, changed in change.constants.items()]
    cell = [digest_code(), setting.task.name, half.name, name, seed, dict(change.options), constants]
    key = hashlib.sha256(json.dumps(cell, sort_keys=True).encode()).hexdigest()[:24]
    path = cache_folder() / "benchmarks" / "heldout" / f"{key}.json"
    if not path.exists():
        data = read_set(setting.task.name, half, name)
        with change.in_force():
            scores = setting.task.score(data, change.options, seed)
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, json.dumps({"cell": cell, "scores": scores}).encode(), durable=False)
    scores = json.loads(path.read_bytes())["scores"]
    return float(scores[setting.measure])


READ: dict[tuple[str, str, str], Any] = {}


def read_set(task: str, half: Half[Any], name: str) -> Any:
    """A set, read once."""
    key = task, half.name, name
    if key not in READ:
        READ[key] = half.sets[name]()
    return READ[key]


@cache
def digest_code() -> str:
    """Names the code that decides a score, without comments and layout."""
    packages = Path(online.__file__).parent, Path(benchmarks.__file__).parent
    names = ["halves", "tasks", "cold_start", "chat", "members", "member_streams", "regression", "relabelling"]
    files = [*(packages[0] / "models").rglob("*.py"), *(packages[0] / "learning").glob("*.py")]
    files += [packages[1] / f"{name}.py" for name in names]
    trees = [ast.dump(ast.parse(path.read_text())) for path in sorted(files)]
    return hashlib.sha256("\0".join(trees).encode()).hexdigest()[:16]


# tables


def print_tables(judgements: Sequence[Judgement]) -> None:
    rows = [
        (
            each.choice.setting.name,
            f"{each.choice.shipped:g}",
            list_means(each.choice),
            f"{each.choice.chosen:g}",
            f"{each.shipped_mean:.2f}",
            describe_difference(each),
            each.verdict,
        )
        for each in judgements
    ]
    columns = ("", "shipped", "tuning half", "it chooses", "judged: shipped", "shipped - chosen", "verdict")
    table("defaults, tuned on one half of the data and judged on the other", columns, rows)
    counted = [each.verdict for each in judgements]
    print("; ".join(f"{name}: {counted.count(name)}" for name in sorted(set(counted))))


def list_means(choice: Choice) -> str:
    """Each value with its mean less that of the shipped one."""
    base = choice.means[choice.shipped]
    return ", ".join(
        f"{value:g}: {mean:.2f}" if value == choice.shipped else f"{value:g}: {mean - base:+.2f}"
        for value, mean in choice.means.items()
    )


def describe_difference(judgement: Judgement) -> str:
    if judgement.choice.chosen == judgement.choice.shipped:
        return "-"
    return f"{judgement.difference:+.2f} ± {judgement.interval:.2f} {judgement.choice.setting.measure}"


def to_row(judgement: Judgement) -> dict[str, Any]:
    choice = judgement.choice
    return {
        "setting": choice.setting.name,
        "task": choice.setting.task.name,
        "unit": choice.setting.measure,
        "shipped": choice.shipped,
        "tuning": {f"{value:g}": mean for value, mean in choice.means.items()},
        "chosen": choice.chosen,
        "sets": len(judgement.differences),
        "judged_shipped": judgement.shipped_mean,
        "differences": judgement.differences,
        "difference": judgement.difference,
        "interval": judgement.interval,
        "verdict": judgement.verdict,
    }


def parse_flags() -> Namespace:
    parser = create_parser(__doc__ or "")
    parser.add_argument("--only", nargs="*", default=[], help="only settings whose names contain one of these")
    parser.add_argument("--sets", type=int, help="only so many sets of each half (default: all)")
    parser.add_argument("--quick", action="store_const", const=QUICK_SETS, dest="sets", help=f"--sets {QUICK_SETS}")
    return parser.parse_args()


def main() -> int:
    flags = parse_flags()
    run_on_one_thread()
    settings = [each for each in SETTINGS if not flags.only or any(part in each.name for part in flags.only)]
    judgements = run(settings, score_once, flags.sets)
    if flags.json:
        print_json({"benchmark": "heldout", "settings": [to_row(each) for each in judgements]})
    else:
        print_tables(judgements)
    return 0


if __name__ == "__main__":
    command(main)

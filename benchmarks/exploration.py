"""Measures what a ranker gains by trying other replies than the best one, and what that costs people who asked something else.

    shipped repertoire --one reply is taught--> questions about other things --> how many of them get a reply that is not plausible
    CLINC150, chit-chat --> the scenarios of `benchmarks.heldout`'s thumbs    --> right answers from thumbs alone

"now" is the product; "before" tries any reply, not only those that may be right (`cold_start.find_untested`). Both see the same
questions, keys and thumbs. A tried reply is implausible if its chance is below IMPLAUSIBLE. The gain is measured on both halves
of the sets: the constants were chosen on the tuning half.
"""

from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

import numpy as np

from benchmarks.chat import NEVER_ABSTAIN
from benchmarks.clinc150 import split
from benchmarks.cold_start import Turns, find_untested, play_ranker
from benchmarks.halves import INTENT_HALVES, JUDGE_SEED, TUNE_SEED, Half, Intents
from benchmarks.report import command, create_parser, print_json, progress, run_on_one_thread, table
from benchmarks.tasks import SCENARIOS
from benchmarks.typed_questions import Chat, questions
from online.models import Answer, Example
from online.models.ranker import choice
from online.models.ranker.policies import POLICIES, draw_key
from online.models.ranker.ranker import OPTIONS

IMPLAUSIBLE = 0.1  # chance
LIES = 0.1
TAUGHT = (
    ("Can I charge my electric car?", "Two chargers stand behind the library."),
    ("Do you lend umbrellas?", "Umbrellas hang beside the door; bring yours back within the week."),
    ("Where can I fix my bicycle?", "A pump and some tools are chained to the bicycle stand."),
    ("Is there a piano?", "A piano stands in the basement; book it for an hour at the desk."),
)
ASKS_BACK = "names, default options: it asks back"
DEFAULTS = {each.name: each.default for each in OPTIONS if each.name in NEVER_ABSTAIN}


@contextmanager
def policy_before(policy: str) -> Iterator[None]:
    """Try any reply: the optimistic policy unless ratings near the question speak for the best one, the others everywhere."""
    before = find_untested if policy == "optimistic" else lambda scored, *_: scored.ranked
    with patch.object(choice, "find_plausible", before):
        yield


# what it costs


@dataclass(frozen=True, slots=True)
class Cost:
    """Shares in percent of the questions that got a reply: another than the best, an implausible one, the one just taught.

    answered: questions that got a reply. worst: the lowest chance of a reply that was tried.
    """

    answered: int

    tried: float
    implausible: float
    taught: float
    worst: float

    @classmethod
    def of(cls, answers: Sequence[Answer]) -> "Cost":
        answered = sum(answer.choice is not None for answer in answers)
        share, tried = 100 / max(answered, 1), [answer for answer in answers if answer.is_tried]
        implausible = sum(answer.score < IMPLAUSIBLE for answer in tried)
        misled = sum(answer.choice == "taught" for answer in tried)
        worst = min((answer.score for answer in tried), default=1.0)
        return cls(answered, share * len(tried), share * implausible, share * misled, worst)


def measure_costs() -> list[dict[str, Any]]:
    rows = list[dict[str, Any]]()
    for name, options in (("default", {}), ("gives guesses", NEVER_ABSTAIN)):
        for policy in progress([each for each in POLICIES if each != "greedy"], f"unrelated questions, {name}"):
            now, asked = ask_unrelated({**options, "policy": policy})
            with policy_before(policy):
                before, _ = ask_unrelated({**options, "policy": policy})
            rows.append({"options": name, "policy": policy, "questions": asked, "before": before, "now": now})
    return rows


def ask_unrelated(options: dict[str, Any]) -> tuple[Cost, int]:
    """Ask a chat in which one reply was just taught everything that has nothing to do with it, once for each reply."""
    answers = list[Answer]()
    for question, reply in TAUGHT:
        chat = Chat(**options)
        asked = [each.text for each in questions() if each.kind in ("out-of-scope", "reworded", "misspelt")]
        encoded = [*chat.encoder.encode(asked), *(row.tobytes() for row in split("oos_test").features)]
        features, text = chat.encoder.encode([question, reply])
        chat.ranker.learn(
            [Example(10_001, "reply", text, "taught", reply), Example(10_002, "correction", features, "taught")]
        )
        answers += chat.ranker.predict(encoded, [draw_key(f"{reply} {place}") for place in range(len(encoded))])
    return Cost.of(answers), len(answers)


# what it gains


def measure_gains(sets: int | None) -> list[dict[str, Any]]:
    scenarios = [
        *SCENARIOS,
        *(replace(each, name=f"{each.name}, {LIES:.0%} wrong", flip=LIES) for each in SCENARIOS[2:]),
    ]
    scenarios.insert(0, replace(SCENARIOS[0], name="names, all true", flip=0.0))
    scenarios.append(replace(SCENARIOS[0], name=ASKS_BACK))
    return [
        {"half": half.name, "scenario": scenario.name, **play_half(half, scenario, seed, sets)}
        for half, seed in ((INTENT_HALVES.tune, TUNE_SEED), (INTENT_HALVES.judge, JUDGE_SEED))
        for scenario in progress(scenarios, f"thumbs, {half.name}")
    ]


def play_half(half: Half[Intents], scenario: Any, seed: int, sets: int | None) -> dict[str, float]:
    found: dict[str, list[float]] = {"greedy": [], "before": [], "now": []}
    for read in list(half.sets.values())[:sets]:
        turns = Turns.draw(read().dataset, scenario, seed)
        for name, way in (("greedy", "greedy"), ("before", "before"), ("now", "optimistic")):
            options = DEFAULTS if scenario.name == ASKS_BACK else {}
            hits, _ = play_ranker(way, turns, scenario, seed, options)
            found[name].append(100 * float(np.mean(hits)))
    return {name: float(np.mean(shares)) for name, shares in found.items()}


def print_tables(costs: list[dict[str, Any]], gains: list[dict[str, Any]]) -> None:
    rows = [
        (
            f"{each['policy']}, {each['options']}",
            f"{each['questions']:,}",
            f"{each['now'].answered:,}",
            *(
                f"{cost.tried:.1f} / {cost.implausible:.1f} / {cost.taught:.1f}"
                for cost in (each["before"], each["now"])
            ),
            *(f"{each[when].worst:.4f}" for when in ("before", "now")),
        )
        for each in costs
    ]
    columns = ("", "asked", "answered", "before", "now", "lowest chance before", "now")
    table(
        "another reply than the best / an implausible one / the one just taught, % of the unrelated questions that are answered",
        columns,
        rows,
    )
    shares = [
        (f"{each['half']}: {each['scenario']}", *(f"{each[name]:.1f}" for name in ("greedy", "before", "now")))
        for each in gains
    ]
    table("right of all turns, thumbs alone, %", ("", "greedy", "before", "now"), shares)


def parse_flags() -> Namespace:
    parser = create_parser(__doc__ or "")
    parser.add_argument("--sets", type=int, help="only so many sets of each half (default: all)")
    return parser.parse_args()


def main() -> int:
    flags = parse_flags()
    run_on_one_thread()
    costs, gains = measure_costs(), measure_gains(flags.sets)
    if flags.json:
        print_json({"benchmark": "exploration", "costs": costs, "gains": gains})
    else:
        print_tables(costs, gains)
    return 0


if __name__ == "__main__":
    command(main)

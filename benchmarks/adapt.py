"""What does tuning the text encoder bring with few examples? CLINC150: 10 questions taught for each of 150 intents.

    1,500 taught questions + 150 names -> judged on their own fifths -> tuned on all -> test, frozen against tuned
    100 of the intents -> tuned -> the other 50, taught 10 questions each afterwards -> test: does it hurt?

The proof never sees a test question, nor does anything that was chosen by it. Both encoders' features go through the
same int8 and the same heads: linear discriminant analysis alone, and the ranker with its neighbours. The data is found
through ONLINE_SHARED_DATA.
"""

import json
import time
from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.clinc150 import Int8s, data_file
from benchmarks.report import command, parser, print_json, say, table, verdict
from online.learning.adapting import Adaptation, Said
from online.learning.learner import example_of
from online.models import Model, create, minilm
from online.models.adapter import Lower, Tuning, generator, tensors_of
from online.models.encoder import quantised
from online.models.exact import ExactStatistics, solve_slda
from online.models.ranker import OPTIONS
from online.schemas import Entry, Event

TARGET_PERCENT = 92.0
SHOTS, OTHERS = 10, 50

Question = tuple[str, str]  # text, intent
Tuned = Mapping[str, NDArray[np.float32]]


@dataclass(frozen=True, slots=True)
class Clinc:
    train: list[Question]
    test: list[Question]
    strange: list[Question]  # of no intent at all

    @property
    def intents(self) -> list[str]:
        return sorted({intent for _, intent in self.train})

    def taught(self, intents: Sequence[str], seed: int) -> list[Question]:
        """SHOTS training questions of each intent, drawn by seed."""
        draw = generator(seed, 0)
        found = []
        for intent in intents:
            questions = [question for question in self.train if question[1] == intent]
            found += [questions[place] for place in draw.permutation(len(questions))[:SHOTS]]
        return found


def read_clinc(every: int) -> Clinc:
    """every: only each so-manieth question that is asked."""
    data = json.loads(data_file().read_bytes())
    train, test, strange = ([(text, label) for text, label in data[name]] for name in ("train", "test", "oos_test"))
    return Clinc(train, test[::every], strange[::every])


def said_of(taught: Sequence[Question]) -> list[Said]:
    """The log that a service would have: every intent a reply with its name for a text, then the questions."""
    names = sorted({intent for _, intent in taught})
    events = [(Event(name, "reply", label=name), spoken(name)) for name in names]
    events += [(Event(text, "label", label=intent), text) for text, intent in taught]
    return [Said(Entry(offset, event), text) for offset, (event, text) in enumerate(events, 1)]


def spoken(intent: str) -> str:
    return intent.replace("_", " ")


class Asked:
    """Questions that are never taught, through an encoder's frozen layers once."""

    def __init__(self, questions: Sequence[Question], layers: int) -> None:
        self.labels = [intent for _, intent in questions]
        tokenizer = minilm.tokenizer()
        self.frozen = tensors_of(minilm.read_weights(minilm.package_folder()))
        self.lower = Lower(self.frozen, layers, [tokenizer.encode(text).ids for text, _ in questions])

    def features(self, tuned: Tuned) -> Int8s:
        return quantised(self.lower.vectors({**self.frozen, **tensors_of(tuned)}).numpy())


@dataclass(frozen=True, slots=True)
class Taught:
    """What was taught, and the int8 features of its texts by one encoder."""

    adaptation: Adaptation
    features: Int8s  # [texts, 384]

    def rows(self, texts: Sequence[str]) -> Int8s:
        return self.features[[self.adaptation.place[text] for text in texts]]

    def discriminant(self, asked_QD: Int8s) -> list[str]:
        """What linear discriminant analysis answers, the intents' names counting as half a question each."""
        statistics = ExactStatistics(self.features.shape[1])
        names = [each.event.label for each in self.adaptation.said if each.event.kind == "reply"]
        for name in names:
            statistics.add_label(name)
        taught = [each for each in self.adaptation.said if each.event.kind != "reply"]
        statistics.add(self.rows([each.text for each in taught]), [names.index(each.event.label) for each in taught])
        described = self.rows([spoken(name) for name in names])
        weights = solve_slda(statistics, OPTIONS["shrinkage"], priors=False, described=described)
        scores = asked_QD.astype(np.float32) @ weights.matrix + weights.bias
        return [names[place] for place in scores.argmax(1)]

    def ranker(self) -> Model:
        """With its default options."""
        model, said = create("ranker", {}), self.adaptation.said
        rows = self.rows([each.text for each in said])
        model.learn(
            [
                example_of(replace(each.entry, event=replace(each.event, features=row.tobytes())))
                for each, row in zip(said, rows, strict=True)
            ]
        )
        return model


def percent(found: Sequence[bool]) -> float:
    return 100 * float(np.mean(found))


def heads(adaptation: Adaptation, tuned: Tuned, test: Asked, strange: Asked | None = None) -> dict[str, float]:
    taught, asked_QD = Taught(adaptation, adaptation.features(tuned)), test.features(tuned)
    ranker = taught.ranker()
    answers = ranker.predict([row.tobytes() for row in asked_QD])
    found = zip(taught.discriminant(asked_QD), answers, test.labels, strict=True)
    right = [(plain == label, ranked.candidates[0].id == label) for plain, ranked, label in found]
    told = {
        "discriminant_percent": percent([plain for plain, _ in right]),
        "ranker_percent": percent([ranked for _, ranked in right]),
        "abstained_percent": percent([answer.abstained for answer in answers]),
    }
    if strange is not None:
        given = ranker.predict([row.tobytes() for row in strange.features(tuned)])
        told["strange_answered_percent"] = percent([not answer.abstained for answer in given])
    say(f"{'tuned' if tuned else 'frozen'}: {told}")
    return told


def few_shot(clinc: Clinc, tuning: Tuning, test: Asked, strange: Asked, judged: bool) -> dict[str, Any]:
    """All intents: the proof, then the test, frozen against tuned."""
    adaptation = Adaptation("ranker", {}, said_of(clinc.taught(clinc.intents, tuning.seed)), tuning, progress)
    started = time.perf_counter()
    proof = adaptation.judge() if judged else None
    judged_at = time.perf_counter()
    tuned = adaptation.tuned(adaptation.said)
    seconds = time.perf_counter() - judged_at
    told = {
        "frozen": heads(adaptation, {}, test, strange),
        "tuned": heads(adaptation, tuned, test, strange),
        "tuning_seconds": seconds,
    }
    if proof is not None:
        counts = {name: getattr(proof, name) for name in ("judged", "before", "after", "gained", "lost", "chance")}
        told["proof"] = {**counts, "better": proof.better, "seconds": judged_at - started}
    return told


def transfer(clinc: Clinc, tuning: Tuning) -> dict[str, Any]:
    """Tuned on the other intents: what it does to OTHERS intents that were taught only afterwards."""
    order = [clinc.intents[place] for place in generator(tuning.seed, 1).permutation(len(clinc.intents))]
    held, known = set(order[:OTHERS]), order[OTHERS:]
    tuned_on = Adaptation("ranker", {}, said_of(clinc.taught(known, tuning.seed)), tuning, progress)
    tuned = tuned_on.tuned(tuned_on.said, f"tuning on {len(known)} intents")
    new = Adaptation("ranker", {}, said_of(clinc.taught(sorted(held), tuning.seed)), tuning)
    test = Asked([question for question in clinc.test if question[1] in held], tuning.layers)
    return {"frozen": heads(new, {}, test), "tuned": heads(new, tuned, test)}


def progress(what: str, step: int, steps: int) -> None:
    if step == steps:
        say(f"{what}: {steps} steps")


def compare(flags: Namespace) -> dict[str, Any]:
    clinc, base = read_clinc(flags.every), Tuning(**dict(map(option, flags.tuning)))
    say("the questions through the frozen layers ...")
    test, strange = Asked(clinc.test, base.layers), Asked(clinc.strange, base.layers)
    runs = []
    for seed in range(flags.seeds):
        tuning = replace(base, seed=seed)
        run = {"seed": seed, **few_shot(clinc, tuning, test, strange, flags.judge)}
        runs.append({**run, "others": transfer(clinc, tuning)} if flags.others else run)
    return {"shots": SHOTS, "test": len(test.labels), "strange": len(strange.labels), "runs": runs}


def option(pair: str) -> tuple[str, Any]:
    name, _, value = pair.partition("=")
    return name, json.loads(value)


def print_table(told: dict[str, Any]) -> None:
    rows = []
    for run in told["runs"]:
        for part, what in ((run, "150 intents"), (run.get("others"), f"{OTHERS} others, taught afterwards")):
            for name in part["frozen"] if part else ():
                frozen, tuned = part["frozen"][name], part["tuned"][name]
                target = name == "discriminant_percent" and part is run
                rows.append(
                    (
                        f"seed {run['seed']}, {what}: {name.removesuffix('_percent').replace('_', ' ')}",
                        frozen,
                        tuned,
                        tuned - frozen,
                        verdict(tuned, TARGET_PERCENT, at_least=True) if target else "-",
                    )
                )
    title = f"CLINC150, {told['shots']} questions taught for each intent, {told['test']:,} test questions"
    table(title, ("%", "frozen", "tuned", "change", f"at least {TARGET_PERCENT:.0f}"), rows)
    for run in told["runs"]:
        print(f"seed {run['seed']}: tuned in {run['tuning_seconds']:.0f} s", end="")
        if "proof" in run:
            proof = run["proof"]
            print(
                f"; proof on {proof['judged']:,} taught questions in {proof['seconds']:.0f} s: {proof['before']:,} -> "
                f"{proof['after']:,} right ({proof['gained']} gained, {proof['lost']} lost, chance "
                f"{proof['chance']:.2g}): {'better' if proof['better'] else 'not proven'}",
                end="",
            )
        print()


def flags_given() -> Namespace:
    made = parser(__doc__ or "")
    made.add_argument("--seeds", type=int, default=1, help="how many draws of the taught questions")
    made.add_argument("--no-judge", dest="judge", action="store_false", help="leave out the proof, which tunes 5 times")
    made.add_argument(
        "--no-others", dest="others", action="store_false", help="leave out the intents taught afterwards"
    )
    made.add_argument("--every", type=int, default=1, metavar="N", help="ask only each Nth test question")
    made.add_argument("--tuning", nargs="*", default=[], metavar="NAME=VALUE", help="fields of Tuning")
    return made.parse_args()


def main() -> int:
    flags = flags_given()
    told = compare(flags)
    print_json({"benchmark": "adapt", **told}) if flags.json else print_table(told)
    return 0


if __name__ == "__main__":
    command(main)

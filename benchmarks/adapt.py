"""Measures what tuning the text encoder gains with few examples: CLINC150, 10 questions for each of 150 intents.

    1,500 taught questions + 150 names -> 5-fold cross-validation -> tuned on all -> test, frozen and tuned
    100 of the intents -> tuned -> the other 50, taught 10 questions each afterwards -> test: is there a loss?

The cross-validation uses no test question. The features of both encoders pass through the same int8
quantization and the same heads: linear discriminant analysis alone, and the ranker with its
neighbours. The data is read from the folder in ONLINE_SHARED_DATA.
"""

import json
import time
from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from benchmarks.clinc150 import Int8s, data_file
from benchmarks.report import command, create_parser, print_json, say, table, verdict
from online.learning.training_state import build_example
from online.models import Model, create
from online.models.encoders import minilm
from online.models.encoders.text import quantise
from online.models.options import defaults
from online.models.ranker.ranker import OPTIONS
from online.models.statistics.exact import ExactStatistics
from online.models.statistics.slda import solve_slda
from online.plugins.encoder_tuning.adapter import FrozenLayers, TuningOptions, create_generator, to_tensors
from online.plugins.encoder_tuning.text_events import TextEvent
from online.plugins.encoder_tuning.tuning import EncoderTuning
from online.schemas.events import Event

TARGET_PERCENT = 92.0
SHOTS, NEW_INTENTS = 10, 50

Question = tuple[str, str]  # text, intent
Tuned = Mapping[str, NDArray[np.float32]]


@dataclass(frozen=True, slots=True)
class Clinc:
    """The questions of CLINC150."""

    train: list[Question]
    test: list[Question]
    out_of_scope: list[Question]  # questions of no known intent

    @property
    def intents(self) -> list[str]:
        return sorted({intent for _, intent in self.train})

    def draw_questions(self, intents: Sequence[str], seed: int) -> list[Question]:
        """Return SHOTS training questions of each intent, drawn with the seed."""
        draw = create_generator(seed, 0)
        drawn = []
        for intent in intents:
            questions = [question for question in self.train if question[1] == intent]
            drawn += [questions[place] for place in draw.permutation(len(questions))[:SHOTS]]
        return drawn


def read_clinc(every: int) -> Clinc:
    """Read the data. every: keep each Nth test question."""
    data = json.loads(data_file().read_bytes())
    train, test, out_of_scope = (
        [(text, label) for text, label in data[name]] for name in ("train", "test", "oos_test")
    )
    return Clinc(train, test[::every], out_of_scope[::every])


def build_events(taught: Sequence[Question]) -> list[TextEvent]:
    """Build the log that a service would have: each intent as a reply with its name as text, then the questions."""
    names = sorted({intent for _, intent in taught})
    events = [(Event(name, "reply", label=name), text_of_intent(name)) for name in names]
    events += [(Event(text, "label", label=intent), text) for text, intent in taught]
    return [TextEvent(event.at(offset), text) for offset, (event, text) in enumerate(events, 1)]


def text_of_intent(intent: str) -> str:
    return intent.replace("_", " ")


class EncodedQuestions:
    """Test questions, passed once through the encoder's frozen layers."""

    def __init__(self, questions: Sequence[Question], layers: int) -> None:
        self.labels = [intent for _, intent in questions]
        tokenizer = minilm.tokenizer()
        self.frozen = to_tensors(minilm.read_weights(minilm.package_folder()))
        self.lower = FrozenLayers(self.frozen, layers, [tokenizer.encode(text).ids for text, _ in questions])

    def features(self, tuned: Tuned) -> Int8s:
        return quantise(self.lower.vectors({**self.frozen, **to_tensors(tuned)}).numpy())


@dataclass(frozen=True, slots=True)
class TaughtExamples:
    """The taught events, and the int8 features of their texts from one encoder."""

    adaptation: EncoderTuning
    features: Int8s  # [texts, 384]

    def rows(self, texts: Sequence[str]) -> Int8s:
        return self.features[[self.adaptation.index[text] for text in texts]]

    def answer_by_discriminant(self, questions_QD: Int8s) -> list[str]:
        """Answer with linear discriminant analysis. The name of an intent counts as half a question."""
        statistics = ExactStatistics(self.features.shape[1])
        names = [each.event.label for each in self.adaptation.events if each.event.kind == "reply"]
        for name in names:
            statistics.add_class(name)
        taught = [each for each in self.adaptation.events if each.event.kind != "reply"]
        statistics.add(self.rows([each.text for each in taught]), [names.index(each.event.label) for each in taught])
        described = self.rows([text_of_intent(name) for name in names])
        weights = solve_slda(statistics, defaults(OPTIONS)["shrinkage"], priors=False, described=described)
        scores = questions_QD.astype(np.float32) @ weights.matrix + weights.bias
        return [names[place] for place in scores.argmax(1)]

    def ranker(self) -> Model:
        """Return a ranker with default options that has learned the events."""
        model, events = create("ranker", {}), self.adaptation.events
        rows = self.rows([each.text for each in events])
        model.learn(
            [
                build_example(structs.replace(each.event, features=row.tobytes()))
                for each, row in zip(events, rows, strict=True)
            ]
        )
        return model


def percent(hits: Sequence[bool]) -> float:
    return 100 * float(np.mean(hits))


def measure_heads(
    adaptation: EncoderTuning, tuned: Tuned, test: EncodedQuestions, out_of_scope: EncodedQuestions | None = None
) -> dict[str, float]:
    taught, questions_QD = TaughtExamples(adaptation, adaptation.features(tuned)), test.features(tuned)
    ranker = taught.ranker()
    answers = ranker.predict([row.tobytes() for row in questions_QD])
    rows = zip(taught.answer_by_discriminant(questions_QD), answers, test.labels, strict=True)
    right = [(plain == label, ranked.candidates[0].id == label) for plain, ranked, label in rows]
    figures = {
        "discriminant_percent": percent([plain for plain, _ in right]),
        "ranker_percent": percent([ranked for _, ranked in right]),
        "abstained_percent": percent([answer.abstained for answer in answers]),
    }
    if out_of_scope is not None:
        unknown = ranker.predict([row.tobytes() for row in out_of_scope.features(tuned)])
        figures["out_of_scope_answered_percent"] = percent([not answer.abstained for answer in unknown])
    say(f"{'tuned' if tuned else 'frozen'}: {figures}")
    return figures


def few_shot(
    clinc: Clinc, tuning: TuningOptions, test: EncodedQuestions, out_of_scope: EncodedQuestions, judged: bool
) -> dict[str, Any]:
    """Measure all intents: the cross-validation, then the test with the frozen and the tuned encoder."""
    adaptation = EncoderTuning(
        "ranker", {}, build_events(clinc.draw_questions(clinc.intents, tuning.seed)), tuning, progress
    )
    started = time.perf_counter()
    proof = adaptation.judge() if judged else None
    judged_at = time.perf_counter()
    tuned = adaptation.tune(adaptation.events)
    seconds = time.perf_counter() - judged_at
    figures = {
        "frozen": measure_heads(adaptation, {}, test, out_of_scope),
        "tuned": measure_heads(adaptation, tuned, test, out_of_scope),
        "tuning_seconds": seconds,
    }
    if proof is not None:
        counts = {name: getattr(proof, name) for name in ("judged", "before", "after", "gained", "lost", "chance")}
        figures["proof"] = {**counts, "better": proof.better, "seconds": judged_at - started}
    return figures


def transfer(clinc: Clinc, tuning: TuningOptions) -> dict[str, Any]:
    """Measure how tuning on other intents affects NEW_INTENTS intents that are taught afterwards."""
    order = [clinc.intents[place] for place in create_generator(tuning.seed, 1).permutation(len(clinc.intents))]
    held, known = set(order[:NEW_INTENTS]), order[NEW_INTENTS:]
    tuned_on = EncoderTuning("ranker", {}, build_events(clinc.draw_questions(known, tuning.seed)), tuning, progress)
    tuned = tuned_on.tune(tuned_on.events, f"tuning on {len(known)} intents")
    new = EncoderTuning("ranker", {}, build_events(clinc.draw_questions(sorted(held), tuning.seed)), tuning)
    test = EncodedQuestions([question for question in clinc.test if question[1] in held], tuning.layers)
    return {"frozen": measure_heads(new, {}, test), "tuned": measure_heads(new, tuned, test)}


def progress(what: str, step: int, steps: int) -> None:
    if step == steps:
        say(f"{what}: {steps} steps")


def compare(flags: Namespace) -> dict[str, Any]:
    clinc, base = read_clinc(flags.every), TuningOptions(**dict(map(option, flags.tuning)))
    say("passing the questions through the frozen layers ...")
    test, out_of_scope = EncodedQuestions(clinc.test, base.layers), EncodedQuestions(clinc.out_of_scope, base.layers)
    runs = []
    for seed in range(flags.seeds):
        tuning = replace(base, seed=seed)
        run = {"seed": seed, **few_shot(clinc, tuning, test, out_of_scope, flags.judge)}
        runs.append({**run, "others": transfer(clinc, tuning)} if flags.others else run)
    return {"shots": SHOTS, "test": len(test.labels), "out_of_scope": len(out_of_scope.labels), "runs": runs}


def option(pair: str) -> tuple[str, Any]:
    name, _, value = pair.partition("=")
    return name, json.loads(value)


def print_table(figures: dict[str, Any]) -> None:
    rows = []
    for run in figures["runs"]:
        for part, what in ((run, "150 intents"), (run.get("others"), f"{NEW_INTENTS} new intents, taught afterwards")):
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
    title = f"CLINC150, {figures['shots']} questions taught for each intent, {figures['test']:,} test questions"
    table(title, ("%", "frozen", "tuned", "change", f"at least {TARGET_PERCENT:.0f}"), rows)
    for run in figures["runs"]:
        print(f"seed {run['seed']}: tuned in {run['tuning_seconds']:.0f} s", end="")
        if "proof" in run:
            proof = run["proof"]
            print(
                f"; cross-validation on {proof['judged']:,} taught questions in {proof['seconds']:.0f} s: {proof['before']:,} -> "
                f"{proof['after']:,} right ({proof['gained']} gained, {proof['lost']} lost, chance "
                f"{proof['chance']:.2g}): {'better' if proof['better'] else 'not significantly better'}",
                end="",
            )
        print()


def parse_flags() -> Namespace:
    parser = create_parser(__doc__ or "")
    parser.add_argument("--seeds", type=int, default=1, help="how many draws of the taught questions")
    parser.add_argument(
        "--no-judge", dest="judge", action="store_false", help="leave out the cross-validation, which tunes 5 times"
    )
    parser.add_argument(
        "--no-others", dest="others", action="store_false", help="leave out the intents taught afterwards"
    )
    parser.add_argument("--every", type=int, default=1, metavar="N", help="use only each Nth test question")
    parser.add_argument("--tuning", nargs="*", default=[], metavar="NAME=VALUE", help="fields of Tuning")
    return parser.parse_args()


def main() -> int:
    flags = parse_flags()
    figures = compare(flags)
    print_json({"benchmark": "adapt", **figures}) if flags.json else print_table(figures)
    return 0


if __name__ == "__main__":
    command(main)

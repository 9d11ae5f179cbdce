"""Several learners on one stream; what answers is chosen by evidence.

    example -> every contender's own answer, and their vote -> compared with the label -> then each learns the example
                                 standings: fading loss, right / seen, a bet against what is served

Each contender is scored prequentially, one example at a time, so neither micro-batches nor what was served decides
anything. `vote` is the contenders' chances weighted by exp(-eagerness * fading Brier loss), and a contender itself.

What is served changes by a sequential test. For every rival there is a bet that it errs less than the served one: its
wealth is multiplied by 1 + stake * (served wrong - rival wrong) and never falls below 1 (a CUSUM e-detector: Shin,
Ramdas & Rinaldo 2023). A rival takes over when its wealth reaches `patience` times the number of rivals. While none is
better this happens at most once in `patience` scored examples on average, however often one looks: it does not flap.

When the world changes, a challenger is opened: what is served (the best one, of a vote) begun anew. By the same test
it takes its original's place or is closed again; one at a time, and until then it has no vote.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from online.models import (
    Answer,
    BadExample,
    Candidate,
    Example,
    Model,
    Options,
    Part,
    State,
    create,
    packed,
    take,
    unpacked,
)
from online.models.encoder import TextEncoder
from online.models.rows import check

VOTE, CHALLENGER = "vote", "challenger"
STAKES = (0.05, 0.1, 0.2, 0.4)  # of the bets: small ones find small differences, large ones find large ones soon
FADING = 0.99  # of the loss that weighs the vote
EAGERNESS = 0.3  # how soon the vote follows the loss
PROBES = 8

OPTIONS: dict[str, Any] = {
    "input": "text",  # text, vector or table
    "size": 0,  # numbers in a vector
    "contenders": {},  # name -> {"kind": ..., its options}; none: those of CONTENDERS for this input
    "vote": True,  # whether their vote may be served too; it is, at first
    "patience": 1_000,  # scored examples between two changes that were none
    "score_every": 1,  # only offsets that this divides are scored: solving a large head for each one is dear
    "key": "",  # hex; for river contenders (see online/models/river.py)
}
Contenders = dict[str, dict[str, Any]]
NEAR: Contenders = {"near": {"kind": "knn"}, "near-now": {"kind": "knn", "window": 1_000, "neighbours": 5}}
LINES: Contenders = {
    "line": {"kind": "logistic"},
    "line-drifting": {"kind": "logistic", "drift": 1e-5},
    "line-now": {"kind": "logistic", "drift": 1e-3, "prior": 10.0},
    "curve": {"kind": "logistic", "drift": 1e-5, "waves": 64},
}
SLDA: Contenders = {"slda": {"kind": "classifier"}}
TOWER: Contenders = {"tower": {"kind": "tower"}}  # as dear as all others together; the best where nothing else fits
CONTENDERS: dict[str, Contenders] = {
    "text": {**SLDA, "near": {"kind": "knn"}},
    "vector": {**NEAR, **LINES, **SLDA, **TOWER},
    "table": {**NEAR, **LINES, **SLDA, **TOWER},
}


@dataclass(slots=True)
class Bets:
    """wealth: of the bets, one a stake, that somebody errs less than what it is compared with."""

    wealth: list[float] = field(default_factory=lambda: [1.0] * len(STAKES))

    def bet(self, gain: int) -> float:
        """The mean wealth after another example. gain: 1 where it alone was right, -1 where it alone was wrong."""
        self.wealth = [max(wealth, 1.0) * (1 + stake * gain) for wealth, stake in zip(self.wealth, STAKES, strict=True)]
        return sum(self.wealth) / len(STAKES)

    def begin_again(self) -> None:
        self.wealth = [1.0] * len(STAKES)


@dataclass(slots=True)
class Standing(Bets):
    """loss: fading, Brier's."""

    loss: float = 0.0
    seen: int = 0
    right: int = 0

    def add(self, answer: Answer, label: str) -> None:
        self.loss = FADING * self.loss + brier(answer, label)
        self.seen += 1
        self.right += answer.choice == label


@dataclass(slots=True)
class Trial:
    """A challenger of the contender `of`. Its standing bets that it is better, `other` that its original is."""

    of: str
    model: Model
    standing: Standing = field(default_factory=Standing)
    other: Standing = field(default_factory=Standing)


class BestOf:
    subtracts = False

    def __init__(self, options: Options, device: str = "cpu") -> None:
        self.options = take(options, OPTIONS)
        self.input: str = self.options["input"]
        if self.input not in CONTENDERS:
            raise ValueError(f"option 'input' must be text, vector or table, not {self.input!r}")
        if min(self.options["patience"], self.options["score_every"]) < 1:
            raise ValueError("options 'patience' and 'score_every' must be at least 1")
        self.device = device
        self.told: Contenders = self.options["contenders"] or CONTENDERS[self.input]
        self.models = {name: self._begun(name) for name in self.told}
        voting = [VOTE] if self.options["vote"] and len(self.models) > 1 else []
        self.standings = {name: Standing() for name in [*voting, *self.models]}
        self.served = next(iter(self.standings))
        self.trial: Trial | None = None
        self.recent: list[bytes] = []
        self._forget_answers()

    def _forget_answers(self) -> None:
        """Of what was asked last, and each contender's answer to it: known until one of them learns."""
        self._last: tuple[bytes | None, dict[str, Answer]] = (None, {})

    def _begun(self, name: str) -> Model:
        """The contender of this name, having seen nothing. Raises ValueError for what cannot take part."""
        told = self.told[name]
        kind = told.get("kind") if isinstance(told, dict) else None
        if not re.fullmatch("[a-z0-9_-]+", name) or name in (VOTE, CHALLENGER):
            raise ValueError(f"a contender cannot be called {name!r}; use small letters, digits, - and _")
        if not isinstance(kind, str) or kind in ("ranker", "regressor", "best_of"):
            raise ValueError(f"contender {name!r} needs the 'kind' of a model that learns labels, not {kind!r}")
        if kind == "river" and self.input != "table":
            raise ValueError(f"contender {name!r} is a river model and reads tables, not input = {self.input!r}")
        if kind == "classifier" and told.get("head", "slda") != "slda":
            # its last digits depend on when it was factorised, and with them a close race would after a resumption
            raise ValueError(f"contender {name!r} has head {told['head']!r}; of a classifier only 'slda' can take part")
        shared = {"key": self.options["key"]} if kind == "river" else {"input": self.input}
        if self.input == "vector":
            shared["size"] = self.options["size"]
        return create(kind, shared | {option: value for option, value in told.items() if option != "kind"}, self.device)

    def feature_epoch(self) -> str:
        return TextEncoder.epoch if self.input == "text" else self.input

    # predict

    def predict(self, inputs: Sequence[bytes], keys: Sequence[int | None] = ()) -> list[Answer]:
        names = list(self.models) if self.served == VOTE else [self.served]
        answers = self._asked(names, inputs[0]) if len(inputs) == 1 else [self.models[n].predict(inputs) for n in names]
        return [self._vote(given) for given in zip(*answers, strict=True)] if self.served == VOTE else list(answers[0])

    def _asked(self, names: Sequence[str], features: bytes) -> list[list[Answer]]:
        """What they answer to one input, as each does alone: to be scored, nobody is asked the same again."""
        asked, known = self._last
        if asked != features:
            known = {}
            self._last = features, known
        for name in names:
            if name not in known:
                known[name] = self.models[name].predict([features])[0]
        return [[known[name]] for name in names]

    def _vote(self, answers: Sequence[Answer]) -> Answer:
        """answers: one a contender, in their order."""
        losses = [self.standings[name].loss for name in self.models]
        weights = [float(np.exp(EAGERNESS * (min(losses) - loss))) for loss in losses]
        chances = dict[str, float]()
        for answer, weight in zip(answers, weights, strict=True):
            for candidate in answer.candidates:
                chances[candidate.id] = chances.get(candidate.id, 0.0) + weight * candidate.score
        total = sum(weight for answer, weight in zip(answers, weights, strict=True) if answer.candidates)
        ranked = sorted(((label, chance / total) for label, chance in chances.items()), key=lambda c: (-c[1], c[0]))
        candidates = tuple(Candidate(label, chance) for label, chance in ranked)
        return Answer(candidates[0].id, candidates, candidates[0].score) if candidates else Answer(None, ())

    # learn

    def learn(self, examples: Sequence[Example]) -> None:
        """A contender that cannot learn an example goes on without it."""
        self.check(examples)
        for run in cut(examples, self._scores):
            if self._scores(run[0]):
                self._score(run[0])
            for model in (*self.models.values(), *([self.trial.model] if self.trial else ())):
                teach(model, run)
            self._forget_answers()
        self.recent = [*self.recent, *(example.features for example in examples)][-PROBES:]

    def check(self, examples: Sequence[Example]) -> None:
        for example in examples:
            check(example, "best_of model", self.input, self.options["size"])

    def _scores(self, example: Example) -> bool:
        """Rewards are no evidence: only what was served is ever rewarded."""
        return example.kind == "label" and example.offset % self.options["score_every"] == 0

    def _score(self, example: Example) -> None:
        given = self._asked(list(self.models), example.features)
        answers = {name: answer for name, (answer,) in zip(self.models, given, strict=True)}
        if VOTE in self.standings:
            answers[VOTE] = self._vote([answers[name] for name in self.models])
        for name, standing in self.standings.items():
            standing.add(answers[name], example.label)
        self._test({name: answer.choice == example.label for name, answer in answers.items()})
        if self.trial is not None:
            self._try(self.trial, example, answers[self.trial.of].choice == example.label)

    def _test(self, right: Mapping[str, bool]) -> None:
        """Every rival's bet against what is served; the richest takes over when it is rich enough."""
        rivals = [name for name in self.standings if name != self.served]
        wealth = {name: self.standings[name].bet(right[name] - right[self.served]) for name in rivals}
        richest = max(rivals, key=wealth.__getitem__, default=self.served)
        if rivals and wealth[richest] >= self.options["patience"] * len(rivals):
            self.served = richest
            for standing in self.standings.values():
                standing.begin_again()

    def _try(self, trial: Trial, example: Example, original_right: bool) -> None:
        answer = trial.model.predict([example.features])[0]
        trial.standing.add(answer, example.label)
        gain = (answer.choice == example.label) - original_right
        if trial.standing.bet(gain) >= self.options["patience"]:
            self.models[trial.of] = trial.model
            self.standings[trial.of].loss = trial.standing.loss
            self.trial = None
        elif trial.other.bet(-gain) >= self.options["patience"]:
            self.trial = None

    def unlearn(self, examples: Sequence[Example]) -> None:
        raise NotImplementedError("a best_of model cannot subtract what an example did to its standings")

    def drifted(self, label: str | None, since: int) -> None:
        """Told to every contender; where all labels are concerned, a challenger begins here."""
        for model in self.models.values():
            model.drifted(label, since)
        self._forget_answers()
        if label is None:
            single = min(self.models, key=lambda name: self.standings[name].loss)
            of = single if self.served == VOTE else self.served
            self.trial = Trial(of, self._begun(of))

    # state

    def facts(self) -> Mapping[str, float]:
        """Of every contender: its prequential accuracy in percent, its fading loss, and whether it is served."""
        told = dict[str, float]()
        for name, standing in self.standings.items():
            told[f"{name}_percent"] = 100 * standing.right / max(standing.seen, 1)
            told[f"{name}_loss"] = standing.loss * (1 - FADING)
            told[f"{name}_served"] = float(name == self.served)
        return told

    def fingerprint(self) -> str:
        seen = hashlib.sha256(json.dumps(self._table()).encode())
        for model in (*self.models.values(), *([self.trial.model] if self.trial else ())):
            seen.update(model.fingerprint().encode())
        return seen.hexdigest()

    def _table(self) -> dict[str, Any]:
        trial = self.trial and [self.trial.of, asdict(self.trial.standing), asdict(self.trial.other)]
        standings = {name: asdict(standing) for name, standing in self.standings.items()}
        return {"served": self.served, "standings": standings, "trial": trial}

    def probes(self) -> list[tuple[bytes, str | None]]:
        return [(features, None) for features in self.recent]

    def state(self, serving_only: bool = False) -> State:
        """Each contender's parts under its name; to predict, only those of what is served are needed."""
        parts = {"table": Part({"table": packed(self._table())}, serving=True)}
        for name, model in self.models.items():
            serves = self.served in (VOTE, name)
            if serves or not serving_only:
                parts |= prefixed(name, model.state(serving_only), serves)
        if not serving_only:
            parts["memory"] = Part({"recent": packed([features.hex() for features in self.recent])}, serving=False)
            parts |= prefixed(CHALLENGER, self.trial.model.state(), False) if self.trial else {}
        return parts

    def restore(self, state: State) -> None:
        table = unpacked(state["table"].tensors["table"])
        self.served, self.trial = table["served"], None
        self.standings = {name: Standing(**table["standings"][name]) for name in self.standings}  # in their order
        self.models = {name: self._begun(name) for name in self.told}
        self._forget_answers()
        for name, model in self.models.items():
            if own := own_parts(name, state):
                model.restore(own)
        if "memory" in state:
            self.recent = [bytes.fromhex(features) for features in unpacked(state["memory"].tensors["recent"])]
            if table["trial"]:
                of, standing, other = table["trial"]
                self.trial = Trial(of, self._begun(of), Standing(**standing), Standing(**other))
                self.trial.model.restore(own_parts(CHALLENGER, state))


def cut(examples: Sequence[Example], scores: Callable[[Example], bool]) -> Iterator[Sequence[Example]]:
    """In runs that begin with each example that is scored: what comes before it is learned before it is asked about."""
    cuts = [place for place, example in enumerate(examples) if place and scores(example)]
    for start, end in zip([0, *cuts], [*cuts, len(examples)], strict=True):
        if end > start:
            yield examples[start:end]


def teach(model: Model, examples: Sequence[Example]) -> int:
    """All of them, or where one cannot be learned, all but such ones: how many those are."""
    try:
        model.learn(examples)
    except BadExample:
        return sum(teach(model, [example]) for example in examples) if len(examples) > 1 else 1
    return 0


def brier(answer: Answer, label: str) -> float:
    """The squared distance of the chances it gave from the truth, in [0, 2]. No answer: 1.

    Rounded: the last bits of a product depend on how a matrix lies in memory, and must not reach the state.
    """
    chance = next((candidate.score for candidate in answer.candidates if candidate.id == label), 0.0)
    return round(sum(candidate.score**2 for candidate in answer.candidates) - 2 * chance + 1, 6)


def prefixed(name: str, state: State, serves: bool) -> dict[str, Part]:
    return {
        f"{name}.{part_name}": Part(part.tensors, part.serving and serves, part.revision, part.derived)
        for part_name, part in state.items()
    }


def own_parts(name: str, state: State) -> dict[str, Part]:
    """The inverse of `prefixed`."""
    return {full.removeprefix(f"{name}."): part for full, part in state.items() if full.startswith(f"{name}.")}

"""Several learners on one stream; evidence decides which of them answers.

    example -> every contender's answer, and their vote -> compared with the class -> then each learns it
                                 standings: fading loss, right / seen, a bet against the served one

Each contender is scored prequentially, one example at a time, so neither micro-batches nor which
contender was served affect the scores. `vote` averages the contenders' chances, weighted by
exp(-eagerness * fading Brier loss), and is a contender itself.

A sequential test decides which contender is served: for every rival there is a bet that it errs less
than the served one (`bets`), and the rival is served when its wealth reaches `patience` times the
number of rivals. While no rival is better, that happens at most once in `patience` scored examples on
average. The same test, the other way round, puts contenders to rest that cost time and decide nothing
(`rest`).

On drift a challenger is started: the served contender (or the best one, if the vote is served), with
nothing learned. The same test decides whether it replaces its original or is dropped. There is one
challenger at a time, and it has no vote.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from online.models.contract import Answer, Example, Model, Options, Part, State, pack_json, unpack_json
from online.models.encoders.text import TextEncoder
from online.models.ensembles.bets import PATIENCE, SCORE_EVERY, Bets
from online.models.ensembles.members import extract_parts, prefix_parts, split_at_scored, teach_all
from online.models.ensembles.rest import GRACE, Roster
from online.models.ensembles.votes import brier_score, compute_shares, compute_weights, vote
from online.models.example_checks import check
from online.models.kinds import KINDS
from online.models.options import INPUT, KEY, SIZE, Option, resolve
from online.models.registry import check_untrusted_options, create

VOTE, CHALLENGER = "vote", "challenger"
FADING = 0.99  # share of the loss kept per scored example
PROBES = 8

OPTIONS = (
    INPUT,
    SIZE,
    Option("contenders", {}, "Name -> table of a kind and its options; empty: a set that suits the input."),
    Option("vote", True, "Let the contenders' weighted vote take part, and serve it first."),
    PATIENCE,
    SCORE_EVERY,
    Option(
        "rest",
        True,
        "Neither ask nor teach, but for a sixteenth of the time, contenders that a test finds worse than the served one "
        "and whose vote hardly counts. Turn it off to compare all of them on every example.",
    ),
    KEY,
)
Contenders = dict[str, dict[str, Any]]
NEAR: Contenders = {"near": {"kind": "knn"}, "near-now": {"kind": "knn", "window": 1_000, "neighbours": 5}}
LINES: Contenders = {
    "line": {"kind": "logistic"},
    "line-drifting": {"kind": "logistic", "drift": 1e-5},
    "line-now": {"kind": "logistic", "drift": 1e-3, "prior": 10.0},
    "curve": {"kind": "logistic", "drift": 1e-5, "waves": 64},
}
SLDA: Contenders = {"slda": {"kind": "classifier"}}
TOWER: Contenders = {
    "tower": {"kind": "tower"}
}  # as expensive as all others together; the best where nothing else fits
CONTENDERS: dict[str, Contenders] = {
    "text": {**SLDA, "near": {"kind": "knn"}},
    "vector": {**NEAR, **LINES, **SLDA, **TOWER},
    "table": {**NEAR, **LINES, **SLDA, **TOWER},
}


@dataclass(slots=True)
class Standing(Bets):
    """A contender's record. loss: fading Brier loss."""

    loss: float = 0.0
    seen: int = 0
    right: int = 0

    def add(self, answer: Answer, label: str) -> None:
        self.loss = FADING * self.loss + brier_score(answer, label)
        self.seen += 1
        self.right += answer.choice == label


@dataclass(slots=True)
class Trial:
    """A challenger that relearns the contender `of`, its original.

    standing: bets that the challenger is better. other: bets that the original is.
    """

    of: str
    model: Model
    standing: Standing = field(default_factory=Standing)
    other: Standing = field(default_factory=Standing)


def check_untrusted(options: Options) -> None:
    """Raise ValueError for a contender with which its sender could choose code to run."""
    contenders = options.get("contenders", {})
    if not isinstance(contenders, dict) or not all(isinstance(each, dict) for each in contenders.values()):
        raise ValueError("option 'contenders' must be a table of tables")
    for each in contenders.values():
        check_untrusted_options(each.get("kind"), each)


class BestOf:
    """An ensemble that serves its best member. Implements `contract.Model`."""

    subtracts = False

    def __init__(self, options: Options, device: str = "cpu") -> None:
        self.options = resolve(options, OPTIONS)
        self.input: str = self.options["input"]
        self.device = device
        self.contenders: Contenders = self.options["contenders"] or CONTENDERS[self.input]
        self.models = {name: self._create_member(name) for name in self.contenders}
        voting = [VOTE] if self.options["vote"] and len(self.models) > 1 else []
        self.standings = {name: Standing() for name in [*voting, *self.models]}
        self.served = next(iter(self.standings))
        self.roster = Roster(self.models, self.options["patience"])
        self.exact = {name for name, own in self.contenders.items() if KINDS[own["kind"]].is_exact}
        self.trial: Trial | None = None
        self.recent: list[bytes] = []
        self._forget_answers()

    def _forget_answers(self) -> None:
        """Clear the cache: the last input and each contender's answer to it."""
        self._last: tuple[bytes | None, dict[str, Answer]] = (None, {})

    def _create_member(self, name: str) -> Model:
        """The contender of this name, with nothing learned. Raises ValueError if it cannot take part."""
        own = self.contenders[name]
        kind = own.get("kind") if isinstance(own, dict) else None
        if not re.fullmatch("[a-z0-9_-]+", name) or name in (VOTE, CHALLENGER):
            raise ValueError(f"a contender cannot be called {name!r}; use lower-case letters, digits, - and _")
        if not isinstance(kind, str) or (kind in KINDS and not KINDS[kind].can_be_member):
            raise ValueError(f"contender {name!r} needs the 'kind' of a model that learns classes, not {kind!r}")
        if kind == "river" and self.input != "table":
            raise ValueError(f"contender {name!r} is a river model and reads tables, not input = {self.input!r}")
        if kind == "classifier" and own.get("head", "slda") != "slda":
            # a ridge's last digits depend on when it was factorised, so a close race could change on resumption
            raise ValueError(
                f"contender {name!r} has head {own['head']!r}; a classifier can take part only with head 'slda'"
            )
        shared = {"key": self.options["key"]} if kind == "river" else {"input": self.input}
        if self.input == "vector":
            shared["size"] = self.options["size"]
        return create(kind, shared | {option: value for option, value in own.items() if option != "kind"}, self.device)

    def feature_epoch(self) -> str:
        return TextEncoder.epoch if self.input == "text" else self.input

    # predict

    def predict(self, inputs: Sequence[bytes], keys: Sequence[int | None] = ()) -> list[Answer]:
        names = self.roster.active if self.served == VOTE else [self.served]
        answers = (
            self._predict_cached(names, inputs[0])
            if len(inputs) == 1
            else [self.models[n].predict(inputs) for n in names]
        )
        return [self._vote(given) for given in zip(*answers, strict=True)] if self.served == VOTE else list(answers[0])

    def _predict_cached(self, names: Sequence[str], features: bytes) -> list[list[Answer]]:
        """Their answers to one input, cached so that scoring does not predict a second time."""
        cached_features, known = self._last
        if cached_features != features:
            known = {}
            self._last = features, known
        for name in names:
            if name not in known:
                known[name] = self.models[name].predict([features])[0]
        return [[known[name]] for name in names]

    def _vote(self, answers: Sequence[Answer]) -> Answer:
        """The weighted vote. answers: one per active contender, in their order."""
        return vote(answers, compute_weights([self.standings[name].loss for name in self.roster.active]))

    # learn

    def learn(self, examples: Sequence[Example]) -> None:
        """Teach all contenders. One that cannot learn an example skips it."""
        self.check(examples)
        for run in split_at_scored(examples, self._scores):
            if self._scores(run[0]):
                self._score(run[0])
            for model in (*self._pupils(), *([self.trial.model] if self.trial else ())):
                teach_all(model, run)
            self._forget_answers()
        self.recent = [*self.recent, *(example.features for example in examples)][-PROBES:]

    def _pupils(self) -> list[Model]:
        """The contenders that learn at present: those that are awake, and exact ones, which must miss nothing."""
        awake = self.roster.awake
        return [model for name, model in self.models.items() if name in awake or name in self.exact]

    def check(self, examples: Sequence[Example]) -> None:
        for example in examples:
            check(example, "best_of model", self.input, self.options["size"])

    def _scores(self, example: Example) -> bool:
        """Whether an example is scored. Rewards are not: only the served contender receives them."""
        return example.kind == "label" and example.offset % self.options["score_every"] == 0

    def _score(self, example: Example) -> None:
        self.roster.scored += 1
        awake = self.roster.awake
        given = self._predict_cached(awake, example.features)
        answers = {name: answer for name, (answer,) in zip(awake, given, strict=True)}
        if VOTE in self.standings:
            answers[VOTE] = self._vote([answers[name] for name in self.roster.active])
        for name, answer in answers.items():
            self.standings[name].add(answer, example.label)
        right = {name: answer.choice == example.label for name, answer in answers.items()}
        self._update_bets(right)
        self._update_roster(right)
        if self.trial is not None:
            self._score_trial(self.trial, example, right[self.trial.of])

    def _update_roster(self, right: Mapping[str, bool]) -> None:
        if not self.options["rest"] or self.served not in right:
            return
        losses = {name: self.standings[name].loss for name in self.models if name in right}
        spared = {name for name in self.models if self.standings[name].seen < GRACE}
        spared |= {self.served, *([self.trial.of] if self.trial else ())}
        shares = compute_shares(losses, self.roster.active)
        for name in self.roster.update(right, right[self.served], shares, spared):
            self.standings[name].begin_again()

    def _update_bets(self, right: Mapping[str, bool]) -> None:
        """Update every rival's bet against the served contender, and serve a rival that has won its bet."""
        rivals = [name for name in right if name != self.served and name not in self.roster.resting]
        wealth = {name: self.standings[name].bet(right[name] - right[self.served]) for name in rivals}
        richest = max(rivals, key=wealth.__getitem__, default=self.served)
        if rivals and wealth[richest] >= self.options["patience"] * (len(self.standings) - 1):
            self.served = richest
            for standing in self.standings.values():
                standing.begin_again()

    def _score_trial(self, trial: Trial, example: Example, original_right: bool) -> None:
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
        raise NotImplementedError("a best_of model cannot subtract; replay the log instead (subtracts is False)")

    def drifted(self, label: str | None, since: int) -> None:
        """Notify every contender and wake those that rest; drift in all classes also starts a challenger."""
        single = min(self.roster.active, key=lambda name: self.standings[name].loss)
        self.roster.wake_all()
        for model in self.models.values():
            model.drifted(label, since)
        self._forget_answers()
        if label is None:
            of = single if self.served == VOTE else self.served
            self.trial = Trial(of, self._create_member(of))

    # state

    def facts(self) -> Mapping[str, float]:
        """Each contender's prequential accuracy in percent, its fading loss, whether it is served, and whether it rests."""
        facts = dict[str, float]()
        for name, standing in self.standings.items():
            facts[f"{name}_percent"] = 100 * standing.right / max(standing.seen, 1)
            facts[f"{name}_loss"] = standing.loss * (1 - FADING)
            facts[f"{name}_served"] = float(name == self.served)
        return facts | {f"{name}_rests": float(name in self.roster.resting) for name in self.models}

    def fingerprint(self) -> str:
        table = self._table()
        if self.roster.scored < GRACE:  # nobody can have rested: the hash is that of releases in which nobody did
            del table["roster"]
        seen = hashlib.sha256(json.dumps(table).encode())
        for model in (*self.models.values(), *([self.trial.model] if self.trial else ())):
            seen.update(model.fingerprint().encode())
        return seen.hexdigest()

    def _table(self) -> dict[str, Any]:
        trial = self.trial and [self.trial.of, asdict(self.trial.standing), asdict(self.trial.other)]
        standings = {name: asdict(standing) for name, standing in self.standings.items()}
        return {"served": self.served, "standings": standings, "trial": trial, "roster": self.roster.table()}

    def probes(self) -> list[tuple[bytes, str | None]]:
        return [(features, None) for features in self.recent]

    def state(self, serving_only: bool = False) -> State:
        """Each contender's parts under its name.

        Prediction needs only those of the served one, or of all voters.
        """
        parts = {"table": Part({"table": pack_json(self._table())}, serving=True)}
        for name, model in self.models.items():
            serves = self.served == name or (self.served == VOTE and name not in self.roster.resting)
            if serves or not serving_only:
                parts |= prefix_parts(name, model.state(serving_only), serves)
        if not serving_only:
            parts["memory"] = Part({"recent": pack_json([features.hex() for features in self.recent])}, serving=False)
            parts |= prefix_parts(CHALLENGER, self.trial.model.state(), False) if self.trial else {}
        return parts

    def restore(self, state: State) -> None:
        table = unpack_json(state["table"].tensors["table"])
        self.served, self.trial = table["served"], None
        self.standings = {
            name: Standing(**table["standings"][name]) for name in self.standings
        }  # in the order of the options
        self.roster.restore(table.get("roster", {}))
        self.models = {name: self._create_member(name) for name in self.contenders}
        self._forget_answers()
        for name, model in self.models.items():
            if parts := extract_parts(name, state):
                model.restore(parts)
        if "memory" in state:
            self.recent = [bytes.fromhex(features) for features in unpack_json(state["memory"].tensors["recent"])]
            if table["trial"]:
                of, standing, other = table["trial"]
                self.trial = Trial(of, self._create_member(of), Standing(**standing), Standing(**other))
                self.trial.model.restore(extract_parts(CHALLENGER, state))

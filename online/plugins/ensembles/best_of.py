"""Several learners on one stream; evidence decides which of them answers.

    example -> every contender's answer, and their vote -> compared with the class -> then each learns it
                                 records: fading loss, right / seen, a bet against the served one

Each contender is scored prequentially, one example at a time, so neither micro-batches nor which
contender was served affect the scores. `vote` averages the contenders' chances, weighted by their
fading losses (`votes`), and is a contender itself.

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
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field

from online.models.contract import Answer, Example, Model, Options, State, StatePart, pack_json, unpack_json
from online.models.encoders.text import TextEncoder
from online.models.example_checks import check
from online.models.kinds import spec_of
from online.models.options import INPUT, KEY, SIZE, Option, resolve
from online.plugins.ensembles.bets import PATIENCE, SCORE_EVERY, Bets
from online.plugins.ensembles.members import extract_parts, prefix_parts, split_at_scored, teach_all
from online.plugins.ensembles.membership import check_untrusted_member, create_member
from online.plugins.ensembles.rest import GRACE, REST_SHARE, MemberSchedule, begins_stretch
from online.plugins.ensembles.votes import (
    MEMORIES,
    Ballot,
    MemoryChoice,
    add_losses,
    brier_score,
    compute_shares,
    extend_losses,
)
from online.schemas.json_values import JSON, JSONObject

VOTE, CHALLENGER = "vote", "challenger"
FADING = MEMORIES[0].fading  # of the loss and the accuracy that are reported
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
Contenders = dict[str, JSONObject]
NEAR: Contenders = {"near": {"kind": "knn"}, "near-now": {"kind": "knn", "window": 1_000, "neighbours": 5}}
LINES: Contenders = {
    "line": {"kind": "logistic"},
    "line-now": {"kind": "logistic", "drift": 1e-3, "prior": 10.0},
    "curve": {"kind": "logistic", "drift": 1e-5, "waves": 64},
}
SLDA: Contenders = {"slda": {"kind": "classifier"}}
# as expensive as all others together; the best where nothing else fits
TOWER: Contenders = {"small-tower": {"kind": "tower", "hidden": [32, 32], "rate": 0.005, "batch": 2}}
MAJORITY: Contenders = {"majority": {"kind": "majority"}}
NUMBERS: Contenders = {**NEAR, **LINES, **SLDA, **TOWER, **MAJORITY}
CONTENDERS: dict[str, Contenders] = {
    "text": {**SLDA, "near": {"kind": "knn"}, **MAJORITY},
    "vector": NUMBERS,
    "table": NUMBERS,
}
# Losses that members of the default sets begin with: those that err most while they have seen little.
HANDICAPS = {"near": 3.0, "near-now": 6.0, "line-now": 12.0, "curve": 3.0, "slda": 1.5, "small-tower": 6.0}


@dataclass(slots=True)
class ContenderRecord(Bets):
    """A contender's record. loss: fading Brier loss. losses: for the vote, one per memory. recent: fading count of right answers."""

    loss: float = 0.0
    seen: int = 0
    right: int = 0
    losses: list[float] = field(default_factory=lambda: [0.0] * len(MEMORIES))
    recent: float = 0.0

    def add(self, answer: Answer, label: str) -> None:
        """Score an answer: its Brier loss, and whether it was right."""
        brier, is_right = brier_score(answer, label), answer.choice == label
        self.loss = FADING * self.loss + brier
        self.losses = add_losses(self.losses, brier, not is_right)
        self.recent = FADING * self.recent + is_right
        self.seen += 1
        self.right += is_right

    @property
    def recent_percent(self) -> float:
        """How often it was right lately, in about the last hundred answers."""
        return 100 * self.recent * (1 - FADING) / (1 - FADING**self.seen) if self.seen else 0.0


@dataclass(slots=True)
class ChallengerTrial:
    """A challenger that relearns the contender `of`, its original.

    record: bets that the challenger is better. other: bets that the original is.
    """

    of: str
    model: Model
    record: ContenderRecord = field(default_factory=ContenderRecord)
    other: ContenderRecord = field(default_factory=ContenderRecord)


def check_untrusted(options: Options) -> None:
    """Raise ValueError for a contender with which its sender could choose code to run."""
    contenders = options.get("contenders", {})
    if not isinstance(contenders, dict) or not all(isinstance(each, dict) for each in contenders.values()):
        raise ValueError("option 'contenders' must be a table of tables")
    for each in contenders.values():
        check_untrusted_member(each)


class BestOf:
    """An ensemble that serves its best member. Implements `contract.Model`."""

    subtracts = False

    def __init__(self, options: Options, device: str = "cpu") -> None:
        self.options = resolve(options, OPTIONS)
        self.input: str = self.options["input"]
        self.device = device
        self._set_contenders(self.options["contenders"] or CONTENDERS[self.input])
        self.trial: ChallengerTrial | None = None
        self.recent: list[bytes] = []
        self._forget_answers()

    def _set_contenders(self, contenders: Contenders) -> None:
        """Begin with these contenders, none of which has learned anything."""
        self.contenders = contenders
        self.models = {name: self._create_member(name) for name in contenders}
        voting = [VOTE] if self.options["vote"] and len(self.models) > 1 else []
        handicaps = {} if self.options["contenders"] else HANDICAPS
        first = {name: [handicaps.get(name, 0.0)] * len(MEMORIES) for name in [*voting, *self.models]}
        self.records = {name: ContenderRecord(losses=losses) for name, losses in first.items()}
        self.served = next(iter(self.records))
        self.memories = MemoryChoice()
        self.roster = MemberSchedule(self.models, self.options["patience"])
        self.exact = {name for name, own in contenders.items() if spec_of(own["kind"]).is_exact}

    def keep_members(self, names: Collection[str]) -> None:
        """Begin again with only these contenders. For measurements of what the others add."""
        self._set_contenders({name: own for name, own in self.contenders.items() if name in names})

    def _forget_answers(self) -> None:
        """Clear the cache: the last input, each contender's answer to it, and the votes."""
        self._last: tuple[bytes | None, dict[str, Answer]] = (None, {})
        self._ballot: Ballot | None = None

    def _create_member(self, name: str) -> Model:
        """Return the contender of this name, with nothing learned. Raises ValueError if it cannot take part."""
        own = self.contenders[name]
        if not re.fullmatch("[a-z0-9_-]+", name) or name in (VOTE, CHALLENGER):
            raise ValueError(f"a contender cannot be called {name!r}; use lower-case letters, digits, - and _")
        if isinstance(own, dict) and own.get("kind") == "classifier" and own.get("head", "slda") != "slda":
            # a ridge's last digits depend on when it was factorised, so a close race could change on resumption
            raise ValueError(
                f"contender {name!r} has head {own['head']!r}; a classifier can take part only with head 'slda'"
            )
        return create_member(f"contender {name!r}", own, self.options, self.device)

    def feature_epoch(self) -> str:
        """Return the name of the features that the model reads."""
        return TextEncoder.epoch if self.input == "text" else self.input

    # predict

    def predict(self, inputs: Sequence[bytes], keys: Sequence[int | None] = ()) -> list[Answer]:
        """Answer by the served contender, or by the vote of all active ones."""
        if self.served != VOTE:
            served = self.models[self.served]
            return self._predict_cached([self.served], inputs[0]) if len(inputs) == 1 else served.predict(inputs)
        if len(inputs) == 1:
            return [self._vote_cached(inputs[0])]
        answers = [self.models[name].predict(inputs) for name in self.roster.active]
        return [self._count_votes(given).vote(self.memories.best) for given in zip(*answers, strict=True)]

    def _predict_cached(self, names: Sequence[str], features: bytes) -> list[Answer]:
        """Return their answers to one input, cached so that scoring does not predict a second time."""
        if self._last[0] != features:
            self._forget_answers()
            self._last = features, {}
        known = self._last[1]
        for name in names:
            if name not in known:
                known[name] = self.models[name].predict([features])[0]
        return [known[name] for name in names]

    def _vote_cached(self, features: bytes) -> Answer:
        """Return the served vote on one input, cached with the ballot."""
        answers = self._predict_cached(self.roster.active, features)
        if self._ballot is None:
            self._ballot = self._count_votes(answers)
            self._last[1][VOTE] = self._ballot.vote(self.memories.best)
        return self._last[1][VOTE]

    def _count_votes(self, answers: Sequence[Answer]) -> Ballot:
        """Return the votes of every memory. answers: one per active contender, in their order."""
        return Ballot(answers, [self.records[name].losses for name in self.roster.active])

    # learn

    def learn(self, examples: Sequence[Example]) -> None:
        """Teach all contenders. One that cannot learn an example skips it."""
        self.check(examples)
        for runs in self._split_into_stretches(examples):
            self._learn_stretch(runs)
        self.recent = [*self.recent, *(example.features for example in examples)][-PROBES:]

    def _split_into_stretches(self, examples: Sequence[Example]) -> Iterator[list[Sequence[Example]]]:
        """Split into stretches in which the same members are awake, each of them into runs (`split_at_scored`)."""
        scored, runs = self.roster.scored, list[Sequence[Example]]()
        for run in split_at_scored(examples, self._scores):
            scored += self._scores(run[0])
            if runs and self._scores(run[0]) and begins_stretch(scored):
                yield runs
                runs = []
            runs.append(run)
        if runs:
            yield runs

    def _learn_stretch(self, runs: Sequence[Sequence[Example]]) -> None:
        """Let one member after the other answer and learn all of it, then score their answers row by row.

        Members do not influence each other, so that the order does not matter; but a member that stays in the
        processor's caches is several times as fast as one that takes turns with all others at every row.
        """
        scored = [run[0] for run in runs if self._scores(run[0])]
        first = self.roster.scored + self._scores(runs[0][0])
        if scored and begins_stretch(first):
            self._put_to_rest()
        awake, cached = self.roster.list_awake(first), self._last[1] if self._last[0] == runs[0][0].features else {}
        given = {
            name: self._answer_and_learn(model, runs, cached.get(name))
            for name, model in self.models.items()
            if name in awake
        }
        for name in self.exact.difference(awake):
            for run in runs:
                teach_all(self.models[name], run)
        if self.trial is not None:
            given[CHALLENGER] = self._answer_and_learn(self.trial.model, runs, None)
        for place, example in enumerate(scored):
            self._score(example, {name: given[name][place] for name in awake})
            if self.trial is not None:
                self._score_trial(self.trial, example, given, place)
            self._forget_answers()
        self._forget_answers()

    def _answer_and_learn(self, model: Model, runs: Sequence[Sequence[Example]], cached: Answer | None) -> list[Answer]:
        """Return its answers to the scored examples, each from before it learned them. cached: the first one, if it is known."""
        answers = list[Answer]()
        for run in runs:
            if self._scores(run[0]):
                answers.append(cached or model.predict([run[0].features])[0])
                cached = None
            teach_all(model, run)
        return answers

    def check(self, examples: Sequence[Example]) -> None:
        """Raise BadExample for an example that this kind cannot learn."""
        for example in examples:
            check(example, "best_of model", self.input, self.options["size"])

    def _scores(self, example: Example) -> bool:
        """Return whether an example is scored. Rewards are not: only the served contender receives them."""
        return example.kind == "label" and example.offset % self.options["score_every"] == 0

    def _score(self, example: Example, answers: dict[str, Answer]) -> None:
        """Score the answers of the members that are awake, and of their vote."""
        self.roster.scored += 1
        if VOTE in self.records:
            if self._ballot is None or self._last[0] != example.features:
                self._ballot = self._count_votes([answers[name] for name in self.roster.active])
                self._last = example.features, {VOTE: self._ballot.vote(self.memories.best)}
            answers[VOTE] = self._last[1][VOTE]
            self.memories.score(self._ballot.find_choices(), example.label)
        for name, answer in answers.items():
            self.records[name].add(answer, example.label)
        right = {name: answer.choice == example.label for name, answer in answers.items()}
        self._update_bets(right)
        if self.options["rest"] and self.served in right:
            self.roster.note(right, right[self.served])
            if self.roster.resting & right.keys():
                self.roster.wake(self._compute_largest_shares(right))

    def _put_to_rest(self) -> None:
        """Decide who rests from now on, where a stretch begins."""
        spared = {name for name in self.models if self.records[name].seen < GRACE}
        spared |= {self.served, *([self.trial.of] if self.trial else ())}
        hopeless = [name for name in self.roster.find_hopeless() if name not in spared]
        if hopeless and self.options["rest"]:
            shares = self._compute_largest_shares(self.roster.active)
            for name in self.roster.rest([name for name in hopeless if shares[name] < REST_SHARE]):
                self.records[name].begin_again()
            self._ballot = None  # another set of members votes now

    def _compute_largest_shares(self, among: Collection[str]) -> dict[str, float]:
        """Return the larger share of the served memory's vote and of the first one's: a long memory would wake a member too late."""
        first, best = self._compute_shares(among, 0), self.memories.best
        served = self._compute_shares(among, best) if best else first
        return {name: max(share, served[name]) for name, share in first.items()}

    def _compute_shares(self, among: Collection[str], memory: int) -> dict[str, float]:
        """Return the share of a memory's vote that each of these members has, or would have if it were active."""
        losses = {name: self.records[name].losses for name in self.models if name in among}
        return compute_shares(losses, self.roster.active, memory)

    def _update_bets(self, right: Mapping[str, bool]) -> None:
        """Update every rival's bet against the served contender, and serve a rival that has won its bet."""
        rivals = [name for name in right if name != self.served and name not in self.roster.resting]
        wealth = {name: self.records[name].bet(right[name] - right[self.served]) for name in rivals}
        richest = max(rivals, key=wealth.__getitem__, default=self.served)
        if rivals and wealth[richest] >= self.options["patience"] * (len(self.records) - 1):
            self.served = richest
            for record in self.records.values():
                record.begin_again()

    def _score_trial(
        self, trial: ChallengerTrial, example: Example, given: dict[str, list[Answer]], place: int
    ) -> None:
        """Score the challenger. given: the answers to a stretch; place: of this example among them."""
        answer, original = given[CHALLENGER][place], given[trial.of][place]
        trial.record.add(answer, example.label)
        gain = (answer.choice == example.label) - (original.choice == example.label)
        if trial.record.bet(gain) >= self.options["patience"]:
            self.models[trial.of], given[trial.of] = trial.model, given[CHALLENGER]
            won = self.records[trial.of]
            losses = extend_losses(trial.record.losses, trial.record.seen, won.seen)
            won.loss, won.losses, won.recent = trial.record.loss, losses, trial.record.recent
            self.trial = None
        elif trial.other.bet(-gain) >= self.options["patience"]:
            self.trial = None

    def unlearn(self, examples: Sequence[Example]) -> None:
        """Raise NotImplementedError: contenders forget in ways that cannot be undone."""
        raise NotImplementedError("a best_of model cannot subtract; replay the log instead (subtracts is False)")

    def drifted(self, label: str | None, since: int) -> None:
        """Notify every contender and wake those that rest; drift in all classes also starts a challenger."""
        single = min(self.roster.active, key=lambda name: self.records[name].loss)
        self.roster.wake_all()
        for model in self.models.values():
            model.drifted(label, since)
        self._forget_answers()
        if label is None:
            of = single if self.served == VOTE else self.served
            self.trial = ChallengerTrial(of, self._create_member(of))

    # state

    def facts(self) -> Mapping[str, float]:
        """Return of each contender its prequential accuracy in percent, in all and lately, its fading loss, and whether it is served.

        Of each member also what share of the vote it has in percent, and whether it rests.
        """
        facts = dict[str, float]()
        for name, record in self.records.items():
            facts[f"{name}_percent"] = 100 * record.right / max(record.seen, 1)
            facts[f"{name}_recent_percent"] = record.recent_percent
            facts[f"{name}_loss"] = record.loss * (1 - FADING)
            facts[f"{name}_served"] = float(name == self.served)
        if VOTE in self.records:
            shares = self._compute_shares(self.roster.active, self.memories.best)
            facts |= {f"{name}_vote_percent": 100 * shares.get(name, 0.0) for name in self.models}
        return facts | {f"{name}_rests": float(name in self.roster.resting) for name in self.models}

    def fingerprint(self) -> str:
        """Return a hash of everything that was learned; equal states have equal hashes."""
        table = self._table()
        if self.roster.scored < GRACE:  # nothing may rest yet: the hash is that of the records alone
            del table["roster"], table["memories"]
            for record in _list_records(table):
                del record["losses"], record["recent"]
        seen = hashlib.sha256(json.dumps(table).encode())
        for model in (*self.models.values(), *([self.trial.model] if self.trial else ())):
            seen.update(model.fingerprint().encode())
        return seen.hexdigest()

    def _table(self) -> dict[str, object]:
        trial = self.trial and [self.trial.of, asdict(self.trial.record), asdict(self.trial.other)]
        standings = {name: asdict(record) for name, record in self.records.items()}
        table = {"served": self.served, "standings": standings, "trial": trial, "roster": self.roster.table()}
        return {**table, "memories": self.memories.errors}

    def probes(self) -> list[tuple[bytes, str | None]]:
        """Return inputs that the gate predicts before a version goes live, each with the expected choice or None."""
        return [(features, None) for features in self.recent]

    def state(self, serving_only: bool = False) -> State:
        """Return each contender's parts under its name.

        Prediction needs only those of the served one, or of all voters.
        """
        parts = {"table": StatePart({"table": pack_json(self._table())}, serving=True)}
        for name, model in self.models.items():
            serves = self.served == name or (self.served == VOTE and name not in self.roster.resting)
            if serves or not serving_only:
                parts |= prefix_parts(name, model.state(serving_only), serves)
        if not serving_only:
            parts["memory"] = StatePart(
                {"recent": pack_json([features.hex() for features in self.recent])}, serving=False
            )
            parts |= prefix_parts(CHALLENGER, self.trial.model.state(), False) if self.trial else {}
        return parts

    def restore(self, state: State) -> None:
        """Adopt a state that `state` returned."""
        table = unpack_json(state["table"].tensors["table"])
        self._set_contenders(self.options["contenders"] or CONTENDERS[self.input])
        self.served, self.trial = table["served"], None
        self.records = {
            name: ContenderRecord(**table["standings"][name]) for name in self.records
        }  # in the order of the options
        self.memories.errors = table["memories"]
        self.roster.restore(table["roster"])
        self._forget_answers()
        for name, model in self.models.items():
            if parts := extract_parts(name, state):
                model.restore(parts)
        if "memory" in state:
            self.recent = [bytes.fromhex(features) for features in unpack_json(state["memory"].tensors["recent"])]
            if table["trial"]:
                of, record, other = table["trial"]
                records = ContenderRecord(**record), ContenderRecord(**other)
                self.trial = ChallengerTrial(of, self._create_member(of), *records)
                self.trial.model.restore(extract_parts(CHALLENGER, state))


def _list_records(table: Mapping[str, JSON]) -> list[dict[str, object]]:
    """Return the records in a state's table: those of the contenders, and of a challenger and its original."""
    return [*table["standings"].values(), *(table["trial"][1:] if table["trial"] else ())]

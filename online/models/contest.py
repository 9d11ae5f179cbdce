"""A champion and a challenger on one stream; whichever the evidence prefers answers. The option `challenger` of any kind.

    label, correction -> what each would answer, by what it knew before -> who was nearer the truth -> a bet
    every example     -> both learn it

Both see the same encoded inputs and learn the same thing (labels, replies or numbers); kind and options may differ. At
first the champion is served. The other one's bet that it errs less is that of best_of.py: its wealth must reach
`patience`, and then it is served, and the bet begins anew for the one that was. Among equals that happens at most once
in `patience` scored examples on average, however often one looks. A thumb is no evidence, for only what was served was
ever rated.

What is taken back is unlearned by both; what each would have answered to it at the time stays counted, as in drift.py.
"""

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from online.models import (
    LABELLED,
    Answer,
    Example,
    Model,
    Options,
    Part,
    State,
    challenger_of,
    create,
    number_of,
    packed,
    signed,
    take,
    unpacked,
)
from online.models.best_of import Bets, cut, own_parts, prefixed, teach
from online.models.encoder import adapts, reads, reads_any

CHAMPION, CHALLENGER = "champion", "challenger"
TABLE = "contest"

OPTIONS: dict[str, Any] = {
    "kind": "",  # the champion's, where none is named
    "options": {},  # its own; what the inputs are is the champion's word
    "patience": 1_000,  # scored examples between two changes that were none
    "score_every": 1,  # only offsets that this divides are scored
}


@dataclass(slots=True)
class Record(Bets):
    """seen: scored examples. answered: those it had an answer to, however wrong. error: the sum of theirs."""

    seen: int = 0
    answered: int = 0
    error: float = 0.0

    def add(self, error: float) -> None:
        self.seen += 1
        if error < math.inf:
            self.answered += 1
            self.error += error


class Contest:
    def __init__(self, kind: str, options: Options, device: str = "cpu") -> None:
        """Raises ValueError for two that do not fit together, besides what each of them raises."""
        if not isinstance(options["challenger"], Mapping):
            raise ValueError("option 'challenger' is a table: kind, options, patience, score_every")
        self.told = take(options["challenger"], OPTIONS)
        if min(self.told["patience"], self.told["score_every"]) < 1:
            raise ValueError("options 'patience' and 'score_every' of a challenger must be at least 1")
        own = {name: value for name, value in options.items() if name != "challenger"}
        other = challenger_of(kind, options)
        self.numbers = kind == "regressor"
        self.device = device
        self.recipes = {
            CHAMPION: (kind, {name: value for name, value in own.items() if name != "key" or signed(kind)}),
            CHALLENGER: (other, fitted(kind, own, other, self.told["options"])),
        }
        self.models = {name: create(*told, device) for name, told in self.recipes.items()}
        self.records = {name: Record() for name in self.models}
        self.served = CHAMPION
        self.missed = 0  # examples that the challenger could not learn

    @property
    def subtracts(self) -> bool:
        """Not once the challenger did not learn what the champion did: nobody would know what to take from it."""
        return not self.missed and all(model.subtracts for model in self.models.values())

    def feature_epoch(self) -> str:
        """Of both, where they see their inputs in two ways."""
        return "+".join(dict.fromkeys(model.feature_epoch() for model in self.models.values()))

    def predict(self, inputs: Sequence[bytes], keys: Sequence[int | None] = ()) -> list[Answer]:
        return self.models[self.served].predict(inputs, keys)

    # learn

    def learn(self, examples: Sequence[Example]) -> None:
        """What the champion refuses, nobody learns; what the challenger alone cannot learn, it goes on without."""
        self.check(examples)
        for run in cut(examples, self._scores):
            if self._scores(run[0]):
                self._score(run[0])
            self.models[CHAMPION].learn(run)
            self.missed += teach(self.models[CHALLENGER], run)

    def check(self, examples: Sequence[Example]) -> None:
        self.models[CHAMPION].check(examples)

    def _scores(self, example: Example) -> bool:
        return example.kind in ("label", "correction") and example.offset % self.told["score_every"] == 0

    def _score(self, example: Example) -> None:
        errors = {name: self._error(model, example) for name, model in self.models.items()}
        for name, record in self.records.items():
            record.add(errors[name])
        rival = CHALLENGER if self.served == CHAMPION else CHAMPION
        gain = (errors[rival] < errors[self.served]) - (errors[rival] > errors[self.served])
        if self.records[rival].bet(gain) >= self.told["patience"]:
            self.served = rival
            for record in self.records.values():
                record.begin_again()

    def _error(self, model: Model, example: Example) -> float:
        """0 or 1, whether it is wrong; of a number, how far it is off, and without one infinity."""
        choice = model.predict([example.features])[0].choice
        if not self.numbers:
            return float(choice != example.label)
        return math.inf if choice is None else abs(number_of(choice) - number_of(example.label))

    def unlearn(self, examples: Sequence[Example]) -> None:
        for model in self.models.values():
            model.unlearn(examples)

    def drifted(self, label: str | None, since: int) -> None:
        for model in self.models.values():
            model.drifted(label, since)

    # state

    def facts(self) -> Mapping[str, float]:
        """Of both: percent of the scored examples that it had right, or of numbers the mean error; and who is served.

        Before that, what the served one tells of itself.
        """
        told = dict(self.models[self.served].facts())
        for name, record in self.records.items():
            if self.numbers:
                told[f"{name}_error"] = record.error / max(record.answered, 1)
            else:
                told[f"{name}_percent"] = 100 * (record.seen - record.error) / max(record.seen, 1)
        told |= {f"{CHALLENGER}_served": float(self.served == CHALLENGER), "contested": self.records[CHAMPION].seen}
        return {**told, f"{CHALLENGER}_missed": self.missed} if self.missed else told

    def fingerprint(self) -> str:
        """Of what both learned, which what was scored is no part of."""
        return hashlib.sha256(" ".join(model.fingerprint() for model in self.models.values()).encode()).hexdigest()

    def probes(self) -> list[tuple[bytes, str | None]]:
        return self.models[self.served].probes()

    def state(self, serving_only: bool = False) -> State:
        """Each one's parts under its name; to predict, only those of what is served are needed."""
        records = {name: asdict(record) for name, record in self.records.items()}
        table = {"served": self.served, "records": records, "missed": self.missed}
        parts = {TABLE: Part({"table": packed(table)}, serving=True)}
        for name, model in self.models.items():
            if name == self.served or not serving_only:
                parts |= prefixed(name, model.state(serving_only), name == self.served)
        return parts

    def restore(self, state: State) -> None:
        table = unpacked(state[TABLE].tensors["table"])
        self.served, self.missed = table["served"], table["missed"]
        self.records = {name: Record(**table["records"][name]) for name in self.records}
        self.models = {name: create(*told, self.device) for name, told in self.recipes.items()}
        for name, model in self.models.items():
            if own := own_parts(name, state):
                model.restore(own)


def answering(model: Model) -> Model:
    """Who answers for a model that may be two."""
    return model.models[model.served] if isinstance(model, Contest) else model


def told_of(facts: Mapping[str, float]) -> str:
    """Both standings in one line, from a version's metrics; "" where there is no challenger."""
    challenged = facts.get(f"{CHALLENGER}_served")
    told = list[str]()
    for name, served in ((CHAMPION, not challenged), (CHALLENGER, challenged)) if challenged is not None else ():
        percent, error = facts.get(f"{name}_percent"), facts.get(f"{name}_error")
        standing = f"off by {error:.4g}" if percent is None else f"{percent:.1f} %"
        told.append(f"{name} {standing}{' (served)' if served else ''}")
    return ", ".join(told)


def fitted(kind: str, options: Options, other: str, own: Options) -> dict[str, Any]:
    """The challenger's options, with what its champion's say about the inputs. Raises ValueError where it cannot take part."""
    if learns(kind) != learns(other):
        raise ValueError(f"a {kind} learns {learns(kind)}: {other!r} cannot be its challenger")
    taken = sorted({"input", "size", "encoder", "key", "challenger"} & set(own))
    if taken:
        raise ValueError(f"the option {taken[0]!r} of a challenger is its champion's")
    seen = reads(kind, options)
    able = reads(other, seen)["input"]
    if able != seen["input"]:
        raise ValueError(f"a {other} model reads {able}s, not input = {seen['input']!r}")
    shared = seen if reads_any(other) else {}
    if options.get("encoder"):
        if not adapts(other, shared):
            raise ValueError(f"the texts are read by a tuned encoder: a {other} cannot be the challenger")
        shared["encoder"] = options["encoder"]
    if signed(other) and "key" in options:
        shared["key"] = options["key"]
    return {**own, **shared}


def learns(kind: str) -> str:
    return {"ranker": "replies", "regressor": "numbers"}.get(kind, "labels" if kind in LABELLED else "nothing")

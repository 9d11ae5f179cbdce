"""A champion and a challenger on one stream; evidence decides which one answers.

    label, correction -> what each would have answered before -> which was nearer the truth -> a bet
    every example     -> both learn it

Every kind has the option `challenger`. Both models read the same encoded inputs and learn the same
task; kind and options may differ. The champion is served first. The other one's bet that it errs
less (`bets`) must reach `patience`; then it is served, and the bet starts again for the other model.
Between equal models that happens at most once in `patience` scored examples on average. Thumbs are
not scored, because only the served answer was ever rated.

A retraction is unlearned by both models; the score of the retracted example stays, as in drift
detection.
"""

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass

from online.models.contract import Answer, Example, Model, State, StatePart, pack_json, parse_number, unpack_json
from online.models.options import Option
from online.plugins.ensembles.bets import PATIENCE, SCORE_EVERY, Bets
from online.plugins.ensembles.members import extract_parts, prefix_parts, split_at_scored, teach_all

CHAMPION, CHALLENGER = "champion", "challenger"
TABLE = "contest"  # name of the part in snapshots

OPTIONS = (
    Option("kind", "", "The challenger's kind; empty: its champion's."),
    Option("options", {}, "The challenger's own options. What the inputs are is declared by the champion alone."),
    PATIENCE,
    SCORE_EVERY,
)


@dataclass(slots=True)
class ModelRecord(Bets):
    """The record of one model. seen: scored examples. answered: those with an answer. error: their sum."""

    seen: int = 0
    answered: int = 0
    error: float = 0.0

    def add(self, error: float) -> None:
        """Count a scored example. error: infinite without an answer."""
        self.seen += 1
        if error < math.inf:
            self.answered += 1
            self.error += error


class ChampionChallenger:
    """Two models of which one answers. Implements `contract.Model`."""

    def __init__(
        self,
        factories: Mapping[str, Callable[[], Model]],
        patience: int,
        score_every: int,
        predicts_numbers: bool,
    ) -> None:
        """factories: create the champion and the challenger, in this order, with nothing learned."""
        self.factories, self.patience, self.score_every = factories, patience, score_every
        self.predicts_numbers = predicts_numbers
        self.models = {name: make() for name, make in factories.items()}
        self.records = {name: ModelRecord() for name in self.models}
        self.served = CHAMPION
        self.missed = 0  # examples that the challenger could not learn

    @property
    def subtracts(self) -> bool:
        """Whether both subtract. False once the challenger missed an example that the champion learned."""
        return not self.missed and all(model.subtracts for model in self.models.values())

    def feature_epoch(self) -> str:
        """Return both epochs, if the two models read their inputs differently."""
        return "+".join(dict.fromkeys(model.feature_epoch() for model in self.models.values()))

    def predict(self, inputs: Sequence[bytes], keys: Sequence[int | None] = ()) -> list[Answer]:
        """Answer each input; the model does not change."""
        return self.models[self.served].predict(inputs, keys)

    # learn

    def learn(self, examples: Sequence[Example]) -> None:
        """Teach both.

        An example that the champion refuses raises; one that only the challenger refuses is
        skipped.
        """
        self.check(examples)
        for run in split_at_scored(examples, self._scores):
            if self._scores(run[0]):
                self._score(run[0])
            self.models[CHAMPION].learn(run)
            self.missed += teach_all(self.models[CHALLENGER], run)

    def check(self, examples: Sequence[Example]) -> None:
        """Raise BadExample for an example that this kind cannot learn."""
        self.models[CHAMPION].check(examples)

    def _scores(self, example: Example) -> bool:
        return example.kind in ("label", "correction") and example.offset % self.score_every == 0

    def _score(self, example: Example) -> None:
        errors = {name: self._error(model, example) for name, model in self.models.items()}
        for name, record in self.records.items():
            record.add(errors[name])
        rival = CHALLENGER if self.served == CHAMPION else CHAMPION
        gain = (errors[rival] < errors[self.served]) - (errors[rival] > errors[self.served])
        if self.records[rival].bet(gain) >= self.patience:
            self.served = rival
            for record in self.records.values():
                record.begin_again()

    def _error(self, model: Model, example: Example) -> float:
        """Return the model's error: 0 or 1; for numbers the distance, or infinity without an answer."""
        choice = model.predict([example.features])[0].choice
        if not self.predicts_numbers:
            return float(choice != example.label)
        return math.inf if choice is None else abs(parse_number(choice) - parse_number(example.label))

    def unlearn(self, examples: Sequence[Example]) -> None:
        """Remove the examples from both models."""
        for model in self.models.values():
            model.unlearn(examples)

    def drifted(self, label: str | None, since: int) -> None:
        """Pass an alarm of drift to both models."""
        for model in self.models.values():
            model.drifted(label, since)

    # state

    def facts(self) -> Mapping[str, float]:
        """Return the served model's facts, both models' percentage right (or mean error), and which is served."""
        facts = dict(self.models[self.served].facts())
        for name, record in self.records.items():
            if self.predicts_numbers:
                facts[f"{name}_error"] = record.error / max(record.answered, 1)
            else:
                facts[f"{name}_percent"] = 100 * (record.seen - record.error) / max(record.seen, 1)
        facts |= {f"{CHALLENGER}_served": float(self.served == CHALLENGER), "contested": self.records[CHAMPION].seen}
        return {**facts, f"{CHALLENGER}_missed": self.missed} if self.missed else facts

    def fingerprint(self) -> str:
        """Covers what both models learned, not their scores."""
        return hashlib.sha256(" ".join(model.fingerprint() for model in self.models.values()).encode()).hexdigest()

    def probes(self) -> list[tuple[bytes, str | None]]:
        """Return inputs that the gate predicts before a version goes live, each with the expected choice or None."""
        return self.models[self.served].probes()

    def state(self, serving_only: bool = False) -> State:
        """Return each model's parts under its name; prediction needs only those of the served one."""
        records = {name: asdict(record) for name, record in self.records.items()}
        table = {"served": self.served, "records": records, "missed": self.missed}
        parts = {TABLE: StatePart({"table": pack_json(table)}, serving=True)}
        for name, model in self.models.items():
            if name == self.served or not serving_only:
                parts |= prefix_parts(name, model.state(serving_only), name == self.served)
        return parts

    def restore(self, state: State) -> None:
        """Adopt a state that `state` returned."""
        table = unpack_json(state[TABLE].tensors["table"])
        self.served, self.missed = table["served"], table["missed"]
        self.records = {name: ModelRecord(**table["records"][name]) for name in self.records}
        self.models = {name: make() for name, make in self.factories.items()}
        for name, model in self.models.items():
            if parts := extract_parts(name, state):
                model.restore(parts)


def describe_records(facts: Mapping[str, float]) -> str:
    """Return the figures of both models in one line, from a version's metrics; "" without a challenger."""
    challenged = facts.get(f"{CHALLENGER}_served")
    figures = list[str]()
    for name, served in ((CHAMPION, not challenged), (CHALLENGER, challenged)) if challenged is not None else ():
        percent, error = facts.get(f"{name}_percent"), facts.get(f"{name}_error")
        figure = f"off by {error:.4g}" if percent is None else f"{percent:.1f} %"
        figures.append(f"{name} {figure}{' (served)' if served else ''}")
    return ", ".join(figures)

"""May this snapshot go live? Asked of every candidate, on the very parts that would be written.

finite numbers  ->  loads and answers its probes  ->  taught questions still get the reply they were taught
->  canaries still get the answer that what is live gives them  ->  not worse than what is live on held-out feedback

The first line is about the candidate alone: where it fails, some event broke the model, and is looked for. The second
compares two versions: where it fails, the candidate is not published, learning goes on, and a later one is asked again.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import comb

import numpy as np

from online.errors import CorruptSnapshot, NotFound
from online.learning.held_out import HeldOut
from online.models import Answer, Model, Options, State, create, recipe
from online.observability import fact
from online.snapshots import Snapshots

log = logging.getLogger("online.learner")

CHANCE = 0.001  # of a candidate that is as good as what is live to be called worse, at one look


class Unsound(Exception):
    """A candidate that may not go live, whatever else there is."""


@dataclass(frozen=True, slots=True)
class Canary:
    """A question (features) and the answer it must not lose: a label, or the id or the text of a reply."""

    features: bytes
    answer: str
    asked: str

    def answered_by(self, answer: Answer) -> bool:
        text = next((each.text for each in answer.candidates if each.id == answer.choice), None)
        return answer.choice is not None and self.answer in (answer.choice, text)


@dataclass(frozen=True, slots=True)
class Gate:
    kind: str
    options: Options

    def refusal(self, state: State, probes: list[tuple[bytes, str | None]]) -> str | None:
        """Why the candidate may not go live; None where it may, as far as itself is concerned."""
        try:
            self.candidate(state, probes)
        except Unsound as error:
            return str(error)
        return None

    def candidate(self, state: State, probes: list[tuple[bytes, str | None]]) -> Model:
        """What a server would make of it. Raises Unsound."""
        serving = {name: part for name, part in state.items() if part.serving}
        self._check_finite(serving)
        made = create(self.kind, self.options)
        try:
            made.restore(serving)
            answers = made.predict([features for features, _ in probes]) if probes else []
        except Exception as error:  # whatever it is: what cannot answer here cannot answer a caller
            raise Unsound(f"it cannot predict: {type(error).__name__}: {error}") from error
        for answer, probe in zip(answers, probes, strict=True):
            self._check_answer(answer, probe[1])
        return made

    @staticmethod
    def _check_finite(serving: State) -> None:
        for name, part in serving.items():
            for key, tensor in part.tensors.items():
                if np.issubdtype(tensor.dtype, np.floating) and not np.isfinite(tensor).all():
                    raise Unsound(f"{name}.{key} holds numbers that are not finite")

    @staticmethod
    def _check_answer(answer: Answer, taught: str | None) -> None:
        if not all(np.isfinite(candidate.score) for candidate in answer.candidates):
            raise Unsound("it answers with scores that are not finite")
        if answer.abstained and not answer.candidates:
            raise Unsound("it has no finite answer to an input it has learned")
        if taught is not None and answer.choice != taught:
            raise Unsound(f"a question that was taught {taught!r} would get {answer.choice!r}")


@dataclass(slots=True)
class Standing:
    """What a version answers. right: of held-out feedback by offset, as far as it was asked. kept: canaries answered."""

    version: int
    model: Model
    right: dict[int, bool] = field(default_factory=dict)
    kept: frozenset[Canary] = frozenset()

    def ask(self, held_out: HeldOut, canaries: Sequence[Canary]) -> None:
        """What it was not asked yet; what is no longer held out is forgotten."""
        new = [item for item in held_out if item.offset not in self.right]
        answers = self.model.predict([item.features for item in new]) if new else []
        told = self.right | {
            item.offset: answer.choice == item.label for item, answer in zip(new, answers, strict=True)
        }
        self.right = {item.offset: told[item.offset] for item in held_out}
        said = self.model.predict([canary.features for canary in canaries]) if canaries else []
        self.kept = frozenset(
            canary for canary, answer in zip(canaries, said, strict=True) if canary.answered_by(answer)
        )


class Comparison:
    """Candidates against what is live, whoever made that live. Numbers are never simply right: of them only canaries tell."""

    def __init__(self, kind: str, options: Options, snapshots: Snapshots, canaries: Sequence[Canary] = ()) -> None:
        self.kind, self.options, self.snapshots, self.canaries = kind, options, snapshots, canaries
        self.recipe = recipe(kind, options)
        self.live: Standing | None = None
        self.asked: Standing | None = None

    def refusal(self, candidate: Model, held_out: HeldOut) -> str | None:
        """Why it may not take the place of what is live; None where it may, or where nothing comparable is live."""
        judged_by = HeldOut() if self.kind == "regressor" else held_out
        self.asked = Standing(0, candidate)
        live = self._live()
        if live is None or not (len(judged_by) or self.canaries):
            return None
        for standing in (live, self.asked):
            standing.ask(judged_by, self.canaries)
        lost = sorted(live.kept - self.asked.kept, key=self.canaries.index)
        if lost:
            return f"the canary {lost[0].asked!r} would no longer get {lost[0].answer!r}"
        return worse(live.right, self.asked.right)

    def passed(self, version: int) -> None:
        """The candidate that was asked last is this version now."""
        live = self.snapshots.live()
        if self.asked is not None and live is not None and live.version == version:
            self.asked.version, self.live = version, self.asked

    def _live(self) -> Standing | None:
        try:
            live = self.snapshots.live()
            if live is not None and (self.live is None or self.live.version != live.version):
                self.live = self._loaded(live.version)
        except (NotFound, CorruptSnapshot):
            return None
        return self.live if live is not None else None

    def _loaded(self, version: int) -> Standing | None:
        loaded = self.snapshots.load(version)
        if loaded.manifest.recipe != self.recipe:
            return None
        model = create(self.kind, self.options)
        try:
            model.restore(loaded.parts)
        except Exception as error:  # whatever is wrong with it, a sound candidate is no worse
            fact(log, "not compared", logging.WARNING, version=version, reason=f"{type(error).__name__}: {error}")
            return None
        return Standing(version, model)


def worse(live: Mapping[int, bool], candidate: Mapping[int, bool]) -> str | None:
    """By a paired test, exact and one-sided (of signs, McNemar): of what only one of the two has right, too little is its own."""
    lost = sum(right and not candidate[offset] for offset, right in live.items())
    won = sum(candidate[offset] and not right for offset, right in live.items())
    if lost <= won or chance_of(lost, lost + won) >= CHANCE:
        return None
    ours, theirs = sum(candidate.values()), sum(live.values())
    return f"of {len(live)} held-out answers it has {ours} right where what is live has {theirs}"


def chance_of(at_least: int, tosses: int) -> float:
    """Of so many heads or more in tosses of a fair coin."""
    ways: int = sum(comb(tosses, heads) for heads in range(at_least, tosses + 1))
    return ways / 2.0**tosses


def canaries_of(told: Iterable[tuple[object, str]], encode: Callable[[Sequence[object]], list[bytes]]) -> list[Canary]:
    pairs = list(told)
    features = encode([asked for asked, _ in pairs]) if pairs else []
    return [Canary(data, answer, str(asked)) for (asked, answer), data in zip(pairs, features, strict=True)]

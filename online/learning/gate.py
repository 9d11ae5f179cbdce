"""Decides whether a proposed snapshot may go live, from the very parts that would be written.

    proposed snapshot --Gate--> finite numbers? answers its probes? gives taught replies?
                      --LiveComparison--> same answers to golden questions? not worse on held-out feedback?

`Gate` looks at the proposed snapshot alone. If it fails there, an event broke the model, and the
learner searches for that event. `LiveComparison` compares it with the live version. If it fails
there, it is not published, learning continues, and a later one is compared again.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import comb

import numpy as np

from online.errors import CorruptSnapshot, NotFound
from online.learning.held_out import HeldOutSet
from online.models import Answer, Model, Options, State, choose, create, recipe, spec_of
from online.snapshots import Snapshots
from online.telemetry import log_event

log = logging.getLogger("online.learner")

FALSE_ALARM_RATE = 0.001  # of one comparison, for a proposed snapshot that is as good as the live version

Probe = tuple[bytes, str | None]  # features, and the reply that was taught for them


class UnsoundSnapshot(Exception):
    """A proposed snapshot that cannot serve, whatever is live."""


@dataclass(frozen=True, slots=True)
class GoldenQuestion:
    """A question whose answer must not change.

    answer: a class, or the id or the text of a reply. question: its input, for messages.
    """

    features: bytes
    answer: str
    question: str

    def is_answered_by(self, answer: Answer) -> bool:
        """Return whether the answer is one of those expected."""
        text = next((candidate.text for candidate in answer.candidates if candidate.id == answer.choice), None)
        return answer.choice is not None and self.answer in (answer.choice, text)


@dataclass(frozen=True, slots=True)
class Gate:
    """Checks a proposed snapshot of one model by itself."""

    kind: str
    options: Options

    def refusal(self, state: State, probes: list[Probe]) -> str | None:
        """Return why the proposed snapshot cannot serve; None if it can."""
        try:
            self.load_proposed(state, probes)
        except UnsoundSnapshot as error:
            return str(error)
        return None

    def load_proposed(self, state: State, probes: list[Probe]) -> Model:
        """Return the model that a server would load. Raises UnsoundSnapshot."""
        serving = {name: part for name, part in state.items() if part.serving}
        self._check_finite(serving)
        model = create(self.kind, self.options)
        try:
            model.restore(serving)
            answers = model.predict([features for features, _ in probes]) if probes else []
        except Exception as error:  # any error: a model that fails here fails for a caller
            raise UnsoundSnapshot(f"it cannot predict: {type(error).__name__}: {error}") from error
        for answer, (_, taught) in zip(answers, probes, strict=True):
            self._check_answer(answer, taught)
        if answers and all(has_no_answer(answer) for answer in answers):
            raise UnsoundSnapshot("it has no finite answer to any input that it has learned last")
        return model

    @staticmethod
    def _check_finite(serving: State) -> None:
        for name, part in serving.items():
            for key, tensor in part.tensors.items():
                if np.issubdtype(tensor.dtype, np.floating) and not np.isfinite(tensor).all():
                    raise UnsoundSnapshot(f"{name}.{key} holds numbers that are not finite")

    @staticmethod
    def _check_answer(answer: Answer, taught: str | None) -> None:
        if not all(np.isfinite(candidate.score) for candidate in answer.candidates):
            raise UnsoundSnapshot("it answers with scores that are not finite")
        if taught is not None and answer.choice != taught:
            raise UnsoundSnapshot(f"a question that was taught {taught!r} would get {answer.choice!r}")


def has_no_answer(answer: Answer) -> bool:
    """Return whether a model computed no finite number for an input.

    For some inputs that is sound: a part of it, such as the scaler of a class that is new, has not seen their features yet.
    """
    return answer.abstained and not answer.candidates


@dataclass(slots=True)
class AssessedVersion:
    """A version and its answers.

    is_right: for held-out feedback, by offset. kept: the golden questions it answers as expected.
    """

    version: int
    model: Model
    is_right: dict[int, bool] = field(default_factory=dict)
    kept: frozenset[GoldenQuestion] = frozenset()

    def assess(self, held_out: HeldOutSet, golden_questions: Sequence[GoldenQuestion]) -> None:
        """Answer what is new since the last assessment; forget what is no longer held out."""
        new = [item for item in held_out if item.offset not in self.is_right]
        choices = choose(self.model, [item.features for item in new]) if new else []
        known = self.is_right | {item.offset: choice == item.label for item, choice in zip(new, choices, strict=True)}
        self.is_right = {item.offset: known[item.offset] for item in held_out}
        features = [question.features for question in golden_questions]
        answers = self.model.predict(features) if features else []
        self.kept = frozenset(
            question
            for question, answer in zip(golden_questions, answers, strict=True)
            if question.is_answered_by(answer)
        )


class LiveComparison:
    """Compares proposed snapshots with the live version, including one that a rollback made live.

    A number is never simply right, and a route is right for a budget, so models of these are compared on golden questions only.
    """

    def __init__(
        self, kind: str, options: Options, snapshots: Snapshots, golden_questions: Sequence[GoldenQuestion] = ()
    ) -> None:
        self.kind, self.options, self.snapshots, self.golden_questions = kind, options, snapshots, golden_questions
        self.recipe = recipe(kind, options)
        self.live: AssessedVersion | None = None
        self.proposed: AssessedVersion | None = None

    def refusal(self, proposed: Model, held_out: HeldOutSet) -> str | None:
        """Return why it may not replace the live version; None if it may or if nothing comparable is live."""
        compared_on = held_out if spec_of(self.kind).has_right_answers else HeldOutSet()
        self.proposed = AssessedVersion(0, proposed)
        live = self._find_live()
        if live is None or not (len(compared_on) or self.golden_questions):
            return None
        for version in (live, self.proposed):
            version.assess(compared_on, self.golden_questions)
        return explain_loss(live, self.proposed, self.golden_questions)

    def mark_published(self, version: int) -> None:
        """Note that the last proposed snapshot is now this version."""
        live = self.snapshots.folder.live()
        if self.proposed is not None and live is not None and live.version == version:
            self.proposed.version, self.live = version, self.proposed

    def _find_live(self) -> AssessedVersion | None:
        try:
            live = self.snapshots.folder.live()
            if live is not None and (self.live is None or self.live.version != live.version):
                self.live = self._load(live.version)
        except (NotFound, CorruptSnapshot):
            return None
        return self.live if live is not None else None

    def _load(self, version: int) -> AssessedVersion | None:
        loaded = self.snapshots.folder.load(version)
        if loaded.manifest.recipe != self.recipe:
            return None
        model = create(self.kind, self.options)
        try:
            model.restore(loaded.parts)
        except Exception as error:  # the live version is defective: a working proposed snapshot cannot be worse
            log_event(
                log,
                "live version not compared",
                logging.WARNING,
                version=version,
                reason=f"{type(error).__name__}: {error}",
            )
            return None
        return AssessedVersion(version, model)


def explain_loss(
    live: AssessedVersion, proposed: AssessedVersion, golden_questions: Sequence[GoldenQuestion]
) -> str | None:
    """Return what `proposed` answers worse than `live`; None if nothing. Both were assessed on the same."""
    lost = sorted(live.kept - proposed.kept, key=golden_questions.index)
    if lost:
        return f"the golden question {lost[0].question!r} would no longer get {lost[0].answer!r}"
    return explain_regression(live.is_right, proposed.is_right)


def explain_regression(live: Mapping[int, bool], proposed: Mapping[int, bool]) -> str | None:
    """Return why `proposed` is significantly worse than `live`; None if it is not.

    The test is the exact, one-sided sign test over the answers that only one of the two has right
    (McNemar 1947).
    """
    lost = sum(right and not proposed[offset] for offset, right in live.items())
    won = sum(proposed[offset] and not right for offset, right in live.items())
    if lost <= won or compute_tail_probability(lost, lost + won) >= FALSE_ALARM_RATE:
        return None
    ours, theirs = sum(proposed.values()), sum(live.values())
    return f"of {len(live)} held-out answers it has {ours} right where what is live has {theirs}"


def compute_tail_probability(at_least: int, tosses: int) -> float:
    """Return the probability of `at_least` heads or more in tosses of a fair coin."""
    ways: int = sum(comb(tosses, heads) for heads in range(at_least, tosses + 1))
    return ways / 2.0**tosses


def encode_golden_questions(
    questions: Iterable[tuple[object, str]], encode: Callable[[Sequence[object]], list[bytes]]
) -> list[GoldenQuestion]:
    """Turn pairs of an input and its expected answer into golden questions."""
    pairs = list(questions)
    features = encode([question for question, _ in pairs]) if pairs else []
    return [
        GoldenQuestion(data, answer, str(question)) for (question, answer), data in zip(pairs, features, strict=True)
    ]

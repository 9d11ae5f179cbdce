"""Tunes a text encoder on a model's feedback, and judges it on feedback that it was not tuned on.

    log --> text events --> five folds, by a hash of the text
                              | for each fold: tune and learn without it
                              v
            answers to the fold, tuned encoder against the one in use --> Verdict --better?--> tune on everything

Encoders and models answer only questions that they have never seen, including repetitions of the
same words. If the encoder in use was itself tuned, only questions received since are judged. The
verdict is an exact sign test over the questions that only one of the two answers right.
"""

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from online.errors import SetupError
from online.io.progress import Progress
from online.learning.training_state import TrainingState
from online.models import Options
from online.models.encoders import minilm
from online.models.encoders.text import quantise
from online.plugins.encoder_tuning.adapter import FrozenLayers, TuningExample, TuningOptions, to_tensors, tune_layers
from online.plugins.encoder_tuning.text_events import TextEvent
from online.schemas.events import is_positive
from online.store.database.values import fold_text

FOLDS = 5
SIGNIFICANCE = 0.05  # the largest probability of such a lead by chance that counts as proof
MIN_JUDGED = 50  # questions
FEEDBACK_KINDS = ("label", "correction", "reward")  # kinds of events that rate an answer


@dataclass(frozen=True, slots=True)
class EncoderComparison:
    """The comparison of two encoders on the judged questions.

    before, after: questions answered right with the encoder in use, and with the tuned one. gained,
    lost: questions answered right only with the tuned one, and only with the one in use.
    """

    judged: int
    before: int
    after: int
    gained: int
    lost: int

    @property
    def chance(self) -> float:
        """The probability of such a lead or a larger one if neither encoder is better (one-sided sign test)."""
        decided = self.gained + self.lost
        return float(sum(math.comb(decided, wins) for wins in range(self.gained, decided + 1)) / 2**decided)

    @property
    def better(self) -> bool:
        """Whether the tuned encoder is better by more than chance explains."""
        return self.chance <= SIGNIFICANCE

    @property
    def has_nothing_to_gain(self) -> bool:
        """Whether the encoder in use answers everything right already."""
        return self.before == self.judged

    def lines(self) -> Iterator[str]:
        """Return the verdict as lines of text."""
        yield f"{self.judged:,} taught questions, each answered by an encoder and a model that never saw it:"
        yield f"  encoder in use  {self.before:6,} right  {self.before / self.judged:7.2%}"
        yield f"  tuned encoder   {self.after:6,} right  {self.after / self.judged:7.2%}"
        yield f"  {self.gained:,} gained, {self.lost:,} lost; by chance alone with probability {self.chance:.2g}"
        if self.has_nothing_to_gain:
            yield "not better: the encoder in use answers all of them right, so that no tuning can gain anything"
            return
        yield (
            f"better: proven (at most {SIGNIFICANCE:g})"
            if self.better
            else f"not proven better (that takes {SIGNIFICANCE:g})"
        )


def build_lessons(events: Sequence[TextEvent]) -> list[TuningExample]:
    """Return one lesson for each text, from the last feedback about each class."""
    right: dict[str, str | None] = {}
    wrong: dict[str, set[str]] = {}
    for each in events:
        if not each.text:
            continue
        label, event = right.setdefault(each.text, None), each.event
        against = wrong.setdefault(each.text, set())
        if event.kind == "reward" and not is_positive(event.reward):
            against.add(event.label)
            right[each.text] = None if label == event.label else label
        else:
            against.discard(event.label)
            right[each.text] = event.label
    return [TuningExample(text, label, frozenset(wrong[text])) for text, label in right.items()]


def assign_fold(text: str) -> int:
    """Return the fold of a text: equal for texts that differ in case or spaces only."""
    return hashlib.sha256(fold_text(text).encode()).digest()[0] % FOLDS


# the verdict


class EncoderTuning:
    """Tunes the encoder of a model of this kind on the events of its log."""

    def __init__(
        self,
        kind: str,
        options: Options,
        events: Sequence[TextEvent],
        tuning: TuningOptions,
        tick: Progress = lambda what, done, of: None,
        used: Mapping[str, NDArray[np.float32]] = MappingProxyType({}),
        since: int = 0,
    ) -> None:
        """used: the tuned tensors of the encoder in use. since: the offset up to which it was tuned."""
        self.used, self.since = used, since
        self.kind, self.options, self.events, self.tuning, self.tick = kind, options, events, tuning, tick
        texts = list(dict.fromkeys(each.text for each in events if each.text))
        self.index = {text: index for index, text in enumerate(texts)}
        self.frozen = to_tensors(minilm.read_weights(minilm.package_folder()))
        tokenizer = minilm.tokenizer()
        self.lower = FrozenLayers(self.frozen, self.tuning.layers, [tokenizer.encode(text).ids for text in texts])

    def tune(self, events: Sequence[TextEvent], what: str = "tuning on everything") -> dict[str, NDArray[np.float32]]:
        """Return the tensors of the last layers, tuned on `events`."""
        lessons = build_lessons(events)
        lower = self.lower.of([self.index[lesson.text] for lesson in lessons])
        return tune_layers(
            self.frozen, lower, lessons, self.tuning, lambda step, steps, loss: self.tick(what, step, steps)
        )

    def features(self, tuned: Mapping[str, NDArray[np.float32]]) -> NDArray[np.int8]:
        """Encode all texts as int8 [texts, 384]; without tuned tensors, by the frozen encoder."""
        return quantise(self.lower.vectors({**self.frozen, **to_tensors(tuned)}).numpy())

    def judge(self) -> EncoderComparison:
        """Tune and answer once for each fold. Raises SetupError if there are too few questions to judge."""
        taught = self._select_judged()
        if len(taught) < MIN_JUDGED:
            new = " since this encoder was tuned" if self.since or self.used else ""
            raise SetupError(
                f"{len(taught)} questions have feedback{new}; comparing two encoders needs at least {MIN_JUDGED}"
            )
        before, after, used = list[bool](), list[bool](), self.features(self.used)
        for fold in range(FOLDS):
            held = [each for each in taught if assign_fold(each.text) == fold]
            offsets = {each.event.offset for each in held}
            rest = [each for each in self.events if each.event.offset not in offsets]
            if not held:
                continue
            tuned = self.tune(rest, f"judging on fifth {fold + 1} of {FOLDS}")
            before += self._answer(rest, held, used)
            after += self._answer(rest, held, self.features(tuned))
        pairs = list(zip(before, after, strict=True))
        gained, lost = sum(new and not old for old, new in pairs), sum(old and not new for old, new in pairs)
        return EncoderComparison(len(pairs), sum(before), sum(after), gained, lost)

    def _select_judged(self) -> list[TextEvent]:
        """Return the feedback on texts that the encoder in use was not tuned on."""
        seen = {fold_text(each.text) for each in self.events if each.event.offset <= self.since}
        taught = (each for each in self.events if each.event.kind in FEEDBACK_KINDS and each.event.offset > self.since)
        return [each for each in taught if fold_text(each.text) not in seen]

    def _answer(self, rest: Sequence[TextEvent], held: Sequence[TextEvent], features: NDArray[np.int8]) -> list[bool]:
        """Return whether a model that learned `rest` answers each held-out question right."""
        training = TrainingState(self.kind, self.options, "cpu", lambda until: ())
        training.apply([self._encode(each, features).event for each in rest])
        answers = training.model.predict([self._encode(each, features).event.features for each in held])
        return [
            (answer.choice == each.event.label) == is_positive(each.event.reward)
            for answer, each in zip(answers, held, strict=True)
        ]

    def _encode(self, each: TextEvent, features: NDArray[np.int8]) -> TextEvent:
        if not each.text:
            return each
        event = structs.replace(each.event, features=features[self.index[each.text]].tobytes())
        return replace(each, event=event)

"""Would another encoder answer better? Tunes on the log's feedback, and is judged on feedback it was not tuned on.

    log -> what was said, with its texts -> five fifths, by the question's hash
                                              |  tuned without one -> a model of the same kind, learned without it
                                              v                                              |
             the published encoder <- tuned on all <- proof <- answers to that fifth, tuned against the one in use

Every question is answered by encoders and models that have never seen it, the same words asked twice included: where the
encoder in use was tuned itself, only what was asked after that is judged. The proof is an exact sign test over the
questions that only one of the two answers right.
"""

import hashlib
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection

from online.errors import SetupError
from online.learning.learner import Pupil
from online.models import Options, minilm
from online.models.adapter import Lesson, Lower, Tuning, tensors_of, tune
from online.models.encoder import quantised, text_of
from online.schemas import Entry, Event
from online.store import NO_WORDS, Store, folded, log_rows, refused_offsets

FOLDS = 5
PROOF = 0.05  # the chance, were both alike, of a lead like this one: above it, there is no proof
LEAST_JUDGED = 50  # questions
PAGE = 1_000
TAUGHT = ("label", "correction", "reward")  # kinds of events that say something about a question

Tick = Callable[[str, int, int], None]  # what is being done, how far, of how much


@dataclass(frozen=True, slots=True)
class Said:
    """An event that stands, and the text its features are made of; "" for one that has none."""

    entry: Entry
    text: str

    @property
    def event(self) -> Event:
        return self.entry.event


@dataclass(frozen=True, slots=True)
class Verdict:
    """before, after: questions answered right, of those judged. gained, lost: right with only one of the encoders."""

    judged: int
    before: int
    after: int
    gained: int
    lost: int

    @property
    def chance(self) -> float:
        """One-sided sign test: how probable so great a lead is when neither encoder is better."""
        told = self.gained + self.lost
        return float(sum(math.comb(told, wins) for wins in range(self.gained, told + 1)) / 2**told)

    @property
    def better(self) -> bool:
        return self.chance <= PROOF

    def lines(self) -> Iterator[str]:
        """For people."""
        yield f"{self.judged:,} taught questions, each answered by an encoder and a model that never saw it:"
        yield f"  encoder in use  {self.before:6,} right  {self.before / self.judged:7.2%}"
        yield f"  tuned encoder   {self.after:6,} right  {self.after / self.judged:7.2%}"
        yield f"  {self.gained:,} gained, {self.lost:,} lost; by chance alone with probability {self.chance:.2g}"
        yield f"better: proven (at most {PROOF:g})" if self.better else f"not proven better (that takes {PROOF:g})"


# what was said


def read_said(store: Store, model: str, recipe: str) -> list[Said]:
    """What stands of a model's log: nothing that was retracted or refused.

    Raises SetupError when the text of something learned is not in the store.
    """
    refused = store.read(lambda connection: refused_offsets(connection, model, recipe))
    said = read_all(store, model)
    gone = {each.event.target.offset for each in said if each.event.target is not None} | refused.keys()
    return [each for each in said if each.event.kind != "retraction" and each.entry.offset not in gone]


def read_all(store: Store, model: str) -> list[Said]:
    """A model's whole log. A retraction has the text of what it takes back. Raises SetupError as `read_said` does."""
    said, texts = list[Said](), dict[int, str]()
    while page := store.read(lambda connection: said_after(connection, model, texts)):
        said += page
    return said


def said_after(connection: Connection, model: str, texts: dict[int, str]) -> list[Said]:
    """The next page of a log, after those offsets whose texts are known; it adds its own."""
    after, said = next(reversed(texts), 0), list[Said]()
    for row in log_rows(connection, model, after, PAGE):
        event = Event.parse(row["body"], row["features"])
        texts[row["offset"]] = texts[event.target.offset] if event.target else _text(row, event, model)
        said.append(Said(Entry(row["offset"], event), texts[row["offset"]]))
    return said


def _text(row: Mapping[str, Any], event: Event, model: str) -> str:
    if event.text or not event.features or event.kind == "reply":
        return " ".join(event.text.split())
    asked = row["input"] if row["input"] is not None else row["own_input"]
    if asked == NO_WORDS:  # erased, and taken back: its features stay what they were, with and without
        return ""
    text = None if asked is None else text_of(json.loads(asked))
    if text is None:
        raise SetupError(
            f"the log of {model} has no text for offset {row['offset']}: an older release kept only its features, so "
            "that it cannot be encoded anew"
        )
    return " ".join(text.split())


def lessons_of(said: Sequence[Said]) -> list[Lesson]:
    """One lesson a text: the last word about each label counts."""
    right: dict[str, str | None] = {}
    wrong: dict[str, set[str]] = {}
    for each in said:
        if not each.text:
            continue
        label, event = right.setdefault(each.text, None), each.event
        against = wrong.setdefault(each.text, set())
        if event.kind == "reward" and event.reward < 0.5:
            against.add(event.label)
            right[each.text] = None if label == event.label else label
        else:
            against.discard(event.label)
            right[each.text] = event.label
    return [Lesson(text, label, frozenset(wrong[text])) for text, label in right.items()]


def fold_of(text: str) -> int:
    return hashlib.sha256(folded(text).encode()).digest()[0] % FOLDS


# the judgement


class Adaptation:
    """One attempt to tune the encoder of a model of this kind on what was said."""

    def __init__(
        self,
        kind: str,
        options: Options,
        said: Sequence[Said],
        tuning: Tuning,
        tick: Tick = lambda what, done, of: None,
        used: Mapping[str, NDArray[np.float32]] = MappingProxyType({}),
        since: int = 0,
    ) -> None:
        """used: the tensors of the encoder in use that were tuned; since: on what was said until this offset."""
        self.used, self.since = used, since
        self.kind, self.options, self.said, self.tuning, self.tick = kind, options, said, tuning, tick
        texts = list(dict.fromkeys(each.text for each in said if each.text))
        self.place = {text: place for place, text in enumerate(texts)}
        self.frozen = tensors_of(minilm.read_weights(minilm.package_folder()))
        tokenizer = minilm.tokenizer()
        self.lower = Lower(self.frozen, self.tuning.layers, [tokenizer.encode(text).ids for text in texts])

    def tuned(self, said: Sequence[Said], what: str = "tuning on everything") -> dict[str, NDArray[np.float32]]:
        """The last layers' tensors, tuned on `said`."""
        lessons = lessons_of(said)
        lower = self.lower.of([self.place[lesson.text] for lesson in lessons])
        return tune(self.frozen, lower, lessons, self.tuning, lambda step, steps, loss: self.tick(what, step, steps))

    def features(self, tuned: Mapping[str, NDArray[np.float32]]) -> NDArray[np.int8]:
        """int8 [texts, 384]; nothing tuned gives the frozen encoder's."""
        return quantised(self.lower.vectors({**self.frozen, **tensors_of(tuned)}).numpy())

    def judge(self) -> Verdict:
        """Tune and answer once for each fifth, left out. Raises SetupError where too little was said to prove anything."""
        taught = self._to_judge()
        if len(taught) < LEAST_JUDGED:
            new = " since this encoder was tuned" if self.since else ""
            raise SetupError(f"{len(taught)} questions were taught{new}; a proof takes at least {LEAST_JUDGED}")
        before, after, used = list[bool](), list[bool](), self.features(self.used)
        for fold in range(FOLDS):
            held = [each for each in taught if fold_of(each.text) == fold]
            offsets = {each.entry.offset for each in held}
            rest = [each for each in self.said if each.entry.offset not in offsets]
            if not held:
                continue
            tuned = self.tuned(rest, f"judging on fifth {fold + 1} of {FOLDS}")
            before += self._right(rest, held, used)
            after += self._right(rest, held, self.features(tuned))
        pairs = list(zip(before, after, strict=True))
        gained, lost = sum(new and not old for old, new in pairs), sum(old and not new for old, new in pairs)
        return Verdict(len(pairs), sum(before), sum(after), gained, lost)

    def _to_judge(self) -> list[Said]:
        """What was taught of words that the encoder in use was not tuned on."""
        seen = {folded(each.text) for each in self.said if each.entry.offset <= self.since}
        taught = (each for each in self.said if each.event.kind in TAUGHT and each.entry.offset > self.since)
        return [each for each in taught if folded(each.text) not in seen]

    def _right(self, rest: Sequence[Said], held: Sequence[Said], features: NDArray[np.int8]) -> list[bool]:
        """Whether a model that learned `rest` does right by each that was held back."""
        pupil = Pupil(self.kind, self.options, "cpu", lambda until: ())
        pupil.apply([self._encoded(each, features).entry for each in rest])
        answers = pupil.model.predict([self._encoded(each, features).event.features for each in held])
        return [
            (answer.choice == each.event.label) == (each.event.reward >= 0.5)
            for answer, each in zip(answers, held, strict=True)
        ]

    def _encoded(self, each: Said, features: NDArray[np.int8]) -> Said:
        if not each.text:
            return each
        event = replace(each.event, features=features[self.place[each.text]].tobytes())
        return replace(each, entry=replace(each.entry, event=event))

"""Finds recent questions that one version answers differently from an earlier one.

newest different questions --> answered by both versions, in a thread --> those answered otherwise, with what was said about them

Both versions answer alone, without a policy's draws, so the same pair gives the same answers again. One comparison at a time
is made of a model, and the last few are kept for a moment: a page asks again whenever it is opened.
"""

import asyncio
import json
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from sqlalchemy import Connection

from online.models import Answer, parse_number
from online.plugins.monitoring.schemas import GivenAnswer, NewestFeedback
from online.schemas.json_values import JSON
from online.serving.live import LiveModel
from online.serving.turns import Turns
from online.serving.versions import ServedVersion
from online.store.feedback import list_opinions
from online.store.predictions import NewestPrediction, load_newest

MAX_QUESTIONS = 1_000
ASKED_OFTEN = 8  # times as many predictions are read, of which the same question is one
KEPT_S, MAX_KEPT = 30.0, 16  # how long a comparison is kept, and how many
SAME_NUMBER = 0.01  # relative difference of two numbers up to which they count as the same answer


@dataclass(slots=True)
class RecordedQuestion:
    """A recorded question. predictions: the ids of its predictions, newest first."""

    instance: JSON
    features: bytes
    asked_at: str
    predictions: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class AnswerChange:
    """A question that the later version answers otherwise. asked: how often it was asked among the newest."""

    instance: JSON
    asked: int
    asked_at: str
    before: GivenAnswer
    after: GivenAnswer
    said: NewestFeedback | None

    @property
    def is_better(self) -> bool | None:
        """Whether the later answer is right and the earlier one wrong, or the other way round; None: nobody said."""
        before, after = (is_right(each, self.said) if self.said else None for each in (self.before, self.after))
        if after and not before:
            return True
        return False if before and after is False else None


@dataclass(frozen=True, slots=True)
class VersionChanges:
    """The different answers of `version` and `since` to the same questions; changes: the newest first."""

    version: int
    since: int
    questions: int
    changes: Sequence[AnswerChange]


@dataclass(slots=True)
class VersionComparison:
    """Compares versions of one model. read: runs a query on the store, off the event loop. clock: monotonic seconds."""

    model: str
    live: LiveModel
    numbers: bool
    read: Callable[[Callable[[Connection], Any]], Awaitable[Any]]
    clock: Callable[[], float] = time.monotonic
    turns: Turns = field(default_factory=partial(Turns, "comparisons of versions"))
    kept: OrderedDict[tuple[int, int, int], tuple[float, VersionChanges]] = field(default_factory=OrderedDict)

    async def compare(self, version: int, since: int, count: int) -> VersionChanges:
        """Compare two versions on the newest questions. Raises NotFound, CorruptSnapshot, Conflict for a version of another kind, Overloaded, or Unavailable."""
        key = (version, since, count)
        if kept := self._find_kept(key):
            return kept
        return await self.turns.run(partial(self._find_or_compare, key))

    def _find_kept(self, key: tuple[int, int, int]) -> VersionChanges | None:
        made_at, found = self.kept.get(key, (0.0, None))
        return found if self.clock() - made_at < KEPT_S else None

    async def _find_or_compare(self, key: tuple[int, int, int]) -> VersionChanges:
        """Return several pages that ask at once wait for one comparison."""
        if kept := self._find_kept(key):
            return kept
        made = await self._compare(*key)
        self.kept[key] = self.clock(), made
        self.kept.move_to_end(key)
        while len(self.kept) > MAX_KEPT:
            self.kept.popitem(last=False)
        return made

    def forget(self) -> None:
        """Drop what is kept: it may hold words of a user who was erased."""
        self.kept = OrderedDict()

    async def _compare(self, version: int, since: int, count: int) -> VersionChanges:
        rows = await self.read(partial(load_newest, model=self.model, count=ASKED_OFTEN * count))
        questions = collect_questions(rows, count)
        after = await asyncio.to_thread(self._answer, version, questions)
        before = await asyncio.to_thread(self._answer, since, questions)
        changed = [
            place
            for place, (old, new) in enumerate(zip(before, after, strict=True))
            if differs(old.choice, new.choice, self.numbers)
        ]
        said = await self._load_said([questions[place] for place in changed], rows)
        changes = [
            AnswerChange(
                questions[place].instance,
                len(questions[place].predictions),
                questions[place].asked_at,
                before[place],
                after[place],
                said.get(questions[place].predictions[0]),
            )
            for place in changed
        ]
        return VersionChanges(version, since, len(questions), changes)

    def _answer(self, version: int, questions: Sequence[RecordedQuestion]) -> list[GivenAnswer]:
        """Slow: it may load the version, which is let go again."""
        served = self.live.load_version(version)
        answers = served.predict(self._encode(served, questions)) if questions else []
        return [describe_answer(answer) for answer in answers]

    def _encode(self, served: ServedVersion, questions: Sequence[RecordedQuestion]) -> list[bytes]:
        """Return the features that a version reads. The recorded ones are of the present encoder; another encoder computes its own."""
        if served.encoder is self.live.encoder_config.encoder:
            return [question.features for question in questions]
        return served.encoder.encode([question.instance for question in questions])

    async def _load_said(
        self, questions: Sequence[RecordedQuestion], rows: Sequence[NewestPrediction]
    ) -> dict[str, NewestFeedback]:
        """Return the newest feedback about each question, by the id of its newest prediction."""
        newest_of = {id: each.predictions[0] for each in questions for id in each.predictions}
        choices = {row.id: row.choice for row in rows}
        opinions = await self.read(partial(list_opinions, model=self.model, predictions=list(newest_of)))
        found = {}
        for opinion in opinions:  # the oldest first
            content = json.loads(opinion.content)
            given = {name: content.get(name) for name in ("reward", "label", "correction")}
            said = NewestFeedback(**given, choice=choices[opinion.prediction_id])
            found[newest_of[opinion.prediction_id]] = said
        return found


def collect_questions(rows: Collection[NewestPrediction], count: int) -> list[RecordedQuestion]:
    """Return the different questions among rows of predictions, newest first."""
    found: dict[str, RecordedQuestion] = {}
    for row in rows:
        if row.input not in found and len(found) == count:
            continue
        new = RecordedQuestion(json.loads(row.input), row.features, row.created_at)
        found.setdefault(row.input, new).predictions.append(row.id)
    return list(found.values())


def describe_answer(answer: Answer) -> GivenAnswer:
    """Return an answer with the text of its choice."""
    chosen = next((each for each in answer.candidates if each.id == answer.choice), None)
    return GivenAnswer(choice=answer.choice, text=None if chosen is None else chosen.text, score=answer.score)


def is_right(answer: GivenAnswer, said: NewestFeedback) -> bool | None:
    """Return whether an answer is right by what was said; None if that does not tell."""
    if said.label is not None:
        return answer.choice == said.label
    if said.correction is not None:
        return answer.text == said.correction
    if said.reward is None or said.choice is None:
        return None
    if answer.choice == said.choice:
        return said.reward > 0.5
    return False if said.reward > 0.5 else None


def differs(before: str | None, after: str | None, numbers: bool) -> bool:
    """Return whether answers differ; numbers by more than rounding."""
    if before is None or after is None or not numbers:
        return before != after
    old, new = parse_number(before), parse_number(after)
    return abs(new - old) > SAME_NUMBER * max(abs(old), abs(new))

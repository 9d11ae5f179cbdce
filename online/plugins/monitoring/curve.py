"""Counts how often served answers were right, along the log, page by page, as a replay counts it.

store --outcomes after `until`, one page--> Counts: hits, curve, baselines --now and then--> store, to continue from

Nothing is counted until a client asks. A client gets the newest counts if little is new, and the
progress while a long log is being counted.
"""

import asyncio
import json
import logging
import threading
import zlib
from base64 import b64decode, b64encode
from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, TypeVar

from sqlalchemy import Connection

from online.errors import Unavailable
from online.models import parse_number
from online.schemas.events import Event
from online.schemas.json_values import JSONArray
from online.scoring.prequential import (
    Baselines,
    Curve,
    CurveSegment,
    HitCounts,
    NumberBaselines,
    judge_answers,
    names_right_answer,
)
from online.scoring.recent_outcomes import KEPT, AnswerOutcome, RecentOutcomes
from online.scoring.score import BaselineAnswers
from online.store import Store
from online.store.deletion.event_expiry import load_expiry
from online.store.events import head_of
from online.store.log_rows import Outcome, load_counts, load_newest_outcomes, load_outcomes, save_counts
from online.telemetry import log_event

log = logging.getLogger("online.curve")

T = TypeVar("T")

FORMAT = 2  # of the saved counts
PAGE = 1_000  # offsets
SAVE_EVERY = 20_000  # offsets from one save to the next while a long log is being counted
WORTH_SAVING = 500  # new offsets that are saved once everything is counted
PATIENCE_S = 0.3  # how long a request waits for the newest counts
REMEMBERED = 1_024  # newest changes of a baseline's guess, and newest times of feedback, that are kept
SEARCH_PAGE = 32  # feedback read at once in the search for a label that is older than what is kept


class JudgedOffsets:
    """The offsets of feedback that judged a served answer: one bit for each, so that the number of an answer is exact.

    A curve is thinned, and says only at some offsets how many answers had been judged. A million offsets are 125 kB.
    start, number: how many answers had been judged up to the offset from which the single ones are known.
    """

    def __init__(self, start: int = 0, number: int = 0) -> None:
        self.start, self.number = start, number
        self.bits = bytearray()

    def add(self, offset: int) -> None:
        """Note an offset, which is higher than `start`."""
        byte, bit = divmod(offset - self.start - 1, 8)
        if byte >= len(self.bits):
            self.bits.extend(bytes(byte + 1 - len(self.bits)))
        self.bits[byte] |= 1 << bit

    def count_until(self, offsets: Iterable[int]) -> dict[int, int]:
        """Return offset -> how many answers had been judged up to it. Offsets before `start` are left out."""
        found, number, counted = dict[int, int](), self.number, 0  # counted: bytes whose bits are in `number`
        for offset in sorted({offset for offset in offsets if offset >= self.start}):
            byte, rest = divmod(offset - self.start, 8)
            number += int.from_bytes(self.bits[counted:byte]).bit_count()
            counted = byte
            last = self.bits[byte] if byte < len(self.bits) else 0
            found[offset] = number + (last & ((1 << rest) - 1)).bit_count()
        return found

    def to_json(self) -> JSONArray:
        """Return the bits as JSON values."""
        return [self.start, self.number, b64encode(zlib.compress(self.bits)).decode()]

    @classmethod
    def from_json(cls, kept: JSONArray) -> "JudgedOffsets":
        """Return what `to_json` stored."""
        start, number, bits = kept
        judged = cls(start, number)
        judged.bits.extend(zlib.decompress(b64decode(bits)))
        return judged


@dataclass(slots=True)
class CurveTally:
    """The score of the served answers or of a baseline.

    judged: outcomes that judge it. total: the number of right answers; for numbers, the sum of the errors.
    """

    judged: int = 0
    total: float = 0.0

    def add(self, score: float) -> None:
        """Add a score."""
        self.judged += 1
        self.total += score


class GuessHistory:
    """The guesses of a baseline, by the offset from which each held; only the newest changes are kept."""

    def __init__(self) -> None:
        self.changes: deque[tuple[int, Any]] = deque(maxlen=REMEMBERED)
        self.lost = False

    def note(self, offset: int, guess: object) -> None:
        """Note a guess that holds from an offset on."""
        if self.changes and self.changes[-1][1] == guess:
            return
        self.lost = self.lost or len(self.changes) == REMEMBERED
        self.changes.append((offset, guess))

    def at(self, offset: int) -> tuple[Any, bool]:
        """(guess of the baseline that has seen everything up to an offset, whether it is remembered).

        If it is not remembered, the guess is the oldest one that is.
        """
        newer = self.changes
        if not newer or newer[-1][0] <= offset:
            return (newer[-1][1] if newer else None), True
        place = bisect_right(newer, offset, key=lambda change: change[0])
        if place:
            return newer[place - 1][1], True
        return (newer[0][1], False) if self.lost else (None, True)


class CurveCounts:
    """Counts over a model's log up to offset `until`. For numbers, absolute errors are counted."""

    def __init__(self, numbers: bool) -> None:
        self.numbers = numbers
        self.until = 0
        self.tallies: dict[str, CurveTally] = {}
        self.served, self.curve = HitCounts(), Curve()
        self.labels, self.amounts = Baselines(), NumberBaselines()
        self.histories: dict[str, GuessHistory] = {}
        self.recent = RecentOutcomes(numbers)
        self.judged = JudgedOffsets()
        self.feedback = 0
        self.times: deque[str] = deque(maxlen=REMEMBERED)
        self.last_label: Callable[[int], str | None] = lambda offset: None  # for offsets before a history

    def take(self, rows: Sequence[Outcome], until: int) -> None:
        """Count the rows of `load_outcomes`, which end at the offset `until`."""
        for row in rows:
            self.feedback += 1
            self.times.append(row.created_at)
            event = Event.parse(row.body, b"")
            was_predicted = row.prediction_id is not None or row.learned_until is not None
            if was_predicted or event.kind == "label":
                self._judge(event, row, was_predicted)
                if names_right_answer(event):
                    self._observe(event.label, row.offset)
        self.until = until

    def _judge(self, event: Event, row: Outcome, was_predicted: bool) -> None:
        """was_predicted: False for an example to which no version had answered, which judges the baselines only.

        The baselines know what the answering version knew; for an example, they know all before it, as in a replay.
        """
        known_until = row.offset - 1 if row.prediction_id is None or row.learned_until is None else row.learned_until
        guesses = self._guesses(known_until)
        scores = (
            self._errors(event, row, guesses, was_predicted)
            if self.numbers
            else self._hits(event, row, guesses, was_predicted)
        )
        if scores is None:
            return
        for name, score in scores.items():
            self.tallies.setdefault(name, CurveTally()).add(score)
        self.curve.add(scores, row.offset, row.created_at)
        if "served" not in scores:
            return
        self.judged.add(row.offset)
        if (
            row.prediction_id is not None and row.learned_until is not None
        ):  # the verdict is on answers that somebody got
            last, usual = map(scores.get, self.recent.guessers)
            self.recent.add(AnswerOutcome(row.offset, row.learned_until, scores["served"], last, usual))

    def _hits(
        self, event: Event, row: Outcome, guesses: BaselineAnswers, was_predicted: bool
    ) -> dict[str, float] | None:
        if was_predicted and row.choice is not None:
            self.served.add(names_right_answer(event) and event.label == row.choice)
        return judge_answers(event, {**({"served": row.choice} if was_predicted else {}), **guesses})

    def _errors(
        self, event: Event, row: Outcome, guesses: BaselineAnswers, was_predicted: bool
    ) -> dict[str, float] | None:
        if not was_predicted or row.choice is None:
            return None
        self.served.add(False)  # a number is never simply right or wrong
        if not guesses:
            return None
        answers = {"served": float(row.choice), **guesses}
        return {name: abs(number - parse_number(event.label)) for name, number in answers.items()}

    def _observe(self, label: str, offset: int) -> None:
        baselines: Baselines | NumberBaselines
        if self.numbers:
            self.amounts.observe(parse_number(label))
            baselines = self.amounts
        else:
            self.labels.observe(label)
            baselines = self.labels
        for name, guess in baselines.guesses().items():
            self.histories.setdefault(name, GuessHistory()).note(offset, guess)

    def _guesses(self, offset: int) -> BaselineAnswers:
        """Return the answers of the baselines that know everything up to an offset."""
        found = {} if self.numbers else dict.fromkeys(self.labels.guesses())
        for name, history in self.histories.items():
            guess, remembered = history.at(offset)
            if not remembered and name == "no_change":
                label = self.last_label(offset)
                guess = label if label is None or not self.numbers else parse_number(label)
            if guess is not None or not self.numbers:
                found[name] = guess
        return found

    def judged_until(self, offsets: Iterable[int]) -> dict[int, int | None]:
        """Return how many served answers had been judged up to each offset; None where that is not counted, or not known any more."""
        offsets = [*offsets]
        found = self.judged.count_until(offset for offset in offsets if offset <= self.until)
        return {offset: found.get(offset) for offset in offsets}

    # state

    def to_json(self) -> str:
        """Return the counts as JSON; `from_json` is the inverse."""
        histories = {name: [each.lost, list(each.changes)] for name, each in self.histories.items()}
        stretches = [asdict(each) for each in self.curve.whole]
        return json.dumps(
            {
                "until": self.until,
                "feedback": self.feedback,
                "times": list(self.times),
                "tallies": {name: [tally.judged, tally.total] for name, tally in self.tallies.items()},
                "served": [self.served.judged, self.served.right],
                "curve": [self.curve.width, self.curve.number, stretches, asdict(self.curve.last)],
                "labels": [dict(self.labels.seen), self.labels.last, self.labels.most],
                "amounts": asdict(self.amounts),
                "histories": histories,
                "recent": self.recent.to_json(),
                "judged": self.judged.to_json(),
            },
            separators=(",", ":"),
        )

    @classmethod
    def from_json(cls, numbers: bool, text: str) -> "CurveCounts":
        """Return the counts that the store keeps."""
        counts, kept = cls(numbers), json.loads(text)
        counts.until, counts.feedback = kept["until"], kept["feedback"]
        counts.times.extend(kept["times"])
        counts.tallies = {name: CurveTally(*each) for name, each in kept["tallies"].items()}
        counts.served = HitCounts(*kept["served"])
        width, number, whole, last = kept["curve"]
        counts.curve = Curve(width, number, [CurveSegment(**each) for each in whole], CurveSegment(**last))
        seen, last_label, most = kept["labels"]
        counts.labels = Baselines(Counter(seen), last_label, most)
        counts.amounts = NumberBaselines(**kept["amounts"])
        for name, (lost, changes) in kept["histories"].items():
            history = counts.histories[name] = GuessHistory()
            history.changes.extend((offset, guess) for offset, guess in changes)
            history.lost = lost
        counts.recent = RecentOutcomes.from_json(numbers, kept.get("recent", ()))
        served = counts.tallies.get("served", CurveTally())
        lost = JudgedOffsets(counts.until, served.judged)  # saved by a release that did not keep them
        counts.judged = JudgedOffsets.from_json(kept["judged"]) if "judged" in kept else lost
        return counts


@dataclass(slots=True)
class CurveKeeper:
    """One model's counts, brought up to date on request by one task at a time, off the event loop.

    notify: called with (event, **data) when a long log was counted.
    """

    model: str
    numbers: bool
    store: Store
    notify: Callable[..., None]
    counts: CurveCounts | None = None
    saved_until: int = 0
    stopping: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)
    running: "asyncio.Task[None] | None" = None

    async def summarize(self, summary: Callable[[CurveCounts], T], patience_s: float = PATIENCE_S) -> T:
        """Return `summary(counts)`, after a wait of about `patience_s` at most for the newest counts.

        Raises Unavailable.
        """
        if self.running is None or self.running.done():
            self.running = asyncio.create_task(self._catch_up())
            # the error is raised to the callers that wait; without a caller it must not be reported as never retrieved
            self.running.add_done_callback(lambda task: task.cancelled() or task.exception())
        done, _ = await asyncio.wait([self.running], timeout=patience_s)
        for task in done:
            task.result()
        return await asyncio.to_thread(self._summarize, summary)

    def _summarize(self, summary: Callable[[CurveCounts], T]) -> T:
        with self.lock:
            return summary(self.counts or CurveCounts(self.numbers))

    async def _catch_up(self) -> None:
        pages = 0
        while not self.stopping and await asyncio.to_thread(self._count_page):
            pages += 1
        if pages > 1:
            self.notify("counted", counted_until=self.counts.until if self.counts else 0)

    def _count_page(self) -> bool:
        """Count one page; return whether there may be another."""
        counts = self.counts = self.counts or self._load()
        with self.lock:
            try:
                more = bool(self.store.read(lambda connection: self._take_page(connection, counts)))
            except BaseException:
                self.counts = None  # part of the page may be counted: continue from the saved counts
                raise
        if counts.until - self.saved_until >= (SAVE_EVERY if more else WORTH_SAVING):
            self._save()
        return more

    def _take_page(self, connection: Connection, counts: CurveCounts) -> bool:
        head = head_of(connection, self.model)
        until = min(counts.until + PAGE, head)
        counts.last_label = lambda offset: last_label(connection, self.model, offset)
        counts.take(load_outcomes(connection, self.model, counts.until, until), until)
        return until < head

    def _load(self) -> CurveCounts:
        kept = self.store.read(lambda connection: load_counts(connection, self.model, FORMAT))
        head = self.store.read(lambda connection: head_of(connection, self.model))
        expiry = self.store.read(lambda connection: load_expiry(connection, self.model))
        counts = CurveCounts(self.numbers) if kept is None else CurveCounts.from_json(self.numbers, kept)
        is_incomplete = counts.judged.start > 0 and expiry.removing_until == 0  # and can be counted again
        if counts.until > head or is_incomplete:  # the first: of another log
            counts = CurveCounts(self.numbers)
        if counts.until and not len(counts.recent):  # saved by a release that did not keep them
            counts.recent = self._recount_recent(counts.until)
        self.saved_until = counts.until
        return counts

    def _recount_recent(self, until: int) -> RecentOutcomes:
        """Return the newest outcomes up to an offset, with naive guessers that know nothing from before them."""
        newest, after = CurveCounts(self.numbers), max(0, until - 2 * KEPT)
        rows = self.store.read(lambda connection: load_outcomes(connection, self.model, after, until))
        newest.take(rows, until)
        return newest.recent

    def _save(self) -> None:
        """Save the counts, so that the next start continues from them. After a failure it counts more."""
        if self.counts is None:
            return
        until, kept = self.counts.until, self.counts.to_json()
        try:
            self.store.submit(
                lambda connection: save_counts(connection, self.model, FORMAT, kept), durable=False
            ).result()
            self.saved_until = until
        except Unavailable as error:
            log_event(log, "counts not saved", logging.WARNING, model=self.model, reason=str(error))

    def forget(self) -> None:
        """Drop the counts, which are counted again from the log. For a thread: it may wait for a page."""
        with self.lock:
            self.counts, self.saved_until = None, 0

    async def stop(self) -> None:
        """Stop counting, and save what was counted."""
        self.stopping = True
        if self.running is not None and not self.running.done():
            await asyncio.gather(self.running, return_exceptions=True)
        if self.counts is not None and self.counts.until > self.saved_until:
            await asyncio.to_thread(self._save)


def last_label(connection: Connection, model: str, offset: int) -> str | None:
    """Return the class or number of the last feedback up to an offset that names the right one; None without any."""
    while rows := load_newest_outcomes(connection, model, offset, SEARCH_PAGE):
        for _, body, prediction in rows:
            event = Event.parse(body, b"")
            if names_right_answer(event) and (prediction is not None or event.kind == "label"):
                return event.label
        offset = rows[-1][0] - 1
    return None


def per_minute(times: deque[str], at: datetime) -> float:
    """Return the number of feedbacks in the last minute, estimated from those in `times` if there were more."""
    ages = [(at - datetime.fromisoformat(time)).total_seconds() for time in times]
    recent = sum(age <= 60 for age in ages)
    if recent < REMEMBERED:
        return float(recent)
    return round(60 * recent / max(ages[0], 0.001), 1)

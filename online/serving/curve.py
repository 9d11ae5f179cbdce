"""How often what was served was right, along the log: counted as a replay of the log counts it, page by page.

    store --outcomes after `until`, a page--> Counts: hits, curve, baselines --now and then--> store, to go on from there

Nothing is counted until somebody asks. Whoever asks gets what is counted by then: at once where little is new, and while
a long log is being caught up with, how far that is.
"""

import asyncio
import json
import logging
import threading
from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Protocol

from sqlalchemy import Connection

from online import store
from online.errors import Unavailable
from online.models import number_of
from online.observability import fact
from online.prequential import Baselines, Curve, Hits, NumberBaselines, Stretch, judged, tells_what_is_right
from online.schemas import Event
from online.stream import head_of

log = logging.getLogger("online.curve")

FORMAT = 1  # of what is kept in the store
PAGE = 1_000  # offsets
SAVE_EVERY = 20_000  # offsets, while a long log is caught up with; otherwise where so many hundred are new
WORTH_SAVING = 500
PATIENCE_S = 0.3  # what an asker waits for the newest counts
REMEMBERED = 1_024  # changes of what the baselines say, and times of feedback
SEARCHED = 32  # feedback looked at at once for the last label before an answer that is older than that


@dataclass(slots=True)
class Tally:
    """judged: outcomes that said something about it. total: how many of them it had right; of numbers, its errors."""

    judged: int = 0
    total: float = 0.0

    def add(self, score: float) -> None:
        self.judged += 1
        self.total += score


class History:
    """What a baseline said, by the offset from which on it did; the newest changes alone."""

    def __init__(self) -> None:
        self.changes: deque[tuple[int, Any]] = deque(maxlen=REMEMBERED)
        self.lost = False

    def note(self, offset: int, guess: Any) -> None:
        if self.changes and self.changes[-1][1] == guess:
            return
        self.lost = self.lost or len(self.changes) == REMEMBERED
        self.changes.append((offset, guess))

    def at(self, offset: int) -> tuple[Any, bool]:
        """(the guess of who knew everything up to an offset, whether that is remembered); else the oldest remembered."""
        newer = self.changes
        if not newer or newer[-1][0] <= offset:
            return (newer[-1][1] if newer else None), True
        place = bisect_right(newer, offset, key=lambda change: change[0])
        if place:
            return newer[place - 1][1], True
        return (newer[0][1], False) if self.lost else (None, True)


class Guessing(Protocol):
    def guesses(self) -> Mapping[str, Any]: ...


class Counts:
    """What a model's log says up to `until`. Of numbers, what is counted are absolute errors."""

    def __init__(self, numbers: bool) -> None:
        self.numbers = numbers
        self.until = 0
        self.tallies: dict[str, Tally] = {}
        self.served, self.curve = Hits(), Curve()
        self.labels, self.amounts = Baselines(), NumberBaselines()
        self.histories: dict[str, History] = {}
        self.choices: dict[str, Hits] = {}
        self.feedback = 0
        self.times: deque[str] = deque(maxlen=REMEMBERED)
        self.last_label: Callable[[int], str | None] = lambda offset: None  # asked where no history remembers

    def take(self, rows: list[dict[str, Any]], until: int) -> None:
        """rows: of `store.outcomes`, up to the offset `until`."""
        for row in rows:
            self.feedback += 1
            self.times.append(row["created_at"])
            event = Event.parse(row["body"], b"")
            asked = row["prediction_id"] is not None
            if asked or event.kind == "label":
                self._judge(event, row, asked)
                if tells_what_is_right(event):
                    self._saw(event.label, row["offset"])
        self.until = until

    def _judge(self, event: Event, row: Mapping[str, Any], asked: bool) -> None:
        """asked: whether somebody was answered; an example of somebody's own is one for the baselines alone."""
        known_until = row["learned_until"] if asked else row["offset"] - 1
        guesses = self._guesses(known_until)
        scores = self._errors(event, row, guesses, asked) if self.numbers else self._hits(event, row, guesses, asked)
        if scores is None:
            return
        for name, score in scores.items():
            self.tallies.setdefault(name, Tally()).add(score)
        self.curve.add(scores, row["offset"], row["created_at"])

    def _hits(
        self, event: Event, row: Mapping[str, Any], guesses: Mapping[str, Any], asked: bool
    ) -> dict[str, float] | None:
        if asked and row["choice"] is not None:
            right = tells_what_is_right(event) and event.label == row["choice"]
            self.served.add(right)
            self.choices.setdefault(row["choice"], Hits()).add(right)
        return judged(event, {**({"served": row["choice"]} if asked else {}), **guesses})

    def _errors(
        self, event: Event, row: Mapping[str, Any], guesses: Mapping[str, Any], asked: bool
    ) -> dict[str, float] | None:
        if not asked or row["choice"] is None:
            return None
        self.served.add(False)  # a number is never simply right or wrong
        if not guesses:
            return None
        answers = {"served": float(row["choice"]), **guesses}
        return {name: abs(number - number_of(event.label)) for name, number in answers.items()}

    def _saw(self, label: str, offset: int) -> None:
        baselines: Guessing
        if self.numbers:
            self.amounts.saw(number_of(label))
            baselines = self.amounts
        else:
            self.labels.saw(label)
            baselines = self.labels
        for name, guess in baselines.guesses().items():
            self.histories.setdefault(name, History()).note(offset, guess)

    def _guesses(self, offset: int) -> dict[str, Any]:
        """What the baselines answer that know everything up to an offset."""
        found = {} if self.numbers else dict.fromkeys(self.labels.guesses())
        for name, history in self.histories.items():
            guess, remembered = history.at(offset)
            if not remembered and name == "no_change":
                label = self.last_label(offset)
                guess = label if label is None or not self.numbers else number_of(label)
            if guess is not None or not self.numbers:
                found[name] = guess
        return found

    # kept

    def dumped(self) -> str:
        histories = {name: [each.lost, list(each.changes)] for name, each in self.histories.items()}
        stretches = [asdict(each) for each in self.curve.whole]
        return json.dumps(
            {
                "until": self.until,
                "feedback": self.feedback,
                "times": list(self.times),
                "tallies": {name: [tally.judged, tally.total] for name, tally in self.tallies.items()},
                "served": [self.served.judged, self.served.right],
                "choices": {choice: [hits.judged, hits.right] for choice, hits in self.choices.items()},
                "curve": [self.curve.width, self.curve.number, stretches, asdict(self.curve.last)],
                "labels": [dict(self.labels.seen), self.labels.last, self.labels.most],
                "amounts": asdict(self.amounts),
                "histories": histories,
            },
            separators=(",", ":"),
        )

    @classmethod
    def restored(cls, numbers: bool, text: str) -> "Counts":
        counts, kept = cls(numbers), json.loads(text)
        counts.until, counts.feedback = kept["until"], kept["feedback"]
        counts.times.extend(kept["times"])
        counts.tallies = {name: Tally(*each) for name, each in kept["tallies"].items()}
        counts.served = Hits(*kept["served"])
        counts.choices = {choice: Hits(*each) for choice, each in kept["choices"].items()}
        width, number, whole, last = kept["curve"]
        counts.curve = Curve(width, number, [Stretch(**each) for each in whole], Stretch(**last))
        seen, last_label, most = kept["labels"]
        counts.labels = Baselines(Counter(seen), last_label, most)
        counts.amounts = NumberBaselines(**kept["amounts"])
        for name, (lost, changes) in kept["histories"].items():
            history = counts.histories[name] = History()
            history.changes.extend((offset, guess) for offset, guess in changes)
            history.lost = lost
        return counts


@dataclass(slots=True)
class CurveKeeper:
    """One model's counts, brought up to date by whoever asks; by one at a time, off the event loop."""

    model: str
    numbers: bool
    truth: store.Store
    tell: Callable[..., None]
    counts: Counts | None = None
    saved_until: int = 0
    stopping: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)
    running: "asyncio.Task[None] | None" = None

    @property
    def key(self) -> str:
        return f"{FORMAT}/{self.model}"

    async def shown(self, show: Callable[[Counts], Any], patience_s: float = PATIENCE_S) -> Any:
        """What `show` makes of the counts, after at most about so long. Raises Unavailable."""
        if self.running is None or self.running.done():
            self.running = asyncio.create_task(self._catch_up())
            self.running.add_done_callback(
                lambda task: task.cancelled() or task.exception()
            )  # told to who waits for it
        done, _ = await asyncio.wait([self.running], timeout=patience_s)
        for task in done:
            task.result()
        return await asyncio.to_thread(self._shown, show)

    def _shown(self, show: Callable[[Counts], Any]) -> Any:
        with self.lock:
            return show(self.counts or Counts(self.numbers))

    async def _catch_up(self) -> None:
        pages = 0
        while not self.stopping and await asyncio.to_thread(self._page):
            pages += 1
        if pages > 1:
            self.tell("counted", counted_until=self.counts.until if self.counts else 0)

    def _page(self) -> bool:
        """Count one page; whether there may be another."""
        counts = self.counts = self.counts or self._begun()
        with self.lock:
            try:
                more = bool(self.truth.read(lambda connection: self._take_page(connection, counts)))
            except BaseException:
                self.counts = None  # part of the page may be counted: on from what was kept
                raise
        if counts.until - self.saved_until >= (SAVE_EVERY if more else WORTH_SAVING):
            self._save()
        return more

    def _take_page(self, connection: Connection, counts: Counts) -> bool:
        head = head_of(connection, self.model)
        until = min(counts.until + PAGE, head)
        counts.last_label = lambda offset: last_label(connection, self.model, offset)
        counts.take(store.outcomes(connection, self.model, counts.until, until), until)
        return until < head

    def _begun(self) -> Counts:
        kept = self.truth.read(lambda connection: store.kept_counts(connection, self.key))
        counts = Counts(self.numbers) if kept is None else Counts.restored(self.numbers, kept)
        self.saved_until = counts.until
        return counts

    def _save(self) -> None:
        """So that another start need not count it all again. Where that fails, it will."""
        if self.counts is None:
            return
        until, kept = self.counts.until, self.counts.dumped()
        try:
            self.truth.submit(lambda connection: store.keep_counts(connection, self.key, kept), durable=False).result()
            self.saved_until = until
        except Unavailable as error:
            fact(log, "counts not kept", logging.WARNING, model=self.model, reason=str(error))

    async def stop(self) -> None:
        self.stopping = True
        if self.running is not None and not self.running.done():
            await asyncio.gather(self.running, return_exceptions=True)
        if self.counts is not None and self.counts.until > self.saved_until:
            await asyncio.to_thread(self._save)


def last_label(connection: Connection, model: str, offset: int) -> str | None:
    """What was right by the last feedback up to an offset that says so."""
    while rows := store.saw_before(connection, model, offset, SEARCHED):
        for row in rows:
            event = Event.parse(row["body"], b"")
            if tells_what_is_right(event) and (row["prediction_id"] is not None or event.kind == "label"):
                return event.label
        offset = rows[-1]["offset"] - 1
    return None


def per_minute(times: deque[str], at: datetime) -> float:
    """Feedback within the last minute; where more came than is remembered, at the rate of those."""
    ages = [(at - datetime.fromisoformat(time)).total_seconds() for time in times]
    recent = sum(age <= 60 for age in ages)
    if recent < REMEMBERED:
        return float(recent)
    return round(60 * recent / max(ages[0], 0.001), 1)

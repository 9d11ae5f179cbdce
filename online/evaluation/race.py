"""Many models over one source, side by side: the same lines in the same order, each model in a process of its own.

    source --> reader --lines--> Replay (process) --losses--> paired with the champion's --> who is better
                      \\-------> Replay (process) --losses-/

Texts are encoded once, by the reader. The first model is the champion; the difference of each other's loss from its is watched
with a confidence sequence, which holds at every moment, however often it is looked at. What is pickled crosses a pipe between
a process and its own child; no file and no caller reaches it.
"""

import multiprocessing
import pickle
import signal
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from multiprocessing.connection import Connection
from typing import Any

from online.errors import BadInput, OnlineError
from online.evaluation.duel import Duel
from online.evaluation.formats import Bad
from online.evaluation.log import Line
from online.evaluation.replay import TOGETHER, Contender, Features, Loss, Replay, Report, Span
from online.evaluation.sources import Source
from online.models.encoder import encoder
from online.workspace import cache_folder

AHEAD = 2  # chunks a model may be behind the reader
Tick = Callable[[str, int, int], None]  # what is being done, how far, of how much


@dataclass(frozen=True, slots=True)
class Result:
    """report, or the failure that ended it. duel: with the champion; None of the champion itself."""

    contender: Contender
    report: Report | None
    failure: str | None
    duel: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class Played:
    """What every model came to over one log. interrupted: Ctrl-C ended it early."""

    log: str
    results: list[Result]
    interrupted: bool = False


class Race:
    """`run` may be interrupted; `results` then tell what is known so far."""

    def __init__(
        self, source: Source, contenders: Sequence[Contender], span: Span | None = None, max_bad_ratio: float = 0.0
    ) -> None:
        self.source, self.span = source, span or Span()
        self.bad, self.examples = Bad(max_bad_ratio), 0
        self.encoder = encoder({"input": "text"}, cache_folder()) if source.input == "text" else None
        self.runners = [Runner(source, each, self.span, max_bad_ratio, self._epoch) for each in contenders]
        numbers = contenders[0].kind == "regressor"
        self.duels = [Duel(numbers) for _ in contenders[1:]]

    @property
    def _epoch(self) -> str:
        return self.encoder.epoch if self.encoder is not None else ""

    def run(self, at: Callable[[float, int], None] = lambda share, examples: None) -> None:
        """Raises BadInput where more of the source is bad than is bearable."""
        lines = 0
        for chunk in self._chunks(lambda share: at(share, self.examples)):
            lines += len(chunk)
            packed = pickle.dumps(chunk)
            for runner in self.runners:
                runner.send(packed)
            self._judge([runner.losses(AHEAD) for runner in self.runners])
            if all(runner.over for runner in self.runners):
                break
        self.bad.check(lines)

    def _chunks(self, at: Callable[[float], None]) -> Iterator[list[Line]]:
        lines = self.span.of(self.source.lines(self.bad, at))
        features = Features(self.encoder) if self.encoder is not None else None
        while chunk := list(islice(lines, TOGETHER)):
            yield list(features.of(chunk, self.bad)) if features is not None else chunk

    def _judge(self, losses: Sequence[Sequence[Loss]]) -> None:
        self.examples += len(losses[0])
        for duel, runner, of_challenger in zip(self.duels, self.runners[1:], losses[1:], strict=True):
            if runner.failure is None and self.runners[0].failure is None:  # whoever failed is not waited for
                duel.add(losses[0], of_challenger)

    def results(self) -> list[Result]:
        """What each came to; ends their processes."""
        self._judge([runner.finish() for runner in self.runners])
        duels = [None, *(duel.told() for duel in self.duels)]
        return [
            Result(runner.contender, runner.report, runner.failure, duel)
            for runner, duel in zip(self.runners, duels, strict=True)
        ]


class Runner:
    """The reader's end of a model's process."""

    def __init__(self, source: Source, contender: Contender, span: Span, most: float, encoded: str) -> None:
        self.contender, self.over = contender, False
        self.report: Report | None = None
        self.failure: str | None = None
        self.due = deque[None]()  # chunks whose losses have not come back
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=work, args=(theirs, source, contender, span, most, encoded), daemon=True)
        self.process.start()
        theirs.close()

    def send(self, packed: bytes) -> None:
        if self.over:
            return
        try:
            self.pipe.send_bytes(packed)
            self.due.append(None)
        except OSError:
            self._ended()

    def losses(self, ahead: int) -> list[Loss]:
        """What came back, but for the last chunks it may still be at."""
        losses = list[Loss]()
        while len(self.due) > ahead and not self.over:
            losses += self._received()
        return losses

    def finish(self) -> list[Loss]:
        losses = self.losses(0)
        if not self.over:
            self.pipe.send_bytes(b"")
            losses += self._received()
        self.process.join()
        self.pipe.close()
        return losses

    def _received(self) -> list[Loss]:
        try:
            what, value = self.pipe.recv()
        except (EOFError, OSError):
            self._ended()
            return []
        if self.due:
            self.due.popleft()
        if what == "losses":
            return list(value)
        self.over = True
        if what == "failure":
            self.failure = value
            return []
        losses, self.report = value
        return list(losses)

    def _ended(self) -> None:
        self.process.join()
        self.over, self.failure = True, f"its process ended with {self.process.exitcode}"


def work(pipe: Connection, source: Source, contender: Contender, span: Span, most: float, encoded: str) -> None:
    """One model's process: chunks of lines in, losses out; at the end the report."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the reader's, who asks for what is known so far
    try:
        replay = Replay(source, contender, span, most, encoded)
        while packed := pipe.recv_bytes():
            pipe.send(("losses", replay.feed(pickle.loads(packed))))
        pipe.send(("report", (replay.finish(), replay.report())))
    except (OnlineError, ValueError) as error:
        pipe.send(("failure", str(error)))
    except (EOFError, OSError):
        return  # the reader is gone
    except Exception as error:
        pipe.send(("failure", f"{type(error).__name__}: {error}"))


def one_by_one(
    sources: Sequence[Source], contenders: Sequence[Contender], span: Span, max_bad_ratio: float, tick: Tick
) -> list[Played]:
    """One log after another. Ctrl-C ends the one at hand, and leaves out those after it.

    Raises BadInput where an only log cannot be replayed; of several such a one fails alone.
    """
    played = list[Played]()
    for place, source in enumerate(sources):
        at = progress(source.name, place, len(sources), tick)
        try:
            played.append(Played(source.name, *raced(source, contenders, span, max_bad_ratio, at)))
        except BadInput as error:
            if len(sources) == 1:
                raise
            played.append(Played(source.name, [Result(each, None, str(error), None) for each in contenders]))
        if played[-1].interrupted:
            break
    return played


def progress(log: str, place: int, of: int, tick: Tick) -> Callable[[float, int], None]:
    """Tells the bar of one log among several how far it is, and how fast."""
    started = time.monotonic()

    def at(share: float, examples: int) -> None:
        speed = examples / max(time.monotonic() - started, 1e-9)
        tick(f"{log}: {examples:,} examples, {speed:,.0f}/s", int(1_000 * (place + share)), 1_000 * of)

    return at


def raced(
    source: Source, contenders: Sequence[Contender], span: Span, max_bad_ratio: float, at: Callable[[float, int], None]
) -> tuple[list[Result], bool]:
    """What each came to, and whether Ctrl-C ended it early. One alone runs in this process.

    Raises BadInput where a source or a model cannot be used, or too much of the source is bad.
    """
    if len(contenders) == 1:
        return alone(source, contenders[0], span, max_bad_ratio, at)
    race = Race(source, contenders, span, max_bad_ratio)
    try:
        race.run(at)
        return race.results(), False
    except KeyboardInterrupt:
        return race.results(), True


def alone(
    source: Source, contender: Contender, span: Span, max_bad_ratio: float, at: Callable[[float, int], None]
) -> tuple[list[Result], bool]:
    try:
        replay = Replay(source, contender, span, max_bad_ratio)
    except ValueError as error:
        raise BadInput(str(error)) from None
    interrupted = False
    try:
        replay.run(at)
    except KeyboardInterrupt:
        interrupted = True
    return [Result(contender, replay.report(), None, None)], interrupted

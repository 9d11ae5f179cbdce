"""Replays several models over one source in parallel, each in its own process.

    source --> reader --lines--> Replay (process) --losses--> PairedComparison with the champion
                      \\-------> Replay (process) --losses-/

All models get the same lines in the same order. Texts are encoded once, by the reader. The first
model is the champion; a confidence sequence bounds the difference between its losses and those of
each other model at every moment. Pickles cross only the pipe between a process and its child, which
no file and no caller can reach.
"""

import multiprocessing
import pickle
import signal
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from multiprocessing.connection import Connection

from online.errors import OnlineError
from online.evaluation.replay.candidate_specs import CandidateSpec
from online.evaluation.replay.line_features import LineFeatures
from online.evaluation.replay.model_setup import create_row_encoder, prepare_process
from online.evaluation.replay.replay import Chunk, Replay, ScoredSpan, count_read, read_chunks
from online.evaluation.replay.replay_report import ReplayReport, ReplayResult
from online.evaluation.sources.bad_lines import BadLines
from online.evaluation.sources.replay_source import Source
from online.evaluation.sources.row_blocks import RowBlock
from online.models import spec_of
from online.scoring.paired_comparison import PairedComparison
from online.scoring.score import Loss

MAX_CHUNKS_AHEAD = 2  # chunks a model may be behind the reader


class ParallelReplay:
    """Several candidates over one source. `run` may be interrupted; `results` then returns what is known so far."""

    def __init__(
        self,
        source: Source,
        candidates: Sequence[CandidateSpec],
        span: ScoredSpan | None = None,
        max_bad_ratio: float = 0.0,
    ) -> None:
        self.source, self.span = source, span or ScoredSpan()
        self.bad, self.examples = BadLines(max_bad_ratio), 0
        self.encoder = create_row_encoder({"input": "text"}, source, source.profile) if source.input == "text" else None
        self.runners = [ReplayWorker(source, each, self.span, max_bad_ratio, self._epoch) for each in candidates]
        numbers = spec_of(candidates[0].kind).predicts_numbers
        self.comparisons = [PairedComparison(numbers) for _ in candidates[1:]]

    @property
    def _epoch(self) -> str:
        return self.encoder.epoch if self.encoder is not None else ""

    def run(self, at: Callable[[float, int], None] = lambda share, examples: None) -> None:
        """Replay the source. Raises BadInput if too many of its lines are bad."""
        lines = 0
        for count, chunk in self._chunks(lambda share: at(share, self.examples)):
            lines += count
            packed = pickle.dumps(chunk)
            for runner in self.runners:
                runner.send(packed)
            self._judge([runner.losses(MAX_CHUNKS_AHEAD) for runner in self.runners])
            if all(runner.over for runner in self.runners):
                break
        self.bad.check(count_read(self.source, lines, self.bad))

    def _chunks(self, at: Callable[[float], None]) -> Iterator[tuple[int, Chunk]]:
        """Yield the number of lines of each chunk, and the chunk; texts are encoded."""
        features = LineFeatures(self.encoder)
        for chunk in read_chunks(self.source, self.span, self.bad, at):
            if isinstance(chunk, RowBlock):
                yield 2 * len(chunk), features.of_rows(chunk, self.bad)
            else:
                yield len(chunk), [*features.of(chunk, self.bad)] if self.encoder is not None else chunk

    def _judge(self, losses: Sequence[Sequence[Loss]]) -> None:
        self.examples += len(losses[0])
        for comparison, runner, of_challenger in zip(self.comparisons, self.runners[1:], losses[1:], strict=True):
            if runner.failure is None and self.runners[0].failure is None:  # a candidate that failed is not compared
                comparison.add(losses[0], of_challenger)

    def results(self) -> list[ReplayResult]:
        """End the processes; return each candidate's result."""
        self._judge([runner.finish() for runner in self.runners])
        comparisons = [None, *(each.as_dict(len(self.comparisons)) for each in self.comparisons)]
        return [
            ReplayResult(runner.candidate, self._complete(runner.report), runner.failure, comparison)
            for runner, comparison in zip(self.runners, comparisons, strict=True)
        ]

    def _complete(self, report: ReplayReport | None) -> ReplayReport | None:
        """Return a worker's report with the lines that could not be read here, and with what the log lacks."""
        if report is None:
            return None
        report = replace(report, **self.bad.gaps.as_figures())
        if not self.bad.count:
            return report
        bad = BadLines.join(self.bad.as_json(), report.unusable)
        return replace(report, bad=bad["count"], unusable=bad)


class ReplayWorker:
    """A candidate's process, as the reader sees it."""

    def __init__(self, source: Source, candidate: CandidateSpec, span: ScoredSpan, most: float, encoded: str) -> None:
        self.candidate, self.over = candidate, False
        self.report: ReplayReport | None = None
        self.failure: str | None = None
        self.due = deque[None]()  # chunks whose losses have not come back
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(
            target=run_worker, args=(theirs, source, candidate, span, most, encoded), daemon=True
        )
        self.process.start()
        theirs.close()

    def send(self, packed: bytes) -> None:
        """Send examples to the process, unless it has ended."""
        if self.over:
            return
        try:
            self.pipe.send_bytes(packed)
            self.due.append(None)
        except OSError:
            self._ended()

    def losses(self, ahead: int) -> list[Loss]:
        """Return the losses that have arrived, and wait until at most `ahead` chunks are unanswered."""
        losses = list[Loss]()
        while len(self.due) > ahead and not self.over:
            losses += self._received()
        return losses

    def finish(self) -> list[Loss]:
        """Wait for the process and return the losses that were not fetched."""
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


def run_worker(
    pipe: Connection, source: Source, candidate: CandidateSpec, span: ScoredSpan, most: float, encoded: str
) -> None:
    """Run one model's process: receives chunks of lines, sends losses, and the report at the end."""
    prepare_process()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the reader, which then asks for what is known so far
    try:
        replay = Replay(source, candidate, span, most, encoded)
        while packed := pipe.recv_bytes():
            pipe.send(("losses", replay.feed(pickle.loads(packed))))
        pipe.send(("report", (replay.finish(), replay.report())))
    except (OnlineError, ValueError) as error:
        pipe.send(("failure", str(error)))
    except (EOFError, OSError):
        return  # the reader is gone
    except Exception as error:
        pipe.send(("failure", f"{type(error).__name__}: {error}"))

"""Lets workers sum what lies ahead of a learner that is far behind the head of its log.

    offsets  ...|  this range: the learner's  |  summed by workers  |  summed  |...  head
                 learned_until                  merged when the learner is there

Ranges begin at multiples of RANGE. The learner reads every entry itself, for the detectors of drift, the held-out
feedback and the digest of the log; what it leaves to workers are the sums, which cost most. A range in which something
is decided, an example is refused or an alarm acts is learned as always. So are some that no worker is asked for: as
many as keep the learner from waiting (`RangeAssignment`).
"""

import logging
import time
from collections import Counter
from collections.abc import Sequence

from online.learning.shares import EMPTY, SumShare, pack_state
from online.models import Example, Options, Tensors
from online.models.contract import Model
from online.models.statistics.partial_sums import as_summing, has_partial_sums
from online.plugins.towers.shared import learns_in_parts
from online.plugins.workers.board import ReadingState, ShareBoard
from online.plugins.workers.tally import LEARNER, describe_shares, name_worker
from online.schemas.json_values import JSONObject
from online.telemetry import log_event

log = logging.getLogger("online.learner")

RANGE = 4_096  # offsets of one share
AHEAD = 2  # ranges posted for each worker, so that none waits
MOST_IN_A_ROW = 64
READY_S = 0.005  # a share that comes within it was ready


class RangeAssignment:
    """Assigns ranges to the learner: one after `in_a_row` of the workers', more rarely as long as their shares are ready."""

    def __init__(self) -> None:
        self.in_a_row = 1
        self._workers = 1
        self._given = self._ready = 0

    def note_workers(self, count: int) -> None:
        """Note how many workers there are: each that joins sums one range more in a row."""
        self.in_a_row = min(self.in_a_row + max(count - self._workers, 0), MOST_IN_A_ROW)
        self._workers = count

    def is_learners(self) -> bool:
        """Return whether the next range is the learner's."""
        if self._given >= self.in_a_row:
            self._given = 0
            return True
        self._given += 1
        return False

    def note_share(self, is_ready: bool) -> None:
        """Note whether a share was there when the learner needed it."""
        if not is_ready:
            self.in_a_row, self._ready = max(1, self.in_a_row - 1), 0
            return
        self._ready += 1
        if self._ready > self.in_a_row:
            self.in_a_row, self._ready = min(self.in_a_row + 1, MOST_IN_A_ROW), 0


class CatchUp:
    """One learner's use of the board."""

    def __init__(self, board: ShareBoard, model: str, kind: str, options: Options) -> None:
        self.board, self.name, self.kind, self.options = board, model, kind, options
        self.can_share = has_partial_sums(kind, options)
        self._reading: ReadingState | None = None
        self._number = 0  # of the newest reading
        self._epoch = ""
        self._assignment = RangeAssignment()
        self._planned_until = 0  # up to here, each range is a worker's or the learner's
        self._posted: set[int] = set()  # where ranges of workers begin
        self.share: SumShare = EMPTY  # of the range that is learned now
        self._counts = Counter[str]()  # of examples, since workers were asked, by who summed them
        self._given_reasons = set[str]()

    def find_count(self, model: Model, learned_until: int, head: int) -> int | None:
        """Return how many entries to read next, after a look at what lies ahead; None if the learner is near the head."""
        reason = self._find_reason(model, head - learned_until)
        if reason is not None:
            self._give(reason)
            self.stop()
            return None
        self._post(model, learned_until, head)
        self.share = self._take(learned_until) if learned_until in self._posted else EMPTY
        return RANGE - learned_until % RANGE

    def _find_reason(self, model: Model, ahead: int) -> str | None:
        """Return why no worker is asked; None if they are. ahead: how many events are left."""
        if not self.can_share:
            return f"the sums of this {self.kind} cannot be added"
        if ahead < 2 * RANGE:
            return f"fewer than {2 * RANGE:,} events are left to learn"
        if not self.board.worker_count:
            return "none has joined yet"
        return None if as_summing(model).is_summing else "the examples have to be learned in order at present"

    def _give(self, reason: str) -> None:
        """Log a reason, once."""
        if reason not in self._given_reasons and not learns_in_parts(self.kind, self.options):
            self._given_reasons.add(reason)
            log_event(log, "workers not asked", model=self.name, reason=reason)

    def note_learned(self, count: int, is_merged: bool) -> None:
        """Count examples that were learned. is_merged: whether the worker of the present share has summed them."""
        if self._reading is not None:
            by = name_worker(self.share.worker) if is_merged else LEARNER
            self.board.tally.add(self.name, by, count)
            self._counts[by] += count

    def _take(self, after: int) -> SumShare:
        started = time.monotonic()
        share = self.board.take(self.name, after)
        self._assignment.note_share(share is not EMPTY and time.monotonic() - started < READY_S)
        return share

    def find_sums(self, examples: Sequence[Example]) -> Tensors | None:
        """Return the sums of exactly these examples, if a worker has computed them."""
        return self.share.find(examples)

    def stop(self) -> None:
        """Ask for nothing more."""
        if self._reading is not None:
            self.board.withdraw(self.name)
        if self._counts:
            facts: JSONObject = {"examples": self._counts.total()} | describe_shares(self._counts)
            log_event(log, "summed with workers", model=self.name, **facts)
            self._counts.clear()
        self._reading, self._planned_until, self._posted, self.share = None, 0, set(), EMPTY

    def _post(self, model: Model, learned_until: int, head: int) -> None:
        """Ask for the ranges after the present one, as the model reads them now."""
        if self._reading is None or self._epoch != model.feature_epoch():
            self.board.withdraw(self.name)
            self._epoch, self._planned_until, self._posted = model.feature_epoch(), 0, set()
            self._number += 1
            state = pack_state(model.state(serving_only=True))
            self._reading = ReadingState(self.name, self.kind, self.options, self._number, state)
            self._assignment = RangeAssignment()
        workers = self.board.worker_count
        self._assignment.note_workers(workers)
        self._posted = {after for after in self._posted if after >= learned_until}
        after = max((learned_until // RANGE + 1) * RANGE, self._planned_until)
        while len(self._posted) < AHEAD * workers and after + RANGE <= head:
            if not self._assignment.is_learners():
                self.board.post(self._reading, after, after + RANGE)
                self._posted.add(after)
            after += RANGE
        self._planned_until = after

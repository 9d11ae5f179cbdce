"""Lets workers sum what lies ahead of a learner that is far behind the head of its log.

    offsets  ...|  this range: the learner's  |  summed by workers  |  summed  |...  head
                 learned_until                  merged when the learner is there

Ranges begin at multiples of RANGE. The learner reads every entry itself, for the detectors of drift, the held-out
feedback and the digest of the log; what it leaves to workers are the sums, which cost most. A range in which something
is decided, an example is refused or an alarm acts is learned as always. So are some that no worker is asked for: as
many as keep the learner from waiting (`RangeAssignment`).
"""

import time
from collections.abc import Sequence

from online.learning.parallel.board import Reading, ShareBoard
from online.learning.parallel.shares import EMPTY, Share, pack_state
from online.models import Example, Options, Tensors
from online.models.contract import Model
from online.models.statistics.partial_sums import as_summing, has_partial_sums

RANGE = 4_096  # offsets of one share
AHEAD = 2  # ranges posted for each worker, so that none waits
MOST_IN_A_ROW = 64
READY_S = 0.005  # a share that comes within it was ready


class RangeAssignment:
    """Which ranges are the learner's: one after `in_a_row` of the workers', more rarely as long as their shares are ready."""

    def __init__(self) -> None:
        self.in_a_row = 1
        self._workers = 1
        self._given = self._ready = 0

    def note_workers(self, count: int) -> None:
        """Note how many workers there are: each that joins sums one range more in a row."""
        self.in_a_row = min(self.in_a_row + max(count - self._workers, 0), MOST_IN_A_ROW)
        self._workers = count

    def is_learners(self) -> bool:
        """Whether the next range is the learner's."""
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
        self._reading: Reading | None = None
        self._number = 0  # of the newest reading
        self._epoch = ""
        self._assignment = RangeAssignment()
        self._planned_until = 0  # up to here, each range is a worker's or the learner's
        self._posted: set[int] = set()  # where ranges of workers begin
        self.share: Share = EMPTY  # of the range that is learned now

    def find_count(self, model: Model, learned_until: int, head: int) -> int | None:
        """How many entries to read next, after a look at what lies ahead; None if the learner is near the head."""
        if not self.can_share or head - learned_until < 2 * RANGE or not self.board.worker_count:
            self.stop()
            return None
        if not as_summing(model).is_summing:
            self.stop()
            return None
        self._post(model, learned_until, head)
        self.share = self._take(learned_until) if learned_until in self._posted else EMPTY
        return RANGE - learned_until % RANGE

    def _take(self, after: int) -> Share:
        started = time.monotonic()
        share = self.board.take(self.name, after)
        self._assignment.note_share(share is not EMPTY and time.monotonic() - started < READY_S)
        return share

    def find_sums(self, examples: Sequence[Example]) -> Tensors | None:
        """The sums of exactly these examples, if a worker has computed them."""
        return self.share.find(examples)

    def stop(self) -> None:
        """Ask for nothing more."""
        if self._reading is not None:
            self.board.withdraw(self.name)
        self._reading, self._planned_until, self._posted, self.share = None, 0, set(), EMPTY

    def _post(self, model: Model, learned_until: int, head: int) -> None:
        """Ask for the ranges after the present one, as the model reads them now."""
        if self._reading is None or self._epoch != model.feature_epoch():
            self.board.withdraw(self.name)
            self._epoch, self._planned_until, self._posted = model.feature_epoch(), 0, set()
            self._number += 1
            state = pack_state(model.state(serving_only=True))
            self._reading = Reading(self.name, self.kind, self.options, self._number, state)
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

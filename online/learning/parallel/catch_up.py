"""Lets workers sum what lies ahead of a learner that is far behind the head of its log.

    offsets  ...|  this range: the learner's  |  summed by workers  |  summed  |...  head
                 learned_until                  merged when the learner is there

Ranges begin at multiples of RANGE. The learner reads every entry itself, for the detectors of drift, the held-out
feedback and the digest of the log; what it leaves to workers are the sums, which cost most. A range in which something
is decided, an example is refused or an alarm acts is learned as always.
"""

from collections.abc import Sequence

from online.learning.parallel.board import Reading, ShareBoard
from online.learning.parallel.shares import EMPTY, Share, pack_state
from online.models import Example, Options, Tensors
from online.models.contract import Model
from online.models.statistics.partial_sums import as_summing, has_partial_sums

RANGE = 4_096  # offsets of one share
AHEAD = 2  # ranges posted for each worker, so that none waits


class CatchUp:
    """One learner's use of the board."""

    def __init__(self, board: ShareBoard, model: str, kind: str, options: Options) -> None:
        self.board, self.name, self.kind, self.options = board, model, kind, options
        self.can_share = has_partial_sums(kind, options)
        self._reading: Reading | None = None
        self._number = 0  # of the newest reading
        self._epoch = ""
        self._posted_until = 0
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
        self.share = self.board.take(self.name, learned_until) if learned_until % RANGE == 0 else EMPTY
        return RANGE - learned_until % RANGE

    def find_sums(self, examples: Sequence[Example]) -> Tensors | None:
        """The sums of exactly these examples, if a worker has computed them."""
        return self.share.find(examples)

    def stop(self) -> None:
        """Ask for nothing more."""
        if self._reading is not None:
            self.board.withdraw(self.name)
        self._reading, self._posted_until, self.share = None, 0, EMPTY

    def _post(self, model: Model, learned_until: int, head: int) -> None:
        """Ask for the ranges after the present one, as the model reads them now."""
        if self._reading is None or self._epoch != model.feature_epoch():
            self.board.withdraw(self.name)
            self._epoch, self._posted_until = model.feature_epoch(), 0
            self._number += 1
            state = pack_state(model.state(serving_only=True))
            self._reading = Reading(self.name, self.kind, self.options, self._number, state)
        first = (learned_until // RANGE + 1) * RANGE
        last = min(first + AHEAD * self.board.worker_count * RANGE, head // RANGE * RANGE)
        for after in range(max(first, self._posted_until), last, RANGE):
            self.board.post(self._reading, after, after + RANGE)
        self._posted_until = max(last, self._posted_until)

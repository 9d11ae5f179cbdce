"""Learns a long sequence of examples, cut into pieces: other processes read and sum them, this one merges in order.

    pieces --bytes--> workers: read, encode, sum --sums--> merge, in order --> the model that one process would have learned
       \\                                             |
        +--- a piece in which something is decided, or whose worker was lost: read and learned here

At most two pieces for each worker are on their way, so that memory does not grow with the sequence.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from online.errors import Unavailable
from online.io.worker_pools import AHEAD, MAX_POOLS, WorkerLost, WorkerPool
from online.learning.piece_sums import PieceSums, ReadPiece
from online.models import BadExample, Example, Model, State
from online.models.statistics.partial_sums import as_summing

P = TypeVar("P")


@dataclass(slots=True)
class LoadCounts:
    """The counts of a load so far. merged: examples whose sums came from workers. refused: examples that the model cannot learn."""

    examples: int = 0
    merged: int = 0
    refused: int = 0


OpenPool = Callable[[State], WorkerPool[P, PieceSums]]  # of workers that read examples as a state does


@dataclass(slots=True)
class BulkLoad(Generic[P]):
    """Learns pieces in order. open_pool: None: this process learns all.

    on_unusable: is called with the messages about rows of a piece that cannot be used, and how many they are; it may
    raise, which ends the load.
    """

    model: Model
    read: ReadPiece[P]
    open_pool: OpenPool[P] | None = None
    on_unusable: Callable[[tuple[str, ...], int], None] = lambda messages, count: None
    counts: LoadCounts = field(default_factory=LoadCounts)
    _pool: WorkerPool[P, PieceSums] | None = None
    _epoch: str = ""
    _pools_lost: int = 0
    _waiting: deque[tuple[P, Callable[[], PieceSums]]] = field(default_factory=deque)

    def learn(self, pieces: Iterable[P]) -> LoadCounts:
        """Learn all pieces. Raises Unavailable if workers are lost again and again."""
        with self._closing_pool():
            for piece in pieces:
                pool = self._find_pool()
                if pool is None:
                    self._finish_all()
                    self._learn_here(piece)
                    continue
                self._waiting.append((piece, pool.submit(piece)))
                while len(self._waiting) > AHEAD * pool.worker_count:
                    self._finish_next()
            self._finish_all()
        return self.counts

    @contextmanager
    def _closing_pool(self) -> Iterator[None]:
        with ExitStack() as stack:
            stack.callback(self._close_pool)
            yield

    def _close_pool(self) -> None:
        if self._pool is not None:
            self._pool.close()
            self._pool = None

    def _find_pool(self) -> WorkerPool[P, PieceSums] | None:
        """Return the workers; None while examples cannot be summed apart. They are replaced when the model reads otherwise."""
        if self.open_pool is None or not as_summing(self.model).is_summing:
            return None
        if self._pool is None or self._epoch != self.model.feature_epoch():
            self._finish_all()
            self._close_pool()
            self._epoch = self.model.feature_epoch()
            self._pool = self.open_pool(self.model.state(serving_only=True))
        return self._pool

    def _finish_all(self) -> None:
        while self._waiting:
            self._finish_next()

    def _finish_next(self) -> None:
        """Merge the sums of the earliest piece on its way, or learn that piece here."""
        piece, wait = self._waiting.popleft()
        try:
            done = wait()
        except WorkerLost as error:
            self._note_loss(error)
            self._learn_here(piece)
            return
        if done.sums is None or not as_summing(self.model).merge(done.sums):
            self._learn_here(piece)
            return
        self.counts.examples += done.example_count
        self.counts.merged += done.example_count
        self._report(done.unusable, done.unusable_count)

    def _note_loss(self, error: WorkerLost) -> None:
        """Let the next piece find new workers, unless too many were lost."""
        if self._pool is None:  # of the same pool as the piece before
            return
        self._pools_lost += 1
        if self._pools_lost > MAX_POOLS:
            raise Unavailable(f"the processes that sum were lost {self._pools_lost} times: {error}")
        self._close_pool()

    def _learn_here(self, piece: P) -> None:
        rows = self.read(piece)
        for example in self._learn_all(rows.examples):
            self._learn_one(example)
        self._report(rows.unusable, rows.unusable_count)

    def _learn_all(self, examples: list[Example]) -> list[Example]:
        """Learn examples together; return them if one of them cannot be learned, so that none was."""
        try:
            self.model.learn(examples)
        except BadExample:
            return examples
        self.counts.examples += len(examples)
        return []

    def _learn_one(self, example: Example) -> None:
        try:
            self.model.learn([example])
        except BadExample as error:
            self.counts.refused += 1
            self._report((str(error),), 1)
        else:
            self.counts.examples += 1

    def _report(self, messages: tuple[str, ...], count: int) -> None:
        if count:
            self.on_unusable(messages, count)

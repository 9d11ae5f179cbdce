"""Learns the log again beside the learner, after events of an erased user were made void.

    an event `relearn` --> a new TrainingState --a page a step--> it has caught up --> it replaces the learner's

Subtraction has un-learned the user at once, but leaves traces: the names of classes that only they gave, the
detectors of drift that saw their inputs, the order in which others came. What is learned again from the log is what a
learner that never saw them has, byte for byte, for every kind of model. Serving and learning go on meanwhile.

Until it has caught up nothing durable is published, so a learner that is killed reads the event `relearn` again.
"""

from collections.abc import Callable, Sequence

from online.learning.training_state import TrainingState
from online.schemas.events import Entry

PAGE = 256  # entries of one step, which delay an entry that arrives meanwhile


class RelearningRun:
    """A training state on its way through the log.

    covers_until: the head of the log when it began; events `relearn` up to there need no further one. offset: of the
    event that asked for it.
    """

    def __init__(self, training: TrainingState, offset: int, covers_until: int, count: Callable[[Entry], None]) -> None:
        """count: called with each entry in order, to count it as the learner counts."""
        self.training, self.offset, self.covers_until, self._count = training, offset, covers_until, count

    def find_room(self, until: int) -> int:
        """Return how many entries may be learned next, where the learner has learned until an offset."""
        return max(0, min(PAGE, until - self.training.learned_until))

    def learn(self, entries: Sequence[Entry]) -> None:
        self.training.apply(entries)
        for entry in entries:
            self._count(entry)


def asks_to_relearn(entries: Sequence[Entry], covers_until: int) -> int | None:
    """Return the offset of the last event `relearn` after an offset; None if there is none."""
    offsets = [entry.offset for entry in entries if entry.event.kind == "relearn" and entry.offset > covers_until]
    return offsets[-1] if offsets else None

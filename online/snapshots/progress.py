"""The progress of a learner, published or not, from which servers see that a long step moves on.

learner --at most once a second--> snapshots/<model>/progress: "<run> <learned>" --> servers: does learning stand still?
"""

import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from online.io.atomic import replace_file

FILE = "progress"
WRITE_EVERY_S = 1.0


class LearningProgress(NamedTuple):
    """run: identifies one learner; one that is started again has another. learned: examples, those that were learned again too."""

    run: str = ""
    learned: int = 0


class ProgressWriter:
    """Counts what one learner learns."""

    def __init__(self, folder: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self.path, self.clock, self.run, self.learned = folder / FILE, clock, uuid.uuid4().hex, 0
        self._written_at = clock()

    def add(self, count: int) -> None:
        """Count examples. A file that cannot be written is tried again with the next ones."""
        self.learned += count
        now = self.clock()
        if now - self._written_at >= WRITE_EVERY_S:
            self._written_at = now
            try:
                replace_file(self.path, f"{self.run} {self.learned}".encode(), durable=False)
            except OSError:
                return  # the disk is full: learning goes on


def read_progress(folder: Path) -> LearningProgress:
    """Return what the newest learner has written; nothing where none has."""
    try:
        run, _, learned = (folder / FILE).read_text().partition(" ")
        return LearningProgress(run, int(learned))
    except (OSError, ValueError):
        return LearningProgress()

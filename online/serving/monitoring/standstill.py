"""Notices that learning stands still: feedback waits in the log, and nothing of it is learned, whatever the reason.

    head of the log, what the newest version has learned, progress of the learner --observe--> seconds without progress

Progress is a version that has learned more, or a learner that has learned more than ever since then. One that fails again and
again at the same place makes none; one that is in a long step does. A model that is frozen does not stand still: somebody stopped it.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

from online.serving.live import LiveModel
from online.snapshots.progress import LearningProgress, read_progress
from online.telemetry import OutageLog

log = logging.getLogger("online.serving")

LOOK_EVERY_S = 5.0


@dataclass(frozen=True, slots=True)
class LearningPosition:
    """The position of a model in its log. head: the last offset of its log. learned_until: of its newest version. progress: of its learner."""

    head: int
    learned_until: int
    progress: LearningProgress
    is_frozen: bool = False


class StandstillWatch:
    """Watches one model. after_s: seconds without progress, while events wait, from which on learning stands still."""

    def __init__(
        self,
        live: LiveModel,
        read_head: Callable[[], int],
        after_s: float,
        show: Callable[[float], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """show: called with the seconds for which learning has stood still; 0: it does not."""
        self.live, self.read_head, self.after_s, self.show, self.clock = live, read_head, after_s, show, clock
        self.waiting, self.stood_s = 0, 0.0
        self._outage = OutageLog(log, "learning stands still", model=live.snapshots.model)
        self._blindness = OutageLog(log, "nothing is known of the progress of learning", model=live.snapshots.model)
        self.reset()

    def reset(self) -> None:
        """Begin again: the log is another one, so that its offsets are not those that were learned."""
        self._since, self._learned_until, self._start, self._most = self.clock(), -1, LearningProgress(), 0

    async def run(self) -> None:
        """Look until cancelled. While the store is down, nothing is known, and nothing changes."""
        while True:
            try:
                self.observe(await asyncio.to_thread(self._look))
                self._blindness.record_success()
            except Exception as error:  # any error: serving goes on, and the next look tries again
                self._blindness.record_failure(f"{type(error).__name__}: {error}")
            await asyncio.sleep(min(LOOK_EVERY_S, self.after_s / 4))

    def _look(self) -> LearningPosition:
        snapshots, held = self.live.snapshots, self.live.snapshots.control.find_held()
        learned_until = max(self.live.current.learned_until, held.learned_until if held else 0)
        is_frozen = self.live.frozen is not None
        return LearningPosition(self.read_head(), learned_until, read_progress(snapshots.folder.path), is_frozen)

    def observe(self, position: LearningPosition) -> None:
        """Take a look into account, and report a change."""
        now, self.waiting = self.clock(), max(0, position.head - position.learned_until)
        if position.is_frozen or not self.waiting or position.learned_until > self._learned_until:
            self._since, self._learned_until = now, position.learned_until
            self._start, self._most = position.progress, 0
        elif (done := self._count(position.progress)) > self._most:
            self._since, self._most = now, done
        stood_s = now - self._since
        self.stood_s = stood_s if stood_s >= self.after_s else 0.0
        self.show(self.stood_s)
        if self.stood_s:
            self._outage.record_failure(self.describe())
        else:
            self._outage.record_success()

    def _count(self, progress: LearningProgress) -> int:
        """Return what the present learner has learned since the last version that had learned more."""
        return progress.learned - self._start.learned if progress.run == self._start.run else progress.learned

    def describe(self) -> str:
        """Say it in a sentence."""
        return f"{self.waiting:,} events wait, and nothing was learned for {self.stood_s:.0f} s"

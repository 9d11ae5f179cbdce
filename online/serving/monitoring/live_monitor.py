"""Compares the live version with the one trusted last; if it is worse, the guard rolls it back.

the newest questions --> answered by the live version and by the trusted one
                         it abstains where the other answers, or is several times slower --> roll back
                         neither, for a while                                             --> it is trusted

Both versions get the same questions, so unusual questions or a busy machine are never blamed on a
version. Whether answers are right is judged in the learner, where feedback says so.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence

from online.models import Answer, Encoder, Model
from online.serving.live import LiveModel
from online.serving.parts import AnsweredRequest, ModelPart, Work
from online.serving.versions import ServedVersion
from online.settings import GuardMode
from online.state.guard import Guard
from online.store import Store
from online.telemetry import OutageLog

log = logging.getLogger("online.live_monitor")

CHECK_EVERY_S = 0.5
REST_RATIO = 20  # a check is followed by a pause of at least this many times its own duration
TRUSTED_AFTER_S = 30.0  # how long a version is compared before it becomes the trusted one
MAX_QUESTIONS, MIN_QUESTIONS = 64, 16
MAX_NEW_ABSTENTIONS = 0.25  # of the questions
MAX_SLOWDOWN, SLOWDOWN_TOLERANCE_S, TIMED_RUNS = 4, 0.01, 5


class LiveMonitor(ModelPart):
    """Watches the live version of one model."""

    def __init__(
        self, live: LiveModel, create_guard: Callable[[], Guard], show_trusted: Callable[[int], object]
    ) -> None:
        """create_guard: called for each check, because the recipe changes with the encoder.

        show_trusted: called with the number of each version that becomes the trusted one.
        """
        self.live, self.create_guard, self.show_trusted = live, create_guard, show_trusted
        self.questions: deque[tuple[bytes, Encoder]] = deque(maxlen=MAX_QUESTIONS)
        self.trusted: ServedVersion | None = None
        self.compared_since = 0.0
        self._outage = OutageLog(log, "monitoring failed", model=live.snapshots.model)

    def observe(self, request: AnsweredRequest) -> None:
        """Keep questions of callers, for the comparison of versions."""
        self.questions.extend((features, request.encoder) for features in request.inputs)

    def background(self, is_primary: bool) -> Iterable[Work]:
        """Return the checks, which each worker makes of what it has answered."""
        return (self.run(),)

    async def run(self) -> None:
        """Check until cancelled."""
        while True:
            began = time.monotonic()
            try:
                await self.check()
                self._outage.record_success()
            except Exception as error:  # any error: serving continues, and the next check tries again
                self._outage.record_failure(f"{type(error).__name__}: {error}")
            await asyncio.sleep(max(CHECK_EVERY_S, REST_RATIO * (time.monotonic() - began)))

    async def check(self) -> None:
        """Compare the live version with the trusted one, and roll back if it is worse."""
        if self.live.frozen is not None:
            self.trusted = None  # an operator decides what goes live next
            return
        live, trusted = self.live.current, self.trusted
        if trusted is None or not is_comparable(trusted, live):
            self._trust(live)
            return
        inputs = [features for features, encoder in self.questions if encoder is live.encoder]
        if live is trusted or len(inputs) < MIN_QUESTIONS:
            return
        reason = await asyncio.to_thread(self._find_reason, trusted, live, inputs)
        if reason is not None:
            await self._roll_back(live, trusted, reason)
        elif time.monotonic() - self.compared_since >= TRUSTED_AFTER_S:
            self._trust(live)

    def _find_reason(self, trusted: ServedVersion, live: ServedVersion, inputs: Sequence[bytes]) -> str | None:
        """Return why to roll back the live version; None where the guard would not, whatever its answers are."""
        is_suspect = self.create_guard().is_suspect(trusted.learned_until + 1, live.learned_until)
        return find_regression(trusted.model, live.model, inputs) if is_suspect else None

    async def _roll_back(self, live: ServedVersion, trusted: ServedVersion, reason: str) -> None:
        guard = self.create_guard()
        await asyncio.to_thread(guard.act, live.learned_until, trusted.learned_until + 1, reason)
        self.trusted = None  # not before the roll-back has succeeded
        await self.live.refresh()
        await self.live.refresh_others()

    def _trust(self, served: ServedVersion) -> None:
        self.trusted, self.compared_since = served, time.monotonic()
        self.show_trusted(served.version)


def create_live_monitor(
    live: LiveModel, store: Store, mode: GuardMode, show_trusted: Callable[[int], object]
) -> LiveMonitor:
    """Return the monitor of a model. mode: whose feedback the guard may quarantine."""
    return LiveMonitor(live, lambda: Guard(live.snapshots, store, live.encoder_config.recipe, mode), show_trusted)


def is_comparable(trusted: ServedVersion, live: ServedVersion) -> bool:
    """Return False for an older live version: an operator has rolled back to it."""
    return trusted.encoder is live.encoder and trusted.learned_until > 0 and trusted.version <= live.version


def find_regression(trusted: Model, live: Model, inputs: Sequence[bytes]) -> str | None:
    """Return why the answers of `live` are worse than those of `trusted`; None if they are not."""
    before, after = count_abstentions(trusted.predict(inputs), live.predict(inputs))
    if after - before > MAX_NEW_ABSTENTIONS * len(inputs):
        return f"of the last {len(inputs)} questions it left {after} unanswered, the version before {before}"
    before_s = measure_seconds(trusted, inputs)
    limit_s = MAX_SLOWDOWN * before_s + SLOWDOWN_TOLERANCE_S
    after_s = measure_seconds(live, inputs, enough_s=limit_s)
    if after_s > limit_s:
        return (
            f"it takes {1000 * after_s:.1f} ms for the last {len(inputs)} questions, "
            f"the version before {1000 * before_s:.1f} ms"
        )
    return None


def count_abstentions(before: Sequence[Answer], after: Sequence[Answer]) -> tuple[int, int]:
    """Return how many questions two versions left unanswered.

    A question does not count whose answer was retired or un-learned: somebody wanted it gone, and it is not even a
    candidate any more. Where nothing is a candidate any more, that is not the reason.
    """
    is_gone = [
        old.choice is not None and bool(new.candidates) and old.choice not in {each.id for each in new.candidates}
        for old, new in zip(before, after, strict=True)
    ]
    left = [new.choice is None and not gone for new, gone in zip(after, is_gone, strict=True)]
    return sum(old.choice is None for old in before), sum(left)


def measure_seconds(model: Model, inputs: Sequence[bytes], enough_s: float = 0.0) -> float:
    """Return processor time of this thread for one call, the shortest of several, so that other load does not count.

    enough_s: a run that is no longer than this ends the measurement.
    """
    shortest_s = float("inf")
    for _ in range(TIMED_RUNS):
        began = time.thread_time()
        model.predict(inputs)
        shortest_s = min(shortest_s, time.thread_time() - began)
        if shortest_s <= enough_s:
            break
    return shortest_s

"""Does what is live still answer, and as soon as its predecessor? Where it does not, the guard takes it back.

the newest questions --> asked again of what is live, and of the version that was trusted last
                         it abstains where the other answers, or takes several times as long --> online/guard.py
                         it does not, for a while                                            --> it is the trusted one

Both are asked the same, so that a crowd with strange questions, or a machine that is busy, is never a version's fault.
Whether answers are right is not seen here, but where feedback says so: in the learner.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Sequence

from online.models import Encoder, Model
from online.observability import fact
from online.serving.live import LiveModel, Served

log = logging.getLogger("online.watch")

EVERY_S = 0.5
REST = 20  # a look that costs more is followed by a rest of so many times its cost
TRUSTED_S = 30.0  # how long a version is watched before others are held against it
NEWEST, ENOUGH = 64, 16  # questions
MORE = 0.25  # of the questions, from which it abstains from too many more
SLOWER, SLOWER_BY_S, TIMES = 4, 0.01, 5


class Watch:
    def __init__(self, live: LiveModel, act: Callable[[int, int, str], None]) -> None:
        """act: what the guard does, from (offset that showed it, first that may be to blame, reason)."""
        self.live, self.act = live, act
        self.asked: deque[tuple[bytes, Encoder]] = deque(maxlen=NEWEST)
        self.trusted: Served | None = None
        self.since = 0.0

    def saw(self, inputs: Sequence[bytes], encoder: Encoder) -> None:
        self.asked.extend((features, encoder) for features in inputs)

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            began = time.monotonic()
            try:
                await self.look()
            except Exception as error:  # whatever it is, the service goes on, and it is looked again
                reason = f"{type(error).__name__}: {error}"
                fact(log, "not watched", logging.WARNING, model=self.live.snapshots.model, reason=reason)
            await asyncio.sleep(max(EVERY_S, REST * (time.monotonic() - began)))

    async def look(self) -> None:
        if self.live.frozen is not None:
            self.trusted = None  # what goes live next, somebody has decided on
            return
        live, trusted = self.live.current, self.trusted
        if trusted is None or not comparable(trusted, live):
            self._trust(live)
            return
        inputs = [features for features, encoder in self.asked if encoder is live.encoder]
        if live is trusted or len(inputs) < ENOUGH:
            return
        reason = await asyncio.to_thread(breach, trusted.model, live.model, inputs)
        if reason is not None:
            await asyncio.to_thread(self.act, live.learned_until, trusted.learned_until + 1, reason)
            self.trusted = None  # once that stands
            await self.live.refresh()
            await self.live.refresh_others()
        elif time.monotonic() - self.since >= TRUSTED_S:
            self._trust(live)

    def _trust(self, served: Served) -> None:
        self.trusted, self.since = served, time.monotonic()


def comparable(trusted: Served, live: Served) -> bool:
    """An older one was made live by somebody who knew why."""
    return trusted.encoder is live.encoder and trusted.learned_until > 0 and trusted.version <= live.version


def breach(trusted: Model, live: Model, inputs: Sequence[bytes]) -> str | None:
    """What is wrong with the answers of `live`; None where nothing is."""
    fewer, more = abstains(trusted, inputs), abstains(live, inputs)
    if more - fewer > MORE * len(inputs):
        return f"of the last {len(inputs)} questions it left {more} unanswered, the version before {fewer}"
    before_s = seconds(trusted, inputs)
    after_s = seconds(live, inputs, enough_s=SLOWER * before_s + SLOWER_BY_S)
    if after_s > SLOWER * before_s + SLOWER_BY_S:
        return (
            f"it takes {1000 * after_s:.1f} ms for the last {len(inputs)} questions, "
            f"the version before {1000 * before_s:.1f} ms"
        )
    return None


def abstains(model: Model, inputs: Sequence[bytes]) -> int:
    return sum(answer.choice is None for answer in model.predict(inputs))


def seconds(model: Model, inputs: Sequence[bytes], enough_s: float = 0.0) -> float:
    """Of this thread's own work, the shortest of several times, so that who else is busy does not count.

    The first that is short enough will do.
    """
    shortest = float("inf")
    for _ in range(TIMES):
        began = time.thread_time()
        model.predict(inputs)
        shortest = min(shortest, time.thread_time() - began)
        if shortest <= enough_s:
            break
    return shortest

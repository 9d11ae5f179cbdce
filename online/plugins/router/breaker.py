"""A circuit breaker: it keeps requests away from an endpoint that fails, until one trial request succeeds.

    closed --5 failures in a row, or a rate limit--> open --10 s, or as long as the limit lasts--> half-open
       ^                                              ^                                               |
       |                                              +--the trial fails: twice as long, up to 120 s--+
       +--the trial succeeds--------------------------------------------------------------------------+

An outcome counts only in the period in which its request was admitted: a request that began before the breaker opened
says nothing about the endpoint after it.
"""

from collections.abc import Callable
from typing import Literal

FAILURES = 5  # in a row, after which the breaker opens
OPEN_S = 10.0
LONGEST_OPEN_S = 120.0
LONGEST_LIMIT_S = 60.0  # for which the breaker believes a Retry-After
BreakerState = Literal["closed", "open", "half-open"]


class Breaker:
    """The circuit breaker of one endpoint. period: a number that grows with each opening and closing."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """clock: seconds of a monotonic clock."""
        self.period = 0
        self._clock = clock
        self._failures = self._openings = 0
        self._open_until: float | None = None  # None while it is closed
        self._has_trial = False

    @property
    def state(self) -> BreakerState:
        """The state at this moment."""
        if self._open_until is None:
            return "closed"
        return "open" if self._clock() < self._open_until else "half-open"

    @property
    def wait_s(self) -> float:
        """Seconds until a trial may be admitted; 0 unless the breaker is open."""
        return 0.0 if self._open_until is None else max(0.0, self._open_until - self._clock())

    def admits(self) -> bool:
        """Return whether a request may be sent now. A half-open breaker admits one, until its outcome is reported."""
        state = self.state
        if state == "half-open" and not self._has_trial:
            self._has_trial = True
            return True
        return state == "closed"

    def succeed(self) -> None:
        """Report a success. It ends a row of failures, and closes a half-open breaker."""
        state = self.state
        if state == "half-open":
            self._open_until, self._openings, self._has_trial = None, 0, False
            self.period += 1
        if state != "open":
            self._failures = 0

    def fail(self, retry_after_s: float | None = None) -> None:
        """Report a failure. retry_after_s: seconds for which the endpoint wants no requests, if it is that specific."""
        state = self.state
        self._failures += 1
        if retry_after_s:
            self._open(min(retry_after_s, LONGEST_LIMIT_S))
        elif state == "half-open" or (state == "closed" and self._failures >= FAILURES):
            self._open(min(OPEN_S * 2**self._openings, LONGEST_OPEN_S))
            self._openings += 1

    def release(self) -> None:
        """Report that a request ended without a verdict, so that another one may be the trial."""
        self._has_trial = False

    def _open(self, seconds: float) -> None:
        """Stay open for so long from now, and at least as long as was decided before."""
        self._open_until = max(self._clock() + seconds, self._open_until or 0.0)
        self._has_trial = False
        self.period += 1


class AdmittedRequest:
    """An admitted request.

    Its first report goes to the breaker, if the period is still the same; further ones are ignored.
    """

    def __init__(self, breaker: Breaker) -> None:
        """Create it right after the breaker has admitted the request."""
        self.is_trial = breaker.state == "half-open"
        self._breaker, self._period = breaker, breaker.period
        self._is_reported = False

    def succeed(self) -> None:
        """Report a success."""
        if self._is_first():
            self._breaker.succeed()

    def fail(self, retry_after_s: float | None = None) -> None:
        """Report a failure."""
        if self._is_first():
            self._breaker.fail(retry_after_s)

    def release(self) -> None:
        """Report that there is no verdict."""
        if self._is_first():
            self._breaker.release()

    def _is_first(self) -> bool:
        is_first = not self._is_reported and self._breaker.period == self._period
        self._is_reported = True
        return is_first

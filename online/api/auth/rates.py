"""Rate limits: how many requests a key, a visitor, a user or an address may send in a minute.

Counts are kept for the present minute only, in the memory of each process. IPv6 addresses count by their /64 network,
which one client usually has to itself. Programs on this machine are not limited.
"""

import time
from collections import Counter
from collections.abc import Callable

from online.errors import QuotaExceeded
from online.schemas.access.callers import Caller, network_of
from online.settings import Settings

WINDOW_S = 60
MAX_COUNTED = 200_000  # callers and addresses in one minute; further ones share one count
UNLIMITED = ("local", "admin")


class RateLimits:
    def __init__(self, settings: Settings, clock: Callable[[], float] = time.monotonic) -> None:
        """clock: seconds."""
        self.settings, self.clock = settings, clock
        self._window = 0
        self._counts = Counter[str]()

    def check(self, caller: Caller) -> None:
        """Count a request. Raises QuotaExceeded."""
        if caller.id in UNLIMITED:
            return
        settings = self.settings
        if caller.id.startswith("key:"):
            self._count(caller.id, settings.key_requests_per_minute, "key_requests_per_minute")
            return
        if caller.user is not None:
            self._count(caller.id, settings.requests_per_minute, "requests_per_minute")
        address = f"address {network_of(caller.address)}"
        self._count(address, settings.address_requests_per_minute, "address_requests_per_minute")

    def check_sign_in(self, caller: Caller) -> None:
        """Count an attempt to sign in. Raises QuotaExceeded."""
        address = f"sign-in {network_of(caller.address)}"
        self._count(address, self.settings.sign_ins_per_minute, "sign_ins_per_minute")

    def _count(self, name: str, most: int, setting: str) -> None:
        now = self.clock()
        window = int(now // WINDOW_S)
        if window != self._window:
            self._window, self._counts = window, Counter()
        if name not in self._counts and len(self._counts) >= MAX_COUNTED:
            name = "all others"
        self._counts[name] += 1
        if self._counts[name] > most:
            retry_after_s = int((window + 1) * WINDOW_S - now) + 1
            raise QuotaExceeded(f"more than {most} requests in a minute ({setting}); try again later", retry_after_s)

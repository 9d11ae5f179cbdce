"""Rate limits: how many requests, instances and bytes a key, a visitor, a user or an address may send in a minute.

Instances are inputs to predict for, or items of feedback. Bytes are those of bodies, decoded. What is refused does not count.
Large bodies of callers without a key take turns, with pauses in between by their length: to parse and record one takes up to a
tenth of a second, in which nobody else is answered, so a minute's bytes must not come all at once.
Counts are kept for the present minute only, in the memory of each process. With a stream in Redis, all processes of all replicas
exchange their counts several times a second, so that a caller has one limit, whichever replica it asks:

    check: own count + what others had at the last exchange --every SHARE_EVERY_S: what has changed--> SharedCounts --> sums of all

A request waits for no exchange, so that a caller who asks many replicas at once may exceed a limit by what they admit within
SHARE_EVERY_S. An attempt to sign in waits for one. While Redis does not answer, each process counts by itself.
IPv6 addresses count by their /64 network, which one client usually has to itself. Programs on this machine are not limited.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

from online.errors import QuotaExceeded, SetupError, Unavailable
from online.schemas.access.callers import Caller, network_of
from online.settings import Settings
from online.state.workspace import Workspace
from online.stream.shared_counts import WINDOW_S, Counts, SharedCounts
from online.telemetry import OutageLog

log = logging.getLogger("online.rates")

MAX_COUNTED = 200_000  # callers and addresses in one minute; further ones share one count
LARGE_BYTES = 65_536  # longer bodies take turns, and are looked at before they are parsed
PACE_BYTES_PER_S = 5_000_000  # of the large bodies of one address
SHARE_EVERY_S = 0.1
SHARED_AT_ONCE = 500  # callers and addresses in one call, for which Redis lets others wait
UNLIMITED = ("local", "admin", "service")


@dataclass(frozen=True, slots=True)
class Quota:
    """The quota of a minute. settings: the names of its three settings."""

    requests: int
    instances: int
    bytes: int
    settings: tuple[str, str, str]


@dataclass(slots=True)
class MinuteUsage:
    """The use of a quota in this minute, as far as this process knows. shared: what all had used at the last exchange."""

    name: str
    requests: int = 0
    instances: int = 0
    bytes: int = 0
    shared: Counts = (0, 0, 0)

    def add(self, requests: int, instances: int, bytes: int) -> None:
        """Count more, or less: never below nothing, where a new minute has begun meanwhile."""
        self.requests = max(0, self.requests + requests)
        self.instances = max(0, self.instances + instances)
        self.bytes = max(0, self.bytes + bytes)

    @property
    def counts(self) -> Counts:
        """What is used of each unit."""
        return self.requests, self.instances, self.bytes

    def take_over(self, sent: Counts, sums: Counts) -> None:
        """Continue from the sums of all, in which this process had the counts that it has sent."""
        since = (now - before for now, before in zip(self.counts, sent, strict=True))
        self.shared = sums
        self.requests, self.instances, self.bytes = (
            max(0, total + more) for total, more in zip(sums, since, strict=True)
        )


class RateLimits:
    """Counts requests, instances and bytes by minute. Callers without an account are counted by their address."""

    def __init__(
        self, settings: Settings, clock: Callable[[], float] = time.monotonic, shared: SharedCounts | None = None
    ) -> None:
        """clock: seconds. shared: the counts of all replicas; None where each process counts by itself."""
        self.settings, self.shared, self._own_clock = settings, shared, clock
        self._ahead_s = 0.0  # of the clock of this process, by which that of Redis is
        self._changed, self._exchanging = dict[str, MinuteUsage](), asyncio.Lock()
        self._outage = OutageLog(log, "rate limits are those of each process by itself")
        self._window = 0
        self._used = dict[str, MinuteUsage]()
        self._free_at = dict[str, float]()  # by address: when its next large body may be read
        self._of_key, self._of_person, self._of_address = (
            read_quota(settings, who) for who in ("key_", "", "address_")
        )

    def check(self, caller: Caller, requests: int = 0, instances: int = 0, bytes: int = 0) -> None:
        """Count what a caller sends. Raises QuotaExceeded, and counts nothing."""
        if caller.kind in UNLIMITED:
            return
        counted = [(self._find(name), quota) for name, quota in self._quotas(caller)]
        for used, quota in counted:
            self._refuse_excess(used, quota, requests, instances, bytes)
        for used, _ in counted:
            self._add(used, requests, instances, bytes)

    def take_back(self, caller: Caller, requests: int, instances: int, bytes: int) -> None:
        """Count a request no more that is counted again elsewhere."""
        if caller.kind not in UNLIMITED:
            for name, _ in self._quotas(caller):
                self._add(self._find(name), -requests, -instances, -bytes)

    def clock(self) -> float:
        """Return the seconds of the clock that decides which minute it is."""
        return self._own_clock() + self._ahead_s

    def _add(self, used: MinuteUsage, requests: int, instances: int = 0, bytes: int = 0) -> None:
        used.add(requests, instances, bytes)
        if self.shared is not None:
            self._changed[used.name] = used

    def has_room(self, caller: Caller, bytes: int) -> bool:
        """Return whether a caller may send one more request with so many bytes; counts nothing."""
        if caller.kind in UNLIMITED:
            return True
        for name, quota in self._quotas(caller):
            used = self._find(name)
            if used.requests >= quota.requests or used.bytes + bytes > quota.bytes:
                return False
        return True

    def _quotas(self, caller: Caller) -> list[tuple[str, Quota]]:
        """Return what a caller is counted as, with the quota of each."""
        if caller.kind == "key":
            return [(caller.id, self._of_key)]
        of_person = [(caller.id, self._of_person)] if caller.user is not None else []
        return [*of_person, (f"address {network_of(caller.address)}", self._of_address)]

    def is_paced(self, caller: Caller) -> bool:
        """Return whether large bodies of a caller take turns."""
        return caller.kind not in UNLIMITED and caller.kind != "key"

    def take_turn(self, caller: Caller, bytes: int) -> float:
        """Return the seconds after which so many bytes of a large body may be read; what follows from its address waits for longer."""
        if not self.is_paced(caller):
            return 0.0
        now, name = self.clock(), network_of(caller.address)
        if name not in self._free_at and len(self._free_at) >= MAX_COUNTED:
            name = "all others"
        starts_at = max(now, self._free_at.get(name, now))
        self._free_at[name] = starts_at + bytes / PACE_BYTES_PER_S
        return starts_at - now

    async def check_sign_in(self, caller: Caller) -> None:
        """Count an attempt to sign in, at all replicas together. Raises QuotaExceeded."""
        used, most = self._find(f"sign-in {network_of(caller.address)}"), self.settings.sign_ins_per_minute
        if used.requests < most:
            self._add(used, 1)
            await self.exchange()
            if used.requests <= most:
                return
            self._add(used, -1)
        raise self._refuse("requests", 1, most, "sign_ins_per_minute")

    async def share(self) -> None:
        """Exchange counts with the other processes until cancelled."""
        while True:
            await self.exchange()
            await asyncio.sleep(SHARE_EVERY_S)

    async def exchange(self) -> None:
        """Send what has changed to the other processes, and learn what they have counted. During an outage nothing happens."""
        if self.shared is None or not (self._changed or not self._ahead_s):
            return
        async with self._exchanging:
            changed, self._changed = [*self._changed.values()], {}
            try:
                for start in range(0, max(1, len(changed)), SHARED_AT_ONCE):
                    await self._exchange(self.shared, changed[start : start + SHARED_AT_ONCE])
                self._outage.record_success()
            except Unavailable as error:
                self._outage.record_failure(error)
                current = (each for each in changed if self._used.get(each.name) is each)
                self._changed = {each.name: each for each in current} | self._changed

    async def _exchange(self, shared: SharedCounts, changed: list[MinuteUsage]) -> None:
        sent = {each.name: each.counts for each in changed}
        added = {
            each.name: tuple(now - before for now, before in zip(each.counts, each.shared, strict=True))
            for each in changed
        }
        found = await asyncio.to_thread(shared.add, self._window, added, len(MinuteUsage("").counts))
        self._ahead_s = found.at_s - self._own_clock()
        for each in changed if found.sums else ():
            each.take_over(sent[each.name], found.sums[each.name])

    def _refuse_excess(self, used: MinuteUsage, quota: Quota, requests: int, instances: int, bytes: int) -> None:
        """Raise QuotaExceeded."""
        if requests and used.requests + requests > quota.requests:
            raise self._refuse("requests", requests, quota.requests, quota.settings[0])
        if instances and used.instances + instances > quota.instances:
            raise self._refuse("instances", instances, quota.instances, quota.settings[1])
        if bytes and used.bytes + bytes > quota.bytes:
            raise self._refuse("bytes", bytes, quota.bytes, quota.settings[2])

    def _find(self, name: str) -> MinuteUsage:
        """Return what was counted of a caller or an address in the present minute."""
        window = int(self.clock() // WINDOW_S)
        if window != self._window:
            self._window, self._used, self._changed, now = window, {}, {}, self.clock()
            self._free_at = {each: at for each, at in self._free_at.items() if at > now}
        used = self._used.get(name)
        if used is None:
            counted = name if len(self._used) < MAX_COUNTED else "all others"
            used = self._used.setdefault(counted, MinuteUsage(counted))
        return used

    def _refuse(self, unit: str, amount: int, most: int, setting: str) -> QuotaExceeded:
        retry_after_s = int((self._window + 1) * WINDOW_S - self.clock()) + 1
        if amount > most:
            text = f"one request has {amount} {unit}, and all of a minute may have {most} ({setting}); send fewer at a time"
        else:
            text = f"more than {most} {unit} in a minute ({setting}); try again later"
        return QuotaExceeded(text, retry_after_s)


def create_rate_limits(settings: Settings, workspace: Workspace) -> RateLimits:
    """Return rate limits that all replicas share where there is a stream in Redis. Raises SetupError."""
    url, secret = settings.stream, bytes.fromhex(workspace.keys.valid_keys("stream")[-1].secret)
    try:
        shared = SharedCounts(url, f"online:{workspace.store.instance}:rates", secret) if url else None
    except ValueError as error:
        raise SetupError(f"the stream must be a redis:// URL: {error}") from None
    return RateLimits(settings, shared=shared)


def read_quota(settings: Settings, who: str) -> Quota:
    """who: how the names of the settings begin."""
    names = f"{who}requests_per_minute", f"{who}instances_per_minute", f"{who}bytes_per_minute"
    requests, instances, bytes = (getattr(settings, name) for name in names)
    return Quota(requests, instances, bytes, names)

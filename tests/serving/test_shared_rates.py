"""Rate limits that several processes share in Redis."""

import asyncio
import uuid

import pytest

from online.errors import QuotaExceeded
from online.schemas.access.callers import Caller
from online.serving.rates import RateLimits
from online.settings import Settings
from online.stream.shared_counts import SharedCounts

CALLER = Caller("visitor:1", frozenset(("predict",)), user="visitor:1", kind="visitor", address="203.0.113.7")
NOBODY_LISTENS = "redis://127.0.0.1:1"


def processes(url: str, count: int = 2) -> list[RateLimits]:
    key = f"online_test_{uuid.uuid4().hex}"
    settings = Settings(requests_per_minute=10, sign_ins_per_minute=3)
    return [RateLimits(settings, shared=SharedCounts(url, key, b"secret")) for _ in range(count)]


async def exchange_all(limits: list[RateLimits]) -> None:
    for each in limits:
        await each.exchange()


def test_what_one_process_has_counted_counts_at_the_others(redis_url: str) -> None:
    async def run() -> None:
        one, two = limits = processes(redis_url)
        await exchange_all(limits)
        for _ in range(6):
            one.check(CALLER, requests=1)
        for _ in range(3):
            two.check(CALLER, requests=1)
        await exchange_all([one, two, one])
        two.check(CALLER, requests=1)
        with pytest.raises(QuotaExceeded):
            two.check(CALLER, requests=1)

    asyncio.run(run())


def test_no_more_attempts_to_sign_in_than_the_limit_are_admitted_at_once(redis_url: str) -> None:
    async def run() -> None:
        limits = processes(redis_url, 3)
        await exchange_all(limits)
        results = await asyncio.gather(*(each.check_sign_in(CALLER) for each in limits * 3), return_exceptions=True)
        assert sum(result is None for result in results) <= 3
        assert sum(isinstance(result, QuotaExceeded) for result in results) >= 6

    asyncio.run(run())


def test_each_process_counts_by_itself_while_redis_does_not_answer() -> None:
    async def run() -> None:
        for each in processes(NOBODY_LISTENS):
            for _ in range(10):
                each.check(CALLER, requests=1)
            await each.exchange()
            with pytest.raises(QuotaExceeded):
                each.check(CALLER, requests=1)

    asyncio.run(run())

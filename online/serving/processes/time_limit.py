"""The time that a job may take by the clock, whatever it does: a job that waits without end is ended as well."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from online.errors import TooLarge
from online.settings import Settings

HOUR_S = 3600.0


@asynccontextmanager
async def limited_time(settings: Settings, advice: str = "") -> AsyncIterator[Callable[[], None]]:
    """Cancel the block after `max_job_hours`. Raises TooLarge then.

    Yields a function that raises the same after that time, for work in threads, which cannot be cancelled. advice: what
    to do, for the end of the error.
    """
    error = TooLarge(f"it took longer than {settings.max_job_hours:g} hours (max_job_hours){advice}")
    ends_at = time.monotonic() + settings.max_job_hours * HOUR_S
    limit = asyncio.timeout(settings.max_job_hours * HOUR_S)

    def check() -> None:
        if time.monotonic() > ends_at:
            raise error

    try:
        async with limit:
            yield check
    except TimeoutError:
        if not limit.expired():
            raise
        raise error from None

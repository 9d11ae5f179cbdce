"""A process of our own beside the server: `python -m online VERB --supervised`, told the settings on its standard input.

It ends when the other end of that input is gone, so none outlives the server.
"""

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process, create_subprocess_exec
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from online.settings import Settings


async def start_child(
    settings: Settings,
    *arguments: str,
    stdout: int | None = None,
    stderr: int | None = None,
    pass_fds: Sequence[int] = (),
) -> Process:
    """In a session of its own: Ctrl-C is the server's. What became of it is told by its status."""
    command = (sys.executable, "-m", "online", *arguments)
    process = await create_subprocess_exec(
        *command, stdin=PIPE, stdout=stdout, stderr=stderr, pass_fds=pass_fds, start_new_session=True
    )
    assert process.stdin is not None
    with suppress(OSError, RuntimeError):  # it is gone already; uvloop says so with a RuntimeError
        process.stdin.write(settings.model_dump_json().encode() + b"\n")
    return process


async def end_child(process: Process) -> None:
    """At once, if it still runs, and with it whatever it started."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


async def followed(settings: Settings, *arguments: str, hear: Callable[[dict[str, Any]], None]) -> str | None:
    """Run one to its end. hear: each line of JSON that it prints. Gives the reason where it failed."""
    process = await start_child(settings, *arguments, stdout=PIPE, stderr=PIPE)
    assert process.stdout is not None and process.stderr is not None
    try:
        _, complaint = await asyncio.gather(heard(process.stdout, hear), process.stderr.read())
        status = await process.wait()
    finally:
        await end_child(process)
    if status == 0:
        return None
    lines = complaint.decode(errors="replace").split("\n")
    told = next(filter(None, reversed(lines)), f"its process ended with {status}")
    return told.removeprefix("online: ")


async def heard(printed: asyncio.StreamReader, hear: Callable[[dict[str, Any]], None]) -> None:
    """Each line of JSON that a process prints, until it has closed its output."""
    async for line in printed:
        hear(json.loads(line))

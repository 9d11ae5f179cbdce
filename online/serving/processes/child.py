"""Child processes of the server: `python -m online COMMAND --supervised`.

A child reads the settings as one line of JSON on its standard input. It ends when that input is
closed, so that no child outlives the server.
"""

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process, create_subprocess_exec
from collections.abc import Callable, Sequence
from contextlib import suppress

from online.errors import TooLarge
from online.schemas.json_values import JSONObject
from online.serving.processes.time_limit import limited_time
from online.settings import Settings

OnMessage = Callable[[JSONObject], None]


async def start_child(
    settings: Settings,
    *arguments: str,
    stdout: int | None = None,
    stderr: int | None = None,
    pass_fds: Sequence[int] = (),
) -> Process:
    """Start `online` with these arguments, in a session of its own: Ctrl-C reaches the server only.

    A child that has already ended raises nothing here; its exit status shows what happened.
    """
    command = (sys.executable, "-m", "online", *arguments)
    process = await create_subprocess_exec(
        *command, stdin=PIPE, stdout=stdout, stderr=stderr, pass_fds=pass_fds, start_new_session=True
    )
    assert process.stdin is not None
    with suppress(OSError, RuntimeError):  # it has ended; uvloop reports that with a RuntimeError
        process.stdin.write(settings.dump_with_secrets().encode() + b"\n")
    return process


async def kill_child(process: Process) -> None:
    """Kill a child that still runs, with every process that it has started."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


async def run_child(settings: Settings, *arguments: str, on_message: OnMessage) -> str | None:
    """Run a child to its end, or for `max_job_hours`. Returns the reason if it failed, else None.

    on_message: called with each line of JSON that it prints. The reason is the last line on its
    standard error.
    """
    process = await start_child(settings, *arguments, stdout=PIPE, stderr=PIPE)
    assert process.stdout is not None and process.stderr is not None
    try:
        async with limited_time(settings):
            _, errors = await asyncio.gather(read_messages(process.stdout, on_message), process.stderr.read())
            status = await process.wait()
    except TooLarge as error:
        return str(error)
    finally:
        await kill_child(process)
    if status == 0:
        return None
    lines = errors.decode(errors="replace").split("\n")
    reason = next(filter(None, reversed(lines)), f"its process ended with status {status}")
    return reason.removeprefix("online: ")


async def read_messages(output: asyncio.StreamReader, on_message: OnMessage) -> None:
    """Read each line of JSON that a process prints, until its output is closed."""
    async for line in output:
        on_message(json.loads(line))

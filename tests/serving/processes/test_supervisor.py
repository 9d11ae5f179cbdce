"""A child process that cannot be started is tried again, as one that has ended."""

import asyncio
import errno
import sys

from online.schemas.models import LearnerState
from online.serving.processes.supervisor import Supervisor


def test_a_process_for_which_no_file_is_free_is_started_later() -> None:
    """The learner stayed dead after too many open files."""
    states = list[LearnerState]()

    async def supervise() -> None:
        failures = [OSError(errno.EMFILE, "Too many open files")] * 2
        running = asyncio.Event()

        async def start() -> asyncio.subprocess.Process:
            if failures:
                raise failures.pop()
            return await asyncio.create_subprocess_exec(sys.executable, "-c", "input()", stdin=asyncio.subprocess.PIPE)

        def note(state: LearnerState) -> None:
            states.append(state)
            running.set() if state.state == "running" else None

        supervisor = Supervisor("learner", start, 0.1, note)
        await supervisor.start()
        await asyncio.wait_for(running.wait(), 30)
        await supervisor.stop()

    asyncio.run(supervise())
    assert [state.state for state in states] == ["restarting", "restarting", "running", "stopped"]
    assert states[0].reason is not None
    assert "it cannot be started: [Errno 24] Too many open files" in states[0].reason
    cause = states[0].cause
    assert cause is not None and cause.code == "process_not_started"
    assert cause.figures == {"error": "[Errno 24] Too many open files", "pause_s": cause.figures["pause_s"]}

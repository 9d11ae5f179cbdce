"""Runs a command as a child process: settings from its parent, its end, its priority."""

import ctypes
import math
import os
import resource
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from types import FrameType

from online.errors import TooLarge
from online.settings import Settings

PR_SET_PDEATHSIG = 1  # prctl(2)
KILLED_AFTER_S = 5  # of processor time beyond a limit


def read_parent_settings() -> Settings:
    """Return the settings that the parent process wrote to standard input, as one line of JSON.

    From here on this process ends when the parent does.
    """
    settings = Settings.model_validate_json(sys.stdin.readline())
    stop_with_parent()
    return settings


def stop_with_parent() -> None:
    """Send this process SIGTERM when the parent is gone, which closes our standard input."""

    def watch() -> None:
        while os.read(sys.stdin.fileno(), 1):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()


def die_with_parent() -> None:
    """Have the kernel kill this process at the moment when its parent ends, however that ends (Linux).

    A worker holds the port of its service. It writes what it answers before it answers, so nothing is lost.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def keep_files_private() -> None:
    """Let only the user of this process, and of its children, read the files that they create."""
    os.umask(0o077)


def exit_on_sigterm() -> None:
    """Make SIGTERM end this process with status 0: a requested stop is not a failure."""

    def leave(number: int, frame: FrameType | None) -> None:
        raise SystemExit(0)

    signal.signal(signal.SIGTERM, leave)


@contextmanager
def limited_resources(settings: Settings) -> Iterator[None]:
    """Let the block take only so much memory and processor time, beside what this process has taken.

    Raises TooLarge beyond that. Code that cannot be interrupted is killed by the system a little later. What counts as
    memory is private data: the files of a library such as CUDA do not.
    """
    hard_memory = resource.getrlimit(resource.RLIMIT_DATA)[1]
    memory = measure_data_bytes() + settings.max_job_memory_bytes
    used = resource.getrusage(resource.RUSAGE_SELF)
    cpu_s = math.ceil(used.ru_utime + used.ru_stime) + settings.max_job_cpu_s

    def refuse(number: int, frame: FrameType | None) -> None:
        raise TooLarge(f"the file takes more than {settings.max_job_cpu_s:,} s of processor time (max_job_cpu_s)")

    signal.signal(signal.SIGXCPU, refuse)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_DATA, (memory, hard_memory))
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s + KILLED_AFTER_S))
    try:
        yield
    except MemoryError:
        resource.setrlimit(resource.RLIMIT_DATA, (hard_memory, hard_memory))  # so that the error can be reported
        most = settings.max_job_memory_bytes
        raise TooLarge(f"the file takes more than {most:,} bytes of memory (max_job_memory_bytes)") from None


def measure_data_bytes() -> int:
    """Return the private memory of this process, as RLIMIT_DATA counts it; 0 where the system does not say."""
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith("VmData:")), 0)


def lower_priority(steps: int = 10) -> None:
    """Let a service on the same cores go first.

    `nice` orders processes within one session only where Linux groups them by session (autogroup).
    A process that leads its own session lowers the priority of the whole group as well.
    """
    os.nice(steps)
    if os.getsid(0) == os.getpid():
        with suppress(OSError):
            Path("/proc/self/autogroup").write_text(str(steps))


def import_whole(module: str) -> None:
    """Import a module that is not Python's without being interrupted in the midst: that would look like a broken installation.

    Ctrl-C takes effect after it.
    """
    interrupts = list[int]()
    before = signal.signal(signal.SIGINT, lambda number, frame: interrupts.append(number))
    try:
        import_module(module)
    finally:
        signal.signal(signal.SIGINT, before)
    if interrupts:
        raise KeyboardInterrupt

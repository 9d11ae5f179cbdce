"""How a command runs as a process: settings from a parent, its end, its priority."""

import os
import signal
import sys
import threading
from contextlib import suppress
from pathlib import Path
from types import FrameType

from online.settings import Settings


def read_parent_settings() -> Settings:
    """The settings that the parent process wrote to standard input, as one line of JSON.

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


def keep_files_private() -> None:
    """Let only the user of this process, and of its children, read the files that they create."""
    os.umask(0o077)


def exit_on_sigterm() -> None:
    """Make SIGTERM end this process with status 0: a requested stop is not a failure."""

    def leave(number: int, frame: FrameType | None) -> None:
        raise SystemExit(0)

    signal.signal(signal.SIGTERM, leave)


def lower_priority(steps: int = 10) -> None:
    """Let a service on the same cores go first.

    `nice` orders processes within one session only where Linux groups them by session (autogroup).
    A process that leads its own session lowers the priority of the whole group as well.
    """
    os.nice(steps)
    if os.getsid(0) == os.getpid():
        with suppress(OSError):
            Path("/proc/self/autogroup").write_text(str(steps))

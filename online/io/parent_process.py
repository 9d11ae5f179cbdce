"""Ends a process of `multiprocessing` with the process that started it."""

import multiprocessing
import os
import signal
import threading
from multiprocessing.connection import Connection, wait


def end_with_parent() -> None:
    """Send this process SIGTERM when the process that started it is gone, also if that was killed."""
    parent = multiprocessing.parent_process()
    assert parent is not None, "multiprocessing starts this process"

    def watch(sentinel: int | Connection) -> None:
        wait([sentinel])
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, args=(parent.sentinel,), daemon=True).start()

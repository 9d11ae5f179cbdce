"""Locks between processes, held for as long as a file or folder is open: the kernel frees them when a process ends.

`filelock` does not serve here: it waits by polling, and the learner of a second service may wait for as long as the
first one runs. The kernel wakes a waiter of flock at once.
"""

import fcntl
import os
from pathlib import Path
from typing import IO


def lock_file(path: Path, wait: bool = True, mode: int = 0o666) -> IO[str]:
    """Lock a file until it is closed. Raises BlockingIOError if another holds the lock and this one does not wait.

    mode: of the file, if it is created.
    """
    file = open(path, "a", opener=lambda name, flags: os.open(name, flags, mode))
    try:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        file.close()
        raise
    return file


def lock_folder(folder: Path) -> int:
    """Lock a folder, in which no file appears, until the descriptor is closed. Raises BlockingIOError if another holds the lock."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise
    return descriptor


def is_locked(path: Path) -> bool:
    """Return whether a process holds the lock of a file. Raises OSError if there is no file."""
    with path.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False

"""Files of a batch prediction job: lock its folder, replace its state in one step, check its input."""

import errno
import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from online.errors import BadInput, Conflict, Unavailable
from online.io.atomic import sync_folder, write_file
from online.io.locks import lock_folder

READ_BYTES = 1 << 20

Check = Callable[[], None]  # called at intervals by long reads; raises an error to end them


@contextmanager
def reporting_disk_errors() -> Iterator[None]:
    """Raise Unavailable for an error of the disk to which results are written."""
    try:
        yield
    except OSError as error:
        raise Unavailable(
            f"the results cannot be written: {error.strerror}; what is done is kept, and the same job continues from there"
        ) from None


def lock_results(folder: Path) -> int:
    """Lock a folder until the returned file descriptor is closed. Raises Conflict."""
    try:
        return lock_folder(folder)
    except BlockingIOError:
        raise Conflict("another job is writing to the folder for the results") from None


def replace_durably(path: Path, data: bytes) -> None:
    """Replace a file in one step, and wait until it is on the disk."""
    aside = path.with_name(f".{path.name}.new")
    write_file(aside, data, durable=True)
    os.replace(aside, path)
    sync_folder(path.parent)


def file_stamp(path: Path) -> tuple[int, int, int]:
    """Return identity, size and time of a file, which change when its content does.

    Raises BadInput, also for what is no file: a pipe may never have an end.
    """
    try:
        status = path.stat()
    except OSError as error:
        raise BadInput(f"{path.name} cannot be read: {error.strerror}") from None
    if stat.S_ISDIR(status.st_mode):
        raise BadInput(f"{path.name} cannot be read: {os.strerror(errno.EISDIR)}")
    if not stat.S_ISREG(status.st_mode):
        raise BadInput(f"{path.name} is not a regular file; copy what it holds into one")
    return status.st_ino, status.st_size, status.st_mtime_ns


def sha256_of(path: Path, check: Check) -> str:
    """Never waits for a pipe that takes the place of the file. Raises BadInput if the file cannot be read."""
    digest = hashlib.sha256()
    try:
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            while piece := file.read(READ_BYTES):
                check()
                digest.update(piece)
        return digest.hexdigest()
    except OSError as error:
        raise BadInput(f"{path.name} cannot be read: {error.strerror}") from None

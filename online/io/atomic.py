"""Write files so that a reader or a crash never sees half of one.

write aside (fsync) --rename--> the name that readers know (fsync of its folder)
"""

import os
from pathlib import Path


def write_file(path: Path, data: bytes, durable: bool, mode: int = 0o666) -> None:
    """Write a new file. If durable, its content is on the disk when this returns.

    mode: the permissions to create it with, of which the umask of the process takes some away.
    """
    with open(path, "wb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
        file.write(data)
        if durable:
            file.flush()
            os.fsync(file.fileno())


def replace_file(path: Path, data: bytes, durable: bool, mode: int = 0o666) -> None:
    """Replace a file in one step: readers see the old content or the new. mode: as in `write_file`."""
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    write_file(aside, data, durable, mode)
    os.replace(aside, path)
    if durable:
        sync_folder(path.parent)


def sync_file(path: Path) -> None:
    """Wait until the content of a file is on the disk."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())


def sync_folder(path: Path) -> None:
    """Wait until the names in a folder are on the disk."""
    end = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(end)
    finally:
        os.close(end)

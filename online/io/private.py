"""Files and folders that only their user can read, whatever the umask of the process is that made them."""

import os
import stat
from contextlib import suppress
from pathlib import Path

OTHERS = 0o077  # the permissions of the group and of all others


def create_private(path: Path) -> None:
    """Create an empty file if there is none, and take the permissions of others away from one that there is."""
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    make_private(path)


def make_private(path: Path) -> None:
    """Take the permissions of others away from a file, or from a folder and all that is in it.

    Links are not followed. What belongs to somebody else, or disappears meanwhile, stays as it is.
    """
    _restrict(path)
    for root, folders, files in os.walk(path):
        for name in (*folders, *files):
            _restrict(Path(root, name))


def _restrict(path: Path) -> None:
    with suppress(OSError):
        mode = path.lstat().st_mode
        if mode & OTHERS and not stat.S_ISLNK(mode):
            path.chmod(stat.S_IMODE(mode) & ~OTHERS)

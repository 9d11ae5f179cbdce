"""Locks between processes."""

from pathlib import Path

import pytest

from online.io.locks import is_locked, lock_file, lock_folder


def test_a_locked_file_is_refused_until_it_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with lock_file(path, mode=0o600):
        assert (is_locked(path), path.stat().st_mode & 0o777) == (True, 0o600)
        with pytest.raises(BlockingIOError):
            lock_file(path, wait=False)
    assert not is_locked(path)
    lock_file(path, wait=False).close()


def test_a_locked_folder_is_refused(tmp_path: Path) -> None:
    lock_folder(tmp_path)
    with pytest.raises(BlockingIOError):
        lock_folder(tmp_path)

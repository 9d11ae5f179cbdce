"""Checkpoints of the write-ahead log: it is copied beside the writers, and starts over when it is full."""

import sqlite3
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import text

from online.store import Store
from online.store.database import sqlite_checkpoints
from online.store.database.sqlite_checkpoints import Checkpointer
from tests.preload import launcher
from tests.support import until

PAGE = b"." * 4_000


def insert_rows(connection: sqlite3.Connection, rows: int) -> None:
    for _ in range(rows):
        connection.execute("INSERT INTO seen VALUES (?)", (PAGE,))


@pytest.fixture
def database(tmp_path: Path) -> Path:
    with sqlite3.connect(tmp_path / "a.db") as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("CREATE TABLE seen (what BLOB)")
    return tmp_path / "a.db"


@pytest.fixture
def writer(database: Path) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(database, isolation_level=None)
    connection.execute("PRAGMA wal_autocheckpoint=0")
    connection.execute("PRAGMA synchronous=OFF")
    yield connection
    connection.close()


def test_the_index_gives_the_number_of_frames_to_copy(database: Path, writer: sqlite3.Connection) -> None:
    checkpointer = Checkpointer(str(database))
    insert_rows(writer, 50)
    frames, copied = checkpointer.frames()
    busy, logged, done = writer.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
    assert (busy, frames, copied) == (0, logged, 0) and frames >= 50
    assert checkpointer.frames() == (logged, done) == (frames, frames)
    checkpointer.close()


def test_without_a_log_there_are_no_frames(tmp_path: Path) -> None:
    checkpointer = Checkpointer(str(tmp_path / "none.db"))
    assert checkpointer.frames() == (0, 0)
    checkpointer.after_commit()
    checkpointer.close()


def test_a_long_log_is_copied_and_a_short_one_is_not(database: Path, writer: sqlite3.Connection) -> None:
    checkpointer = Checkpointer(str(database))
    insert_rows(writer, 100)
    checkpointer.after_commit()
    assert checkpointer.frames()[1] == 0
    insert_rows(writer, sqlite_checkpoints.LONG)
    checkpointer.after_commit()
    until(lambda: checkpointer.frames()[1] >= sqlite_checkpoints.LONG, 20, "the copy")
    checkpointer.close()
    assert not [each for each in threading.enumerate() if each.name == "store-checkpointer"]


def test_a_full_log_starts_over(database: Path, writer: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_checkpoints, "LONG", 20)
    monkeypatch.setattr(sqlite_checkpoints, "FULL", 200)
    monkeypatch.setattr(sqlite_checkpoints, "AGAIN_S", 0.5)
    checkpointer = Checkpointer(str(database))
    with closing(sqlite3.connect(database, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM seen").fetchall()  # a reader keeps its snapshot, so the log cannot start over
        for _ in range(30):
            began = time.monotonic()
            insert_rows(writer, 10)
            assert time.monotonic() - began < 2  # a writer never waits for long
            checkpointer.after_commit()
    rows, longest, deadline = 300, checkpointer.frames()[0], time.monotonic() + 30
    while checkpointer.frames()[0] >= longest and time.monotonic() < deadline:
        insert_rows(writer, 10)
        rows += 10
        checkpointer.after_commit()
        time.sleep(0.001)  # let the checkpointer run
    assert longest >= 200 > checkpointer.frames()[0]
    checkpointer.close()
    assert writer.execute("SELECT count(*) FROM seen").fetchone() == (rows,)
    assert writer.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_the_commits_of_a_killed_process_are_kept(tmp_path: Path) -> None:
    """Regardless of how much of the log is copied."""
    code = f"""
import os, signal
from sqlalchemy import text
from online.store import Store
store = Store("sqlite:///{tmp_path}/a.db")
store.submit(lambda c: c.execute(text("CREATE TABLE seen (n INTEGER, what BLOB)"))).result()
for n in range(2_500):
    store.submit(lambda c: c.execute(text("INSERT INTO seen VALUES (:n, :w)"), dict(n=n, w=b"." * 4000)), False).result()
    print(n, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    process = subprocess.run([launcher(), "-c", code], capture_output=True, text=True, check=False)
    last_committed = int(process.stdout.split()[-1])
    store = Store(f"sqlite:///{tmp_path}/a.db")
    assert last_committed == 2_499, process.stderr
    assert store.read(lambda c: c.execute(text("SELECT count(*), max(n) FROM seen")).one()) == (2_500, 2_499)
    store.close()

"""The write-ahead log is copied beside the writers, stays short when they pause, and starts over when they do not."""

import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import text

from online import wal
from online.store import Store
from online.wal import Checkpointer
from tests.support import until

PAGE = b"." * 4_000


def written(connection: sqlite3.Connection, rows: int) -> None:
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


def test_its_index_says_how_many_frames_wait(database: Path, writer: sqlite3.Connection) -> None:
    checkpointer = Checkpointer(str(database))
    written(writer, 50)
    frames, copied = checkpointer.frames()
    busy, logged, done = writer.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
    assert (busy, frames, copied) == (0, logged, 0) and frames >= 50
    assert checkpointer.frames() == (logged, done) == (frames, frames)
    checkpointer.close()


def test_no_log_is_no_frames(tmp_path: Path) -> None:
    checkpointer = Checkpointer(str(tmp_path / "none.db"))
    assert checkpointer.frames() == (0, 0)
    checkpointer.wrote()
    checkpointer.close()


def test_a_long_one_is_copied_and_a_short_one_is_left(database: Path, writer: sqlite3.Connection) -> None:
    checkpointer = Checkpointer(str(database))
    written(writer, 100)
    checkpointer.wrote()
    assert checkpointer.frames()[1] == 0
    written(writer, wal.LONG)
    checkpointer.wrote()
    until(lambda: checkpointer.frames()[1] >= wal.LONG, 20, "the copy")
    checkpointer.close()
    assert not [each for each in threading.enumerate() if each.name == "store-checkpointer"]


def test_it_starts_over_before_it_grows_for_ever(
    database: Path, writer: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wal, "LONG", 20)
    monkeypatch.setattr(wal, "FULL", 200)
    monkeypatch.setattr(wal, "AGAIN_S", 0.5)
    checkpointer = Checkpointer(str(database))
    with closing(sqlite3.connect(database, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM seen").fetchall()  # what it sees must stay: nobody can start over
        for _ in range(30):
            began = time.monotonic()
            written(writer, 10)
            assert time.monotonic() - began < 2  # whoever writes is held up for moments only
            checkpointer.wrote()
    rows, longest, gives_up = 300, checkpointer.frames()[0], time.monotonic() + 30
    while checkpointer.frames()[0] >= longest and time.monotonic() < gives_up:
        written(writer, 10)
        rows += 10
        checkpointer.wrote()
        time.sleep(0.001)  # somebody else's turn
    assert longest >= 200 > checkpointer.frames()[0]
    checkpointer.close()
    assert writer.execute("SELECT count(*) FROM seen").fetchone() == (rows,)
    assert writer.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_what_a_killed_process_had_committed_is_there(tmp_path: Path) -> None:
    """However far the copy had come."""
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
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    last = int(told.stdout.split()[-1])
    store = Store(f"sqlite:///{tmp_path}/a.db")
    assert last == 2_499, told.stderr
    assert store.read(lambda c: c.execute(text("SELECT count(*), max(n) FROM seen")).one()) == (2_500, 2_499)
    store.close()

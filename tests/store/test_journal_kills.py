"""Processes that are killed at points of writing and copying: every acknowledged prediction is in the store once.

One process imports everything, then forks a child for each kill. A child writes and copies until it reaches its point for the
n-th time, and kills itself there; the next one goes on in the same folder.
"""

import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import select

from online.journal import list_segments
from online.store import Store
from online.store.database.meta import META
from online.store.journal_copy import JournalCopy, copy_all
from online.store.predictions import PREDICTIONS

POINTS = (
    "before a write",
    "in the middle of a write",
    "after a write",
    "before a seal",
    "after a seal",
    "in the middle of a transaction",
    "between commit and deletion",
    "between the deletions of file and position",
    "in the transaction that deletes positions",
)

CHILDREN = """
import os, random, signal, sys
from pathlib import Path
from online import journal
from online.store import Store, journal_copy
from tests.store.test_journal_copy import frame
from tests.store.test_journal_kills import POINTS

folder, url, kills = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
journal.MAX_SEGMENT_BYTES = 3_000

def run(number):
    chance = random.Random(number)
    point, left = POINTS[number % len(POINTS)], chance.randrange(1, 4)

    def reach(name):
        nonlocal left
        if name == point:
            left -= 1
            if not left:
                os.kill(os.getpid(), signal.SIGKILL)

    def surround(owner, name, before=None, after=None):
        inner = getattr(owner, name)
        def outer(*arguments):
            reach(before)
            result = inner(*arguments)
            reach(after)
            return result
        setattr(owner, name, outer)

    def write_in_halves(file, data):
        reach("before a write")
        os.write(file, data[: len(data) // 2])
        reach("in the middle of a write")
        os.write(file, data[len(data) // 2 :])
        reach("after a write")

    journal.write_all = write_in_halves
    surround(journal.Segment, "seal", "before a seal", "after a seal")
    surround(journal_copy.JournalCopy, "_insert", None, "in the middle of a transaction")
    surround(journal_copy.JournalCopy, "note_committed", "between commit and deletion", None)
    surround(journal_copy.JournalCopy, "_delete", None, "between the deletions of file and position")
    surround(journal_copy, "forget_positions", None, "in the transaction that deletes positions")
    store, copy = Store(url), journal_copy.JournalCopy(folder / "journal")
    writers = [journal.JournalWriter(folder / "journal") for _ in range(2)]
    acknowledged = os.open(folder / "acknowledged", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    for turn in range(1_000):
        ids = [f"{number:03}-{turn:03}-{place}" for place in range(chance.randrange(1, 20))]
        chance.choice(writers).append(frame(*ids))
        os.write(acknowledged, "".join(f"{id}\\n" for id in ids).encode())
        action = chance.random()
        if action < 0.2:
            for segment in journal.list_segments(folder / "journal"):
                if chance.random() < 0.5:
                    segment.seal()
        elif action < 0.6:
            journal_copy.copy_all(store, copy, is_sealing=action < 0.3)
        elif action < 0.7:
            store.submit(copy.copy).result()

for number in range(kills):
    child = os.fork()
    if not child:
        try:
            run(number)
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL, (number, status)
"""


@pytest.mark.parametrize(
    ("database", "kills"),
    [
        ("sqlite", 18),
        ("postgres", 9),
        *(pytest.param(each, 100, marks=pytest.mark.long) for each in ("sqlite", "postgres")),
    ],
)
def test_kills_lose_nothing_and_store_nothing_twice(
    tmp_path: Path, request: pytest.FixtureRequest, database: str, kills: int
) -> None:
    sqlite = f"sqlite:///{tmp_path / 'online.db'}"
    url = sqlite if database == "sqlite" else str(request.getfixturevalue("postgres_url"))
    command = [sys.executable, "-c", CHILDREN, str(tmp_path), url, str(kills)]
    killed = subprocess.run(command, capture_output=True, text=True)
    assert killed.returncode == 0, killed.stderr
    store, journal = Store(url), JournalCopy(tmp_path / "journal")
    copy_all(store, journal, is_sealing=True)
    stored = set(store.read(lambda connection: list(connection.scalars(select(PREDICTIONS.c.id)))))
    acknowledged = (tmp_path / "acknowledged").read_text().split()
    assert len(acknowledged) == len({*acknowledged}) > 10 * kills
    assert stored >= {*acknowledged}, "all that was acknowledged is stored"
    turns = {id.rpartition("-")[0] for id in stored - {*acknowledged}}
    assert len(turns) <= kills, "of what was not acknowledged, at most the last frame of each process"
    assert list_segments(tmp_path / "journal") == [] and not [*(tmp_path / "journal").iterdir()]
    positions = select(META.c.key).where(META.c.key.startswith("journal/"))
    left = store.read(lambda connection: len(connection.scalars(positions).all()))
    assert left <= kills // len(POINTS) * 5, "only kills between two deletions leave positions, for a while"
    store.close()

"""Worker processes on this machine: they join a learner's board, are replaced when they die, and end with the block."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import SecretStr

from online.plugins.workers.board import ShareBoard
from online.plugins.workers.local_workers import LocalWorkers
from online.settings import Settings
from tests.support import until

KEY = "a key for these tests"


@pytest.fixture
def board(tmp_path: Path) -> Iterator[ShareBoard]:
    opened = ShareBoard(str(tmp_path / "board"), KEY.encode())
    yield opened
    opened.close()


def test_a_worker_that_is_killed_is_replaced_and_all_end_with_the_block(board: ShareBoard, tmp_path: Path) -> None:
    settings = Settings.model_validate({"state": tmp_path / "state", "learn_workers": 2, "workers_key": SecretStr(KEY)})
    with LocalWorkers(settings, board.address) as workers:
        until(lambda: board.worker_count == 2, what="two workers")
        killed, spared = workers.pids
        os.kill(killed, signal.SIGKILL)
        until(lambda: len(workers.pids) == 2 and killed not in workers.pids, what="another process in its place")
        until(lambda: board.worker_count == 2, what="its joining")
        pids = workers.pids
        assert spared in pids
        assert killed not in pids
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), what="the end of both")

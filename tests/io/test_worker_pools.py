"""Pools of processes: results in the order of the pieces, whatever dies."""

import os
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from online.errors import Unavailable
from online.io.worker_pools import MAX_POOLS, ProcessPool, do_in_order

LAST = 40
DEADLY = 11


def create_squarer(parent: int, marker: Path | None) -> Callable[[int], int]:
    """A worker that dies of one piece: once if there is a marker, else always, but never in the process `parent`."""

    def square(number: int) -> int:
        if number == DEADLY and os.getpid() != parent and not (marker and marker.exists()):
            if marker:
                marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return number * number

    return square


def square_all(parent: int, marker: Path | None) -> list[int]:
    create = partial(create_squarer, parent, marker)
    return [*do_in_order(range(LAST), lambda: ProcessPool(2, create, [__name__]), create())]


def test_results_come_in_the_order_of_the_pieces_though_a_worker_dies(tmp_path: Path) -> None:
    assert square_all(os.getpid(), tmp_path / "died") == [number * number for number in range(LAST)]
    assert (tmp_path / "died").exists()


class ShortLivedPool(ProcessPool[int, int]):
    """A pool whose processes die of whatever they get."""

    opened = 0

    def __init__(self) -> None:
        ShortLivedPool.opened += 1
        super().__init__(1, partial(create_squarer, 0, None), [__name__])

    def submit(self, piece: int) -> Callable[[], int]:
        return super().submit(DEADLY)


def test_work_whose_workers_are_lost_again_and_again_is_given_up() -> None:
    with pytest.raises(Unavailable, match=f"the workers were lost {MAX_POOLS + 1} times"):
        list(do_in_order(range(LAST), ShortLivedPool, lambda number: number))
    assert ShortLivedPool.opened == MAX_POOLS + 1

"""Too little memory: smaller pieces, then an exception that says how far it came; and who is informed."""

import threading

import pytest
import torch

from online.models.devices.fallback import (
    Fallback,
    PieceSize,
    SmallestBatchTooLarge,
    listening,
    note_fallback,
    run_in_pieces,
)


class Room:
    """Work that fits `most` rows at once. done: the pieces that fitted."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.done = list[tuple[int, int]]()

    def work(self, start: int, stop: int) -> None:
        if stop - start > self.most:
            raise torch.OutOfMemoryError(f"{stop - start} rows do not fit")
        self.done.append((start, stop))


def test_work_that_does_not_fit_is_done_in_halves_and_later_work_begins_so() -> None:
    room, size, noted = Room(300), PieceSize(1_000), list[Fallback]()
    with listening(noted.append):
        assert run_in_pieces(room.work, 1_000, size, "sums", "cuda:0") == 1_000
    assert room.done == [(0, 250), (250, 500), (500, 750), (750, 1_000)]
    assert [each.to for each in noted] == ["with 500 rows at once", "with 250 rows at once"]
    room.done.clear()
    run_in_pieces(room.work, 250, size, "sums", "cuda:0")
    assert room.done == [(0, 250)]


def test_rows_that_do_not_fit_one_least_piece_at_a_time_are_given_back() -> None:
    room = Room(100)
    size = PieceSize(64)
    run_in_pieces(room.work, 64, size, "sums", "cuda:0")
    room.most = 0
    with pytest.raises(SmallestBatchTooLarge) as raised:
        run_in_pieces(room.work, 1_000, size, "sums", "cuda:0")
    assert raised.value.done == 0


def test_only_the_thread_that_listens_is_informed() -> None:
    here, there = list[Fallback](), list[Fallback]()

    def other() -> None:
        with listening(there.append):
            note_fallback("sums", "cuda:1", "on the CPU", torch.OutOfMemoryError("full\nadvice"))

    thread = threading.Thread(target=other)
    with listening(here.append):
        thread.start()
        thread.join()
    assert here == []
    assert there == [Fallback("sums", "cuda:1", "on the CPU", "full")]

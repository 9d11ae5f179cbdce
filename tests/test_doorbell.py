import os
from pathlib import Path

from online.doorbell import Doorbell


def test_a_ring_wakes_every_listener(tmp_path: Path) -> None:
    bell = Doorbell(tmp_path)
    listeners = [bell.listen() for _ in range(3)]
    bell.ring()
    assert [listener.wait(5) for listener in listeners] == [True, True, True]


def test_a_ring_before_the_wait_is_not_lost(tmp_path: Path) -> None:
    bell = Doorbell(tmp_path)
    listener = bell.listen()
    bell.ring()
    assert listener.wait(0)


def test_many_rings_are_one(tmp_path: Path) -> None:
    bell = Doorbell(tmp_path)
    listener = bell.listen()
    for _ in range(70_000):  # more than a pipe holds: ringing never blocks
        bell.ring()
    assert listener.wait(0)
    assert not listener.wait(0)


def test_a_dead_listeners_bell_is_swept_away(tmp_path: Path) -> None:
    bell = Doorbell(tmp_path)
    listener = bell.listen()
    os.close(listener.fileno())
    bell.ring()
    assert not listener.path.exists()


def test_nobody_listening_is_no_error(tmp_path: Path) -> None:
    Doorbell(tmp_path).ring()

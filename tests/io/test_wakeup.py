"""Wake-ups between processes of one machine."""

import os
from pathlib import Path

from online.io.wakeup import Wakeup


def test_a_notification_wakes_every_listener(tmp_path: Path) -> None:
    wakeup = Wakeup(tmp_path)
    listeners = [wakeup.listen() for _ in range(3)]
    wakeup.notify()
    assert [listener.wait(5) for listener in listeners] == [True, True, True]


def test_a_notification_before_the_wait_is_not_lost(tmp_path: Path) -> None:
    wakeup = Wakeup(tmp_path)
    listener = wakeup.listen()
    wakeup.notify()
    assert listener.wait(0)


def test_many_notifications_wake_a_listener_once(tmp_path: Path) -> None:
    wakeup = Wakeup(tmp_path)
    listener = wakeup.listen()
    for _ in range(70_000):  # more than a pipe holds: a notification never blocks
        wakeup.notify()
    assert listener.wait(0)
    assert not listener.wait(0)


def test_the_file_of_a_dead_listener_is_removed(tmp_path: Path) -> None:
    wakeup = Wakeup(tmp_path)
    listener = wakeup.listen()
    os.close(listener.fileno())
    wakeup.notify()
    assert not listener.path.exists()


def test_a_notification_without_listeners_is_no_error(tmp_path: Path) -> None:
    Wakeup(tmp_path).notify()

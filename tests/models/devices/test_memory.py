"""The share of a device's memory: a fraction, a cap in bytes, and whether it is taken at once."""

import logging

import pytest

from online.models.devices.memory import MemoryShare, apply_share
from tests.models.devices.fakes import GIB, FakeDevices


def test_the_smaller_of_share_and_cap_counts_on_each_device_that_is_used() -> None:
    devices = FakeDevices("cuda:0", "cuda:1", "cuda:2")
    caps = apply_share(MemoryShare(0.5, 4 * GIB), ["cpu", "cuda:0", "cuda:2", "cuda:0"], devices)
    assert caps == {"cuda:0": 4 * GIB, "cuda:2": 4 * GIB}
    assert devices.limits == {"cuda:0": 0.25, "cuda:2": 0.25}
    assert apply_share(MemoryShare(0.125, 4 * GIB), ["cuda:1"], devices) == {"cuda:1": 2 * GIB}


def test_memory_grows_unless_it_is_reserved() -> None:
    devices = FakeDevices("cuda:0")
    apply_share(MemoryShare(0.5), ["cuda:0"], devices)
    assert devices.reserved == {}
    apply_share(MemoryShare(0.5, growth="reserve"), ["cuda:0"], devices)
    assert devices.reserved == {"cuda:0": 8 * GIB}


def test_a_share_that_others_have_taken_is_not_reserved_and_the_log_says_so(caplog: pytest.LogCaptureFixture) -> None:
    devices = FakeDevices("cuda:0", free_bytes=GIB)
    with caplog.at_level(logging.WARNING, "online.models"):
        caps = apply_share(MemoryShare(0.5, growth="reserve"), ["cuda:0"], devices)
    assert caps == {"cuda:0": 8 * GIB} and devices.reserved == {}
    assert "of cuda:0 cannot be reserved" in caplog.text

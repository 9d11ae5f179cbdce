"""Devices by their names: those that exist, those that do not, and several of them."""

from pathlib import Path

import pytest

from online.errors import SetupError
from online.models.devices.placement import (
    find_device,
    find_devices,
    first_device,
    join_devices,
    split_devices,
    spread_device,
)
from online.models.devices.probe import SystemDevices, measure_cpu, read_memory
from tests.models.devices.fakes import FakeDevices

TWO_GPUS = FakeDevices("cuda:0", "cuda:1")


@pytest.mark.parametrize(
    ("wanted", "found"), [("auto", "cuda:0"), ("cuda", "cuda:0"), ("cuda:1", "cuda:1"), ("cpu", "cpu")]
)
def test_a_device_is_found_by_its_name(wanted: str, found: str) -> None:
    assert find_device(wanted, TWO_GPUS) == found


def test_without_an_accelerator_auto_is_the_cpu() -> None:
    assert find_device("auto", FakeDevices()) == "cpu"


@pytest.mark.parametrize("wanted", ["cuda:2", "xpu", "gpu"])
def test_a_device_that_does_not_exist_is_refused_with_those_that_do(wanted: str) -> None:
    with pytest.raises(
        SetupError, match=f"learn_on: there is no device '{wanted}'; this machine has cpu, cuda:0, cuda:1"
    ):
        find_device(wanted, TWO_GPUS, "learn_on")


def test_processes_on_one_machine_spread_over_its_accelerators() -> None:
    assert [spread_device("auto", place, TWO_GPUS) for place in range(3)] == ["cuda:0", "cuda:1", "cuda:0"]
    assert spread_device("cuda", 1, TWO_GPUS) == "cuda:1"
    assert spread_device("cuda:0", 1, TWO_GPUS) == "cuda:0"  # it was named
    assert spread_device("cpu", 1, TWO_GPUS) == spread_device("auto", 1, FakeDevices()) == "cpu"


def test_several_devices_are_named_once_each_and_in_order() -> None:
    found = find_devices(["cuda:1", "auto", "cuda"], TWO_GPUS, "serve_on")
    assert found == ("cuda:1", "cuda:0")
    assert split_devices(join_devices(found)) == found
    assert first_device(join_devices(found)) == "cuda:1"


def test_this_machine_has_a_cpu_with_cores_and_memory() -> None:
    cpu = measure_cpu()
    assert SystemDevices().list_names()[0] == cpu.name == "cpu"
    assert cpu.cores is not None and cpu.cores >= 1
    assert cpu.total_bytes is not None and cpu.free_bytes is not None and cpu.used_bytes is not None
    assert 0 < cpu.free_bytes < cpu.total_bytes == cpu.free_bytes + cpu.used_bytes


def test_a_system_that_does_not_say_its_memory_has_none_known(tmp_path: Path) -> None:
    assert read_memory(tmp_path / "missing") == (None, None)

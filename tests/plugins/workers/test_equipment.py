"""Which processes can learn a tower together, and how much memory each of them has for it."""

import pytest
import torch

from online.plugins.workers.equipment import DeviceCapacity, can_join, describe_device, share_memory

CPU, OTHER_CPU = DeviceCapacity("cpu", "host", 1_000), DeviceCapacity("cpu", "other", 500)
CARD, OTHER_CARD = DeviceCapacity("cuda", "GPU-1", 80), DeviceCapacity("cuda", "GPU-2", 80)


def test_processes_join_with_devices_of_one_type() -> None:
    assert can_join(CPU, [CPU], CPU) and can_join(CPU, [], OTHER_CPU)
    assert not can_join(CPU, [], CARD) and not can_join(CARD, [], CPU)


def test_each_card_serves_one_process() -> None:
    assert can_join(CARD, [], OTHER_CARD)
    assert not can_join(CARD, [], CARD)
    assert not can_join(CARD, [OTHER_CARD], OTHER_CARD)


def test_processes_on_one_processor_share_its_memory() -> None:
    assert share_memory([CPU, CPU, OTHER_CPU]) == [500, 500, 500]
    assert share_memory([CARD, OTHER_CARD]) == [80, 80]


def test_equipment_survives_the_connection() -> None:
    found = describe_device(torch.device("cpu"))
    assert found.type == "cpu" and found.free_bytes > 0
    assert DeviceCapacity.unpack(found.pack()) == found


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b'{"type": "cpu", "unit": "host", "free_bytes": "many"}'])
def test_other_messages_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError):
        DeviceCapacity.unpack(data)

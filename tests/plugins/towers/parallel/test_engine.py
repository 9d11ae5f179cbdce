"""The engine that a tower on several devices gets, by what it needs and what they have free."""

import pytest
import torch

from online.plugins.towers.layout import ParameterLayout
from online.plugins.towers.networks import Mlp
from online.plugins.towers.parallel.blocks import block_bounds, block_sizes
from online.plugins.towers.parallel.engine import (
    USABLE,
    TowerSize,
    choose_engine,
    describe_needless_split,
    free_bytes,
    measure_demand,
)
from online.plugins.towers.stack import LearningOptions, Stack

pytestmark = pytest.mark.long

EVEN = TowerSize(copies=3, block_bytes=(100, 100, 100, 100))


def choose(demand: TowerSize, ranks: int, usable_bytes: int) -> str:
    return choose_engine(demand, [int(usable_bytes / USABLE) + 1] * ranks)


def test_the_demand_is_what_a_stack_holds_and_a_gradient() -> None:
    layout = ParameterLayout(Mlp(5, [8, 6]), 4)
    stack = Stack(layout, LearningOptions((0.01, 0.1), 0.01, 0.9), torch.device("cpu"))
    held = stack.parameters_LP, stack.average_LP, stack.mean_LP, stack.square_LP, torch.zeros_like(stack.mean_LP)
    assert measure_demand(layout, 2).whole_bytes == sum(tensor.numel() * tensor.element_size() for tensor in held)


def test_a_tower_that_fits_one_device_is_mirrored() -> None:
    assert choose(EVEN, 1, EVEN.whole_bytes) == "ddp"
    assert choose(EVEN, 4, EVEN.whole_bytes) == "ddp"


def test_a_tower_that_fits_the_devices_together_is_sharded() -> None:
    assert choose(EVEN, 4, EVEN.fsdp_bytes(4)) == "fsdp"


def test_without_room_for_a_gathered_layer_the_layers_are_spread() -> None:
    assert choose(EVEN, 4, EVEN.fsdp_bytes(4) - 1) == "pipeline"
    assert choose(EVEN, 4, EVEN.whole_bytes // 4) == "pipeline"


@pytest.mark.parametrize(("ranks", "usable"), [(1, EVEN.whole_bytes - 1), (4, EVEN.whole_bytes // 4 - 1)])
def test_a_tower_that_fits_nowhere_is_refused_with_the_figures(ranks: int, usable: int) -> None:
    with pytest.raises(ValueError, match=rf"does not fit {ranks} device.*ddp 6,000.*use more devices"):
        choose(EVEN, ranks, usable - 1)


def test_more_ranks_than_layers_are_no_pipeline() -> None:
    assert EVEN.pipeline_bytes(5) is None
    with pytest.raises(ValueError, match="4 layers cannot be split over 5 ranks"):
        block_bounds((100, 100, 100, 100), 5)


def test_the_device_with_least_memory_decides() -> None:
    enough = int(EVEN.whole_bytes / USABLE) + 1
    assert choose_engine(EVEN, [enough, enough]) == "ddp"
    assert choose_engine(EVEN, [enough, enough - 10]) == "fsdp"


def test_stages_are_of_about_equal_size() -> None:
    assert block_bounds((9, 1, 1, 1, 6), 2) == [0, 1, 5]
    assert block_bounds((1, 1, 1, 9), 3) == [0, 1, 3, 4]
    assert block_bounds(block_sizes(ParameterLayout(Mlp(5, [8, 6]), 4)), 1) == [0, 3]


def test_ranks_that_share_a_machine_share_its_memory() -> None:
    alone, shared = free_bytes(torch.device("cpu")), free_bytes(torch.device("cpu"), sharing=4)
    assert 0 < shared < alone


@pytest.mark.parametrize(
    ("engine", "free", "is_needless"),
    [
        ("fsdp", 2_400, True),
        ("pipeline", 2_400, True),
        ("fsdp", 2_399, False),
        ("ddp", 10_000, False),
        ("auto", 10_000, False),
    ],
)
def test_a_split_is_needless_where_one_device_holds_the_tower_in_a_quarter_of_its_memory(
    engine: str, free: int, is_needless: bool
) -> None:
    reason = describe_needless_split(TowerSize(3, (20, 20)), engine, free)
    assert (reason is not None) == is_needless
    if reason is not None:
        assert reason.startswith("the tower needs 600 bytes, and its device has 2,400 free")

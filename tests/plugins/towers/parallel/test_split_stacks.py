"""Towers that are split over ranks learn what one process learns, and their state moves between all of them."""

from typing import Any

import pytest
import torch

from benchmarks.ranks import run_ranks
from online.plugins.towers.parallel.split_copy import SplitCopy
from tests.plugins.towers.parallel import scenes

pytestmark = pytest.mark.long

EQUAL = 1e-6
SPLIT = ["fsdp", "offloaded fsdp", "gpipe", "1f1b", "fsdp of a module", "1f1b of a module"]


@pytest.fixture(scope="module")
def two_ranks(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    return run_ranks(2, tmp_path_factory.mktemp("two"), scenes.all_scenes)


@pytest.mark.parametrize("name", SPLIT)
def test_every_step_of_a_split_tower_is_that_of_one_process(two_ranks: list[dict[str, Any]], name: str) -> None:
    for rank in two_ranks:
        assert rank["engines"][name]["step"] <= EQUAL


@pytest.mark.parametrize("name", SPLIT)
def test_the_whole_state_is_gathered_from_the_ranks(two_ranks: list[dict[str, Any]], name: str) -> None:
    for rank in two_ranks:
        assert rank["engines"][name]["state"] == 0


@pytest.mark.parametrize("name", SPLIT)
def test_every_rank_gets_the_logits_of_the_averages(two_ranks: list[dict[str, Any]], name: str) -> None:
    for rank in two_ranks:
        assert rank["engines"][name]["logits"] <= EQUAL


@pytest.mark.parametrize("name", SPLIT)
def test_a_split_tower_grows_for_more_classes_and_columns(two_ranks: list[dict[str, Any]], name: str) -> None:
    for rank in two_ranks:
        assert rank["engines"][name]["grown"] <= EQUAL


@pytest.mark.parametrize("name", SPLIT)
def test_the_ranks_share_the_memory(two_ranks: list[dict[str, Any]], name: str) -> None:
    shares = [rank["engines"][name]["held"] for rank in two_ranks]
    assert sum(shares) == pytest.approx(1)
    assert max(shares) < 0.65


def test_a_rank_without_a_row_takes_part(two_ranks: list[dict[str, Any]]) -> None:
    assert max(rank["few rows"] for rank in two_ranks) <= EQUAL


def test_a_tower_that_was_learned_on_two_ranks_continues_on_one(two_ranks: list[dict[str, Any]]) -> None:
    whole, expected = scenes.whole_stack(scenes.own_layout()), scenes.whole_stack(scenes.own_layout())
    whole.restore(two_ranks[0]["learned"])
    for _ in range(3):
        scenes.descend(expected, scenes.Batch(0))
    assert scenes.difference(whole.tensors(), expected.tensors()) <= EQUAL
    for stack in (whole, expected):
        scenes.descend(stack, scenes.Batch(1))
    assert scenes.difference(whole.tensors(), expected.tensors()) <= EQUAL


def test_a_copy_that_was_learned_in_parts_answers_from_several_devices(two_ranks: list[dict[str, Any]]) -> None:
    layout, x_BD = scenes.own_layout(), scenes.Batch(7).x_BD
    row_1P = torch.from_numpy(two_ranks[0]["learned"]["average_LP"][1:2])
    split = SplitCopy(layout, row_1P, [scenes.CPU, scenes.CPU])
    expected_BC = layout.logits(layout.views(row_1P), x_BD)[0]
    assert float((split.logits(x_BD) - expected_BC).abs().max()) <= EQUAL
    assert sum(split.held_bytes()) == 4 * row_1P.numel()
    assert len(split.held_bytes()) == 2
    assert row_1P.any()

"""Towers with split matrices, stashed weights and checkpoints in parts: equal to one process."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.ranks import run_ranks
from labs.split_towers.tests import scenes
from tests.plugins.towers.parallel.scenes import own_layout

EQUAL = 1e-6


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("parts")


@pytest.fixture(scope="module")
def two_ranks(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    return run_ranks(2, tmp_path_factory.mktemp("two"), scenes.all_scenes, checkpoint)


def test_a_tensor_parallel_tower_learns_what_one_process_learns(two_ranks: list[dict[str, Any]]) -> None:
    for rank in two_ranks:
        assert rank["tensor"]["state"] == 0
        assert max(rank["tensor"][each] for each in ("step", "logits", "grown")) <= EQUAL


def test_a_tensor_parallel_rank_holds_half_of_the_wide_ends(two_ranks: list[dict[str, Any]]) -> None:
    layout = own_layout()
    sizes = dict(zip(layout.shapes, layout.sizes, strict=True))
    ends = sizes["0.weight"] + sizes["head weight"] + sizes["head bias"]
    shares = [rank["tensor"]["held"] for rank in two_ranks]
    assert sum(shares) == pytest.approx(2 - ends / sum(layout.sizes))


def test_a_loss_over_sharded_classes_has_the_gradient_of_gathered_logits(two_ranks: list[dict[str, Any]]) -> None:
    assert max(rank["sharded loss"] for rank in two_ranks) <= EQUAL


def test_stashed_weights_give_the_gradient_of_one_process_with_them(two_ranks: list[dict[str, Any]]) -> None:
    assert max(rank["stashing"]["difference"] for rank in two_ranks) <= EQUAL


def test_the_earlier_stage_computes_on_older_weights(two_ranks: list[dict[str, Any]]) -> None:
    first, last = (rank["stashing"] for rank in two_ranks)
    assert first["ages"] == [0, *range(11)]
    assert last["ages"] == list(range(12))
    assert (first["in flight"], last["in flight"]) == ([2], [1])


def test_parts_that_two_ranks_saved_are_restored_by_three_on_any_engine(
    two_ranks: list[dict[str, Any]], checkpoint: Path, tmp_path: Path
) -> None:
    saved = two_ranks[0]["saved"]
    for rank in run_ranks(3, tmp_path, scenes.restored_parts, checkpoint):
        assert set(rank) == {"fsdp", "1f1b", "tensor"}
        for found in rank.values():
            assert all(np.array_equal(found[name], tensor) for name, tensor in saved.items())


def test_parts_are_saved_without_pickle(two_ranks: list[dict[str, Any]], checkpoint: Path) -> None:
    assert {path.suffix for path in checkpoint.iterdir()} == {".safetensors"}
    assert len(list(checkpoint.iterdir())) == len(two_ranks)

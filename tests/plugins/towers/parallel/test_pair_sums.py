"""Sums in a fixed order: equal bits wherever the parts were added."""

import numpy as np
import pytest
import torch

from online.plugins.towers.parallel.pair_sums import add_in_pairs, fits, most_ranks

pytestmark = pytest.mark.long


def numbers(count: int) -> list[torch.Tensor]:
    """Tensors of such different sizes that their sum depends on the order of additions."""
    rng = np.random.default_rng(0)
    return [
        torch.from_numpy((rng.normal(size=50) * 10.0 ** rng.integers(-6, 6, 50)).astype(np.float32))
        for _ in range(count)
    ]


def total(parts: list[torch.Tensor]) -> torch.Tensor:
    return add_in_pairs([part.clone()] for part in parts)[0]


@pytest.mark.parametrize(("parts", "ranks"), [(8, 1), (8, 2), (8, 4), (8, 8), (6, 3), (12, 3), (5, 5)])
def test_the_sums_of_ranks_have_the_bits_of_one_process(parts: int, ranks: int) -> None:
    every = numbers(parts)
    share = parts // ranks
    by_rank = [total(every[rank * share : (rank + 1) * share]) for rank in range(ranks)]
    assert fits(parts, ranks)
    assert torch.equal(total(by_rank), total(every))


def test_another_grouping_has_other_bits() -> None:
    every = numbers(6)
    assert not fits(6, 2)
    assert not torch.equal(total([total(every[:3]), total(every[3:])]), total(every))


@pytest.mark.parametrize(
    ("parts", "available", "ranks"), [(8, 8, 8), (8, 7, 4), (6, 4, 3), (6, 2, 1), (1, 9, 1), (3, 2, 1)]
)
def test_as_many_ranks_learn_as_the_parts_allow(parts: int, available: int, ranks: int) -> None:
    assert most_ranks(parts, available) == ranks

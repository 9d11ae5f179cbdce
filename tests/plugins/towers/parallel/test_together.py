"""Towers that several processes learn: the bits of one process, and what happens when one of them is gone."""

import time
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
import torch

from online.models import Example, Options
from online.plugins.towers.parallel.peers import Peers
from online.plugins.towers.parallel.together import PeerEngine
from online.plugins.towers.strategies import STRATEGIES
from online.plugins.towers.tower import Tower
from tests.models.synthetic import tables, vectors
from tests.plugins.towers.parallel.ranks import Scene, run_on_ranks

pytestmark = pytest.mark.long

BASE: Options = {"input": "vector", "size": 6, "hidden": [16], "replay": 7, "buffer": 50, "batch": 3, "accumulate": 4}
TOWERS: dict[str, Options] = {
    **{strategy: {**BASE, "strategy": strategy} for strategy in STRATEGIES},
    "two steps": {**BASE, "steps": 2, "batch": 1},
    "own network": {**BASE, "network": "tests.plugins.towers.own_networks:wide"},
    "bfloat16": {**BASE, "gradients": "bfloat16"},
    "bfloat16 by autograd": {**BASE, "gradients": "bfloat16", "strategy": "er_ace"},
    "table": {"input": "table", "hidden": [16], "replay": 7, "accumulate": 4},
}


def examples_of(options: Options) -> list[Example]:
    """A stream whose classes, and whose columns in a table, appear one after the other."""
    return tables(48) if options["input"] == "table" else vectors(48)


def learn(options: Options, peers: Peers | None = None, examples: Sequence[Example] = ()) -> Tower:
    torch.set_num_threads(1)
    model = Tower(options)
    if peers is not None:
        model.trainer.learn_with(peers)
    model.learn(examples or examples_of(options))
    return model


def fingerprint_of(options: Options, peers: Peers | None = None) -> str:
    model = learn(options, peers)
    assert peers is None or isinstance(model.trainer.ranks, PeerEngine)  # nobody was lost
    return model.fingerprint()


def lose_a_peer(options: Options, peers: Peers) -> tuple[str, float]:
    """Rank 1 leaves in the midst of the stream. Returns the fingerprint, and the longest time of a call to learn."""
    model, longest_s = Tower(options), 0.0
    model.trainer.learn_with(peers)
    for place, example in enumerate(examples_of(options)):
        if peers.rank == 1 and place == 20:
            model.trainer.learn_alone()
            return "", 0.0
        began = time.perf_counter()
        model.learn([example])
        longest_s = max(longest_s, time.perf_counter() - began)
    assert not isinstance(model.trainer.ranks, PeerEngine)
    return model.fingerprint(), longest_s


def add_and_gather(peers: Peers) -> tuple[list[float], list[float], list[float]]:
    own = torch.arange(5.0) + 10 * peers.rank
    rounded = peers.sum(torch.full((3,), 1 + 2**-12), torch.bfloat16)
    return peers.sum(own).tolist(), peers.gather(own[:2]).flatten().tolist(), rounded.tolist()


def refuse_parts(options: Options, peers: Peers) -> str:
    with pytest.raises(ValueError, match="cannot share") as caught:
        Tower(options).trainer.learn_with(peers)
    return str(caught.value)


def scenes_of(size: int) -> dict[str, Scene]:
    scenes: dict[str, Scene] = {name: partial(fingerprint_of, options) for name, options in TOWERS.items()}
    scenes["sums"] = add_and_gather
    scenes["refusal"] = partial(refuse_parts, {**BASE, "accumulate": 2 * size - 1})
    for name in ("er", "er_ace", "agem"):
        scenes[f"lost {name}"] = partial(lose_a_peer, {**BASE, "strategy": name})
    return scenes


@pytest.fixture(scope="module", params=[2, 4])
def found(request: pytest.FixtureRequest) -> list[dict[str, Any]]:
    return run_on_ranks(request.param, scenes_of(request.param))


@pytest.mark.parametrize("name", TOWERS)
def test_ranks_learn_the_bits_of_one_process(name: str, found: list[dict[str, Any]]) -> None:
    assert {each[name] for each in found} == {fingerprint_of(TOWERS[name])}


@pytest.mark.parametrize("strategy", ["er", "er_ace", "agem"])
def test_a_rank_that_loses_another_continues_at_once_with_the_same_bits(
    strategy: str, found: list[dict[str, Any]]
) -> None:
    fingerprint, longest_s = found[0][f"lost {strategy}"]
    assert fingerprint == fingerprint_of(TOWERS[strategy])
    assert longest_s < 5


def test_every_rank_gets_the_sum_of_all_and_the_rows_of_all(found: list[dict[str, Any]]) -> None:
    size = len(found)
    own = [[number + 10.0 * rank for number in range(5)] for rank in range(size)]
    for each in found:
        total, rows, rounded = each["sums"]
        assert total == [sum(column) for column in zip(*own, strict=True)]
        assert rows == [number for row in own for number in row[:2]]
        assert rounded == [size] * 3  # 1 + 2^-12 is 1 in bfloat16


def test_a_number_of_ranks_that_would_change_the_bits_is_refused(found: list[dict[str, Any]]) -> None:
    size = len(found)
    assert found[0]["refusal"] == f"{size} processes cannot share {2 * size - 1} parts (option accumulate)"

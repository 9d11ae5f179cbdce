"""The sharded encoder computes the vectors and the gradients of the whole one."""

import pytest
import torch
import torch.distributed as dist
from torch import Tensor

from benchmarks.ranks import run_ranks
from labs.sharded_encoder.sharded import EncoderModule, gather_weights, shard_encoder
from online.models.encoders import minilm
from online.plugins.encoder_tuning.adapter import Weights, to_tensors
from online.plugins.towers.parallel.fsdp import create_mesh
from online.plugins.towers.parallel.split_stack import local_part

pytestmark = pytest.mark.long

TEXTS = ["hi", "When do you open?", "How do I renew a book that somebody else has reserved?", "wifi"]


def load_weights() -> Weights:
    return to_tensors(minilm.read_weights(minilm.package_folder()))


def padded_tokens() -> tuple[Tensor, Tensor]:
    ids = [minilm.tokenizer().encode(text).ids for text in TEXTS]
    lengths_B = torch.tensor([len(each) for each in ids])
    longest = int(lengths_B.max())
    ids_BT = torch.tensor([[*each, *[0] * (longest - len(each))] for each in ids])
    return ids_BT, torch.arange(longest) < lengths_B[:, None]


def a_loss(unit_BD: Tensor) -> Tensor:
    return (unit_BD * torch.linspace(-1, 1, unit_BD.shape[1])).sum()


def compare_encoders() -> dict[str, float]:
    """The largest differences between a whole encoder and one that is sharded, each rank with some of the texts."""
    weights, (ids_BT, seen_BT) = load_weights(), padded_tokens()
    whole, sharded = EncoderModule(weights), shard_encoder(weights, create_mesh())
    own = slice(dist.get_rank(), None, dist.get_world_size())
    expected_BD, found_BD = whole(ids_BT, seen_BT), sharded(ids_BT[own], seen_BT[own])
    for vectors in (expected_BD, found_BD):
        a_loss(vectors).backward()  # type: ignore[no-untyped-call]
    gradients = gather_weights(sharded, gradients=True)
    expected = {
        name: part.grad for each in (whole.embeddings, *whole.layers) for name, part in each.named_weights().items()
    }
    parts = sum(local_part(parameter).numel() for parameter in sharded.parameters())
    return {
        "vectors": float((expected_BD[own] - found_BD).abs().max()),
        "gradients": max(float((gradients[name] - expected[name]).abs().max()) for name in gradients),
        "largest gradient": max(float(gradient.abs().max()) for gradient in gradients.values()),
        "tensors": len(gradients) / len(expected),
        "kept": parts / sum(parameter.numel() for parameter in whole.parameters()),
    }


@pytest.fixture(scope="module")
def two_ranks(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, float]]:
    return run_ranks(2, tmp_path_factory.mktemp("encoder"), compare_encoders)


def test_the_vectors_are_those_of_the_whole_encoder(two_ranks: list[dict[str, float]]) -> None:
    assert max(rank["vectors"] for rank in two_ranks) <= 1e-6


def test_the_gradients_are_summed_over_the_texts_of_all_ranks(two_ranks: list[dict[str, float]]) -> None:
    for rank in two_ranks:
        assert rank["gradients"] <= 1e-6 * max(1.0, rank["largest gradient"])
        assert rank["largest gradient"] > 0.01
        assert rank["tensors"] == 1


def test_each_rank_keeps_half_of_the_weights(two_ranks: list[dict[str, float]]) -> None:
    assert sum(rank["kept"] for rank in two_ranks) == pytest.approx(1)
    assert max(rank["kept"] for rank in two_ranks) < 0.51

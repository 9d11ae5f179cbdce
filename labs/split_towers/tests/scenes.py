"""What the tests of this laboratory compute on each rank, beside one process."""

from itertools import pairwise
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor

from labs.split_towers.sharded_checkpoints import load_parts, start_saving
from labs.split_towers.stashing import StashingStage, learn_alone
from labs.split_towers.tensor import TensorStack
from online.models.contract import Tensors
from online.plugins.towers.layout import ParameterLayout
from online.plugins.towers.parallel.blocks import block_bounds, block_sizes, build_blocks
from online.plugins.towers.parallel.fsdp import create_mesh
from tests.plugins.towers.parallel import scenes
from tests.plugins.towers.parallel.scenes import INPUTS, LEARNING, ROWS, Batch, Create, learned_differences, own_layout


def engines() -> dict[str, Create]:
    return {**scenes.engines(), "tensor": create_tensor_stack}


def create_tensor_stack(layout: ParameterLayout) -> TensorStack:
    return TensorStack(layout, LEARNING, create_mesh())


def sharded_loss() -> float:
    """The gradient of a loss over sharded classes, beside the one over gathered logits."""
    gathered, sharded = (TensorStack(own_layout(), LEARNING, create_mesh(), gathers) for gathers in (True, False))
    batch = Batch(1)
    batch.liked_B = torch.ones(ROWS, dtype=torch.bool)
    for _ in range(2):  # the head is zero before the first step
        expected = gathered.gradient(batch.x_BD, batch.loss)
        found = sharded.cross_entropy_gradient(batch.x_BD, batch.label_B, batch.share_B)
        worst = max(float((one - other).abs().max()) for one, other in zip(expected, found, strict=True))
        gathered.descend(expected)
        sharded.descend(found)
    return worst


def stashing() -> dict[str, float | list[int]]:
    """Asynchronous steps, beside those of one process that has the stashed weights."""
    rank, ranks, group = dist.get_rank(), dist.get_world_size(), dist.group.WORLD
    assert group is not None
    blocks = build_blocks(own_layout(), 3).to_empty(device="cpu")
    draw = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in blocks.parameters():
            parameter.copy_(0.3 * torch.randn(parameter.shape, generator=draw))
    bounds = block_bounds(block_sizes(own_layout()), ranks)
    stages = [blocks[start:end] for start, end in pairwise(bounds)]
    batches = [Batch(number, rows=2) for number in range(12)]
    rows = [batch.x_BD for batch in batches]
    shape = [INPUTS] if not rank else blocks[: bounds[rank]](rows[0]).shape[1:]
    stage = StashingStage(stages[rank], group, (2, *shape), rate=0.05)

    def loss(logits_BLC: Tensor, number: int) -> Tensor:
        return batches[number].loss(logits_BLC.transpose(0, 1), torch.arange(2))

    stage.learn(rows, loss)
    gradients, weights = learn_alone(stages, rows, loss, rate=0.05)
    pairs = [(stage.gradients[m][name], gradients[m][rank][name]) for m in range(12) for name in stage.weights]
    pairs += [(stage.weights[name], weights[rank][name]) for name in stage.weights]
    worst = max(float((one - other).abs().max()) for one, other in pairs)
    return {"difference": worst, "ages": stage.ages, "in flight": [stage.most_in_flight]}


def save_parts(folder: Path) -> Tensors:
    """Train on some ranks, and save beside further steps. Returns the state when the saving began."""
    stack = engines()["fsdp"](own_layout())
    batch = Batch(0)
    for _ in range(3):
        stack.descend(stack.gradient(batch.x_BD, batch.loss))
    expected, group = stack.tensors(), dist.new_group(backend="gloo")
    saving = start_saving(stack, folder, group)
    for _ in range(3):
        stack.descend(stack.gradient(batch.x_BD, batch.loss))
    saving.wait(60)
    return expected


def restored_parts(folder: Path) -> dict[str, Tensors]:
    found = {}
    for name in ("fsdp", "1f1b", "tensor"):
        stack = engines()[name](own_layout())
        load_parts(stack, folder)
        found[name] = stack.tensors()
    return found


def all_scenes(folder: Path) -> dict[str, object]:
    return {
        "tensor": learned_differences(create_tensor_stack, own_layout),
        "sharded loss": sharded_loss(),
        "stashing": stashing(),
        "saved": save_parts(folder),
    }

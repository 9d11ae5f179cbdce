"""What the tests of split towers compute on each rank: towers that are split, beside the one that is not."""

from collections.abc import Callable

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn

from online.models.contract import Tensors
from online.plugins.towers.layout import ParameterLayout
from online.plugins.towers.networks import Mlp, Module
from online.plugins.towers.parallel.fsdp import ShardedStack, create_mesh
from online.plugins.towers.parallel.pipeline import PipelineStack
from online.plugins.towers.parallel.split_stack import SplitStack, write_part
from online.plugins.towers.stack import FLAT, LearningOptions, Stack
from online.plugins.towers.strategies import compute_losses

CPU = torch.device("cpu")
LEARNING = LearningOptions((0.001, 0.003, 0.01), 0.01, 0.95)
CLASSES, INPUTS, ROWS = 4, 5, 8
STEPS, MORE_STEPS = 6, 24  # the rates of the copies rise over the first 20
Create = Callable[[ParameterLayout], SplitStack]


def user_module(width: int) -> nn.Module:
    return nn.Sequential(nn.Linear(width, 12), nn.LayerNorm(12), nn.GELU(), nn.Linear(12, 8), nn.Tanh())


def own_layout(times: int = 1) -> ParameterLayout:
    return ParameterLayout(Mlp(INPUTS * times, [7, 6, 9]), CLASSES * times)


def user_layout(times: int = 1) -> ParameterLayout:
    return ParameterLayout(Module(INPUTS, user_module), CLASSES * times)


def engines() -> dict[str, Create]:
    group = dist.group.WORLD
    assert group is not None
    return {
        "fsdp": lambda layout: ShardedStack(layout, LEARNING, create_mesh()),
        "offloaded fsdp": lambda layout: ShardedStack(layout, LEARNING, create_mesh(), offload=True),
        "gpipe": lambda layout: PipelineStack(layout, LEARNING, group, CPU, 4, "gpipe"),
        "1f1b": lambda layout: PipelineStack(layout, LEARNING, group, CPU, 4, "1f1b"),
    }


class Batch:
    """Rows of which the last one only fills the shape, and one is a wrong class."""

    def __init__(self, number: int, rows: int = ROWS, inputs: int = INPUTS) -> None:
        rng = np.random.default_rng(number)
        self.x_BD = torch.from_numpy(3 * rng.normal(size=(rows, inputs)).astype(np.float32))
        self.label_B = torch.from_numpy(rng.integers(0, CLASSES, rows))
        self.liked_B = torch.arange(rows) != 2
        self.share_B = torch.where(torch.arange(rows) < max(1, rows - 1), 1.5, 0.0)  # large enough to be clipped

    def loss(self, logits_LbC: Tensor, rows_b: Tensor) -> Tensor:
        known_C = torch.arange(logits_LbC.shape[2]) < CLASSES
        found_Lb = compute_losses(logits_LbC, self.label_B[rows_b], self.liked_B[rows_b], known_C)
        return (found_Lb * self.share_B[rows_b]).sum()


def whole_stack(layout: ParameterLayout) -> Stack:
    return Stack(layout, LEARNING, CPU)


def descend(stack: Stack, batch: Batch) -> None:
    logits_LBC = stack.logits(batch.x_BD)
    stack.descend(stack.differentiate([batch.loss(logits_LBC, torch.arange(len(batch.x_BD)))])[0])


def difference(one: Tensors, other: Tensors) -> float:
    assert float(one["steps"]) == float(other["steps"])
    return max(float(np.abs(one[flat] - other[flat]).max()) for flat in FLAT)


def parts_difference(whole: Stack, split: SplitStack) -> float:
    """The largest difference between this rank's parts and the same numbers of one process."""
    assert split.steps == int(whole.steps)
    worst = 0.0
    for flat in FLAT:
        views = whole.layout.views(getattr(whole, flat))
        for name, parameter, local in zip(split.names, split.parameters, split.descent.tensors_of(flat), strict=True):
            place, expected = split.places[name], torch.zeros_like(local)
            write_part(expected, parameter, place.turn(views[place.name][place.copy]))
            worst = max(worst, float((local - expected).abs().amax()) if local.numel() else 0.0)
    return worst


def learned_differences(
    create: Create, layout_of: Callable[[int], ParameterLayout], steps: int = STEPS
) -> dict[str, float]:
    """The largest differences from one process: of a step from the same state, of logits, and after growing."""
    whole, split = whole_stack(layout_of(1)), create(layout_of(1))
    found = {"step": parts_difference(whole, split)}
    for number in range(steps):
        batch = Batch(number)
        descend(whole, batch)
        split.descend(split.gradient(batch.x_BD, batch.loss))
        found["step"] = max(found["step"], parts_difference(whole, split))
        split.restore(whole.tensors())
    found["state"] = difference(whole.tensors(), split.tensors())
    averages_LBC = whole.layout.logits(whole.layout.views(whole.average_LP), batch.x_BD)
    found["logits"] = float((averages_LBC - split.average_logits(batch.x_BD)).abs().max())
    larger = layout_of(2)
    found["grown"] = difference(whole.grown(larger).tensors(), grow(split, larger).tensors())
    found["held"] = split.held_bytes() / (5 * 4 * whole.parameters_LP.numel())
    return found


def grow(stack: SplitStack, layout: ParameterLayout) -> SplitStack:
    grown: SplitStack = stack.grown(layout)  # type: ignore[attr-defined]  # each kind of stack grows to its own
    return grown


def compare_engines() -> dict[str, dict[str, float]]:
    create = engines()
    steps = {"fsdp": MORE_STEPS}
    found = {name: learned_differences(create[name], own_layout, steps.get(name, STEPS)) for name in create}
    return found | {f"{name} of a module": learned_differences(create[name], user_layout) for name in ("fsdp", "1f1b")}


def few_rows() -> float:
    """Sharded steps on batches that leave some ranks without a row."""
    whole, split = whole_stack(own_layout()), engines()["fsdp"](own_layout())
    for number in range(4):
        batch = Batch(number, rows=1 + 2 * (number % 2))
        descend(whole, batch)
        split.descend(split.gradient(batch.x_BD, batch.loss))
    return difference(whole.tensors(), split.tensors())


def learn_a_little() -> Tensors:
    """Train on some ranks; return the state."""
    stack = engines()["fsdp"](own_layout())
    batch = Batch(0)
    for _ in range(3):
        stack.descend(stack.gradient(batch.x_BD, batch.loss))
    return stack.tensors()


def all_scenes() -> dict[str, object]:
    return {"engines": compare_engines(), "few rows": few_rows(), "learned": learn_a_little()}

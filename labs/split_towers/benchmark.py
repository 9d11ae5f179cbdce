"""Measures towers that are split over ranks, beside the same tower in one process: the same steps, less memory each.

    fsdp       layers sharded over the ranks (FSDP2), with and without offload to the host's memory
    pipeline   layers spread over the ranks, GPipe and 1F1B, and asynchronous 1F1B with stashed weights
    tensor     a wide head and a wide first layer cut within the layer, with gathered logits and a sharded loss

    python -m labs.split_towers.benchmark [--only SECTION ...] [--ranks 2 4] [--steps 20] [--json]

Each rank is a process with one thread that communicates by gloo. A difference is the largest from the single process:
of a number of the gradient, of the state (parameters, average, moments) after a step from the same state, and of the
state after all steps. AdamW divides by the root of a moment, which magnifies the rounding of gradients near zero: a number
whose gradients are only rounding moves by whole steps. Memory is what a rank holds of parameters, gradient, moments and
average.

"Where states diverge" follows both towers over all steps, each from its own state: the step at which the first ReLU is open
in one and closed in the other, and the step after which a thousandth of the parameters is 1e-5 apart. Beside it, one
process that reads the rows of each batch in other orders, which changes no more than the rounding of sums either.
"""

import tempfile
import time
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.pipelining import PipelineStage

from benchmarks.ranks import run_ranks
from benchmarks.report import command, create_parser, print_json, run_on_one_thread, say, table, verdict
from labs.split_towers.stashing import StashingStage, learn_alone
from labs.split_towers.tensor import TensorStack
from online.plugins.towers.closed_form import MlpPass
from online.plugins.towers.layout import ParameterLayout
from online.plugins.towers.networks import Mlp
from online.plugins.towers.parallel.blocks import block_bounds, block_sizes, build_blocks
from online.plugins.towers.parallel.fsdp import ShardedStack, create_mesh
from online.plugins.towers.parallel.pipeline import PipelineStack
from online.plugins.towers.parallel.split_stack import SplitStack, write_part
from online.plugins.towers.stack import FLAT, LearningOptions, Stack
from online.plugins.towers.strategies import compute_losses

SECTIONS = ("fsdp", "pipeline", "tensor")
EQUAL = 1e-6
APART = 1e-5  # a hundredth of what the slowest copy moves in a step
DIVERGED_PPM = 1_000  # of a million parameters, how many are APART where states are said to diverge
ORDERS = 3  # in which one process reads the rows, for comparison
LEARNING = LearningOptions((0.001, 0.003, 0.009), 0.01, 0.95)
ROWS, MICRO_BATCHES = 64, 8
DEEP = (256, (384, 384, 384, 384, 384), 256)  # inputs, hidden, classes
WIDE = (2_048, (64, 64), 4_096)
MB = 1e6
CPU = torch.device("cpu")


@dataclass(slots=True)
class Divergence:
    """How two towers, each learning from its own state, come to differ.

    overall: the largest difference of a number of the state, after the last step. apart_ppm: of a million parameters,
    how many differ by more than APART then. relu_step: the first step in which a ReLU is open in one and closed in the
    other. diverged_step: the first after which DIVERGED_PPM are APART. Steps count from 1; 0 is never.
    """

    overall: float = 0.0
    apart_ppm: float = 0.0
    relu_step: int = 0
    diverged_step: int = 0

    def compare_units(self, step: int, layout: ParameterLayout, x_BD: Tensor, one: Any, two: Any) -> None:
        """Compare which units are open before a step. one, two: states, as `Stack.tensors` gives them."""
        if self.relu_step:
            return
        units = zip(find_open_units(layout, one, x_BD), find_open_units(layout, two, x_BD), strict=True)
        if any(not torch.equal(mine, theirs) for mine, theirs in units):
            self.relu_step = step

    def compare_states(self, step: int, one: Any, two: Any) -> None:
        """Compare the states after a step."""
        self.overall = max(float(np.abs(one[flat] - two[flat]).max()) for flat in FLAT)
        self.apart_ppm = 1e6 * float((np.abs(one["parameters_LP"] - two["parameters_LP"]) > APART).mean())
        if not self.diverged_step and self.apart_ppm >= DIVERGED_PPM:
            self.diverged_step = step

    def row(self) -> tuple[object, ...]:
        return f"{self.overall:.1e}", f"{self.apart_ppm:,.0f}", self.relu_step or "-", self.diverged_step or "-"


@dataclass(frozen=True, slots=True)
class Run:
    """What one rank measured.

    slope, once: largest differences of a gradient, and after a step. bubble: the share of a step in which it computed
    nothing. in_flight: micro-batches.
    """

    held_mb: float
    step_s: float
    slope: float = 0.0
    once: float = 0.0
    divergence: Divergence = field(default_factory=Divergence)
    bubble: float = float("nan")
    in_flight: int = 0


def find_open_units(layout: ParameterLayout, state: Any, x_BD: Tensor) -> list[Tensor]:
    """Which units [L, B, H] of each layer give more than zero."""
    passes = MlpPass(layout, torch.from_numpy(state["parameters_LP"]))
    passes.logits(x_BD)
    return [layer.after > 0 for layer in passes.activations]


class TimedStage(PipelineStage):
    """A stage that notes how long it computes, and for how many micro-batches it keeps activations."""

    busy_s = 0.0
    most_in_flight = 0

    def forward_one_chunk(self, *given: Any, **named: Any) -> Any:
        found = self._timed(super().forward_one_chunk, *given, **named)
        self.most_in_flight = max(self.most_in_flight, len(self.fwd_cache))
        return found

    def backward_one_chunk(self, *given: Any, **named: Any) -> Any:
        return self._timed(super().backward_one_chunk, *given, **named)

    def _timed(self, run: Callable[..., Any], *given: Any, **named: Any) -> Any:
        started = time.perf_counter()
        try:
            return run(*given, **named)
        finally:
            self.busy_s += time.perf_counter() - started


class TimedPipeline(PipelineStack):
    timed: TimedStage | None = None

    def stage(self, module: torch.nn.Module) -> PipelineStage:
        found = TimedStage(module, self.rank, self.ranks, self.device, group=self.group)
        self.timed = self.timed or found
        return found


class Batch:
    """Random rows of random classes, with shares that sum to 2, as fresh and replayed rows have."""

    def __init__(self, number: int, layout: ParameterLayout) -> None:
        rng = np.random.default_rng(number)
        self.x_BD = torch.from_numpy(rng.normal(size=(ROWS, layout.network.inputs)).astype(np.float32))
        self.label_B = torch.from_numpy(rng.integers(0, layout.labels, ROWS))
        self.share_B = torch.full((ROWS,), 2 / ROWS)

    def reordered(self, order: int) -> "Batch":
        """The same rows in another order."""
        found, rows_B = copy(self), torch.from_numpy(np.random.default_rng(order).permutation(ROWS))
        found.x_BD, found.label_B = self.x_BD[rows_B], self.label_B[rows_B]
        return found

    def loss(self, logits_LbC: Tensor, rows_b: Tensor) -> Tensor:
        liked_b, known_C = torch.ones(len(rows_b), dtype=torch.bool), torch.ones(logits_LbC.shape[2], dtype=torch.bool)
        return (compute_losses(logits_LbC, self.label_B[rows_b], liked_b, known_C) * self.share_B[rows_b]).sum()


def create_batches(layout: ParameterLayout, count: int = 4) -> list[Batch]:
    """Batches that steps learn one after the other, again and again."""
    return [Batch(number, layout) for number in range(count)]


def create_layout(inputs: int, hidden: Sequence[int], classes: int) -> ParameterLayout:
    return ParameterLayout(Mlp(inputs, hidden), classes)


def create_split(engine: str, layout: ParameterLayout) -> SplitStack:
    group = dist.group.WORLD
    assert group is not None
    match engine:
        case "fsdp" | "fsdp, offloaded":
            return ShardedStack(layout, LEARNING, create_mesh(), offload=engine != "fsdp")
        case "gpipe" | "1f1b":
            return TimedPipeline(layout, LEARNING, group, CPU, MICRO_BATCHES, engine)
        case _:
            return TensorStack(layout, LEARNING, create_mesh(), gathers=engine == "tensor")


def find_gradient(split: SplitStack, batch: Batch) -> list[Tensor]:
    if isinstance(split, TensorStack) and not split.gathers:
        return split.cross_entropy_gradient(batch.x_BD, batch.label_B, batch.share_B)
    return split.gradient(batch.x_BD, batch.loss)


def differentiate_alone(stack: Stack, batch: Batch) -> Tensor:
    return stack.differentiate([batch.loss(stack.logits(batch.x_BD), torch.arange(ROWS))])[0]


def create_whole(layout: ParameterLayout) -> Stack:
    return Stack(layout, LEARNING, CPU)


def measure_alone(shape: tuple[int, Sequence[int], int], steps: int) -> Run:
    layout = create_layout(*shape)
    stack, batches = create_whole(layout), create_batches(layout)
    held_mb = 5 * 4 * stack.parameters_LP.numel() / MB
    return Run(held_mb, median_s(lambda number: stack.descend(differentiate_alone(stack, batches[number % 4])), steps))


@cache  # two sections have the same shape
def measure_reordered(shape: tuple[int, Sequence[int], int], steps: int, order: int) -> Divergence:
    """How a tower diverges from itself if it reads the rows of each batch in another order."""
    layout = create_layout(*shape)
    one, two, divergence = create_whole(layout), create_whole(layout), Divergence()
    batches = create_batches(layout)
    before = one.tensors(), two.tensors()
    for step in range(steps):
        batch = batches[step % len(batches)]
        divergence.compare_units(step + 1, layout, batch.x_BD, *before)
        one.descend(differentiate_alone(one, batch))
        two.descend(differentiate_alone(two, batch.reordered(order)))
        before = one.tensors(), two.tensors()
        divergence.compare_states(step + 1, *before)
    return divergence


def median_s(step: Callable[[int], None], steps: int) -> float:
    """The median time of a step, after two that are not counted."""
    times = []
    for number in range(steps + 2):
        started = time.perf_counter()
        step(number)
        times.append(time.perf_counter() - started)
    return float(np.median(times[2:]))


def measure_split(engine: str, shape: tuple[int, Sequence[int], int], steps: int) -> Run:
    """The speed of a split tower, and then its differences from a whole one on this rank."""
    layout = create_layout(*shape)
    split, batches = create_split(engine, layout), create_batches(layout)
    waits: list[float] = []

    def step(number: int) -> None:
        stage = split.timed if isinstance(split, TimedPipeline) else None
        before, started = stage.busy_s if stage else 0.0, time.perf_counter()
        gradient = find_gradient(split, batches[number % 4])
        if stage:
            waits.append(1 - (stage.busy_s - before) / (time.perf_counter() - started))
        split.descend(gradient)

    step_s = median_s(step, steps)
    differences = measure_differences(split, create_split(engine, layout), batches, steps)
    bubble = float(np.median(waits[2:])) if waits else float("nan")
    in_flight = split.timed.most_in_flight if isinstance(split, TimedPipeline) and split.timed else 0
    return Run(split.held_bytes() / MB, step_s, *differences, bubble, in_flight)


def measure_differences(
    split: SplitStack, other: SplitStack, batches: Sequence[Batch], steps: int
) -> tuple[float, float, Divergence]:
    """The differences of a `Run`: of a gradient and a step from the same states, and over all steps."""
    whole, once, slope, divergence = create_whole(split.layout), 0.0, 0.0, Divergence()
    before = whole.tensors(), other.tensors()
    for number in range(steps):
        batch = batches[number % len(batches)]
        divergence.compare_units(number + 1, split.layout, batch.x_BD, *before)
        split.restore(before[0])
        gradient, gradient_LP = find_gradient(split, batch), differentiate_alone(whole, batch)
        slope = max(slope, parts_difference(split, gradient, gradient_LP))
        whole.descend(gradient_LP)
        split.descend(gradient)
        other.descend(find_gradient(other, batch))
        for flat in FLAT:
            once = max(once, parts_difference(split, split.descent.tensors_of(flat), getattr(whole, flat)))
        before = whole.tensors(), other.tensors()
        divergence.compare_states(number + 1, *before)
    return slope, once, divergence


def parts_difference(split: SplitStack, parts: Sequence[Tensor], flat_LP: Tensor) -> float:
    """The largest difference between this rank's parts and the same numbers of one process."""
    views, worst = split.layout.views(flat_LP), 0.0
    for name, parameter, part in zip(split.names, split.parameters, parts, strict=True):
        place, expected = split.places[name], torch.zeros_like(part)
        write_part(expected, parameter, place.turn(views[place.name][place.copy]))
        worst = max(worst, float((part - expected).abs().amax()) if part.numel() else 0.0)
    return worst


def measure_stashing(shape: tuple[int, Sequence[int], int], updates: int) -> dict[str, Any]:
    """Asynchronous 1F1B, beside one process that computes each micro-batch with the stashed weights."""
    rank, group = dist.get_rank(), dist.group.WORLD
    assert group is not None
    layout = create_layout(*shape)
    blocks = build_blocks(layout, len(LEARNING.rates)).to_empty(device="cpu")
    draw = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in blocks.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=draw) / max(parameter.shape) ** 0.5)
    bounds = block_bounds(block_sizes(layout), dist.get_world_size())
    stages = [blocks[start:end] for start, end in pairwise(bounds)]
    batches = create_batches(layout, updates)
    rows = [batch.x_BD for batch in batches]
    input_shape = blocks[: bounds[rank]](rows[0]).shape if rank else rows[0].shape
    stage = StashingStage(stages[rank], group, input_shape, rate=0.05)

    def loss(logits_BLC: Tensor, number: int) -> Tensor:
        return batches[number].loss(logits_BLC.transpose(0, 1), torch.arange(ROWS))

    stage.learn(rows, loss)
    gradients, _ = learn_alone(stages, rows, loss, rate=0.05)
    pairs = [(stage.gradients[m][name], gradients[m][rank][name]) for m in range(updates) for name in stage.weights]
    newest, _ = learn_alone(list(stages), rows[:1], loss, rate=0.05)
    moved = [(stage.gradients[-1][name], newest[0][rank][name]) for name in stage.weights]
    return {
        "difference": max(float((one - two).abs().max()) for one, two in pairs),
        "moved": max(float((one - two).abs().max()) for one, two in moved),
        "late": updates - 1 - stage.ages[-1],
        "in_flight": stage.most_in_flight,
    }


Rows = list[tuple[object, ...]]


def measure_engines(engines: Sequence[str], shape: Any, flags: Any, folder: Path) -> tuple[Rows, Rows, Rows]:
    """The tables of a section: equality and speed, where states diverge, and idle time, which only a pipeline has."""
    alone = run_ranks(1, Path(tempfile.mkdtemp(dir=folder)), measure_alone, shape, flags.steps)[0]
    rows: Rows = [("one process", 1, "", "", "", alone.held_mb, 1 / alone.step_s, 1.0)]
    divergences: Rows = [
        (f"one process, rows in another order ({order + 1})", 1, *measure_reordered(shape, flags.steps, order).row())
        for order in range(ORDERS)
    ]
    idle: Rows = []
    for engine in engines:
        for count in flags.ranks:
            say(f"{engine} on {count} ranks")
            meeting = Path(tempfile.mkdtemp(dir=folder))
            runs: list[Run] = run_ranks(count, meeting, measure_split, engine, shape, flags.steps)
            slope, once = max(run.slope for run in runs), max(run.once for run in runs)
            held_mb, step_s = max(run.held_mb for run in runs), max(run.step_s for run in runs)
            differences = f"{slope:.1e}", f"{once:.1e}", verdict(slope, EQUAL)
            rows.append((engine, count, *differences, held_mb, 1 / step_s, alone.step_s / step_s))
            divergences.append((engine, count, *runs[0].divergence.row()))
            if runs[0].in_flight:
                shares = [round(100 * run.bubble) for run in runs]
                least = 100 * (count - 1) / (MICRO_BATCHES + count - 1)
                idle.append((engine, count, least, str(shares), str([run.in_flight for run in runs])))
    return rows, divergences, idle


def measure_stashes(flags: Any, folder: Path) -> Rows:
    rows: Rows = []
    for count in flags.ranks:
        meeting = Path(tempfile.mkdtemp(dir=folder))
        found = run_ranks(count, meeting, measure_stashing, DEEP, 2 * MICRO_BATCHES)
        worst = max(rank["difference"] for rank in found)
        late, kept = [rank["late"] for rank in found], [rank["in_flight"] for rank in found]
        rows.append((count, f"{worst:.1e}", verdict(worst, EQUAL), str(late), str(kept)))
    return rows


COLUMNS = (
    "engine",
    "ranks",
    "gradient",
    "one step",
    "gradient 1e-6",
    "MB a rank",
    "steps/s",
    "times one process",
)
DIVERGED = (
    "engine",
    "ranks",
    "largest difference",
    "1e-5 apart, ppm",
    "first other ReLU in step",
    "diverges after step",
)
IDLE = ("schedule", "ranks", "idle %, (n-1)/(m+n-1)", "idle %, by rank", "micro-batches kept, by rank")
STASHED = ("ranks", "largest difference", "1e-6", "updates late, by rank", "weights kept, by rank")


def main() -> int:
    parser = create_parser(__doc__ or "")
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=SECTIONS, help="sections (default: all)")
    parser.add_argument("--ranks", nargs="+", type=int, default=(2, 4), help="processes (default 2 4)")
    parser.add_argument("--steps", type=int, default=20, help="steps that are timed and compared (default 20)")
    flags = parser.parse_args()
    run_on_one_thread()
    engines = {
        "fsdp": (("fsdp", "fsdp, offloaded"), DEEP),
        "pipeline": (("gpipe", "1f1b"), DEEP),
        "tensor": (("tensor", "tensor, sharded loss"), WIDE),
    }
    tables: dict[str, tuple[Sequence[str], Rows]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in flags.only:
            rows, divergences, idle = measure_engines(*engines[name], flags, Path(folder))
            tables[name] = COLUMNS, rows
            tables[f"{name}, where states diverge"] = DIVERGED, divergences
            if idle:
                tables["idle stages"] = IDLE, idle
                tables["asynchronous, with stashed weights"] = STASHED, measure_stashes(flags, Path(folder))
    if flags.json:
        print_json({"benchmark": "split_models", **{name: rows for name, (_, rows) in tables.items()}})
    else:
        for name, (columns, rows) in tables.items():
            table(name, columns, rows)
    return int("missed" in str(tables))


if __name__ == "__main__":
    command(main)

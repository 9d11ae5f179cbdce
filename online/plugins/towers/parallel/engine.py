"""Chooses how a tower that learns on several devices lies on them, by what it needs and what they have free.

    ddp        every rank holds everything                            fits one device
    fsdp       every rank holds 1/n of each layer, and gathers one    fits n devices together
    pipeline   every rank holds some of the layers                    fits too, without room for a gathered layer

Bytes are counted, not guessed: parameters, gradient, two moments and the average, float32, for every copy. What a
micro-batch's activations take depends on its rows, so a part of the free memory is left for them.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch

from online.plugins.towers.layout import ParameterLayout
from online.plugins.towers.parallel.blocks import block_bounds, block_sizes

DDP, FSDP, PIPELINE = "ddp", "fsdp", "pipeline"
ENGINES = (DDP, FSDP, PIPELINE)
TENSORS = 5  # parameters, gradient, two moments, average
GATHERED = 2  # a gathered layer and its whole gradient, before it is scattered
NUMBER_BYTES = 4
EASY = 0.25  # share of the free memory; a tower that needs no more has no reason to be split
USABLE = 0.8  # share of the free memory; the rest is for activations and for the allocator


@dataclass(frozen=True, slots=True)
class TowerSize:
    """The size of a tower. copies: L. block_bytes: of the parameters of one copy in each layer."""

    copies: int
    block_bytes: tuple[int, ...]

    @property
    def whole_bytes(self) -> int:
        """The bytes of the whole tower with its gradients, moments and averages."""
        return TENSORS * self.copies * sum(self.block_bytes)

    def fsdp_bytes(self, ranks: int) -> int:
        """On each rank: its shards, and the largest layer of one copy while it is gathered."""
        return -(-self.whole_bytes // ranks) + GATHERED * max(self.block_bytes)

    def pipeline_bytes(self, ranks: int) -> int | None:
        """On the fullest rank; None where there are more ranks than layers."""
        if ranks > len(self.block_bytes):
            return None
        bounds = block_bounds(self.block_bytes, ranks)
        stages = [sum(self.block_bytes[start:end]) for start, end in pairwise(bounds)]
        return TENSORS * self.copies * max(stages)


def measure_demand(layout: ParameterLayout, copies: int) -> TowerSize:
    """Return the size of a tower."""
    return TowerSize(copies, tuple(NUMBER_BYTES * size for size in block_sizes(layout)))


def free_bytes(device: torch.device, sharing: int = 1) -> int:
    """Return memory that a rank may use: free on its GPU, or free on this machine, divided by the ranks that share it."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0] // sharing
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // sharing


def describe_needless_split(demand: TowerSize, engine: str, free: int) -> str | None:
    """Return why an engine that splits a tower is not needed; None if it may be. free: bytes of the learner's device."""
    if engine not in (FSDP, PIPELINE) or demand.whole_bytes > EASY * free:
        return None
    return (
        f"the tower needs {demand.whole_bytes:,} bytes, and its device has {free:,} free: a tower that is split learns slower "
        f'than one process does; set parallel to "auto" or "ddp"'
    )


def choose_engine(demand: TowerSize, bytes_free: Sequence[int]) -> str:
    """Return the first of ddp, fsdp and pipeline that fits. bytes_free: of each rank; every rank must be given all of them.

    Raises ValueError that says what is missing where none fits.
    """
    ranks, usable = len(bytes_free), int(USABLE * min(bytes_free))
    needs = {
        "ddp": demand.whole_bytes,
        "fsdp": demand.fsdp_bytes(ranks) if ranks > 1 else None,
        "pipeline": demand.pipeline_bytes(ranks) if ranks > 1 else None,
    }
    fitting = [name for name, needed in needs.items() if needed is not None and needed <= usable]
    if not fitting:
        found = ", ".join(f"{name} {needed:,}" for name, needed in needs.items() if needed is not None)
        raise ValueError(
            f"the tower does not fit {ranks} device(s) of which the fullest can give {usable:,} bytes ({found} bytes "
            "are needed on each): use more devices, or fsdp with offload to the host's memory"
        )
    return fitting[0]

"""Saves and loads a stack that is split over ranks, each rank its own parts, by torch.distributed.checkpoint.

    step --> parts --copied to the host--> a thread writes safetensors files --> step --> ...
                                                  |
    another number of ranks, or another engine  <-+  each rank reads the ranges that its own parts cover

The copy is what a step waits for; the files are written beside the following steps. They are safetensors, with the
place of each part in the whole tensor; nothing is pickled. A folder is complete when `Saving.wait` has returned.
"""

from concurrent.futures import Future
from pathlib import Path
from typing import Any

import torch.distributed as dist
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader, HuggingFaceStorageWriter
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import async_save

from online.plugins.towers.parallel.split_stack import SplitStack


class Saving:
    """A checkpoint that is being written."""

    def __init__(self, future: Any) -> None:
        self._future = future

    def wait(self, timeout_s: float | None = None) -> None:
        """Wait until every file is written. Raises what the writer raised."""
        found: Future[Any] = getattr(self._future, "upload_completion", self._future)
        found.result(timeout_s)


def start_saving(stack: SplitStack, folder: Path, group: dist.ProcessGroup) -> Saving:
    """Save a stack's parts to `folder`, off the path of its next steps. Collective.

    group: a gloo group of the stack's ranks that nothing else uses meanwhile: the writer thread communicates on it.
    """
    writer = HuggingFaceStorageWriter(str(folder), save_distributed=True)
    return Saving(async_save(stack.parts(), storage_writer=writer, process_group=group))


def load_parts(stack: SplitStack, folder: Path) -> None:
    """Load a stack from the parts that any number of ranks saved. Collective over the stack's group."""
    parts = stack.parts()
    load(parts, storage_reader=HuggingFaceStorageReader(str(folder)), process_group=stack.group)
    stack.take_parts(parts)

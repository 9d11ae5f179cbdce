"""Processes that meet in a group, for tests of towers that several of them learn."""

import multiprocessing
import tempfile
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
from torch._C._distributed_c10d import FileStore, PrefixStore

from online.plugins.towers.parallel.peers import Peers, form_group

TIMEOUT_S = 60.0

Scene = Callable[[Peers], Any]


def run_on_ranks(size: int, scenes: dict[str, Scene]) -> list[dict[str, Any]]:
    """What each scene returns on each of `size` ranks, every scene in a group of its own."""
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        pipes = [context.Pipe(duplex=False) for _ in range(size)]
        processes = [
            context.Process(target=run_rank, args=(rank, size, Path(folder) / "store", scenes, pipe[1]))
            for rank, pipe in enumerate(pipes)
        ]
        for process, (_, sender) in zip(processes, pipes, strict=True):
            process.start()
            sender.close()
        try:
            return [receive(receiver) for receiver, _ in pipes]
        finally:
            for process in processes:
                process.join(TIMEOUT_S)
                process.kill()


def run_rank(rank: int, size: int, path: Path, scenes: dict[str, Scene], sender: Connection) -> None:
    torch.set_num_threads(1)
    store = FileStore(str(path), size)
    found = {}
    for name, scene in scenes.items():
        found[name] = scene(Peers(form_group(PrefixStore(name, store), rank, size)))
    sender.send(found)


def receive(receiver: Connection) -> dict[str, Any]:
    assert receiver.poll(TIMEOUT_S), "a rank did not return in time"
    found: dict[str, Any] = receiver.recv()
    return found

"""Runs a function on several ranks, which are processes that communicate by gloo."""

import multiprocessing
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

TIMEOUT_S = 300.0


def run_ranks(count: int, folder: Path, run: Callable[..., Any], *arguments: Any) -> list[Any]:
    """What `run(*arguments)` returns on each rank. folder: for the file by which the ranks meet."""
    context = multiprocessing.get_context("spawn")
    pipes = [context.Pipe(duplex=False) for _ in range(count)]
    meeting = folder / f"meeting-{run.__name__}-{count}"
    ranks = [
        context.Process(target=_run_rank, args=(rank, count, meeting, sender, run, arguments))
        for rank, (_, sender) in enumerate(pipes)
    ]
    for rank in ranks:
        rank.start()
    try:
        return [_receive(receiver) for receiver, _ in pipes]
    finally:
        for rank in ranks:
            rank.kill()
            rank.join()


def _receive(receiver: Any) -> Any:
    assert receiver.poll(TIMEOUT_S), f"a rank gave no result within {TIMEOUT_S} s"
    found = receiver.recv()
    if isinstance(found, BaseException):
        raise found
    return found


def _run_rank(rank: int, count: int, meeting: Path, sender: Any, run: Callable[..., Any], arguments: Any) -> None:
    torch.set_num_threads(1)
    try:
        dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=count)
        found = run(*arguments)
        dist.barrier()  # no rank leaves while another one communicates
        sender.send(found)
    except Exception as error:
        sender.send(RuntimeError(f"rank {rank}: {type(error).__name__}: {error}"))

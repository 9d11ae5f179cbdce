"""Starts the board of a learner process and the workers on its machine.

online learn --workers 4     board at a socket in a private folder, 4 processes that join it
learn_address = "host:port"  the board also takes `online learn --join host:port` from other machines
torchrun ... online learn    rank 0 learns; the other ranks join it at MASTER_ADDR
"""

import secrets
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from pydantic import SecretStr

from online.errors import SetupError
from online.plugins.workers.board import Address, ShareBoard
from online.plugins.workers.joining import parse_address
from online.plugins.workers.local_workers import LocalWorkers
from online.plugins.workers.settings import WorkerSettings
from online.settings import Settings, reveal


@contextmanager
def open_board(settings: Settings) -> Iterator[ShareBoard | None]:
    """Yield the board of a learner process with its workers; None if it has none. All of them end with the block.

    Raises SetupError if the address cannot be listened on, or has no key.
    """
    if not settings.part(WorkerSettings).learn_workers and settings.part(WorkerSettings).learn_address is None:
        yield None
        return
    check_key(settings)
    with ExitStack() as stack:
        if settings.part(WorkerSettings).workers_key is None:
            settings = settings.model_copy(update={"workers_key": SecretStr(secrets.token_hex())})
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="online-workers-"))
        board = listen(settings, str(Path(folder) / "board"))
        stack.callback(board.close)
        if settings.part(WorkerSettings).learn_workers:
            stack.enter_context(LocalWorkers(settings, board.address))
        yield board


def check_key(settings: Settings) -> None:
    """Raise SetupError if workers of other machines may join, but need no key."""
    if settings.part(WorkerSettings).learn_address is not None and settings.part(WorkerSettings).workers_key is None:
        raise SetupError("learn_address takes workers of other machines, which need a key: set workers_key")


def listen(settings: Settings, path: str) -> ShareBoard:
    """Return a board at `learn_address`, or else at a path. Raises SetupError if another process listens there."""
    own = settings.part(WorkerSettings)
    key = reveal(own.workers_key)
    assert key is not None, "open_board makes a key"
    address: Address = path if own.learn_address is None else parse_address(own.learn_address)
    try:
        return ShareBoard(address, key.encode())
    except OSError as error:
        raise SetupError(f"cannot listen for workers at {own.learn_address or path}: {error.strerror}") from None


@dataclass(frozen=True, slots=True)
class ProcessRank:
    """The place of this process among those that torchrun started. address: where rank 0 takes the others as workers."""

    number: int
    address: str


def find_rank(settings: Settings, environment: Mapping[str, str]) -> ProcessRank | None:
    """Return the rank of this process; None if torchrun did not start it, or started nothing else."""
    if int(environment.get("WORLD_SIZE", "1")) < 2 or "RANK" not in environment:
        return None
    default = f"{environment['MASTER_ADDR']}:{int(environment['MASTER_PORT']) + 1}"
    return ProcessRank(int(environment["RANK"]), settings.part(WorkerSettings).learn_address or default)

"""Starts the board of a learner process and the workers on its machine, and lets a process join a board.

online learn --workers 4     board at a socket in a private folder, 4 processes that join it
learn_address = "host:port"  the board also takes `online learn --join host:port` from other machines
torchrun ... online learn    rank 0 learns; the other ranks join it at MASTER_ADDR
"""

import logging
import secrets
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing import AuthenticationError
from pathlib import Path

from pydantic import SecretStr

from online.errors import SetupError
from online.learning.parallel.board import Address, ShareBoard
from online.learning.parallel.local_workers import LocalWorkers
from online.learning.parallel.worker import work
from online.models import Options
from online.models.devices.placement import spread_device
from online.models.devices.probe import SystemDevices
from online.models.lazy_torch import use_one_thread
from online.settings import Settings, reveal
from online.state.workspace import Workspace
from online.stream.contract import Stream

log = logging.getLogger("online.learner")

PATIENCE_S = 60.0  # for a learner to listen
RETRY_S = 0.2


@contextmanager
def open_board(settings: Settings) -> Iterator[ShareBoard | None]:
    """The board of a learner process with its workers; None if it has none. All of them end with the block.

    Raises SetupError if the address cannot be listened on, or has no key.
    """
    if not settings.learn_workers and settings.learn_address is None:
        yield None
        return
    check_key(settings)
    with ExitStack() as stack:
        if settings.workers_key is None:
            settings = settings.model_copy(update={"workers_key": SecretStr(secrets.token_hex())})
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="online-workers-"))
        board = listen(settings, str(Path(folder) / "board"))
        stack.callback(board.close)
        if settings.learn_workers:
            stack.enter_context(LocalWorkers(settings, board.address))
        yield board


def check_key(settings: Settings) -> None:
    """Raise SetupError if workers of other machines may join, but need no key."""
    if settings.learn_address is not None and settings.workers_key is None:
        raise SetupError("learn_address takes workers of other machines, which need a key: set workers_key")


def listen(settings: Settings, path: str) -> ShareBoard:
    """A board at `learn_address`, or else at a path. Raises SetupError if another process listens there."""
    key = reveal(settings.workers_key)
    assert key is not None, "open_board makes a key"
    address: Address = path if settings.learn_address is None else parse_address(settings.learn_address)
    try:
        return ShareBoard(address, key.encode())
    except OSError as error:
        raise SetupError(f"cannot listen for workers at {settings.learn_address or path}: {error.strerror}") from None


def join_board(workspace: Workspace, address: str, patience_s: float = PATIENCE_S) -> int:
    """Sum ranges for the learner at an address, and return how many.

    A learner that does not listen yet, or no longer, is waited for. Raises SetupError if none ever listens, if it has
    another key, or if the settings have no key.
    """
    use_one_thread()  # one process for each core
    key = reveal(workspace.settings.workers_key)
    if key is None:
        raise SetupError(
            "a worker needs the key of its learner: set workers_key, or ONLINE_WORKERS_KEY in the environment"
        )
    place = address if "/" in address else parse_address(address)
    try:
        join = partial(
            work, place, key.encode(), partial(open_stream, workspace), partial(find_worker_device, workspace)
        )
        return work_until_alone(join, patience_s)
    except AuthenticationError:
        raise SetupError(f"the learner at {address} has another workers_key") from None
    except OSError as error:
        raise SetupError(f"no learner takes workers at {address}: {error.strerror or error}") from None
    finally:
        workspace.store.close()


def open_stream(workspace: Workspace, model: str, options: Options) -> Stream:
    """The log of a model, whose features are those of the encoder in its options."""
    return workspace.sql_stream(model, str(options.get("encoder", "")))


def find_worker_device(workspace: Workspace, place: int) -> str:
    """Where the n-th worker of a team learns towers: each on another card, unless the setting `device` names one."""
    return spread_device(workspace.settings.device, place, SystemDevices())


def work_until_alone(join: Callable[[], int], patience_s: float) -> int:
    """Work for one learner after the other, until none has listened for a time. join: works for one.

    Raises OSError if none ever did.
    """
    count, has_joined, pause = 0, False, threading.Event()
    until = time.monotonic() + patience_s
    while True:
        try:
            count += join()
            has_joined, until = True, time.monotonic() + patience_s
        except OSError:
            if time.monotonic() >= until:
                if has_joined:
                    return count
                raise
        pause.wait(RETRY_S)


@dataclass(frozen=True, slots=True)
class Rank:
    """The place of this process among those that torchrun started. address: where rank 0 takes the others as workers."""

    number: int
    address: str


def find_rank(settings: Settings, environment: Mapping[str, str]) -> Rank | None:
    """The rank of this process; None if torchrun did not start it, or started nothing else."""
    if int(environment.get("WORLD_SIZE", "1")) < 2 or "RANK" not in environment:
        return None
    default = f"{environment['MASTER_ADDR']}:{int(environment['MASTER_PORT']) + 1}"
    return Rank(int(environment["RANK"]), settings.learn_address or default)


def parse_address(text: str) -> tuple[str, int]:
    """Raises SetupError for anything but HOST:PORT."""
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65_535:
        raise SetupError(f"{text!r} is not HOST:PORT")
    return host, int(port)

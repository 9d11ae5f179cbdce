"""The work of a worker process: join the board of a learner, and sum or learn ranges for it until it ends.

learner --forks, or `online learn --join host:port` starts--> worker --joins--> board --ranges--> work
"""

import os
import signal
import threading
import time
from collections.abc import Callable
from functools import partial
from multiprocessing import AuthenticationError

from online.errors import SetupError
from online.io.parent_process import end_with_parent
from online.models import Options
from online.models.devices.placement import spread_device
from online.models.devices.probe import SystemDevices
from online.models.lazy_torch import use_one_thread
from online.plugins.workers.settings import WorkerSettings
from online.plugins.workers.worker import work
from online.settings import Settings, reveal
from online.state.workspace import Workspace
from online.stream.contract import Stream
from online.telemetry import configure_logging

PATIENCE_S = 60.0  # for a learner to listen
RETRY_S = 0.2
NICENESS = 5


def run_worker(settings_json: str, where: str) -> None:
    """Run a worker process of this machine: join the learner at an address, until that ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the learner, which ends this process
    os.nice(NICENESS)
    end_with_parent()
    settings = Settings.model_validate_json(settings_json)
    configure_logging(settings.log_level, settings.log_format)
    join_board(Workspace(settings), where)


def join_board(workspace: Workspace, address: str, patience_s: float = PATIENCE_S) -> int:
    """Sum ranges for the learner at an address, and return how many.

    A learner that does not listen yet, or no longer, is waited for. Raises SetupError if none ever listens, if it has
    another key, or if the settings have no key.
    """
    use_one_thread()  # one process for each core
    key = reveal(workspace.settings.part(WorkerSettings).workers_key)
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
    """Return the log of a model, whose features are those of the encoder in its options."""
    return workspace.sql_stream(model, str(options.get("encoder", "")))


def find_worker_device(workspace: Workspace, place: int) -> str:
    """Return where the n-th worker of a team learns towers: each on another card, unless the setting `device` names one."""
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


def parse_address(text: str) -> tuple[str, int]:
    """Return the host and the port. Raises SetupError for anything but HOST:PORT."""
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65_535:
        raise SetupError(f"{text!r} is not HOST:PORT")
    return host, int(port)

"""The learner process: one thread a model, until it is told to stop or its parent is gone."""

import logging
import os
import signal
import sys
import threading

import torch

from online.errors import SetupError
from online.learning.learner import Learner
from online.observability import fact
from online.settings import Device, ModelSettings, Settings
from online.workspace import Workspace

log = logging.getLogger("online.learner")


def choose_device(wanted: Device) -> str:
    """`cuda` where it is asked for or at hand. Raises SetupError when it is asked for and not there."""
    if wanted == "cuda" and not torch.cuda.is_available():
        raise SetupError("device cuda was asked for, but torch sees no CUDA device; use --device auto or cpu")
    return "cuda" if wanted != "cpu" and torch.cuda.is_available() else "cpu"


def run(settings: Settings, supervised: bool) -> int:
    """Learn until SIGTERM, SIGINT or (supervised) the end of standard input. Gives the exit status."""
    torch.set_num_threads(1)  # serving shares these cores
    workspace = Workspace(settings)
    lock = workspace.lock_learner()
    device = choose_device(settings.device)
    stop, failed = threading.Event(), threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    if supervised:
        threading.Thread(target=_stop_with_parent, args=(stop,), daemon=True).start()
    fact(log, "started", pid=os.getpid(), device=device)
    threads = [
        threading.Thread(target=_learn, args=(workspace, model, device, stop, failed)) for model in settings.models
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    workspace.store.close()
    lock.close()
    return 1 if failed.is_set() else 0


def _learn(
    workspace: Workspace, model: ModelSettings, device: str, stop: threading.Event, failed: threading.Event
) -> None:
    settings = workspace.settings
    try:
        Learner(
            model.kind,
            workspace.options(model),
            workspace.snapshots(model.name),
            workspace.stream(model.name),
            workspace.store,
            device,
            settings.learn_batch,
            settings.publish_every_ms,
            settings.durable_every_s,
        ).run(stop)
    except Exception:  # one model's failure ends the process; its supervisor starts it again from durable state
        log.exception("learner failed model=%s", model.name)
        failed.set()
        stop.set()


def _stop_with_parent(stop: threading.Event) -> None:
    """The supervisor holds the other end of our standard input; it closes when the supervisor is gone, however."""
    while os.read(sys.stdin.fileno(), 1):
        pass
    stop.set()

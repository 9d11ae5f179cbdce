"""The learner process: one thread a model, until it is told to stop or its parent is gone."""

import logging
import os
import signal
import threading
from contextlib import closing
from typing import IO

import torch

from online.errors import EncoderMoved, SetupError
from online.learning.gate import Canary, canaries_of
from online.learning.learner import Learner
from online.models import Options
from online.models.encoder import encoder, reads
from online.observability import fact
from online.settings import Device, ModelSettings, Settings
from online.stream import Stream
from online.workspace import Workspace, cache_folder

log = logging.getLogger("online.learner")

FIRST_PAUSE_S = 0.5


def choose_device(wanted: Device) -> str:
    """`cuda` where it is asked for or at hand. Raises SetupError when it is asked for and not there."""
    if wanted == "cuda" and not torch.cuda.is_available():
        raise SetupError("device cuda was asked for, but torch sees no CUDA device; use --device auto or cpu")
    return "cuda" if wanted != "cpu" and torch.cuda.is_available() else "cpu"


def device_of(settings: Settings) -> str:
    """The device that is chosen, of whose memory this process takes no more than its share from here on.

    What finds no room then goes on on the CPU, as where the device is full.
    """
    device = choose_device(settings.device)
    if device == "cuda":
        torch.cuda.set_per_process_memory_fraction(settings.device_memory_fraction)
    return device


def run(workspace: Workspace, lock: IO[str]) -> int:
    """Learn until SIGTERM or SIGINT, holding the lock. Gives the exit status."""
    torch.set_num_threads(1)  # serving shares these cores
    device = device_of(workspace.settings)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    fact(log, "started", pid=os.getpid(), device=device)
    models = workspace.settings.models
    threads = [threading.Thread(target=keep_learning, args=(workspace, model, device, stop)) for model in models]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    workspace.store.close()
    lock.close()
    return 0


def keep_learning(workspace: Workspace, model: ModelSettings, device: str, stop: threading.Event) -> None:
    """One model's learner, started again from durable state when it fails; the other models learn on meanwhile.

    Where the log is of another encoder, another learner takes its place: no model learns features of two. Where the
    accelerator has no room for it at all, it starts again on the CPU.
    """
    pause = FIRST_PAUSE_S
    while not stop.is_set():
        try:
            options = workspace.options(model)
            with closing(workspace.stream(model.name, options.get("encoder", ""))) as stream:
                learner_of(workspace, model, options, stream, device).run(stop)
        except EncoderMoved:
            fact(log, "learning anew", model=model.name, reason="another encoder")
        except Exception as error:  # whatever it is, it is this model's alone
            if device != "cpu" and isinstance(error, torch.OutOfMemoryError):
                fact(log, "goes on on the CPU", logging.WARNING, model=model.name, device=device, reason=str(error))
                device = "cpu"
                continue
            log.exception("learner failed model=%s; it starts again in %.1f s", model.name, pause)
            stop.wait(pause)
            pause = min(2 * pause, workspace.settings.restart_max_s)


def learner_of(workspace: Workspace, model: ModelSettings, options: Options, stream: Stream, device: str) -> Learner:
    """options: of the encoder whose features `stream` gives."""
    settings = workspace.settings
    return Learner(
        model.kind,
        options,
        workspace.snapshots(model.name),
        stream,
        workspace.store,
        device,
        settings.learn_batch,
        settings.publish_every_ms,
        settings.durable_every_s,
        drift=model.drift,
        guarded=model.guard,
        canaries=canaries(workspace, model, options),
    )


def canaries(workspace: Workspace, model: ModelSettings, options: Options) -> list[Canary]:
    """The model's own, encoded. The encoder is loaded for them alone, so only where there are any."""
    if not model.canaries:
        return []
    settings, tuned = workspace.settings, workspace.tuned(str(options.get("encoder", "")))
    made = encoder(reads(model.kind, options), cache_folder(), 1, settings.max_text_chars, tuned)
    return canaries_of([(each.input, each.answer) for each in model.canaries], made.encode)

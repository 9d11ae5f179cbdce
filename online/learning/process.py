"""The learner process: one thread for each model, until a signal stops it."""

import gc
import logging
import os
import signal
import threading
from collections.abc import Sequence
from contextlib import closing
from typing import IO

from online.errors import EncoderMoved, LogReplaced
from online.io.cache import cache_folder
from online.io.collector import collect_seldom
from online.learning.base_building import RetentionPeriod
from online.learning.gate import GoldenQuestion, encode_golden_questions
from online.learning.learner import Learner
from online.learning.parallel.board import ShareBoard
from online.learning.parallel.hosting import open_board
from online.models import Options, encoder_options
from online.models.devices import choose_device
from online.models.encoders.factory import create_encoder
from online.models.lazy_torch import torch, use_one_thread
from online.settings import ModelSettings, Settings
from online.stream.contract import Stream
from online.telemetry import log_event
from online.workspace import Workspace

log = logging.getLogger("online.learner")

SIGNAL_CHECK_S = 0.5  # between two looks of the main thread for a signal that the kernel gave to another thread
FIRST_PAUSE_S = 0.5  # before a learner that failed is started again; it doubles with each failure


def configure_device(settings: Settings) -> str:
    """Choose the device, and limit this process to its share of an accelerator's memory.

    A learner that finds no room in its share continues on the CPU, as on a full device.
    """
    device = choose_device(settings.device)
    if device == "cuda":
        torch.cuda.set_per_process_memory_fraction(settings.device_memory_fraction)
    return device


def run(workspace: Workspace, lock: IO[str]) -> int:
    """Learn until SIGTERM or SIGINT, holding the lock; return the exit status.

    Raises SetupError if the kind of a model has changed since its history was learned.
    """
    use_one_thread()  # the servers use the other cores
    collect_seldom()  # looking at every object for cycles stops all learners for 0.2 s
    models = workspace.settings.models
    workspace.check_kinds()
    device = configure_device(workspace.settings)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    log_event(log, "started", pid=os.getpid(), device=device)
    with open_board(workspace.settings) as board:
        threads = [
            threading.Thread(target=run_learner, args=(workspace, model, device, stop, board)) for model in models
        ]
        for thread in threads:
            thread.start()
        join_all(threads)
    workspace.store.close()
    lock.close()
    return 0


def join_all(threads: Sequence[threading.Thread]) -> None:
    """Wait for threads in the main thread, which alone runs the handlers of signals.

    The kernel gives a signal to any thread. One that it gives to another thread does not end a join without a limit, so
    that SIGTERM would have no effect.
    """
    for thread in threads:
        while thread.is_alive():
            thread.join(SIGNAL_CHECK_S)


def run_learner(
    workspace: Workspace, model: ModelSettings, device: str, stop: threading.Event, board: ShareBoard | None = None
) -> None:
    """Run one model's learner, and start it again from durable state if it fails.

    A failure never affects the other models. After a change of the encoder a new learner starts,
    because no model learns features of two encoders; so it does after a change of the log. A learner that does not fit into the memory of
    the accelerator starts again on the CPU.
    """
    pause, is_first = FIRST_PAUSE_S, True
    while not stop.is_set():
        if not is_first:
            gc.collect()  # a learner is a cycle, which the collector would not look for soon, and may hold a GPU's memory
        is_first = False
        try:
            options = workspace.options(model)
            with closing(workspace.stream(model.name, options.get("encoder", ""))) as stream:
                create_learner(workspace, model, options, stream, device, waits_for_disk=False, board=board).run(stop)
            if not stop.is_set():
                log_event(log, "started again", model=model.name, reason="the signing keys were rotated")
        except EncoderMoved:
            log_event(log, "started again", model=model.name, reason="the encoder changed")
        except LogReplaced as error:
            log_event(log, "started again", logging.ERROR, model=model.name, reason=str(error))
            stop.wait(FIRST_PAUSE_S)
        except Exception as error:  # any error concerns this model only
            if device != "cpu" and isinstance(error, torch.OutOfMemoryError):
                log_event(log, "continuing on cpu", logging.WARNING, model=model.name, device=device, reason=str(error))
                device = "cpu"
                continue
            log.exception("learner failed model=%s; it starts again in %.1f s", model.name, pause)
            stop.wait(pause)
            pause = min(2 * pause, workspace.settings.restart_max_s)


def create_learner(
    workspace: Workspace,
    model: ModelSettings,
    options: Options,
    stream: Stream,
    device: str,
    waits_for_disk: bool = True,
    board: ShareBoard | None = None,
) -> Learner:
    """Create a model's learner. options: they name the encoder whose features the stream gives."""
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
        guard=model.guard,
        golden_questions=load_golden_questions(workspace, model, options),
        retention=None if settings.event_retention_days is None else RetentionPeriod(settings.event_retention_days),
        is_outdated=lambda: workspace.key_option(model).get("key") != options.get("key"),
        waits_for_disk=waits_for_disk,
        board=board,
    )


def load_golden_questions(workspace: Workspace, model: ModelSettings, options: Options) -> list[GoldenQuestion]:
    """Return the model's golden questions, encoded. The encoder is loaded only if there are any."""
    if not model.golden_questions:
        return []
    settings, tuned = workspace.settings, workspace.tuned(str(options.get("encoder", "")))
    text_encoder = create_encoder(
        encoder_options(model.kind, options), cache_folder(), 1, settings.max_text_chars, tuned
    )
    return encode_golden_questions([(each.input, each.answer) for each in model.golden_questions], text_encoder.encode)

"""The learner process: one thread for each model, until a signal stops it."""

import gc
import logging
import os
import signal
import threading
from collections.abc import Callable, Sequence
from contextlib import closing, nullcontext, suppress
from functools import partial
from typing import IO

from online.errors import EncoderMoved, LeaseLost, LogReplaced, NewerRelease, OnlineError, Unavailable
from online.io.backoff import Backoff
from online.io.collector import collect_seldom
from online.learning.building import create_learner, create_lease, import_kind
from online.learning.placing import LearnerPlaces, place_models
from online.learning.workers import WorkerHost, find_support
from online.models.devices.fallback import first_line, listening, note_fallback
from online.models.devices.observer import DeviceObserver, create_observer
from online.models.devices.probe import SystemDevices
from online.models.devices.turns import low_priority
from online.models.lazy_torch import torch, use_one_thread
from online.settings import ModelSettings
from online.state.workspace import Workspace
from online.store.notifications import NotificationThread, wake
from online.telemetry import Tracer, find_tracer, log_event

log = logging.getLogger("online.learner")

SIGNAL_CHECK_S = 0.5  # between two looks of the main thread for a signal that the kernel gave to another thread
FIRST_PAUSE_S = 0.5  # before a learner that failed is started again; it doubles with each failure


def run(workspace: Workspace, lock: IO[str]) -> int:
    """Learn until SIGTERM or SIGINT, holding the lock; return the exit status.

    Raises SetupError if the kind of a model has changed since its history was learned.
    """
    use_one_thread()  # the servers use the other cores
    collect_seldom()  # looking at every object for cycles stops all learners for 0.2 s
    models = workspace.settings.models
    workspace.check_kinds()
    workspace.check_keys()
    devices = SystemDevices()
    places = place_models(workspace.settings, models, devices)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    log_event(log, "started", pid=os.getpid(), device=describe_places(places))
    observer = create_observer(workspace.state, "learner", "learner", devices, places.caps)
    tracer = find_tracer(workspace.state, "learner")
    wakeups = {model.name: workspace.event_wakeup(model.name) for model in models}
    heard = NotificationThread(workspace.store, wake(wakeups), "learner-notifications")
    if workspace.store.is_shared:
        heard.start()
    with find_support().host(workspace.settings) as host, closing(observer), closing(tracer):
        threads = [start_thread(workspace, model, places, stop, host, observer, tracer) for model in models]
        join_all(threads, partial(tick, workspace, observer, host, stop))
    if workspace.store.is_shared:
        heard.stop()
    workspace.store.close()
    lock.close()
    return 0


def tick(workspace: Workspace, observer: DeviceObserver, host: WorkerHost, stop: threading.Event | None = None) -> None:
    """Write what the processes of this learner have done so far, and follow signing keys that another replica has rotated.

    Once `stop` is set, wake the learners that wait for an event.
    """
    if stop is not None and stop.is_set():
        for model in workspace.settings.models:
            workspace.event_wakeup(model.name).notify()
    with suppress(OnlineError, OSError):  # a service reports it; a learner goes on with the keys that it has
        workspace.refresh_from_store()
    observer.note_sums(host.count_sums())
    observer.write()


def describe_places(places: LearnerPlaces) -> str:
    """Return the devices of all models: one name if all learn on the same."""
    names = {*places.of_model.values()}
    return names.pop() if len(names) == 1 else " ".join(f"{model}:{name}" for model, name in places.of_model.items())


def start_thread(
    workspace: Workspace,
    model: ModelSettings,
    places: LearnerPlaces,
    stop: threading.Event,
    host: WorkerHost,
    observer: DeviceObserver,
    tracer: Tracer | None = None,
) -> threading.Thread:
    """Learn one model on its devices, in a thread of its own."""
    device = places.of_model[model.name]
    observer.place(model.name, device, device)
    thread = threading.Thread(target=run_learner, args=(workspace, model, device, stop, host, observer, tracer))
    thread.start()
    return thread


def join_all(threads: Sequence[threading.Thread], tick: Callable[[], None] = lambda: None) -> None:
    """Wait for threads in the main thread, which alone runs the handlers of signals. tick: called meanwhile.

    The kernel gives a signal to any thread. One that it gives to another thread does not end a join without a limit, so
    that SIGTERM would have no effect.
    """
    for thread in threads:
        while thread.is_alive():
            thread.join(SIGNAL_CHECK_S)
            tick()


def run_learner(
    workspace: Workspace,
    model: ModelSettings,
    device: str,
    stop: threading.Event,
    host: WorkerHost | None = None,
    observer: DeviceObserver | None = None,
    tracer: Tracer | None = None,
) -> None:
    """Run one model's learner, and log each fallback for lack of memory."""
    notes = (lambda fallback: None) if observer is None else partial(observer.note, model.name)

    def move(to: str) -> None:
        if observer is not None:
            observer.move(model.name, to)

    with listening(notes):
        keep_learning(workspace, model, device, stop, host or WorkerHost(), move, tracer)


def keep_learning(
    workspace: Workspace,
    model: ModelSettings,
    device: str,
    stop: threading.Event,
    host: WorkerHost,
    on_move: Callable[[str], None],
    tracer: Tracer | None,
) -> None:
    """Run one model's learner, and start it again from durable state if it fails.

    A failure never affects the other models. After a change of the encoder a new learner starts,
    because no model learns features of two encoders; so it does after a change of the log. A learner that does not fit into the memory of
    the accelerator starts again on the CPU. on_move: called with the device then. A model whose kind is not exact is learned only
    while this replica holds its lease.
    """
    backoff, is_first = Backoff(FIRST_PAUSE_S, workspace.settings.restart_max_s), True
    lease = create_lease(workspace, model)
    while not stop.is_set():
        if not is_first:
            gc.collect()  # a learner is a cycle, which the collector would not look for soon, and may hold a GPU's memory
        is_first = False
        try:
            if lease is not None and not lease.stand_by(stop, partial(import_kind, workspace, model)):
                return
            options = workspace.options(model)
            with (
                closing(workspace.stream(model.name, options.get("encoder", ""))) as stream,
                low_priority(device),
                nullcontext() if lease is None else lease.held(),
            ):
                create_learner(workspace, model, options, stream, device, False, host, lease, tracer).run(stop)
            if not stop.is_set():
                log_event(log, "started again", model=model.name, reason="the signing keys were rotated")
        except EncoderMoved:
            log_event(log, "started again", model=model.name, reason="the encoder changed")
        except LeaseLost as error:
            log_event(log, "stopped", logging.WARNING, model=model.name, reason=str(error))
        except LogReplaced as error:
            log_event(log, "started again", logging.ERROR, model=model.name, reason=str(error))
            stop.wait(FIRST_PAUSE_S)
        except NewerRelease as error:  # others learn on, and this service answers with the versions that they publish
            pause_s = backoff.fail()
            log_event(log, "stopped", logging.ERROR, model=model.name, reason=str(error), next_s=round(pause_s, 1))
            stop.wait(pause_s)
        except Unavailable as error:  # the store, or a tuned encoder that is on its way
            pause_s = backoff.fail()
            log_event(
                log, "not started", logging.WARNING, model=model.name, reason=str(error), next_s=round(pause_s, 1)
            )
            stop.wait(pause_s)
        except Exception as error:  # any error concerns this model only
            if device != "cpu" and isinstance(error, torch.OutOfMemoryError):
                reason = first_line(error)
                log_event(log, "continuing on cpu", logging.WARNING, model=model.name, device=device, reason=reason)
                note_fallback(f"the learner of {model.name}", device, "on the CPU", error)
                device = "cpu"
                on_move(device)
                continue
            pause_s = backoff.fail()
            log.exception("learner failed model=%s; it starts again in %.1f s", model.name, pause_s)
            stop.wait(pause_s)

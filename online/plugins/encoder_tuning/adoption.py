"""Gives a model another encoder while it serves and learns.

    log, predictions --Reencoding--> features of the other encoder, the encoder's name: one transaction
                                        |                               |
      learner: another recipe, learns the whole log     server: answers with its version and encoder,
                      |                                 records features of the new encoder
                      +--publishes--> the server loads that version and its encoder together

The name in the store decides. A writer of features compares it in its own transaction
(`store.encoder_moves.check_encoder`) and encodes again if it has changed; a learner compares it with
every read. So at every moment all features in the store are of one encoder, and so are all sums of a
version. After a crash at any point, the name and the features still agree. The way back is the same,
with the frozen encoder, which gives the bytes that were there before.
"""

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from online.errors import SetupError
from online.io.cache import cache_folder
from online.io.progress import Progress
from online.learning.building import create_learner
from online.learning.gate import Gate
from online.learning.placing import configure_device
from online.learning.training_state import TrainingState
from online.models import can_tune_encoder, encoder_options, recipe, spec_of
from online.models.encoders import minilm
from online.models.encoders.text import TextEncoder, with_encoder
from online.plugins.encoder_tuning.adapter import TuningOptions
from online.plugins.encoder_tuning.reencoding import Reencoding
from online.plugins.encoder_tuning.text_events import (
    BEFORE_LOG,
    TextEvent,
    build_row_events,
    read_events_in_force,
    read_text_events,
)
from online.plugins.encoder_tuning.tuning import EncoderComparison, EncoderTuning
from online.schemas.events import Event
from online.settings import ModelSettings
from online.snapshots import Snapshots
from online.state.workspace import Workspace
from online.store import now
from online.store.deletion.event_expiry import load_expiry
from online.store.encoder_moves import create_temporary_tables, encoder_of, encoder_since, save_adaptation
from online.store.refusals import load_refusals

POLL_S = 0.25
LEARNER_TIMEOUT_S = 600.0  # for the learner to learn the log with the new encoder


@dataclass(frozen=True, slots=True)
class AdaptationOutcome:
    """The result of a run of `online adapt`.

    verdict: None if the encoders were not compared. version: the live one with another encoder; 0: there is nothing to
    learn yet; None: no change.
    """

    verdict: EncoderComparison | None
    version: int | None = None
    encoder: str = ""

    def as_dict(self) -> dict[str, object]:
        """Return the result as the JSON that is stored and printed."""
        verdict = {} if self.verdict is None else {**asdict(self.verdict), "chance": self.verdict.chance}
        better = {} if self.verdict is None else {"better": self.verdict.better}
        return {**verdict, **better, "version": self.version, "encoder": self.encoder}

    def lines(self) -> Iterator[str]:
        """Return the outcome as lines of text."""
        if self.verdict is not None:
            yield from self.verdict.lines()
        if self.version == 0:
            yield f"encoder {self.encoder[:16]} is in use: load files (`online load`), or start the service"
        elif self.version is not None:
            encoder = f"encoder {self.encoder[:16]}" if self.encoder else "frozen encoder"
            yield f"version {self.version} is live, with the {encoder}"


class AdaptationRun:
    """One run of `online adapt` on one model. Raises SetupError for a model that does not read text.

    rows: (text, label) of files, which are learned as if they came before the log.
    """

    def __init__(
        self, workspace: Workspace, name: str, tuning: TuningOptions | None = None, rows: Sequence[tuple[str, str]] = ()
    ) -> None:
        model = workspace.settings.model(name)
        assert model is not None, "the caller chose a configured model"
        if not can_tune_encoder(model.kind, model.options):
            raise SetupError(f"{name} does not read texts, so it has no text encoder to tune")
        if rows and spec_of(model.kind).has_repertoire:
            raise SetupError(
                f"{name} is a {model.kind}, whose labels are replies: import them with their examples instead"
            )
        self.rows = build_row_events(rows)
        self.workspace, self.model, self.tuning = workspace, model, tuning or TuningOptions()

    def run(self, publish: bool, tick: Progress) -> AdaptationOutcome:
        """Judge a tuned encoder. With publish, if it is better, tune on everything and adopt the result."""
        if publish:
            check_texts_are_kept(self.workspace, self.model)
            check_nothing_was_loaded(self.workspace, self.model)
        with self.workspace.lock_adapting() if publish else nullcontext():
            outcome, until = self._run(publish, tick)
            record = {"at": now(), "judged_until": until, **outcome.as_dict()}
            if publish:
                store, name = self.workspace.store, self.model.name
                store.submit(lambda connection: save_adaptation(connection, name, record)).result()
        return outcome

    def _run(self, publish: bool, tick: Progress) -> tuple[AdaptationOutcome, int]:
        """Return the outcome and the offset up to which the log was read."""
        store, model = self.workspace.store, self.model
        used = store.read(lambda connection: encoder_of(connection, model.name))
        since = store.read(lambda connection: encoder_since(connection, model.name)) if used else BEFORE_LOG
        logged = read_events_in_force(store, model.name, recipe(model.kind, self.workspace.options(model)))
        events = [*self.rows, *logged]
        tuning = EncoderTuning(model.kind, model.options, events, self.tuning, tick, self._load_tuned(used), since)
        verdict, until = tuning.judge(), logged[-1].event.offset if logged else 0
        if not (publish and verdict.better):
            return AdaptationOutcome(verdict, None, used), until
        tuned = minilm.write_tuned(self.workspace.encoders.folder, tuning.tune(events))
        return AdaptationOutcome(verdict, adopt(self.workspace, model, tuned, tick, until), tuned.stem), until

    def go_back(self, tick: Progress) -> AdaptationOutcome:
        """Adopt the frozen encoder again."""
        with self.workspace.lock_adapting():
            return AdaptationOutcome(None, adopt(self.workspace, self.model, None, tick))

    def _load_tuned(self, encoder: str) -> dict[str, NDArray[np.float32]]:
        path = self.workspace.encoders.obtain(encoder)
        return {} if path is None else minilm.tuned_tensors(path)


def adopt(workspace: Workspace, model: ModelSettings, tuned: Path | None, tick: Progress, since: int = 0) -> int:
    """Make a tuned encoder, or (None) the frozen one, the encoder of a model; return the version then live.

    since: the offset up to which the encoder was tuned. Serving and learning continue during the call.
    Raises SetupError, with nothing changed, if a text is missing or the gate refuses the result.
    """
    name = tuned.stem if tuned else ""
    check_texts_are_kept(workspace, model)
    with workspace.store.separate_connection() as connection:
        create_temporary_tables(connection)
        connection.commit()
        reencoding = Reencoding(connection, model.name, open_text_encoder(workspace, model, tuned), tick)
        workspace.announce_encoder(model.name, name)
        reencoding.catch_up()
        check_gate(workspace, model, name, reencoding.known)
        while not reencoding.try_move(name, since):
            reencoding.catch_up()
    workspace.event_wakeup(model.name).notify()
    return wait_for_version(workspace, model, tick)


def check_texts_are_kept(workspace: Workspace, model: ModelSettings) -> None:
    """Raise SetupError where the contents of events expire, or have expired."""
    expiry = workspace.store.read(lambda connection: load_expiry(connection, model.name))
    if expiry.closed_until or workspace.settings.event_retention_days is not None:
        raise SetupError(
            f"the encoder of {model.name} cannot be changed: contents of events are kept for event_retention_days only, and "
            "without their texts another encoder would learn only what is left of the log"
        )


def check_nothing_was_loaded(workspace: Workspace, model: ModelSettings) -> None:
    """Raise SetupError where the model began with files, whose texts are not kept."""
    if workspace.snapshots(model.name).has_base:
        raise SetupError(
            f"{model.name} began with files (`online load`), whose texts are not kept, so that another encoder would lose them: "
            f"remove {workspace.snapshots(model.name).folder} first, then adapt with these files and load them again"
        )


def open_text_encoder(workspace: Workspace, model: ModelSettings, tuned: Path | None) -> TextEncoder:
    """Open the frozen text encoder, or a tuned one, with the settings of a model. Raises SetupError."""
    language = encoder_options(model.kind, model.options)["language"]
    try:
        return TextEncoder(cache_folder(), workspace.settings.encoder_threads, sys.maxsize, tuned, language=language)
    except (ValueError, FileNotFoundError) as error:
        raise SetupError(str(error)) from None


def check_gate(workspace: Workspace, model: ModelSettings, name: str, features: Mapping[str, bytes]) -> None:
    """Learn the current log with these features.

    Raises SetupError with the reason if the gate refuses the result.
    """
    options, store = with_encoder(model.options, name), workspace.store
    recipes = recipe(model.kind, options), recipe(model.kind, workspace.options(model))
    refused = store.read(lambda connection: load_refusals(connection, model.name, recipes[0])) | store.read(
        lambda connection: load_refusals(connection, model.name, recipes[1])
    )
    events = [each for each in read_text_events(store, model.name) if not each.text or each.text in features]
    entries = [replace_features(each, features) for each in events]
    training = TrainingState(model.kind, options, "cpu", lambda until: (), refused, drift=model.drift)
    if entries:
        training.apply(entries)
    refusal = Gate(model.kind, options).refusal(training.state(serving_only=True), training.model.probes())
    if refusal is not None:
        raise SetupError(f"the gate refuses what {model.name} would learn with this encoder: {refusal}")


def replace_features(each: TextEvent, features: Mapping[str, bytes]) -> Event:
    """Return the event with other features, also inside what a retraction retracts."""
    return Event.parse(each.event.body(), features[each.text], each.event.offset) if each.text else each.event


# the version that has learned the log with the new encoder


def wait_for_version(workspace: Workspace, model: ModelSettings, tick: Progress) -> int:
    """Return the live version with the encoder in use.

    Where no learner runs, learn the log in this process.
    """
    wanted = recipe(model.kind, workspace.options(model))
    snapshots, until = workspace.snapshots(model.name), time.monotonic() + LEARNER_TIMEOUT_S
    with closing(snapshots.folder.wakeup.listen()) as wakeup:
        while (version := find_live_version(snapshots, wanted)) is None:
            tick("waiting for the learner", 0, 1)
            lock = try_learner_lock(workspace)
            if lock is not None:
                with lock:
                    return learn_in_process(workspace, model)
            if time.monotonic() > until:
                raise SetupError(
                    f"the learner has not learned {model.name} with its new encoder in {LEARNER_TIMEOUT_S:.0f} s; "
                    "see the learner's log"
                )
            wakeup.wait(POLL_S)
    return version


def find_live_version(snapshots: Snapshots, wanted: str) -> int | None:
    """Return the live version if it is of this recipe."""
    if snapshots.folder.live_until(wanted) < 0:
        return None
    live = snapshots.folder.live()
    return live.version if live else None


def try_learner_lock(workspace: Workspace) -> IO[str] | None:
    """Return the lock of the learner; None if a learner runs."""
    try:
        return workspace.lock_learner(wait=False)
    except SetupError:  # a learner runs
        return None


def learn_in_process(workspace: Workspace, model: ModelSettings) -> int:
    """Learn the whole log; return the published version. 0 for an empty log, before which files may be loaded."""
    options = workspace.options(model)
    with closing(workspace.sql_stream(model.name, options.get("encoder", ""))) as stream:
        if not stream.head():
            return 0
        learner = create_learner(workspace, model, options, stream, configure_device(workspace.settings, model))
        learner.resume()
        until = stream.head()
        while learner.training.learned_until < until:
            learner.learn(stream.read(learner.training.learned_until, workspace.settings.learn_batch))
        written = learner.publish(durable=True)
    if written is None:
        raise SetupError(f"the gate refused what {model.name} learned; `online adapt --frozen` goes back")
    return written.version

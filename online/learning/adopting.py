"""Another encoder for a model, while it serves and learns: everything it ever read is encoded anew and learned anew.

    log, predictions --texts--> encoder --features--> aside, then what came meanwhile, until little is left
                                                        |
                         one transaction: the little that is left, all features, the encoder's name
                                                        |
      learner: another recipe, learns the whole log     |     server: answers with the version and the encoder it has,
                      |                                 |     records with the new one
                      +--publishes--> the server takes up that version and its encoder together

The name in the store decides: whoever writes features compares it in the same transaction (`store.check_encoder`) and
encodes again where it has changed, whoever learns compares it with every read. So all features in the store are of one
encoder at every moment, and so are all sums of a version; killed anywhere, the name and the features still agree. The
way back is the same way with the frozen encoder, which gives the bytes that were there before.
"""

import json
import logging
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, insert

from online.errors import SetupError
from online.learning.adapting import PAGE, Adaptation, Said, Tick, Verdict, read_all, read_said, said_after
from online.learning.gate import Gate
from online.learning.learner import Pupil
from online.learning.process import device_of, learner_of
from online.models import minilm, recipe
from online.models.adapter import Tuning
from online.models.encoder import TextEncoder, adapts, with_encoder
from online.observability import fact
from online.schemas import Entry, Event
from online.settings import ModelSettings
from online.snapshots import Snapshots
from online.store import (
    MOVED_EVENTS,
    MOVED_PREDICTIONS,
    begin_move,
    encoder_of,
    encoder_since,
    finish_move,
    note_adaptation,
    now,
    predictions_to_move,
    refused_offsets,
)
from online.workspace import Workspace, cache_folder

log = logging.getLogger("online.adopting")

FEW = 16  # texts encoded while everybody who writes waits
POLL_S = 0.25
LEARNED_S = 600.0  # a learner that has not learned the log by then is not waited for


@dataclass(frozen=True, slots=True)
class Outcome:
    """verdict: None where none was asked for. version: the one that is live with another encoder; None: no change."""

    verdict: Verdict | None
    version: int | None = None
    encoder: str = ""

    def told(self) -> dict[str, Any]:
        """For machines."""
        verdict = {} if self.verdict is None else {**asdict(self.verdict), "chance": self.verdict.chance}
        better = {} if self.verdict is None else {"better": self.verdict.better}
        return {**verdict, **better, "version": self.version, "encoder": self.encoder}

    def lines(self) -> Iterator[str]:
        """For people."""
        if self.verdict is not None:
            yield from self.verdict.lines()
        if self.version is not None:
            yield f"version {self.version} is live, with the {f'encoder {self.encoder[:16]}' if self.encoder else 'frozen encoder'}"


class Attempt:
    """`online adapt` on one model of a state folder. Raises SetupError for a model that reads no texts."""

    def __init__(self, workspace: Workspace, name: str, tuning: Tuning | None = None) -> None:
        model = workspace.settings.model(name)
        assert model is not None, "the caller chose a model that is configured"
        if not adapts(model.kind, model.options):
            raise SetupError(f"{name} is a {model.kind} that reads no texts: there is no text encoder to tune")
        self.workspace, self.model, self.tuning = workspace, model, tuning or Tuning()

    def run(self, publish: bool, tick: Tick) -> Outcome:
        """Judge; where it is better and to be published, tune on everything and take it up."""
        with self.workspace.lock_adapting() if publish else nullcontext():
            outcome, until = self._run(publish, tick)
            told = {"at": now(), "judged_until": until, **outcome.told()}
            if publish:
                store, name = self.workspace.store, self.model.name
                store.submit(lambda connection: note_adaptation(connection, name, told)).result()
        return outcome

    def _run(self, publish: bool, tick: Tick) -> tuple[Outcome, int]:
        """The outcome, and the offset until which was read."""
        store, model = self.workspace.store, self.model
        used = store.read(lambda connection: encoder_of(connection, model.name))
        since = store.read(lambda connection: encoder_since(connection, model.name)) if used else 0
        said = read_said(store, model.name, recipe(model.kind, self.workspace.options(model)))
        adaptation = Adaptation(model.kind, model.options, said, self.tuning, tick, self._tensors(used), since)
        verdict, until = adaptation.judge(), said[-1].entry.offset
        if not (publish and verdict.better):
            return Outcome(verdict, None, used), until
        tuned = minilm.write_tuned(self.workspace.encoders, adaptation.tuned(said))
        return Outcome(verdict, adopt(self.workspace, model, tuned, tick, until), tuned.stem), until

    def go_back(self, tick: Tick) -> Outcome:
        """Take up the frozen encoder again."""
        with self.workspace.lock_adapting():
            return Outcome(None, adopt(self.workspace, self.model, None, tick))

    def _tensors(self, encoder: str) -> dict[str, NDArray[np.float32]]:
        path = self.workspace.tuned(encoder)
        return {} if path is None else minilm.tuned_tensors(path)


def adopt(workspace: Workspace, model: ModelSettings, tuned: Path | None, tick: Tick, since: int = 0) -> int:
    """Make a text model's encoder the one tuned to a file, or (None) the frozen one; gives the version then live.

    since: the offset it was tuned until. Others may serve and learn meanwhile. Raises SetupError, and nothing has
    changed, when a text is not there to be encoded anew or the gate would refuse what is learned.
    """
    name = tuned.stem if tuned else ""
    with workspace.store.aside() as connection:
        anew = Anew(connection, model.name, text_encoder(workspace, tuned), tick)
        workspace.announce_encoder(model.name, name)
        anew.catch_up()
        check_gate(workspace, model, name, anew.known)
        while not anew.moved(name, since):
            anew.catch_up()
    workspace.event_bell(model.name).ring()
    return learned(workspace, model, tick)


def text_encoder(workspace: Workspace, tuned: Path | None) -> TextEncoder:
    try:
        return TextEncoder(cache_folder(), workspace.settings.encoder_threads, sys.maxsize, tuned)
    except (ValueError, FileNotFoundError) as error:
        raise SetupError(str(error)) from None


class Anew:
    """Everything that a model ever read, encoded by another encoder in the connection's temporary tables."""

    def __init__(self, connection: Connection, model: str, encoder: TextEncoder, tick: Tick) -> None:
        self.connection, self.model, self.encoder, self.tick = connection, model, encoder, tick
        self.texts: dict[int, str] = {}  # of the log, by offset
        self.known: dict[str, bytes] = {}  # features of the log's texts
        self.asked = 0  # predictions encoded
        self.after = ""  # the id behind which the next page of predictions begins

    def catch_up(self) -> None:
        """Until no more than a few are left; a service that is asked more than is encoded here is followed till then."""
        said, asked = self._rest()
        while len(said) + len(asked) > FEW:
            self.connection.commit()  # encoding takes long: no transaction is open meanwhile
            self._put(said, asked)
            self.connection.commit()
            said, asked = self._rest()
        self._leave(said)

    def moved(self, name: str, since: int) -> bool:
        """In one transaction: encode what is left, and put all in place. False where too much is left for that."""
        begin_move(self.connection, self.model, name, since)
        began = time.monotonic()
        self.after = ""
        said, asked = self._rest()
        if len(said) + len(asked) > FEW:
            self._leave(said)
            return False
        self._put(said, asked)
        finish_move(self.connection, self.model)
        self.connection.commit()
        held_ms = round(1000 * (time.monotonic() - began), 1)  # so long nobody else could write
        fact(log, "taken up", model=self.model, encoder=name[:16] or "frozen", held_ms=held_ms)
        return True

    def _rest(self) -> tuple[list[Said], list[tuple[str, str]]]:
        """A page of what is not encoded yet: of the log, and (id, input) of predictions."""
        asked = predictions_to_move(self.connection, self.model, self.after, PAGE)
        self.after = asked[-1][0] if len(asked) == PAGE else ""  # ids need not come in their order: start over
        return said_after(self.connection, self.model, self.texts), asked

    def _leave(self, said: list[Said]) -> None:
        """For the next time."""
        self.connection.rollback()
        for each in said:
            del self.texts[each.entry.offset]

    def _put(self, said: list[Said], asked: list[tuple[str, str]]) -> None:
        events = []
        for each in said:
            if each.text:
                self.known[each.text] = self.known.get(each.text) or self._features(each.text, "log")
                events.append({"offset": each.entry.offset, "features": self.known[each.text]})
            self.tick("encoding the log", each.entry.offset, said[-1].entry.offset)
        predictions = []
        for place, (id, text) in enumerate(asked, 1):
            predictions.append({"id": id, "features": self._features(json.loads(text), "predictions")})
            self.tick("encoding the predictions", self.asked + place, self.asked + len(asked))
        self.asked += len(asked)
        for table, rows in ((MOVED_EVENTS, events), (MOVED_PREDICTIONS, predictions)):
            if rows:
                self.connection.execute(insert(table), rows)

    def _features(self, text: object, what: str) -> bytes:
        """Raises SetupError for what is no text."""
        try:
            return self.encoder.encode([text])[0]
        except ValueError as error:
            raise SetupError(f"the {what} cannot be encoded anew: {str(error).removeprefix('instance 0 ')}") from None


def check_gate(workspace: Workspace, model: ModelSettings, name: str, features: Mapping[str, bytes]) -> None:
    """Learn the log as it is now with these features, and ask the gate. Raises SetupError with what it refuses."""
    options, store = with_encoder(model.options, name), workspace.store
    recipes = recipe(model.kind, options), recipe(model.kind, workspace.options(model))
    refused = store.read(lambda connection: refused_offsets(connection, model.name, recipes[0])) | store.read(
        lambda connection: refused_offsets(connection, model.name, recipes[1])
    )
    said = [each for each in read_all(store, model.name) if not each.text or each.text in features]
    entries = [encoded(each, features) for each in said]
    pupil = Pupil(model.kind, options, "cpu", lambda until: (), refused, drift=model.drift)
    if entries:
        pupil.apply(entries)
    refusal = Gate(model.kind, options).refusal(pupil.state(serving_only=True), pupil.model.probes())
    if refusal is not None:
        raise SetupError(f"the gate refuses what {model.name} would learn with this encoder: {refusal}")


def encoded(each: Said, features: Mapping[str, bytes]) -> Entry:
    """With other features, in what a retraction carries too."""
    event = Event.parse(each.event.body(), features[each.text]) if each.text else each.event
    return Entry(each.entry.offset, event)


# learned anew


def learned(workspace: Workspace, model: ModelSettings, tick: Tick) -> int:
    """The version that is live with the encoder in use: of the learner that runs, or learned here where none does."""
    made_by = recipe(model.kind, workspace.options(model))
    snapshots, until = workspace.snapshots(model.name), time.monotonic() + LEARNED_S
    with closing(snapshots.bell.listen()) as bell:
        while (version := live_version(snapshots, made_by)) is None:
            tick("waiting for the learner", 0, 1)
            lock = free_learner(workspace)
            if lock is not None:
                with lock:
                    return learned_here(workspace, model)
            if time.monotonic() > until:
                raise SetupError(f"the learner has not learned {model.name} with its new encoder; see what it logs")
            bell.wait(POLL_S)
    return version


def live_version(snapshots: Snapshots, made_by: str) -> int | None:
    if snapshots.live_until(made_by) < 0:
        return None
    live = snapshots.live()
    return live.version if live else None


def free_learner(workspace: Workspace) -> IO[str] | None:
    try:
        return workspace.lock_learner(wait=False)
    except SetupError:  # one runs
        return None


def learned_here(workspace: Workspace, model: ModelSettings) -> int:
    """The version in which all of the log is learned."""
    options = workspace.options(model)
    with closing(workspace.sql_stream(model.name, options.get("encoder", ""))) as stream:
        learner = learner_of(workspace, model, options, stream, device_of(workspace.settings))
        learner.resume()
        until = stream.head()
        while learner.pupil.learned_until < until:
            learner.learn(stream.read(learner.pupil.learned_until, workspace.settings.learn_batch))
        written = learner.publish(durable=True)
    if written is None:
        raise SetupError(f"the gate refused what {model.name} learned; `online adapt --frozen` goes back")
    return written.version

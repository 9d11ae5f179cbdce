"""Another encoder for a model that stands still: everything it ever read is encoded anew, and learned anew.

    log, predictions --texts--> encoder --features--> one transaction, with the encoder's name in it
                                                         |
                    a version that knows the whole log <-- the learner, from nothing: the recipe names the encoder

So all features in the store are of one encoder, and so are all sums of a version. The way back is the same way with the
frozen encoder, which gives the bytes that were there before. Nobody may serve or learn meanwhile.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from online.errors import SetupError
from online.learning.adapting import PAGE, Adaptation, Tick, Verdict, read_all, read_said
from online.learning.process import device_of, learner_of
from online.models import recipe
from online.models.adapter import Tuning
from online.models.encoder import TextEncoder
from online.models.minilm import write_tuned
from online.settings import ModelSettings
from online.store import Store, adopt_encoder, inputs_of
from online.workspace import Workspace, cache_folder


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
        if model.kind not in ("ranker", "classifier") or model.options.get("input", "text") != "text":
            raise SetupError(f"{name} is a {model.kind} that reads no texts: there is no text encoder to tune")
        self.workspace, self.model, self.tuning = workspace, model, tuning or Tuning()

    def run(self, publish: bool, tick: Tick) -> Outcome:
        """Judge; where it is better and to be published, tune on everything and take it up."""
        made_by = recipe(self.model.kind, self.workspace.options(self.model))
        said = read_said(self.workspace.store, self.model.name, made_by)
        adaptation = Adaptation(self.model.kind, self.model.options, said, self.tuning, tick)
        verdict = adaptation.judge()
        if not (publish and verdict.better):
            return Outcome(verdict)
        tuned = write_tuned(self.workspace.encoders, adaptation.tuned(said))
        return Outcome(verdict, adopt(self.workspace, self.model, tuned, tick), tuned.stem)

    def go_back(self, tick: Tick) -> Outcome:
        """Take up the frozen encoder again."""
        return Outcome(None, adopt(self.workspace, self.model, None, tick))


@contextmanager
def stopped(workspace: Workspace) -> Iterator[None]:
    """Nobody serves or learns on this state while it is open. Raises SetupError where somebody does."""
    with workspace.lock_service(alone=True), workspace.lock_learner(wait=False):
        yield


def adopt(workspace: Workspace, model: ModelSettings, tuned: Path | None, tick: Tick) -> int:
    """Make a text model's encoder the one tuned to a file, or (None) the frozen one; gives the version then live.

    To be called while `stopped`. Raises SetupError when a text is not there to be encoded anew.
    """
    encoder = TextEncoder(cache_folder(), workspace.settings.encoder_threads, sys.maxsize, tuned)
    store = workspace.store
    said = [each for each in read_all(store, model.name) if each.text]
    log = encoded(encoder, [each.text for each in said], "log", tick)
    events = [(each.entry.offset, features) for each, features in zip(said, log, strict=True)]
    asked = [*_asked(store, model.name)]
    answered = encoded(encoder, [text for _, text in asked], "predictions", tick)
    predictions = [(id, features) for (id, _), features in zip(asked, answered, strict=True)]
    name = tuned.stem if tuned else ""
    store.submit(lambda connection: adopt_encoder(connection, model.name, name, events, predictions)).result()
    return learned(workspace, model)


def encoded(encoder: TextEncoder, texts: Sequence[object], what: str, tick: Tick) -> Iterator[bytes]:
    """Raises SetupError for what is no text."""
    for place, text in enumerate(texts, 1):
        try:
            yield encoder.encode([text])[0]
        except ValueError as error:
            raise SetupError(f"the {what} cannot be encoded anew: {str(error).removeprefix('instance 0 ')}") from None
        tick(f"encoding the {what}", place, len(texts))


def _asked(store: Store, model: str) -> Iterator[tuple[str, object]]:
    """(id, what was asked) of every prediction."""
    after = ""
    while rows := store.read(lambda connection: inputs_of(connection, model, after, PAGE)):  # noqa: B023 (read at once)
        yield from ((id, json.loads(asked)) for id, asked in rows)
        after = rows[-1][0]


def learned(workspace: Workspace, model: ModelSettings) -> int:
    """The version in which all of the log is learned."""
    with closing(workspace.sql_stream(model.name)) as stream:
        learner = learner_of(workspace, model, stream, device_of(workspace.settings))
        learner.resume()
        until = stream.head()
        while learner.pupil.learned_until < until:
            learner.learn(stream.read(learner.pupil.learned_until, workspace.settings.learn_batch))
        written = learner.publish(durable=True)
    if written is None:
        raise SetupError(
            f"the gate refused what {model.name} learned with this encoder; `online adapt --frozen` goes back"
        )
    return written.version

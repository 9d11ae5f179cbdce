"""A state folder with one model that two users taught, without a service: what `online erase` works on."""

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sqlalchemy import Connection, delete

from online.cli.access.stopped_service import learn_everything
from online.installed import ContributedParts
from online.learning.training_state import TrainingState
from online.models import Options
from online.schemas.events import Event
from online.schemas.feedback import FeedbackItem
from online.serving.erasure.progress import ErasableModel
from online.serving.erasure.work import ErasureWork
from online.serving.feedback.recording import build_row, prepare_item
from online.settings import ModelSettings, Settings
from online.state.workspace import Workspace
from online.store import now
from online.store.events import EVENTS, append_events, head_of
from online.store.feedback import FEEDBACK, add_feedback
from online.store.predictions import PREDICTIONS, add_predictions

USER = "annasophia"
ID = "e" * 32


def open_workspace(folder: Path, kind: str, options: Options, **model: Any) -> Workspace:
    spec = ModelSettings.model_validate({"name": "m", "kind": kind, "options": options, **model})
    return Workspace(Settings(state=folder / "state", models=(spec,)))


class ErasureScene:
    """A workspace, and an erasure of the user in it. kill_after: commits after which this process kills itself."""

    def __init__(self, workspace: Workspace, kill_after: int = 0) -> None:
        self.workspace, self.spec = workspace, workspace.settings.models[0]
        self.commits, self.kill_after = 0, kill_after
        self.snapshots = workspace.snapshots("m")
        erasable = ErasableModel(self.spec, self.snapshots, None, lambda: None)
        self.work = ErasureWork(workspace, {"m": erasable}, ContributedParts())

    def give(self, user: str, id: str, features: bytes, label: str) -> None:
        """Ask one question and give feedback on it, as a service records both."""
        event = Event(id, "label", features, label, choice=label)
        asked = f"asked-{id.rpartition('-')[2]}"
        prediction = {"id": asked, "model": "m", "version": 0, "learned_until": 0, "user": user}
        answer = {"input": json.dumps(f"words of {user} {id}"), "features": features, "choice": label}
        more = {"propensity": 1.0, "candidates": json.dumps([[label, 1.0]]), "created_at": now()}
        item = FeedbackItem(id=id, prediction_id=asked, label=label, user=user)

        def record(connection: Connection) -> None:
            add_predictions(connection, [{**prediction, **answer, **more}])
            offset = append_events(connection, "m", [event])[0]
            add_feedback(connection, [build_row("m", prepare_item(item), offset, "local", None)])

        self.workspace.store.submit(record).result()

    def append(self, *events: Event) -> None:
        self.workspace.store.submit(lambda connection: append_events(connection, "m", events)).result()

    def learn(self) -> None:
        learn_everything(self.workspace)

    def lose(self, count: int) -> None:
        """Let the log go back in time, as a truncated write-ahead log does: its newest events are gone."""

        def cut(connection: Connection) -> None:
            until = head_of(connection, "m") - count
            for table in (EVENTS, FEEDBACK):
                connection.execute(delete(table).where(table.c.offset > until))
            asked = [f"asked-{n}" for n in range(until, until + count)]
            connection.execute(delete(PREDICTIONS).where(PREDICTIONS.c.id.in_(asked)))

        self.workspace.store.submit(cut).result()

    def erase(self) -> dict[str, Any]:
        """Begin an erasure, or continue it, to its end; return the statement."""
        if self.kill_after:
            self._count_commits()
        if not self.work.list_unfinished():
            self.work.begin(ID, USER, ["m"])
        while self.work.list_unfinished():
            if not self.work.advance(ID):
                self.learn()
        statement: dict[str, Any] = json.loads(self.work.load(ID)[0].statement or "{}")
        return statement

    def _count_commits(self) -> None:
        store: Any = self.workspace.store
        submit: Callable[..., Any] = store.submit

        def submit_and_die(run: Callable[[Connection], Any], durable: bool = True, is_background: bool = False) -> Any:
            done = submit(run, durable, is_background)
            done.result()
            self.commits += 1
            if self.commits == self.kill_after:
                os.kill(os.getpid(), signal.SIGKILL)
            return done

        store.submit = submit_and_die

    def entries(self) -> list[Event]:
        stream = self.workspace.sql_stream("m")
        try:
            return stream.read(0, 100_000)
        finally:
            stream.close()


def teach(scene: ErasureScene, count: int, features: Callable[[int], bytes], label: Callable[[int], str]) -> None:
    """Let both users teach in turn; every third feedback is the erased user's, who also has a class of their own."""
    for n in range(count):
        user = USER if n % 3 == 1 else "bert"
        scene.give(user, f"{user}-{n}", features(n), "anna's own" if n == 4 and label(0) != "0" else label(n))


def vector(n: int) -> bytes:
    return np.random.default_rng(n).normal(n % 2, 0.5, 3).tobytes()


def state_without_user(workspace: Workspace, entries: list[Event], until: int) -> TrainingState:
    """What a learner has that never saw the user: others' events in their places, learned from the beginning."""
    spec = workspace.settings.models[0]
    theirs = [entry for entry in entries if USER not in entry.id]
    training = TrainingState(spec.kind, workspace.options(spec), "cpu", lambda _: theirs, drift=spec.drift)
    training.apply([*theirs, Event("last", "void", offset=until)])
    return training

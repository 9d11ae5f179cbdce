"""Runs work on feedback in the store of this process: the store process, or a server without one.

work --queue of the store--> transaction --COMMIT--> the learner is woken --> receipts
"""

from collections.abc import Mapping
from concurrent.futures import Future
from functools import partial

from sqlalchemy import Connection

from online.io.wakeup import Wakeup
from online.schemas.feedback import Receipt
from online.serving.feedback.recording import FeedbackRecorder
from online.serving.processes.store_messages import MarkLearned, RetractFeedback, SubmitFeedback, Work
from online.store import Store
from online.store.feedback import mark_learned_spans
from online.store.journal_copy import JournalCopy
from online.workspace import Workspace


class FeedbackWork:
    """recorders, wakeups: by model."""

    def __init__(self, store: Store, recorders: Mapping[str, FeedbackRecorder], wakeups: Mapping[str, Wakeup]) -> None:
        self.store, self.recorders, self.wakeups = store, recorders, wakeups

    def submit(self, work: Work) -> "Future[list[Receipt]]":
        """Queue the work; the future resolves once it is committed, and the learner is woken."""
        teaches = not isinstance(work, MarkLearned)
        future = self.store.submit(partial(self._run, work), durable=teaches)
        if teaches:
            future.add_done_callback(partial(self._wake_learner, work.model))
        return future

    def _wake_learner(self, model: str, done: "Future[list[Receipt]]") -> None:
        if not done.cancelled() and done.exception() is None:
            self.wakeups[model].notify()

    def _run(self, work: Work, connection: Connection) -> list[Receipt]:
        match work:
            case SubmitFeedback():
                return self.recorders[work.model].submit(connection, work)
            case RetractFeedback():
                return [self.recorders[work.model].retract(connection, work)]
            case MarkLearned():
                mark_learned_spans(connection, work.model, work.spans)
                return []


def create_work(workspace: Workspace, journal: JournalCopy) -> FeedbackWork:
    """For every model of the settings."""
    settings = workspace.settings
    recorders = {spec.name: FeedbackRecorder(settings, spec, journal) for spec in settings.models}
    return FeedbackWork(workspace.store, recorders, {name: workspace.event_wakeup(name) for name in recorders})

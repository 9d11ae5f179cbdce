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
from online.serving.processes.store_messages import MarkLearned, RetractFeedback, Work
from online.state.workspace import Workspace
from online.store import Store
from online.store.feedback import mark_learned
from online.store.journal_copy import JournalCopy


class FeedbackWork:
    """recorders, wakeups: by model."""

    def __init__(self, store: Store, recorders: Mapping[str, FeedbackRecorder], wakeups: Mapping[str, Wakeup]) -> None:
        self.store, self.recorders, self.wakeups = store, recorders, wakeups
        self._taught = set[str]()  # models whose logs the transaction under way appends to
        store.after_commit = self._wake_learners

    def submit(self, work: Work) -> "Future[list[Receipt]]":
        """Queue the work; the future resolves once it is committed, and the learner is woken."""
        return self.store.submit(partial(self._run, work), durable=not isinstance(work, MarkLearned))

    def _wake_learners(self) -> None:
        """Once for all that was committed together."""
        taught, self._taught = self._taught, set()
        for model in taught:
            self.wakeups[model].notify()

    def _run(self, work: Work, connection: Connection) -> list[Receipt]:
        if isinstance(work, MarkLearned):
            mark_learned(connection, work.model, work.spans)
            return []
        recorder = self.recorders[work.model]
        if isinstance(work, RetractFeedback):
            receipts = [recorder.retract(connection, work)]
        else:
            receipts = recorder.submit(connection, work)
        self._taught.add(work.model)
        return receipts


def create_work(workspace: Workspace, journal: JournalCopy) -> FeedbackWork:
    """For every model of the settings."""
    settings = workspace.settings
    recorders = {spec.name: FeedbackRecorder(settings, spec, journal) for spec in settings.models}
    return FeedbackWork(workspace.store, recorders, {name: workspace.event_wakeup(name) for name in recorders})

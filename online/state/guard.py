"""Roll back a live version that is worse than the versions before it, and set the feedback since then apart.

    the loss rises (learning)                -->  roll LIVE back to the newest version from before
    it abstains more, or is slower (serving) -->  freeze: nothing is learned until an operator decides

The cause may be an attack, a broken client, or a change of the world. A detector cannot tell them apart, so an operator
decides what the feedback is worth (online/store/quarantine.py); until then it cannot make answers worse. Where trusted
callers gave the feedback, a change of the world is the likely cause, and learning is what helps: unless the guard watches
`all` feedback, it does nothing then, and the alarm of the drift detector is all.
"""

import logging
from functools import partial

from sqlalchemy import Connection

from online.schemas.control import ControlChange
from online.schemas.fields import Cause
from online.settings import GuardMode
from online.snapshots import Snapshots
from online.snapshots.agreed import ServingState
from online.state.version_control import VersionControl
from online.store import Store, now, quarantine
from online.store.events import count_feedback_of_callers
from online.store.quarantine import QuarantineRow
from online.telemetry import log_event

log = logging.getLogger("online.state.guard")

SUSPECT_SHARE = 0.1  # of the feedback since a change; what fewer than that said is not its cause


class Guard:
    """Acts for the process that noticed; learning and serving each have one."""

    def __init__(self, snapshots: Snapshots, store: Store, recipe: str, mode: GuardMode = "callers") -> None:
        """mode: whose feedback may be quarantined."""
        self.snapshots, self.store, self.recipe, self.mode = snapshots, store, recipe, mode
        self.versions = VersionControl(snapshots, store)

    def is_suspect(self, since: int, until: int) -> bool:
        """Return whether the feedback from one offset to another may be quarantined."""
        if self.mode != "callers":
            return self.mode == "all"
        model = self.snapshots.model
        total, untrusted = self.store.read(
            lambda connection: count_feedback_of_callers(connection, model, since, until)
        )
        return bool(untrusted and untrusted >= SUSPECT_SHARE * total)

    def act(self, offset: int, since: int, reason: str) -> None:
        """Begin a quarantine. A repeated call, as after a crash, changes nothing.

        offset: of the event that raised the alarm; since: the first event that may have caused it.
        """
        if not self.is_suspect(since, offset):
            return
        older = self.snapshots.control.find_before(since, self.recipe)
        row = QuarantineRow(
            model=self.snapshots.model,
            offset=offset,
            since=since,
            until=None,
            reason=reason,
            rolled_back_to=older.version if older else None,
            created_at=now(),
            ended_at=None,
            outcome=None,
        )
        change = describe_quarantine(row)
        recorded = self.store.submit(partial(self._begin, row=row, change=change)).result()
        if recorded is not None:
            self._finish(row, change, recorded)

    def _begin(
        self, connection: Connection, row: QuarantineRow, change: ControlChange
    ) -> tuple[int, ServingState] | None:
        """Record a quarantine, and what it changes about the versions; None if there is one already."""
        return self.versions.record(connection, change) if quarantine.begin(connection, row) else None

    def _finish(self, row: QuarantineRow, change: ControlChange, recorded: tuple[int, ServingState]) -> None:
        self.versions.finish(recorded, change, self.recipe)
        facts = {"since": row.since, "version": row.rolled_back_to, "reason": row.reason}
        log_event(log, "quarantine started", logging.WARNING, model=row.model, **facts)

    def finish(self) -> None:
        """Complete a quarantine that another process began before it was killed."""
        row = self.store.read(lambda connection: quarantine.load_open(connection, self.snapshots.model))
        if row is not None and self.snapshots.control.frozen() is None:
            self.versions.apply(describe_quarantine(row), self.recipe)


def describe_quarantine(row: QuarantineRow) -> ControlChange:
    """Return the change that a quarantine makes: an older version answers, where there is one, and nothing is learned."""
    cause = Cause(code="guard", figures={"since": row.since}).model_dump()
    reason, at = f"the guard: {row.reason}", row.created_at
    return ControlChange("quarantine", row.rolled_back_to, at=at, reason=reason, cause=cause, since=row.since)

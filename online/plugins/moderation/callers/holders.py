"""Decisions about holders: set one apart, release it, drop all it said. Each is many small transactions.

    quarantined --> new feedback is held; feedback in force is retracted exactly, and held
    release   --> what is held is accepted; the review leaves the holder alone
    drop      --> what stands is retracted exactly, what is held is rejected; new feedback is held

The state of the holder is written first: a process that is killed in between leaves work that the next call, or the next
review, completes.
"""

import logging
from collections.abc import Callable
from contextlib import suppress

from sqlalchemy import Connection

from online.errors import Conflict, NotFound
from online.plugins.moderation.callers.standing import (
    StandingRow,
    State,
    load_or_create_standing,
    load_standing,
    set_state,
)
from online.plugins.moderation.held.deciding import accept_held, note_rejected, reject, reject_held
from online.plugins.moderation.held.queries import list_undecided
from online.schemas.feedback import FeedbackItem
from online.serving.feedback.feedback import Feedback
from online.serving.feedback.retraction import find_closed_until, record_retraction
from online.store import now
from online.store.callers.held_feedback import HeldFeedbackRow, HoldReason, add_held
from online.store.database.values import ERASED, NO_TEXT
from online.store.feedback import FeedbackRow, load_unretracted_of_holder
from online.store.predictions import load_predictions
from online.telemetry import log_event

log = logging.getLogger("online.holders")

MAX_CHANGES = 100  # retractions, or acceptances, from one look at the store to the next
DECIDED_BY_REVIEW = "review"
REJECTED: tuple[HoldReason, ...] = ("influence", "quarantine", "review")
RELEASED: tuple[HoldReason, ...] = ("influence", "quarantine")


class Holders:
    """Decides about the holders of one model. on_change: called with (holder, state, reason) once a state is stored."""

    def __init__(self, feedback: Feedback, on_change: Callable[[str, State, str | None], None]) -> None:
        self.feedback, self.name, self.on_change = feedback, feedback.name, on_change

    async def establish(self, holder: str) -> None:
        """From now on it may say as much as others."""
        await self._set_state(holder, "established", None, DECIDED_BY_REVIEW)

    async def quarantine(self, holder: str, reason: str, by: str = DECIDED_BY_REVIEW) -> None:
        """Stop learning from a holder, and hold the feedback that it gave."""
        await self._set_state(holder, "quarantined", reason, by)
        await self.retract_feedback(holder, is_kept=True)

    async def release(self, holder: str, by: str) -> StandingRow:
        """Vouch for a holder: learn what is held of it. Raises NotFound for a holder that is not known."""
        await self._set_state(holder, "released", None, by, must_exist=True)
        await self.accept_all(holder, by)
        return await self._load(holder)

    async def drop(self, holder: str, by: str) -> StandingRow:
        """Retract all feedback of a holder. Raises NotFound for a holder that has given no feedback."""
        await self._set_state(holder, "dropped", None, by, must_exist=True)
        await self.retract_feedback(holder, is_kept=False)
        while rejected := await self.feedback.transactions.write(
            lambda connection: self._reject_some(connection, holder, by)
        ):
            note_rejected(self.feedback, rejected)
        return await self._load(holder)

    # parts of it

    async def _set_state(
        self, holder: str, state: State, reason: str | None, by: str, must_exist: bool = False
    ) -> None:
        def record(connection: Connection) -> None:
            if load_standing(connection, self.name, holder) is None:
                if must_exist and not load_unretracted_of_holder(connection, self.name, holder, 1):
                    raise NotFound(f"{self.name} has no feedback of the caller {holder!r}")
                load_or_create_standing(connection, self.name, holder, "", now())
            set_state(connection, self.name, holder, state, reason, by, now())

        await self.feedback.transactions.commit(record)
        severity = logging.WARNING if state in ("quarantined", "dropped") else logging.INFO
        log_event(log, f"caller {state}", severity, model=self.name, caller=holder, by=by, reason=reason)
        self.on_change(holder, state, reason)

    async def _load(self, holder: str) -> StandingRow:
        row = await self.feedback.transactions.read(lambda connection: load_standing(connection, self.name, holder))
        assert row is not None, "it was changed"
        return row

    async def retract_feedback(self, holder: str, is_kept: bool) -> None:
        """Retract all feedback of a holder that stands and has not expired.

        is_kept: hold it, so that it can be released. Sums are not held: nobody could see what they are.
        """
        while await self.feedback.transactions.commit(
            lambda connection: self._retract_some(connection, holder, is_kept)
        ):
            pass

    def _retract_some(self, connection: Connection, holder: str, is_kept: bool) -> bool:
        """Return whether there may be more."""
        closed_until = find_closed_until(connection, self.name)
        rows = load_unretracted_of_holder(connection, self.name, holder, MAX_CHANGES, closed_until)
        for row in rows:
            record_retraction(connection, self.feedback.spec, row.id)
        kept = [row for row in rows if is_kept and row.content != ERASED and row.example_count is None]
        if kept:
            add_held(connection, self._hold_again(connection, kept))
        return len(rows) == MAX_CHANGES

    def _hold_again(self, connection: Connection, rows: list[FeedbackRow]) -> list[HeldFeedbackRow]:
        """Return held copies of feedback, under new ids: those of the feedback stay those of what was retracted."""
        asked = load_predictions(connection, self.name, [row.prediction_id for row in rows if row.prediction_id])
        held = []
        for row in rows:
            id = self.feedback.transactions.new_id()
            item = FeedbackItem.model_validate_json(row.content).model_copy(update={"id": id})
            prediction = asked.get(row.prediction_id or "")
            held.append(
                HeldFeedbackRow(
                    model=self.name,
                    id=id,
                    content=item.model_dump_json(exclude_none=True),
                    question=prediction.input if prediction is not None else row.input or NO_TEXT,
                    caller=row.caller or "",
                    user=row.user,
                    reason="quarantine",
                    created_at=row.created_at,
                )
            )
        return held

    async def accept_all(self, holder: str, by: str) -> None:
        """Accept what is held of a holder because of who it is; teaching still waits for a curator."""
        while rows := await self.feedback.transactions.read(
            lambda connection: list_undecided(connection, self.name, MAX_CHANGES, holder, RELEASED)
        ):
            for row in rows:
                await self.accept(row.id, by)

    async def accept(self, id: str, by: str) -> None:
        """Accept a held item, unless it was decided in between. One whose prediction is gone is rejected."""
        try:
            await accept_held(self.feedback, id, by)
        except Conflict:
            return
        except NotFound as error:
            log_event(log, "held feedback rejected", model=self.name, id=id, reason=str(error))
            with suppress(Conflict, NotFound):  # decided, or erased, in between
                await reject_held(self.feedback, id, by)

    def _reject_some(self, connection: Connection, holder: str, by: str) -> list[HeldFeedbackRow]:
        rows = list_undecided(connection, self.name, MAX_CHANGES, holder, REJECTED)
        return [reject(connection, row, by) for row in rows]

"""The undo of a decision: afterwards exactly what was in force before is in force, and the items are open again.

    accepted held items   --> retracted, and held again under new ids
    rejected held items   --> held again
    retracted feedback    --> in force again under new ids, by the events that it had
    what the curator gave --> retracted; what that took the place of is in force again
    what a caller added   --> new replies are retired, examples of other replies are retracted (see additions.py)

What its caller has changed since then stays as the caller wants it, and so does what was erased. Feedback that is in force
again has a new place in the log: of two corrections of one question, the one that counts as the later one may change.
"""

from collections.abc import Callable

from msgspec.structs import replace
from sqlalchemy import Connection

from online.errors import NotFound
from online.plugins.moderation.held.queries import hold_again
from online.plugins.moderation.inbox.additions import undo_addition
from online.plugins.moderation.inbox.schemas import UndoAnswer
from online.plugins.moderation.inbox.tables import (
    InboxOutcomeRow,
    add_open_items,
    assign_items,
    load_decision,
    load_outcomes_of,
    mark_undone,
)
from online.schemas.events import Event
from online.schemas.feedback import FeedbackItem, Receipt
from online.serving.feedback.recording import FeedbackRecorder, build_row, prepare_item
from online.serving.feedback.retraction import event_at, record_retraction
from online.store.callers.held_feedback import HeldFeedbackRow, add_held, load_held
from online.store.database.values import ERASED
from online.store.events import append_events, derive_event_id, find_events_of_feedback
from online.store.feedback import FeedbackRow, add_feedback, list_opinions, load_feedback
from online.store.repertoire.replies import add_reply, find_reply, find_reply_by_text, set_reply_active

NewId = Callable[[], str]


def undo(
    connection: Connection, recorder: FeedbackRecorder, decision: str, by: str, new_id: NewId
) -> tuple[UndoAnswer, list[Receipt], bool]:
    """Return also the receipts of what was recorded, and whether it was not undone before. Raises NotFound."""
    row = load_decision(connection, recorder.name, decision)
    if row is None:
        raise NotFound(f"{recorder.name} has no decision {decision[:80]!r}")
    if row.undone_at is not None:
        return UndoAnswer(decision=decision, by=row.undone_by or "", offset=row.undo_offset), [], False
    undoing = UndoTransaction(connection, recorder, by, new_id)
    outcomes = load_outcomes_of(connection, recorder.name, [decision])
    if row.action == "add":
        undoing.receipts += undo_addition(connection, recorder.name, outcomes, decision)
    else:
        undoing.undo_all(outcomes)
    offset = max((receipt.offset for receipt in undoing.receipts), default=0) or None
    mark_undone(connection, recorder.name, decision, by, offset)
    return UndoAnswer(decision=decision, by=by, offset=offset), undoing.receipts, True


class UndoTransaction:
    """One undo in its transaction."""

    def __init__(self, connection: Connection, recorder: FeedbackRecorder, by: str, new_id: NewId) -> None:
        self.connection, self.recorder, self.by, self.new_id = connection, recorder, by, new_id
        self.spec, self.name = recorder.spec, recorder.name
        self.receipts: list[Receipt] = []

    def undo_all(self, outcomes: list[InboxOutcomeRow]) -> None:
        """Undo the newest effects first, and restore retracted feedback in its order."""
        rows = load_feedback(self.connection, self.name, [outcome.item for outcome in outcomes])
        for outcome in outcomes:
            row = rows.get(outcome.item)
            if row is not None and outcome.role == "given" and row.retracted_offset is None:
                self._retract(row.id)
        for outcome in outcomes:
            if outcome.role == "held":
                self._hold_again(outcome, rows.get(outcome.item))
        given_before = [outcome for outcome in outcomes if outcome.role in ("replaced", "learned")]
        for outcome in sorted(given_before, key=lambda each: rows[each.item].offset if each.item in rows else 0):
            row = rows.get(outcome.item)
            if row is not None:
                self._restore(outcome, row)

    def _retract(self, id: str) -> None:
        self.receipts.append(record_retraction(self.connection, self.spec, id))

    def _hold_again(self, outcome: InboxOutcomeRow, row: FeedbackRow | None) -> None:
        held = load_held(self.connection, self.name, outcome.item)
        if held is None or held.content == ERASED:
            return
        if held.decision == "rejected":
            hold_again(self.connection, self.name, held.id)
            self._assign(held.id, outcome)
        elif held.decision == "accepted" and row is not None and row.retracted_offset is None:
            self._retract(row.id)
            id = self.new_id()
            item = FeedbackItem.model_validate_json(held.content).model_copy(update={"id": id})
            kept = {"id": id, "content": item.model_dump_json(exclude_none=True)}
            undecided = {"decision": None, "decided_by": None, "decided_at": None}
            add_held(self.connection, [HeldFeedbackRow(**{**held.model_dump(), **kept, **undecided})])
            self._assign(id, outcome)

    def _restore(self, outcome: InboxOutcomeRow, row: FeedbackRow) -> None:
        id: str | None = row.id
        if row.retracted_offset is not None:
            was_retracted = outcome.is_retracted or outcome.role == "replaced"
            id = self._record_again(row) if was_retracted else None
        if id is not None and outcome.role == "learned":
            add_open_items(self.connection, self.name, {id: outcome.created_at})
            self._assign(id, outcome)

    def _record_again(self, row: FeedbackRow) -> str | None:
        """Put a retracted feedback in force again by its own events; return its new id, or None where it stays retracted."""
        event = event_at(self.connection, self.name, row.offset)
        if row.content == ERASED or event.kind == "void" or self._has_changed_mind(row):
            return None
        id = self.new_id()
        found = self._bring_reply(row, event, id)
        if found is None:
            return None
        before, reply = found
        events = [*before, replace(event, id=id, label=reply)]
        offsets = append_events(self.connection, self.name, events, new=True, feedback_id=id)
        for each, offset in zip(events, offsets, strict=True):
            if each.kind == "reply":
                add_reply(self.connection, self.name, each.label, each.text, offset)
        item = FeedbackItem.model_validate_json(row.content).model_copy(update={"id": id})
        new = build_row(self.name, prepare_item(item), offsets[-1], row.caller or "", reply)
        given = {"user": row.user, "caller": row.caller, "prediction_id": row.prediction_id, "input": row.input}
        add_feedback(self.connection, [{**new, **given}])
        self.receipts.append(Receipt(id=id, offset=offsets[-1], status="accepted"))
        return id

    def _has_changed_mind(self, row: FeedbackRow) -> bool:
        """Return whether the same holder has said something else about the same prediction since then."""
        asked = [] if row.prediction_id is None else [row.prediction_id]
        holder = row.user if row.user is not None else row.caller
        return any(each.holder == holder for each in list_opinions(self.connection, self.name, asked))

    def _bring_reply(self, row: FeedbackRow, event: Event, id: str) -> tuple[list[Event], str] | None:
        """Return the id of the reply that the feedback is about, and the events that bring or restore it; None if it is lost.

        A reply that went with the feedback comes back under its id, unless another one has its text by now.
        """
        reply = find_reply(self.connection, self.name, event.label)
        if reply is not None:
            if reply.active or not find_events_of_feedback(self.connection, self.name, row.id, "restore"):
                return [], reply.id
            set_reply_active(self.connection, self.name, reply.id, True)
            return [Event(derive_event_id(id, "restore"), "restore", label=reply.id)], reply.id
        brought = find_events_of_feedback(self.connection, self.name, row.id, "reply")
        if not brought:
            return None
        old = event_at(self.connection, self.name, brought[-1])
        same = find_reply_by_text(self.connection, self.name, old.text)
        if same is not None:
            return [], same.id
        return [replace(old, id=derive_event_id(id, "reply"))], old.label

    def _assign(self, item: str, outcome: InboxOutcomeRow) -> None:
        if outcome.assignee is not None:
            assign_items(self.connection, self.name, [item], outcome.assignee, self.by)

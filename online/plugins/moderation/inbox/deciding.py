"""Decisions about items of the inbox, each in one transaction, and each with an exact undo.

    ids --open items--> a plan --encoded--> transaction: the same items are open? --> feedback, retractions, the decision
                          ^                                   | no
                          +-----------------------------------+

An item that its caller has withdrawn meanwhile is passed over. One about which somebody else has decided is a conflict.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256

from sqlalchemy import Connection

from online.errors import AlreadyDecided, BadInput, Conflict, NotFound, TextTooLong
from online.models import spec_of
from online.plugins.moderation.callers.standing import load_number
from online.plugins.moderation.held.deciding import note_rejected, reject
from online.plugins.moderation.inbox.planning import DecisionPlan, make_plan
from online.plugins.moderation.inbox.reading import InboxReader, load_items
from online.plugins.moderation.inbox.schemas import (
    AssignRequest,
    DecideAnswer,
    DecideRequest,
    DismissRequest,
    SkippedItem,
    UndoAnswer,
)
from online.plugins.moderation.inbox.tables import (
    Action,
    InboxDecisionRow,
    InboxOutcomeRow,
    OpenItem,
    Role,
    add_decision,
    assign_items,
    close_items,
    find_decision_about,
    load_decision,
    load_open_items,
    load_outcomes_of,
)
from online.plugins.moderation.inbox.undoing import undo
from online.schemas.access.callers import Caller
from online.schemas.feedback import FeedbackItem, Receipt
from online.serving.feedback.admission import holder_of
from online.serving.feedback.checks import learned_fields
from online.serving.feedback.feedback import Feedback, prepare_items
from online.serving.feedback.retraction import record_retraction
from online.serving.processes.store_messages import NewFeedback
from online.serving.versions import EncoderConfig
from online.store import now
from online.store.callers.held_feedback import HeldFeedbackRow, decide, load_held_of
from online.store.feedback import list_opinions, set_refusal
from online.store.predictions import PredictionRow, load_predictions
from online.store.repertoire.replies import ReplyRow, find_reply

OTHER_REPLY = "A curator has written another reply."  # the reason that callers of held corrections read
BY_PERSONS = {"accepted": "approve", "rejected": "reject"}
BY_SERVICE = ("agreement", "review", "service")  # who decides about held feedback without a person


class OtherItemsOpen(Exception):
    """Other items are open than those that a plan was made for."""


@dataclass(slots=True)
class DecisionReceipts:
    """The results of one transaction. skipped: items whose prediction is gone."""

    outcomes: list[InboxOutcomeRow] = field(default_factory=list)
    receipts: list[Receipt] = field(default_factory=list)
    rejected: list[HeldFeedbackRow] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)

    @property
    def last_offset(self) -> int | None:
        """The offset of the last event; None without events."""
        return max((receipt.offset for receipt in self.receipts), default=0) or None


class Inbox:
    """The inbox of one model: shows and decides its items. Every method may raise an OnlineError."""

    def __init__(self, feedback: Feedback) -> None:
        self.feedback, self.transactions, self.name = feedback, feedback.transactions, feedback.name
        self.recorder = feedback.recorder
        self.has_repertoire = spec_of(feedback.spec.kind).has_repertoire
        self.reader = InboxReader(feedback.transactions, self.has_repertoire)

    def notify(self) -> None:
        """Let the pages of curators read the inbox again."""
        self.feedback.feed.notify_curators()

    # decide

    async def decide(self, request: DecideRequest, caller: Caller) -> DecideAnswer:
        """Carry out a decision. Raises NotFound where nothing is open any more, and AlreadyDecided."""
        self._check(request)
        id, digest = request.id or self.transactions.new_id(), digest_of(request)
        decided = await self.transactions.retry_on_encoder_change(
            lambda config: self._decide(request, id, digest, caller, config)
        )
        self.notify()
        return decided

    def _check(self, request: DecideRequest) -> None:
        """Raise BadInput."""
        if request.action in ("merge", "reply") and not self.has_repertoire:
            raise BadInput(
                f"the action {request.action!r} needs a ranker; items of {self.name} are approved or rejected"
            )
        needed = {"merge": ("reply", request.reply), "reply": ("text", request.text)}.get(request.action)
        if needed is not None and not (needed[1] or "").strip():
            raise BadInput(f"the action {request.action!r} needs the field {needed[0]!r}")
        limit = self.feedback.settings.max_text_chars
        if request.text is not None and len(request.text) > limit:
            raise TextTooLong("the reply", len(request.text), limit)

    async def _decide(
        self, request: DecideRequest, id: str, digest: str, caller: Caller, config: EncoderConfig
    ) -> DecideAnswer:
        while True:
            with suppress(OtherItemsOpen):
                return await self._try(request, id, digest, caller, config)

    async def _try(
        self, request: DecideRequest, id: str, digest: str, caller: Caller, config: EncoderConfig
    ) -> DecideAnswer:
        """Carry out a decision about the items that were planned for. Raises OtherItemsOpen where somebody was faster."""
        plan, prepared = await self._prepare(request, caller, config)
        has_features = any(item.features or item.correction_features for item in prepared.values())

        def record(connection: Connection) -> tuple[DecideAnswer, DecisionReceipts]:
            self.recorder.begin(connection, {config.encoder_name} if has_features else set())
            return self._record(connection, request, id, digest, caller, plan, prepared)

        decided: DecideAnswer
        decided, work = await self.transactions.commit(record)
        self.feedback.note_acknowledged(work.receipts)
        note_rejected(self.feedback, work.rejected)
        return decided

    async def _prepare(
        self, request: DecideRequest, caller: Caller, config: EncoderConfig
    ) -> tuple[DecisionPlan, dict[str, NewFeedback]]:
        """Return the plan, and the feedback that it brings, encoded, by its id."""

        def read(connection: Connection) -> tuple[list[OpenItem], ReplyRow | None]:
            reply = self._find_reply(connection, request)
            return load_items(connection, self.name, request.ids), reply

        items, reply = await self.transactions.read(read)
        plan = make_plan(request, items, reply)
        user = caller.acts_for(None)
        plan.given = [item.model_copy(update={"id": self.transactions.new_id(), "user": user}) for item in plan.given]
        new: list[FeedbackItem] = [*(item for _, item in plan.accepted), *plan.given]
        prepared = await prepare_items(new, [True] * len(new), config.encoder)
        return plan, {item.id: item for item in prepared}

    def _find_reply(self, connection: Connection, request: DecideRequest) -> ReplyRow | None:
        """That of a merge. Raises NotFound, and Conflict for one that is retired."""
        if request.action != "merge":
            return None
        reply = find_reply(connection, self.name, request.reply or "")
        if reply is None:
            raise NotFound(f"{self.name} has no reply {request.reply!r}")
        if not reply.active:
            raise Conflict(f"the reply {request.reply!r} is retired; restore it first")
        return reply

    def _record(
        self,
        connection: Connection,
        request: DecideRequest,
        id: str,
        digest: str,
        caller: Caller,
        plan: DecisionPlan,
        prepared: dict[str, NewFeedback],
    ) -> tuple[DecideAnswer, DecisionReceipts]:
        known = load_decision(connection, self.name, id)
        if known is not None:
            return self._repeat(connection, known, digest), DecisionReceipts()
        still_open = {*load_open_items(connection, self.name, request.ids)}
        planned = [*plan.rejected, *plan.retracted, *plan.closed, *(item for item, _ in plan.accepted)]
        if still_open != {item.id for item in planned}:
            raise OtherItemsOpen
        gone = [item for item in request.ids if item not in still_open]
        self._check_undecided(connection, gone)
        if not still_open:
            raise NotFound("these items are not in the inbox any more: they were withdrawn")
        self._find_reply(connection, request)
        work = DecisionTransaction(self, connection, caller, id, request.reason).carry_out(plan, prepared)
        row = self._describe(request.action, id, digest, caller, request.reason, work.last_offset)
        add_decision(connection, row, work.outcomes)
        closed = sum(outcome.role in ("held", "learned") for outcome in work.outcomes)
        skipped = [SkippedItem(id=item) for item in (*gone, *work.skipped)]
        decided = DecideAnswer(
            decision=id, action=request.action, closed=closed, offset=work.last_offset, skipped=skipped
        )
        return decided, work

    def _repeat(self, connection: Connection, known: InboxDecisionRow, digest: str) -> DecideAnswer:
        """Return the answer that the same request got before. Raises Conflict for another request with its id."""
        if known.request != digest:
            raise Conflict(f"the id {known.id!r} was used before for another decision")
        outcomes = load_outcomes_of(connection, self.name, [known.id])
        closed = sum(outcome.role in ("held", "learned", "question") for outcome in outcomes)
        return DecideAnswer(decision=known.id, action=known.action, closed=closed, offset=known.last_offset, skipped=[])

    def _check_undecided(self, connection: Connection, ids: Sequence[str]) -> None:
        """Raise AlreadyDecided if a person decided about one of these items."""
        if not ids:
            return
        before = find_decision_about(connection, self.name, ids)
        if before is not None:
            raise AlreadyDecided(ids[0], before.decided_by, before.action)
        for row in load_held_of(connection, self.name, ids).values():
            if row.decision in BY_PERSONS and row.decided_by not in BY_SERVICE:
                raise AlreadyDecided(row.id, row.decided_by or "", BY_PERSONS[row.decision])

    def _describe(
        self, action: Action, id: str, digest: str, caller: Caller, reason: str | None, offset: int | None
    ) -> InboxDecisionRow:
        return InboxDecisionRow(
            model=self.name,
            id=id,
            action=action,
            request=digest,
            decided_by=caller.id,
            decided_at=now(),
            reason=reason,
            last_offset=offset,
        )

    # the other actions

    async def undo(self, decision: str, caller: Caller) -> tuple[UndoAnswer, bool]:
        """Take a decision back, exactly; return whether it was not undone before. Raises NotFound."""

        def record(connection: Connection) -> tuple[UndoAnswer, list[Receipt], bool]:
            self.recorder.begin(connection, set())
            return undo(connection, self.recorder, decision, caller.id, self.transactions.new_id)

        undone, receipts, is_new = await self.transactions.commit(record)
        self.feedback.note_acknowledged(receipts)
        self.notify()
        return undone, is_new

    async def assign(self, request: AssignRequest, assignee: str | None, caller: Caller) -> list[str]:
        """Return the ids of those of the items that are open, and are assigned now."""

        def record(connection: Connection) -> list[str]:
            found = load_open_items(connection, self.name, request.ids)
            ids = [id for id in dict.fromkeys(request.ids) if id in found]
            assign_items(connection, self.name, ids, assignee, caller.id)
            return ids

        ids: list[str] = await self.transactions.write(record)
        self.notify()
        return ids

    async def dismiss(self, request: DismissRequest, caller: Caller) -> DecideAnswer:
        """Let questions that need no reply stay away from the unanswered ones. Raises NotFound."""
        id, digest = request.id or self.transactions.new_id(), digest_of(request)

        def record(connection: Connection) -> DecideAnswer:
            known = load_decision(connection, self.name, id)
            if known is not None:
                return self._repeat(connection, known, digest)
            found = load_predictions(connection, self.name, request.predictions)
            if not found:
                raise NotFound(f"{self.name} has none of these predictions")
            row = self._describe("dismiss", id, digest, caller, None, None)
            outcomes = [new_outcome(self.name, id, each, "question", found[each].created_at) for each in sorted(found)]
            add_decision(connection, row, outcomes)
            skipped = [SkippedItem(id=each) for each in request.predictions if each not in found]
            return DecideAnswer(decision=id, action="dismiss", closed=len(found), offset=None, skipped=skipped)

        await self.transactions.copy_journal()
        decided: DecideAnswer = await self.transactions.commit(record)
        return decided


class DecisionTransaction:
    """One decision in its transaction."""

    def __init__(self, inbox: Inbox, connection: Connection, caller: Caller, decision: str, reason: str | None) -> None:
        self.recorder, self.name, self.connection = inbox.recorder, inbox.name, connection
        self.caller, self.decision, self.reason = caller, decision, reason
        self.work = DecisionReceipts()

    def carry_out(self, plan: DecisionPlan, prepared: dict[str, NewFeedback]) -> DecisionReceipts:
        """Carry out a plan: accept, reject, retract and close its items, and record its feedback."""
        given = [prepared[item.id or ""] for item in plan.given]
        accepted = [(item, prepared[item.id]) for item, _ in plan.accepted]
        asked = [new.prediction_id for new in (*given, *(new for _, new in accepted)) if new.prediction_id is not None]
        predictions = load_predictions(self.connection, self.name, sorted({*asked}))
        for item in plan.retracted:
            self._retract(item)
        close_items(self.connection, self.name, [item.id for item in plan.closed])
        for item in plan.closed:
            self._note(item, "learned")
        for item, new in accepted:
            self._accept(item, new, predictions)
        self._reject(plan.rejected, self.reason if plan.rejected and not plan.given else OTHER_REPLY)
        for new in given:
            self._give(new, predictions)
        return self.work

    def _note(self, item: OpenItem, role: Role, is_retracted: bool = False) -> None:
        outcome = new_outcome(self.name, self.decision, item.id, role, item.created_at)
        self.work.outcomes.append(outcome.model_copy(update={"is_retracted": is_retracted, "assignee": item.assignee}))

    def _retract(self, item: OpenItem) -> None:
        self.work.receipts.append(record_retraction(self.connection, self.recorder.spec, item.id))
        if self.reason:
            set_refusal(self.connection, self.name, item.id, self.reason)
        self._note(item, "learned", is_retracted=True)

    def _accept(self, item: OpenItem, new: NewFeedback, predictions: dict[str, PredictionRow]) -> None:
        prediction = predictions.get(new.prediction_id or "")
        if new.prediction_id is not None and prediction is None:
            self.work.skipped.append(item.id)
            return
        decide(self.connection, self.name, item.id, "accepted", self.caller.id)
        holder = item.user if item.user is not None else item.caller or ""
        number = load_number(self.connection, self.name, holder)
        receipt = self.recorder.record_item(self.connection, new, prediction, item.caller or "", number)
        self.work.receipts.append(receipt)
        self._note(item, "held")

    def _reject(self, items: Sequence[OpenItem], note: str | None) -> None:
        rows = load_held_of(self.connection, self.name, [item.id for item in items])
        for item in items:
            self.work.rejected.append(reject(self.connection, rows[item.id], self.caller.id, note))
            self._note(item, "held")

    def _give(self, new: NewFeedback, predictions: dict[str, PredictionRow]) -> None:
        """Record what the curator says about a question, unless the curator has said so before."""
        prediction = predictions.get(new.prediction_id or "")
        if new.prediction_id is not None and prediction is None:
            return
        asked = [] if new.prediction_id is None else [new.prediction_id]
        holder = holder_of(self.caller, new.user)
        own = [each for each in list_opinions(self.connection, self.name, asked) if each.holder == holder]
        if any(learned_fields(each.content) == learned_fields(new.content) for each in own):
            return
        at = now()
        for each in own:
            self.work.outcomes.append(new_outcome(self.name, self.decision, each.id, "replaced", at))
        self.work.receipts.append(self.recorder.record_item(self.connection, new, prediction, self.caller.id, 0))
        self.work.outcomes.append(new_outcome(self.name, self.decision, new.id, "given", at))


def new_outcome(model: str, decision: str, item: str, role: Role, created_at: str) -> InboxOutcomeRow:
    """Return the row that says what a decision did to an item."""
    return InboxOutcomeRow(model=model, decision=decision, item=item, role=role, created_at=created_at)


def digest_of(request: DecideRequest | DismissRequest) -> str:
    """Return a digest by which a repeated request is recognised."""
    return sha256(request.model_dump_json(exclude={"id"}).encode()).hexdigest()

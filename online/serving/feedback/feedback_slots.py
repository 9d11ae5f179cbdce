"""Feedback slots: one rating by one source about one answer, which may change or be withdrawn.

    hold(key, item)   the slot is empty              -> submit the item as turn 1 of the slot
                      it holds the same item         -> nothing
                      the same, but other comments   -> replace the comments; nothing is learned again
                      it holds another item          -> retract that one, submit the item as turn 2
    hold(key, None)   it holds an item               -> retract that one

Other chat pages and presigned URLs send the same rating more than once; a slot makes that have no
second effect. Whatever is interrupted, the same call again ends in the same state. The rows of
feedback have the key and the turn: nothing else is stored.
"""

import asyncio
import logging
import re
from collections.abc import Callable
from typing import Literal
from weakref import WeakValueDictionary

from online.errors import BadInput, Conflict, NotFound
from online.schemas.access.callers import SERVICE, Caller
from online.schemas.feedback import FeedbackItem, Receipt
from online.serving.feedback.checks import learned_fields
from online.serving.feedback.feedback import Feedback
from online.store.database.values import ERASED
from online.store.feedback import FeedbackRow, load_slot, replace_content
from online.telemetry import log_event

log = logging.getLogger("online.feedback_slots")

MAX_USER, MAX_REASON, MAX_COMMENT = 128, 200, 2_000  # characters
CONTROL_CHARACTERS = re.compile(r"[\x00-\x1f\x7f]+")

StaysEmpty = Callable[[FeedbackRow], bool]
Outcome = Literal["accepted", "retracted", "ignored"]


class FeedbackSlots:
    """Changes slots, each by one call at a time."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()

    async def load(self, feedback: Feedback, key: str) -> FeedbackItem | None:
        """Return the item that a slot holds."""
        turns = await load_turns(feedback, key)
        return FeedbackItem.model_validate_json(turns[-1].content) if holds_item(turns) else None

    async def mirror(
        self, feedback: Feedback, key: str, item: FeedbackItem | None, has_changed: bool = True
    ) -> Outcome:
        """Hold the rating of another chat page. An error is logged: its user could not be shown it.

        has_changed: the rating has changed there since it was last mirrored. If not, an item that
        was retracted here stays retracted; one that was erased here stays erased in any case.
        """
        try:
            receipt = await self.hold(feedback, key, item, lambda last: stays_empty(last, item, has_changed))
        except (BadInput, NotFound) as error:  # the answer abstained, or is not stored any more
            log_event(log, "rating ignored", model=feedback.name, key=key, reason=str(error))
            return "ignored"
        return "ignored" if receipt is None else "retracted" if receipt.status == "retracted" else "accepted"

    async def hold(
        self,
        feedback: Feedback,
        key: str,
        item: FeedbackItem | None,
        stays_empty: StaysEmpty = lambda _: False,
        caller: Caller = SERVICE,
    ) -> Receipt | None:
        """Make the slot hold an item, or None. Returns None if it was empty and stays so.

        caller: on whose behalf; by default the service itself, which copies ratings from elsewhere. stays_empty: whether a slot whose last item was retracted must not be filled again.
        """
        lock = self._locks.setdefault((feedback.name, key), asyncio.Lock())
        async with lock:
            taken = 0  # turns whose ids other feedback already has
            while True:
                try:
                    return await change_slot(feedback, key, item, stays_empty, taken, caller)
                except Conflict:  # the id is taken: by another server, a turn that waited and was replaced, or a client
                    taken += 1


async def change_slot(
    feedback: Feedback, key: str, item: FeedbackItem | None, stays_empty: StaysEmpty, taken: int, caller: Caller
) -> Receipt | None:
    """Make a slot hold an item, or nothing. Returns None if that changes nothing."""
    turns = await load_turns(feedback, key)
    last = turns[-1] if turns else None
    if item is None or (last is not None and not holds_item(turns) and stays_empty(last)):
        return await feedback.retract(last.id, SERVICE) if last else None
    if last is not None and holds_item(turns):
        if is_same(last, item):
            return await replace_comments(feedback, item.model_copy(update={"id": last.id}), last)
        await feedback.retract(last.id, SERVICE)
    turn = (last.slot_turn or 0 if last is not None else 0) + 1 + taken
    named = item.model_copy(update={"id": f"{key}.{turn}"})
    receipt = (await feedback.submit([named], caller, slot=(key, turn)))[0]
    if receipt.status == "retracted":  # an earlier turn that waited, and was replaced
        raise Conflict(f"the id {receipt.id!r} was used before")
    return receipt


async def load_turns(feedback: Feedback, key: str) -> list[FeedbackRow]:
    """Return the items that a slot has held, oldest first."""
    rows: list[FeedbackRow] = await feedback.transactions.read(
        lambda connection: load_slot(connection, feedback.name, key)
    )
    return rows


def holds_item(turns: list[FeedbackRow]) -> bool:
    """Return whether the slot holds an item."""
    return bool(turns) and turns[-1].retracted_offset is None


def is_same(row: FeedbackRow, item: FeedbackItem) -> bool:
    """Return whether an item would be learned as the one in the row was."""
    return learned_fields(row.content) == learned_fields(item.model_dump_json(exclude_none=True))


def stays_empty(last: FeedbackRow, item: FeedbackItem | None, has_changed: bool) -> bool:
    """Return whether a slot that was emptied stays so: its item was erased, or has not changed."""
    was_erased = last.content == ERASED
    return was_erased or (not has_changed and item is not None and is_same(last, item))


async def replace_comments(feedback: Feedback, item: FeedbackItem, row: FeedbackRow) -> Receipt:
    """Replace the words of an item whose signal is the same."""
    content = item.model_dump_json(exclude_none=True)
    if content != row.content:
        feedback.transactions.disk.check_room()
        work = feedback.transactions.store.submit(
            lambda connection: replace_content(connection, feedback.name, row.id, content)
        )
        await asyncio.wrap_future(work)
    return Receipt(id=row.id, offset=row.offset, status="accepted")


def clip_text(text: object, max_chars: int) -> str | None:
    """Return a text of another page without control characters, cut to a length; None if nothing is left."""
    return CONTROL_CHARACTERS.sub(" ", text[:max_chars]).strip() or None if isinstance(text, str) else None

"""What one voice thinks of one answer: at most one feedback stands under its key, and it may change or be taken back.

    hold(key, item)   nothing stands        -> give the item as KEY.1
                      the same stands       -> nothing
                      the same, other words -> note the words; nothing is learned anew
                      another stands        -> take it back, give the item as KEY.2
    hold(key, None)   something stands      -> take it back

Other pages say the same twice, and forget what they said: this is where that has no second effect. Whatever is cut off
in between, saying it again ends as if it had not been. Ids tell what happened: nothing is kept beside the feedback itself.
"""

import asyncio
import json
import logging
import re
from collections.abc import Callable
from typing import Any, Literal
from weakref import WeakValueDictionary

from online import store
from online.errors import BadInput, Conflict, NotFound
from online.observability import fact
from online.schemas import FeedbackItem, Receipt
from online.serving.predictor import Predictor

log = logging.getLogger("online.opinions")

WORDS = ("id", "reason", "comment")  # what of an item is not learned
MAX_USER, MAX_REASON, MAX_COMMENT = 128, 200, 2_000

GivenUp = Callable[[store.FeedbackRow], bool]
Outcome = Literal["accepted", "retracted", "ignored"]


class Opinions:
    def __init__(self) -> None:
        self._busy: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()

    async def standing(self, predictor: Predictor, key: str) -> FeedbackItem | None:
        """What stands under the key."""
        turns = await turns_of(predictor, key)
        return FeedbackItem.model_validate_json(turns[-1].content) if stands(turns) else None

    async def echo(self, predictor: Predictor, key: str, item: FeedbackItem | None, moved: bool = True) -> Outcome:
        """Hold what somebody thinks on another page. Nobody there could be told of an error: that goes to the log.

        moved: it changed there since it was echoed last; where it did not, what was taken back here stays taken back.
        What was erased here stays erased in any case.
        """
        try:
            receipt = await self.hold(predictor, key, item, lambda last: given_up(last, item, moved))
        except (BadInput, NotFound) as error:  # of an answer that gave nothing, or is not there any more
            fact(log, "rating not taken", model=predictor.name, key=key, reason=str(error))
            return "ignored"
        return "ignored" if receipt is None else "retracted" if receipt.status == "retracted" else "accepted"

    async def hold(
        self, predictor: Predictor, key: str, item: FeedbackItem | None, given_up: GivenUp = lambda _: False
    ) -> Receipt | None:
        """See that this is what stands under the key. None where nothing stood and nothing is to stand.

        given_up: whether the last one that stood, and was taken back, is to be all there is.
        """
        busy = self._busy.setdefault((predictor.name, key), asyncio.Lock())
        async with busy:
            while True:
                try:
                    return await held(predictor, key, item, given_up)
                except Conflict:  # another server gave another item as this turn: that one stands now
                    continue


async def held(predictor: Predictor, key: str, item: FeedbackItem | None, given_up: GivenUp) -> Receipt | None:
    turns = await turns_of(predictor, key)
    last = turns[-1] if turns else None
    if item is None or (last is not None and not stands(turns) and given_up(last)):
        return await predictor.retract(last.id) if last else None
    if last is not None and stands(turns):
        if says_the_same(last, item):
            return await reworded(predictor, item.model_copy(update={"id": last.id}), last)
        await predictor.retract(last.id)
    turn = item.model_copy(update={"id": f"{key}.{len(turns) + 1}"})
    return (await predictor.feedback([turn]))[0]


async def turns_of(predictor: Predictor, key: str) -> list[store.FeedbackRow]:
    rows: list[store.FeedbackRow] = await predictor.read(
        lambda connection: store.turns_of(connection, predictor.name, key)
    )
    return rows


def stands(turns: list[store.FeedbackRow]) -> bool:
    return bool(turns) and turns[-1].retracted_offset is None


def says_the_same(row: store.FeedbackRow, item: FeedbackItem) -> bool:
    return learned_of(row.content) == learned_of(item.model_dump_json(exclude_none=True))


def given_up(last: store.FeedbackRow, item: FeedbackItem | None, moved: bool) -> bool:
    erased = last.content == store.ERASED
    return erased or (not moved and item is not None and says_the_same(last, item))


def learned_of(content: str) -> dict[str, Any]:
    """What of an item is learned, or tells whose it is."""
    return {name: value for name, value in json.loads(content).items() if name not in WORDS}


async def reworded(predictor: Predictor, item: FeedbackItem, row: store.FeedbackRow) -> Receipt:
    content = item.model_dump_json(exclude_none=True)
    if content != row.content:
        work = predictor.store.submit(lambda connection: store.reword(connection, predictor.name, row.id, content))
        await asyncio.wrap_future(work)
    return Receipt(id=row.id, offset=row.offset, status="accepted")


def cut(words: object, most: int) -> str | None:
    """Words of another page as far as they are kept here; None where there are none."""
    return re.sub(r"[\x00-\x1f\x7f]+", " ", words[:most]).strip() or None if isinstance(words, str) else None

"""The ratings of an Open WebUI (0.10 or newer), copied in their present state.

    a reply there --X-Message-Id--> recorded with its prediction (openai/chat_completions.py)
    a thumb there --webhook--> "feedback F was created, updated, deleted"
                               |
                               v
                 look F up: which message, which rating  -->  the feedback here is updated

The webhook names the feedback but not the message, version 0.10 omits the rating, and nothing is sent twice. So an event is
only a hint: the present state is requested from Open WebUI after each hint, and at intervals in case hints were missed. Hints that
are repeated, late, out of order or forged have no other effect.
"""

import asyncio
import logging
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import TypeVar

import httpx
from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from online.errors import BadInput, OnlineError, Unavailable
from online.plugins.chat_pages.tables import (
    ExternalFeedbackRow,
    load_all_external_feedback,
    load_external_feedback,
    save_external_feedback,
)
from online.plugins.openai.messages import MessageRow, find_by_message
from online.schemas.feedback import FeedbackItem
from online.schemas.json_values import JSONObject
from online.serving.feedback.feedback import Feedback
from online.serving.feedback.feedback_slots import MAX_COMMENT, MAX_REASON, MAX_USER, FeedbackSlots, Outcome, clip_text
from online.store import Store
from online.telemetry import log_event

log = logging.getLogger("online.open_webui")

SOURCE = "open-webui"
NOT_COPIED = -1  # as_of of a rating that is known and not copied yet
TIMEOUT_S = 10.0
REWARDS = {"1": 1.0, "-1": 0.0}  # a thumb up and a thumb down, which are sent as numbers or as texts
ID = r"[A-Za-z0-9_-]{1,64}"  # it becomes part of a URL that is requested with an administrator's key

T = TypeVar("T")


class Rating(BaseModel):
    """A feedback of Open WebUI, without the chat around it. Its pages decide what data and meta contain."""

    id: str
    user_id: str
    data: JSONObject | None = None
    meta: JSONObject | None = None
    updated_at: int

    def item(self, prediction_id: str) -> FeedbackItem | None:
        """Return the feedback here; None where the rating was removed."""
        data = self.data or {}
        reward = REWARDS.get(str(data.get("rating")))
        if reward is None:
            return None
        texts = {
            "reason": clip_text(data.get("reason"), MAX_REASON),
            "comment": clip_text(data.get("comment"), MAX_COMMENT),
        }
        return FeedbackItem(prediction_id=prediction_id, reward=reward, user=clip_text(self.user_id, MAX_USER), **texts)

    @property
    def message_id(self) -> str:
        """The id of the message that is rated; "" without one."""
        return clip_text((self.meta or {}).get("message_id"), 500) or ""


class RatingRef(BaseModel):
    """An entry of the list of all ratings."""

    id: str
    updated_at: int


class RatingPage(BaseModel):
    """A page of ratings."""

    items: list[Rating] = Field(default_factory=list)


RATING_REFS = TypeAdapter(list[RatingRef])


class OpenWebui:
    """Copies the ratings of one Open WebUI."""

    def __init__(
        self, url: str, key: str, store: Store, feedback: Mapping[str, Feedback], slots: FeedbackSlots
    ) -> None:
        """key: the API key of an administrator. feedback: by the name of the model."""
        self.store, self.feedback, self.slots = store, feedback, slots
        self.source = f"{SOURCE} {url.rstrip('/')}"  # the ratings of another Open WebUI are not deleted by this one
        base = f"{url.rstrip('/')}/api/v1/evaluations"
        self._http = httpx.AsyncClient(
            base_url=base, headers={"Authorization": f"Bearer {key}"}, timeout=TIMEOUT_S, follow_redirects=True
        )
        self._lock = asyncio.Lock()
        self.sync_now = asyncio.Event()  # set it to copy everything at once

    async def run(self, every_s: float) -> None:
        """Copy all ratings now, every `every_s` seconds and when `sync_now` is set, until cancelled."""
        is_failing = False
        async with self._http:
            while True:
                self.sync_now.clear()
                try:
                    await self.sync_all()
                    is_failing = False
                except OnlineError as error:
                    if not is_failing:
                        log_event(log, "Open WebUI unavailable", logging.WARNING, reason=str(error))
                    is_failing = True
                with suppress(TimeoutError):
                    async with asyncio.timeout(every_s):
                        await self.sync_now.wait()

    async def sync_all(self) -> None:
        """Copy the present state of all ratings. Raises Unavailable."""
        async with self._lock:
            there = {ref.id: ref.updated_at for ref in await self._fetch_refs()}
            here = await self._load_rows()
            newest = max((row.as_of for row in here.values()), default=0)  # more may have changed in that second
            known = {row.id: row.as_of for row in here.values() if not row.gone and row.as_of < newest}
            changed = {id: at for id, at in there.items() if at > known.get(id, -1)}
            for rating in await self._fetch_changed(changed):
                await self._copy(rating)
            for row in here.values():
                if row.id not in there and not row.gone:
                    await self._retract(row.id)

    async def sync_one(self, id: str) -> Outcome:
        """Copy the present state of one rating. Raises Unavailable."""
        if not re.fullmatch(ID, id):
            raise BadInput(f"{id[:40]!r} is not a valid id of a feedback")
        async with self._lock:
            rating = await self._fetch_one(id)
            if rating is not None:
                return await self._copy(rating)
            if await self._load_row(id) is None:
                return "ignored"
            if any(ref.id == id for ref in await self._fetch_refs()):  # a missing page must not look like a deletion
                raise Unavailable(f"Open WebUI lists the feedback {id!r}, but does not return it")
            return await self._retract(id)

    # requests to Open WebUI

    async def _get(self, path: str, **query: str | int) -> httpx.Response:
        try:
            response = await self._http.get(path, params=query)
        except httpx.HTTPError as error:
            raise Unavailable(f"Open WebUI does not answer: {type(error).__name__}") from None
        if response.status_code not in (200, 404):
            raise Unavailable(
                f"Open WebUI answers {response.status_code} to GET {path}: is its API key an administrator's?"
            )
        return response

    async def _fetch_refs(self) -> list[RatingRef]:
        return parse_response(RATING_REFS, await self._get("/feedbacks/all/ids"))

    async def _fetch_one(self, id: str) -> Rating | None:
        response = await self._get(f"/feedback/{id}")
        return None if response.status_code == 404 else parse_response(TypeAdapter(Rating), response)

    async def _fetch_changed(self, changed: Mapping[str, int]) -> list[Rating]:
        """Return the ratings that changed, oldest first: page by page, newest first, then one by one those on no page."""
        found: dict[str, Rating] = {}
        page = 0
        while len(found) < len(changed):
            page += 1
            response = await self._get("/feedbacks/list", order_by="updated_at", direction="desc", page=page)
            items = parse_response(TypeAdapter(RatingPage), response).items
            found |= {rating.id: rating for rating in items if rating.id in changed}
            if not items or items[-1].updated_at < min(changed.values()):
                break
        rest = [await self._fetch_one(id) for id in changed if id not in found]
        ratings = [*found.values(), *(rating for rating in rest if rating)]
        return sorted(ratings, key=lambda rating: (rating.updated_at, rating.id))

    # the copies here

    async def _load_rows(self) -> dict[str, ExternalFeedbackRow]:
        rows: dict[str, ExternalFeedbackRow] = await asyncio.to_thread(
            self.store.read, lambda connection: load_all_external_feedback(connection, self.source)
        )
        return rows

    async def _load_row(self, id: str) -> ExternalFeedbackRow | None:
        row: ExternalFeedbackRow | None = await asyncio.to_thread(
            self.store.read, lambda connection: load_external_feedback(connection, self.source, id)
        )
        return row

    async def _save_row(self, row: ExternalFeedbackRow) -> None:
        await asyncio.wrap_future(self.store.submit(lambda connection: save_external_feedback(connection, row)))

    async def _copy(self, rating: Rating) -> Outcome:
        message: MessageRow | None = await asyncio.to_thread(
            self.store.read, lambda connection: find_by_message(connection, rating.message_id)
        )
        feedback = self.feedback.get(message.model) if message else None
        row = ExternalFeedbackRow(
            source=self.source, id=rating.id, model=message.model if message else None, as_of=rating.updated_at
        )
        outcome: Outcome = "ignored"
        if message is not None and feedback is not None:
            before = await self._load_row(rating.id)
            if before is None:  # without a row a deletion during the copy would be missed
                await self._save_row(row.model_copy(update={"as_of": NOT_COPIED}))
            has_changed = before is None or rating.updated_at > before.as_of
            item = rating.item(message.prediction_id)
            outcome = await self.slots.mirror(feedback, slot_key(rating.id), item, has_changed)
        await self._save_row(row)
        return outcome

    async def _retract(self, id: str) -> Outcome:
        row = await self._load_row(id)
        feedback = self.feedback.get(row.model) if row and row.model else None
        outcome: Outcome = await self.slots.mirror(feedback, slot_key(id), None) if feedback else "ignored"
        if row is not None:
            await self._save_row(row.model_copy(update={"gone": True}))
        return outcome


def parse_response(kind: TypeAdapter[T], response: httpx.Response) -> T:
    """Parse an answer of Open WebUI. Raises Unavailable for an answer that Open WebUI does not give."""
    try:
        if response.status_code == 404:
            raise ValueError
        return kind.validate_json(response.content)
    except (ValidationError, ValueError):
        path = response.request.url.path
        raise Unavailable(
            f"the server at {path} is not an Open WebUI of 0.10 or newer ({response.status_code})"
        ) from None


def slot_key(id: str) -> str:
    """Return the slot under which a rating replaces its earlier state."""
    return f"{SOURCE}-{id}"

"""The ratings of an Open WebUI (0.10 or newer), learned as they are there now.

    a reply there --X-Message-Id--> which prediction it is            (completions.py)
    a thumb there --webhook--> "feedback F was created, updated, deleted"
                               |
                               v
                 look F up: which message, which rating  -->  what stands here is made the same

Its webhook names the feedback but not the message, 0.10 leaves the rating out, and nothing is sent twice. So the webhook
is taken as a hint and nothing else: what counts is what Open WebUI says when it is asked, on each hint and every now and
then for all that was missed. Hints may come twice, late, in any order or from a stranger, and have no other effect.
"""

import asyncio
import logging
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, TypeVar

import httpx
from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from online import outside
from online.errors import BadInput, OnlineError, Unavailable
from online.observability import fact
from online.schemas import FeedbackItem
from online.serving.opinions import MAX_COMMENT, MAX_REASON, MAX_USER, Opinions, Outcome, cut
from online.serving.predictor import Predictor
from online.store import Store

log = logging.getLogger("online.open_webui")

SOURCE = "open-webui"
NOT_YET = -1  # as_of of what was heard of, and is not followed yet
PATIENCE_S = 10.0
REWARDS = {"1": 1.0, "-1": 0.0}  # a thumb up and one down, which come as numbers or as texts
ID = r"[A-Za-z0-9_-]{1,64}"  # it becomes a part of a path that is asked for with an administrator's key

T = TypeVar("T")


class Kept(BaseModel):
    """A feedback as Open WebUI keeps it, without the chat around it. What is in data and meta is up to its pages."""

    id: str
    user_id: str
    data: dict[str, Any] | None = None
    meta: dict[str, Any] | None = None
    updated_at: int

    def item(self, prediction_id: str) -> FeedbackItem | None:
        """What is to stand here; None where the rating was taken back."""
        data = self.data or {}
        reward = REWARDS.get(str(data.get("rating")))
        if reward is None:
            return None
        words = {"reason": cut(data.get("reason"), MAX_REASON), "comment": cut(data.get("comment"), MAX_COMMENT)}
        return FeedbackItem(prediction_id=prediction_id, reward=reward, user=cut(self.user_id, MAX_USER), **words)

    @property
    def message_id(self) -> str:
        return cut((self.meta or {}).get("message_id"), 500) or ""


class Named(BaseModel):
    id: str
    updated_at: int


class Page(BaseModel):
    items: list[Kept] = Field(default_factory=list)


NAMES = TypeAdapter(list[Named])


class OpenWebui:
    def __init__(
        self, url: str, key: str, store: Store, predictors: Mapping[str, Predictor], opinions: Opinions
    ) -> None:
        self.store, self.predictors, self.opinions = store, predictors, opinions
        self.source = f"{SOURCE} {url.rstrip('/')}"  # what another one does not know was not deleted there
        base = f"{url.rstrip('/')}/api/v1/evaluations"
        self._http = httpx.AsyncClient(
            base_url=base, headers={"Authorization": f"Bearer {key}"}, timeout=PATIENCE_S, follow_redirects=True
        )
        self._one_at_a_time = asyncio.Lock()
        self.hurry = asyncio.Event()  # set: look at everything now

    async def run(self, every_s: float) -> None:
        """Fetch what was missed, now, every `every_s` seconds and in a hurry, until cancelled."""
        failing = False
        async with self._http:
            while True:
                self.hurry.clear()
                try:
                    await self.pull()
                    failing = False
                except OnlineError as error:
                    if not failing:
                        fact(log, "open webui waits", logging.WARNING, reason=str(error))
                    failing = True
                with suppress(TimeoutError):
                    await asyncio.wait_for(self.hurry.wait(), every_s)

    async def pull(self) -> None:
        """Make everything here as it is there. Raises Unavailable."""
        async with self._one_at_a_time:
            there = {named.id: named.updated_at for named in await self._names()}
            here: dict[str, outside.HeardRow] = await self._read_heard()
            looked_until = max((row.as_of for row in here.values()), default=0)  # that second may have gone on
            known = {row.id: row.as_of for row in here.values() if not row.gone and row.as_of < looked_until}
            moved = {id: at for id, at in there.items() if at > known.get(id, -1)}
            for kept in await self._kept(moved):
                await self._follow(kept)
            for row in here.values():
                if row.id not in there and not row.gone:
                    await self._let_go(row.id)

    async def look_up(self, id: str) -> Outcome:
        """Make one feedback here as it is there. Raises Unavailable."""
        if not re.fullmatch(ID, id):
            raise BadInput(f"{id[:40]!r} cannot be the id of a feedback")
        async with self._one_at_a_time:
            kept = await self._one(id)
            if kept is not None:
                return await self._follow(kept)
            if await self._heard(id) is None:
                return "ignored"
            if any(named.id == id for named in await self._names()):  # a missing page must not look like a deletion
                raise Unavailable(f"Open WebUI lists the feedback {id!r}, but does not give it")
            return await self._let_go(id)

    # what it says

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

    async def _names(self) -> list[Named]:
        response = await self._get("/feedbacks/all/ids")
        return parsed(NAMES, response)

    async def _one(self, id: str) -> Kept | None:
        response = await self._get(f"/feedback/{id}")
        return None if response.status_code == 404 else parsed(TypeAdapter(Kept), response)

    async def _kept(self, moved: Mapping[str, int]) -> list[Kept]:
        """Those that moved, oldest first: by pages, newest first, then one by one what is on none of them."""
        found: dict[str, Kept] = {}
        page = 0
        while len(found) < len(moved):
            page += 1
            response = await self._get("/feedbacks/list", order_by="updated_at", direction="desc", page=page)
            items = parsed(TypeAdapter(Page), response).items
            found |= {kept.id: kept for kept in items if kept.id in moved}
            if not items or items[-1].updated_at < min(moved.values()):
                break
        rest = [await self._one(id) for id in moved if id not in found]
        return sorted([*found.values(), *(kept for kept in rest if kept)], key=lambda kept: (kept.updated_at, kept.id))

    # what is done about it

    async def _read_heard(self) -> dict[str, outside.HeardRow]:
        found: dict[str, outside.HeardRow] = await asyncio.to_thread(
            self.store.read, lambda connection: outside.all_heard(connection, self.source)
        )
        return found

    async def _heard(self, id: str) -> outside.HeardRow | None:
        found: outside.HeardRow | None = await asyncio.to_thread(
            self.store.read, lambda connection: outside.heard_of(connection, self.source, id)
        )
        return found

    async def _hear(self, row: outside.HeardRow) -> None:
        await asyncio.wrap_future(self.store.submit(lambda connection: outside.hear(connection, row)))

    async def _follow(self, kept: Kept) -> Outcome:
        shown: outside.MessageRow | None = await asyncio.to_thread(
            self.store.read, lambda connection: outside.shown_in(connection, kept.message_id)
        )
        predictor = self.predictors.get(shown.model) if shown else None
        row = outside.HeardRow(
            source=self.source, id=kept.id, model=shown.model if shown else None, as_of=kept.updated_at
        )
        outcome: Outcome = "ignored"
        if shown is not None and predictor is not None:
            before = await self._heard(kept.id)
            if before is None:  # or its deletion might not be noticed
                await self._hear(row.model_copy(update={"as_of": NOT_YET}))
            moved = before is None or kept.updated_at > before.as_of
            outcome = await self.opinions.echo(predictor, key_of(kept.id), kept.item(shown.prediction_id), moved)
        await self._hear(row)
        return outcome

    async def _let_go(self, id: str) -> Outcome:
        heard = await self._heard(id)
        predictor = self.predictors.get(heard.model) if heard and heard.model else None
        outcome: Outcome = await self.opinions.echo(predictor, key_of(id), None) if predictor else "ignored"
        if heard is not None:
            await self._hear(heard.model_copy(update={"gone": True}))
        return outcome


def parsed(kind: TypeAdapter[T], response: httpx.Response) -> T:
    try:
        if response.status_code == 404:
            raise ValueError
        return kind.validate_json(response.content)
    except (ValidationError, ValueError):
        where = response.request.url.path
        raise Unavailable(
            f"what answers at {where} is no Open WebUI of 0.10 or newer ({response.status_code})"
        ) from None


def key_of(id: str) -> str:
    return f"{SOURCE}-{id}"

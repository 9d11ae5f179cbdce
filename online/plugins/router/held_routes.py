"""The route of each conversation, so that its next question stays there unless another is worth the lost prompt cache.

    answer --note--> memory --where several processes answer, a moment later--> store
    next question --find--> memory, else store

One process keeps them in memory; several workers or replicas share them through the store, where they stay for a day. A conversation
is known by a hash of how it begins (chat_requests.py).
"""

import asyncio
from collections import OrderedDict
from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from functools import partial

from sqlalchemy import Connection, delete, insert, select
from sqlmodel import Field, SQLModel

from online.errors import Unavailable
from online.serving.model_runtime import ModelRuntime
from online.serving.parts import PruningRun
from online.store.database.tables import table_of
from online.store.database.values import now

MAX_CONVERSATIONS = 20_000  # in memory
GATHER_S = 0.1  # in which further routes are written together
KEPT = timedelta(days=1)


class HeldRouteRow(SQLModel, table=True):
    """The route of a conversation. conversation: its hash."""

    __tablename__ = "held_route"

    model: str = Field(primary_key=True)
    conversation: str = Field(primary_key=True)
    route: str
    created_at: str = Field(index=True)  # ISO 8601, UTC


HELD_ROUTES = table_of(HeldRouteRow)


class HeldRoutes:
    """The routes of one model's conversations."""

    def __init__(self, model: ModelRuntime) -> None:
        self.model, self.name = model, model.spec.name
        self.is_shared = model.predictor.settings.workers > 1 or model.transactions.store.is_shared
        self._held, self._waiting = OrderedDict[str, str](), dict[str, str]()
        self._wakeup = asyncio.Event()

    async def find(self, conversation: str) -> str:
        """Return the route that answered a conversation; "" for none, and while the store is away."""
        held = self._held.get(conversation, "")
        if held or not self.is_shared:
            return held
        with suppress(Unavailable):
            held = await self.model.read(lambda connection: load_held_route(connection, self.name, conversation))
        return held

    def note(self, conversation: str, route: str) -> None:
        """Note the route that has answered."""
        if self.is_shared and self._held.get(conversation) != route:
            self._waiting[conversation] = route
            self._wakeup.set()
        self._held[conversation] = route
        self._held.move_to_end(conversation)
        if len(self._held) > MAX_CONVERSATIONS:
            self._held.popitem(last=False)

    async def run(self) -> None:
        """Write what was noted, until cancelled. What cannot be written is forgotten: a conversation may then change its route."""
        while True:
            await self._wakeup.wait()
            await asyncio.sleep(GATHER_S)
            self._wakeup.clear()
            routes, self._waiting = self._waiting, {}
            with suppress(Unavailable):
                await self.model.transactions.write(partial(save_held_routes, model=self.name, routes=routes))

    async def prune(self, pruning: PruningRun) -> None:
        """Delete the routes of old conversations."""
        before = (pruning.at - KEPT).isoformat()
        await pruning.write(lambda connection: delete_held_routes(connection, self.name, before))


def load_held_route(connection: Connection, model: str, conversation: str) -> str:
    """Return the route of a conversation; "" for none."""
    own = (HELD_ROUTES.c.model == model, HELD_ROUTES.c.conversation == conversation)
    return connection.scalar(select(HELD_ROUTES.c.route).where(*own)) or ""


def save_held_routes(connection: Connection, model: str, routes: Mapping[str, str]) -> None:
    """Store the routes of conversations, in place of those before."""
    own = (HELD_ROUTES.c.model == model, HELD_ROUTES.c.conversation.in_([*routes]))
    connection.execute(delete(HELD_ROUTES).where(*own))
    at = now()
    rows = [HeldRouteRow(model=model, conversation=each, route=routes[each], created_at=at) for each in sorted(routes)]
    connection.execute(insert(HELD_ROUTES), [row.model_dump() for row in rows])


def delete_held_routes(connection: Connection, model: str, before: str) -> int:
    """Delete the routes of conversations that are older than an instant (ISO 8601); return how many."""
    old = (HELD_ROUTES.c.model == model, HELD_ROUTES.c.created_at < before)
    return int(connection.execute(delete(HELD_ROUTES).where(*old)).rowcount)

"""The live events of one model, and its feedback that could not be learned."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial

import orjson
from fastapi import Response
from fastapi.responses import StreamingResponse
from sqlalchemy import Connection

from online.api.auth.scopes import CallerDep
from online.api.dependencies import ModelDep, RuntimeDep
from online.api.responses import json_response, live_headers
from online.api.routes import Router
from online.schemas.access.callers import Caller
from online.schemas.events import Event
from online.schemas.refusals import RefusedAnswer
from online.serving.event_feed import FeedEvent
from online.serving.model_runtime import ModelRuntime
from online.serving.runtime import Runtime
from online.store.refusals import RefusedEvent, count_refusals, group_refusals, load_newest_refusals

router = Router()

KEEP_ALIVE_S = 15.0
MAX_REFUSALS = 100
MAX_GROUPS = 20  # of refusals


@router.get("/v1/models/{model}/refused", "operate", response_model=RefusedAnswer)
async def list_refused(model: ModelDep) -> Response:
    """The feedback that could not be learned: how much there is, by its reasons, and the newest of it, newest first."""
    content = await model.read(partial(read_refusals, name=model.spec.name, recipe=model.live.encoder_config.recipe))
    return json_response(content, headers=live_headers(model))


def read_refusals(connection: Connection, name: str, recipe: str) -> dict[str, object]:
    """Return the refused feedback of a model as the API shows it: the count, the groups and the newest."""
    return {
        "count": count_refusals(connection, name, recipe, after=0),
        "groups": [group.model_dump() for group in group_refusals(connection, name, recipe)[:MAX_GROUPS]],
        "refused": [describe_refusal(row) for row in load_newest_refusals(connection, name, recipe, MAX_REFUSALS)],
    }


def describe_refusal(row: RefusedEvent) -> dict[str, object]:
    """Return a refused event with its reason."""
    event = Event.parse(row.body, b"")
    fields = {"offset": row.offset, "id": row.id, "reason": row.reason, "created_at": row.created_at}
    return {**fields, "kind": event.kind, "label": event.label}


@router.get("/v1/models/{model}/events", "predict")
async def stream_events(model: ModelDep, runtime: RuntimeDep, caller: CallerDep) -> StreamingResponse:
    """Server-sent events: status, published, received, learned, refused, retracted, rejected, rolled_back, frozen, set_aside,
    labelled, adapted, counted, caller, inbox. `received` follows when the log has grown, at most once a second.

    What became of a feedback, and of a caller, is sent to its caller, and to curators; that the inbox has changed, to curators.
    """
    model.feed.check_capacity()
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no", **live_headers(model)}
    return StreamingResponse(follow_events(model, runtime, caller), media_type="text/event-stream", headers=headers)


async def follow_events(model: ModelRuntime, runtime: Runtime, caller: Caller) -> AsyncIterator[bytes]:
    """Yield the events of a model until the feed closes, which the server does before it drains connections.

    sse-starlette is not used: it learns of a shutdown from uvicorn's signal handler, which it
    patches. Here the feed itself ends the streams, however the server is stopped.
    """
    queue = model.feed.subscribe()
    try:
        yield encode_event("status", model.describe(runtime.learner()))
        while not runtime.stopping:
            try:
                async with asyncio.timeout(KEEP_ALIVE_S):
                    event = await queue.get()
            except TimeoutError:
                yield b": still here\n\n"
                continue
            if event is None:
                return
            if caller.may(event.scope) and is_shown_to(caller, event):
                yield encode_event(event.name, event.data)
    finally:
        model.feed.unsubscribe(queue)


def is_shown_to(caller: Caller, event: FeedEvent) -> bool:
    """Return whether a caller may see an event: its own, one of its user, one without an owner, or any as a curator."""
    owner = event.owner
    return owner is None or caller.may("curate") or caller.may_act_for(owner) or caller.id == owner


def encode_event(name: str, data: dict[str, object]) -> bytes:
    """Encode a server-sent event."""
    return b"event: " + name.encode() + b"\ndata: " + orjson.dumps(data) + b"\n\n"

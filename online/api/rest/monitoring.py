"""Monitoring of one model: the verdict, drift alarms, the prequential curve, refused feedback and live events."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Any

import orjson
from fastapi import Query, Response
from fastapi.responses import StreamingResponse
from sqlalchemy import Connection

from online.api.auth.scopes import CallerDep
from online.api.dependencies import ModelDep, RuntimeDep
from online.api.responses import json_response, live_headers
from online.api.routes import Router
from online.schemas.access.callers import Caller
from online.schemas.events import Event
from online.schemas.monitoring import CurveAnswer, DriftAnswer, HealthAnswer, JudgedAnswer, RefusedAnswer
from online.scoring.drift_changes import Alarm, AlarmGroup
from online.scoring.prequential import MAX_SEGMENTS
from online.scoring.verdict import Reason, VerdictInputs
from online.serving.event_feed import FeedEvent
from online.serving.model_runtime import ModelRuntime
from online.serving.monitoring.curve import CurveCounts, per_minute
from online.serving.monitoring.health import ModelHealth, Ratings
from online.serving.monitoring.verdict_words import word_reason, word_verdict
from online.serving.runtime import Runtime
from online.store.feedback import load_first_time
from online.store.refusals import count_refusals, group_refusals, load_newest_refusals
from online.store.usage.counts import UsageCounts, load_totals

router = Router()

KEEP_ALIVE_S = 15.0
MAX_REFUSALS = 100
MAX_GROUPS = 20  # of refusals
MAX_JUDGED_OFFSETS = 200  # in one request


@router.get("/v1/models/{model}/drift", "predict", response_model=DriftAnswer)
async def list_drift(model: ModelDep) -> Response:
    """The newest alarms of the drift detectors, newest first."""
    name = model.spec.name
    ratings = await model.rate_answers()
    changes = ratings.changes
    times = await model.read(lambda connection: [load_first_time(connection, name, each.since - 1) for each in changes])
    described = await asyncio.to_thread(describe_changes, model, ratings)
    described = [{**each, "since_at": at} for each, at in zip(described, times, strict=True)]
    alarms = sorted((alarm for each in changes for alarm in each.alarms), key=lambda each: (-each.offset, each.what))
    content = {"drift": [describe_alarm(alarm, ratings) for alarm in alarms], "changes": described}
    return json_response(content, headers=live_headers(model))


def describe_changes(model: ModelRuntime, ratings: Ratings) -> list[dict[str, object]]:
    """Slow the first time: it reads manifests."""
    recipe, live = model.live.encoder_config.recipe, model.live.current.version
    before = [model.snapshots.folder.newest_before(offset, recipe, live) for offset in ratings.suspect_from]
    return [describe_change(*pair, ratings) for pair in zip(ratings.changes, before, strict=True)]


def describe_alarm(alarm: Alarm, ratings: Ratings) -> dict[str, object]:
    """Return an alarm as the API shows it. noted_at: when its first feedback was given."""
    return {**asdict(alarm), "noted_at": ratings.noted_at[alarm]}


def describe_change(change: AlarmGroup, before: int | None, ratings: Ratings) -> dict[str, object]:
    """Return the alarms of one change as the API shows them, with the version from before it."""
    return {
        "since": change.since,
        "offset": change.offset,
        "noted_at": ratings.noted_at[change.alarms[0]],
        "alarms": [describe_alarm(alarm, ratings) for alarm in change.alarms],
        "version_before": None if before is None else str(before),
    }


@router.get("/v1/models/{model}/health", "predict", response_model=HealthAnswer)
async def get_health(model: ModelDep, runtime: RuntimeDep) -> Response:
    """The verdict on a model, with its reasons, worst first: whether it needs attention, does not learn, or is good.

    The newest judgements are compared with every stretch before, and with naive guessers, by tests that chance does
    not pass. The reasons have codes and figures; new codes may be added.
    """
    health, ratings = await model.check_health(runtime.learner()), await load_ratings(model)
    return json_response(describe_health(health, ratings), headers=live_headers(model))


def describe_roll_back(ratings: Ratings) -> dict[str, object] | None:
    """Return the last roll back and what answers were worth since then; None without one."""
    done, judged = ratings.rolled_back, ratings.judged_since
    if done is None:
        return None
    return {"version": str(done.version), "since": done.since, "judged": None if judged is None else asdict(judged)}


async def load_ratings(model: ModelRuntime) -> UsageCounts:
    """Return what people say now about all answers there were."""
    await model.ratings.catch_up()
    counts: UsageCounts = await model.read(partial(load_totals, model=model.spec.name))
    return counts


def describe_reason(reason: Reason, facts: VerdictInputs) -> dict[str, object]:
    """Return a reason with its sentence in English and its figures."""
    sentence = word_reason(reason, facts)
    return {"code": reason.code, "level": reason.level, "sentence": sentence, "figures": dict(reason.figures)}


def describe_health(health: ModelHealth, counts: UsageCounts) -> dict[str, object]:
    """Return the verdict on a model with everything it rests on, as the API shows it."""
    verdict, facts, ratings = health.verdict, health.facts, health.ratings
    return {
        "status": verdict.status,
        "sentence": word_verdict(verdict, facts),
        "reasons": [describe_reason(reason, facts) for reason in verdict.reasons],
        "measure": "error" if facts.numbers else "right",
        "recent": None if ratings.recent is None else asdict(ratings.recent),
        "lifetime": None if ratings.lifetime is None else asdict(ratings.lifetime),
        "ratings": {"rated": counts.rated, "good": counts.good, "bad": counts.bad},
        "guessers": {name: stretch.mean for name, stretch in ratings.guessers.items()},
        "guesser_counts": {name: stretch.count for name, stretch in ratings.guessers.items()},
        "trend": [asdict(stretch) for stretch in ratings.trend],
        "last_roll_back": describe_roll_back(ratings),
        "version": str(facts.live),
        "newest_version": str(facts.newest),
        "learned_until": facts.learned_until,
        "head": facts.head,
        "counted_until": ratings.counted_until,
    }


@router.get("/v1/models/{model}/curve", "predict", response_model=CurveAnswer)
async def get_curve(
    model: ModelDep,
    points: Annotated[int, Query(ge=8, le=MAX_SEGMENTS, description="The largest number of points.")] = 256,
) -> Response:
    """The prequential curve. While a long log is being counted, it ends at `counted_until`; the event `counted` follows."""
    head = await asyncio.to_thread(model.stream.head)
    curve = await model.curve.summarize(lambda counts: describe_curve(counts, points))
    ratings = await load_ratings(model)
    curve |= {"rated": ratings.rated, "right": ratings.good}
    return json_response({**curve, "head": max(head, curve["counted_until"])}, headers=live_headers(model))


def describe_curve(counts: CurveCounts, points: int) -> dict[str, object]:
    """Return the prequential curve in at most `points` segments."""
    return {
        "measure": "error" if counts.numbers else "right",
        "counted_until": counts.until,
        "judged": counts.served.judged,
        "judged_right": counts.served.right,
        "feedback": counts.feedback,
        "feedback_per_minute": per_minute(counts.times, datetime.now(UTC)),
        "tallies": {name: asdict(tally) for name, tally in counts.tallies.items()},
        "points": [asdict(stretch) for stretch in counts.curve.segments(points)],
    }


@router.get("/v1/models/{model}/curve/judged", "predict", response_model=JudgedAnswer)
async def count_judged(
    model: ModelDep,
    offset: Annotated[
        list[int],
        Query(min_length=1, max_length=MAX_JUDGED_OFFSETS, description="The offset of an event; several can be given."),
    ],
) -> Response:
    """How many served answers had been judged up to an offset, exactly: the curve is thinned, and says so at some only."""
    judged = await model.curve.summarize(lambda counts: counts.judged_until(offset))
    return json_response({"judged": [judged[each] for each in offset]}, headers=live_headers(model))


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


def describe_refusal(row: Mapping[str, Any]) -> dict[str, object]:
    """Return a refused event with its reason."""
    event = Event.parse(row["body"], b"")
    fields = {name: row[name] for name in ("offset", "id", "reason", "created_at")}
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

"""The usage of a model over calendar time, and its most frequent questions.

The scope is curate: the questions are words of others, and the figures are for those who improve the replies.
"""

import asyncio
from datetime import UTC, datetime
from functools import partial
from typing import Annotated

from fastapi import Query, Response
from sqlalchemy import Connection

from online.api.dependencies import ModelDep
from online.api.responses import json_response, live_headers
from online.api.routes import Router
from online.models import spec_of
from online.plugins.usage.calendar import Unit, default_range, find_zone, list_starts, parse_instant
from online.plugins.usage.questions import QuestionSample, load_features, load_questions
from online.plugins.usage.schemas import TopQuestion, TopQuestionsAnswer, UsageAnswer
from online.plugins.usage.summary import UsageRange, summarize_usage, write_local
from online.plugins.usage.top_questions import (
    MAX_GROUPED,
    MAX_PREDICTIONS,
    AskedText,
    collect_texts,
    describe_group,
    group_by_meaning,
)
from online.serving.model_runtime import ModelRuntime
from online.serving.parts import ModelPart
from online.store.repertoire.replies import load_replies

router = Router()

From = Annotated[
    str | None,
    Query(alias="from", max_length=40, description="A date, or an instant. Default: 30 days, today included."),
]
Until = Annotated[
    str | None, Query(max_length=40, description="A date or an instant, which is not included. Default: now.")
]
Zone = Annotated[str, Query(max_length=80, description="Of the calendar, and of dates without an offset.")]


def read_range(since: str | None, until: str | None, timezone: str) -> UsageRange:
    """Return the range of a request. Raises BadInput."""
    zone = find_zone(timezone)
    first, last = default_range(datetime.now(UTC), zone)
    return UsageRange(
        first if since is None else parse_instant("from", since, zone),
        last if until is None else parse_instant("until", until, zone),
        zone,
    )


@router.get("/v1/models/{model}/usage", "curate", response_model=UsageAnswer)
async def get_usage(
    model: ModelDep, since: From = None, until: Until = None, by: Unit = "day", timezone: Zone = "UTC"
) -> Response:
    """Questions, ratings, satisfaction, and the share answered without staff, by hour, day, week or month, and in all.

    Ratings count where their question was asked. `from` and `until` are rounded down to a quarter of an hour.
    """
    span = read_range(since, until, timezone)
    await model.transactions.copy_journal()
    await model.ratings.catch_up()
    summarize = partial(summarize_usage, model=model.spec.name, span=span, unit=by)
    answer: UsageAnswer = await model.read(summarize)
    return json_response(answer.model_dump(), headers=live_headers(model))


@router.get("/v1/models/{model}/usage/questions", "curate", response_model=TopQuestionsAnswer)
async def list_top_questions(
    model: ModelDep,
    since: From = None,
    until: Until = None,
    timezone: Zone = "UTC",
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
) -> Response:
    """The questions that were asked most, grouped by meaning, among the newest predictions."""
    span = read_range(since, until, timezone)
    list_starts(span.since, span.until, "month", span.zone)
    await model.transactions.copy_journal()
    await model.ratings.catch_up()
    first, last = span.since.isoformat(), span.until.isoformat()
    load = partial(load_questions, model=model.spec.name, since=first, until=last, newest=MAX_PREDICTIONS)
    sample: QuestionSample = await model.read(load)
    texts = await asyncio.to_thread(collect_texts, sample.questions)
    questions = await group(model, texts[:MAX_GROUPED], limit)
    answer = TopQuestionsAnswer(
        since=write_local(span.since, span.zone),
        until=write_local(span.until, span.zone),
        timezone=timezone,
        questions=questions,
        looked_at=sample.looked_at,
        complete_since=sample.oldest if sample.oldest is not None and sample.oldest > first else None,
        reason=None if questions else explain_absence(model, sample),
    )
    return json_response(answer.model_dump(), headers=live_headers(model))


async def group(model: ModelRuntime, texts: list[AskedText], limit: int) -> list[TopQuestion]:
    """Group questions of similar meaning, at most `limit` groups, with the answers that they got."""
    ids = [each.newest for each in texts]

    def load(connection: Connection) -> tuple[dict[str, bytes], dict[str, str]]:
        has_replies = spec_of(model.spec.kind).has_repertoire
        rows = load_replies(connection, model.spec.name) if has_replies else []
        return load_features(connection, ids), {row.id: row.text for row in rows}

    features, replies = await model.read(load)
    groups = await asyncio.to_thread(group_by_meaning, texts, features)
    open_groups = dict[str, str]()
    for part in model.parts.list(ModelPart) if replies else ():
        open_groups.update(await part.find_open_questions())
    return [describe_group(each, replies, open_groups) for each in groups[:limit]]


def explain_absence(model: ModelRuntime, sample: QuestionSample) -> str:
    """Return why there are no top questions."""
    if sample.questions:
        return f"the inputs of {model.spec.name} are no texts, so there are no questions to compare"
    return "nothing was asked in this range, as far back as was searched"

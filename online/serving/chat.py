"""HTTP: the repertoire of a ranker, which replies it may give; a file of them; questions that get none."""

import asyncio
import json
from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from sqlalchemy import Connection

from online import store
from online.errors import BadInput, NotFound, TooLarge
from online.prequential import Hits
from online.schemas import (
    EditReply,
    Event,
    ImportAnswer,
    NewReply,
    Receipt,
    RepliesAnswer,
    ReplyDetails,
    ReplyLine,
    ReplyShown,
    UnansweredAnswer,
)
from online.serving.api import ERRORS, ModelHere, PartsHere, answer, body_of, live_stamp
from online.serving.bodies import body_as, read_body
from online.serving.importing import Format, Planned, parsed, written
from online.serving.parts import ModelParts
from online.serving.repertoire import Repertoire
from online.serving.unanswered import Cluster, clustered, questions_of, still_open
from online.store import ReplyRow

TAUGHT_SHOWN = 50
NEWEST_PREDICTIONS = 20_000  # among which unanswered ones are looked for
FILE_BODY = {"requestBody": {"required": True, "content": {"text/plain": {"schema": {"type": "string"}}}}}
FILE_TYPES = {"jsonl": "application/jsonl", "csv": "text/csv"}
Words = Annotated[
    str, Query(max_length=200, description="all of them stand in its text, or in one of its example questions")
]

router = APIRouter(responses=ERRORS)


@router.get("/v1/models/{model}/replies", response_model=RepliesAnswer)
async def replies(model: ModelHere, q: Words = "") -> Response:
    """Every reply, retired ones too, in the order they came, with how often it was right where it was given.

    q: only those with these words.
    """
    check_ranker(model)
    rows, questions = await rows_and_questions(model)
    judged = await model.curve.shown(lambda counts: dict(counts.choices))
    words = store.folded(q).split()
    listed = [
        {**shown(row), "examples": len(questions[row.id]), **rated(judged.get(row.id) or Hits())}
        for row in rows
        if has_words(words, [row.text, *questions[row.id]])
    ]
    return answer({"replies": listed}, headers=live_stamp(model))


async def rows_and_questions(model: ModelParts) -> tuple[list[ReplyRow], dict[str, list[str]]]:
    """All replies, and their example questions."""
    name = model.spec.name
    rows, examples = await model.predictor.read(
        lambda connection: (store.replies_of(connection, name), store.examples_of(connection, name))
    )
    questions: dict[str, list[str]] = {row.id: [] for row in rows}
    for id, _, text in examples:
        questions.setdefault(id, []).append(text)
    return rows, questions


def has_words(words: Sequence[str], texts: Sequence[str]) -> bool:
    """Whether all words stand in one of the texts."""
    return not words or any(all(word in text for word in words) for text in map(store.folded, texts))


def rated(hits: Hits) -> dict[str, int]:
    return {"rated": hits.judged, "right": hits.right}


@router.post("/v1/models/{model}/replies", status_code=202, response_model=ReplyShown, openapi_extra=body_of(NewReply))
async def add(request: Request, model: ModelHere, parts: PartsHere) -> Response:
    """Add a reply with example questions; a retired one comes back. It is given from its offset on."""
    check_ranker(model)
    new = await body_as(request, NewReply, parts.settings)
    check_text(new.text, parts.settings.max_text_chars)
    row = (await Repertoire(model.predictor).add([new]))[0]
    return answer(shown(row), 202, live_stamp(model))


@router.get("/v1/models/{model}/replies/{id}", response_model=ReplyDetails)
async def details(model: ModelHere, id: str) -> Response:
    """One reply, its example questions, and what people said about it lately."""
    check_ranker(model)
    name = model.spec.name

    def found(connection: Connection) -> dict[str, object]:
        row = store.reply_with_id(connection, name, id)
        if row is None:
            raise NotFound(f"{name} has no reply {id!r}")
        examples = [{"offset": at, "text": text} for _, at, text in store.examples_of(connection, name, id)]
        taught = [said(each) for each in store.taught_to(connection, name, id, TAUGHT_SHOWN)]
        return {**shown(row), "examples": examples, "taught": [each for each in taught if each["question"]]}

    return answer(await model.predictor.read(found), headers=live_stamp(model))


def said(row: dict[str, Any]) -> dict[str, object]:
    event = Event.parse(row["body"], b"")
    asked = None if row["asked"] is None else json.loads(row["asked"])
    right = event.kind in ("label", "correction") or event.reward >= 0.5
    question = asked.get("text") if isinstance(asked, dict) else asked
    return {"question": question, "feedback_id": row["id"], "offset": row["offset"], "right": right}


@router.put(
    "/v1/models/{model}/replies/{id}", status_code=202, response_model=ReplyShown, openapi_extra=body_of(EditReply)
)
async def edit(request: Request, model: ModelHere, parts: PartsHere, id: str) -> Response:
    """Give a reply another wording, more example questions, or its place back. It holds from its offset on."""
    check_ranker(model)
    wanted = await body_as(request, EditReply, parts.settings)
    for text in [*([] if wanted.text is None else [wanted.text]), *wanted.examples]:
        check_text(text, parts.settings.max_text_chars)
    return answer(shown(await Repertoire(model.predictor).edit(id, wanted)), 202, live_stamp(model))


@router.delete("/v1/models/{model}/replies/{id}", status_code=202, response_model=Receipt)
async def retire(model: ModelHere, id: str) -> Response:
    """Stop giving a reply. What was learned about it is kept, for the day it is added again."""
    check_ranker(model)
    offset = await Repertoire(model.predictor).retire(id)
    return answer({"id": id, "offset": offset, "status": "accepted"}, 202, live_stamp(model))


@router.delete("/v1/models/{model}/replies/{id}/examples/{offset}", status_code=202, response_model=Receipt)
async def forget_example(model: ModelHere, id: str, offset: int) -> Response:
    """Take an example question back; it is un-learned exactly."""
    check_ranker(model)
    gone_at = await Repertoire(model.predictor).forget_example(id, offset)
    return answer({"id": id, "offset": gone_at, "status": "retracted"}, 202, live_stamp(model))


@router.get("/v1/models/{model}/replies:export", response_class=Response)
async def export(model: ModelHere, format: Format = "jsonl") -> Response:
    """All replies with their example questions, as a file that can be taken in again."""
    check_ranker(model)
    rows, questions = await rows_and_questions(model)
    lines = [ReplyLine(id=row.id, text=row.text, examples=questions[row.id], active=row.active) for row in rows]
    name = f"{model.spec.name}-replies.{format}"
    headers = {"Content-Disposition": f'attachment; filename="{name}"', **live_stamp(model)}
    return Response(written(lines, format), headers=headers, media_type=FILE_TYPES[format])


@router.post("/v1/models/{model}/replies:import", response_model=ImportAnswer, openapi_extra=FILE_BODY)
async def take_in(
    request: Request,
    model: ModelHere,
    parts: PartsHere,
    format: Format = "jsonl",
    dry_run: bool = False,
    skip_bad: bool = False,
) -> Response:
    """Take in a file of replies, all of it in one transaction: nothing where a line is bad, unless those are skipped.

    dry_run: changes nothing, and tells line by line what would be.
    """
    check_ranker(model)
    lines = parsed(await read_body(request, parts.settings), format)
    repertoire = Repertoire(model.predictor)
    if dry_run:
        planned, offset = await repertoire.plan(lines), None
    else:
        planned, offset = await repertoire.take_in(lines, skip_bad)
    bad = sum(bool(each.error) for each in planned)
    content = {"lines": [line_of(each) for each in planned], "bad": bad, "offset": offset}
    return answer(content, headers=live_stamp(model))


def line_of(planned: Planned) -> dict[str, object]:
    told = {"line": planned.number, "id": planned.id, "text": planned.text, "does": planned.does, "was": planned.was}
    return {**told, "examples": len(planned.change.examples) if planned.change else 0, "error": planned.error or None}


@router.get("/v1/models/{model}/unanswered", response_model=UnansweredAnswer)
async def unanswered(model: ModelHere) -> Response:
    """Questions that were asked lately and would get no reply now either, those that mean much the same together.

    Send a correction to their predictions, and all of them are answered by it.
    """
    check_ranker(model)
    name, served = model.spec.name, model.live.current
    rows = await model.predictor.read(lambda connection: store.abstained(connection, name, NEWEST_PREDICTIONS))
    clusters = await asyncio.to_thread(lambda: clustered(still_open(questions_of(rows), served.model)))
    return answer({"clusters": [cluster_of(each) for each in clusters]}, headers=live_stamp(model))


def cluster_of(cluster: Cluster) -> dict[str, object]:
    questions = [
        {"text": each.text, "predictions": each.predictions, "asked_at": each.asked_at} for each in cluster.questions
    ]
    return {"asked": cluster.count, "questions": questions}


def check_ranker(model: ModelParts) -> None:
    if model.spec.kind != "ranker":
        raise BadInput(f"{model.spec.name} is a {model.spec.kind}; only a ranker has replies")


def check_text(text: str, most_chars: int) -> None:
    if not text.strip():
        raise BadInput("a reply needs a text, and so does an example question")
    if len(text) > most_chars:
        raise TooLarge(f"the reply has {len(text)} characters; at most {most_chars} (max_text_chars)")


def shown(row: ReplyRow) -> dict[str, object]:
    return {"id": row.id, "text": row.text, "active": row.active, "offset": row.offset}

"""The repertoire of a ranker: its replies and their example questions."""

import json
from collections.abc import Sequence
from functools import partial
from typing import Annotated, get_args

from fastapi import Query, Request, Response
from sqlalchemy import Connection

from online.api.audit import name_offset, record_action
from online.api.auth.scopes import CallerDep
from online.api.bodies import read_body_as
from online.api.dependencies import ModelDep, RuntimeDep
from online.api.responses import json_response, live_headers
from online.api.routes import Router
from online.errors import BadInput, NotFound, TextTooLong
from online.models import spec_of
from online.schemas.access.callers import Caller
from online.schemas.events import Event, is_positive
from online.schemas.feedback import Receipt
from online.schemas.replies import (
    EditReply,
    NewReplyRequest,
    RepliesAnswer,
    ReplyDetails,
    ReplyState,
)
from online.serving.model_runtime import ModelRuntime
from online.serving.repertoire.admission import admit_changes
from online.serving.repertoire.repertoire import Admit, Note, RecordedChange
from online.serving.runtime import Runtime
from online.store.repertoire import listing as store
from online.store.repertoire.listing import Key, ListedReply, ReplyQuery, Show, Sort
from online.store.repertoire.replies import (
    FeedbackAbout,
    ReplyRow,
    find_reply,
    load_dated_examples,
    load_feedback_about,
)
from online.store.usage.answer_ratings import load_answer_ratings

MAX_LISTED = 1_000  # replies of one page
MAX_FEEDBACK = 50  # of one reply, the newest
SearchWords = Annotated[
    str, Query(max_length=200, description="Only replies with these words in their text or in one example question.")
]
Limit = Annotated[
    int | None, Query(ge=1, le=MAX_LISTED, description="The most replies that are listed. Without it, all are.")
]
After = Annotated[str | None, Query(max_length=800, description="The `next` of the list before, for what follows it.")]

router = Router()


@router.get("/v1/models/{model}/replies", "predict", response_model=RepliesAnswer)
async def list_replies(
    model: ModelDep,
    q: SearchWords = "",
    show: Show = "all",
    sort: Sort = "listed",
    limit: Limit = None,
    after: After = None,
) -> Response:
    """The replies, including retired ones, with the ratings that stand and when they were added. `next` leads to further ones.

    They are in the order in which they were added, or sorted: `newest` first, `most_rated` first, those with the smallest share
    of right ratings first (`least_right`), or `by_text`.
    """
    check_ranker(model)
    name, query = model.spec.name, ReplyQuery(q, show, sort)
    place = None if after is None else parse_place(after, sort)
    await model.ratings.catch_up()
    rows, counts = await model.read(
        lambda connection: (
            store.list_replies(connection, name, query, None if limit is None else limit + 1, place),
            store.count_listed(connection, name, query),
        )
    )
    following = name_place(rows[limit - 1], sort) if limit is not None and len(rows) > limit else None
    content = {
        "replies": [describe_listed(row) for row in rows[:limit]],
        "next": following,
        "found": counts.found,
        "counts": {name: getattr(counts, name) for name in get_args(Show)},
    }
    return json_response(content, headers=live_headers(model))


def name_place(row: ListedReply, sort: Sort) -> str:
    """Return the value of `after` for what is listed behind this reply."""
    return json.dumps([sort, *row.place], ensure_ascii=False, separators=(",", ":"))


def parse_place(after: str, sort: Sort) -> list[Key]:
    """Parse a place in the list, from `before` or `after`. Raises BadInput."""
    try:
        named, *found = json.loads(after)
        columns = store.SORTED[sort]
        place: list[Key] = found
        is_place = named == sort and [*map(type, place)] == [each.type for each in columns] and all(map(is_key, place))
    except (ValueError, TypeError):
        is_place = False
    if not is_place:
        raise BadInput(f"after: {after[:80]!r} is not the `next` of a list of replies with sort={sort}")
    return place


def is_key(value: Key) -> bool:
    """Return whether a database takes the value. Raises UnicodeEncodeError for one half of a surrogate pair."""
    if isinstance(value, str):
        return b"\0" not in value.encode()
    return abs(value) < 2**63


def describe_listed(row: ListedReply) -> dict[str, object]:
    """Return a reply of the list as the API shows it."""
    return {name: value for name, value in row._asdict().items() if name != "place"}


@router.post(
    "/v1/models/{model}/replies",
    "teach",
    status_code=202,
    response_model=ReplyState,
    body=NewReplyRequest,
)
async def add_reply(request: Request, model: ModelDep, runtime: RuntimeDep, caller: CallerDep) -> Response:
    """Add a reply with example questions, or restore a retired one. Versions that have learned its offset may give it."""
    check_ranker(model)
    reply = await read_body_as(request, NewReplyRequest, runtime.settings)
    check_text(reply.text, runtime.settings.max_text_chars)
    admit, note = build_admit(model, runtime, caller), build_note(model, caller)
    row = (await model.repertoire.add([reply], admit=admit, note=note))[0]
    model.feed.notify_curators()
    await record_action(request, "add_reply", model.spec.name, name_offset(row.offset), examples=len(reply.examples))
    return json_response(describe_reply(row), 202, live_headers(model))


@router.get("/v1/models/{model}/replies/{id}", "predict", response_model=ReplyDetails)
async def get_reply(model: ModelDep, caller: CallerDep, id: str) -> Response:
    """One reply, its example questions, and the newest feedback about it: a curator sees all, others their own."""
    check_ranker(model)
    name = model.spec.name
    await model.ratings.catch_up()

    def load(connection: Connection) -> dict[str, object]:
        row = find_reply(connection, name, id)
        if row is None:
            raise NotFound(f"{name} has no reply {id!r}")
        examples, ratings = load_dated_examples(connection, name, id), load_answer_ratings(connection, name, id)
        rows = load_feedback_about(connection, name, id, MAX_FEEDBACK)
        feedback = [describe_feedback(row) for row in rows if caller.may("curate") or caller.may_act_for(row.user)]
        return {
            **describe_reply(row),
            "rated": ratings.good + ratings.bad,
            "right": ratings.good,
            "created_at": store.load_times(connection, name, [row.offset]).get(row.offset),
            "examples": examples,
            "taught": [each for each in feedback if each["question"]],
        }

    return json_response(await model.read(load), headers=live_headers(model))


def describe_feedback(row: FeedbackAbout) -> dict[str, object]:
    """Return feedback on a reply as the API shows it."""
    event = Event.parse(row.body, b"")
    input = None if row.question is None else json.loads(row.question)
    right = event.kind in ("label", "correction") or is_positive(event.reward)
    question = input.get("text") if isinstance(input, dict) else input
    given = {"feedback_id": row.id, "offset": row.offset, "created_at": row.created_at}
    return {"question": question, **given, "right": right}


@router.put("/v1/models/{model}/replies/{id}", "curate", status_code=202, response_model=ReplyState, body=EditReply)
async def edit_reply(request: Request, model: ModelDep, runtime: RuntimeDep, id: str) -> Response:
    """Change the text of a reply, add example questions, retire or restore it. Versions that have learned its offset follow."""
    check_ranker(model)
    changes = await read_body_as(request, EditReply, runtime.settings)
    for text in [*([] if changes.text is None else [changes.text]), *changes.examples]:
        check_text(text, runtime.settings.max_text_chars)
    row = await model.repertoire.edit(id, changes)
    details = {"text": changes.text is not None, "examples": len(changes.examples), "active": changes.active}
    await record_action(request, "edit_reply", model.spec.name, name_offset(row.offset), **details)
    return json_response(describe_reply(row), 202, live_headers(model))


@router.delete("/v1/models/{model}/replies/{id}", "curate", status_code=202, response_model=Receipt)
async def retire_reply(request: Request, model: ModelDep, id: str) -> Response:
    """Stop giving a reply. What was learned about it is kept until it is restored."""
    check_ranker(model)
    offset = await model.repertoire.retire(id)
    await record_action(request, "retire_reply", model.spec.name, name_offset(offset))
    return json_response({"id": id, "offset": offset, "status": "accepted"}, 202, live_headers(model))


@router.delete("/v1/models/{model}/replies/{id}/examples/{offset}", "curate", status_code=202, response_model=Receipt)
async def delete_example(request: Request, model: ModelDep, id: str, offset: int) -> Response:
    """Delete an example question. It is un-learned exactly."""
    check_ranker(model)
    retracted_at = await model.repertoire.retract_example(id, offset)
    await record_action(request, "delete_example", model.spec.name, name_offset(offset))
    return json_response({"id": id, "offset": retracted_at, "status": "retracted"}, 202, live_headers(model))


def build_admit(model: ModelRuntime, runtime: Runtime, caller: Caller) -> Admit:
    """Return the function that admits the changes of a caller within its quotas."""
    return partial(admit_changes, model=model.spec.name, caller=caller, settings=runtime.settings)


def build_note(model: ModelRuntime, caller: Caller) -> Note:
    """Return what lets the review of feedback note what a caller has added."""
    id, review = model.transactions.new_id(), model.feedback.recorder.review

    def note(connection: Connection, changes: Sequence[RecordedChange]) -> None:
        replies = [change.id for change, _ in changes if change.new]
        examples = [event.id for _, events in changes for event in events if event.kind == "label"]
        if not caller.is_trusted and (replies or examples):
            review.note_added(connection, model.spec.name, caller, id, replies, examples)

    return note


def check_ranker(model: ModelRuntime) -> None:
    """Raise BadInput for a model without a repertoire."""
    if not spec_of(model.spec.kind).has_repertoire:
        raise BadInput(f"{model.spec.name} is a {model.spec.kind}; only a ranker has replies")


def check_text(text: str, most_chars: int) -> None:
    """Raise BadInput for an empty text of a reply, TextTooLong for one beyond the limit."""
    if not text.strip():
        raise BadInput("the text of a reply or of an example question is empty")
    if len(text) > most_chars:
        raise TextTooLong("the reply", len(text), most_chars)


def describe_reply(row: ReplyRow) -> dict[str, object]:
    """Return a reply as the API shows it after a change."""
    return {"id": row.id, "text": row.text, "active": row.active, "offset": row.offset}

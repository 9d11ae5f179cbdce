"""The inbox of a model's curators: what callers said, in groups, and what curators decide about it."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Literal

from fastapi import Query, Request, Response

from online.api.audit import name_offset, record
from online.api.auth.scopes import CallerDep
from online.api.bodies import read_body_as
from online.api.dependencies import ModelDep, RuntimeDep
from online.api.responses import json_response, live_headers
from online.api.routes import Router
from online.errors import BadInput
from online.models.encoders.follow_ups import read_text
from online.plugins.moderation.inbox.additions import Addition
from online.plugins.moderation.inbox.groups import (
    LISTED,
    Content,
    ItemGroup,
    question_of,
    read_content,
    without_long_instance,
)
from online.plugins.moderation.inbox.reading import DecisionView, NamedReplies
from online.plugins.moderation.inbox.schemas import (
    AssignAnswer,
    AssignRequest,
    DecideAnswer,
    DecideRequest,
    InboxAddition,
    InboxAnswer,
    InboxCount,
    InboxDecision,
    InboxGroup,
    InboxItem,
    InboxQuestion,
    UndoAnswer,
    UndoRequest,
)
from online.plugins.moderation.inbox.tables import OpenItem
from online.plugins.moderation.model_moderation import find_inbox
from online.schemas.access.callers import Caller
from online.schemas.events import is_positive
from online.schemas.predict import ReplyRef
from online.serving.model_runtime import ModelRuntime
from online.store.callers.api_keys import load_keys

router = Router()

MAX_GROUPS = 200
NOBODY, ME = "nobody", "me"
Describe = Callable[[OpenItem], InboxItem]
Limit = Annotated[int, Query(ge=1, le=MAX_GROUPS, description="The largest number of groups, or of decisions.")]
Order = Annotated[
    Literal["newest", "largest"], Query(description="Whether the newest or the largest group comes first.")
]
Assignee = Annotated[
    str | None,
    Query(max_length=128, description='Only groups with an item that this caller looks after; "me", or "nobody".'),
]
Words = Annotated[
    str | None,
    Query(
        max_length=200, description="Only groups with these words in a question, a suggestion, a comment or a reply."
    ),
]
Only = Annotated[
    Literal["waiting", "thumb_down", "new_reply"] | None,
    Query(description="Only groups with an item that waits to be approved, with a thumb down, or with a new reply."),
]


@router.get("/v1/models/{model}/inbox", "curate", response_model=InboxAnswer)
async def list_inbox(
    model: ModelDep,
    runtime: RuntimeDep,
    caller: CallerDep,
    state: Literal["open", "done"] = "open",
    assignee: Assignee = None,
    sort: Order = "newest",
    q: Words = None,
    only: Only = None,
    limit: Limit = LISTED,
) -> Response:
    """What nobody has looked at, in groups; or what was decided.

    Of a ranker: thumbs down, corrections and new replies, grouped by meaning. Of other models: what is held, grouped by the
    name that was given.
    """
    reader = find_inbox(model).reader
    groups = await reader.load_groups()
    found_count, shown, decisions = 0, list[InboxGroup](), list[InboxDecision]()
    if state == "open":
        wanted = [group for group in groups if is_wanted(group, assignee, caller)]
        if sort == "largest":
            wanted.sort(key=lambda group: -len(group.items))
        is_search = only is not None or q is not None
        fresh, named = await reader.refresh_states(wanted if is_search else wanted[:limit])
        described = [describe_group(group, describer(model, named)) for group in fresh]
        found = [group for group in described if contains(group, q or "") and has_item(group, only)]
        found_count, shown = len(found) if is_search else len(wanted), found[:limit]
    else:
        views, named = await reader.load_decisions(limit)
        decisions = [describe_decision(view, describer(model, named)) for view in views]
    answer = InboxAnswer(
        groups=shown,
        decisions=decisions,
        group_count=len(groups),
        found_count=found_count,
        item_count=sum(len(group.items) for group in groups),
        assignees=[caller.id, *(id for id in await list_curators(model) if id != caller.id)],
    )
    return json_response(answer.model_dump(), headers=live_headers(model))


@router.get("/v1/models/{model}/inbox:count", "curate", response_model=InboxCount)
async def count_inbox(model: ModelDep, caller: CallerDep) -> Response:
    """How many groups are open. It costs little: groups are built again only when other items are open."""
    groups = await find_inbox(model).reader.load_groups()
    mine = sum(is_wanted(group, ME, caller) for group in groups)
    answer = InboxCount(groups=len(groups), items=sum(len(group.items) for group in groups), mine=mine)
    return json_response(answer.model_dump(), headers=live_headers(model))


@router.post(
    "/v1/models/{model}/inbox:decide",
    "curate",
    status_code=202,
    response_model=DecideAnswer,
    body=DecideRequest,
)
async def decide(request: Request, model: ModelDep, runtime: RuntimeDep, caller: CallerDep) -> Response:
    """Approve, merge, reject or answer items. 409 tells who has decided about one of them before."""
    body = await read_body_as(request, DecideRequest, runtime.settings)
    decided = await find_inbox(model).decide(body, caller)
    action, offset = f"inbox_{decided.action}", name_offset(decided.offset)
    await record(runtime, caller, action, model.spec.name, offset, items=decided.closed)
    return json_response(decided.model_dump(), 202, live_headers(model))


@router.post("/v1/models/{model}/inbox:undo", "curate", status_code=202, response_model=UndoAnswer, body=UndoRequest)
async def undo(request: Request, model: ModelDep, runtime: RuntimeDep, caller: CallerDep) -> Response:
    """Take a decision back, exactly: its items are open again. A repeated call changes nothing.

    What a caller has added (`add`) is taken back too: new replies are retired, examples of other replies retracted.
    """
    body = await read_body_as(request, UndoRequest, runtime.settings)
    undone, is_new = await find_inbox(model).undo(body.decision, caller)
    if is_new:
        await record(runtime, caller, "inbox_undo", model.spec.name, name_offset(undone.offset))
    return json_response(undone.model_dump(), 202, live_headers(model))


@router.post("/v1/models/{model}/inbox:assign", "curate", response_model=AssignAnswer, body=AssignRequest)
async def assign(request: Request, model: ModelDep, runtime: RuntimeDep, caller: CallerDep) -> Response:
    """Let a caller look after items. Items that are not open any more are passed over."""
    body = await read_body_as(request, AssignRequest, runtime.settings)
    assignee = caller.id if body.assignee == ME else body.assignee
    if assignee not in (None, caller.id, *await list_curators(model)):
        raise BadInput(f"assignee: {assignee!r} is no key with the scope 'curate'; list them with `online keys list`")
    ids = await find_inbox(model).assign(body, assignee, caller)
    await record(runtime, caller, "inbox_assign", model.spec.name, items=len(ids), assigned=assignee is not None)
    return json_response(AssignAnswer(ids=ids, assignee=assignee).model_dump(), headers=live_headers(model))


async def list_curators(model: ModelRuntime) -> list[str]:
    """Return the callers with an active key that may curate this model."""
    now = datetime.now(UTC)
    keys = [key for key in await model.read(load_keys) if key.is_active(now) and "curate" in key.scope_list]
    return sorted(f"key:{key.name}" for key in keys if key.model_list is None or model.spec.name in key.model_list)


def is_wanted(group: ItemGroup, assignee: str | None, caller: Caller) -> bool:
    """Return whether a group has an item of this assignee, who may be `me` or `nobody`; None admits every group."""
    if assignee is None:
        return True
    wanted = {NOBODY: None, ME: caller.id}.get(assignee, assignee)
    return any(item.assignee == wanted for item in group.items)


def contains(group: InboxGroup, words: str) -> bool:
    """Return whether each of the words is a part of something that was asked, said or answered."""
    texts = [group.label, *(question.text for question in group.questions)]
    for item in group.items:
        answered = None if item.answered is None else item.answered.text
        texts += [item.question, item.correction, item.comment, item.reason, answered]
    content = "\n".join(text for text in texts if text is not None).casefold()
    return all(word in content for word in words.casefold().split())


def has_item(group: InboxGroup, only: str | None) -> bool:
    """Return whether a group has an item of a kind, or one that waits; None admits every group."""
    if only == "waiting":
        return any(item.state == "held" for item in group.items)
    return only is None or any(item.kind == only for item in group.items)


def describer(model: ModelRuntime, named: NamedReplies) -> Describe:
    """Return what describes the items of a model."""
    return partial(describe_item, named=named) if find_inbox(model).has_repertoire else describe_example


def describe_group(group: ItemGroup, describe: Describe) -> InboxGroup:
    """Return a group of the inbox as the API shows it."""
    return InboxGroup(
        id=group.id,
        label=group.label,
        questions=[InboxQuestion(text=text, count=count) for text, count in group.questions],
        items=[describe(item) for item in group.items],
        newest_at=group.newest_at,
        assignee=group.assignee,
    )


def describe_item(item: OpenItem, named: NamedReplies) -> InboxItem:
    """Return an item of a ranker."""
    content = read_content(item)
    proposed = named.proposed.get(item.id)
    is_new = item.id in named.brought or (content.get("correction") is not None and proposed is None)
    answered = None if item.choice is None else ReplyRef(id=item.choice, text=named.texts.get(item.choice, ""))
    return InboxItem(
        **describe_common(item, content),
        kind=kind_of_thumb(content) or ("new_reply" if is_new else "correction"),
        answered=answered,
        correction=content.get("correction") or named.texts.get(proposed or ""),
        reply=proposed if proposed in named.texts else None,
        scope=content.get("scope"),
    )


def describe_example(item: OpenItem) -> InboxItem:
    """Return an item of a model that is no ranker."""
    item = without_long_instance(item)
    content = read_content(item)
    return InboxItem(
        **describe_common(item, content),
        kind=kind_of_thumb(content) or "label",
        instance=json.loads(item.question),
        label=content.get("label"),
        answered=None if item.choice is None else ReplyRef(id=item.choice, text=item.choice),
        correction=None,
        reply=None,
        scope=None,
    )


def kind_of_thumb(content: Content) -> Literal["thumb_down", "thumb_up"] | None:
    """Return None where it is no thumb."""
    reward = content.get("reward")
    return None if reward is None else "thumb_up" if is_positive(reward) else "thumb_down"


def describe_common(item: OpenItem, content: Content) -> dict[str, object]:
    """Return the fields that items of every model have."""
    return {
        "id": item.id,
        "state": item.status,
        "hold": item.hold,
        "question": question_of(item),
        "prediction_id": item.prediction_id,
        "asked_at": item.asked_at,
        "reason": content.get("reason"),
        "comment": content.get("comment"),
        "caller": item.caller,
        "user": item.user,
        "created_at": item.created_at,
        "assignee": item.assignee,
    }


def describe_addition(added: Addition) -> InboxAddition:
    """Return what a decision added, as the API shows it."""
    return InboxAddition(replies=[*added.replies], reply_count=added.reply_count, example_count=added.example_count)


def describe_decision(view: DecisionView, describe: Describe) -> InboxDecision:
    """Return a decision as the API shows it, with the questions that it answered."""
    row, added = view.row, view.addition
    asked = [*(read_text(json.loads(words)) for words in view.questions), *(question_of(item) for item in view.items)]
    texts = asked if added is None else added.questions
    return InboxDecision(
        id=row.id,
        action=row.action,
        by=row.decided_by,
        at=row.decided_at,
        reason=row.reason,
        reply=view.reply,
        questions=list(dict.fromkeys(text for text in texts if text is not None)),
        items=[describe(item) for item in view.items],
        added=None if added is None else describe_addition(added),
    )

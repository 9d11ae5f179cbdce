"""The questions that still get no reply: list them in groups, and dismiss those that need none."""

import asyncio
from collections.abc import Sequence

from fastapi import Request, Response

from online.api.audit import record
from online.api.auth.scopes import CallerDep
from online.api.bodies import read_body_as
from online.api.dependencies import ModelDep, RuntimeDep
from online.api.responses import json_response, live_headers
from online.api.rest.replies import check_ranker
from online.api.routes import Router
from online.plugins.moderation.inbox.groups import ItemGroup, find_suggestions
from online.plugins.moderation.inbox.schemas import DecideAnswer, DismissRequest, UnansweredAnswer
from online.plugins.moderation.inbox.tables import load_dismissals, load_unanswered
from online.plugins.moderation.inbox.unanswered import collect_questions, leave_out_dismissed, select_unanswered
from online.plugins.moderation.model_moderation import find_inbox
from online.serving.repertoire.question_clusters import Cluster, cluster_questions

MAX_PREDICTIONS = 20_000  # the newest, which are searched for unanswered ones

router = Router()


@router.get("/v1/models/{model}/unanswered", "curate", response_model=UnansweredAnswer)
async def list_unanswered(model: ModelDep) -> Response:
    """Recent questions that still get no reply, grouped by meaning.

    A correction of the predictions of a group answers all its questions.
    """
    check_ranker(model)
    name, served = model.spec.name, model.live.current
    await model.transactions.copy_journal()
    rows, dismissed = await model.read(
        lambda connection: (load_unanswered(connection, name, MAX_PREDICTIONS), load_dismissals(connection, name))
    )
    clusters = await asyncio.to_thread(
        lambda: cluster_questions(select_unanswered(collect_questions(rows), served.model))
    )
    shown = leave_out_dismissed(clusters, rows, dismissed)
    groups = await find_inbox(model).reader.load_groups()
    content = {"clusters": [describe_cluster(each, groups) for each in shown]}
    return json_response(content, headers=live_headers(model))


def describe_cluster(cluster: Cluster, groups: Sequence[ItemGroup]) -> dict[str, object]:
    """groups: the open ones of the inbox."""
    questions = [
        {"text": each.text, "predictions": each.predictions, "asked_at": each.asked_at} for each in cluster.questions
    ]
    group, suggestions = find_suggestions(groups, [each.text for each in cluster.questions])
    return {"asked": cluster.count, "questions": questions, "inbox_group": group, "suggestions": suggestions}


@router.post(
    "/v1/models/{model}/unanswered:dismiss",
    "curate",
    status_code=202,
    response_model=DecideAnswer,
    body=DismissRequest,
)
async def dismiss(request: Request, model: ModelDep, runtime: RuntimeDep, caller: CallerDep) -> Response:
    """Let questions that need no reply stay away from the unanswered ones, until 5 more users ask them.

    `inbox:undo` takes it back.
    """
    check_ranker(model)
    body = await read_body_as(request, DismissRequest, runtime.settings)
    decided = await find_inbox(model).dismiss(body, caller)
    await record(runtime, caller, "inbox_dismiss", model.spec.name, items=decided.closed)
    return json_response(decided.model_dump(), 202, live_headers(model))

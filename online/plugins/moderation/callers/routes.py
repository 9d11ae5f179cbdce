"""Routes for operators about the callers of a model: list them with their standing, release one, drop one."""

from collections.abc import Sequence

from fastapi import Response
from sqlalchemy import Connection

from online.api.auth.scopes import CallerDep
from online.api.dependencies import ModelDep
from online.api.responses import json_response, live_headers
from online.api.routes import Router
from online.plugins.moderation.callers.schemas import HolderInfo, HoldersAnswer
from online.plugins.moderation.callers.standing import StandingRow, count_given, count_states, list_standings
from online.plugins.moderation.model_moderation import ModelModeration
from online.serving.model_runtime import ModelRuntime

router = Router(compressed=False)

MAX_LISTED = 200


@router.get("/v1/models/{model}/callers", "operate", response_model=HoldersAnswer)
async def list_callers(model: ModelDep) -> Response:
    """The callers that are not trusted: the quarantined ones first, then the newest."""
    name = model.spec.name

    def load(connection: Connection) -> HoldersAnswer:
        rows = list_standings(connection, name, MAX_LISTED)
        return HoldersAnswer(callers=describe(connection, name, rows), counts=count_states(connection, name))

    answer: HoldersAnswer = await model.read(load)
    return json_response(answer.model_dump(), headers=live_headers(model))


def describe(connection: Connection, model: str, rows: Sequence[StandingRow]) -> list[HolderInfo]:
    """Return what the operators' page shows of holders, with their counts of feedback."""
    given = count_given(connection, model, [row.holder for row in rows])
    return [
        HolderInfo(
            caller=row.holder,
            standing=given[row.holder][0],
            held=given[row.holder][1],
            **row.model_dump(exclude={"model", "holder", "number", "address"}),
        )
        for row in rows
    ]


@router.post("/v1/models/{model}/callers/{holder}:release", "operate", response_model=HolderInfo)
async def release_caller(model: ModelDep, caller: CallerDep, holder: str) -> Response:
    """Vouch for a caller: what is held of it is learned, and the review leaves it alone."""
    return await answer_with(model, await model.parts.find(ModelModeration).holders.release(holder, caller.id))


@router.post("/v1/models/{model}/callers/{holder}:drop", "operate", response_model=HolderInfo)
async def drop_caller(model: ModelDep, caller: CallerDep, holder: str) -> Response:
    """Retract all feedback of a caller, exactly and for good; what it says from now on is held."""
    return await answer_with(model, await model.parts.find(ModelModeration).holders.drop(holder, caller.id))


async def answer_with(model: ModelRuntime, row: StandingRow) -> Response:
    """Answer with the present state of one holder."""
    found: list[HolderInfo] = await model.read(lambda connection: describe(connection, model.spec.name, [row]))
    return json_response(found[0].model_dump(), headers=live_headers(model))

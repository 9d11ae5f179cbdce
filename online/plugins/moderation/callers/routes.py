"""Routes for operators about the callers of a model: list them with their standing, release one, drop one."""

from collections.abc import Sequence
from typing import Literal

from fastapi import Response
from pydantic import Field
from sqlalchemy import Connection

from online.api.auth.scopes import CallerDep
from online.api.dependencies import ModelDep
from online.api.responses import json_response, live_headers
from online.api.routes import Router
from online.plugins.moderation.callers.standing import StandingRow, count_given, count_states, list_standings
from online.plugins.moderation.model_moderation import ModelModeration
from online.schemas.fields import Wire
from online.serving.model_runtime import ModelRuntime

router = Router(compressed=False)

MAX_LISTED = 200


class HolderInfo(Wire):
    """One caller, or one user on whose behalf feedback is given. Curators are trusted and not listed."""

    caller: str
    state: Literal["new", "established", "quarantined", "released", "dropped"] = Field(
        description="new: nobody has agreed with it yet; established: others agree with it; quarantined: by the "
        "review; released: an operator vouches for it; dropped: an operator has retracted all it said."
    )
    reason: str | None = Field(description="Why it was quarantined.")
    decided_by: str | None = Field(description="Who changed its state last: review, or the id of an operator.")
    decided_at: str | None
    standing: int = Field(description="How much of its feedback is learned.")
    held: int = Field(description="How much of its feedback is held.")
    judged: int = Field(description="Of how much of its newest feedback the last review found what others say.")
    agreed: int = Field(description="How much of that others agree with.")
    seen_at: str


class HoldersAnswer(Wire):
    """Callers of a model, with their standing."""

    callers: list[HolderInfo] = Field(description="The quarantined ones first, then the newest.")
    counts: dict[str, int] = Field(description="State -> how many callers are in it.")


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

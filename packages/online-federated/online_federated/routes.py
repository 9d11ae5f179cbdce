"""Cohorts: clients whose sums are added without the service seeing one client's (secure aggregation)."""

from typing import Annotated

from fastapi import Header, Path, Query, Request, Response

from online.api.audit import record_action
from online.api.auth.scopes import CallerDep
from online.api.bodies import check_json, parse_as, read_body_as, read_bytes
from online.api.dependencies import ModelDep, RuntimeDep
from online.api.responses import json_response
from online.api.routes import Router
from online.schemas.fields import Name
from online_federated.bodies import Message
from online_federated.cohorts import Cohorts
from online_federated.schemas import (
    CohortAnswer,
    CohortParameters,
    JoinRequest,
    MemberAnswer,
    Membership,
    SharesMessage,
    UnmaskingMessage,
    ValuesMessage,
)

router = Router()
Number = Annotated[
    int, Path(ge=1, le=1_000_000, description="Of the member, as the service has given it when it joined.")
]
Token = Annotated[str, Header(alias="X-Cohort-Token", max_length=128)]
ROOT = "/v1/models/{model}/cohorts"
MEMBER = f"{ROOT}/{{id}}/members/{{number}}"


@router.post(ROOT, "curate", status_code=201, response_model=CohortAnswer, body=CohortParameters)
async def create_cohort(request: Request, model: ModelDep, runtime: RuntimeDep) -> Response:
    """Begin a cohort, whose members learn by themselves and send sums that only their total can be read from."""
    created = await model.parts.find(Cohorts).create(await read_body_as(request, CohortParameters, runtime.settings))
    await record_action(request, "create cohort", model.spec.name, created.id)
    return json_response(created.model_dump(), 201)


@router.get(f"{ROOT}/{{id}}", "feedback", response_model=CohortAnswer)
async def get_cohort(model: ModelDep, id: str) -> Response:
    """How far a cohort is, and how its members pack their values."""
    return json_response((await model.parts.find(Cohorts).load(id)).model_dump())


@router.post(f"{ROOT}/{{id}}/members", "feedback", status_code=201, response_model=Membership, body=JoinRequest)
async def join_cohort(
    request: Request,
    model: ModelDep,
    runtime: RuntimeDep,
    caller: CallerDep,
    id: str,
    user: Annotated[Name | None, Query()] = None,
) -> Response:
    """Join a cohort with two public keys. A holder is a member once."""
    keys = await read_body_as(request, JoinRequest, runtime.settings)
    return json_response((await model.parts.find(Cohorts).join(id, keys, caller, user)).model_dump(), 201)


@router.get(MEMBER, "feedback", response_model=MemberAnswer)
async def get_member(model: ModelDep, id: str, number: Number, token: Token) -> Response:
    """What a member needs for the present round, until it has sent its message of this round."""
    return answer(await model.parts.find(Cohorts).load_member(id, number, token))


async def take(
    request: Request, model: ModelDep, runtime: RuntimeDep, id: str, number: int, token: str, schema: type[Message]
) -> Response:
    """Take one message of a member of a cohort, and answer with its next step."""
    limit = 2 * runtime.settings.max_merge_bytes  # values are base64
    body = await check_json(await read_bytes(request, limit, "max_merge_bytes"), runtime.settings)
    message = parse_as(body, schema)
    return answer(await model.parts.find(Cohorts).send(id, number, token, message))


@router.put(f"{MEMBER}/shares", "feedback", response_model=MemberAnswer, body=SharesMessage)
async def send_shares(
    request: Request, model: ModelDep, runtime: RuntimeDep, id: str, number: Number, token: Token
) -> Response:
    """While sharing: send a share of both secrets for every other member, sealed."""
    return await take(request, model, runtime, id, number, token, SharesMessage)


@router.put(f"{MEMBER}/values", "feedback", response_model=MemberAnswer, body=ValuesMessage)
async def send_values(
    request: Request, model: ModelDep, runtime: RuntimeDep, id: str, number: Number, token: Token
) -> Response:
    """While masking: send the masked sums, packed."""
    return await take(request, model, runtime, id, number, token, ValuesMessage)


@router.put(f"{MEMBER}/unmasking", "feedback", response_model=MemberAnswer, body=UnmaskingMessage)
async def send_unmasking(
    request: Request, model: ModelDep, runtime: RuntimeDep, id: str, number: Number, token: Token
) -> Response:
    """While unmasking: reveal shares, of survivors those of their seeds, of others those of their masking keys."""
    return await take(request, model, runtime, id, number, token, UnmaskingMessage)


def answer(member: MemberAnswer) -> Response:
    """Answer a member with the fields that are set."""
    return Response(member.model_dump_json(exclude_none=True), media_type="application/json")

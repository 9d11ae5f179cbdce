"""API keys over HTTP: the same as `online keys`. A caller cannot give a key more than it has itself."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta

from fastapi import Request, Response

from online.api.audit import follow, record
from online.api.auth.key_changes import NewKey, create_key, describe_key, find_active, revoke_key, rotate_key
from online.api.auth.keys import KeyTable, utc_now
from online.api.auth.scopes import CallerDep
from online.api.bodies import read_body_as
from online.api.dependencies import RuntimeDep
from online.api.responses import json_response
from online.api.routes import Router
from online.errors import Forbidden
from online.schemas.access.callers import Caller
from online.schemas.access.sessions import CreatedKey, KeysAnswer, NewKeyRequest, RotateKeyRequest
from online.store.callers.api_keys import ApiKeyRow, load_keys

router = Router(compressed=False)


@router.get("/v1/keys", "keys", response_model=KeysAnswer)
async def list_keys(runtime: RuntimeDep, caller: CallerDep) -> Response:
    """Every key, revoked and expired ones too. The keys themselves are not stored.

    A caller that is limited to some models sees those that are limited to these.
    """
    rows: list[ApiKeyRow] = await asyncio.to_thread(runtime.workspace.store.read, load_keys)
    shown = [row for row in rows if is_within(caller, row.model_list)]
    return json_response({"keys": [describe_key(row).model_dump() for row in shown]})


@router.post("/v1/keys", "keys", status_code=201, response_model=CreatedKey, body=NewKeyRequest)
async def add_key(request: Request, runtime: RuntimeDep, caller: CallerDep) -> Response:
    """Create a key. The answer shows it once."""
    parsed = await read_body_as(request, NewKeyRequest, runtime.settings)
    check_grant(caller, parsed.scopes, parsed.models)
    expires_at = None if parsed.expires_days is None else utc_now() + timedelta(days=parsed.expires_days)
    store = runtime.workspace.store
    new = await asyncio.to_thread(create_key, store, parsed.name, parsed.scopes, parsed.models, expires_at)
    await record(runtime, caller, "key_created", target=new.row.id)
    return await show_once(request, new, 201)


@router.delete("/v1/keys/{id}", "keys", status_code=204)
async def delete_key(request: Request, runtime: RuntimeDep, caller: CallerDep, id: str) -> Response:
    """Revoke a key, by its id or name. Every server refuses it from then on."""
    store = runtime.workspace.store
    check_grant_of(caller, await asyncio.to_thread(find_active, store, id))
    revoked = await asyncio.to_thread(revoke_key, store, id)
    await record(runtime, caller, "key_revoked", target=revoked[0].id)
    await read_keys(request)
    return Response(status_code=204)


@router.post("/v1/keys/{id}:rotate", "keys", status_code=201, response_model=CreatedKey, body=RotateKeyRequest)
async def replace_key(request: Request, runtime: RuntimeDep, caller: CallerDep, id: str) -> Response:
    """Create a new key with the name, scopes and models of this one, which stays valid for `grace_hours`."""
    parsed = await read_body_as(request, RotateKeyRequest, runtime.settings)
    store = runtime.workspace.store
    check_grant_of(caller, await asyncio.to_thread(find_active, store, id))
    old_expires_at = utc_now() + timedelta(hours=parsed.grace_hours)
    new = await asyncio.to_thread(rotate_key, store, id, old_expires_at)
    await record(runtime, caller, "key_rotated", target=new.row.id)
    return await show_once(request, new, 201)


def check_grant_of(caller: Caller, row: ApiKeyRow) -> None:
    """Raise Forbidden if a caller lacks what a key has, and so may not change it."""
    check_grant(caller, row.scope_list, row.model_list)


def check_grant(caller: Caller, scopes: Sequence[str], models: list[str] | None) -> None:
    """Raise Forbidden for a key that may do more than the caller."""
    if lacking := [scope for scope in scopes if scope not in caller.scopes]:
        raise Forbidden(
            f"the caller {caller.id!r} lacks the scope {lacking[0]!r}, so it cannot manage a key that has it"
        )
    if not is_within(caller, models):
        assert caller.models is not None, "a caller that is not limited may use every model"
        raise Forbidden(f"the caller {caller.id!r} may use only the models {', '.join(sorted(caller.models))}")


def is_within(caller: Caller, models: list[str] | None) -> bool:
    """Return whether the caller may use each of these models; None: all there are."""
    return caller.models is None or (models is not None and set(models) <= caller.models)


async def show_once(request: Request, new: NewKey, status: int) -> Response:
    """Answer with a new key and its secret, after the key tables of this server know it."""
    await read_keys(request)
    content = CreatedKey(**describe_key(new.row).model_dump(), key=new.secret)
    return json_response(content.model_dump(), status, {"Cache-Control": "no-store"})


async def read_keys(request: Request) -> None:
    """Read the keys again, so that a change is in force before it is answered."""
    keys: KeyTable = request.app.state.callers.keys
    await follow(asyncio.to_thread(keys.read), "the keys are read")

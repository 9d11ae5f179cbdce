"""Checks that a caller has the scope that a route declares (api/routes.py)."""

from typing import Annotated, Literal

from fastapi import Depends, Request

from online.api.auth.authentication import CALLER
from online.errors import Forbidden, Unauthorized
from online.schemas.access.callers import SCOPES, Caller, Scope

Public = Literal["anybody", "signed URL", "share link", "own keys"]
Access = Scope | Public


def check_scope(caller: Caller, access: Access, model: str | None = None) -> None:
    """Raise Unauthorized for a caller that is not known, and Forbidden for one that may not do this.

    model: the model that the request is about.
    """
    if access in SCOPES and access not in caller.scopes:
        if caller.id == "anonymous":
            raise Unauthorized(
                f"{caller.problem or 'this service needs a key'}: send 'Authorization: Bearer KEY' or 'X-API-Key: KEY' "
                f"with a key that has the scope {access!r} (online keys create)"
            )
        raise Forbidden(f"the caller {caller.id!r} lacks the scope {access!r}")
    if model is not None and not caller.may_use(model):
        raise Forbidden(f"the caller {caller.id!r} may not use the model {model[:80]!r}")


def check_all_models(caller: Caller) -> None:
    """Raise Forbidden for a caller that may not use all models: what it asks for is about all of them."""
    if caller.models is not None:
        raise Forbidden(
            f"this is about all models, and the caller {caller.id!r} may use only {', '.join(sorted(caller.models))}"
        )


async def get_caller(request: Request) -> Caller:
    """Return the caller that the middleware has found for a request."""
    caller: Caller = request.scope[CALLER]
    return caller


CallerDep = Annotated[Caller, Depends(get_caller)]

"""Paths under /v1 that no other route matches."""

from fastapi import Request, Response

from online.api.routes import ANY_METHOD, Router
from online.api.shared_routes import Dialect
from online.installed import collect

router = Router()


@router.add(ANY_METHOD, "/v1/{path:path}", "anybody", include_in_schema=False)
async def refuse_path(request: Request) -> Response:
    """Refuse in the words of the protocol that the request is meant for."""
    dialect: Dialect = request.app.state.dialect
    found = collect("unmatched_error", request)
    raise found[0] if found else dialect.malformed(request)

"""The session of the page: who it speaks for, signing in with a key, and signing out.

GET     who the browser is; where there are visitors, a new one gets its cookie, or in the widget its token
POST    sign in with a key: a cookie stands for it from now on
DELETE  sign out
"""

from dataclasses import replace

from fastapi import Request, Response

from online.api.audit import record
from online.api.auth.callers import Callers, read_credentials
from online.api.auth.cookies import SESSION_COOKIE, parse_cookies
from online.api.auth.scopes import CallerDep
from online.api.bodies import read_body_as
from online.api.dependencies import RuntimeDep
from online.api.responses import json_response
from online.api.routes import Router
from online.errors import Unauthorized
from online.installed import list_plugins
from online.schemas.access.callers import SCOPES, Caller
from online.schemas.access.sessions import SessionAnswer, SignInRequest

router = Router(compressed=False)

PATH = "/v1/session"
HEADERS = {"Cache-Control": "no-store"}


@router.get(PATH, "anybody", widget=True, response_model=SessionAnswer)
async def get_session(request: Request, caller: CallerDep) -> Response:
    """Who the page speaks for, and what it may do. A new visitor gets a cookie, where there are visitors; the widget on a page
    of `widget_origins` gets a token instead."""
    callers: Callers = request.app.state.callers
    origin = callers.widget_origin(read_credentials(request.scope))
    if caller.id != "anonymous" or callers.settings.public_teaching is None or (caller.problem and origin is None):
        return answer(request, caller)
    id = callers.cookies.new_visitor()
    visitor = replace(callers.visitor(id), address=caller.address)
    if origin is not None:
        return answer(request, visitor, visitor_token=callers.cookies.make_token(id, origin))
    response = answer(request, visitor)
    callers.cookies.set_visitor(request, response, id)
    return response


@router.post(PATH, "anybody", response_model=SessionAnswer, body=SignInRequest)
async def sign_in(request: Request, runtime: RuntimeDep, caller: CallerDep) -> Response:
    """Sign in with a key: a cookie that no script can read stands for it, for 12 hours."""
    callers: Callers = request.app.state.callers
    await request.app.state.rates.check_sign_in(caller)
    key = (await read_body_as(request, SignInRequest, runtime.settings)).key.strip()
    if not callers.knows(key):
        await callers.keys.read_again()
    known, signed_in = callers.describe_key(key), callers.of_key(key)
    if known is None or signed_in is None:
        await record(runtime, caller, "sign_in_failed")
        raise Unauthorized("the key is not valid: it is misspelt, revoked or expired")
    await record(runtime, replace(signed_in, address=caller.address), "sign_in")
    response = answer(request, replace(signed_in, address=caller.address), is_signed_in=True)
    callers.cookies.set_session(request, response, *known)
    return response


@router.delete(PATH, "anybody", response_model=SessionAnswer)
async def sign_out(request: Request) -> Response:
    """Sign out: the cookie is deleted."""
    callers: Callers = request.app.state.callers
    credentials = read_credentials(request.scope)
    credentials.may_use_cookies = False
    response = answer(request, await callers.find(credentials), is_signed_in=False)
    callers.cookies.clear_session(request, response)
    return response


def answer(
    request: Request, caller: Caller, is_signed_in: bool | None = None, visitor_token: str | None = None
) -> Response:
    """Answer with the caller of a request and its scopes. is_signed_in: None to read it from the cookie."""
    callers: Callers = request.app.state.callers
    if is_signed_in is None:
        cookie = parse_cookies(request.headers.get("cookie", "")).get(SESSION_COOKIE, "")
        is_signed_in = bool(cookie) and caller.kind in ("key", "admin")
    content = SessionAnswer(
        caller=caller.id,
        scopes=[scope for scope in SCOPES if scope in caller.scopes],
        is_signed_in=is_signed_in,
        public_teaching=callers.settings.public_teaching,
        may_name_user=caller.may("impersonate"),
        share_conversations=callers.settings.share_conversations,
        plugins=sorted(plugin.name for plugin in list_plugins()),
        visitor_token=visitor_token,
    )
    return json_response(content.model_dump(), headers=HEADERS)

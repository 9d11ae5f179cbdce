"""The answer to every error: its status, its words, and what a page says beside the sentence."""

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from online.api.middleware.content_codings import ACCEPTED
from online.api.responses import json_response, live_headers
from online.api.web.server_pages import ServerPages, wants_page
from online.errors import AlreadyDecided, OnlineError, QuotaExceeded, TextTooLong, describe_error
from online.installed import collect
from online.serving.runtime import Runtime

REFUSAL_HEADERS = {
    401: {"WWW-Authenticate": "Bearer"},
    415: {"Accept-Encoding": ACCEPTED},
    429: {"Retry-After": "1"},
    503: {"Retry-After": "1"},
}


def describe_details(error: Exception) -> dict[str, object]:
    """Return what a page says in its own words, beside the sentence."""
    if isinstance(error, TextTooLong):
        return {"given": error.given, "limit": error.limit}
    if isinstance(error, AlreadyDecided):
        return {"by": error.by, "action": error.action}
    if isinstance(error, OnlineError) and error.code:
        return {"cause": {"code": error.code, "figures": {**error.figures}}}
    return {}


def handle_errors(app: FastAPI, runtime: Runtime) -> None:
    """Answer every error, and count it.

    The answer is {"error": "..."}, in the shape of a plugin's protocol on its paths, and a page where a person waits in a browser.
    """
    server_pages: ServerPages = app.state.server_pages

    def refuse(request: Request, status: int, text: str, error: Exception) -> Response:
        runtime.metrics.refused.labels(str(status)).inc()
        model = runtime.models.get(str(request.path_params.get("model", "")))
        headers = {**REFUSAL_HEADERS.get(status, {})}
        headers |= live_headers(model) if model else {}
        if wants_page(request):
            page = server_pages.render_error(request, status, error, text)
            page.headers.update(headers)
            return page
        of_protocol = collect("error_body", request, status, text, error)
        content = of_protocol[0] if of_protocol else {"error": text, **describe_details(error)}
        return json_response(content, status, headers)

    @app.exception_handler(OnlineError)
    async def refuse_ours(request: Request, error: OnlineError) -> Response:
        response = refuse(request, error.status, str(error), error)
        if isinstance(error, QuotaExceeded):
            response.headers["Retry-After"] = str(error.retry_after_s)
        return response

    @app.exception_handler(HTTPException)
    async def refuse_http(request: Request, error: HTTPException) -> Response:
        method = "GET" if request.method == "HEAD" else request.method  # both have the same answer
        response = refuse(request, error.status_code, f"{method} {request.url.path}: {error.detail}", error)
        response.headers.update(error.headers or {})
        return response

    @app.exception_handler(RequestValidationError)
    async def refuse_invalid(request: Request, error: RequestValidationError) -> Response:
        findings = (f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
        return refuse(request, 400, "; ".join(findings), error)

    @app.exception_handler(Exception)
    async def report_failure(request: Request, error: Exception) -> Response:
        return refuse(request, *describe_error(error), error)

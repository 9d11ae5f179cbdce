"""An error that nobody foresaw is answered with status 500, and ends the connection in a way that clients see."""

import threading
from collections.abc import Iterator

import httpx
import pytest
import uvicorn
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from online.api.middleware.stack import ErrorResponses
from tests.support import until


async def answer_500(request: Request, error: Exception) -> Response:
    return JSONResponse({"error": type(error).__name__}, 500)


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["path"] == "/fails":
        raise ZeroDivisionError("unforeseen")
    await JSONResponse({"path": scope["path"]})(scope, receive, send)


@pytest.fixture
def url() -> Iterator[str]:
    config = uvicorn.Config(ErrorResponses(app, {Exception: answer_500}), port=0, lifespan="off", log_level="critical")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    until(lambda: server.started, what="the server")
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    thread.join()


def test_a_client_that_keeps_its_connection_goes_on_after_an_unforeseen_error(url: str) -> None:
    with httpx.Client(base_url=url) as client:
        for _ in range(100):
            failed = client.get("/fails")
            assert (failed.status_code, failed.json()) == (500, {"error": "ZeroDivisionError"})
            assert failed.headers["connection"] == "close"
            answer = client.get("/works")
            assert answer.json() == {"path": "/works"} and "connection" not in answer.headers

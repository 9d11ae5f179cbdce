"""Forwards a request for a model that another replica serves (`own_models`), and sends its answer.

    client --> replica without the model --the same request, once--> the replica that serves it
                                         <--the same answer---------

The client's key is valid on every replica, because keys are in the store. A request that was forwarded is not forwarded again. It
carries forwarding headers, so that its owner never takes it for one of its own machine.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping

import httpx
from fastapi import FastAPI, Request, Response
from fastapi.responses import StreamingResponse
from starlette.background import BackgroundTask

from online.errors import OnlineError, Unavailable, UnknownModel
from online.serving.parts import ServicePart
from online.store.replicas import KnownReplica, list_replicas

FORWARDED = "x-online-forwarded-by"  # the replica that has forwarded a request
OF_ONE_CONNECTION = {
    "connection",
    "keep-alive",
    "transfer-encoding",
    "upgrade",
    "te",
    "trailer",
    "proxy-authorization",
    "proxy-authenticate",
    "host",
    "content-length",
    "date",
}
TIMEOUT = httpx.Timeout(60.0, connect=2.0, read=None)  # a stream of events has no end
LISTED_EVERY_S = 1.0  # how long the list of the others is used


class Forwarder(ServicePart):
    """Answers requests for models of other replicas."""

    def __init__(self, app: FastAPI, clock: Callable[[], float] = time.monotonic) -> None:
        self.app, self.workspace, self.clock = app, app.state.runtime.workspace, clock
        self.client = httpx.AsyncClient(timeout=TIMEOUT, follow_redirects=False)
        self._others: list[KnownReplica] = []
        self._listed_at = -1e9
        app.add_exception_handler(UnknownModel, self._answer)

    async def close(self) -> None:
        """Close the connections to other replicas."""
        await self.client.aclose()

    async def _answer(self, request: Request, error: Exception) -> Response:
        """Forward the request if another replica serves its model; otherwise answer with the error."""
        assert isinstance(error, UnknownModel), "no other error is handled here"
        try:
            owner = await self.find_owner(error.model)
            if owner is not None and FORWARDED not in request.headers:
                return await self._forward(request, owner)
        except OnlineError as failure:
            return await self._refuse(request, failure)
        return await self._refuse(request, error)

    async def _refuse(self, request: Request, error: OnlineError) -> Response:
        refused = self.app.exception_handlers[OnlineError](request, error)
        return refused if isinstance(refused, Response) else await refused

    async def find_owner(self, model: str) -> KnownReplica | None:
        """Return a replica that serves a model; None if no replica is known that does. Raises Unavailable if none is present."""
        if not self.workspace.store.is_shared:
            return None
        if self.clock() - self._listed_at >= LISTED_EVERY_S:
            self._others = await asyncio.to_thread(self.workspace.store.read, list_replicas)
            self._listed_at = self.clock()
        serving = [each for each in self._others if model in each.report.get("models", {}) and each.url]
        present = [each for each in serving if each.is_present and each.id != self.workspace.replica]
        if serving and not present:
            raise Unavailable(
                f"the replica {serving[0].id}, which serves {model!r}, was not seen for {serving[0].absent_s:.0f} s"
            )
        return present[0] if present else None

    async def _forward(self, request: Request, owner: KnownReplica) -> Response:
        """Send the request to its owner as it is. Raises Unavailable."""
        path = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        client = request.client.host if request.client else ""
        headers = {
            **{name: value for name, value in request.headers.items() if name not in OF_ONE_CONNECTION},
            "x-forwarded-for": ", ".join(filter(None, (request.headers.get("x-forwarded-for"), client))),
            "x-forwarded-proto": request.url.scheme,
            "x-forwarded-host": request.headers.get("host", ""),
            FORWARDED: self.workspace.replica,
        }
        body = request.stream() if request.method not in ("GET", "HEAD") else None
        try:
            sent = self.client.build_request(request.method, owner.url + path, headers=headers, content=body)
            answer = await self.client.send(sent, stream=True)
        except (httpx.HTTPError, RuntimeError) as error:  # RuntimeError: the body was read already
            raise Unavailable(
                f"the replica {owner.id}, which serves the model, was not reached: {type(error).__name__}; send the request to "
                f"{owner.url}"
            ) from error
        return StreamingResponse(
            send_on(answer), answer.status_code, keep_headers(answer.headers), background=BackgroundTask(answer.aclose)
        )


async def send_on(answer: httpx.Response) -> AsyncIterator[bytes]:
    """Yield the body of an answer as it comes, still encoded."""
    async for chunk in answer.aiter_raw():
        yield chunk


def keep_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers of an answer that belong to it, and not to the connection."""
    return {name: value for name, value in headers.items() if name.lower() not in OF_ONE_CONNECTION}

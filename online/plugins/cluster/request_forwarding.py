"""Sends requests to other replicas that they have to answer, with the caller whom this replica has found.

    request --its own headers + X-Online-Replica: signed client address and scheme--> another replica --> its answer, unchanged

The other replica finds the caller as if the request had come to it: keys, sessions and cookies are valid on every replica. It neither
counts the request a second time nor sends it on, so that no request goes in a circle.
"""

import asyncio
import json
import logging
import time
from collections.abc import Sequence
from hashlib import sha256

import httpx
from fastapi import FastAPI, Request, Response
from fastapi.responses import StreamingResponse
from starlette.background import BackgroundTask
from starlette.types import ASGIApp, Receive, Scope, Send

from online.api.http.forwarding import describe_caller, end_to_end_headers
from online.api.replica_requests import FORWARDED, ReplicaRequests
from online.errors import OnlineError, Unauthorized, Unavailable, UnknownModel
from online.plugins.cluster.peer_signatures import check_forwarded, sign_forwarded
from online.schemas.json_values import JSONObject
from online.serving.runtime import Runtime
from online.state.signing_keys import SigningKeys
from online.store.replicas import KnownReplica, list_replicas
from online.telemetry import OutageLog

log = logging.getLogger("online.replica")

HEADER, CALLER_OF_REPLICA = "x-online-replica", "x-online-replica-caller"
OWN_HEADERS = frozenset((HEADER.encode(), CALLER_OF_REPLICA.encode(), b"accept-encoding"))
TIMEOUT = httpx.Timeout(30.0, connect=2.0)


class RequestForwarding(ReplicaRequests):
    """Sends requests to the replicas that are present."""

    def __init__(self, app: FastAPI) -> None:
        runtime: Runtime = app.state.runtime
        self.app = app
        app.add_exception_handler(UnknownModel, self._answer_unknown_model)
        self.store, self.keys, self.workspace = runtime.workspace.store, runtime.workspace.keys, runtime.workspace
        self.tracer = runtime.tracer
        self._client = httpx.AsyncClient(timeout=TIMEOUT, trust_env=False)
        self._outage = OutageLog(log, "a request is not answered by another replica")

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def find_answer(self, request: Request) -> Response | None:
        """Return the answer of the first replica that does not answer with status 404; None where there is none."""
        for replica in await self._list_others(request):
            answer = await self._send(request, replica)
            if answer is None:
                continue
            if answer.status_code != httpx.codes.NOT_FOUND:
                return pass_on(answer)
            await answer.aclose()
        return None

    async def ask_owner(self, request: Request, model: str) -> Response | None:
        """Return the answer of the replica that makes things for a model; None where this is the one, or it does not answer."""
        others = [each for each in await self._list_others(request) if model in each.report.get("models", {})]
        own = self.workspace.replica
        owner = max([own, *(each.id for each in others)], key=lambda id: rank(id, model))
        chosen = next((each for each in others if each.id == owner), None)
        answer = None if chosen is None else await self._send(request, chosen)
        return None if answer is None else pass_on(answer)

    async def gather(self, request: Request) -> Sequence[JSONObject]:
        """Return what the other replicas answer, without those that fail."""
        others = await self._list_others(request)
        found = await asyncio.gather(*(self._read(request, each) for each in others))
        return [each for each in found if each is not None]

    async def _answer_unknown_model(self, request: Request, error: Exception) -> Response:
        """Answer a request for a model that another replica serves (`own_models`), or with the error."""
        assert isinstance(error, UnknownModel), "no other error is handled here"
        try:
            answer = await self._ask_server(request, error.model)
        except OnlineError as failure:
            return await self._refuse(request, failure)
        return await self._refuse(request, error) if answer is None else answer

    async def _ask_server(self, request: Request, model: str) -> Response | None:
        """Return the answer of a replica that serves a model; None if none is known that does. Raises Unavailable."""
        serving = [each for each in await self._list_all() if model in each.report.get("models", {})]
        if HEADER in request.headers or not serving:  # a replica has sent it: it is not sent on
            return None
        for replica in serving:
            answer = await self._send(request, replica) if replica.is_present and replica.url else None
            if answer is not None:
                return pass_on(answer)
        names = ", ".join(each.id for each in serving)
        raise Unavailable(
            f"the model {model!r} is served by {names}, which does not answer: send the request again later"
        )

    async def _refuse(self, request: Request, error: OnlineError) -> Response:
        refused = self.app.exception_handlers[OnlineError](request, error)
        return refused if isinstance(refused, Response) else await refused

    async def describe_absent(self) -> str:
        """Return a remark on replicas that do not answer, for an error; "" where there are none."""
        absent = [each.id for each in await self._list_all() if not each.is_present]
        return f"; if the replica {' or '.join(absent)} has it, start that one again" if absent else ""

    async def _list_all(self) -> list[KnownReplica]:
        if not self.store.is_shared:
            return []
        found: list[KnownReplica] = await asyncio.to_thread(self.store.read, list_replicas)
        return [each for each in found if each.id != self.workspace.replica]

    async def _list_others(self, request: Request) -> list[KnownReplica]:
        """Return the replicas to which a request may be sent; none for one that a replica has sent."""
        if FORWARDED in request.scope:
            return []
        return [each for each in await self._list_all() if each.is_present and each.url]

    async def _read(self, request: Request, replica: KnownReplica) -> JSONObject | None:
        answer = await self._send(request, replica)
        if answer is None:
            return None
        try:
            content: JSONObject = json.loads(await answer.aread())
        except (httpx.TransportError, ValueError) as error:
            self._outage.record_failure(f"{replica.url}: {error!r}")
            return None
        return content if answer.status_code == httpx.codes.OK else None

    async def _send(self, request: Request, replica: KnownReplica) -> httpx.Response | None:
        """Return an answer whose body is not read yet; None if the replica does not answer."""
        scope, body = request.scope, await request.body()
        target = scope["raw_path"] + (b"?" + scope["query_string"] if scope["query_string"] else b"")
        caller = describe_caller(scope).decode()
        signature = sign_forwarded(self.keys, request.method, target.decode("latin-1"), caller, time.time())
        kept = [(name, value) for name, value in end_to_end_headers(scope["headers"]) if name not in OWN_HEADERS]
        own = [(HEADER, signature), (CALLER_OF_REPLICA, caller), ("accept-encoding", "identity")]
        headers = [*self.tracer.continue_elsewhere(kept), *((name.encode(), value.encode()) for name, value in own)]
        base = httpx.URL(replica.url)
        url = base.copy_with(raw_path=base.raw_path.rstrip(b"/") + target)
        try:
            answer = await self._client.send(
                httpx.Request(request.method, url, headers=headers, content=body), stream=True
            )
        except httpx.TransportError as error:
            self._outage.record_failure(f"{replica.url}: {error!r}")
            return None
        self._outage.record_success()
        return answer


class ForwardedRequests:
    """Middleware: restores the client of a request that another replica has sent, where its signature is valid."""

    def __init__(self, app: ASGIApp, keys: SigningKeys) -> None:
        self.app, self.keys = app, keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and any(name == HEADER.encode() for name, _ in scope["headers"]):
            scope = self._restore(scope)
        await self.app(scope, receive, send)

    def _restore(self, scope: Scope) -> Scope:
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        target = scope["raw_path"] + (b"?" + scope["query_string"] if scope["query_string"] else b"")
        caller, signature = headers.get(CALLER_OF_REPLICA.encode(), ""), headers[HEADER.encode()]
        try:
            check_forwarded(self.keys, scope["method"], target.decode("latin-1"), caller, signature, time.time())
        except Unauthorized:
            return {**scope, FORWARDED: False}  # its client is that of the connection; and it is not sent on either
        client, scheme = json.loads(caller)
        return {**scope, "client": tuple(client), "scheme": scheme, FORWARDED: True}


def pass_on(answer: httpx.Response) -> StreamingResponse:
    """Return an answer of another replica as that of this one."""
    response = StreamingResponse(answer.aiter_raw(), answer.status_code, background=BackgroundTask(answer.aclose))
    response.raw_headers = end_to_end_headers(answer.headers.raw)
    return response


def rank(replica: str, model: str) -> bytes:
    """Return the rank of a replica for a model: it changes for few models where a replica joins or leaves."""
    return sha256(f"{model}/{replica}".encode()).digest()

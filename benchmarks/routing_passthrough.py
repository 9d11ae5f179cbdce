"""A bare pass-through of chat completions, beside which the overhead of a router is measured: it forwards bytes and does nothing else.

python -m benchmarks.routing_passthrough httpx|aiohttp PORT URL    POST any path --> URL, whole or streamed
"""

import sys
from collections.abc import AsyncIterator

import aiohttp
import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from online.api.http.connections import raise_file_limit

JSON = {"Content-Type": "application/json"}


class HttpxForwarder:
    """Forwards by httpx."""

    def __init__(self, url: str) -> None:
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
        self.url, self.http = url, httpx.AsyncClient(limits=limits, timeout=60)

    async def forward(self, request: Request) -> Response:
        """Answer with the endpoint's answer."""
        body = await request.body()
        if b'"stream":true' not in body:
            answer = await self.http.post(self.url, content=body, headers=JSON)
            return Response(answer.content, answer.status_code, media_type=answer.headers["content-type"])
        asked = self.http.build_request("POST", self.url, content=body, headers=JSON)
        answer = await self.http.send(asked, stream=True)

        async def relay() -> AsyncIterator[bytes]:
            try:
                async for part in answer.aiter_raw():
                    yield part
            finally:
                await answer.aclose()

        return StreamingResponse(relay(), answer.status_code, media_type=answer.headers["content-type"])


class AiohttpForwarder:
    """Forwards by aiohttp."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.http: aiohttp.ClientSession | None = None

    async def forward(self, request: Request) -> Response:
        """Answer with the endpoint's answer."""
        if self.http is None:
            self.http = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
        body = await request.body()
        answer = await self.http.post(self.url, data=body, headers=JSON)
        if b'"stream":true' not in body:
            async with answer:
                return Response(await answer.read(), answer.status, media_type=answer.content_type)

        async def relay() -> AsyncIterator[bytes]:
            async with answer:
                async for part in answer.content.iter_any():
                    yield part

        return StreamingResponse(relay(), answer.status, media_type=answer.content_type)


def main() -> None:
    kind, port, url = sys.argv[1:]
    raise_file_limit()
    forwarder = HttpxForwarder(url) if kind == "httpx" else AiohttpForwarder(url)
    app = Starlette(routes=[Route("/{path:path}", forwarder.forward, methods=["POST"])])
    uvicorn.run(app, host="127.0.0.1", port=int(port), log_level="warning", access_log=False, lifespan="off")


if __name__ == "__main__":
    main()

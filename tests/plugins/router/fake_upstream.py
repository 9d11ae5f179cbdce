"""A real server that speaks OpenAI's chat completions; the name of the model in a request chooses its behaviour.

    ok               answers "The answer is 42."             say:TEXT         answers TEXT
    echo             answers with the request, as JSON       tools            calls a tool
    slow             answers once released                   drip             sends one word per release
    cut[:WORDS]      ends after so many words (2)            error_event[:WORDS[:CODE]]  reports an error after them (0)
    limited[:S[:N]]  429 with Retry-After S (7), N times     flaky:N          500 N times, then ok
    broken           500                                     status:CODE      an error with this status
    refuse           400 with an error that quotes           malformed        200 with HTML
    no_usage         gives no usage                          odd              comments, CRLF, no blank line at the end
    no_end           finishes, but never ends the stream     large:BYTES      an answer, or an event, of this size

A # and what follows it, except after say:, only keep the counters of tests apart.
"""

import asyncio
import json
import socket
import threading
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uvicorn

from online.schemas.json_values import JSONObject
from tests.support import until

TEXT = "The answer is 42."
TOOL_CALL = {"id": "call_1", "type": "function", "function": {"name": "look_up", "arguments": '{"city": "Zürich"}'}}
TIMES = 1_000_000  # always
Message = MutableMapping[str, Any]


@dataclass(frozen=True)
class ReceivedRequest:
    """A request. connection: the port of the client. headers: with names in lower case."""

    path: str
    connection: int
    headers: dict[str, str]
    body: JSONObject


@dataclass
class FakeUpstream:
    """requests: those that have arrived.

    gone: models whose callers closed the connection before the answer was complete.
    """

    url: str
    requests: list[ReceivedRequest] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    _loop: asyncio.AbstractEventLoop | None = None
    _permits: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(0))

    @property
    def last(self) -> ReceivedRequest:
        return self.requests[-1]

    def release(self, count: int = 1) -> None:
        """Let `slow` answer, or `drip` send its next words."""
        assert self._loop is not None, "no request has arrived"
        for _ in range(count):
            self._loop.call_soon_threadsafe(self._permits.release)

    def reset(self) -> None:
        """Forget what has happened."""
        self.requests.clear()
        self.gone.clear()
        self.counts.clear()
        self._permits = asyncio.Semaphore(0)

    def wait_for_requests(self, count: int = 1) -> None:
        until(lambda: len(self.requests) >= count, what=f"request {count}")

    def wait_until_gone(self, model: str) -> None:
        until(lambda: model in self.gone, what=f"the end of the connection of {model}")

    async def __call__(self, scope: Message, receive: Callable[[], Awaitable[Message]], send: "Send") -> None:
        """Answer one request: this is the ASGI application."""
        assert scope["type"] == "http"
        self._loop = asyncio.get_running_loop()
        data, more = b"", True
        while more:
            message = await receive()
            data, more = data + message.get("body", b""), message.get("more_body", False)
        headers = {name.decode(): value.decode("latin-1") for name, value in scope["headers"]}
        body: JSONObject = json.loads(data)
        self.requests.append(ReceivedRequest(scope["path"], scope["client"][1], headers, body))
        answering = asyncio.ensure_future(FakeAnswer(self, body, send).send_all())
        leaving = asyncio.ensure_future(wait_for_disconnect(receive))
        await asyncio.wait([answering, leaving], return_when=asyncio.FIRST_COMPLETED)
        if not answering.done():
            self.gone.append(body["model"])
        for task in (answering, leaving):
            task.cancel()
        await asyncio.wait([answering, leaving])
        if not answering.cancelled() and (error := answering.exception()) is not None:
            raise error

    async def permit(self) -> None:
        await self._permits.acquire()


Send = Callable[[Message], Awaitable[None]]


class Interruption(Exception):
    """The end of a response in its middle: uvicorn closes the connection."""


async def wait_for_disconnect(receive: Callable[[], Awaitable[Message]]) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


class FakeAnswer:
    """The answer to one request."""

    def __init__(self, fake: FakeUpstream, body: JSONObject, send: Send) -> None:
        self.fake, self.body, self._send = fake, body, send
        name, _, argument = body["model"].partition(":")
        self.name = name.partition("#")[0]
        self.arguments = argument.partition("#")[0].split(":") if argument else []
        self.is_streamed = bool(body.get("stream"))
        self.text = {"say": argument, "echo": json.dumps(body)}.get(self.name, TEXT)
        self.count = fake.counts[body["model"]] = fake.counts[body["model"]] + 1

    def argument(self, place: int, default: float) -> float:
        return float(self.arguments[place]) if len(self.arguments) > place else default

    async def send_all(self) -> None:
        if self.name == "slow":
            await self.fake.permit()
        status = self.choose_status()
        if status != 200:
            await self.send_error(status)
        elif self.name == "malformed":
            await self.send_whole(b"<html><body>It works!</body></html>", 200, b"text/html")
        elif self.is_streamed:
            await self.send_stream()
        else:
            await self.send_whole(json.dumps(self.complete()).encode())

    def choose_status(self) -> int:
        if self.name == "flaky" and self.count <= self.argument(0, 1):
            return 500
        if self.name == "limited" and self.count <= self.argument(1, TIMES):
            return 429
        if self.name == "status":
            return int(self.argument(0, 500))
        return {"broken": 500, "refuse": 400}.get(self.name, 200)

    async def send_error(self, status: int) -> None:
        words = f"{status}: the last message was {json.dumps(self.body.get('messages', [])[-1:])}"
        error = {"message": words if self.name == "refuse" else "no luck", "type": "fake", "code": None}
        headers = [(b"retry-after", (self.arguments or ["7"])[0].encode())] if self.name == "limited" else []
        await self.send_whole(json.dumps({"error": error}).encode(), status, b"application/json", headers)

    async def send_whole(
        self,
        data: bytes,
        status: int = 200,
        kind: bytes = b"application/json",
        headers: list[tuple[bytes, bytes]] | None = None,
    ) -> None:
        length = (b"content-length", str(len(data)).encode())
        await self.begin(status, [(b"content-type", kind), length, *(headers or [])])
        half = len(data) // 2 if self.name == "cut" else len(data)
        await self._send({"type": "http.response.body", "body": data[:half], "more_body": half < len(data)})
        if half < len(data):
            raise Interruption

    async def begin(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    def head(self, kind: str) -> JSONObject:
        return {
            "id": "chatcmpl-1",
            "object": kind,
            "created": 1,
            "model": self.body["model"],
            "vendor_field": {"kept": True},
        }

    def usage(self) -> JSONObject:
        prompt = sum(len(str(each.get("content")).split()) for each in self.body.get("messages", []))
        count = len(self.text.split())
        return {
            "prompt_tokens": prompt,
            "completion_tokens": count,
            "total_tokens": prompt + count,
            "prompt_tokens_details": {"cached_tokens": 1},
        }

    def complete(self) -> JSONObject:
        message: JSONObject = {"role": "assistant", "content": self.text}
        reason = "stop"
        if self.name == "tools":
            message, reason = {"role": "assistant", "content": None, "tool_calls": [TOOL_CALL]}, "tool_calls"
        if self.name == "large":
            message["content"] = "x" * int(self.argument(0, 0))
        choices = [{"index": 0, "message": message, "finish_reason": reason, "logprobs": None}]
        usage = {} if self.name == "no_usage" else {"usage": self.usage()}
        return {**self.head("chat.completion"), "choices": choices, **usage}

    async def send_stream(self) -> None:
        await self.begin(200, [(b"content-type", b"text/event-stream")])
        async for event in self.list_events():
            await self._send({"type": "http.response.body", "body": event, "more_body": True})
        if self.name == "no_end":
            await self.fake.permit()
        await self._send({"type": "http.response.body", "body": b""})

    async def list_events(self) -> AsyncIterator[bytes]:
        words = self.text.split(" ")
        pieces: list[JSONObject] = [{"content": word if not place else f" {word}"} for place, word in enumerate(words)]
        if self.name == "tools":
            call, arguments = TOOL_CALL["function"], '{"city": "Zürich"}'
            assert isinstance(call, dict)
            first = {"index": 0, **TOOL_CALL, "function": {**call, "arguments": ""}}
            parts = [{"index": 0, "function": {"arguments": each}} for each in (arguments[:9], arguments[9:])]
            pieces = [{"tool_calls": [each]} for each in (first, *parts)]
        if self.name == "large":
            pieces.append({"content": "x" * int(self.argument(0, 0))})
        interrupted = {"cut": 2, "error_event": 0}  # after so many words
        most = self.argument(0, interrupted[self.name]) if self.name in interrupted else TIMES
        if most:
            yield self.chunk({"role": "assistant", "content": ""})
        for place, piece in enumerate(pieces):
            if place >= most:
                break
            if self.name == "drip":
                await self.fake.permit()
            yield self.chunk(piece)
        if self.name == "cut":
            raise Interruption
        if self.name == "error_event":
            code = int(self.argument(1, 0)) or "server_error"
            yield self.encode({"error": {"message": "the model is overloaded", "code": code}})
            return
        yield self.chunk({}, "tool_calls" if self.name == "tools" else "stop")
        if self.name != "no_usage" and (self.body.get("stream_options") or {}).get("include_usage"):
            yield self.encode({**self.head("chat.completion.chunk"), "choices": [], "usage": self.usage()})
        yield b"data: [DONE]" if self.name == "odd" else b"data: [DONE]\n\n"

    def chunk(self, delta: JSONObject, reason: str | None = None) -> bytes:
        choices = [{"index": 0, "delta": delta, "finish_reason": reason}]
        return self.encode({**self.head("chat.completion.chunk"), "choices": choices, "usage": None})

    def encode(self, content: JSONObject) -> bytes:
        data = json.dumps(content, ensure_ascii=False, indent=1 if self.name == "odd" else None)
        if self.name != "odd":
            return f"data: {data}\n\n".encode()
        lines = "".join(f"data:{line}\r\n" for line in data.splitlines())
        return f": ping\r\n\r\nevent: message\r\nid: 7\r\n{lines}\r\n".encode()


@contextmanager
def serve_fake(certificate: tuple[Path, Path] | None = None) -> Iterator[FakeUpstream]:
    """Serve a fake endpoint in a thread; its `url` is the base URL of a route.

    certificate: files of it and of its key.
    """
    listener = socket.create_server(("127.0.0.1", 0), backlog=2_000)
    root = "https://localhost" if certificate else "http://127.0.0.1"
    fake = FakeUpstream(f"{root}:{listener.getsockname()[1]}/v1")
    chain, key = certificate or (None, None)
    settings = uvicorn.Config(
        fake,
        lifespan="off",
        log_level="critical",
        ws="none",
        timeout_graceful_shutdown=0,
        ssl_certfile=chain,
        ssl_keyfile=key and str(key),
    )
    server = uvicorn.Server(settings)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield fake
    finally:
        server.should_exit = server.force_exit = True
        thread.join(30)
        listener.close()

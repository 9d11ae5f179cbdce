"""A mock endpoint of OpenAI's chat completions for benchmarks: a process of its own that costs as little as possible.

    python -m benchmarks.routing_upstream PORT
    POST /BEHAVIOUR/v1/chat/completions --after DELAY_S--> a fixed answer: whole, or a stream of CHUNKS events, one each PAUSE_S

    ok       answers                               limited    429 with Retry-After: 7
    slow     answers after SLOW_S                  malformed  200 with HTML
    cut      closes the connection in the middle

The path chooses the behaviour. Nothing of the body is read but whether it asks for a stream. Timers of the event loop have steps of 1 ms.
"""

import asyncio
import sys
from collections.abc import Callable
from typing import Any, cast

import orjson
import uvloop

from online.api.http.connections import raise_file_limit

DELAY_S, SLOW_S = 0.0017, 5.0
CHUNKS, PAUSE_S = 20, 0.105  # a stream takes 2 s
CUT_AFTER = 3  # chunks
HEAD = {"id": "chatcmpl-1", "created": 1, "model": "mock"}
USAGE = {"prompt_tokens": 20, "completion_tokens": CHUNKS, "total_tokens": 20 + CHUNKS}


def build_response(status: str, kind: str, body: bytes, more: str = "") -> bytes:
    """Return a response with its length."""
    return f"HTTP/1.1 {status}\r\ncontent-type: {kind}\r\n{more}content-length: {len(body)}\r\n\r\n".encode() + body


def build_whole() -> bytes:
    """Return the response with a whole answer."""
    message = {"role": "assistant", "content": "The answer is forty-two, and here is why. " * 5}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    content = {**HEAD, "object": "chat.completion", "choices": [choice], "usage": USAGE}
    return build_response("200 OK", "application/json", orjson.dumps(content))


def build_chunk(data: bytes) -> bytes:
    """Return one event as a part of a chunked response."""
    event = b"data: " + data + b"\n\n"
    return f"{len(event):x}\r\n".encode() + event + b"\r\n"


def build_events() -> list[bytes]:
    """Return the parts of a streamed answer."""
    deltas = [{"role": "assistant", "content": "The"}, *[{"content": " word"}] * (CHUNKS - 1)]
    events = []
    for place, delta in enumerate(deltas):
        choice = {"index": 0, "delta": delta, "finish_reason": "stop" if place == CHUNKS - 1 else None}
        content = {**HEAD, "object": "chat.completion.chunk", "choices": [choice]}
        events.append(build_chunk(orjson.dumps(content | ({"usage": USAGE} if place == CHUNKS - 1 else {}))))
    return [*events[:-1], events[-1] + build_chunk(b"[DONE]") + b"0\r\n\r\n"]


WHOLE, EVENTS = build_whole(), build_events()
HALF = WHOLE[: len(WHOLE) * 3 // 4]
STREAM_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
ERROR = orjson.dumps({"error": {"message": "too many requests", "type": "rate_limit_error", "code": "rate_limit"}})
FIXED = {
    b"limited": build_response("429 Too Many Requests", "application/json", ERROR, "retry-after: 7\r\n"),
    b"malformed": build_response("200 OK", "text/html", b"<html><body>It works!</body></html>"),
}


class MockEndpoint(asyncio.Protocol):
    """One connection: one request at a time."""

    transport: asyncio.Transport

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop, self.received = loop, b""
        self.timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def connection_lost(self, error: Exception | None) -> None:
        if self.timer is not None:
            self.timer.cancel()

    def data_received(self, data: bytes) -> None:
        self.received += data
        head, end, body = self.received.partition(b"\r\n\r\n")
        if not end or len(body) < int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0] or 0):
            return
        self.received = b""
        behaviour = head.split(b"/", 2)[1]
        if behaviour in FIXED:
            self._later(DELAY_S, self._send_whole, FIXED[behaviour])
            return
        delay_s = SLOW_S if behaviour == b"slow" else DELAY_S
        if b'"stream":true' in body or b'"stream": true' in body:
            self._later(delay_s, self._send_event, 0, CUT_AFTER if behaviour == b"cut" else CHUNKS)
        else:
            self._later(delay_s, self._send_whole, HALF if behaviour == b"cut" else WHOLE)

    def _later(self, seconds: float, call: Callable[..., None], *arguments: Any) -> None:
        self.timer = self.loop.call_later(seconds, call, *arguments)

    def _send_whole(self, response: bytes) -> None:
        self.transport.write(response)
        if response is HALF:
            self.transport.close()

    def _send_event(self, place: int, most: int) -> None:
        if place == most:
            self.transport.close()
            return
        self.transport.write(EVENTS[place] if place else STREAM_HEAD + EVENTS[0])
        if place + 1 < CHUNKS:
            self._later(PAUSE_S, self._send_event, place + 1, most)


async def serve(port: int) -> None:
    """Serve until the process is killed."""
    raise_file_limit()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: MockEndpoint(loop), "127.0.0.1", port, backlog=4_096)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1])))

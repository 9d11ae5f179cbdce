"""A real server that speaks OpenAI's chat completions, and answers every request with what a test has put into it."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from online.schemas.json_values import JSONObject


@dataclass
class Script:
    """An answer. message: of a whole one. deltas: of the same, streamed. choice: members beside these; usage: None for none."""

    message: JSONObject
    deltas: list[JSONObject]
    finish_reason: str = "stop"
    choice: JSONObject = field(default_factory=dict)
    usage: JSONObject | None = field(default_factory=lambda: {"prompt_tokens": 9, "completion_tokens": 5})

    def whole(self) -> bytes:
        choice = {"index": 0, "message": self.message, "finish_reason": self.finish_reason, **self.choice}
        usage = {"usage": self.usage} if self.usage else {}
        return json.dumps({"id": "x", "object": "chat.completion", "model": "m", "choices": [choice], **usage}).encode()

    def streamed(self) -> bytes:
        last = {"index": 0, "delta": {}, "finish_reason": self.finish_reason, **self.choice}
        choices: list[Any] = [*({"index": 0, "delta": each, "finish_reason": None} for each in self.deltas), last]
        head = {"id": "x", "object": "chat.completion.chunk", "model": "m"}
        chunks: list[JSONObject] = [{**head, "choices": [choice]} for choice in choices]
        chunks += [{**head, "choices": [], "usage": self.usage}] if self.usage else []
        return "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks).encode() + b"data: [DONE]\n\n"


@dataclass
class ScriptedUpstream:
    """url: the base URL of a route. bodies: of the requests that have arrived."""

    url: str = ""
    script: Script = field(default_factory=lambda: Script({"content": "Hello"}, [{"content": "Hello"}]))
    bodies: list[JSONObject] = field(default_factory=list)

    @property
    def last(self) -> JSONObject:
        return self.bodies[-1]


@contextmanager
def serve_script() -> Iterator[ScriptedUpstream]:
    """Serve an endpoint in threads."""
    upstream = ScriptedUpstream()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            upstream.bodies.append(body)
            answer = upstream.script.streamed() if body["stream"] else upstream.script.whole()
            self.send_response(200)
            self.send_header("content-type", "text/event-stream" if body["stream"] else "application/json")
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    upstream.url = f"http://127.0.0.1:{server.server_port}/v1"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield upstream
    finally:
        server.shutdown()
        thread.join(30)
        server.server_close()

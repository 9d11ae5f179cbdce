"""An endpoint that speaks OpenAI's chat completions, for trying the router without a language model: `python fake_model.py`.

    model "brief"      one sentence          model "thorough"     a paragraph, at ten times the tokens

It knows nothing: it repeats the question. Needs nothing but Python.
"""

import json
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PORT = 8100
ANSWERS = {
    "brief": "You asked: {question} I am an example, and know no more.",
    "thorough": "You asked: {question} An example cannot know that, but it can be thorough about it.\n\n"
    "First, a language model would read the question once more. Second, it would weigh what it has learned about such "
    "questions. Third, it would write about as many words as these, which is why it costs more than a brief answer.\n\n"
    "Put the URL of a real endpoint into `online.toml`, and this text is gone.",
}


class ChatHandler(BaseHTTPRequestHandler):
    """Answers of the two models, whole or streamed."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """Answer a chat."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        question = next((text_of(each) for each in reversed(body["messages"]) if each["role"] == "user"), "")
        text = ANSWERS.get(body["model"], ANSWERS["brief"]).format(question=question)
        read = sum(len(text_of(each)) // 4 for each in body["messages"])
        tokens = {"prompt_tokens": read, "completion_tokens": len(text) // 4}
        if body.get("stream"):
            self.stream(text, tokens)
        else:
            message = {"role": "assistant", "content": text}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            self.send(
                "application/json", json.dumps(describe("chat.completion", choices=[choice], usage=tokens)).encode()
            )

    def stream(self, text: str, tokens: dict[str, int]) -> None:
        """Send a text word by word."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        for word in text.split(" "):
            self.send_event(choices=[{"index": 0, "delta": {"content": word + " "}, "finish_reason": None}])
            time.sleep(0.03)
        self.send_event(choices=[{"index": 0, "delta": {}, "finish_reason": "stop"}])
        self.send_event(choices=[], usage=tokens)
        self.wfile.write(b"data: [DONE]\n\n")
        self.close_connection = True

    def send_event(self, **fields: object) -> None:
        """Send one chunk."""
        self.wfile.write(b"data: " + json.dumps(describe("chat.completion.chunk", **fields)).encode() + b"\n\n")
        self.wfile.flush()

    def send(self, kind: str, content: bytes) -> None:
        """Send a whole answer."""
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *arguments: object) -> None:
        """Print nothing for each request."""


def text_of(message: dict[str, object]) -> str:
    """Return the text of a message."""
    content = message["content"]
    parts = content if isinstance(content, list) else []
    return content if isinstance(content, str) else " ".join(part.get("text", "") for part in parts)


def describe(kind: str, **fields: object) -> dict[str, object]:
    """Return a completion, or a chunk of one."""
    return {"id": "example", "object": kind, "created": int(time.time()), "model": "example", **fields}


if __name__ == "__main__":
    port = int(sys.argv[1]) if len(sys.argv) > 1 else PORT
    print(f"two models that know nothing answer at http://127.0.0.1:{port}/v1   (Ctrl-C stops them)", flush=True)
    try:
        ThreadingHTTPServer(("127.0.0.1", port), ChatHandler).serve_forever()
    except KeyboardInterrupt:
        print()

"""Completed chats: what a model answers a chat with, whole or as a stream, before it is written in the wire format of a client.

    request of a client --its format--> ReceivedChat --complete_chat--> WholeChat | StreamedChat --its format--> response

Inside, every chat is one of OpenAI's chat completions, because that is what language models behind endpoints speak. The other
formats are translated to it and back.
"""

import json
from collections.abc import AsyncIterator, Iterator

import orjson
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from online.errors import OnlineError
from online.schemas.json_values import JSONObject

SSE_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


class RefusedChat(OnlineError):
    """The language model that was asked has refused the request itself. content: what it says, in OpenAI's shape."""

    def __init__(self, status: int, content: JSONObject) -> None:
        error = content.get("error")
        words = error.get("message") if isinstance(error, dict) else None
        super().__init__(words if isinstance(words, str) else "the language model has refused the request")
        self.status, self.content = status, content


class CutChat(OnlineError):
    """A streamed answer has ended too early. code: why, in one word."""

    status = 502

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.code = code


def dump_answer(content: JSONObject) -> bytes:
    """Return the JSON of an answer. Some endpoints cut a text within a surrogate pair, and orjson refuses a half."""
    try:
        return orjson.dumps(content)
    except TypeError:
        return json.dumps(content).encode()


def encode_event(content: JSONObject, name: str = "") -> bytes:
    """Return a server-sent event."""
    return b"%sdata: %s\n\n" % (f"event: {name}\n".encode() if name else b"", dump_answer(content))


class WholeChat:
    """A whole answer. content: a `chat.completion`. headers: of the response."""

    def __init__(self, content: JSONObject, headers: dict[str, str]) -> None:
        self.content, self.headers = content, headers


class StreamedChat:
    """A streamed answer, for one reader.

    headers: of the response. id: of the completion. chunks: each a `chat.completion.chunk`; the last one has the usage.
    """

    id: str
    headers: dict[str, str]

    def chunks(self) -> AsyncIterator[JSONObject]:
        """Yield the chunks as they come. Raises CutChat where the answer ends too early."""
        raise NotImplementedError

    def end(self) -> None:
        """Take note that the caller has got everything, or has left: called once, also before the first chunk."""


class KnownChat(StreamedChat):
    """A stream of chunks that all exist already."""

    def __init__(self, id: str, headers: dict[str, str], chunks: Iterator[JSONObject]) -> None:
        self.id, self.headers, self._chunks = id, headers, chunks

    async def chunks(self) -> AsyncIterator[JSONObject]:
        """Yield the chunks."""
        for chunk in self._chunks:
            yield chunk


CompletedChat = WholeChat | StreamedChat


class ChatEvents(StreamingResponse):
    """A streamed answer as server-sent events. The answer is ended however the caller leaves."""

    def __init__(self, chat: StreamedChat, events: AsyncIterator[bytes]) -> None:
        """events: the chunks of the chat in the format of the client."""
        super().__init__(events, media_type="text/event-stream", headers={**chat.headers, **SSE_HEADERS})
        self.chat = chat

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the answer."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self.chat.end()

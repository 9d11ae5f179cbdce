"""Anthropic's events of chat completions that are streamed.

the first chunk --> message_start
deltas -----------> content_block_start, content_block_delta ..., content_block_stop: one block after the other
the end ----------> message_delta, message_stop
CutChat ----------> error
"""

from collections.abc import AsyncIterator, Iterator

from online.plugins.anthropic.message_answers import (
    MessageOptions,
    choose_stop_reason,
    find_choice,
    find_reasoning,
    name_call,
    read_text,
    start_message,
    translate_usage,
)
from online.plugins.anthropic.paths import create_error
from online.plugins.openai.completions import CutChat, StreamedChat, encode_event
from online.schemas.json_values import JSON, JSONObject

OVERLOADED = ("limited", "busy")  # codes of CutChat
DELTAS = {"thinking": "thinking_delta", "text": "text_delta", "partial_json": "input_json_delta"}


async def encode_message_events(chat: StreamedChat, options: MessageOptions) -> AsyncIterator[bytes]:
    """Yield the events of an answer, as server-sent events."""
    blocks = MessageBlocks(options)
    try:
        async for chunk in chat.chunks():
            for event in blocks.read(chunk):
                yield encode_event(event, event["type"])
        for event in blocks.finish():
            yield encode_event(event, event["type"])
    except CutChat as cut:
        kind = "overloaded_error" if cut.code in OVERLOADED else "api_error"
        yield encode_event(create_error(kind, str(cut)), "error")


class MessageBlocks:
    """The blocks of one streamed answer. At most one is open, the last."""

    def __init__(self, options: MessageOptions) -> None:
        self.options, self._id = options, ""
        self._count, self._chars, self._calls = 0, 0, 0
        self._open: tuple[JSON, ...] = ()  # the kind of the open block; of a call also its place and id
        self._end: JSONObject = {}  # the choice that has the reason of the end
        self._usage: JSON = None
        self._is_refused = False

    def read(self, chunk: JSONObject) -> Iterator[JSONObject]:
        """Yield the events of a chunk. Raises CutChat."""
        if not self._id:
            self._id = chunk["id"]
            usage = translate_usage(None, self.options, 0)
            yield {"type": "message_start", "message": {**start_message(chunk, self.options), "usage": usage}}
        choice = find_choice(chunk)
        self._usage = chunk.get("usage") or self._usage
        self._end = choice if choice.get("finish_reason") else self._end
        delta = choice.get("delta") or {}
        for text in find_reasoning(delta):
            yield from self._add(("thinking",), {"type": "thinking", "thinking": "", "signature": ""}, "thinking", text)
        refusal = delta.get("refusal")
        self._is_refused = self._is_refused or bool(refusal)
        if text := read_text(delta.get("content")) + (refusal or ""):
            yield from self._add(("text",), {"type": "text", "text": ""}, "text", text)
        for call in delta.get("tool_calls") or ():
            yield from self._add_call(call)

    def finish(self) -> Iterator[JSONObject]:
        """Yield the events at the end of the answer."""
        yield from self._close()
        reason, sequence = choose_stop_reason(self._end, self.options, bool(self._calls), self._is_refused)
        usage = translate_usage(self._usage, self.options, self._chars)
        delta = {"stop_reason": reason, "stop_sequence": sequence}
        yield {"type": "message_delta", "delta": delta, "usage": usage}
        yield {"type": "message_stop"}

    def _add_call(self, call: JSONObject) -> Iterator[JSONObject]:
        """Yield the events of a part of a call. Some endpoints give several calls the same place, but never the same id.

        Raises CutChat for a part of a call that is not the last.
        """
        function, place, id = call.get("function") or {}, call.get("index", 0), call.get("id")
        name, arguments = function.get("name"), function.get("arguments") or ""
        kind = self._open
        if kind[:2] != ("tool_use", place) or (id and id != kind[2]):
            if not name:
                raise CutChat("the language model has mixed the parts of its calls of tools; ask again", "malformed")
            kind = ("tool_use", place, id or name_call(self._id, self._calls))
            self._calls += 1
        start = {"type": "tool_use", "id": kind[-1], "name": name, "input": {}}
        yield from self._add(kind, start, "partial_json", arguments)

    def _add(self, kind: tuple[JSON, ...], start: JSONObject, member: str, text: str) -> Iterator[JSONObject]:
        """Yield the events that add a text to the open block, or to a new one of another kind."""
        if kind != self._open:
            yield from self._close()
            self._open = kind
            yield {"type": "content_block_start", "index": self._count, "content_block": start}
        self._chars += len(text)
        if text:
            delta = {"type": DELTAS[member], member: text}
            yield {"type": "content_block_delta", "index": self._count, "delta": delta}

    def _close(self) -> Iterator[JSONObject]:
        """Yield the end of the open block, if there is one."""
        if self._open:
            yield {"type": "content_block_stop", "index": self._count}
            self._count, self._open = self._count + 1, ()

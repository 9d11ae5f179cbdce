"""The writing of a response from a chat completion, piece by piece, and the events that describe it.

    chunk --> response.created, response.in_progress                       the first one
          --> output_item.added, content_part.added, output_text.delta     a text
              output_text.done, content_part.done, output_item.done        its end: another kind of text begins
          --> output_item.added, function_call_arguments.delta             a call
    end   --> ... .done of everything that is open, response.completed | response.incomplete | response.failed

A whole answer is written as one chunk, without its events. Calls stay open to the end, because their pieces may be mixed.
"""

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field

from online.plugins.openai.completions import CutChat, StreamedChat, encode_event
from online.plugins.openai.responses_items import (
    ID_PREFIX,
    TEXT_MEMBERS,
    begin_response,
    create_error,
    create_item,
    create_part,
    describe_end,
    find_usage,
    read_arguments,
    read_logprobs,
    read_texts,
    translate_usage,
)
from online.plugins.openai.responses_schemas import ResponseRequest
from online.schemas.json_values import JSON, JSONObject

COPIED = ("model", "system_fingerprint", "feedback_url")  # from the chat completion to the response


@dataclass
class UnfinishedItem:
    """An output item that is being written. part: the type of its text; "" for the arguments of a call."""

    content: JSONObject
    place: int
    part: str = ""
    pieces: list[str] = field(default_factory=list)
    logprobs: list[JSONObject] = field(default_factory=list)

    def locate(self) -> JSONObject:
        """Return the place of the text that is being written, as events name it."""
        inner = {"content_index": len(self.content["content"])} if self.part else {}
        return {"item_id": self.content["id"], "output_index": self.place, **inner}

    def keep(self) -> str:
        """Put the text that has been written into the item, and return it."""
        text, self.pieces = "".join(self.pieces), []
        if self.part:
            part = create_part(self.part, text)
            self.content["content"].append(part | ({"logprobs": self.logprobs} if self.logprobs else {}))
            self.logprobs = []
        else:
            self.content["arguments"] = text
        return text


class ResponseWriter:
    """A response that is being written. Its methods yield the events."""

    def __init__(self, parsed: ResponseRequest, id: str) -> None:
        """id: of the response."""
        self.response = begin_response(parsed, id)
        self._key = id.removeprefix(ID_PREFIX)
        self._text: UnfinishedItem | None = None
        self._calls = list[UnfinishedItem]()
        self._call_at: dict[JSON, UnfinishedItem] = {}  # the newest call at each index of the chat completion
        self._count, self._finish_reason = 0, ""

    def write(self, chunk: JSONObject) -> Iterator[JSONObject]:
        """Write a chunk of a chat completion, or a whole one."""
        if not self._count:
            self.response |= {name: chunk[name] for name in COPIED if chunk.get(name)}
        yield from self._begin()
        if usage := translate_usage(find_usage(chunk)):
            self.response["usage"] = usage
        for choice in (chunk.get("choices") or ())[:1]:
            delta, logprobs = choice.get("delta") or choice.get("message") or {}, read_logprobs(choice)
            for kind, text in read_texts(delta):
                yield from self._write_text(kind, text, logprobs if kind == "output_text" else [])
            for call in delta.get("tool_calls") or ():
                yield from self._write_call(call)
            self._finish_reason = choice.get("finish_reason") or self._finish_reason

    def end(self) -> Iterator[JSONObject]:
        """Write the end of the response."""
        yield from self._begin()
        end = describe_end(self._finish_reason)
        if end["status"] == "failed":
            yield from self._fail(end["error"])
            return
        if not self.response["output"]:
            yield from self._open_text("output_text")
        for item in (self._text, *self._calls):
            if item is not None:
                yield from self._close(item, end["status"])
        self.response |= end
        yield self._create_event(f"response.{end['status']}", response=self.response)

    def fail(self, cut: CutChat) -> Iterator[JSONObject]:
        """Write the end of a response that has ended too early."""
        yield from self._begin()
        yield from self._fail(create_error(str(cut), is_limit=cut.code == "limited"))

    def _begin(self) -> Iterator[JSONObject]:
        if not self._count:
            yield self._create_event("response.created", response=self.response)
            yield self._create_event("response.in_progress", response=self.response)

    def _fail(self, error: JSONObject) -> Iterator[JSONObject]:
        for item in (self._text, *self._calls):
            if item is not None:
                item.keep()
                item.content["status"] = "incomplete"
        self.response |= {"status": "failed", "error": error}
        yield self._create_event("response.failed", response=self.response)

    # items

    def _write_text(self, kind: str, text: str, logprobs: list[JSONObject]) -> Iterator[JSONObject]:
        if self._text is None or self._text.part != kind:
            yield from self._open_text(kind)
        assert self._text is not None, "it has been opened"
        self._text.pieces.append(text)
        self._text.logprobs += logprobs
        more = {"logprobs": logprobs} if kind == "output_text" else {}
        yield self._create_event(f"response.{kind}.delta", **self._text.locate(), delta=text, **more)

    def _open_text(self, kind: str) -> Iterator[JSONObject]:
        """Begin a part of a text. A text and a refusal are parts of one message."""
        item, name = self._text, "reasoning" if kind == "reasoning_text" else "message"
        if item is not None and item.content["type"] == name:
            yield from self._close_part(item)
            item.part = kind
        else:
            yield from self._close_text()
            more: JSONObject = {"summary": []} if name == "reasoning" else {"role": "assistant"}
            item = self._add_item(name, kind, content=[], **more)
            yield self._create_event("response.output_item.added", output_index=item.place, item=item.content)
        self._text = item
        part = create_part(kind, "")
        yield self._create_event("response.content_part.added", **item.locate(), part=part)

    def _write_call(self, call: JSONObject) -> Iterator[JSONObject]:
        function, index, id = call.get("function") or {}, call.get("index"), call.get("id")
        name, arguments = function.get("name") or "", read_arguments(function.get("arguments"))
        item = self._call_at.get(index)
        # some endpoints give each call the same index, or none
        if item is None or (name and (index is None or (id and id != item.content["call_id"]))):
            yield from self._close_text()
            call_id = id or f"call_{self._key}_{len(self.response['output'])}"
            item = self._add_item("function_call", "", call_id=call_id, name=name, arguments="")
            self._call_at[index] = item
            self._calls.append(item)
            yield self._create_event("response.output_item.added", output_index=item.place, item=item.content)
        item.content["name"] = item.content["name"] or name
        if arguments:
            item.pieces.append(arguments)
            yield self._create_event("response.function_call_arguments.delta", **item.locate(), delta=arguments)

    def _add_item(self, kind: str, part: str, **members: JSON) -> UnfinishedItem:
        place = len(self.response["output"])
        content = create_item(kind, f"{self._key}_{place}", **members)
        self.response["output"].append(content)
        return UnfinishedItem(content, place, part)

    def _close_text(self) -> Iterator[JSONObject]:
        if self._text is not None:
            yield from self._close(self._text)
            self._text = None

    def _close(self, item: UnfinishedItem, end: str = "completed") -> Iterator[JSONObject]:
        """Close an item. end: the status of the response, which the last item has too."""
        yield from self._close_part(item)
        item.content["status"] = end if item.content is self.response["output"][-1] else "completed"
        yield self._create_event("response.output_item.done", output_index=item.place, item=item.content)

    def _close_part(self, item: UnfinishedItem) -> Iterator[JSONObject]:
        kind, where, text = item.part, item.locate(), item.keep()
        if not kind:
            name = item.content["name"]
            yield self._create_event("response.function_call_arguments.done", **where, name=name, arguments=text)
            return
        part = item.content["content"][-1]
        more = {"logprobs": part["logprobs"]} if kind == "output_text" else {}
        yield self._create_event(f"response.{kind}.done", **where, **{TEXT_MEMBERS[kind]: text}, **more)
        yield self._create_event("response.content_part.done", **where, part=part)

    def _create_event(self, kind: str, **members: JSON) -> JSONObject:
        self._count += 1
        return {"type": kind, "sequence_number": self._count - 1, **members}


def write_whole(parsed: ResponseRequest, completion: JSONObject) -> JSONObject:
    """Return the response for a whole chat completion."""
    writer = ResponseWriter(parsed, completion["id"])
    for _ in (*writer.write(completion), *writer.end()):
        pass
    return writer.response


async def encode_response(parsed: ResponseRequest, chat: StreamedChat) -> AsyncIterator[bytes]:
    """Encode the events of a streamed response."""
    writer = ResponseWriter(parsed, chat.id)
    try:
        async for chunk in chat.chunks():
            for event in writer.write(chunk):
                yield encode_event(event, event["type"])
        for event in writer.end():
            yield encode_event(event, event["type"])
    except CutChat as cut:
        for event in writer.fail(cut):
            yield encode_event(event, event["type"])
    yield b"data: [DONE]\n\n"  # Open Responses requires it

"""Requests of OpenAI's Responses API, translated to chat completions.

    instructions, input items          --> messages
    tools, text.format, reasoning, ... --> the fields of a chat completion with the same meaning
    fields that are not known here     --> the same fields

A field that cannot be translated is refused; hints that change no answer are ignored.
"""

from collections.abc import Iterable, Iterator, Sequence

from pydantic_core import from_json, to_json

from online.errors import BadInput
from online.plugins.openai.responses_schemas import (
    MAX_ECHO_CHARS,
    NOT_STORED,
    FunctionCallItem,
    FunctionTool,
    MessageItem,
    ReasoningItem,
    ResponsePart,
    ResponseRequest,
    TextFormat,
    ToolChoice,
)
from online.schemas.json_values import JSON, JSONObject

TEXTS = ("input_text", "output_text", "text")
LOGPROBS = "message.output_text.logprobs"
REFUSED = {  # fields that would change the answer
    "previous_response_id": NOT_STORED,
    "conversation": NOT_STORED,
    "background": "answers are not stored here, so that none can be fetched later; leave it out",
    "prompt": "prompt templates are not stored here; send the text in `instructions` or `input`",
    "context_management": "conversations are not shortened here; send a shorter one in `input`",
    "moderation": "answers are not moderated here; leave it out",
}
IGNORED = frozenset(  # hints that change no answer, and truncation, which is checked
    {
        *("store", "service_tier", "stream_options", "max_tool_calls", "truncation", "background_options"),
        *("prompt_cache_key", "prompt_cache_options", "prompt_cache_retention", "client_metadata"),
    }
)
IGNORED_REASONING = ("summary", "generate_summary", "context")


def translate_request(parsed: ResponseRequest, body: bytes) -> bytes:
    """Return the chat completion request of a request. body: JSON, with the fields that `parsed` lacks. Raises BadInput."""
    content: JSONObject = from_json(body)
    check_fields(content)
    known = {*ResponseRequest.model_fields, *IGNORED, *REFUSED}
    others = {name: value for name, value in content.items() if name not in known and value is not None}
    translated = {name: value for name, value in list_fields(parsed) if value is not None}
    if name := min(others.keys() & translated.keys(), default=None):
        raise BadInput(f"{name}: this field of chat completions has another name here; see the Responses API")
    return to_json({**others, **translated})


def check_fields(content: JSONObject) -> None:
    """Raise BadInput for a field that cannot be translated. content: the request."""
    for name, reason in REFUSED.items():
        if content.get(name):
            raise BadInput(f"{name}: {reason}")
    if content.get("truncation") not in (None, "disabled"):
        raise BadInput("truncation: nothing is cut from a conversation here; leave it out, and send a shorter `input`")
    for name, value in (content.get("reasoning") or {}).items():
        if value and name not in ("effort", *IGNORED_REASONING):
            raise BadInput(f"reasoning.{name[:MAX_ECHO_CHARS]}: only `effort` can be sent to a model; leave it out")


def list_fields(parsed: ResponseRequest) -> Iterator[tuple[str, JSON]]:
    """Yield the fields of the chat completion, None for those that the request leaves out. Raises BadInput."""
    yield "model", parsed.model
    yield "messages", [*translate_input(parsed)]
    tools, choice = choose_tools(parsed)
    yield "tools", tools or None
    yield "tool_choice", choice
    yield "parallel_tool_calls", parsed.parallel_tool_calls
    if parsed.text is not None:
        yield "response_format", translate_format(parsed.text.format)
        yield "verbosity", parsed.text.verbosity
    yield "reasoning_effort", (parsed.reasoning or {}).get("effort")
    yield "max_completion_tokens", parsed.max_output_tokens
    for name in ("temperature", "top_p", "presence_penalty", "frequency_penalty"):
        yield name, getattr(parsed, name)
    yield "logprobs", True if parsed.top_logprobs or LOGPROBS in (parsed.include or ()) else None
    yield "top_logprobs", parsed.top_logprobs or None
    yield "stream", parsed.stream
    yield "user", parsed.user or parsed.safety_identifier
    task = (parsed.metadata or {}).get("task")
    yield "metadata", {"task": task} if task else None


# the conversation


def translate_input(parsed: ResponseRequest) -> Iterator[JSONObject]:
    """Yield the messages: the calls of one answer and its text are one message. Raises BadInput."""
    if parsed.instructions:
        yield {"role": "system", "content": parsed.instructions}
    answer: JSONObject | None = None  # of the assistant, which is not complete
    for place, item in enumerate(parsed.input):
        if isinstance(item, ReasoningItem):
            continue
        if isinstance(item, FunctionCallItem):
            answer = answer or {"role": "assistant", "content": None}
            function = {"name": item.name, "arguments": item.arguments}
            call = {"id": item.call_id, "type": "function", "function": function}
            answer["tool_calls"] = [*answer.get("tool_calls", ()), call]
            continue
        is_answers = isinstance(item, MessageItem) and item.role == "assistant"
        parts = item.content if isinstance(item, MessageItem) else item.output
        content = translate_parts(parts, f"input.{place}")
        if is_answers and answer is not None and answer["content"] is None:
            answer["content"] = content
            continue
        if answer is not None:
            yield answer
        answer = {"role": "assistant", "content": content} if is_answers else None
        if isinstance(item, MessageItem):
            if not is_answers:
                yield {"role": item.role, "content": content}
        else:
            yield {"role": "tool", "tool_call_id": item.call_id, "content": content}
    if answer is not None:
        yield answer


def translate_parts(parts: Sequence[ResponsePart], where: str) -> JSON:
    """Return the content of a message: a text where that is all. where: the place of the item. Raises BadInput."""
    if len(parts) == 1 and parts[0].type in TEXTS:
        return parts[0].text or ""
    return [translate_part(part, f"{where}.content.{place}") for place, part in enumerate(parts)]


def translate_part(part: ResponsePart, where: str) -> JSONObject:
    """Return a part of a chat message. Raises BadInput."""
    if part.type in TEXTS:
        return {"type": "text", "text": part.text or ""}
    if part.type == "refusal":
        return {"type": "refusal", "refusal": part.refusal or ""}
    if part.file_id or part.file_url:
        name = "file_id" if part.file_id else "file_url"
        raise BadInput(
            f"{where}: {name} cannot be read here; send the file itself in `file_data`, an image in `image_url`"
        )
    if part.type == "input_image" and part.image_url:
        return {"type": "image_url", "image_url": {"url": part.image_url, **keep_stated(detail=part.detail)}}
    if part.type == "input_file" and part.file_data:
        return {"type": "file", "file": {**keep_stated(filename=part.filename), "file_data": part.file_data}}
    if part.type == "input_audio" and part.input_audio:
        return {"type": "input_audio", "input_audio": part.input_audio}
    raise BadInput(
        f"{where}: a part of the type {part.type[:MAX_ECHO_CHARS]!r} cannot be sent to a model in this form; send input_text "
        "with text, input_image with image_url, input_file with file_data, or input_audio"
    )


# options


def choose_tools(parsed: ResponseRequest) -> tuple[list[JSONObject], JSON]:
    """Return the tools of a chat completion and its tool_choice. Raises BadInput.

    Few endpoints know `allowed_tools`, so that the others are left out instead.
    """
    tools, choice = [*translate_tools(parsed.tools or ())], parsed.tool_choice
    if not isinstance(choice, ToolChoice):
        return tools, choice
    if choice.type == "function":
        return tools, {"type": "function", "function": {"name": choice.name}}
    if choice.type == "allowed_tools":
        allowed = {tool.name for tool in choice.tools}
        if missing := allowed - {tool["function"]["name"] for tool in tools}:
            raise BadInput(f"tool_choice: {min(missing)[:MAX_ECHO_CHARS]!r} is not one of the `tools`")
        return [tool for tool in tools if tool["function"]["name"] in allowed], choice.mode
    raise BadInput(f"tool_choice: only functions can be called here, not {choice.type[:MAX_ECHO_CHARS]!r}")


def translate_tools(tools: Iterable[FunctionTool]) -> Iterator[JSONObject]:
    """Yield the tools as chat completions have them. Raises BadInput."""
    for tool in tools:
        if tool.type != "function" or not tool.name:
            raise BadInput(
                f"tools: only functions with a name can be called here, and the tool {tool.type[:MAX_ECHO_CHARS]!r} is none; "
                "leave it out"
            )
        options = keep_stated(description=tool.description, parameters=tool.parameters, strict=tool.strict)
        yield {"type": "function", "function": {"name": tool.name, **options}}


def translate_format(asked: TextFormat | None) -> JSONObject | None:
    """Return the response_format of a chat completion; None for plain text. Raises BadInput."""
    if asked is None or asked.type == "text":
        return None
    if asked.type == "json_object":
        return {"type": "json_object"}
    if asked.type == "json_schema" and asked.schema_ is not None:
        options = keep_stated(description=asked.description, strict=asked.strict)
        return {
            "type": "json_schema",
            "json_schema": {"name": asked.name or "answer", "schema": asked.schema_, **options},
        }
    raise BadInput(
        f"text.format: {asked.type[:MAX_ECHO_CHARS]!r} cannot be sent to a model in this form; send text, json_object, or "
        "json_schema with a name and a schema"
    )


def keep_stated(**options: JSON) -> JSONObject:
    """Return the options that have a value."""
    return {name: value for name, value in options.items() if value is not None}

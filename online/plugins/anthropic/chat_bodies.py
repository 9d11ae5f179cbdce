"""Chat completions that ask for the same as Anthropic's messages.

system ----------------------------> a message of the role system
a turn of the user ----------------> a message of the role tool for each result, then one of the user with all other blocks
a turn of the assistant -----------> a message with its texts and its calls of tools
fields of this page's table -------> their counterparts
other fields (top_k, seed, ...) ---> unchanged, for the endpoint to judge
"""

from collections.abc import Iterable, Iterator

from pydantic_core import from_json, to_json

from online.errors import BadInput
from online.plugins.anthropic.schemas import (
    AssistantTurn,
    BlocksSource,
    CountRequest,
    DocumentBlock,
    EncodedSource,
    ImageBlock,
    MessageRequest,
    MessageTool,
    TextBlock,
    TextSource,
    ToolResultBlock,
    ToolUseBlock,
    Turn,
    UrlSource,
    UserTurn,
)
from online.schemas.json_values import JSONObject
from online.serving.feedback.feedback_slots import MAX_USER, clip_text

# hints that change no answer here
IGNORED = {"betas", "billing_policy", "cache_control", "context_management", "diagnostics"}
IGNORED |= {"service_tier", "speed", "store", "user_profile_id", "workspace_id"}
REFUSED = ("compaction", "container", "fallbacks", "inference_geo", "mcp_servers", "thread")
TOOL_CHOICES = {"auto": "auto", "any": "required", "none": "none"}
EFFORTS = {"xhigh": "high", "max": "high"}  # others keep their names
LOW_BUDGET, MEDIUM_BUDGET = 4_096, 16_384  # tokens, up to which the effort has this name
CHARS_PER_TOKEN = 4


def build_chat_body(body: bytes, parsed: CountRequest) -> JSONObject:
    """Return a request for a chat completion. body: a valid request for a message. Raises BadInput for what cannot be translated."""
    given: JSONObject = from_json(body)
    for name in REFUSED:
        if given.get(name) is not None:
            raise BadInput(f"{name}: only Anthropic's own service does this; leave it out")
    known = MessageRequest.model_fields.keys() | IGNORED | {*REFUSED}
    content: JSONObject = {name: value for name, value in given.items() if name not in known}
    system = [{"role": "system", "content": join_parts(list_parts(parsed.system))}] if parsed.system else []
    content |= {
        "model": parsed.model,
        "messages": [*system, *(m for turn in parsed.messages for m in list_messages(turn))],
    }
    return content | {name: value for name, value in translate_options(parsed).items() if value is not None}


def translate_options(parsed: CountRequest) -> JSONObject:
    """Return the fields beside the messages; None for one that is not sent."""
    schema = parsed.output_format or (parsed.output_config and parsed.output_config.format)
    choice = parsed.tool_choice
    options: JSONObject = {
        "tools": [translate_tool(tool) for tool in parsed.tools] if parsed.tools else None,
        "parallel_tool_calls": False if choice and choice.disable_parallel_tool_use else None,
        "reasoning_effort": choose_effort(parsed),
    }
    if choice:
        named = {"type": "function", "function": {"name": choice.name}}
        options["tool_choice"] = TOOL_CHOICES.get(choice.type, named)
    if schema:
        named_schema = {"name": "answer", "schema": schema.json_schema, "strict": True}
        options["response_format"] = {"type": "json_schema", "json_schema": named_schema}
    if isinstance(parsed, MessageRequest):
        options |= {"max_completion_tokens": parsed.max_tokens, "stop": parsed.stop_sequences or None}
        options |= {"stream": parsed.stream or None}
        options["user"] = clip_text(parsed.metadata and parsed.metadata.user_id, MAX_USER)
    return options


def choose_effort(parsed: CountRequest) -> str | None:
    """Return how much the model reasons; None where the request leaves that to the model."""
    thinking, config = parsed.thinking, parsed.output_config
    if thinking and thinking.type == "disabled":
        return None
    if config and config.effort:
        return EFFORTS.get(config.effort, config.effort)
    if thinking is None or thinking.type != "enabled" or thinking.budget_tokens is None:
        return None
    budget = thinking.budget_tokens
    return "low" if budget <= LOW_BUDGET else "medium" if budget <= MEDIUM_BUDGET else "high"


def translate_tool(tool: MessageTool) -> JSONObject:
    """Return a tool as chat completions describe it."""
    examples = {"examples": tool.input_examples} if tool.input_examples else {}
    function: JSONObject = {"name": tool.name, "parameters": {**tool.input_schema, **examples}}
    stated = {"description": tool.description, "strict": tool.strict}
    return {
        "type": "function",
        "function": function | {name: value for name, value in stated.items() if value is not None},
    }


# messages


def list_messages(turn: Turn) -> Iterator[JSONObject]:
    """Yield the messages of a turn."""
    if isinstance(turn, UserTurn):
        yield from list_user_messages(turn)
    elif isinstance(turn, AssistantTurn):
        yield build_assistant_message(turn)
    else:
        yield {"role": "system", "content": join_parts(list_parts(turn.content))}


def list_user_messages(turn: UserTurn) -> Iterator[JSONObject]:
    """Yield the results of tools, then the rest. Images and files of results go with the rest: a result has texts only."""
    rest = list[JSONObject]()
    for result in turn.content:
        if isinstance(result, ToolResultBlock):
            parts = [*list_parts(result.content or [])]
            files = [part for part in parts if part["type"] != "text"]
            texts = [part["text"] for part in parts if part["type"] == "text"]
            if files:
                texts.append(f"(Files of this result in the next message of the user: {len(files)})")
                rest += files
            text = "Error: " * bool(result.is_error) + "\n".join(texts)
            yield {"role": "tool", "tool_call_id": result.tool_use_id, "content": text}
    rest += list_parts(block for block in turn.content if not isinstance(block, ToolResultBlock))
    if rest:
        yield {"role": "user", "content": join_parts(rest)}


def build_assistant_message(turn: AssistantTurn) -> JSONObject:
    """Return the texts and calls of a turn; its reasoning is left out."""
    texts = [block.text for block in turn.content if isinstance(block, TextBlock)]
    calls = [
        {
            "id": block.id,
            "type": "function",
            "function": {"name": block.name, "arguments": to_json(block.input).decode()},
        }
        for block in turn.content
        if isinstance(block, ToolUseBlock)
    ]
    content = "\n".join(texts) if texts or not calls else None
    return {"role": "assistant", "content": content, **({"tool_calls": calls} if calls else {})}


def list_parts(blocks: Iterable[TextBlock | ImageBlock | DocumentBlock]) -> Iterator[JSONObject]:
    """Yield the parts of a message's content for these blocks."""
    for block in blocks:
        if isinstance(block, TextBlock):
            yield {"type": "text", "text": block.text}
        elif isinstance(block, ImageBlock):
            yield {"type": "image_url", "image_url": {"url": locate(block.source)}}
        else:
            yield from list_document_parts(block)


def list_document_parts(block: DocumentBlock) -> Iterator[JSONObject]:
    """Yield the title and the context of a document, then what it contains."""
    source = block.source
    texts = [block.title, block.context, source.data if isinstance(source, TextSource) else None]
    yield from ({"type": "text", "text": text} for text in texts if text)
    if isinstance(source, BlocksSource):
        yield from list_parts(source.content)
    elif not isinstance(source, TextSource):
        yield {"type": "file", "file": {"filename": block.title or "document.pdf", "file_data": locate(source)}}


def locate(source: EncodedSource | UrlSource) -> str:
    """Return the URL of a file, which holds the file itself where the request does."""
    return source.url if isinstance(source, UrlSource) else f"data:{source.media_type};base64,{source.data}"


def join_parts(parts: Iterable[JSONObject]) -> str | list[JSONObject]:
    """Return the content of a message: one text where there is nothing else, because some endpoints read no parts."""
    found = [*parts]
    if all(part["type"] == "text" for part in found):
        return "\n".join(part["text"] for part in found)
    return found


# estimates


def estimate_tokens(content: JSONObject) -> int:
    """Return about how many tokens a request for a chat completion has: characters / 4, without images and files."""
    chars = len(to_json(content.get("tools") or "").decode()) - 2
    for message in content["messages"]:
        said = message["content"] or ""
        chars += len(said) if isinstance(said, str) else sum(len(part.get("text", "")) for part in said)
        chars += sum(
            len(call["function"]["name"] + call["function"]["arguments"]) for call in message.get("tool_calls", [])
        )
    return to_tokens(chars)


def to_tokens(chars: int) -> int:
    """Return about how many tokens so many characters are."""
    return -(-chars // CHARS_PER_TOKEN)

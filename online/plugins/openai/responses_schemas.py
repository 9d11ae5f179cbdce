"""The requests and answers of OpenAI's Responses API. Fields that are not listed here are sent on as they are."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from online.schemas.fields import Text, Wire
from online.schemas.json_values import JSON, JSONArray, JSONObject

MAX_ECHO_CHARS = 80
ITEMS = ("message", "function_call", "function_call_output", "reasoning")
NOT_STORED = "answers are not stored here; send the whole conversation in `input`"


class ResponsePart(Wire):
    """A part of a message, or of the output of a function."""

    type: str
    text: Text | None = None
    refusal: Text | None = None
    image_url: str | None = None
    detail: str | None = None
    filename: str | None = None
    file_data: str | None = None
    file_url: str | None = None
    file_id: str | None = None
    input_audio: JSONObject | None = None


def _read_parts(content: object) -> object:
    """Return the parts of a content, which may be a text."""
    return [{"type": "input_text", "text": content}] if isinstance(content, str) else content


Parts = Annotated[list[ResponsePart], BeforeValidator(_read_parts, json_schema_input_type=str | list[ResponsePart])]


class MessageItem(Wire):
    """A message of the conversation."""

    type: Literal["message"] = "message"
    role: Literal["user", "assistant", "system", "developer"]
    content: Parts


class FunctionCallItem(Wire):
    """A call of a function, as an earlier answer had it."""

    type: Literal["function_call"]
    call_id: str
    name: str
    arguments: str


class FunctionOutputItem(Wire):
    """The output of a function that was called."""

    type: Literal["function_call_output"]
    call_id: str
    output: Parts


class ReasoningItem(Wire):
    """The reasoning of an earlier answer, which is not sent on."""

    type: Literal["reasoning"]


def _check_item(item: object) -> object:
    """Return an item with its type. Raises ValueError for items of other types."""
    if not isinstance(item, dict):
        raise ValueError(f"an item is an object with a type: {', '.join(ITEMS)}")
    kind = item.get("type") or ("message" if "role" in item else "item_reference")
    if kind == "item_reference":
        raise ValueError(f"the item refers to an earlier one, but {NOT_STORED}")
    if kind not in ITEMS:
        name = str(kind)[:MAX_ECHO_CHARS]
        raise ValueError(f"items of the type {name!r} cannot be sent to a model; send {', '.join(ITEMS)}")
    return item | {"type": kind}


AnyItem = Annotated[MessageItem | FunctionCallItem | FunctionOutputItem | ReasoningItem, Field(discriminator="type")]
Item = Annotated[AnyItem, BeforeValidator(_check_item)]


def _read_items(given: object) -> object:
    """Return the items of an input, which may be a text."""
    return [{"type": "message", "role": "user", "content": given}] if isinstance(given, str) else given


Items = Annotated[
    list[Item], Field(min_length=1), BeforeValidator(_read_items, json_schema_input_type=str | list[AnyItem])
]


class FunctionTool(Wire):
    """A function that the model may call. Other tools run at the vendor, and are refused."""

    type: str
    name: str = ""
    description: str | None = None
    parameters: JSONObject | None = None
    strict: bool | None = None


class TextFormat(Wire):
    """The form of the answer: text, json_object, or json_schema with its name and schema."""

    type: str = "text"
    name: str | None = None
    description: str | None = None
    schema_: JSONObject | None = Field(None, alias="schema")
    strict: bool | None = None


class TextOptions(Wire):
    """Options of the text."""

    format: TextFormat | None = None
    verbosity: str | None = None


class ToolChoice(Wire):
    """The tools that the model has to choose from: a `function` by its name, or `allowed_tools`, with their mode."""

    type: str
    name: str = ""
    mode: Literal["auto", "required"] = "auto"
    tools: list[FunctionTool] = Field(default_factory=list)


class ResponseRequest(Wire):
    """A request for a response. The last message of the user in `input` is the question."""

    model: str = Field(description="The name of a model that chats: a ranker, or a router.")
    input: Items
    instructions: Text | None = None
    tools: list[FunctionTool] | None = None
    tool_choice: Literal["none", "auto", "required"] | ToolChoice | None = None
    parallel_tool_calls: bool | None = None
    text: TextOptions | None = None
    reasoning: JSONObject | None = Field(None, description="Its `effort` is sent on.")
    max_output_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    top_logprobs: int | None = None
    include: list[str] | None = Field(None, description="Only `message.output_text.logprobs` is read.")
    stream: bool | None = False
    user: JSON = None
    safety_identifier: str | None = Field(None, description="The user, where `user` is not given.")
    metadata: dict[str, str] | None = Field(
        None, description="Returned with the response. `task` marks a task of the page, which is not a question."
    )


class ResponseUsage(Wire):
    """Counts of tokens; of a ranker, which chooses among whole replies, of words."""

    input_tokens: int
    input_tokens_details: dict[str, int]
    output_tokens: int
    output_tokens_details: dict[str, int]
    total_tokens: int


class ResponseAnswer(Wire):
    """A response. It also returns the settings of the request."""

    id: str = Field(description="The prediction_id that feedback refers to. The id of a task accepts no feedback.")
    object: Literal["response"]
    created_at: int
    completed_at: int | None
    status: Literal["in_progress", "completed", "incomplete", "failed"]
    incomplete_details: dict[str, str] | None = Field(description="`reason`: max_output_tokens or content_filter.")
    error: dict[str, str] | None
    model: str
    output: JSONArray = Field(description="Items: reasoning, a message with texts or a refusal, calls of functions.")
    usage: ResponseUsage | None
    system_fingerprint: str = Field("", description="The version, or the route, that answered.")
    feedback_url: str | None = Field(None, description="A signed URL; its holder may rate this answer.")

"""Messages in Anthropic's shape: requests, answers and errors.

    a request: system, turns, tools, ...    a turn: a role, and its blocks    a block: a text, an image, a call of a tool, ...

Fields of a request that are not listed here are in `chat_bodies.py`.
"""

from typing import Annotated, Literal

from pydantic import BeforeValidator, ConfigDict, Field, model_validator

from online.schemas.fields import Text, Wire
from online.schemas.json_values import JSON, JSONObject


def _read_text(content: object) -> object:
    """Return the blocks of a content, which may be a text alone."""
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


class EncodedSource(Wire):
    """A file in the request."""

    type: Literal["base64"]
    media_type: str
    data: str


class UrlSource(Wire):
    """A file elsewhere."""

    type: Literal["url"]
    url: str


class TextSource(Wire):
    """A document of plain text."""

    type: Literal["text"]
    data: Text


class TextBlock(Wire):
    """A text."""

    type: Literal["text"]
    text: Text


class ImageBlock(Wire):
    """An image."""

    type: Literal["image"]
    source: Annotated[EncodedSource | UrlSource, Field(discriminator="type")]


class BlocksSource(Wire):
    """A document of texts and images."""

    type: Literal["content"]
    content: Annotated[
        list[Annotated[TextBlock | ImageBlock, Field(discriminator="type")]],
        BeforeValidator(_read_text, json_schema_input_type=str | list[TextBlock | ImageBlock]),
    ]


class Citations(Wire):
    """Citations of a document in the answer."""

    enabled: Literal[False] | None = Field(None, description="Citations are not made here.")


class DocumentBlock(Wire):
    """A document: a PDF, or texts. Its title and context are sent as texts before it."""

    type: Literal["document"]
    source: Annotated[EncodedSource | UrlSource | TextSource | BlocksSource, Field(discriminator="type")]
    title: Text | None = None
    context: Text | None = None
    citations: Citations | None = None


class ToolUseBlock(Wire):
    """A call of a tool, of an earlier turn."""

    type: Literal["tool_use"]
    id: str
    name: str
    input: JSONObject


Part = Annotated[TextBlock | ImageBlock | DocumentBlock, Field(discriminator="type")]


class ToolResultBlock(Wire):
    """The result of a call."""

    type: Literal["tool_result"]
    tool_use_id: str
    content: Annotated[list[Part], BeforeValidator(_read_text, json_schema_input_type=str | list[Part])] | None = None
    is_error: bool | None = False


class ThinkingBlock(Wire):
    """Reasoning of an earlier turn, which is not sent again."""

    type: Literal["thinking", "redacted_thinking"]


UserBlock = Annotated[TextBlock | ImageBlock | DocumentBlock | ToolResultBlock, Field(discriminator="type")]
AssistantBlock = Annotated[TextBlock | ToolUseBlock | ThinkingBlock, Field(discriminator="type")]
Texts = Annotated[list[TextBlock], BeforeValidator(_read_text, json_schema_input_type=str | list[TextBlock])]


class UserTurn(Wire):
    """Texts, images and documents of the user, and results of tools."""

    role: Literal["user"]
    content: Annotated[
        list[UserBlock],
        BeforeValidator(_read_text, json_schema_input_type=str | list[UserBlock]),
        Field(min_length=1),
    ]


class AssistantTurn(Wire):
    """An earlier answer; as the last turn, the beginning of the answer."""

    role: Literal["assistant"]
    content: Annotated[
        list[AssistantBlock], BeforeValidator(_read_text, json_schema_input_type=str | list[AssistantBlock])
    ]


class SystemTurn(Wire):
    """Instructions in the middle of a conversation."""

    role: Literal["system"]
    content: Texts


Turn = Annotated[UserTurn | AssistantTurn | SystemTurn, Field(discriminator="role")]


class MessageTool(Wire):
    """A tool of the caller."""

    type: Literal["custom"] | None = None
    name: str
    description: str | None = None
    input_schema: JSONObject
    input_examples: list[JSON] | None = None
    strict: bool | None = None

    @model_validator(mode="before")
    @classmethod
    def _refuse_foreign(cls, tool: object) -> object:
        """Return the tool. Raises ValueError for one that only Anthropic's models know."""
        kind = tool.get("type") if isinstance(tool, dict) else None
        if kind in (None, "custom"):
            return tool
        raise ValueError(
            f"the tool {str(kind)[:80]!r} is Anthropic's own and unknown to other models; leave it out, or describe one with an "
            "input_schema"
        )


class MessageToolChoice(Wire):
    """The tools that may be called."""

    type: Literal["auto", "any", "tool", "none"]
    name: str | None = None
    disable_parallel_tool_use: bool | None = False

    @model_validator(mode="after")
    def _require_name(self) -> "MessageToolChoice":
        """Return the choice. Raises ValueError for a tool without a name."""
        if self.type == "tool" and not self.name:
            raise ValueError("the type 'tool' needs the name of the tool")
        return self


class ThinkingSettings(Wire):
    """The reasoning that the request asks for."""

    type: Literal["enabled", "disabled", "adaptive", "between_tools"]
    budget_tokens: int | None = None

    @model_validator(mode="after")
    def _require_budget(self) -> "ThinkingSettings":
        """Return the setting. Raises ValueError where the budget is missing."""
        if self.type == "enabled" and self.budget_tokens is None:
            raise ValueError("the type 'enabled' needs budget_tokens")
        return self


class OutputFormat(Wire):
    """A JSON schema of the answer."""

    type: Literal["json_schema"]
    json_schema: JSONObject = Field(alias="schema")


class OutputConfig(Wire):
    """The form of the answer, and the effort for it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None
    format: OutputFormat | None = None


class MessageMetadata(Wire):
    """Metadata of a request."""

    user_id: Text | None = Field(None, description="The user; of a longer name, the first 128 characters.")


class CountRequest(Wire):
    """A request for the number of tokens of a message. It also has the other fields of a request for the message."""

    model: str = Field(description="The name of a model that chats: a ranker, or a router.")
    messages: list[Turn] = Field(min_length=1)
    system: Texts | None = None
    tools: list[MessageTool] | None = None
    tool_choice: MessageToolChoice | None = None
    thinking: ThinkingSettings | None = None
    output_config: OutputConfig | None = None
    output_format: OutputFormat | None = Field(None, description="The older name of `output_config.format`.")


class MessageRequest(CountRequest):
    """A request for a message."""

    max_tokens: int = Field(ge=1)
    stop_sequences: list[Text] | None = None
    stream: bool | None = False
    metadata: MessageMetadata | None = None


class MessageUsage(Wire):
    """Counts of tokens; of words, where a ranker answers. What an endpoint does not count is estimated: characters / 4."""

    input_tokens: int = Field(description="Without those that were read from a cache.")
    cache_creation_input_tokens: Literal[0]
    cache_read_input_tokens: int
    output_tokens: int


class MessageAnswer(Wire):
    """A message that answers."""

    id: str = Field(description="The prediction_id that feedback refers to. The id of a task accepts no feedback.")
    type: Literal["message"]
    role: Literal["assistant"]
    model: str
    content: list[JSONObject] = Field(description="Blocks of the types `thinking`, `text` and `tool_use`.")
    stop_reason: Literal["end_turn", "max_tokens", "stop_sequence", "tool_use", "refusal"]
    stop_sequence: str | None
    usage: MessageUsage
    system_fingerprint: str | None = Field(None, description="The version that answered; of a router, also the route.")
    feedback_url: str | None = Field(None, description="A signed URL; its holder may rate this answer.")


class TokenCount(Wire):
    """The number of tokens of a request."""

    input_tokens: int = Field(description="An estimate: characters / 4, without images and files.")


class MessageErrorText(Wire):
    """An error in Anthropic's shape."""

    type: str
    message: str


class MessageError(Wire):
    """An error, as the clients of Anthropic expect it."""

    type: Literal["error"]
    error: MessageErrorText

"""The body of a chat completion: the fields that count, and those that do not.

Fields that are not in `ChatBody` are ignored, and named in the header `X-Ignored-Fields` of the answer. Of OpenAI's these are:
frequency_penalty, presence_penalty, logit_bias, response_format, tools, tool_choice, parallel_tool_calls, functions,
function_call, reasoning_effort, modalities, prediction, service_tier, store, metadata, user, safety_identifier,
prompt_cache_key, verbosity, web_search_options.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from online.errors import BadInput

DEFAULT_MAX_TOKENS = 1024


class ChatTextPart(BaseModel):
    """A part of a message. Only texts can be read."""

    type: Literal["text"]
    text: str


class ChatTurn(BaseModel):
    """A message of a conversation."""

    role: Literal["developer", "system", "user", "assistant", "tool"]
    content: str | list[ChatTextPart] | None = None

    def as_plain(self) -> dict[str, str]:
        """Return the message as chat templates take it."""
        parts = self.content if isinstance(self.content, list) else None
        text = "".join(part.text for part in parts) if parts is not None else self.content or ""
        return {"role": "system" if self.role == "developer" else self.role, "content": str(text)}


class UsageOptions(BaseModel):
    """Options of a stream. include_usage: whether its last chunk has the usage."""

    include_usage: bool = False


class ChatBody(BaseModel):
    """The body of a chat completion."""

    model_config = ConfigDict(extra="allow")

    model: str
    messages: Annotated[list[ChatTurn], Field(min_length=1)]
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    max_completion_tokens: Annotated[int, Field(ge=1)] | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    seed: Annotated[int, Field(ge=-(2**63), lt=2**63)] | None = None
    stop: str | Annotated[list[str], Field(max_length=4)] | None = None
    stream: bool | None = None
    stream_options: UsageOptions | None = None
    n: Literal[1] | None = None
    logprobs: Literal[False] | None = None

    @property
    def limit(self) -> int:
        """The most tokens of the answer."""
        return self.max_completion_tokens or self.max_tokens or DEFAULT_MAX_TOKENS

    @property
    def stops(self) -> tuple[str, ...]:
        """The stop sequences that are not empty."""
        stops = [self.stop] if isinstance(self.stop, str) else self.stop or []
        return tuple(each for each in stops if each)

    @property
    def ignored(self) -> list[str]:
        """The names of the fields that do not count."""
        return sorted(self.model_extra or {})


def parse_chat_body(data: bytes) -> ChatBody:
    """Return the body of a request. Raises BadInput."""
    try:
        return ChatBody.model_validate_json(data)
    except ValidationError as error:
        first: Any = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "the body"
        raise BadInput(f"{place}: {first['msg']}") from None

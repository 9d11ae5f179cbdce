"""Chat completions in OpenAI's shape. Fields that are not listed here are ignored."""

from typing import Any, Literal

from pydantic import Field

from online.schemas.fields import Name, Text, Wire


class ChatPart(Wire):
    type: str
    text: Text | None = None


class ChatMessage(Wire):
    role: str
    content: Text | list[ChatPart] | None = None

    def text(self) -> str:
        """The text of the message, without images and other parts."""
        if isinstance(self.content, str):
            return self.content
        return "\n".join(part.text for part in self.content or [] if part.type == "text" and part.text)


class StreamOptions(Wire):
    include_usage: bool = False


class ChatUser(Wire):
    """A user, as the pipelines of Open WebUI send it."""

    id: Name


class ChatRequest(Wire):
    """A request for a completion. The last message of the user is the question.

    A short follow-up ("And in colour?") is read with the user's messages before it; all other messages are ignored.
    """

    model: str = Field(description="The name of a ranker.")
    messages: list[ChatMessage] = Field(min_length=1)
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    n: Literal[1] | None = 1
    user: Name | ChatUser | None = None
    metadata: dict[str, Any] | None = Field(
        None, description="Only `task` is read: it marks a task of the page, which is not a question."
    )


class ChatReply(Wire):
    role: Literal["assistant"]
    content: str


class ChatChoice(Wire):
    index: int
    message: ChatReply
    finish_reason: Literal["stop"]


class ChatUsage(Wire):
    """Counts of words. The model chooses among whole replies, so it has no tokens."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class ChatAnswer(Wire):
    id: str = Field(description="The prediction_id that feedback refers to. The id of a task accepts no feedback.")
    object: Literal["chat.completion"]
    created: int
    model: str
    system_fingerprint: str = Field(description="The version that answered.")
    choices: list[ChatChoice]
    usage: ChatUsage
    feedback_url: str | None = Field(None, description="A signed URL; its holder may rate this answer.")


class ChatErrorText(Wire):
    message: str
    type: str
    param: str | None
    code: str | None


class ChatError(Wire):
    """An error, as the clients of OpenAI expect it."""

    error: ChatErrorText

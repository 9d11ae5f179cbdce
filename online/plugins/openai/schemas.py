"""Chat completions in OpenAI's shape. Fields that are not listed here are ignored."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag

from online.schemas.fields import Name, Text, Wire
from online.schemas.json_values import JSONObject

TEXTS = ("text", "input_text", "output_text")  # types of parts; the longer two are those of OpenAI's newer API


class ChatPart(Wire):
    """A part of a message; only texts are read."""

    type: str
    text: Text | None = None


def _read_part(part: object) -> object:
    """Return a part of a message. Some clients send a text in its place, or null."""
    return {"type": "text", "text": part} if part is None or isinstance(part, str) else part


def _name_type(content: object) -> str | None:
    return "text" if isinstance(content, str) else "parts" if isinstance(content, list) else None


# the tags are parts of the place in an error, so that it names the form that was sent, and not each form that it might be
Content = Annotated[
    Annotated[Text, Tag("text")] | Annotated[list[Annotated[ChatPart, BeforeValidator(_read_part)]], Tag("parts")],
    Discriminator(
        _name_type,
        custom_error_type="content",
        custom_error_message="it must be a text, a list of parts such as {'type': 'text', 'text': '...'}, or null",
    ),
]


class ChatMessage(Wire):
    """A message of a chat."""

    role: str
    content: Content | None = None

    def text(self) -> str:
        """Return the text of the message, without images and other parts."""
        if isinstance(self.content, str):
            return self.content
        return "\n".join(part.text for part in self.content or [] if part.type in TEXTS and part.text)


class StreamOptions(Wire):
    """Options of a stream."""

    include_usage: bool | None = False


class ChatUser(Wire):
    """A user, as the pipelines of Open WebUI send it."""

    id: Name


def _drop_empty(user: object) -> object:
    """Return the user, None for an empty name: some clients always send the field."""
    return None if user == "" else user


def _name_user_type(user: object) -> str | None:
    return "name" if isinstance(user, str) else "object" if isinstance(user, dict | ChatUser) else None


User = Annotated[
    Annotated[Name, Tag("name")] | Annotated[ChatUser, Tag("object")],
    Discriminator(
        _name_user_type,
        custom_error_type="user",
        custom_error_message="it must be a text, an object with an 'id', or null",
    ),
]


class ChatRequest(Wire):
    """A request for a completion. The last message of the user is the question.

    A short follow-up ("And in colour?") is read with the user's messages before it; all other messages are ignored.
    """

    model: str = Field(description="The name of a model that chats: a ranker, or a router.")
    messages: list[ChatMessage] = Field(min_length=1)
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    n: Literal[1] | None = 1
    user: Annotated[User | None, BeforeValidator(_drop_empty)] = None
    metadata: JSONObject | None = Field(
        None, description="Only `task` is read: it marks a task of the page, which is not a question."
    )


class ChatReply(Wire):
    """The message that answers."""

    role: Literal["assistant"]
    content: str


class ChatChoice(Wire):
    """The only choice of a completion."""

    index: int
    message: ChatReply
    finish_reason: Literal["stop"]


class ChatUsage(Wire):
    """Counts of words. The model chooses among whole replies, so it has no tokens."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class ChatAnswer(Wire):
    """A chat completion."""

    id: str = Field(description="The prediction_id that feedback refers to. The id of a task accepts no feedback.")
    object: Literal["chat.completion"]
    created: int
    model: str
    system_fingerprint: str = Field(description="The version that answered.")
    choices: list[ChatChoice]
    usage: ChatUsage
    feedback_url: str | None = Field(None, description="A signed URL; its holder may rate this answer.")


class ChatErrorText(Wire):
    """An error in OpenAI's shape."""

    message: str
    type: str
    param: str | None
    code: str | None


class ChatError(Wire):
    """An error, as the clients of OpenAI expect it."""

    error: ChatErrorText

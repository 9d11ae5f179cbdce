"""The facts of a chat request that a router reads, and the body that a route is sent: everything else passes through untouched.

messages, tools, response_format, ... --> facts: the instance that is predicted and logged
                                      --> the routes that cannot answer it
"""

import hashlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from pydantic_core import from_json

from online.plugins.openai.chat_requests import ReceivedChat
from online.plugins.router.inputs import CHARS_PER_TOKEN, StatedFacts
from online.plugins.router.route_settings import RouteSettings
from online.schemas.json_values import JSON, JSONObject

NO_TEXT = "(no text)"
OWN_FIELDS = ("stream_options",)  # of a request, which the client of a route sets itself


class RoutedRequest(NamedTuple):
    """A chat request as a router needs it. facts: the instance that is predicted. body: that a route is sent.

    conversation: a name for the conversation of the request, which stays the same from turn to turn.
    """

    chat: ReceivedChat
    facts: JSONObject
    body: JSONObject
    conversation: str

    def build_instance(self, excluded: Sequence[str], held: str, group: str | None) -> StatedFacts:
        """Return the instance that is predicted. excluded: routes. held: of the conversation so far; "" for none."""
        stated = {"exclude": list(excluded), "held": held, "group": group}
        return StatedFacts(self.facts | {name: value for name, value in stated.items() if value})


def read_request(chat: ReceivedChat, max_chars: int) -> RoutedRequest:
    """Return what a router needs of a request. max_chars: of its question that are read."""
    content: JSONObject = from_json(chat.body)
    facts = describe_request(chat, content, max_chars)
    return RoutedRequest(chat, facts, build_upstream_body(content), identify_conversation(chat, content))


def describe_request(chat: ReceivedChat, content: JSONObject, max_chars: int) -> JSONObject:
    """Return the instance of a request: the question, and plain facts about everything around it. content: the whole request."""
    messages = content["messages"]
    texts = [text for message in messages for text in list_texts(message.get("content"))]
    question = chat.question.strip() or next((text for text in reversed(texts) if text.strip()), NO_TEXT)
    limit = content.get("max_completion_tokens") or content.get("max_tokens") or 0
    facts: JSONObject = {
        "text": question[:max_chars],
        "context_chars": sum(map(len, texts)),
        "turns": sum(message.get("role") == "assistant" for message in messages),
        "tools": len(content["tools"]) if isinstance(content.get("tools"), list) else 0,
        "images": sum(1 for message in messages for _ in list_images(message.get("content"))),
        "json": bool(content.get("response_format")),
        "max_tokens": limit if isinstance(limit, int) and not isinstance(limit, bool) and limit > 0 else 0,
        "task": chat.task is not None,
    }
    return {name: value for name, value in facts.items() if value}


def list_texts(content: JSON) -> Iterator[str]:
    """Yield the texts of a message's content."""
    if isinstance(content, str):
        yield content
    for part in content if isinstance(content, list) else ():
        if isinstance(part, dict) and isinstance(part.get("text"), str):
            yield part["text"]


def list_images(content: JSON) -> Iterator[JSON]:
    """Yield the images, sounds and files of a message's content."""
    for part in content if isinstance(content, list) else ():
        if isinstance(part, dict) and part.get("type") in (
            "image_url",
            "input_image",
            "input_audio",
            "file",
            "input_file",
        ):
            yield part


def can_answer(route: RouteSettings, facts: JSONObject) -> bool:
    """Return whether a route takes requests like this one."""
    tokens = facts.get("context_chars", 0) / CHARS_PER_TOKEN
    is_too_long = bool(route.context_tokens) and tokens > route.context_tokens
    lacks = (facts.get("images") and not route.reads_images) or (facts.get("tools") and not route.calls_tools)
    return not is_too_long and not lacks


def identify_conversation(chat: ReceivedChat, content: JSONObject) -> str:
    """Return a name for the conversation of a request: its first messages and its user stay the same from turn to turn."""
    messages = content["messages"]
    first = next((place for place, message in enumerate(messages) if message.get("role") == "user"), 0)
    beginning = repr([chat.user, chat.parsed.model, *(message.get("content") for message in messages[: first + 1])])
    return hashlib.sha256(beginning.encode("utf-8", "surrogatepass")).hexdigest()


def build_upstream_body(content: JSONObject) -> JSONObject:
    """Return the body that a route is sent, before its own model, system prompt and parameters are put in."""
    body = {name: value for name, value in content.items() if name not in OWN_FIELDS}
    metadata = body.get("metadata")
    if isinstance(metadata, dict) and "task" in metadata:  # it is meant for us
        body["metadata"] = {name: value for name, value in metadata.items() if name != "task"}
    if not body.get("metadata"):
        body.pop("metadata", None)
    return body

"""Reading of chat requests: the question, the instructions, the task of a page, the user and the message."""

from typing import NamedTuple

from fastapi import Request

from online.errors import BadInput
from online.plugins.openai.page_tasks import TASK_NAMES, PageTask, recognise_task
from online.plugins.openai.schemas import ChatMessage, ChatRequest, ChatUser
from online.serving.feedback.feedback_slots import MAX_USER, clip_text

ID_PREFIX = "chatcmpl-"  # of the id of a completion
MAX_MESSAGE_ID_CHARS = 128


class ReceivedChat(NamedTuple):
    """A request for a completion. body: JSON, with the fields that `parsed` does not have. task: of the page.

    id_prefix: of the id of its completion, by which the wire formats differ.

    question: the last text of the user; "" without one. user: that the request names. message_id: of the answer in the page.
    """

    parsed: ChatRequest
    body: bytes
    question: str
    task: PageTask | None
    user: str | None
    message_id: str | None
    id_prefix: str = ID_PREFIX


def receive_chat(request: Request, parsed: ChatRequest, body: bytes, id_prefix: str = ID_PREFIX) -> ReceivedChat:
    """Return a request as those need it that complete it. Raises BadInput."""
    most = request.app.state.runtime.settings.max_text_chars
    asked = [message.text() for message in parsed.messages if message.role == "user"]
    question = asked[-1] if asked else ""
    task = recognise_task(task_name(request, parsed), instructions_of(parsed.messages)[:most], question[:most])
    user, message_id = read_user(request, parsed), read_message_id(request)
    return ReceivedChat(parsed, body, question, task, user, message_id, id_prefix)


def read_question(messages: list[ChatMessage]) -> str:
    """Return the text of the user's last message. Raises BadInput where it has none."""
    place = max((place for place, message in enumerate(messages) if message.role == "user"), default=None)
    if place is None:
        roles = ", ".join(sorted({repr(message.role[:40]) for message in messages})[:8])
        raise BadInput(f"no message has the role 'user', whose last text is the question; the roles are {roles}")
    if (question := messages[place].text()).strip():
        return question
    raise BadInput(
        f"messages.{place}: the last message of the role 'user' is the question, and has no text; other parts, such as images, are "
        "not read"
    )


def instructions_of(messages: list[ChatMessage]) -> str:
    """Return the last text of the page itself; "" where there is none."""
    return next((message.text() for message in reversed(messages) if message.role in ("system", "developer")), "")


def task_name(request: Request, parsed: ChatRequest) -> str:
    """Return the name that the page gives its task; "" for a question.

    Other applications use metadata for their own purposes, so only the known names count there.
    """
    name = str((parsed.metadata or {}).get("task"))
    return request.headers.get("x-task") or (name if name in TASK_NAMES else "")


def read_message_id(request: Request) -> str | None:
    """Return the id of the answer in the caller's page; None where it sends none. Raises BadInput."""
    id = request.headers.get("x-message-id", "").strip()
    if len(id) > MAX_MESSAGE_ID_CHARS:
        raise BadInput(f"X-Message-Id has {len(id)} characters; at most {MAX_MESSAGE_ID_CHARS} are accepted")
    return id if id and "{{" not in id else None  # a page that does not know a variable sends its placeholder


def read_user(request: Request, parsed: ChatRequest) -> str | None:
    """Return the user that the body names, or the one that Open WebUI forwards."""
    user = parsed.user.id if isinstance(parsed.user, ChatUser) else parsed.user
    return user or clip_text(request.headers.get("x-openwebui-user-id"), MAX_USER)

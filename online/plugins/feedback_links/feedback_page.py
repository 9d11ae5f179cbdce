"""The page of a feedback URL: the question, the answer, and a form for what its holder thinks of it.

prediction --describe_input--> a text, rows of a table, or a drawing
           --load_page-------> with the answer, and the classes to choose from --> feedback.html
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from fastapi import Request, Response
from sqlalchemy import Connection

from online.api.responses import live_headers
from online.api.web.server_pages import ServerPages
from online.errors import BadInput, TextTooLong
from online.models import input_options, spec_of
from online.schemas.access.callers import Caller
from online.schemas.feedback import FeedbackItem, Receipt
from online.serving.model_runtime import ModelRuntime
from online.settings import Settings
from online.store.classes import load_classes
from online.store.conversations.conversations import load_texts
from online.store.conversations.turns import extract_question
from online.store.predictions import PredictionRow

# Links are passed on in mails and chats: the page must not be cached, framed, indexed, or named to other sites.
HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "same-origin",  # with no-referrer the form would be sent without its origin
    "X-Robots-Tag": "noindex",
}
DRAWING_WIDTH = 8  # of models that take drawings: rows of 64 numbers, as those of the page Draw
MAX_ROWS = 50  # of a table that is shown
MAX_NUMBERS = 20
MAX_CLASSES = 12  # that are offered as buttons


@dataclass(frozen=True, slots=True)
class RatedInput:
    """The input of the rated prediction: one of the three fields. All are empty where it was erased. drawing: (x, y, darkness) of each cell."""

    text: str | None = None
    rows: tuple[tuple[str, str], ...] = ()
    drawing: tuple[tuple[int, int, float], ...] = ()


@dataclass(frozen=True, slots=True)
class PageNotice:
    """The notice at the top of the page. says: the names of messages. given: values that messages quote."""

    says: tuple[str, ...]
    kind: Literal["good", "warn", "bad"] = "good"
    thanks: bool = False
    given: tuple[object, ...] = ()

    def write(self, messages: Mapping[str, str]) -> str:
        """Return the sentences of the notice in a language."""
        return " ".join(messages[name].format(*self.given) for name in self.says)


def thank_for(item: FeedbackItem, receipt: Receipt | None) -> PageNotice:
    """receipt: None where the item was given earlier."""
    is_held = receipt is not None and receipt.status == "held"
    given = item.correction or item.label
    if given is not None:
        says = "said_corrected"
    else:
        says = "said_helped" if (item.reward or 0) >= 0.5 else "said_did_not_help"
    return PageNotice((says, "held") if is_held else (says,), "warn" if is_held else "good", True, (given,))


def complain(error: BadInput, fields: Mapping[str, str]) -> PageNotice:
    """Return the notice that explains refused feedback."""
    if isinstance(error, TextTooLong):
        return PageNotice(("too_long",), "bad", given=(error.given, error.limit))
    is_empty = not any(value.strip() for value in fields.values())
    return PageNotice(("empty" if is_empty else "invalid",), "bad")


async def render_page(
    request: Request,
    model: ModelRuntime,
    prediction: PredictionRow,
    caller: Caller,
    item: FeedbackItem | None,
    notice: PageNotice | None = None,
    status: int = 200,
) -> Response:
    """item: what the link holds now. caller: decides whether the page offers to teach."""
    pages: ServerPages = request.app.state.server_pages
    settings: Settings = request.app.state.runtime.settings
    task, name = spec_of(model.spec.kind).task, model.spec.name
    recipe = model.live.encoder_config.recipe

    def load(connection: Connection) -> tuple[str | None, list[str]]:
        answer, classes = prediction.choice, list[str]()
        if answer is not None and task == "ranking":
            answer = load_texts(connection, name, [answer]).get(answer)
        if task == "classification":
            classes = [each.id for each in load_classes(connection, name, recipe) if each.active]
        return answer, classes if 1 < len(classes) <= MAX_CLASSES else []

    answer, classes = await model.read(load)
    return pages.render(
        request,
        "feedback.html",
        status,
        {**HEADERS, **live_headers(model)},
        task=task,
        question=describe_input(json.loads(prediction.input), takes_drawings(model)),
        answer=answer,
        abstained=prediction.choice is None,
        item=item,
        notice=notice,
        classes=classes,
        may_teach=caller.may("teach") or caller.is_reviewed,
        max_chars=settings.max_text_chars,
        max_label_chars=settings.max_label_chars,
    )


def takes_drawings(model: ModelRuntime) -> bool:
    """Return whether the inputs of a model are square grey images, which the page shows as drawings."""
    options = input_options(model.spec.kind, model.spec.options)
    is_square = options.get("input") == "vector" and options.get("size") == DRAWING_WIDTH**2
    return is_square and spec_of(model.spec.kind).task == "classification"


def describe_input(instance: object, is_drawing: bool) -> RatedInput:
    """instance: None where it was erased."""
    question = extract_question(instance)
    if question is None or isinstance(question, str):
        return RatedInput(text=question)
    if isinstance(question, dict):
        return RatedInput(rows=tuple((str(key), write_value(value)) for key, value in [*question.items()][:MAX_ROWS]))
    if is_drawing and isinstance(question, list) and len(question) == DRAWING_WIDTH**2:
        return RatedInput(drawing=draw(question))
    numbers = question if isinstance(question, list) else [question]
    more = "…" if len(numbers) > MAX_NUMBERS else ""
    return RatedInput(text=", ".join(map(write_value, numbers[:MAX_NUMBERS])) + more)


def draw(numbers: list[float]) -> tuple[tuple[int, int, float], ...]:
    """Return (x, y, darkness from 0 to 1) of each cell that is not white."""
    darkest = max(max(numbers), 1e-9)
    cells = ((place % DRAWING_WIDTH, place // DRAWING_WIDTH, number) for place, number in enumerate(numbers))
    return tuple((x, y, round(number / darkest, 3)) for x, y, number in cells if number > 0)


def write_value(value: object) -> str:
    """Return a value of a row as the page shows it."""
    return f"{value:.6g}" if isinstance(value, float) else value if isinstance(value, str) else json.dumps(value)

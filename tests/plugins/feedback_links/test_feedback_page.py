"""What the page of a feedback URL shows of an input, and what it says about the feedback that was given."""

from typing import Any

import pytest

from online.api.web import messages as api_messages
from online.errors import BadInput, TextTooLong
from online.plugins.feedback_links.feedback_page import RatedInput, complain, describe_input, thank_for
from online.plugins.feedback_links.messages import ERRORS, MESSAGES
from online.schemas.feedback import FeedbackItem, Receipt
from tests.api.web.sentences import check_languages

EN = MESSAGES["en"]


@pytest.mark.parametrize(
    ("instance", "shown"),
    [
        ("When?", RatedInput(text="When?")),
        ({"text": "And on Sunday?", "history": ["When?"]}, RatedInput(text="And on Sunday?")),
        (None, RatedInput()),
        ([1.0, 2.5], RatedInput(text="1, 2.5")),
        ([0.5] * 30, RatedInput(text=", ".join(["0.5"] * 20) + "…")),
        (
            {"colour": "green", "x": 0.25, "ok": True},
            RatedInput(rows=(("colour", "green"), ("x", "0.25"), ("ok", "true"))),
        ),
    ],
)
def test_an_input_is_shown_as_a_text_or_as_rows(instance: Any, shown: RatedInput) -> None:
    assert describe_input(instance, is_drawing=False) == shown


def test_a_drawing_is_shown_as_its_dark_cells() -> None:
    pixels = [0.0] * 64
    pixels[9], pixels[63] = 16.0, 4.0
    assert describe_input(pixels, is_drawing=True).drawing == ((1, 1, 1.0), (7, 7, 0.25))
    assert describe_input([0.0] * 64, is_drawing=True).drawing == ()


@pytest.mark.parametrize(
    ("item", "words"),
    [
        (FeedbackItem(prediction_id="p", reward=1), "You said that the answer helped."),
        (FeedbackItem(prediction_id="p", reward=0), "You said that the answer did not help."),
        (FeedbackItem(prediction_id="p", correction="At {nine}."), "You said that the right answer is: “At {nine}.”"),
        (FeedbackItem(prediction_id="p", label="7"), "You said that the right answer is: “7”"),
    ],
)
def test_the_page_repeats_what_was_said(item: FeedbackItem, words: str) -> None:
    assert thank_for(item, None).write(EN) == words


def test_the_page_says_that_feedback_waits_for_a_reader() -> None:
    item = FeedbackItem(prediction_id="p", correction="At ten.")
    notice = thank_for(item, Receipt(id="f", offset=0, status="held"))
    assert notice.kind == "warn" and notice.write(EN).endswith("Somebody will read it before the answers change.")


def test_the_page_says_what_is_wrong_without_an_error_of_the_api() -> None:
    assert complain(BadInput("correction: x"), {"correction": "a"}).write(EN).startswith("That could not be saved.")
    assert complain(BadInput("none of them"), {"correction": " "}).write(EN) == "Please write an answer first."
    assert complain(TextTooLong("it", 9, 8), {"correction": "x"}).write(EN) == "Too long: 9 of 8 characters."


def test_no_language_lacks_a_sentence() -> None:
    assert MESSAGES.keys() == api_messages.MESSAGES.keys()
    check_languages(MESSAGES, ERRORS)

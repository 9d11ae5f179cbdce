"""A short question that leaves out its subject is read with the question before it; every other one alone."""

import json
from pathlib import Path
from typing import Any

import pytest

from online.models.encoders.follow_ups import add_previous, is_follow_up, read_text

PRINT = "How much is it to print a page?"
REPERTOIRE = Path(__file__).parents[3] / "data" / "repertoire.jsonl"


@pytest.mark.parametrize(
    "text",
    [
        "And in colour?",
        "What about Saturdays?",
        "ok, and for students?",
        "For how long?",
        "When?",
        "How much is it?",
        "How many as a student?",
        "Do I have to book?",
        "Which coin do they take?",
        "Can I do that by phone?",
        "Is there a lift as well?",
    ],
)
def test_a_question_without_its_subject_is_a_follow_up(text: str) -> None:
    assert is_follow_up(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "👍",
        "thanks for that",
        "that's wrong",
        "how are you?",
        "what can you do?",
        "Where are the toilets?",
        "And where are the toilets?",
        "is it free to join",
        "what time is it?",
        "For how long may I keep a book that somebody else has reserved?",
    ],
)
def test_every_other_text_stands_alone(text: str) -> None:
    assert not is_follow_up(text)


def test_no_example_question_of_the_shipped_repertoire_is_a_follow_up() -> None:
    rows = [json.loads(line) for line in REPERTOIRE.read_text().splitlines()]
    assert [text for row in rows for text in row["examples"] if is_follow_up(text)] == []


def test_a_follow_up_is_stored_with_the_question_before_it() -> None:
    stored = {"text": "And in colour?", "previous": PRINT}
    assert add_previous("And in colour?", ["Do you have wifi?", PRINT]) == stored
    assert add_previous({"text": "And in colour?", "previous": ["Do you have wifi?", PRINT]}) == stored
    assert read_text(stored) == f"{PRINT} And in colour?"


@pytest.mark.parametrize(
    ("previous", "text", "read"),
    [
        ("Do you have books in Polish?", "And in Ukrainian?", "Do you have books in Ukrainian?"),
        ("How do I get to you by bus?", "By train?", "How do I get to you by train?"),
        ("Do you lend DVDs?", "What about video games?", "Do you lend video games?"),
        ("Can I borrow a guitar?", "And a piano?", "Can I borrow a piano?"),
        ("In which room is it?", "In colour?", "In which room is it? In colour?"),
        ("When is story time?", "And for babies?", "When is story time? And for babies?"),
        ("Printing costs?", "And scanning?", "Printing costs? And scanning?"),
        ("When is story time?", "And?", "When is story time? And?"),
    ],
)
def test_what_a_follow_up_names_takes_the_place_of_what_the_question_was_about(
    previous: str, text: str, read: str
) -> None:
    assert read_text({"text": text, "previous": previous}) == read


def test_a_chain_of_follow_ups_keeps_its_subject() -> None:
    stored = add_previous("And A3?", [PRINT, "And in colour?"])
    assert read_text(stored) == f"{PRINT} And in colour? And A3?" == read_text(add_previous(stored))


@pytest.mark.parametrize("question", ["Where are the toilets?", {"text": "Where are the toilets?"}, 5, {"x": 1.0}])
def test_other_instances_are_stored_as_they_come(question: Any) -> None:
    assert add_previous(question, [PRINT]) == question


def test_a_question_that_stands_alone_is_stored_without_what_came_before() -> None:
    assert add_previous({"text": "Where are the toilets?", "previous": [PRINT]}) == "Where are the toilets?"


def test_a_question_asked_again_is_not_its_own_subject() -> None:
    again = add_previous("And in colour?", [PRINT, "And in colour?"])
    assert again == {"text": "And in colour?", "previous": PRINT}


def test_a_follow_up_without_a_question_before_it_stands_alone() -> None:
    assert add_previous("And in colour?") == "And in colour?" == read_text("And in colour?")


def test_a_very_long_question_before_is_left_out() -> None:
    assert read_text({"text": "And in colour?", "previous": "print " * 100}) == "And in colour?"


@pytest.mark.parametrize("instance", ["", None, 5, {"text": " "}, {"text": 7, "previous": "a"}])
def test_an_instance_without_a_text_has_none_to_read(instance: Any) -> None:
    assert read_text(instance) is None

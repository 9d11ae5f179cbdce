"""Grouping of the questions that are asked most."""

import numpy as np
import pytest

from online.models.encoders.text import TEXT_WIDTH
from online.plugins.usage.questions import AskedQuestion
from online.plugins.usage.summary import wilson_interval
from online.plugins.usage.top_questions import collect_texts, describe_group, group_by_meaning


def asked(text: str, choice: str | None, count: int, newest: str, good: int = 0, bad: int = 0) -> AskedQuestion:
    return AskedQuestion(f'"{text}"', choice, count, good, bad, newest, f"2026-05-01T00:00:0{newest}")


def direction(place: int) -> bytes:
    vector = np.zeros(TEXT_WIDTH, np.int8)
    vector[place] = 100
    return vector.tobytes()


def test_a_question_in_the_same_words_is_counted_once_however_it_is_written() -> None:
    texts = collect_texts(
        [asked("Is it  Open?", "a", 2, "1"), asked("is it open?", None, 1, "2"), asked("Tea", "b", 1, "3")]
    )
    assert [(each.text, each.asked, each.newest) for each in texts] == [("Is it Open?", 3, "2"), ("Tea", 1, "3")]


def test_inputs_that_are_no_texts_are_left_out() -> None:
    assert (
        collect_texts(
            [AskedQuestion("[1.0, 2.0]", "a", 1, 0, 0, "1", ""), AskedQuestion('{"x": 1}', "a", 1, 0, 0, "2", "")]
        )
        == []
    )


def test_questions_of_one_meaning_are_one_group_with_the_reply_mostly_given() -> None:
    questions = [asked("opening hours", "hours", 5, "1", good=2), asked("when open", "hours", 4, "2", bad=1)]
    questions += [asked("when open", None, 3, "3"), asked("opening hours", "tea", 1, "1"), asked("tea", "tea", 6, "4")]
    texts = collect_texts(questions)
    groups = group_by_meaning(texts, {"1": direction(0), "3": direction(0), "4": direction(1)})
    first = describe_group(groups[0], {"hours": "We open at nine."})
    assert (first.text, first.variants, first.asked, first.unanswered) == ("when open", ["opening hours"], 13, 3)
    assert (first.reply, first.reply_text, first.reply_count) == ("hours", "We open at nine.", 9)
    assert first.satisfaction == pytest.approx(2 / 3) and first.prediction_id == "3"
    assert [each.text for each in groups[1]] == ["tea"]


def test_questions_that_usually_get_different_replies_are_different_groups() -> None:
    questions = [
        asked("scanner", "scanning", 3, "1"),
        asked("3D printer", "printing", 2, "2"),
        asked("fax", None, 1, "3"),
    ]
    texts = collect_texts([*questions, asked("telefax", None, 1, "4")])
    groups = group_by_meaning(texts, {number: direction(0) for number in "1234"})
    assert [[each.text for each in group] for group in groups] == [["scanner"], ["3D printer"], ["fax", "telefax"]]


def test_a_text_without_an_embedding_is_a_group_of_its_own() -> None:
    texts = collect_texts([asked("a", "x", 1, "1"), asked("b", "x", 2, "2")])
    assert [[each.text for each in group] for group in group_by_meaning(texts, {"1": b"short"})] == [["b"], ["a"]]


def test_the_interval_of_a_share_is_wilsons() -> None:
    assert wilson_interval(0, 0) == (None, None)
    assert wilson_interval(9, 10) == pytest.approx((0.5958, 0.9821), abs=1e-4)
    assert wilson_interval(10, 10) == pytest.approx((0.7225, 1.0), abs=1e-4)

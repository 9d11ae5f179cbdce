"""Labelled rows of Vowpal Wabbit's text: repeated features, tags, weights, categories and labels."""

from pathlib import Path
from typing import Any

import pytest

from online.errors import BadInput
from online.evaluation.replay.candidate_specs import CandidateSpec
from online.evaluation.replay.replay import Replay
from online.evaluation.sources.bad_lines import BadLines
from online.evaluation.sources.opening import open_source
from online.evaluation.sources.vw_text import parse_features, parse_labelled_row


@pytest.mark.parametrize(
    ("text", "features"),
    [
        (" ok ok ok", {"ok": 3}),
        ("x a a |x a |y a", {"x^a": 3, "y^a": 1}),
        (" a:1 b a:-1", {"a": 0, "b": 1}),
        ("f :3 |f :4", {"f^0": 7}),
        (" a:2|x:2 a:3 a", {"a": 2, "x^a": 8}),
    ],
)
def test_repeated_features_add_up(text: str, features: dict[str, float]) -> None:
    assert parse_features(text) == features


@pytest.mark.parametrize("before", ["1 'id7 ", "1 'id7", "1 id7", "1 id7 ", "1 1 'id7 ", "1 1 0 id7"])
def test_a_tag_may_touch_the_bar_or_stand_apart(before: str) -> None:
    assert parse_labelled_row(f"{before}| a:2") == ("1", {"a": 2.0})


@pytest.mark.parametrize("written", ["1", "+1", "1.0", "1.", "1e0", "01"])
def test_a_class_is_the_same_however_its_number_is_written(written: str) -> None:
    assert parse_labelled_row(f"{written} | a")[0] == "1"


@pytest.mark.parametrize(
    ("text", "features"),
    [("colour=red", {"colour=red": 1.0}), ("colour:red", {"colour": "red"}), ("a:red a:red", {"a": "red"})],
)
def test_a_word_as_a_value_is_a_category(text: str, features: dict[str, Any]) -> None:
    assert parse_features(f" {text}") == features


UNUSABLE = [
    ("1 2 | a", "has the importance weight 2, which no model here takes; leave it out"),
    ("1 0 | a", "has the importance weight 0"),
    ("1 1 0.5 | a", "has the base 0.5"),
    ("1 1 0 4 | a", "not '1 1 0 4'"),
    ("| a", "there is no label"),
    ("'tag | a", "there is no label"),
    ("1| a", "there is no label; 1 touches the bar, which makes it a tag: put a blank between"),
    ("1:0.5 2:1 | a", "1:0.5 is a class with a cost (csoaa)"),
    ("1_0 | a", "not '1_0'"),
    ("0x1 | a", "not '0x1'"),
    ("1 a:1", "expected `label |features`"),
    ("1 | a:5b", "its feature 'a' has the value '5b', which is neither a number nor a word"),
    ("1 | a:1_0", "its feature 'a' has the value '1_0'"),
    ("1 | a:1:2", "its feature 'a' has the value '1:2'"),
    ("1 | a:red a:blue", "its feature 'a' has the values red and blue"),
    ("1 | a:red a", "its feature 'a' has the values red and 1.0"),
    ("1 |x:2 a:red", "its feature 'x^a' has the value 'red'"),
    ("1 |x:y a", "its namespace 'x' has the scale 'y', which is not a number"),
    ("1 | a:nan", "has NaN"),
]


@pytest.mark.parametrize(("line", "words"), UNUSABLE, ids=[line for line, _ in UNUSABLE])
def test_an_unusable_line_is_named_with_the_reason(tmp_path: Path, line: str, words: str) -> None:
    path = tmp_path / "rows.vw"
    path.write_text(f"1 | b\n{line}\n-1 | c\n")
    replay = Replay(open_source(str(path)), CandidateSpec("classifier"))
    with pytest.raises(BadInput) as caught:
        replay.run()
    assert str(caught.value).startswith("rows.vw, line 2: ") or "rows.vw, line 2" in str(caught.value)
    assert words in str(caught.value)


def test_a_text_that_repeats_its_words_is_learned_by_their_number(tmp_path: Path) -> None:
    path = tmp_path / "words.vw"
    path.write_text("1 | ok ok ok\n0 | ok\n" * 300)
    replay = Replay(open_source(str(path)), CandidateSpec("logistic"))
    replay.run()
    accuracy = replay.report().figures["accuracy"]
    assert accuracy is not None and accuracy > 0.99


def test_a_column_of_words_and_numbers_is_read(tmp_path: Path) -> None:
    path = tmp_path / "mixed.vw"
    path.write_text("1 | a:red\n0 | a:2\n" * 60)
    source = open_source(str(path))
    assert len([*source.instances()]) == 120
    bad = BadLines(1.0)
    assert len([*source.lines(bad)]) == 240 and not bad.count

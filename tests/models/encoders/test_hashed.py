"""Hashed text features: fixed for ever, short, and enough to tell questions apart."""

import json

import numpy as np
import pytest
from numpy.typing import NDArray

from online.errors import TextTooLong
from online.models import can_tune_encoder, create, encoder_options
from online.models.classifier import Classifier
from online.models.contract import Example
from online.models.encoders.factory import create_encoder
from online.models.encoders.hashed import HASHED_EPOCH, HashedTextEncoder, find_place, hash_text, split_words
from online.models.encoders.text import TEXT_WIDTH

OPTIONS = {"text_features": "hashed"}


def features(text: str) -> NDArray[np.int8]:
    return np.frombuffer(hash_text(text), np.int8)


def spell(text: str) -> list[str]:
    return ["".join(map(chr, word)) for word in split_words(text)]


def test_a_text_has_the_features_that_every_release_gives_it() -> None:
    row = features("Where is my order?")
    assert len(row) == TEXT_WIDTH
    assert [int(row.argmax()), int(row.max()), int(np.abs(row.astype(int)).sum())] == [216, 127, 3297]


def test_a_term_has_the_place_that_every_release_gives_it() -> None:
    assert find_place(1, tuple(map(ord, "order"))) == (230, -1)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Don’t  STOP!", ["don't", "stop"]),
        ("ÀÉ×Þ ß", ["àé", "þ", "ß"]),
        ("ΑΩ АЯЁ", ["αω", "аяё"]),
        ("I👍🏽you", ["i👍🏽you"]),
        ("e\u0301\ufe0fx", ["e\u0301", "x"]),
        ("\ud83d", ["\ud83d"]),
        ("日本語、です", ["日本語", "です"]),
        ("a_b-c.9", ["a", "b", "c", "9"]),
    ],
)
def test_words_are_small_letters_without_what_stands_between_them(text: str, words: list[str]) -> None:
    assert spell(text) == words


def test_case_and_punctuation_do_not_change_features() -> None:
    assert hash_text("Where is my order?") == hash_text("where is MY order")


def test_a_text_without_words_has_no_features() -> None:
    assert not features("?!").any()


def test_texts_that_share_words_are_alike() -> None:
    asked, alike, other = (features(text).astype(int) for text in ("track my order", "track the order", "play jazz"))
    assert asked @ alike > 3 * abs(asked @ other)


def test_an_instance_without_text_or_with_a_long_one_is_refused() -> None:
    encoder = HashedTextEncoder(max_chars=5)
    assert encoder.encode([{"text": "hi"}]) == encoder.encode(["hi"])
    with pytest.raises(ValueError, match="instance 1 must be a text"):
        encoder.encode(["a", 3])
    with pytest.raises(TextTooLong):
        encoder.encode(["a", "x" * 6])


def test_the_option_of_a_model_selects_the_encoder() -> None:
    encoder = create_encoder(encoder_options("classifier", OPTIONS), cache=None)  # type: ignore[arg-type]
    assert encoder.epoch == HASHED_EPOCH == create("classifier", OPTIONS).feature_epoch()
    assert create("classifier", {}).feature_epoch() != HASHED_EPOCH


def test_a_classifier_learns_from_hashed_texts() -> None:
    model = Classifier(OPTIONS)
    questions = {"order": ("where is my order", "track my order"), "music": ("play some jazz", "play a song")}
    rows = [(label, text) for label, texts in questions.items() for text in texts]
    model.learn([Example(n, "label", hash_text(text), label) for n, (label, text) in enumerate(rows)])
    assert model.predict([hash_text("my order please"), hash_text("a jazz song")])[0].choice == "order"


def test_there_is_no_network_to_tune() -> None:
    assert can_tune_encoder("classifier", {})
    assert not can_tune_encoder("classifier", OPTIONS)
    with pytest.raises(ValueError, match="no tuned encoder"):
        Classifier({**OPTIONS, "encoder": "ab"})


def test_vectors_are_not_hashed() -> None:
    with pytest.raises(ValueError, match="input = 'text'"):
        Classifier({**OPTIONS, "input": "vector", "size": 2})


def test_a_challenger_reads_the_same_features() -> None:
    model = create("classifier", {**OPTIONS, "challenger": {"kind": "classifier", "options": {"head": "ridge"}}})
    assert json.dumps(model.feature_epoch()).count(HASHED_EPOCH)
    with pytest.raises(ValueError, match="hashed text features"):
        create("classifier", {**OPTIONS, "challenger": {"kind": "knn"}})
    with pytest.raises(ValueError, match="text_features"):
        create("classifier", {"challenger": {"kind": "classifier", "options": OPTIONS}})


def test_a_member_of_an_ensemble_reads_what_the_ensemble_reads() -> None:
    with pytest.raises(ValueError, match="text_features"):
        create("ensemble", {"members": [{"kind": "classifier", **OPTIONS}, {"kind": "knn"}]})

"""Encoders: equal inputs give equal bytes, and an invalid input gives an error that names it."""

import json
import math
import shutil
from pathlib import Path

import numpy as np
import pytest

from online.models.encoders import minilm
from online.models.encoders.factory import create_encoder
from online.models.encoders.rows import TableEncoder, VectorEncoder
from online.models.encoders.text import TEXT_WIDTH, TextEncoder


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("encoder")


@pytest.fixture(scope="module")
def texts(cache: Path) -> TextEncoder:
    return TextEncoder(cache)


def cosine(one: bytes, other: bytes) -> float:
    a, b = (np.frombuffer(data, np.int8).astype(np.float64) for data in (one, other))
    return float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))


# texts


def test_a_text_becomes_a_vector_of_384_int8_numbers_with_norm_512(texts: TextEncoder) -> None:
    (features,) = texts.encode(["When do you open?"])
    assert len(features) == TEXT_WIDTH == 384
    assert np.linalg.norm(np.frombuffer(features, np.int8).astype(np.float64)) == pytest.approx(512, rel=0.01)


def test_a_text_gets_the_same_bytes_alone_and_in_a_batch(cache: Path) -> None:
    questions = [
        "When do you open?",
        "hi",
        "Ein Satz auf Deutsch, der etwas länger ist als die anderen.",
        "👍",
        "wifi " * 300,
    ]
    together = TextEncoder(cache).encode(questions)
    alone = TextEncoder(cache)
    assert [alone.encode([question])[0] for question in reversed(questions)] == together[::-1]


def test_a_text_gets_the_same_bytes_with_any_number_of_threads(cache: Path) -> None:
    questions = ["When do you open?", "How do I renew a book that somebody else has reserved?"]
    assert TextEncoder(cache, threads=1).encode(questions) == TextEncoder(cache, threads=2).encode(questions)


def test_similar_texts_have_similar_features(texts: TextEncoder) -> None:
    opening, hours, printer = texts.encode(
        ["When do you open?", "What are your opening hours?", "My printer is broken."]
    )
    assert cosine(opening, hours) > 0.6 > 0.3 > cosine(opening, printer)


def test_white_space_is_normalised(texts: TextEncoder) -> None:
    plain, spaced, wrapped = texts.encode(
        ["When do you open?", "  When \t do\n\nyou   open? ", {"text": "When do you open?"}]
    )
    assert plain == spaced == wrapped


@pytest.mark.parametrize(
    "instance", ["", "  \n ", None, 5, True, ["a text"], {"txt": "a text"}, {"text": 7}, {"text": " "}]
)
def test_an_instance_that_is_not_a_text_is_refused_with_its_index(texts: TextEncoder, instance: object) -> None:
    with pytest.raises(ValueError, match="instance 1 must be a text"):
        texts.encode(["fine", instance])


def test_a_text_beyond_the_limit_is_refused(cache: Path) -> None:
    with pytest.raises(ValueError, match="instance 0 has 101 characters; shorten it to at most 100"):
        TextEncoder(cache, max_chars=100).encode(["x" * 101])


def test_a_very_long_text_is_cut_at_the_limit_of_the_network(texts: TextEncoder) -> None:
    first, second = texts.encode(["wifi " * 600, "wifi " * 900])
    assert first == second


def test_the_graph_is_written_once_and_then_read(cache: Path, texts: TextEncoder) -> None:
    (path,) = cache.iterdir()
    before = path.stat().st_mtime_ns
    assert TextEncoder(cache).encode(["hi"]) == texts.encode(["hi"])
    assert [path] == list(cache.iterdir())
    assert path.stat().st_mtime_ns == before


def test_weights_with_another_hash_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    shutil.copy(minilm.package_folder() / "model.safetensors", path)
    with path.open("r+b") as file:
        file.seek(-1, 2)
        file.write(b"\x01")
    with pytest.raises(ValueError, match=f"expected {minilm.WEIGHTS_SHA256}: refused"):
        minilm.read_weights(tmp_path)


def test_the_published_weights_are_accepted() -> None:
    weights = minilm.read_weights(minilm.package_folder())
    assert weights["embeddings.word_embeddings.weight"].shape[1] == TEXT_WIDTH


# vectors


def test_a_vector_becomes_float64_bytes() -> None:
    (data,) = VectorEncoder(3).encode([[1, -2.5, 0.1]])
    assert np.frombuffer(data, np.float64).tolist() == [1.0, -2.5, 0.1]


@pytest.mark.parametrize(
    ("instance", "message"),
    [
        ([1.0, math.nan, 0.0], "instance 1 has nan at 1; numbers must be finite"),
        ([1.0, 0.0, math.inf], "instance 1 has inf at 2; numbers must be finite"),
        ([-math.inf, 0.0, 0.0], "instance 1 has -inf at 0; numbers must be finite"),
        ([1.0, 2.0], "instance 1 has 2 numbers; this model takes 3"),
        ([1.0, 2.0, 3.0, 4.0], "instance 1 has 4 numbers; this model takes 3"),
        ([], "instance 1 has 0 numbers; this model takes 3"),
        ([1.0, True, 0.0], "instance 1 must be numbers; at 1 it has true"),
        ([1.0, 0.0, "3"], 'instance 1 must be numbers; at 2 it has "3"'),
        ([1.0, None, 0.0], "instance 1 must be numbers; at 1 it has null"),
        ([1.0, [2.0], 0.0], "instance 1 must be numbers; at 1 it has a list"),
        ([1.0, 10**400, 0.0], "instance 1 has a number too large for a float64"),
        ("1,2,3", 'instance 1 must be a list of 3 numbers, not "1,2,3"'),
        ({"0": 1.0}, "instance 1 must be a list of 3 numbers, not a dict"),
        (None, "instance 1 must be a list of 3 numbers, not null"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_an_instance_that_is_not_a_vector_is_refused_with_its_index_and_the_cause(
    instance: object, message: str
) -> None:
    with pytest.raises(ValueError, match=f"^{message}"):
        VectorEncoder(3).encode([[1.0, 2.0, 3.0], instance])


def test_without_a_size_a_vector_of_any_length_is_accepted() -> None:
    assert [len(data) for data in VectorEncoder(0).encode([[1.0], [1.0, 2.0]])] == [8, 16]


# rows


def test_the_json_of_a_row_does_not_depend_on_the_order_of_its_names() -> None:
    one, other = TableEncoder().encode([{"b": 1, "a": "x", "c": None}, {"a": "x", "b": 1.0}])
    assert one == other == b'{"a":"x","b":1.0}'


def test_a_boolean_is_a_category_and_not_a_number() -> None:
    assert TableEncoder().encode([{"open": True, "full": False}]) == [b'{"full":"False","open":"True"}']


def test_a_list_becomes_a_row_named_by_indices() -> None:
    assert TableEncoder().encode([[1.5, "x", None]]) == [b'{"0":1.5,"1":"x"}']


def test_an_empty_row_is_accepted() -> None:
    assert TableEncoder().encode([{}]) == [b"{}"]


@pytest.mark.parametrize(
    ("instance", "message"),
    [
        ({"a": math.nan}, 'instance 1 has NaN as "a"; use a finite number'),
        ({"a": -math.inf}, 'instance 1 has -Infinity as "a"; use a finite number'),
        ({"a": [1]}, 'instance 1 has a list as "a"'),
        ({"a": {"b": 1}}, 'instance 1 has a dict as "a"'),
        ({"a": 10**400}, 'instance 1 has 1000.* as "a"'),
        ({"a": "x" * 1_001}, 'instance 1 has "xxx.* as "a"'),
        ([1.0, [2.0]], 'instance 1 has a list as "1"'),
        ("text", 'instance 1 must be an object of features, not "text"'),
        (None, "instance 1 must be an object of features, not null"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_an_instance_that_is_not_a_row_is_refused_with_its_index_and_the_cause(instance: object, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}"):
        TableEncoder().encode([{"a": 1}, instance])


def test_an_error_cuts_a_long_value() -> None:
    with pytest.raises(ValueError) as refused:
        TableEncoder().encode([{"a": "x" * 5_000}])
    assert len(str(refused.value)) < 200


def test_a_row_can_be_decoded() -> None:
    values = {"width": 0.1 + 0.2, "name": 'quote " and ü', "count": 3.0}
    assert json.loads(TableEncoder().encode([values])[0]) == values


@pytest.mark.parametrize(
    ("options", "kind"),
    [({"input": "vector", "size": 3}, VectorEncoder), ({"input": "table"}, TableEncoder), ({}, TextEncoder)],
    ids=["vector", "table", "text"],
)
def test_the_options_of_a_model_choose_its_encoder(options: dict[str, object], kind: type, cache: Path) -> None:
    assert isinstance(create_encoder(options, cache), kind)


# texts as people type them


@pytest.fixture(scope="module")
def typed(cache: Path) -> TextEncoder:
    return TextEncoder(cache, language="en")


def test_with_a_language_a_misspelt_text_is_encoded_as_it_was_meant(typed: TextEncoder, texts: TextEncoder) -> None:
    assert typed.encode(["how do i renw a book"]) == texts.encode(["how do i renew a book"])
    assert texts.encode(["how do i renw a book"]) != texts.encode(["how do i renew a book"])


def test_with_a_language_a_follow_up_is_encoded_with_the_question_before_it(
    typed: TextEncoder, texts: TextEncoder
) -> None:
    instance = {"text": "And in colour?", "previous": "How much is it to print a page?"}
    assert typed.encode([instance]) == texts.encode(["How much is it to print a page? And in colour?"])
    assert texts.encode([instance]) == texts.encode(["And in colour?"])


def test_a_text_that_needs_no_correction_has_the_same_features_with_a_language(
    typed: TextEncoder, texts: TextEncoder
) -> None:
    questions = ["When do you open?", "Wie kann ich ein Buch verlängern?", "And in colour?", "hi"]
    assert typed.encode(questions) == texts.encode(questions)


def test_features_with_a_language_have_their_own_epoch(typed: TextEncoder, cache: Path) -> None:
    assert typed.epoch.startswith(f"{TextEncoder.epoch}-en") and typed.epoch != TextEncoder.epoch
    created = create_encoder({"input": "text", "language": "en"}, cache)
    assert created.epoch == typed.epoch

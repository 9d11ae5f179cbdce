"""The input of a router: what a request becomes, and back."""

import time
from typing import Any

import numpy as np
import pytest

from online.errors import TextTooLong
from online.models.encoders.hashed import HashedTextEncoder, hash_text
from online.plugins.router.inputs import PLAIN, RoutedInput, RouterEncoder, StatedFacts, hash_route, measure

ENCODER = RouterEncoder(HashedTextEncoder(200), 200)


def encode(**facts: Any) -> RoutedInput:
    return RoutedInput.parse(ENCODER.encode([StatedFacts(text="Why is the sky blue?", **facts)])[0])


def test_a_text_is_an_input() -> None:
    (data,) = ENCODER.encode(["Why is the sky blue?"])
    assert (
        data.startswith(hash_text("Why is the sky blue?"))
        and data == ENCODER.encode([{"text": "Why is the sky blue?"}])[0]
    )


def test_a_request_is_read_back_as_it_was() -> None:
    read = encode(held="a", group="team", exclude=["b", "c"], explore=0.02)
    assert (read.held, read.excluded) == (hash_route("a"), frozenset({hash_route("b"), hash_route("c")}))
    assert read.explore == pytest.approx(0.02) and read.group
    nothing = encode()
    assert (nothing.held, nothing.group, nothing.excluded, nothing.explore) == (0, 0, frozenset(), None)


def test_bytes_of_a_text_alone_are_an_input_without_facts() -> None:
    read = RoutedInput.parse(hash_text("Why?"))
    assert not read.plain_P.any() and not read.excluded


@pytest.mark.parametrize("length", [0, 383, 385, 400, 384 + 33])
def test_other_lengths_are_refused(length: int) -> None:
    with pytest.raises(ValueError, match="384 bytes"):
        RoutedInput.parse(bytes(length))


def test_facts_are_told_apart() -> None:
    plain = measure("Why is the sky blue?", {})
    for name, facts, text in (
        ("code", {}, "```def f(): return 1```"),
        ("turns", {"turns": 4}, "Why is the sky blue?"),
        ("tools", {"tools": 2}, "Why is the sky blue?"),
        ("images", {"images": 1}, "Why is the sky blue?"),
        ("json", {"json": True}, "Why is the sky blue?"),
        ("other_script", {}, "なぜ空は青いのですか"),
        ("digits", {}, "1234 * 5678"),
        ("max_tokens", {"max_tokens": 4_096}, "Why is the sky blue?"),
    ):
        place = PLAIN.index(name)
        assert measure(text, facts)[place] > plain[place], name


def test_numbers_of_any_size_fit() -> None:
    numbers = measure("x" * 100_000, {"context_chars": 10**9, "turns": 10**9, "tools": 10**9, "max_tokens": 10**9})
    assert numbers.dtype == np.int8 and numbers.min() >= 0


@pytest.mark.parametrize(
    "facts",
    [
        {"exclude": "b"},
        {"exclude": [1]},
        {"exclude": ["x"] * 257},
        {"held": 3},
        {"group": 5},
        {"explore": 0.9},
        {"explore": "much"},
        {"turns": [1]},
    ],
)
def test_facts_of_a_wrong_type_are_refused(facts: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="instance 0"):
        encode(**facts)


def test_a_caller_may_not_speak_for_a_group() -> None:
    with pytest.raises(ValueError, match="group is set by the service"):
        ENCODER.encode([{"text": "Why?", "group": "ann"}])


def test_many_lines_take_linear_time() -> None:
    started = time.process_time()
    measure("\n \t" * 100_000 + ";" * 100_000, {})
    assert time.process_time() - started < 2


def test_a_question_that_is_too_long_is_refused() -> None:
    with pytest.raises(TextTooLong):
        ENCODER.encode(["x" * 201])

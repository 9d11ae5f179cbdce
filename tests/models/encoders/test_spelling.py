"""Misspelt English words are corrected; words of the list, names, addresses and other languages are left alone."""

import numpy as np
import pytest

from online.models.encoders import spelling
from online.models.encoders.spelling import MOST_UNKNOWN, SPELLING, Spelling, count_edits, weigh_edits
from online.models.ranker.other_languages import is_other_language


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("how do i renw a book", "how do i renew a book"),
        ("is ther a pirnter i can use", "is there a printer i can use"),
        ("Libary hours on thrusday?", "library hours on thursday?"),
        ("RENW MY BOOK", "renew my book"),
        ("pls open teh door", "please open the door"),
        ("were can i dorp this tittle", "where can i drop this title"),
        ("help with my family tre", "help with my family tree"),
        ("where are the lavatorys", "where are the lavatories"),
        ("open on bank holydays", "open on bank holidays"),
        ("what dose it cost per weak", "what does it cost per week"),
    ],
)
def test_misspelt_words_are_corrected(typed: str, meant: str) -> None:
    assert SPELLING.correct(typed) == meant


@pytest.mark.parametrize(
    "text",
    [
        "How do I renew my loans?",
        "Do you have wifi, laptops and e-books?",
        "The Mariner Room at Port Ellery, in the PressDeck app",
        "write to hello@harbuorstreet.example or see harbuorstreet.exmaple/evnts",
        "my gps and my bmw",
        "the storycorner has bookbaskets",
        "we were in the choir, is there a dose of weak tea or a form to sing in it",
        "baby shark doo doo, by a theater in vermont",
        "Wie kann ich ein Buch verlängern?",
        "Hoe lang mag ik eigenlijk boeken houden bij jullie?",
        "图书馆几点关门",
        "👍 12345",
        "",
    ],
)
def test_other_texts_stay_as_they_are(text: str) -> None:
    assert SPELLING.correct(text) == text


def test_a_correction_is_final() -> None:
    once = SPELLING.correct("coud i hang on to my novle for anoter fortnight")
    assert once == "could i hang on to my novel for another fortnight" == SPELLING.correct(once)


def test_words_and_their_plurals_of_the_list_are_known() -> None:
    assert {"renew", "overdue", "nappy", "colour", "wifi"} <= SPELLING.ranks.keys()
    plurals = ["renews", "mcdonalds", "barcodes"]
    assert [SPELLING.correct_word(word) for word in plurals] == plurals


def test_another_list_of_words_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spelling, "WORDS_SHA256", "0" * 64)
    with pytest.raises(ValueError, match="is not the list of words that was shipped"):
        Spelling().correct("helo")


def test_edits_are_counted_with_transpositions_and_given_up_beyond_the_limit() -> None:
    assert [count_edits("teh", other, 2) for other in ("teh", "the", "tea", "ten", "thee")] == [0, 1, 1, 1, 2]
    assert count_edits("abcdef", "uvwxyz", 2) == 3


def test_what_people_often_do_weighs_less() -> None:
    renew, rent = weigh_edits("renw", "renew"), weigh_edits("renw", "rent")
    assert renew < rent
    assert weigh_edits("boks", "books") < weigh_edits("boks", "barks")


def test_long_words_and_many_unknown_ones_are_left_alone_at_little_cost() -> None:
    """Every lookup compares with thousands of words, so the lookups of one text are few."""
    SPELLING.correct_word.cache_clear()
    word, random = "x" * 8_000, np.random.default_rng(0)
    letters = np.array(list("etaoinshrdlu"))
    unknown = ["".join(random.choice(letters, 7)) for _ in range(900)]
    for text in (word, f"please {word}", f"how do i {' '.join(unknown)}", "a" * 128):
        assert SPELLING.correct(text) == text
        is_other_language(text)
    assert SPELLING.correct_word.cache_info().misses <= 4 + MOST_UNKNOWN

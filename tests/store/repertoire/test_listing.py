"""Lists of replies in both databases: words, filters, orders, pages, counts, and when each was added."""

from functools import partial
from typing import get_args

import pytest
from sqlalchemy import Connection

from online.schemas.events import Event
from online.store import Store
from online.store.database.values import now
from online.store.events import append_events, build_retraction, read_events
from online.store.feedback import add_feedback
from online.store.repertoire.examples import load_examples
from online.store.repertoire.listing import (
    Key,
    ListedReply,
    RepertoireCounts,
    ReplyQuery,
    Sort,
    count_listed,
    list_replies,
)
from online.store.repertoire.replies import (
    add_reply,
    load_dated_examples,
    make_sort_key,
    set_reply_active,
    update_reply_text,
)
from online.store.usage.answer_ratings import AnswerRatings, add_answer_ratings


def add(connection: Connection, id: str, text: str, *examples: str, model: str = "m") -> None:
    """Add a reply as a service records it."""
    events = [Event(f"{id}#reply", "reply", b"", id, text)]
    events += [Event(f"{id}#{place}", "label", b"", id, words) for place, words in enumerate(examples)]
    offsets = append_events(connection, model, events, source="repertoire")
    add_reply(connection, model, id, text, offsets[0])


def fill(connection: Connection) -> None:
    add(connection, "hours", "Öffnungszeiten: 9 bis 18 Uhr.", "Wann öffnen Sie?", "STRASSE gesperrt?")
    add(connection, "print", "The printer is by the stairs.", "Can I print 100% in colour?", "Where is the printer?")
    add(connection, "wifi", "The network is called Guest.")
    add(connection, "skis", "Skis are in the attic_room.", "Where are the skis?")
    add(connection, "other", "The printer of another model.", model="n")
    set_reply_active(connection, "m", "skis", False)
    ratings = {"hours": (3, 1), "print": (0, 2), "wifi": (0, 3), "gone": (1, 1)}
    add_answer_ratings(connection, "m", {id: AnswerRatings(*each) for id, each in ratings.items()})
    add_answer_ratings(connection, "m", {"print": AnswerRatings(1, 1), "skis": AnswerRatings(1, 0)})
    add_answer_ratings(connection, "m", {"print": AnswerRatings(-1, -1), "skis": AnswerRatings(-1, 0)})


@pytest.fixture
def filled(store: Store) -> Store:
    store.submit(fill).result()
    return store


def find(store: Store, words: str = "", **how: str) -> list[str]:
    rows: list[ListedReply] = store.read(partial(list_replies, model="m", query=ReplyQuery(words, **how)))  # type: ignore[arg-type]
    return [row.id for row in rows]


def test_replies_come_with_their_ratings_examples_and_the_time_of_their_addition(filled: Store) -> None:
    hours, print, *_ = filled.read(partial(list_replies, model="m", query=ReplyQuery()))
    assert (hours.id, hours.rated, hours.right, hours.examples, hours.active, hours.offset) == (
        "hours",
        4,
        3,
        2,
        True,
        1,
    )
    assert (print.rated, print.right, print.examples) == (2, 0, 2)
    assert hours.created_at is not None and hours.created_at <= now()


def test_a_reply_that_feedback_brought_was_added_when_that_was_given(filled: Store) -> None:
    def teach(connection: Connection) -> None:
        events = [Event("f1#reply", "reply", b"", "r-f1", "Pens are here."), Event("f1", "correction", b"", "r-f1")]
        offset, given = append_events(connection, "m", events, feedback_id="f1")
        add_reply(connection, "m", "r-f1", "Pens are here.", offset)
        row = {"model": "m", "id": "f1", "offset": given, "content": "{}", "created_at": "2026-05-01T10:00:00+00:00"}
        add_feedback(connection, [row])

    filled.submit(teach).result()
    *_, taught = filled.read(partial(list_replies, model="m", query=ReplyQuery()))
    assert (taught.id, taught.created_at) == ("r-f1", "2026-05-01T10:00:00+00:00")


@pytest.mark.few(6)
@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("printer STAIRS", ["print"]),
        ("öffnen wann", ["hours"]),
        ("ÖFFNUNGSZEITEN", ["hours"]),
        ("straße", ["hours"]),
        ("where", ["print", "skis"]),
        ("stairs colour", []),  # neither the text nor one question has both
        ("100%", ["print"]),
        ("attic_room", ["skis"]),
        ("c%r", []),
        ("'; DROP TABLE reply; --", []),
        ("   ", ["hours", "print", "wifi", "skis"]),
    ],
)
def test_all_words_are_in_the_text_or_in_one_example_question(filled: Store, words: str, found: list[str]) -> None:
    assert find(filled, words) == found


def test_a_retracted_question_and_a_former_text_are_not_found(filled: Store) -> None:
    def change(connection: Connection) -> None:
        (question,) = [each for each in read_events(connection, "m", 0, 100) if each.id == "skis#0"]
        append_events(connection, "m", [build_retraction(question, question.offset)], source="repertoire")
        append_events(connection, "m", [question], source="repertoire")  # it is in the log: nothing is added
        update_reply_text(connection, "m", "wifi", "Das Netz heißt Gast.")

    filled.submit(change).result()
    assert find(filled, "where") == ["print"] and find(filled, "network") == [] and find(filled, "HEISST") == ["wifi"]
    assert filled.read(lambda c: load_dated_examples(c, "m", "skis")) == []
    assert [reply for reply, *_ in filled.read(lambda c: load_examples(c, "m"))] == ["hours", "hours", "print", "print"]


@pytest.mark.few(4)
@pytest.mark.parametrize(
    ("sort", "order"),
    [
        ("listed", ["hours", "print", "wifi", "skis"]),
        ("newest", ["skis", "wifi", "print", "hours"]),
        ("most_rated", ["hours", "wifi", "print", "skis"]),
        ("least_right", ["wifi", "print", "hours", "skis"]),
        ("by_text", ["hours", "skis", "wifi", "print"]),
    ],
)
def test_each_order_is_the_same_in_pages_of_one(filled: Store, sort: Sort, order: list[str]) -> None:
    assert find(filled, sort=sort) == order
    found, place = list[str](), None
    while rows := page(filled, sort, place):
        found.append(rows[0].id)
        place = rows[0].place
    assert found == order


def page(store: Store, sort: Sort, place: tuple[Key, ...] | None) -> list[ListedReply]:
    query = ReplyQuery(sort=sort)
    rows: list[ListedReply] = store.read(partial(list_replies, model="m", query=query, limit=1, after=place))
    return rows


def test_every_order_has_all_of_many_equal_replies_once(store: Store) -> None:
    for number in range(7):
        store.submit(partial(add, id=f"r{number}", text="Same text.")).result()
    for sort in get_args(Sort):
        found, place = list[str](), None
        while rows := page(store, sort, place):
            found.append(rows[0].id)
            place = rows[0].place
        assert sorted(found) == [f"r{n}" for n in range(7)], sort


def test_replies_are_counted_by_what_is_shown_and_by_what_is_found(filled: Store) -> None:
    count = partial(filled.read, partial(count_listed, model="m", query=ReplyQuery("where", "given")))
    assert count() == RepertoireCounts(all=4, given=3, retired=1, never_right=2, found=1)
    assert find(filled, show="given") == ["hours", "print", "wifi"] and find(filled, show="retired") == ["skis"]
    assert find(filled, show="never_right") == ["print", "wifi"]
    empty = filled.read(partial(count_listed, model="unknown", query=ReplyQuery()))
    assert empty == RepertoireCounts(0, 0, 0, 0, 0)


@pytest.mark.parametrize(
    ("text", "key"), [("  Öffnungs\n Zeiten", "offnungs zeiten"), ("É" * 300, "e" * 100), ("", "")]
)
def test_texts_are_sorted_without_case_and_accents(text: str, key: str) -> None:
    assert make_sort_key(text) == key

"""Counts of predictions and of their ratings, in both databases."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, func, select, text

from online.errors import Unavailable
from online.plugins.usage.questions import find_oldest_prediction, load_features, load_questions
from online.schemas.events import Event
from online.schemas.feedback import FeedbackItem
from online.serving.feedback.recording import build_row, prepare_item
from online.serving.feedback.retraction import record_retraction
from online.settings import ModelSettings
from online.store import Store
from online.store.database.meta import save_kind
from online.store.deletion.expired_events import delete_predictions
from online.store.deletion.retention import END_OF_TIME, prune_predictions
from online.store.erasure.log import forget_labels, void_events
from online.store.events import append_events
from online.store.feedback import add_feedback
from online.store.predictions import add_predictions
from online.store.usage.answer_ratings import load_answer_ratings
from online.store.usage.counts import (
    USAGE_COUNTS,
    UsageCounts,
    find_first_quarter,
    load_counts,
    load_totals,
    quarter_of,
)
from online.store.usage.ratings import RATINGS, count_page, count_until, load_progress

AT = "2026-05-01T10:07:00.250000+00:00"
QUARTER = quarter_of("2026-05-01T10:00:00+00:00")
SPEC = ModelSettings(name="m", kind="classifier")


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    sqlite = f"sqlite:///{tmp_path / 'online.db'}"
    return sqlite if request.param == "sqlite" else str(request.getfixturevalue("postgres_url"))


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    store = Store(url)
    store.submit(partial(save_kind, model="m", kind="classifier")).result()
    yield store
    store.close()


def prediction(id: str, choice: str | None = "a", at: str = AT, model: str = "m", **more: Any) -> dict[str, Any]:
    row = {"id": id, "model": model, "version": 1, "learned_until": 0, "user": None, "input": f'"{id}?"'}
    return {**row, "features": b"x", "choice": choice, "propensity": 1.0, "candidates": "[]", "created_at": at, **more}


def ask(store: Store, *rows: dict[str, Any]) -> None:
    store.submit(partial(add_predictions, rows=rows)).result()


def rate(store: Store, id: str, about: str, choice: str | None = "a", **content: Any) -> None:
    """Give feedback as a service records it."""
    item = FeedbackItem(id=id, prediction_id=about, **content)
    if item.reward is not None:
        event = Event(id, "reward", b"x", choice or "", reward=item.reward, choice=choice)
    else:
        event = Event(id, "label", b"x", item.label or "", choice=choice)

    def record(connection: Connection) -> None:
        offset = append_events(connection, "m", [event])[0]
        add_feedback(connection, [build_row("m", prepare_item(item), offset, "local", None)])

    store.submit(record).result()


def retract(store: Store, id: str) -> None:
    store.submit(lambda connection: record_retraction(connection, SPEC, id)).result()


def count_all(store: Store) -> None:
    while not store.submit(partial(count_page, model="m", page=2)).result().is_complete:
        pass


def usage_of(store: Store, quarter: int = QUARTER) -> UsageCounts:
    """What is known of the questions of one quarter of an hour."""
    load = partial(load_counts, model="m", spans=[(0, quarter), (quarter, quarter + 1)])
    found: dict[int, UsageCounts] = dict(store.read(load))
    return found.get(1, UsageCounts())


def test_predictions_are_counted_by_model_and_quarter_of_an_hour_as_they_are_stored(store: Store) -> None:
    later = "2026-05-01T10:15:00+00:00"
    ask(store, prediction("1"), prediction("2", None), prediction("3", at=later), prediction("4", model="other"))
    ask(store, prediction("5"))
    assert usage_of(store) == UsageCounts(asked=3, answered=2)
    assert usage_of(store, QUARTER + 1) == UsageCounts(asked=1, answered=1)
    assert store.read(partial(find_first_quarter, model="m")) == QUARTER


def test_predictions_that_could_not_be_stored_are_not_counted(store: Store) -> None:
    ask(store, prediction("1"))
    with pytest.raises(Unavailable):
        ask(store, prediction("2"), prediction("1"))
    assert usage_of(store) == UsageCounts(asked=1, answered=1)


def test_ratings_count_where_their_question_was_asked(store: Store) -> None:
    ask(store, *(prediction(id) for id in "1234"), prediction("5", None))
    rate(store, "f1", "1", reward=1.0)
    rate(store, "f2", "2", reward=0.0)
    rate(store, "f3", "3", label="b")
    rate(store, "f4", "4", label="a")
    rate(store, "f5", "5", None, label="b")
    assert usage_of(store).rated == 0
    count_all(store)
    assert usage_of(store) == UsageCounts(asked=5, answered=4, rated=4, good=2, bad=2, corrected=2, helped=2)


def test_every_person_has_one_rating_of_a_question(store: Store) -> None:
    ask(store, prediction("1"))
    for person in range(3):
        rate(store, f"f{person}", "1", reward=float(person > 0), user=f"person {person}")
    count_all(store)
    assert usage_of(store) == UsageCounts(asked=1, answered=1, rated=3, good=2, bad=1, helped=1)


def test_a_retracted_rating_does_not_count_and_a_replaced_one_counts_once(store: Store) -> None:
    ask(store, prediction("1"), prediction("2"))
    rate(store, "f1", "1", reward=0.0)
    rate(store, "f2", "2", reward=0.0)
    count_all(store)
    retract(store, "f1")
    retract(store, "f2")
    rate(store, "f3", "2", reward=1.0, reason="helpful", comment="thank you")
    count_all(store)
    assert usage_of(store) == UsageCounts(asked=2, answered=2, rated=1, good=1)


def ratings_of(store: Store, answer: str) -> tuple[int, int]:
    found: tuple[int, int] = store.read(lambda connection: load_answer_ratings(connection, "m", answer))
    return found


def test_the_ratings_of_an_answer_follow_those_that_stand_and_stay_when_predictions_are_deleted(store: Store) -> None:
    ask(store, prediction("1"), prediction("2"), prediction("3", "b"), prediction("4", None))
    rate(store, "f1", "1", reward=0.0)
    rate(store, "f2", "2", reward=1.0)
    rate(store, "f3", "3", "b", label="a")
    rate(store, "f4", "4", None, label="a")
    count_all(store)
    assert (ratings_of(store, "a"), ratings_of(store, "b"), ratings_of(store, "c")) == ((1, 1), (0, 1), (0, 0))
    retract(store, "f1")
    count_all(store)
    assert ratings_of(store, "a") == (1, 0)
    store.submit(lambda c: delete_predictions(c, "m", ["2", "3"])).result()
    assert (ratings_of(store, "a"), ratings_of(store, "b")) == ((1, 0), (0, 1))
    assert store.read(partial(load_totals, model="m"))[2:] == (2, 1, 1, 2, 1)


def test_an_erased_answer_is_not_named_by_its_ratings(store: Store) -> None:
    ask(store, prediction("1", "my name"))
    rate(store, "f1", "1", "my name", reward=1.0)
    count_all(store)
    store.submit(lambda c: forget_labels(c, "m", ["my name"], ["my name"])).result()
    assert ratings_of(store, "my name") == (0, 0)
    assert store.read(lambda c: c.scalar(select(RATINGS.c.choice))) is None
    retract(store, "f1")
    count_all(store)
    assert ratings_of(store, "my name") == (0, 0) and usage_of(store).rated == 0


def test_a_number_is_neither_good_nor_bad(store: Store) -> None:
    store.submit(partial(save_kind, model="m", kind="regressor")).result()
    ask(store, prediction("1", "3.5"))
    rate(store, "f1", "1", "3.5", label="4.0")
    count_all(store)
    assert usage_of(store) == UsageCounts(asked=1, answered=1, rated=1, corrected=1)


def test_counts_stay_when_retention_deletes_predictions(store: Store) -> None:
    ask(store, prediction("1"), prediction("2"), prediction("3"))
    rate(store, "f1", "1", reward=0.0)
    count_all(store)
    before = usage_of(store)
    store.submit(lambda c: prune_predictions(c, "plain", END_OF_TIME, 10)).result()
    store.submit(lambda c: delete_predictions(c, "m", ["1"])).result()
    assert store.read(partial(find_oldest_prediction, model="m")) is None
    assert store.read(lambda c: c.scalar(select(func.count()).select_from(RATINGS))) == 0
    assert usage_of(store) == before == UsageCounts(asked=3, answered=3, rated=1, bad=1, helped=1)


def test_the_log_is_counted_before_a_part_of_it_is_deleted(store: Store) -> None:
    ask(store, prediction("1"))
    for number in range(5):
        rate(store, f"f{number}", "1", reward=1.0, user=f"u{number}")
    store.submit(lambda c: count_until(c, "m", 5)).result()
    assert store.read(partial(load_progress, model="m")).is_complete and usage_of(store).rated == 5


def test_the_ratings_of_an_erased_user_go_although_their_retractions_are_not_in_the_log(store: Store) -> None:
    ask(store, prediction("1"))
    rate(store, "f1", "1", reward=0.0)
    count_all(store)
    retract(store, "f1")
    store.submit(lambda c: void_events(c, "m", ["f1"])).result()
    assert usage_of(store) == UsageCounts(asked=1, answered=1)
    count_all(store)
    assert usage_of(store) == UsageCounts(asked=1, answered=1)


def test_counting_a_page_again_changes_nothing(store: Store) -> None:
    ask(store, prediction("1"))
    rate(store, "f1", "1", reward=1.0)
    count_all(store)
    store.submit(lambda c: c.execute(text("DELETE FROM meta WHERE key = 'ratings/m'"))).result()
    count_all(store)
    assert usage_of(store) == UsageCounts(asked=1, answered=1, rated=1, good=1)


def test_writers_of_several_servers_count_together(postgres_url: str) -> None:
    stores = [Store(postgres_url) for _ in range(4)]

    def add(number: int) -> None:
        for page in range(10):
            ask(stores[number], *(prediction(f"{number}-{page}-{n}") for n in range(5)))

    with ThreadPoolExecutor() as pool:
        list(pool.map(add, range(4)))
    assert usage_of(stores[0]) == UsageCounts(asked=200, answered=200)
    with stores[0].reader.connect() as connection:
        assert 1 < connection.scalar(select(func.count()).select_from(USAGE_COUNTS)) <= 8  # type: ignore[operator]
    for store in stores:
        store.close()


def test_questions_come_with_their_answers_and_ratings(store: Store) -> None:
    hello = {"input": '"hello"'}
    ask(store, prediction("1", **hello), prediction("2", **hello), prediction("3", None, **hello), prediction("x"))
    ask(store, prediction("chat-1", **hello), prediction("4", at="2026-04-01T00:00:00+00:00"), prediction("5", **hello))
    ask(store, prediction("6", input="null"), prediction("7", model="other"))
    rate(store, "f1", "1", reward=1.0)
    count_all(store)
    span = ("2026-05-01T00:00:00+00:00", "2026-05-02T00:00:00+00:00")
    sample = store.read(lambda c: load_questions(c, "m", *span, newest=100))
    assert {(each.input, each.choice, each.asked, each.good, each.newest) for each in sample.questions} == {
        ('"hello"', "a", 3, 1, "5"),
        ('"hello"', None, 1, 0, "3"),
        ('"hello"', "a", 1, 0, "chat-1"),
        ('"x?"', "a", 1, 0, "x"),
    }
    assert (sample.looked_at, sample.oldest) == (8, None)
    assert store.read(lambda c: load_features(c, ["1", "gone"])) == {"1": b"x"}


def test_only_the_newest_predictions_are_searched_for_questions(store: Store) -> None:
    ask(store, *(prediction(str(n), at=f"2026-05-01T00:00:0{n}+00:00") for n in range(1, 6)))
    sample = store.read(lambda c: load_questions(c, "m", "2026", "2027", newest=2))
    assert {each.newest for each in sample.questions} == {"4", "5"}
    assert (sample.looked_at, sample.oldest) == (2, "2026-05-01T00:00:04+00:00")


def test_only_predictions_of_the_model_count_as_looked_at(store: Store) -> None:
    ask(store, *(prediction(str(n), at=f"2026-05-01T00:00:0{n}+00:00") for n in range(1, 4)))
    ask(store, *(prediction(str(n), model="other", at=f"2026-05-01T00:00:0{n}+00:00") for n in range(4, 8)))
    sample = store.read(lambda c: load_questions(c, "m", "2026", "2027", newest=5))
    assert (sample.looked_at, sample.oldest) == (1, "2026-05-01T00:00:03+00:00")

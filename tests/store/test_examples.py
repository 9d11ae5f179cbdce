"""The examples of each class, on both databases."""

from functools import partial
from typing import Any

from online.store import Store, now
from online.store.classes import list_examples_of_class, load_newest_examples
from online.store.feedback import add_feedback, mark_retracted
from online.store.predictions import add_predictions


def prediction(id: str, input: str) -> dict[str, Any]:
    row = {"id": id, "model": "m", "version": 1, "learned_until": 0, "user": "ann", "features": b"", "choice": None}
    return {**row, "input": input, "propensity": 1.0, "candidates": "[]", "created_at": now()}


def feedback(offset: int, content: str, about: str, **more: Any) -> dict[str, Any]:
    row = {"model": "m", "id": f"f{offset}", "offset": offset, "content": content, "about": about, "user": "ann"}
    return {**row, "prediction_id": None, "input": None, "created_at": now(), **more}


LABEL = '{"label":"star"}'


def test_the_newest_of_each_class_come_first_and_only_labels_in_force_count(store: Store) -> None:
    rows = [
        feedback(1, LABEL, "star", input="[1]"),
        feedback(2, LABEL, "star", prediction_id="p2"),
        feedback(3, LABEL, "star", prediction_id="erased"),
        feedback(4, '{"label":"heart"}', "heart", input="[4]"),
        feedback(5, LABEL, "star", status="refused"),
        feedback(6, r'{"reward":1,"comment":"\"label\":"}', "star"),
        feedback(7, LABEL, "star", user="ben"),
        feedback(8, LABEL, "star", input="[8]"),
        feedback(9, "erased", "star"),
    ]
    store.submit(lambda connection: add_feedback(connection, rows)).result()
    predictions = [prediction("p2", "[2]"), prediction("erased", "null")]
    store.submit(lambda connection: add_predictions(connection, predictions)).result()
    store.submit(lambda connection: mark_retracted(connection, "m", "f8", 10)).result()

    found = store.read(partial(load_newest_examples, model="m", holder="ann", of_each=2, in_all=9))
    assert [(each.label, each.of_class, each.id, each.input) for each in found] == [
        ("heart", 1, "f4", "[4]"),
        ("star", 3, "f3", None),
        ("star", 3, "f2", "[2]"),
    ]
    everyone = store.read(partial(load_newest_examples, model="m", holder=None, of_each=1, in_all=9))
    assert [(each.label, each.of_class, each.id) for each in everyone] == [("star", 4, "f7"), ("heart", 1, "f4")]
    of_class = partial(list_examples_of_class, model="m", holder="ann", label="star", count=9)
    assert store.read(partial(of_class, after=1)) == [(2, "f2"), (3, "f3")]

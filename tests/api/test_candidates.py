"""How many candidates an answer lists: few in our own shape and in the store, all where a protocol's contract says so."""

import sqlite3
from contextlib import closing

from online.models import Answer, build_candidates
from tests.conftest import Start
from tests.support import Service, wait_for_rows

CLASSES, CLASS_CHARS, INSTANCES = 1_000, 200, 25
LAB = """
[[models]]
name = "lab"
kind = "classifier"
options = { input = "vector", size = 2, scale = 4.0 }
"""


def teach_classes(service: Service) -> None:
    labels = [f"{number:04d}".ljust(CLASS_CHARS, "x") for number in range(CLASSES)]
    items = [{"input": [number % 7 / 2, number % 5 / 2], "label": label} for number, label in enumerate(labels)]
    receipts = service.http.post("/v1/models/lab:feedback", json={"feedback": items}).json()["receipts"]
    service.wait_learned("lab", receipts[-1]["offset"])


def test_a_small_request_to_a_model_of_many_long_classes_gets_a_small_answer(start: Start) -> None:
    service = start(LAB)
    teach_classes(service)
    rows = [[0.5, 1.0]] * INSTANCES
    answer = service.http.post("/v1/models/lab:predict", json={"instances": rows})
    found = answer.json()["predictions"][0]
    assert len(found["probabilities"]) == 20 and found["label"] in found["probabilities"]
    assert len(answer.content) < 150_000  # it was 5 MB
    with closing(sqlite3.connect(service.state / "online.db")) as store:
        wait_for_rows(store, INSTANCES)
        sizes = [size for (size,) in store.execute("SELECT length(candidates) FROM prediction")]
    assert len(sizes) == INSTANCES and max(sizes) < 5_000  # each was 0.2 MB, for ever
    tensors = service.http.post(
        "/v1/models/lab:predict", json={"signature_name": "serving_default", "instances": rows[:1]}
    )
    assert len(tensors.json()["predictions"][0]["classes"]) == CLASSES


def test_the_choice_is_kept_beside_the_best_candidates() -> None:
    answer = Answer("d", build_candidates("abcd", [0.1, 0.4, 0.3, 0.2]), 0.2)
    assert [each.id for each in answer.top(2).candidates] == ["b", "c", "d"]
    assert answer.top(4) is answer


def test_an_answer_that_was_drawn_keeps_all_that_it_was_drawn_from() -> None:
    answer = Answer("d", build_candidates("abcd", [0.1, 0.4, 0.3, 0.2]), 0.2, propensity=0.05)
    assert answer.top(1) is answer

"""A reply is explained by the parts of its score and the nearest feedback."""

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from online.plugins.explanations.event_summaries import EventSummary, load_event_summaries
from tests.api.rest.test_predict import give, predict
from tests.learning.expiry_scene import OLD, YOUNG, ExpiryScene
from tests.learning.test_base_building import make_vector
from tests.support import Service


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[ExpiryScene]:
    opened = ExpiryScene(tmp_path)
    yield opened
    opened.workspace.store.close()


def test_a_reply_is_explained_by_the_parts_of_its_score_and_the_nearest_feedback(service: Service) -> None:
    service.wait_learned("chat", 1)
    prediction_id = predict(service, "chat", ["When do you open?"])["prediction_ids"][0]
    explanation = service.http.get(f"/v1/models/chat/predictions/{prediction_id}/why").json()
    best, *others = explanation["grounds"]
    assert best["id"] == "hours" and best["text"] == "We open at nine." and len(others) == 4
    for each in explanation["grounds"]:
        assert each["score"] == pytest.approx(each["sums"] + each["evidence"] + each["standing"])
        assert each["score"] <= best["score"]
    nearest = explanation["witnesses"][0]
    assert nearest["question"] == "When do you open?" and nearest["reply"]["id"] == "hours"
    assert nearest["likeness"] == pytest.approx(1, abs=0.01) and nearest["said"] == "example" and nearest["reward"] == 1


def test_a_taught_reply_is_explained_by_its_correction(service: Service) -> None:
    service.wait_learned("chat", 1)
    question = f"What is behind door {uuid.uuid4().hex[:6]}?"
    prediction_id = predict(service, "chat", [question])["prediction_ids"][0]
    receipt = give(service, "chat", prediction_id=prediction_id, correction="A staircase.")
    service.wait_learned("chat", receipt["offset"])
    explanation = service.http.get(f"/v1/models/chat/predictions/{prediction_id}/why").json()
    nearest = explanation["witnesses"][0]
    assert (nearest["question"], nearest["said"]) == (question, "correction")
    assert nearest["feedback_id"] == receipt["id"] and explanation["settled"] == nearest["reply"]["id"]
    service.http.delete(f"/v1/models/chat/feedback/{receipt['id']}")


def test_only_predictions_of_a_ranker_are_explained(service: Service) -> None:
    missing = service.http.get("/v1/models/chat/predictions/nothing/why")
    assert missing.status_code == 404 and "no prediction 'nothing'" in missing.json()["error"]
    other = service.http.get("/v1/models/vec/predictions/nothing/why")
    assert other.status_code == 400 and "only a ranker" in other.json()["error"]


def test_an_explanation_has_no_question_of_an_expired_event(scene: ExpiryScene) -> None:
    for n in range(20):
        scene.give(make_vector(n), OLD if n < 15 else YOUNG)
    scene.expire()
    found = scene.workspace.store.read(lambda connection: load_event_summaries(connection, "m", [1, 20]))
    assert found[1] == EventSummary(None, "example", None, None)
    assert found[20].question == "words of e19"

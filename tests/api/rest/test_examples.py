"""What a user taught by naming things is listed for them only, counts what is in force, and can be taken back."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from tests.api.auth.access import ADMIN_KEY, CHAT, bearer, browse, build, new_key
from tests.conftest import Start
from tests.support import until

ROOT = "/v1/models/vec"


@pytest.fixture
def app(tmp_path: Path) -> Iterator[FastAPI]:
    app = build(tmp_path, public_teaching="on")
    with browse(app):
        yield app


def visitor(app: FastAPI, number: int = 1) -> TestClient:
    client = browse(app, f"203.0.113.{number}")
    client.get("/v1/session")
    return client


def trusted(app: FastAPI, name: str = "ann") -> TestClient:
    """Somebody whose every word counts at once: what a new visitor repeats waits until others agree."""
    return browse(app, **bearer(new_key(app, "predict", "feedback", "teach", "curate", name=name)))


def teach(client: TestClient, label: str, x: float = 1.0) -> str:
    """Ask about a drawing and name it; return the id of the feedback."""
    answer = client.post(f"{ROOT}:predict", json={"instances": [[x, 2.0]]}).json()
    return give(client, prediction_id=answer["prediction_ids"][0], label=label)


def give(client: TestClient, **item: Any) -> str:
    response = client.post(f"{ROOT}:feedback", json={"feedback": [item]})
    assert response.status_code == 202, response.text
    return str(response.json()["receipts"][0]["id"])


def listed(client: TestClient, **query: Any) -> dict[str, Any]:
    response = client.get(f"{ROOT}/examples", params=query)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


def counts(client: TestClient, **query: Any) -> dict[str, int]:
    return {each["label"]: each["count"] for each in listed(client, **query)["classes"]}


def test_examples_are_listed_by_class_with_what_was_named_the_newest_first(app: FastAPI) -> None:
    ann = trusted(app)
    ids = [teach(ann, label, x) for label, x in (("star", 1), ("heart", 2), ("star", 3))]
    star, heart = listed(ann)["classes"]
    assert (star["label"], star["count"], heart["label"], heart["count"]) == ("star", 2, "heart", 1)
    assert [each["id"] for each in star["examples"]] == [ids[2], ids[0]]
    assert [each["input"] for each in star["examples"]] == [[3.0, 2.0], [1.0, 2.0]]
    newest = star["examples"][0]
    assert (newest["status"], newest["offset"], star["active"], star["held"]) == ("accepted", 3, True, 0)
    assert newest["prediction_id"] and newest["given_at"]


def test_an_input_of_its_own_is_an_example_too(app: FastAPI) -> None:
    ann = visitor(app)
    give(ann, input=[3.0, 4.0], label="star")
    assert [each["input"] for each in listed(ann)["classes"][0]["examples"]] == [[3.0, 4.0]]


def test_only_the_newest_of_each_class_are_listed_and_all_are_counted(app: FastAPI) -> None:
    ann = trusted(app)
    for x in range(4):
        teach(ann, "star", x)
    teach(ann, "heart")
    answer = listed(ann, limit=2)
    assert [(each["label"], each["count"], len(each["examples"])) for each in answer["classes"]] == [
        ("heart", 1, 1),
        ("star", 4, 2),
    ]
    assert answer["count"] == 5


def test_what_was_taken_back_renamed_or_only_rated_is_not_listed(app: FastAPI) -> None:
    ann = trusted(app)
    first = teach(ann, "star")
    answer = ann.post(f"{ROOT}:predict", json={"instances": [[1, 2]]}).json()
    about = answer["prediction_ids"][0]
    give(ann, prediction_id=about, label="star")
    give(ann, prediction_id=about, label="heart")  # replaces it
    assert counts(ann) == {"heart": 1, "star": 1}
    assert ann.delete(f"{ROOT}/feedback/{first}").status_code == 202
    assert counts(ann) == {"heart": 1}


def test_the_examples_of_others_are_not_listed_and_a_name_in_a_header_does_not_count(app: FastAPI) -> None:
    ann, ben = visitor(app), visitor(app, 2)
    teach(ann, "star")
    user = ann.get("/v1/session").json()["caller"]
    assert listed(ben) == {"classes": [], "count": 0, "rejected": []}
    assert ben.get(f"{ROOT}/examples", headers={"X-User": user}).json()["count"] == 0
    assert ben.delete(f"{ROOT}/examples", params={"label": "star"}, headers={"X-User": user}).json()["count"] == 0
    assert counts(ann) == {"star": 1}


def test_everybodys_examples_are_for_curators(app: FastAPI) -> None:
    ann, ben = visitor(app), visitor(app, 2)
    teach(ann, "star")
    teach(ben, "star")
    refused = ann.get(f"{ROOT}/examples", params={"of": "everyone"})
    assert refused.status_code == 403 and "'curate'" in refused.json()["error"]
    curator = browse(app, **bearer(new_key(app, "predict", "curate")))
    assert counts(curator, of="everyone") == {"star": 2} and counts(curator) == {}


def test_a_caller_that_acts_for_users_has_to_name_one(app: FastAPI) -> None:
    backend = browse(app, **bearer(new_key(app, "predict", "feedback", "teach", "impersonate")))
    give(backend, input=[1.0, 2.0], label="star", user="alice")
    assert backend.get(f"{ROOT}/examples").status_code == 400
    assert backend.delete(f"{ROOT}/examples", params={"label": "star"}).status_code == 400
    assert backend.get(f"{ROOT}/examples", headers={"X-User": "alice"}).json()["count"] == 1


@pytest.mark.parametrize("query", [{"limit": 0}, {"limit": 201}, {"of": "nobody"}])
def test_what_is_asked_for_is_checked(app: FastAPI, query: dict[str, Any]) -> None:
    assert visitor(app).get(f"{ROOT}/examples", params=query).status_code == 400


def test_a_class_to_forget_has_to_be_named(app: FastAPI) -> None:
    assert visitor(app).delete(f"{ROOT}/examples").status_code == 400


def test_only_models_with_classes_have_examples(tmp_path: Path) -> None:
    app = build(tmp_path, CHAT)
    with browse(app, **{"X-Admin-Key": ADMIN_KEY}) as client:
        assert client.get("/v1/models/chat/examples").status_code == 400
        assert client.get("/v1/models/nothing/examples").status_code == 404


def test_a_whole_class_of_ones_own_is_forgotten_and_that_of_others_stays(app: FastAPI) -> None:
    ann, ben = trusted(app), visitor(app, 2)
    for x in range(60):  # more than one transaction takes back
        give(ann, input=[float(x), 0.0], label="star")
    give(ann, input=[1.0, 1.0], label="heart")
    give(ben, input=[1.0, 1.0], label="star")
    forgotten = ann.delete(f"{ROOT}/examples", params={"label": "star"})
    assert forgotten.status_code == 202 and forgotten.json() == {"label": "star", "count": 60, "offset": 122}
    assert counts(ann) == {"heart": 1} and counts(ben) == {"star": 1}
    assert ann.delete(f"{ROOT}/examples", params={"label": "star"}).json() == {"label": "star", "count": 0, "offset": 0}


def test_a_class_with_any_name_is_forgotten(app: FastAPI) -> None:
    ann = visitor(app)
    name = 'a/b?c&d "é" examples'
    teach(ann, name)
    assert ann.delete(f"{ROOT}/examples", params={"label": name}).json()["count"] == 1
    assert counts(ann) == {}


def test_what_waits_for_a_curator_is_listed_as_held_and_withdrawn_with_its_class(tmp_path: Path) -> None:
    app = build(tmp_path, public_teaching="review")
    with browse(app):
        ann = visitor(app)
        id = teach(ann, "star")
        (star,) = listed(ann)["classes"]
        assert (star["label"], star["count"], star["held"]) == ("star", 0, 1)
        assert [(each["id"], each["status"], each["input"]) for each in star["examples"]] == [(id, "held", [1.0, 2.0])]
        assert ann.delete(f"{ROOT}/examples", params={"label": "star"}).json()["count"] == 1
        assert listed(ann)["classes"] == []


def test_what_a_curator_rejected_is_listed_with_the_reason_for_its_user_only(tmp_path: Path) -> None:
    app = build(tmp_path, public_teaching="review")
    with browse(app):
        ann, ben, curator = visitor(app), visitor(app, 2), browse(app, **{"X-Admin-Key": ADMIN_KEY})
        ids = [teach(ann, label, x) for label, x in (("rude", 1), ("moon", 2), ("star", 3))]
        for id, reason in zip(ids, ("Be kind.", None), strict=False):
            body = {"ids": [id], "action": "reject", "reason": reason}
            assert curator.post(f"{ROOT}/inbox:decide", json=body).status_code == 202
        answer = listed(ann)
        assert [each["label"] for each in answer["classes"]] == ["star"]
        rejected = [(each["id"], each["label"], each["input"], each["reason"]) for each in answer["rejected"]]
        assert rejected == [(ids[1], "moon", [2.0, 2.0], None), (ids[0], "rude", [1.0, 2.0], "Be kind.")]
        assert [each["label"] for each in listed(ann, limit=1)["rejected"]] == ["moon"]
        assert listed(ben)["rejected"] == listed(curator, of="everyone")["rejected"] == []


def test_a_retired_class_keeps_its_examples_and_says_so(app: FastAPI) -> None:
    ann = visitor(app)
    teach(ann, "star")
    browse(app, **{"X-Admin-Key": ADMIN_KEY}).delete(f"{ROOT}/classes/star")
    (star,) = listed(ann)["classes"]
    assert (star["active"], star["count"]) == (False, 1)


def test_what_waits_until_others_agree_is_listed_as_held_beside_what_counts(app: FastAPI) -> None:
    ann = visitor(app)
    ids = [teach(ann, "star", x) for x in (1, 2)]
    (star,) = listed(ann)["classes"]
    assert (star["count"], star["held"]) == (1, 1)
    assert [(each["id"], each["status"]) for each in star["examples"]] == [(ids[1], "held"), (ids[0], "accepted")]


def test_nothing_is_listed_of_an_erased_user(app: FastAPI) -> None:
    ann = visitor(app)
    teach(ann, "star")
    user = ann.get("/v1/session").json()["caller"]
    admin = browse(app, **{"X-Admin-Key": ADMIN_KEY})
    assert admin.delete(f"{ROOT}/users/{user}").status_code == 202
    until(lambda: listed(ann)["classes"] == [], what="the erasure")
    assert counts(admin, of="everyone") == {}


def test_a_class_that_is_forgotten_is_unlearned_exactly(start: Start) -> None:
    config = '[[models]]\nname = "vec"\nkind = "classifier"\noptions = { input = "vector", size = 2, scale = 4.0 }'
    service = start(config)
    with service.client("vec", user="ann") as client:
        items = [{"input": [x, 1.0], "label": label} for x, label in ((0.0, "star"), (1.0, "star"), (2.0, "heart"))]
        service.wait_learned("vec", client.feedback(items[2:])[-1]["offset"])
        before = service.versions("vec")[0]["state_sha256"]
        service.wait_learned("vec", client.feedback(items[:2])[-1]["offset"])
    forgotten = service.http.delete("/v1/models/vec/examples", params={"label": "star"}, headers={"X-User": "ann"})
    assert forgotten.status_code == 202, forgotten.text
    service.wait_learned("vec", forgotten.json()["offset"])
    assert service.versions("vec")[0]["state_sha256"] == before
    left = service.http.get("/v1/models/vec/examples", headers={"X-User": "ann"}).json()
    assert [(each["label"], each["examples"][0]["status"]) for each in left["classes"]] == [("heart", "learned")]

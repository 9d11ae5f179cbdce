"""Who may send sums, of how many examples, and take them back."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from safetensors.numpy import load, save

from online.models.exchange.sums_file import read_metadata, read_sums, read_texts, write_metadata, write_sums
from online.plugins.moderation.model_moderation import ModelModeration
from online.settings import ModelSettings
from tests.api.auth.access import ADMIN_KEY, bearer, browse, build, new_key
from tests.serving.feedback.sums.files import OPTIONS, draw, make_file

LAB = ModelSettings(name="lab", kind="classifier", options=dict(OPTIONS))
KNN = ModelSettings(name="near", kind="knn", options={"input": "vector", "size": 2})
ROOT = "/v1/models/lab"


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FastAPI]:
    app = build(tmp_path_factory.mktemp("sums"), LAB, KNN, max_merge_examples_per_user=100)
    with browse(app):
        yield app


@pytest.fixture
def client(app: FastAPI) -> TestClient:
    return browse(app)


def merge(client: TestClient, key: str | None, count: int = 10, seed: int = 0, **query: str) -> Any:
    headers = {} if key is None else bearer(key)
    return client.post(f"{ROOT}:merge", params=query, content=make_file(draw(count, seed)), headers=headers)


def error_of(response: Any) -> str:
    return str(response.json()["error"])


def test_a_caller_without_the_scope_feedback_is_refused(app: FastAPI, client: TestClient) -> None:
    assert merge(client, new_key(app, "predict", name="reader")).status_code == 403


def test_a_caller_that_may_not_teach_is_refused(app: FastAPI, client: TestClient) -> None:
    response = merge(client, new_key(app, "predict", "feedback", name="rater"))
    assert response.status_code == 403
    assert "needs the scope 'teach'" in error_of(response)


@pytest.mark.parametrize("public_teaching", ["review", "on"])
def test_a_visitor_is_refused_who_might_come_back_as_another_one(tmp_path: Path, public_teaching: str) -> None:
    app = build(tmp_path / "public", LAB, public_teaching=public_teaching)
    with browse(app, "203.0.113.77") as visitor:
        assert visitor.get("/v1/session").json()["caller"].startswith("visitor:")
        response = merge(visitor, None)
        assert response.status_code == 403
        assert "not of visitors" in error_of(response)


def test_the_examples_of_one_caller_that_stand_are_limited(app: FastAPI, client: TestClient) -> None:
    key = new_key(app, "feedback", "teach", name="busy device")
    assert merge(client, key, 60, id="first").status_code == 202
    response = merge(client, key, 41, seed=1, id="second")
    assert response.status_code == 429
    assert "has already contributed 60 examples" in error_of(response) and "max_merge_examples_per_user" in error_of(
        response
    )
    assert client.get(f"{ROOT}/feedback/second", headers=bearer(key)).status_code == 404
    assert client.delete(f"{ROOT}/feedback/first", headers=bearer(key)).status_code == 202
    assert merge(client, key, 41, seed=1, id="second").status_code == 202


def test_the_users_of_one_caller_have_limits_of_their_own(app: FastAPI, client: TestClient) -> None:
    key = new_key(app, "feedback", "teach", "impersonate", name="backend")
    assert merge(client, key, 90, user="ann").status_code == 202
    assert merge(client, key, 90, seed=1, user="ben").status_code == 202
    assert merge(client, key, 90, seed=2, user="ann").status_code == 429


def test_a_repetition_is_not_counted_again(app: FastAPI, client: TestClient) -> None:
    key = new_key(app, "feedback", "teach", name="patient device")
    answers = [merge(client, key, 90, id="again and again") for _ in range(3)]
    assert [answer.status_code for answer in answers] == [202] * 3
    assert len({answer.json()["offset"] for answer in answers}) == 1


def test_a_curator_has_no_limit(client: TestClient) -> None:
    response = client.post(f"{ROOT}:merge", content=make_file(draw(900)), headers={"X-Admin-Key": ADMIN_KEY})
    assert response.status_code == 202


def test_nobody_retracts_the_sums_of_another(app: FastAPI, client: TestClient) -> None:
    ann, ben = (new_key(app, "feedback", "teach", name=f"{name}'s phone") for name in ("ann", "ben"))
    assert merge(client, ann, id="of ann").status_code == 202
    for method in (client.get, client.delete):
        assert method(f"{ROOT}/feedback/of ann", headers=bearer(ben)).status_code == 404
    response = merge(client, ben, id="of ann")
    assert response.status_code == 409, "and nobody finds out whether an id has the same content"
    outcome = client.get(f"{ROOT}/feedback/of ann", headers=bearer(ann)).json()
    assert outcome["status"] == "accepted"


def test_a_model_that_takes_no_sums_says_why(client: TestClient) -> None:
    response = client.post("/v1/models/near:merge", content=make_file(draw(3)), headers={"X-Admin-Key": ADMIN_KEY})
    assert response.status_code == 400
    assert "takes no sums: a model of the kind 'knn' keeps no sums" in error_of(response)


def test_sums_of_a_quarantined_holder_are_refused_and_those_that_stood_are_retracted(
    app: FastAPI, client: TestClient
) -> None:
    key, admin = new_key(app, "feedback", "teach", name="odd device"), {"X-Admin-Key": ADMIN_KEY}
    assert merge(client, key, id="odd").status_code == 202
    model: Any = app.state.runtime.model("lab")
    holders = model.parts.find(ModelModeration).holders
    client.portal.call(lambda: holders.quarantine("key:odd device", "a test"))  # type: ignore[union-attr]
    assert client.get(f"{ROOT}/feedback/odd", headers=bearer(key)).json()["status"] == "retracted"
    assert client.get(f"{ROOT}/held", headers=admin).json()["held"] == []
    response = merge(client, key, seed=1)
    assert response.status_code == 403 and "is quarantined" in error_of(response)


def foreign_tensor(file: bytes) -> bytes:
    return save({**load(file), "notes": np.zeros(1_000, np.float32)}, read_texts(file))


def foreign_integers(file: bytes) -> bytes:
    return save({**load(file), "notes": np.zeros(1_000, np.int8)}, read_texts(file))


def foreign_metadata(file: bytes) -> bytes:
    return save(load(file), {**read_texts(file), "notes": "x" * 1_000})


def foreign_field(file: bytes) -> bytes:
    return save(load(file), write_metadata({**read_metadata(file), "notes": "x" * 1_000}))


def long_field(file: bytes) -> bytes:
    return save(load(file), write_metadata({**read_metadata(file), "version": "x" * 10_000}))


def padded_header(file: bytes) -> bytes:
    length = int.from_bytes(file[:8], "little")
    return (length + 80_000).to_bytes(8, "little") + file[8 : 8 + length] + b" " * 80_000 + file[8 + length :]


def long_name_without_examples(file: bytes) -> bytes:
    sums = read_sums(file)
    sums.statistics.add_class("x" * 10_000)
    return write_sums(sums.statistics, sums.meta)


FOREIGN = [
    (foreign_tensor, 400, "'notes' of F32"),
    (foreign_integers, 400, "'notes' of I8"),
    (foreign_metadata, 400, "no field 'notes'"),
    (foreign_field, 400, "no field 'notes'"),
    (long_field, 400, "too long"),
    (padded_header, 400, "header"),
    (long_name_without_examples, 413, "max_label_chars"),
]


@pytest.mark.parametrize(("change", "status", "words"), FOREIGN)
def test_a_file_that_holds_anything_beside_sums_is_refused_and_not_stored(
    app: FastAPI, client: TestClient, change: Callable[[bytes], bytes], status: int, words: str
) -> None:
    key = new_key(app, "feedback", "teach", name=change.__name__)
    content = change(make_file(draw(10)))
    response = client.post(f"{ROOT}:merge", params={"id": change.__name__}, content=content, headers=bearer(key))
    assert (response.status_code, words in error_of(response)) == (status, True), error_of(response)
    assert client.get(f"{ROOT}/feedback/{change.__name__}", headers=bearer(key)).status_code == 404


def test_what_a_browser_writes_beside_sums_is_taken(app: FastAPI, client: TestClient) -> None:
    file = make_file(draw(10))
    key = new_key(app, "feedback", "teach", name="browser")
    content = save(load(file), write_metadata({**read_metadata(file), "model": "lab", "version": "7", "warm": False}))
    assert client.post(f"{ROOT}:merge", content=content, headers=bearer(key)).status_code == 202

"""The fast paths of predict and feedback answer exactly as the routes do, and the stored input is the request's own text."""

import asyncio
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import httpx
import numpy as np
import pytest

from online.api.app import create_app
from online.serving.prediction_rows import instance_json
from online.settings import ModelSettings, Settings
from tests.api.rest.test_versions import UP, VEC, teach
from tests.conftest import config
from tests.support import Service, until

BODIES: dict[str, bytes] = {
    "an answer": json.dumps({"instances": [UP], "record": False}).encode(),
    "columns": json.dumps({"inputs": [UP]}).encode(),
    "whole numbers": json.dumps({"instances": [[1, -0], [10**30, 1e-400]], "record": False}).encode(),
    "extra spaces": b' { "record" : false , "instances" : [ [ 1 , 2.5e0 ] ] } ',
    "no numbers": json.dumps({"instances": [[1, "4"]]}).encode(),
    "a boolean among them": json.dumps({"instances": [[1, True]]}).encode(),
    "a null among them": json.dumps({"instances": [[1, None]]}).encode(),
    "not a number": b'{"instances": [[1, NaN]]}',
    "too large a number": b'{"instances": [[1, 1e400]]}',
    "too large a whole number": b'{"instances": [[1, 1' + b"0" * 400 + b"]]}",
    "not a list": json.dumps({"instances": [1]}).encode(),
    "another field": json.dumps({"instances": [UP], "record": False, "more": 1}).encode(),
    "bytes that are not UTF-8": b'{"instances": ["\xff"]}',
    "a repeated key": b'{"instances": [[1]], "instances": [[1, 2]], "record": false}',
    "text after the document": b'{"instances": [[1, 2]], "record": false} {}',
    "no json": b"{",
    "no instances": b"{}",
    "a wrong length": json.dumps({"instances": [[1.0]]}).encode(),
    "too many": json.dumps({"instances": [UP] * 2_000}).encode(),
    "too large": b" " * 5_000_000,
}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("dispatch")
    running = Service(folder / "state", config(folder, VEC))
    yield running
    running.stop()


def test_predict_is_answered_alike_by_the_fast_path_and_by_the_route(service: Service) -> None:
    teach(service, "one")
    for case, body in BODIES.items():
        url = f"{service.url}/v1/models/vec"
        fast, routed = (httpx.post(f"{url}{path}:predict", content=body) for path in ("", "/labels/latest"))
        assert (fast.status_code, fast.content) == (routed.status_code, routed.content), case
        version_headers = {
            name: value for name, value in routed.headers.items() if name.startswith(("x-model", "x-learned"))
        }
        assert version_headers == {name: fast.headers[name] for name in version_headers}, case
    fast, routed = (httpx.get(f"{service.url}/v1/models/vec{path}:predict") for path in ("", "/labels/latest"))
    assert fast.status_code == routed.status_code >= 400


AFTER: dict[str, tuple[str, bytes]] = {  # routes, and bodies that they answer
    "the direct path": ("/v1/models/vec:predict", b'{"instances": [[1, 2]]}'),
    "a fast path": ("/v1/models/vec:feedback", b'{"feedback": [{"input": [1, 2], "label": "a"}]}'),
    "a route": ("/v1/models/vec/labels/latest:predict", b'{"instances": [[1, 2]]}'),
    "TensorFlow Serving's columns": ("/v1/models/vec:predict", b'{"inputs": [[1, 2]]}'),
    "TensorFlow Serving's classify": ("/v1/models/vec:classify", b'{"examples": [{"x": [1, 2]}]}'),
    "OIP": (
        "/v2/models/vec/infer",
        b'{"inputs": [{"name": "x", "shape": [1, 2], "datatype": "FP32", "data": [1, 2]}]}',
    ),
    "OIP's load": ("/v2/repository/models/vec/load", b"{}"),
}


def test_what_follows_the_document_of_a_body_is_refused_by_every_reader(service: Service) -> None:
    for case, (path, body) in AFTER.items():
        url = f"{service.url}{path}"
        assert httpx.post(url, content=body + b" \r\n").status_code in (200, 202), case
        for rest in (b"x", b"{}", b"]", b"\0", body):
            assert httpx.post(url, content=body + rest).status_code == 400, (case, rest)


def test_rows_of_numbers_are_stored_as_they_were_written(service: Service) -> None:
    response = httpx.post(f"{service.url}/v1/models/vec:predict", content=b'{"instances": [[2.50, 1e1], [-0, 4.0]]}')
    ids = response.json()["prediction_ids"]
    with sqlite3.connect(f"file:{service.state}/online.db?mode=ro", uri=True) as store:
        count = "SELECT count(*) FROM prediction WHERE id IN (?, ?)"
        until(lambda: store.execute(count, ids).fetchone()[0] == 2, what="the copy of the journal")
        inputs = dict(store.execute("SELECT id, input FROM prediction").fetchall())
        features = dict(store.execute("SELECT id, features FROM prediction").fetchall())
    assert [inputs[id] for id in ids] == ["[2.50, 1e1]", "[-0, 4.0]"]
    assert [features[id] for id in ids] == [b"", b""], "a row of numbers is its own features"


@pytest.mark.parametrize(
    "instance", ["grüße", [1, 2.5, -1e300], [2**70, 1.0], {"a": "ü"}, ["grüße", 1.0], [], [float(2**53)]]
)
def test_the_stored_instance_is_the_requested_one(instance: Any) -> None:
    numbers = isinstance(instance, list) and all(isinstance(value, (int, float)) for value in instance)
    features = np.array(instance, np.float64).tobytes() if numbers else b"whatever it was encoded to"
    assert json.loads(instance_json(instance, features)) == instance
    assert numbers or instance_json(instance, features).isascii()


FEEDBACK: dict[str, bytes] = {
    "a label": json.dumps({"feedback": [{"input": UP, "label": "one", "id": "1"}]}).encode(),
    "the same again": json.dumps({"feedback": [{"input": UP, "label": "one", "id": "1"}]}).encode(),
    "the same id for something else": json.dumps({"feedback": [{"input": UP, "label": "two", "id": "1"}]}).encode(),
    "an unknown prediction": json.dumps({"feedback": [{"prediction_id": "none", "reward": 1}]}).encode(),
    "a reward without a prediction": json.dumps({"feedback": [{"input": UP, "reward": 1}]}).encode(),
    "a wrong length": json.dumps({"feedback": [{"input": [1.0], "label": "one"}]}).encode(),
    "another field": json.dumps({"feedback": [], "more": 1}).encode(),
    "too many": json.dumps({"feedback": [{"input": UP, "label": "one"}] * 2_000}).encode(),
    "too large": b" " * 5_000_000,
    "no json": b"{",
}


def test_feedback_is_answered_alike_by_the_fast_path_and_by_the_route(tmp_path: Path) -> None:
    model = ModelSettings(name="vec", kind="classifier", options={"input": "vector", "size": 2})
    app = create_app(Settings(state=tmp_path, models=[model]), with_learner=False)
    [table] = [
        cast(dict[str, Any], each.kwargs["handlers"]) for each in app.user_middleware if "handlers" in each.kwargs
    ]
    handlers = dict(table)

    async def post(body: bytes) -> tuple[int, Any]:
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            response = await client.post("/v1/models/vec:feedback", content=body)
            return response.status_code, response.json()

    async def post_by_both() -> dict[str, tuple[int, Any]]:
        async with app.router.lifespan_context(app):
            answers = {}
            for case, body in FEEDBACK.items():
                table.clear()
                by_route = await post(body)
                table.update(handlers)
                answers[case] = await post(body)
                assert answers[case] == by_route, case
            return answers

    answers = asyncio.run(post_by_both())
    assert [status for status, _ in answers.values()] == [202, 202, 409, 404, 400, 400, 400, 413, 413, 400]
    assert answers["a label"][1]["receipts"][0]["offset"] == 1

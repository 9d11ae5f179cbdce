"""The short ways to predict and to give feedback answer as the long ones do, and what is kept is the question itself."""

import asyncio
import json
import sqlite3
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from starlette.types import ASGIApp

from online.serving.app import create_app
from online.serving.predictor import as_kept
from online.serving.shortcut import Shortcut
from online.settings import ModelSettings, Settings
from tests.conftest import Start
from tests.serving.test_versions import UP, VEC, teach

BODIES: dict[str, bytes] = {
    "an answer": json.dumps({"instances": [UP], "record": False}).encode(),
    "columns": json.dumps({"inputs": [UP]}).encode(),
    "whole numbers": json.dumps({"instances": [[1, -0], [10**30, 1e-400]], "record": False}).encode(),
    "blanks": b' { "record" : false , "instances" : [ [ 1 , 2.5e0 ] ] } ',
    "no numbers": json.dumps({"instances": [[1, "4"]]}).encode(),
    "a truth among them": json.dumps({"instances": [[1, True]]}).encode(),
    "nothing among them": json.dumps({"instances": [[1, None]]}).encode(),
    "not a number": b'{"instances": [[1, NaN]]}',
    "too large a number": b'{"instances": [[1, 1e400]]}',
    "too large a whole number": b'{"instances": [[1, 1' + b"0" * 400 + b"]]}",
    "no row": json.dumps({"instances": [1]}).encode(),
    "another field": json.dumps({"instances": [UP], "record": False, "more": 1}).encode(),
    "no bytes of text": b'{"instances": ["\xff"]}',
    "twice": b'{"instances": [[1]], "instances": [[1, 2]], "record": false}',
    "more behind": b'{"instances": [[1, 2]], "record": false} {}',
    "no json": b"{",
    "no instances": b"{}",
    "a wrong length": json.dumps({"instances": [[1.0]]}).encode(),
    "too many": json.dumps({"instances": [UP] * 2_000}).encode(),
    "too large": b" " * 5_000_000,
}


def test_both_ways_answer_alike(start: Start) -> None:
    service = start(VEC)
    teach(service, "one")
    for what, body in BODIES.items():
        url = f"{service.url}/v1/models/vec"
        short, long = (httpx.post(f"{url}{way}:predict", content=body) for way in ("", "/labels/latest"))
        assert (short.status_code, short.content) == (long.status_code, long.content), what
        stamped = {name: value for name, value in long.headers.items() if name.startswith(("x-model", "x-learned"))}
        assert stamped == {name: short.headers[name] for name in stamped}, what
    short, long = (httpx.get(f"{service.url}/v1/models/vec{way}:predict") for way in ("", "/labels/latest"))
    assert short.status_code == long.status_code >= 400


def test_rows_of_numbers_are_kept_as_they_came(start: Start) -> None:
    service = start(VEC)
    asked = httpx.post(f"{service.url}/v1/models/vec:predict", content=b'{"instances": [[2.50, 1e1], [-0, 4.0]]}')
    ids = asked.json()["prediction_ids"]
    with sqlite3.connect(f"file:{service.state}/online.db?mode=ro", uri=True) as store:
        kept = dict(store.execute("SELECT id, input FROM prediction").fetchall())
        features = dict(store.execute("SELECT id, features FROM prediction").fetchall())
    assert [kept[id] for id in ids] == ["[2.50, 1e1]", "[-0, 4.0]"]
    assert [np.frombuffer(features[id]).tolist() for id in ids] == [[2.5, 10], [0, 4]]


@pytest.mark.parametrize(
    "instance", ["grüße", [1, 2.5, -1e300], [2**70, 1.0], {"a": "ü"}, ["grüße", 1.0], [], [float(2**53)]]
)
def test_what_is_kept_is_what_was_asked(instance: Any) -> None:
    numbers = isinstance(instance, list) and all(isinstance(value, (int, float)) for value in instance)
    features = np.array(instance, np.float64).tobytes() if numbers else b"whatever it was encoded to"
    assert json.loads(as_kept(instance, features)) == instance
    assert numbers or as_kept(instance, features).isascii()


FEEDBACK: dict[str, bytes] = {
    "a label": json.dumps({"feedback": [{"input": UP, "label": "one", "id": "1"}]}).encode(),
    "the same again": json.dumps({"feedback": [{"input": UP, "label": "one", "id": "1"}]}).encode(),
    "the same id for something else": json.dumps({"feedback": [{"input": UP, "label": "two", "id": "1"}]}).encode(),
    "nobody's prediction": json.dumps({"feedback": [{"prediction_id": "none", "reward": 1}]}).encode(),
    "a reward of nothing": json.dumps({"feedback": [{"input": UP, "reward": 1}]}).encode(),
    "a wrong length": json.dumps({"feedback": [{"input": [1.0], "label": "one"}]}).encode(),
    "another field": json.dumps({"feedback": [], "more": 1}).encode(),
    "too many": json.dumps({"feedback": [{"input": UP, "label": "one"}] * 2_000}).encode(),
    "too large": b" " * 5_000_000,
    "no json": b"{",
}


def test_feedback_is_taken_alike_by_both_ways(tmp_path: Path) -> None:
    """The long way is the application without the shortcut before it."""
    model = ModelSettings(name="vec", kind="classifier", options={"input": "vector", "size": 2})
    app = create_app(Settings(state=tmp_path, models=[model]), with_learner=False)

    async def post(way: ASGIApp, body: bytes) -> tuple[int, Any]:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(way), base_url="http://127.0.0.1") as client:
            answered = await client.post("/v1/models/vec:feedback", content=body)
            return answered.status_code, answered.json()

    async def both() -> dict[str, tuple[int, Any]]:
        async with app.router.lifespan_context(app):
            told = {}
            for what, body in FEEDBACK.items():
                first, told[what] = await post(app, body), await post(Shortcut(app), body)
                assert told[what] == first, what
            return told

    told = asyncio.run(both())
    assert [status for status, _ in told.values()] == [202, 202, 409, 404, 400, 400, 400, 413, 413, 400]
    assert told["a label"][1]["receipts"][0]["offset"] == 1

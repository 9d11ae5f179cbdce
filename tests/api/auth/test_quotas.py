"""What one caller sends in a minute is bounded in instances and in bytes, through every protocol; what is refused does not count."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from online.errors import QuotaExceeded
from online.schemas.access.callers import Caller
from online.serving.rates import WINDOW_S, RateLimits
from online.settings import Settings
from tests.api.auth.access import ADMIN_KEY, CHAT, bearer, browse, build, new_key

ROWS = [[1, 2]] * 3
ROOT = "/v1/models/vec"
TENSOR = {"name": "x", "shape": [3, 2], "datatype": "FP64", "data": [1, 2, 1, 2, 1, 2]}
EXAMPLES = [{"x": [1.0, 2.0]}] * 3
OF_THREE_INSTANCES: dict[str, tuple[str, dict[str, Any]]] = {
    "native": (f"{ROOT}:predict", {"instances": ROWS}),
    "native, with options": (f"{ROOT}:predict", {"instances": ROWS, "feedback_urls": True}),
    "not recorded": (f"{ROOT}:predict", {"instances": ROWS, "record": False}),
    "feedback": (f"{ROOT}:feedback", {"feedback": [{"input": row, "label": "a"} for row in ROWS]}),
    "TensorFlow Serving, columns": (f"{ROOT}:predict", {"inputs": ROWS}),
    "TensorFlow Serving, examples": (f"{ROOT}:classify", {"examples": EXAMPLES}),
    "Open Inference": ("/v2/models/vec/infer", {"inputs": [TENSOR]}),
}


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    """A program with a key, of 5 instances a minute."""
    app = build(tmp_path, key_instances_per_minute=5)
    with browse(app) as client:
        client.headers.update(bearer(new_key(app, "predict", "feedback", "teach", "curate")))
        yield client


@pytest.mark.parametrize("way", OF_THREE_INSTANCES)
def test_instances_are_limited_by_whichever_way_they_come(client: TestClient, way: str) -> None:
    path, body = OF_THREE_INSTANCES[way]
    first, second = client.post(path, json=body), client.post(path, json=body)
    assert first.status_code in (200, 202), first.text
    assert second.status_code == 429, second.text
    assert "more than 5 instances in a minute (key_instances_per_minute); try again later" in second.text
    assert 1 <= int(second.headers["Retry-After"]) <= 61
    two = client.post(f"{ROOT}:predict", json={"instances": ROWS[:2]})
    assert two.status_code == 200, "what was refused does not count"


def test_the_ways_share_one_count(client: TestClient) -> None:
    assert client.post("/v2/models/vec/infer", json={"inputs": [TENSOR]}).status_code == 200
    assert client.post(f"{ROOT}:predict", json={"instances": ROWS}).status_code == 429


def test_a_request_that_no_minute_has_room_for_is_told_so(client: TestClient) -> None:
    refused = client.post(f"{ROOT}:predict", json={"instances": ROWS * 2})
    assert refused.status_code == 429
    text = (
        "one request has 6 instances, and all of a minute may have 5 (key_instances_per_minute); send fewer at a time"
    )
    assert refused.json()["error"] == text


def test_turns_of_conversations_are_limited_for_a_visitor(tmp_path: Path) -> None:
    app = build(tmp_path, CHAT, public_teaching="off", instances_per_minute=2)
    with browse(app) as client:
        client.get("/v1/session")
        turn = {"instances": ["When do you open?"], "conversation": "c1"}
        chat = {"model": "chat", "messages": [{"role": "user", "content": "When do you open?"}]}
        assert client.post("/v1/models/chat:predict", json=turn).status_code == 200
        assert client.post("/v1/chat/completions", json=chat).status_code == 200
        assert client.post("/v1/models/chat:predict", json=turn).status_code == 429
        refused = client.post("/v1/chat/completions", json=chat)
        assert refused.status_code == 429 and "(instances_per_minute)" in refused.json()["error"]["message"]


BIG = json.dumps({"instances": [[1, 2]] * 300}).encode()


def in_chunks() -> Iterator[bytes]:
    yield BIG[:1_000]
    yield BIG[1_000:]


@pytest.mark.parametrize("way", ["whole", "chunks", "gzip"])
def test_bytes_are_limited_however_a_body_is_sent(tmp_path: Path, way: str) -> None:
    content: Any = {"whole": lambda: BIG, "chunks": in_chunks, "gzip": lambda: gzip.compress(BIG)}[way]
    headers = {"Content-Encoding": "gzip"} if way == "gzip" else {}
    app = build(tmp_path, key_bytes_per_minute=len(BIG) + 100)
    with browse(app) as client:
        client.headers.update(bearer(new_key(app, "predict")))
        first, second = (client.post(f"{ROOT}:predict", content=content(), headers=headers) for _ in range(2))
        assert first.status_code == 200, first.text
        assert second.status_code == 429 and "bytes in a minute (key_bytes_per_minute)" in second.text


@pytest.mark.parametrize(
    ("path", "scope"),
    [
        (f"{ROOT}:predict", "predict"),
        (f"{ROOT}:classify", "predict"),
        ("/v2/models/vec/infer", "predict"),
        ("/v1/chat/completions", "predict"),
        (f"{ROOT}:feedback", "feedback"),
        (f"{ROOT}:merge", "feedback"),
        (f"{ROOT}:batchPredict", "operate"),
        ("/v1/replays?name=log.jsonl&models=classifier", "operate"),
    ],
)
def test_bytes_are_counted_before_they_are_read_at_every_door(tmp_path: Path, path: str, scope: str) -> None:
    app = build(tmp_path, key_bytes_per_minute=1_000)
    with browse(app) as client:
        key = bearer(new_key(app, scope, "teach"))
        refused = client.post(path, content=b" " * 1_001, headers=key)
        assert refused.status_code == 429, refused.text
        assert "1001 bytes" in refused.text and "(key_bytes_per_minute)" in refused.text
        assert client.post(path, content=b" " * 1_001, headers=bearer(ADMIN_KEY)).status_code != 429


def test_visitors_of_one_address_share_its_bytes(tmp_path: Path) -> None:
    app = build(tmp_path, public_teaching="off", bytes_per_minute=10_000, address_bytes_per_minute=2 * len(BIG))
    with browse(app) as first:
        statuses = []
        for _ in range(3):
            client = browse(app)
            client.get("/v1/session")
            statuses.append(client.post(f"{ROOT}:predict", content=BIG).status_code)
        assert statuses == [200, 200, 429]
        assert first.get("/healthz").status_code == 200, "requests without a body go on"


def test_a_minute_later_there_is_room_again() -> None:
    seconds = [0.0]
    rates = RateLimits(Settings(bytes_per_minute=10), lambda: seconds[0])
    visitor = Caller("visitor:1", frozenset(), user="visitor:1", address="192.0.2.1")
    rates.check(visitor, bytes=10)
    with pytest.raises(QuotaExceeded) as refused:
        rates.check(visitor, bytes=1)
    seconds[0] += refused.value.retry_after_s
    assert seconds[0] > WINDOW_S
    rates.check(visitor, bytes=10)

"""What one caller sends in a minute is bounded in instances and in bytes, through every protocol; what is refused does not count."""

import asyncio
import gzip
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from online.api.bodies import decode_large_rows, decode_rows
from online.errors import QuotaExceeded
from online.schemas.access.callers import Caller
from online.serving.rates import LARGE_BYTES, PACE_BYTES_PER_S, RateLimits
from online.settings import Settings
from online.stream.shared_counts import WINDOW_S
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


@pytest.mark.few(4)
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


@pytest.mark.few(4)
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


@pytest.mark.parametrize(
    "path",
    [
        f"{ROOT}:predict",
        f"{ROOT}:classify",
        f"{ROOT}:feedback",
        "/v2/models/vec/infer",
        "/v1/chat/completions",
    ],
)
def test_a_document_of_too_many_lists_is_refused_at_every_door(tmp_path: Path, path: str) -> None:
    body = b'{"inputs": [' + b",".join([b"[]"] * 100_000) + b"]}"
    with browse(build(tmp_path)) as client:
        answer = client.post(path, content=body, headers=bearer(ADMIN_KEY))
        assert answer.status_code == 413 and "lists and objects" in answer.text


ROW = [0.5, 1e-7]
LARGE = {
    "rows": json.dumps({"instances": [ROW] * 8_000}),
    "not recorded": json.dumps({"record": False, "instances": [ROW] * 8_000}, indent=1),
    "a text": json.dumps({"instances": [ROW] * 7_999 + [["a"]]}),
    "too deep": json.dumps({"instances": [ROW] * 7_999 + [[[1]]]}),
    "a field twice": '{"instances": [[1, 2]], "instances": ' + json.dumps([ROW] * 8_000) + "}",
    "another field": json.dumps({"instances": [ROW] * 8_000, "conversation": None}),
    "no comma": json.dumps({"instances": [ROW] * 8_000}).replace("], [", "] [", 1),
    "two commas": json.dumps({"instances": [ROW] * 8_000}).replace("], [", "],, [", 1),
    "a comma at the end": json.dumps({"instances": [ROW] * 8_000}).replace("]]", "],]"),
    "cut off": json.dumps({"instances": [ROW] * 8_000})[:-3],
    "no list": " " * 80_000,
}


@pytest.mark.parametrize("body", LARGE.values(), ids=LARGE)
def test_a_large_body_is_read_as_it_is_in_one_piece(body: str) -> None:
    assert len(body) > LARGE_BYTES
    assert asyncio.run(decode_large_rows(body.encode())) == decode_rows(body.encode())


def test_large_bodies_of_one_address_take_turns() -> None:
    seconds = [0.0]
    rates = RateLimits(Settings(), lambda: seconds[0])
    first, second = (Caller(f"visitor:{n}", frozenset(), user=f"visitor:{n}", address="192.0.2.1") for n in (1, 2))
    elsewhere = Caller("visitor:3", frozenset(), user="visitor:3", address="192.0.2.2")
    key = Caller("key:1", frozenset(), address="192.0.2.1", kind="key")
    four_mb = 4_000_000
    assert [rates.take_turn(each, four_mb) for each in (first, second, elsewhere, key)] == [0, 0.8, 0, 0]
    seconds[0] = 1.0
    assert rates.take_turn(first, four_mb) == pytest.approx(0.6)
    seconds[0] = 100.0
    rates.check(first, requests=1)  # in another minute
    assert rates.take_turn(first, four_mb) == 0


def test_large_bodies_of_a_visitor_are_read_one_after_the_other(tmp_path: Path) -> None:
    body = json.dumps({"instances": [[0.5, 0.25]] * 1_000}).encode() + b" " * 1_000_000
    app = build(tmp_path, public_teaching="off")
    with browse(app) as client:
        client.get("/v1/session")
        started = time.perf_counter()
        for _ in range(3):
            assert client.post(f"{ROOT}:predict", content=body).status_code == 200
        assert time.perf_counter() - started > 2 * len(body) / PACE_BYTES_PER_S - 0.05

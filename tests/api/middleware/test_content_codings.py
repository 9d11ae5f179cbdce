"""Bodies of requests in a content coding: decoded on every route, within the limits of other bodies, and refused in one sentence."""

import asyncio
import gzip
import json
import struct
import tracemalloc
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from starlette.requests import Request
from starlette.types import Message

from online.api.auth.authentication import CALLER
from online.api.bodies import read_body
from online.api.middleware.content_codings import ContentDecoding, Decoder, read_codings
from online.errors import BadInput, TooLarge, UnsupportedCoding
from online.schemas.access.callers import caller_with
from online.serving.rates import RateLimits
from online.settings import Settings
from tests.api.http.test_direct import BODY, Server, request, run
from tests.conftest import REPERTOIRE, Start, config
from tests.support import Service


def deflate_bare(data: bytes) -> bytes:
    deflater = zlib.compressobj(wbits=-15)
    return deflater.compress(data) + deflater.flush()


CODINGS: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "gzip": ("gzip", gzip.compress),
    "gzip in capitals": ("GZIP", gzip.compress),
    "gzip under its old name": ("x-gzip", gzip.compress),
    "gzip in two members": ("gzip", lambda data: gzip.compress(data[:9]) + gzip.compress(data[9:])),
    "deflate in zlib's format": ("deflate", zlib.compress),
    "deflate, bare": ("deflate", deflate_bare),
    "deflate, then gzip": ("deflate, gzip", lambda data: gzip.compress(zlib.compress(data))),
    "none": ("identity", bytes),
}
TEXT = {"name": "text", "datatype": "BYTES", "shape": [1], "parameters": {"binary_data_size": 9}}
JSON_BYTES = "Inference-Header-Content-Length"
INFER = json.dumps({"inputs": [TEXT]}).encode()
FEEDBACK_ITEM = {"input": [1, 0, 0, 0], "label": "class 1"}
ROUTES: dict[str, tuple[str, bytes, dict[str, str]]] = {
    "rows of numbers": ("/v1/models/vec:predict", b'{"instances": [[1, 0, 0, 0]]}', {}),
    "texts": ("/v1/models/txt:predict", b'{"instances": ["hello 1"]}', {}),
    "a version": ("/v1/models/txt/labels/latest:predict", b'{"instances": ["hello 1"]}', {}),
    "TensorFlow's predict": ("/v1/models/vec:predict", b'{"inputs": [[1, 0, 0, 0]]}', {}),
    "TensorFlow's classify": ("/v1/models/tab:classify", b'{"examples": [{"x": 1}]}', {}),
    "the Open Inference Protocol": (
        "/v2/models/txt/infer",
        b'{"inputs": [{"name": "text", "datatype": "BYTES", "shape": [1], "data": ["hello"]}]}',
        {},
    ),
    "tensors as bytes": (
        "/v2/models/txt/infer",
        INFER + struct.pack("<I", 5) + b"hello",
        {JSON_BYTES: str(len(INFER))},
    ),
    "chat completions": (
        "/v1/chat/completions",
        b'{"model": "chat", "messages": [{"role": "user", "content": "Is there coffee?"}]}',
        {},
    ),
    "feedback": ("/v1/models/vec:feedback", json.dumps({"feedback": [FEEDBACK_ITEM]}).encode(), {}),
    "an import": (
        "/v1/models/chat/replies:import?dry_run=true",
        "\n".join(json.dumps(reply) for reply in REPERTOIRE).encode(),
        {"Content-Type": "application/x-ndjson"},
    ),
}


@pytest.mark.parametrize("coding", CODINGS)
def test_a_body_is_decoded(service: Service, coding: str) -> None:
    name, encode = CODINGS[coding]
    path, body, headers = ROUTES["texts"]
    answer = service.http.post(path, content=encode(body), headers={**headers, "Content-Encoding": name})
    assert answer.status_code == 200, answer.text
    assert answer.json()["predictions"] == service.http.post(path, content=body).json()["predictions"]


@pytest.mark.parametrize("route", ROUTES)
def test_every_route_reads_a_body_in_gzip_and_in_deflate(service: Service, route: str) -> None:
    path, body, headers = ROUTES[route]
    plain = service.http.post(path, content=body, headers=headers)
    assert plain.status_code in (200, 202), plain.text
    for name, encode in (("gzip", gzip.compress), ("deflate", zlib.compress)):
        coded = service.http.post(path, content=encode(body), headers={**headers, "Content-Encoding": name})
        assert coded.status_code == plain.status_code, coded.text
        assert coded.json().keys() == plain.json().keys()


def test_a_request_that_would_be_answered_directly_is_decoded_too(tmp_path: Path) -> None:
    async def work(server: Server) -> None:
        coded = request(gzip.compress(BODY), "Content-Encoding: gzip")
        answers = await server.send(request(), request(), coded, coded, count=4)
        assert [status for status, _, _ in answers] == [200] * 4
        assert answers[1][2]["predictions"] == answers[3][2]["predictions"]
        ((status, headers, content),) = await server.send(request(BODY, "Content-Encoding: br"))
        assert (status, headers["accept-encoding"]) == (415, "gzip, deflate") and "'br'" in content["error"]

    run(tmp_path, work)


@pytest.mark.long
def test_other_workers_decode_a_body_too(start: Start) -> None:
    service = start(flags=("--workers", "2"))
    bodies = [ROUTES["texts"], ROUTES["feedback"]]
    for path, body, headers in bodies * 6:
        answer = httpx.post(
            service.url + path, content=gzip.compress(body), headers={**headers, "Content-Encoding": "gzip"}
        )
        assert answer.status_code in (200, 202), answer.text


DAMAGED: dict[str, tuple[str, bytes, str]] = {
    "not gzip": ("gzip", BODY, "the body is not valid gzip"),
    "gzip that is cut off": ("gzip", gzip.compress(BODY)[:-3], "ends in the middle of its gzip data"),
    "gzip with more behind it": ("gzip", gzip.compress(BODY) + b"more", "the body is not valid gzip"),
    "not deflate": ("deflate", BODY, "the body is not valid deflate"),
    "one byte of deflate": ("deflate", zlib.compress(BODY)[:1], "ends in the middle of its deflate data"),
    "deflate with more behind it": ("deflate", zlib.compress(BODY) + b"more", "4 bytes follow the deflate data"),
    "too many codings": ("gzip, gzip, gzip, gzip", BODY, "has 4 content codings; at most 3 are decoded"),
}


@pytest.mark.parametrize("case", DAMAGED)
def test_a_body_that_is_not_in_its_coding_is_refused(service: Service, case: str) -> None:
    coding, body, problem = DAMAGED[case]
    answer = service.http.post("/v1/models/vec:predict", content=body, headers={"Content-Encoding": coding})
    assert answer.status_code == 400 and problem in answer.json()["error"]


@pytest.mark.parametrize("coding", ["br", "zstd", "compress", "gzip, br", "unheard-of"])
def test_an_unknown_coding_is_refused_with_those_that_are_known(service: Service, coding: str) -> None:
    for path in ("/v1/models/vec:predict", "/v2/models/vec/infer", "/v1/models/vec:feedback"):
        answer = service.http.post(path, content=b"x", headers={"Content-Encoding": coding})
        assert answer.status_code == 415 and answer.headers["accept-encoding"] == "gzip, deflate"
        assert "is not supported; send the body as gzip, deflate" in answer.json()["error"]


def test_on_openais_path_the_refusal_has_openais_shape(service: Service) -> None:
    answer = service.http.post("/v1/chat/completions", content=b"x", headers={"Content-Encoding": "br"})
    assert answer.status_code == 415 and answer.json()["error"]["type"] == "invalid_request_error"


def test_a_request_without_a_body_may_name_a_coding(service: Service) -> None:
    assert service.http.get("/v1/models", headers={"Content-Encoding": "gzip"}).status_code == 200


def test_a_body_that_grows_beyond_the_limit_is_refused(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("small")
    service = Service(folder / "state", config(folder, max_body_bytes=10_000))
    try:
        for route in ("texts", "tensors as bytes", "chat completions", "feedback", "an import"):
            path, body, headers = ROUTES[route]
            bomb = gzip.compress(body + b" " * 10_000_000)
            answer = service.http.post(path, content=bomb, headers={**headers, "Content-Encoding": "gzip"})
            assert answer.status_code == 413
            assert "more than 10000 bytes when it is decoded from gzip (max_body_bytes)" in answer.text
    finally:
        service.stop()


def read_decoded(body: bytes, coding: str, limit: int, piece_bytes: int = 1_000) -> bytes:
    """The body that a handler reads of a request whose coded body arrives in pieces."""
    places = range(0, len(body), piece_bytes)
    messages = iter([{"type": "http.request", "body": body[at : at + piece_bytes], "more_body": True} for at in places])
    found = list[bytes]()

    async def receive() -> Message:
        return next(messages, {"type": "http.request", "body": b"", "more_body": False})

    async def handler(scope: Any, receive: Any, send: Any) -> None:
        found.append(await read_body(Request(scope, receive, send), Settings(max_body_bytes=limit)))

    app = FastAPI()
    app.state.rates = RateLimits(Settings())
    headers = [(b"content-encoding", coding.encode())]
    scope: Any = {"type": "http", "method": "POST", "headers": headers, "app": app, CALLER: caller_with("local", ())}
    asyncio.run(ContentDecoding(handler)(scope, receive, ignore))
    return found[0]


async def ignore(message: Message) -> None:
    """Send nothing: no test reads the answer."""


def nested(data: bytes, times: int) -> bytes:
    return nested(gzip.compress(data), times - 1) if times else data


@pytest.mark.parametrize("piece_bytes", [1, 7, 65_536])
@pytest.mark.parametrize("coding", CODINGS)
def test_a_body_may_arrive_in_any_pieces(coding: str, piece_bytes: int) -> None:
    name, encode = CODINGS[coding]
    content = b"".join(b"%d," % number for number in range(40_000))[: 200 * min(piece_bytes, 1_000)]
    assert read_decoded(encode(content), name, 10**7, piece_bytes) == content


@pytest.mark.few(1)
@pytest.mark.parametrize("times", [1, 2, 3])
def test_a_bomb_takes_no_memory_beyond_the_limit(times: int) -> None:
    bomb = nested(bytes(200_000_000), times)
    tracemalloc.start()
    try:
        with pytest.raises(TooLarge, match="more than 100000 bytes when it is decoded"):
            read_decoded(bomb, ", ".join(["gzip"] * times), 100_000)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4_000_000


def count_decoded(coding: str, pieces: Iterable[bytes]) -> int:
    return sum(map(len, Decoder(coding).decode(pieces, False)))


@pytest.mark.parametrize(
    ("coding", "padding"),
    [("deflate", b"\x00\x00\x00\xff\xff"), ("gzip", gzip.compress(b""))],
    ids=["empty blocks", "empty members"],
)
def test_a_body_of_nothing_but_padding_is_refused(coding: str, padding: bytes) -> None:
    """Without that it would never end: it reaches no limit on what is decoded."""
    with pytest.raises(BadInput, match=f"bytes in {coding} for 0 bytes of content"):
        count_decoded(coding, (padding * 1_000 for _ in range(10_000)))


def test_random_bytes_which_no_coding_makes_smaller_are_accepted() -> None:
    content = bytes(range(256)) * 4 + Random(7).randbytes(3_000_000)
    for coding, encode in (("gzip", gzip.compress), ("deflate", deflate_bare)):
        coded = encode(content)
        assert len(coded) > len(content) and count_decoded(coding, [coded]) == len(content)


def test_codings_are_named_in_one_header_or_in_several() -> None:
    assert read_codings(["deflate , identity", "x-gzip"]) == ["deflate", "gzip"]
    assert read_codings(["identity"]) == read_codings([""]) == []
    with pytest.raises(UnsupportedCoding):
        read_codings(["gzip;q=1"])

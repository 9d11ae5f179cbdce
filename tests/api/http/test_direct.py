"""Requests that are answered directly: which ones are, in which order, and that nothing gets past what guards the application."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from fastapi import FastAPI
from starlette.types import Receive, Scope, Send
from uvicorn.server import ServerState

from online.api.app import create_app
from online.api.auth.key_changes import create_key
from online.api.bodies import split_rows
from online.api.http.connections import Connections
from online.api.http.direct import DirectRequest
from online.api.http.protocol import UNREAD_PAUSE_S
from online.errors import Unavailable
from online.journal import list_segments, read_frames
from online.serving.model_runtime import ModelRuntime
from online.settings import ModelSettings, Settings

VEC = ModelSettings(name="vec", kind="classifier", options={"input": "vector", "size": 2, "scale": 4.0})
BODY = b'{"instances": [[1, 0.5]]}'


@dataclass
class Server:
    """An application behind real connections. asgi: the paths of the requests that went through the application."""

    app: FastAPI
    port: int
    connections: Connections
    asgi: list[str] = field(default_factory=list)

    @property
    def model(self) -> ModelRuntime:
        model: ModelRuntime = self.app.state.runtime.models["vec"]
        return model

    async def send(self, *parts: bytes, count: int = 1) -> list[tuple[int, dict[str, str], Any]]:
        """Send the parts of requests over one connection; return the status, headers and body of each response."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        for part in parts:
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(0)
        responses = [await read_response(reader) for _ in range(count)]
        writer.close()
        return responses


async def read_response(reader: asyncio.StreamReader) -> tuple[int, dict[str, str], Any]:
    head = (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 20)).decode().split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in head[1:] if line)
    body = await reader.readexactly(int(headers["content-length"]))
    return int(head[0].split()[1]), headers, json.loads(body)


def request(body: bytes = BODY, *headers: str, path: str = "/v1/models/vec:predict", method: str = "POST") -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def run(folder: Path, work: Callable[[Server], Awaitable[None]], **settings: Any) -> None:
    """Serve one model while `work` runs. The first request of a second goes through the application."""

    async def serve() -> None:
        values = {"state": folder / "state", "models": [VEC], **settings}
        app = create_app(Settings.model_validate(values), with_learner=False)
        runtime = app.state.runtime
        server = Server(app, 0, Connections(runtime.settings, runtime.metrics, 1_000, app.state.direct))

        async def counting(scope: Scope, receive: Receive, send: Send) -> None:
            server.asgi.append(scope["path"])
            await app(scope, receive, send)

        config = uvicorn.Config(counting, log_config=None, access_log=False)
        config.load()
        state, loop = ServerState(), asyncio.get_running_loop()
        async with app.router.lifespan_context(app):
            listener = await loop.create_server(
                lambda: server.connections.create_protocol(config=config, server_state=state, app_state={}),
                "127.0.0.1",
                0,
            )
            server.port = listener.sockets[0].getsockname()[1]
            async with listener:
                await work(server)

    asyncio.run(serve())


def recorded_ids(server: Server) -> list[str]:
    segments = list_segments(server.app.state.runtime.workspace.journal)
    return [row.id for each in segments for read in read_frames(each.path, 0, 10**9) for row in read.frame.rows]


def test_a_plain_request_is_answered_directly_once_its_caller_is_known(tmp_path: Path) -> None:
    async def work(server: Server) -> None:
        first, second = [(await server.send(request()))[0] for _ in range(2)]
        assert server.asgi == ["/v1/models/vec:predict"]
        assert first[0] == second[0] == 200
        assert set(first[1]) == set(second[1]) and first[2].keys() == second[2].keys()
        assert second[2]["prediction_ids"][0] in recorded_ids(server)

    run(tmp_path, work)


@pytest.mark.parametrize(
    "plain",
    [
        request(path="/v1/models/vec:predict?x=1"),
        request(b'{"instances": [[1, 0.5]], "user": "ada"}'),
        request(b'{"instances": [[1, 0.5]], "feedback_urls": true}'),
        request(b'{"inputs": [[1, 0.5]]}'),
        request(BODY, "Expect: 100-continue").replace(BODY, b"").replace(b"Expect", b"X-Expect") + BODY,
        request(BODY, "Connection: close"),
        request(b"", method="GET", path="/healthz"),
        request(b'{"instances": [[1]]}'),
        request(b'{"instances": [["1", 2]]}'),
        request(b"{"),
    ],
)
def test_what_is_not_plain_goes_through_the_application(tmp_path: Path, plain: bytes) -> None:
    async def work(server: Server) -> None:
        await server.send(request())
        responses = await server.send(plain)
        is_plain = plain.startswith(b"POST /v1/models/vec:predict HTTP") and b"X-Expect" in plain
        assert len(server.asgi) == (1 if is_plain else 2) and responses[0][0] in (200, 400)

    run(tmp_path, work)


def test_a_request_may_arrive_in_pieces(tmp_path: Path) -> None:
    async def work(server: Server) -> None:
        await server.send(request())
        whole = request(b'{"instances": [' + b", ".join([b"[1, 0.5]"] * 200) + b"]}")
        pieces = [whole[start : start + 50] for start in range(0, len(whole), 50)]
        [(status, _, answer)] = await server.send(*pieces)
        assert status == 200 and len(set(answer["prediction_ids"])) == 200 and len(server.asgi) == 1

    run(tmp_path, work)


def test_pipelined_requests_are_answered_in_order(tmp_path: Path) -> None:
    async def work(server: Server) -> None:
        await server.send(request())
        bodies = [request(), request(b"{"), request(), request(path="/v1/models/none:predict"), request()]
        answers = await server.send(b"".join(bodies), count=5)
        assert [status for status, _, _ in answers] == [200, 400, 200, 404, 200]
        again = await server.send(b"".join([request(b"{"), request(), request()]), count=3)
        assert [status for status, _, _ in again] == [400, 200, 200]

    run(tmp_path, work)


def test_a_body_beyond_the_limit_is_refused_before_it_has_arrived(tmp_path: Path) -> None:
    async def work(server: Server) -> None:
        await server.send(request())
        head = b"POST /v1/models/vec:predict HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n"
        chunk = b"400\r\n" + b" " * 1_024 + b"\r\n"
        [(status, _, answer)] = await server.send(head, *[chunk] * 20)
        assert status == 413 and "max_body_bytes" in answer["error"]

    run(tmp_path, work, max_body_bytes=10_000)


def test_a_large_body_that_its_quota_has_no_room_for_is_refused_before_it_has_arrived(tmp_path: Path) -> None:
    async def work(server: Server) -> None:
        key = create_key(server.app.state.runtime.workspace.store, "key", ["predict"]).secret
        bearer = f"Authorization: Bearer {key}"
        large = b'{"instances": [[1, 0.5]]' + b" " * 70_000 + b"}"
        for body in (BODY, BODY, large, large, large):
            count = len(server.asgi)
            assert (await server.send(request(body, bearer)))[0][0] == 200
        assert len(server.asgi) == count, "the last one was answered directly"
        head = request(large, bearer)[: -len(large)]
        [(status, _, answer)] = await server.send(head + large[:66_000])
        assert status == 429 and "(key_bytes_per_minute)" in answer["error"]
        assert len(server.asgi) == count + 1

    run(tmp_path, work, key_bytes_per_minute=250_000)


def test_a_large_body_of_too_many_rows_is_not_parsed_here(tmp_path: Path) -> None:
    async def work(server: Server) -> None:
        await server.send(request())
        many = b'{"instances": [' + b",".join([b"[1,2]"] * 20_000) + b"]}"
        [(status, _, answer)] = await server.send(request(many))
        assert status == 413 and "(max_instances)" in answer["error"]

    run(tmp_path, work)


def test_what_follows_an_answer_is_read_slowly_and_the_connection_goes_on(tmp_path: Path) -> None:
    async def work(server: Server) -> None:
        beyond = request(b" " * 2_000_000, path="/v1/models/vec:feedback")
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        started = asyncio.get_running_loop().time()
        writer.write(beyond)
        assert (await read_response(reader))[0] == 413
        await writer.drain()
        writer.write(request())
        assert (await read_response(reader))[0] == 200
        assert asyncio.get_running_loop().time() - started > UNREAD_PAUSE_S
        writer.close()

    run(tmp_path, work, max_body_bytes=1_000_000)


def test_nothing_gets_past_hosts_origins_scopes_and_rates(tmp_path: Path) -> None:
    async def work(server: Server) -> None:
        store = server.app.state.runtime.workspace.store
        keys = {scope: create_key(store, scope, [scope]).secret for scope in ("predict", "feedback")}
        other = create_key(store, "other", ["predict"], ["txt"]).secret
        none = create_key(store, "none", ["predict"], []).secret  # it may use no model at all
        secrets = {**keys, "other": other, "none": none}
        bearer = {name: f"Authorization: Bearer {secret}" for name, secret in secrets.items()}
        for _ in range(3):  # refused each time, also once something about the request is remembered
            assert (await server.send(request(BODY, bearer["predict"])))[0][0] == 200
            assert (await server.send(request(BODY)))[0][0] == 401
            assert (await server.send(request(BODY, bearer["feedback"])))[0][0] == 403
            assert (await server.send(request(BODY, bearer["other"])))[0][0] == 403
            assert (await server.send(request(BODY, bearer["none"])))[0][0] == 403
            foreign = request(BODY, bearer["predict"]).replace(b"Host: 127.0.0.1", b"Host: evil.example.com")
            assert (await server.send(foreign))[0][0] == 421
            page = request(BODY, bearer["predict"], "Origin: https://evil.example.com")
            assert (await server.send(page))[0][0] == 403
        statuses = [(await server.send(request(BODY, bearer["predict"])))[0][0] for _ in range(20)]
        assert set(statuses) == {200, 429} and statuses == sorted(statuses)
        assert len(server.asgi) < 3 * 7 + 20, "some were answered directly"

    run(tmp_path, work, key_requests_per_minute=12)


@pytest.mark.parametrize(
    ("setting", "most"), [("key_instances_per_minute", 12), ("key_bytes_per_minute", 12 * len(BODY))]
)
def test_instances_and_bytes_are_counted_where_requests_are_answered_directly(
    tmp_path: Path, setting: str, most: int
) -> None:
    async def work(server: Server) -> None:
        key = create_key(server.app.state.runtime.workspace.store, "eager", ["predict"]).secret
        sent = [(await server.send(request(BODY, f"Authorization: Bearer {key}")))[0] for _ in range(14)]
        assert [status for status, _, _ in sent] == [200] * 12 + [429] * 2
        assert setting in sent[-1][2]["error"] and 1 <= int(sent[-1][1]["retry-after"]) <= 61
        assert len(server.asgi) < 14, "some were answered directly"

    run(tmp_path, work, **{setting: most})


def test_a_request_that_is_refused_here_is_counted_once(tmp_path: Path) -> None:
    """It goes through the application, which counts it, and words the refusal."""

    async def work(server: Server) -> None:
        key = create_key(server.app.state.runtime.workspace.store, "counted", ["predict"]).secret
        headers = ((b"host", b"127.0.0.1"), (b"authorization", f"Bearer {key}".encode()))
        scope = {"type": "http", "method": "POST", "path": "/", "client": ("127.0.0.1", 1), "headers": headers}
        direct = server.app.state.direct
        for _ in range(2):  # the first time, the new key is loaded, and what is remembered is forgotten
            assert (await direct.memory.find(scope)).id.startswith("key:")
        endpoint = direct.endpoints[b"/v1/models/vec:predict"]
        both = [DirectRequest(endpoint, lambda request, response: None, ()) for _ in range(2)]
        assert [endpoint.begin(each, "127.0.0.1", headers, BODY) for each in both] == [True, False]  # the queue is full
        assert [used.requests for used in direct.rates._used.values()] == [1]

    run(tmp_path, work, max_waiting=1)


def test_pages_with_the_widget_go_through_the_application_each_visitor_apart(tmp_path: Path) -> None:
    origin = "https://shop.example.com"

    async def work(server: Server) -> None:
        cookies = server.app.state.callers.cookies
        page = f"Origin: {origin}", "Sec-Fetch-Site: cross-site"
        tokens = [f"X-Visitor-Token: {cookies.make_token(cookies.new_visitor(), origin)}" for _ in range(2)]
        for _ in range(3):  # refused or told apart each time, also once something about the request is remembered
            for token in tokens:
                status, headers, _ = (await server.send(request(BODY, *page, token)))[0]
                assert (status, headers["access-control-allow-origin"]) == (200, origin)
            assert (await server.send(request(BODY, *page, "X-Visitor-Token: none")))[0][0] == 401
            assert (await server.send(request(BODY, *page)))[0][0] == 401
        assert len(server.asgi) == 3 * 4

    run(tmp_path, work, widget_origins=[origin], public_teaching="off")


def test_an_answer_that_cannot_be_recorded_is_not_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(server: Server) -> None:
        await server.send(request())

        def fail(frame: object) -> None:
            raise Unavailable("the journal of predictions cannot be written: No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(server.model.predictor.recorder.journal, "append", fail)
            [(status, headers, answer)] = await server.send(request())
        assert status == 503 and "No space left" in answer["error"] and headers["x-model-version"] == "0"
        assert (await server.send(request()))[0][0] == 200
        assert len(server.asgi) == 1

    run(tmp_path, work)


def test_a_failure_of_the_model_ends_the_connection_and_is_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def work(server: Server) -> None:
        await server.send(request())

        def fail(inputs: object, keys: object) -> None:
            raise ZeroDivisionError

        monkeypatch.setattr(server.model.live.current.model, "predict", fail)
        [(status, headers, answer)] = await server.send(request())
        assert status == 500 and headers["connection"] == "close" and "ZeroDivisionError" in answer["error"]
        assert "a prediction failed" in caplog.text

    run(tmp_path, work)


def test_an_answer_that_cannot_be_rendered_fails_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(server: Server) -> None:
        await server.send(request())
        observe, calls = server.model.predictor.observe, list[object]()

        def fail_once(*args: Any) -> None:
            calls.append(args)
            if len(calls) == 1:
                raise ZeroDivisionError
            observe(*args)

        monkeypatch.setattr(server.model.predictor, "observe", fail_once)
        answers = await asyncio.gather(*(server.send(request()) for _ in range(4)))
        assert [status for [(status, _, _)] in answers] == [200] * 4 and len(calls) == 4

    run(tmp_path, work)


def test_answers_carry_the_headers_that_protect_browsers(tmp_path: Path) -> None:
    async def work(server: Server) -> None:
        await server.send(request())
        [(_, headers, _)] = await server.send(request())
        assert headers["x-content-type-options"] == "nosniff" and "content-security-policy" in headers
        assert len(server.asgi) == 1

    run(tmp_path, work)


def test_requests_are_counted(tmp_path: Path) -> None:
    async def work(server: Server) -> None:
        for _ in range(3):
            await server.send(request())
        await server.send(request(b'{"instances": [[1, 2], [3, 4], [5, 6]]}'))
        await asyncio.sleep(0)
        text = server.app.state.runtime.metrics.text([], {}).decode()
        assert 'online_predictions_total{model="vec"} 6.0' in text
        assert 'online_prediction_seconds_count{model="vec"} 4.0' in text

    run(tmp_path, work)


@pytest.mark.parametrize(
    ("body", "count", "texts"),
    [
        (b'{"instances": [[1, 2.50]]}', 1, [b"[1, 2.50]"]),
        (b'{"record": true, "instances":[ [1] ,[ 2 ] ]}', 2, [b"[1]", b"[ 2 ]"]),
        (b'{"instances": [[1]], "instances": [[2]]}', 1, []),
    ],
)
def test_the_text_of_each_row_is_found(body: bytes, count: int, texts: list[bytes]) -> None:
    assert split_rows(body, count) == texts

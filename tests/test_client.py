"""Both Python clients against a real service; a failed request is retried safely."""

import ast
import asyncio
import inspect
import json
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx
import pytest

import online
from online.client import AsyncClient, Client, ClientError, asynchronous, synchronous
from online.client.operations import HttpRequest, Operations
from tests.conftest import Start
from tests.support import Service

OPEN = "When do you open?"
LONG_S = 60.0


def test_both_clients_are_exported_by_the_package() -> None:
    assert (online.Client, online.AsyncClient, online.ClientError) == (Client, AsyncClient, ClientError)
    with pytest.raises(AttributeError, match="has no attribute 'Customer'"):
        online.Customer  # noqa: B018


def public_methods(kind: type) -> set[str]:
    return {name for name, _ in inspect.getmembers(kind, inspect.isfunction) if not name.startswith("_")}


def test_both_clients_have_a_method_for_every_operation() -> None:
    operations = public_methods(Operations)
    for kind in (Client, AsyncClient):
        assert public_methods(kind) == operations | {"events", "close"}
        for name in operations:
            assert inspect.signature(getattr(kind, name)) == inspect.signature(getattr(Operations, name))


@pytest.mark.parametrize("module", [synchronous, asynchronous])
def test_only_the_operations_module_contains_paths(module: ModuleType) -> None:
    source = ast.parse(Path(str(module.__file__)).read_text())
    constants = [each.value for each in ast.walk(source) if isinstance(each, ast.Constant)]
    assert not [each for each in constants if isinstance(each, str) and each.startswith(("/", ":"))]


# the same session with both clients


def run_session(bot: Client) -> dict[str, Any]:
    bot.wait_until_learned(1, LONG_S)
    question = "Where do I leave my surfboard?"
    answer = bot.predict([question])
    receipt = bot.teach(answer["prediction_ids"][0], "Boards stand in the hall.", comment="by the door")
    status = bot.wait_until_learned(receipt["offset"], LONG_S)
    taught = bot.predict([question], min_offset=receipt["offset"])["predictions"][0]
    feedback = bot.feedback_status(receipt["id"])
    retraction = bot.retract(receipt["id"])
    bot.wait_until_learned(retraction["offset"], LONG_S)
    return {
        "learned": status["learned_until"] >= receipt["offset"],
        "reply": taught["reply"],
        "feedback": feedback["status"],
        "retraction": retraction["status"],
        "replies": len(bot.replies()),
        "versions": bool(bot.versions()[0]["state_sha256"]),
    }


async def run_async_session(bot: AsyncClient) -> dict[str, Any]:
    async with bot:
        await bot.wait_until_learned(1, LONG_S)
        question = "Where do I leave my surfboard?"
        answer = await bot.predict([question])
        receipt = await bot.teach(answer["prediction_ids"][0], "Boards stand in the hall.", comment="by the door")
        status = await bot.wait_until_learned(receipt["offset"], LONG_S)
        taught = (await bot.predict([question], min_offset=receipt["offset"]))["predictions"][0]
        feedback = await bot.feedback_status(receipt["id"])
        retraction = await bot.retract(receipt["id"])
        await bot.wait_until_learned(retraction["offset"], LONG_S)
        return {
            "learned": status["learned_until"] >= receipt["offset"],
            "reply": taught["reply"],
            "feedback": feedback["status"],
            "retraction": retraction["status"],
            "replies": len(await bot.replies()),
            "versions": bool((await bot.versions())[0]["state_sha256"]),
        }


def test_both_clients_give_the_same_results(service: Service) -> None:
    with service.client("chat") as bot:
        results = run_session(bot)
    async_results = asyncio.run(run_async_session(AsyncClient(service.url, "chat")))
    for each in (results, async_results):
        assert each.pop("reply")["text"] == "Boards stand in the hall."
    expected = {"learned": True, "feedback": "learned", "retraction": "retracted", "versions": True}
    assert results == async_results == {**results, **expected}


def test_events_arrive_when_they_happen(service: Service) -> None:
    with service.client("vec") as vec:
        events = vec.events(timeout_s=LONG_S)
        assert next(events)[0] == "status"
        receipt = vec.feedback([{"input": [1, 0, 0, 1], "label": "up"}])[0]
        assert next(data for name, data in events if name == "learned" and data["id"] == receipt["id"])


async def wait_for_learned_event(bot: AsyncClient) -> str:
    async with bot:
        events = bot.events(timeout_s=LONG_S)
        assert (await anext(events))[0] == "status"
        receipt = (await bot.feedback([{"input": [1, 0, 0, 1], "label": "up"}]))[0]
        async for name, data in events:
            if name == "learned" and data["id"] == receipt["id"]:
                return "learned"
        return "ended"


def test_an_async_client_receives_events(service: Service) -> None:
    assert asyncio.run(wait_for_learned_event(AsyncClient(service.url, "vec"))) == "learned"


def test_the_events_of_an_unknown_model_are_an_error(service: Service) -> None:
    with service.client("nothing") as client, pytest.raises(ClientError, match="nothing") as caught:
        next(client.events(timeout_s=LONG_S))
    assert caught.value.status == 404


def test_events_end_when_none_arrives_before_the_timeout(service: Service) -> None:
    names = [name for name, _ in service.client("num").events(timeout_s=0.3)]
    assert names[0] == "status" and {*names[1:]} <= {"received"}  # of the test before


def test_waiting_for_an_offset_that_is_never_learned_times_out(service: Service) -> None:
    with service.client("vec") as vec, pytest.raises(TimeoutError, match="is not learned after"):
        vec.wait_until_learned(10**9, 0.2)


def test_a_refused_request_is_an_error_with_its_status(service: Service) -> None:
    with service.client("vec") as vec:
        for request, status, words in (
            (lambda: vec.predict([[1]]), 400, "this model takes 4"),
            (lambda: vec.feedback_status("a b#c"), 404, "no feedback 'a b#c'"),
            (lambda: vec.roll_back(10**9), 404, "no version"),
        ):
            with pytest.raises(ClientError, match=words) as caught:
                request()
            assert caught.value.status == status


def test_a_reply_is_added_and_retired(service: Service) -> None:
    with service.client("chat") as bot:
        added = bot.add_reply("Our canteen sells soup.", ["Is there soup?"], id="soup")
        answer = bot.predict(["Is there soup?"], min_offset=added["offset"], timeout_ms=60_000)["predictions"][0]
        assert answer["reply"] == {"id": "soup", "text": "Our canteen sells soup."}
        assert bot.retire_reply("soup")["status"] == "accepted"


# failures on the network

Fault = (
    str | int | None
)  # "drop" or "cut" the connection before or after the service sees the request, or answer with a status


class FaultyProxy:
    """A proxy that applies one fault to each of the first requests and forwards the rest."""

    def __init__(self, url: str, faults: Sequence[Fault]) -> None:
        self.target, self.faults, self.requests = url, faults, list[tuple[str, str]]()
        handler = type("Handler", (Handler,), {"proxy": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class Handler(BaseHTTPRequestHandler):
    proxy: FaultyProxy

    def handle_any(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        faults, number = self.proxy.faults, len(self.proxy.requests)
        fault = faults[number] if number < len(faults) else None
        self.proxy.requests.append((self.command, body.decode()))
        if fault == "drop":
            self.close_connection = True
            return
        status, content = (fault, b'{"error": "unavailable"}') if isinstance(fault, int) else self.forward(body)
        if fault == "cut":
            self.close_connection = True
            return
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Retry-After", "0")
        self.end_headers()
        self.wfile.write(content)

    def forward(self, body: bytes) -> tuple[int, bytes]:
        response = httpx.request(self.command, self.proxy.target + self.path, content=body, timeout=30)
        return response.status_code, response.content

    do_GET = do_POST = do_DELETE = handle_any

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""


StartProxy = Callable[..., FaultyProxy]


@pytest.fixture
def start_proxy(service: Service) -> Iterator[StartProxy]:
    proxies: list[FaultyProxy] = []

    def start(*faults: Fault) -> FaultyProxy:
        proxies.append(FaultyProxy(service.url, faults))
        return proxies[-1]

    yield start
    for proxy in proxies:
        proxy.stop()


def vec_head(service: Service) -> int:
    return int(service.http.get("/v1/models/vec").json()["head"])


@pytest.mark.parametrize("faults", [("drop",), ("cut",), ("cut", "drop", 503), (503, 502, 429)])
def test_retried_feedback_has_one_effect(
    service: Service, start_proxy: StartProxy, faults: tuple[str | int, ...]
) -> None:
    before, proxy = vec_head(service), start_proxy(*faults)
    with Client(proxy.url, "vec") as vec:
        receipt = vec.feedback([{"input": [0, 0, 1, 1], "label": "up"}])[0]
    assert vec_head(service) == before + 1 == receipt["offset"]
    assert len(proxy.requests) == len(faults) + 1 and len({body for _, body in proxy.requests}) == 1
    assert json.loads(proxy.requests[0][1])["feedback"][0]["id"] == receipt["id"]


def test_feedback_that_an_async_client_retries_has_one_effect(service: Service, start_proxy: StartProxy) -> None:
    before, proxy = vec_head(service), start_proxy("cut", 503)

    async def send_feedback() -> None:
        async with AsyncClient(proxy.url, "vec") as vec:
            await vec.feedback([{"input": [0, 0, 1, 1], "label": "up"}])

    asyncio.run(send_feedback())
    assert vec_head(service) == before + 1 and len(proxy.requests) == 3


def test_adding_a_reply_is_not_retried(start_proxy: StartProxy) -> None:
    proxy = start_proxy("cut")
    with Client(proxy.url, "chat") as bot, pytest.raises(httpx.TransportError):
        bot.add_reply("Cats sleep on the radiator.")
    assert len(proxy.requests) == 1


def test_the_error_of_the_service_is_raised_after_the_last_retry(start_proxy: StartProxy) -> None:
    proxy = start_proxy(*[503] * 9)
    with Client(proxy.url, "vec", retries=2) as vec, pytest.raises(ClientError, match="unavailable") as caught:
        vec.predict([[0, 0, 0, 0]])
    assert caught.value.status == 503 and len(proxy.requests) == 3


def test_a_refused_request_is_not_retried(start_proxy: StartProxy) -> None:
    proxy = start_proxy()
    with Client(proxy.url, "vec") as vec, pytest.raises(ClientError, match="exactly one of"):
        vec.feedback([{"input": [0, 0, 0, 0]}])
    assert len(proxy.requests) == 1


def test_an_unreachable_service_is_a_connection_error() -> None:
    with Client("http://127.0.0.1:9", "vec", retries=1) as vec, pytest.raises(httpx.ConnectError):
        vec.status()


@pytest.mark.long
def test_a_client_survives_a_restart_of_the_service(start: Start) -> None:
    service = start()
    port = service.url.rpartition(":")[2]
    with Client(service.url, "vec", retries=12) as vec:
        vec.feedback([{"input": [1, 1, 0, 0], "label": "up"}])
        service.stop()
        restart = threading.Thread(target=lambda: start(flags=("--port", port)))
        restart.start()
        assert vec.feedback([{"input": [0, 0, 1, 1], "label": "down"}])[0]["offset"] == 2
        restart.join()


# what callers pass


@pytest.fixture
def echo() -> Iterator[tuple[str, list[Message]]]:
    """A server that answers everything with {} and records the headers it received."""
    received: list[Message] = []

    class Recorder(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            received.append(self.headers)
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, format: str, *args: Any) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Recorder)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", received
    server.shutdown()
    server.server_close()


def test_the_key_and_the_headers_are_sent_with_every_request(echo: tuple[str, list[Message]]) -> None:
    url, received = echo

    async def request_status() -> None:
        async with AsyncClient(url, "chat", key="open sesame", headers={"X-Tenant": "a"}) as bot:
            await bot.status()

    with Client(url, "chat", key="open sesame", headers={"X-Tenant": "a"}) as bot:
        bot.status()
    asyncio.run(request_status())
    assert [headers["Authorization"] for headers in received] == ["Bearer open sesame"] * 2
    assert [headers["X-Tenant"] for headers in received] == ["a"] * 2


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda bot: bot.predict(OPEN), "instances must be a list, not the str 'When do you open?': write"),
        (lambda bot: bot.predict({"a": 1.0}), "instances must be a list, not the dict {'a': 1.0}: write"),
        (lambda bot: bot.predict(3), "instances must be a list, not the int 3: write"),
        (lambda bot: bot.predict([OPEN], exclude="hours"), "exclude must be a list"),
        (lambda bot: bot.feedback({"input": [1], "label": "a"}), "items must be a list"),
        (lambda bot: bot.add_reply("Hello.", "Hi?"), "examples must be a list"),
    ],
)
def test_a_single_value_instead_of_a_list_is_refused(call: Callable[[Client], object], words: str) -> None:
    with Client("http://127.0.0.1:9", "chat") as bot, pytest.raises(ValueError, match=re.escape(words)):
        call(bot)


# a light import


def test_the_client_is_imported_in_a_tenth_of_a_second() -> None:
    code = "import time; start = time.process_time(); import online.client; print(time.process_time() - start)"
    times = [float(subprocess.check_output([sys.executable, "-c", code])) for _ in range(5)]
    assert min(times) < 0.1


def test_the_import_loads_no_other_library() -> None:
    code = "import sys; from online import Client; print(' '.join(sys.modules))"
    loaded = set(subprocess.check_output([sys.executable, "-c", code], text=True).split())
    assert not loaded & {"httpx", "asyncio", "pydantic", "numpy", "torch", "fastapi"}


def test_a_prediction_that_may_wait_long_gets_a_longer_timeout() -> None:
    operations = Operations("vec", None, 0)
    long = next(operations.predict([[1.0]], min_offset=1, timeout_ms=60_000))
    short = next(operations.predict([[1.0]], min_offset=1))
    assert isinstance(long, HttpRequest) and isinstance(short, HttpRequest)
    assert long.timeout_s is not None and long.timeout_s > 60
    assert short.timeout_s is None

"""The Python client on a real service: both kinds say the same, and a request that fails is sent again without harm."""

import ast
import asyncio
import inspect
import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

import online
from online import client as module
from online.client import AsyncClient, Client, ClientError, Plans
from tests.conftest import Start
from tests.support import Service

OPEN = "When do you open?"
LONG_S = 60.0


def test_both_are_found_where_the_package_is() -> None:
    assert (online.Client, online.AsyncClient, online.ClientError) == (Client, AsyncClient, ClientError)
    with pytest.raises(AttributeError, match="has no attribute 'Customer'"):
        online.Customer  # noqa: B018


def test_both_have_a_method_for_every_plan() -> None:
    plans = {name for name, _ in inspect.getmembers(Plans, inspect.isfunction) if not name.startswith("_")}
    for kind in (Client, AsyncClient):
        methods = {name for name, _ in inspect.getmembers(kind, inspect.isfunction) if not name.startswith("_")}
        assert methods == plans | {"events", "close"}
        for name in plans:
            assert inspect.signature(getattr(kind, name)) == inspect.signature(getattr(Plans, name))


def test_nothing_but_the_plans_says_what_is_asked() -> None:
    source = ast.parse(Path(module.__file__).read_text())
    for part in source.body:
        if isinstance(part, ast.ClassDef) and part.name in ("Client", "AsyncClient"):
            words = [each.value for each in ast.walk(part) if isinstance(each, ast.Constant)]
            assert not [word for word in words if isinstance(word, str) and word.startswith(("/", ":"))]


# the same story twice: what is written once for a client that waits and once for one that awaits must come to the same


def story(bot: Client) -> dict[str, Any]:
    bot.wait_until_learned(1, LONG_S)
    question = "Where do I leave my surfboard?"
    asked = bot.predict([question])
    receipt = bot.teach(asked["prediction_ids"][0], "Boards stand in the hall.", comment="by the door")
    status = bot.wait_until_learned(receipt["offset"], LONG_S)
    taught = bot.predict([question], min_offset=receipt["offset"])["predictions"][0]
    fate = bot.fate(receipt["id"])
    back = bot.retract(receipt["id"])
    bot.wait_until_learned(back["offset"], LONG_S)
    return {
        "learned": status["learned_until"] >= receipt["offset"],
        "reply": taught["reply"],
        "fate": fate["status"],
        "back": back["status"],
        "replies": len(bot.replies()),
        "versions": bool(bot.versions()[0]["state_sha256"]),
    }


async def awaited(bot: AsyncClient) -> dict[str, Any]:
    async with bot:
        await bot.wait_until_learned(1, LONG_S)
        question = "Where do I leave my surfboard?"
        asked = await bot.predict([question])
        receipt = await bot.teach(asked["prediction_ids"][0], "Boards stand in the hall.", comment="by the door")
        status = await bot.wait_until_learned(receipt["offset"], LONG_S)
        taught = (await bot.predict([question], min_offset=receipt["offset"]))["predictions"][0]
        fate = await bot.fate(receipt["id"])
        back = await bot.retract(receipt["id"])
        await bot.wait_until_learned(back["offset"], LONG_S)
        return {
            "learned": status["learned_until"] >= receipt["offset"],
            "reply": taught["reply"],
            "fate": fate["status"],
            "back": back["status"],
            "replies": len(await bot.replies()),
            "versions": bool((await bot.versions())[0]["state_sha256"]),
        }


def test_both_tell_the_same_story(service: Service) -> None:
    with service.client("chat") as bot:
        told = story(bot)
    again = asyncio.run(awaited(AsyncClient(service.url, "chat")))
    for each in (told, again):
        reply = each.pop("reply")
        assert reply["text"] == "Boards stand in the hall."
    assert told == again == {**told, "learned": True, "fate": "learned", "back": "retracted", "versions": True}


def test_events_come_as_they_happen(service: Service) -> None:
    with service.client("vec") as vec:
        told = vec.events(timeout_s=LONG_S)
        assert next(told)[0] == "status"
        receipt = vec.feedback([{"input": [1, 0, 0, 1], "label": "up"}])[0]
        assert next(data for name, data in told if name == "learned" and data["id"] == receipt["id"])


async def first_learned(bot: AsyncClient) -> str:
    async with bot:
        told = bot.events(timeout_s=LONG_S)
        assert (await anext(told))[0] == "status"
        receipt = (await bot.feedback([{"input": [1, 0, 0, 1], "label": "up"}]))[0]
        async for name, data in told:
            if name == "learned" and data["id"] == receipt["id"]:
                return "learned"
        return "ended"


def test_events_come_to_whoever_awaits_them(service: Service) -> None:
    assert asyncio.run(first_learned(AsyncClient(service.url, "vec"))) == "learned"


def test_events_end_when_nothing_happens_for_long_enough(service: Service) -> None:
    assert [name for name, _ in service.client("num").events(timeout_s=0.3)] == ["status"]


def test_waiting_for_what_is_never_learned_ends(service: Service) -> None:
    with service.client("vec") as vec, pytest.raises(TimeoutError, match="is not learned after"):
        vec.wait_until_learned(10**9, 0.2)


def test_a_refusal_is_an_error_with_its_status(service: Service) -> None:
    with service.client("vec") as vec:
        for work, status, words in (
            (lambda: vec.predict([[1]]), 400, "this model takes 4"),
            (lambda: vec.fate("a b#c"), 404, "no feedback 'a b#c'"),
            (lambda: vec.roll_back(10**9), 404, "no version"),
        ):
            with pytest.raises(ClientError, match=words) as caught:
                work()
            assert caught.value.status == status


def test_a_repertoire_is_added_to_and_taken_from(service: Service) -> None:
    with service.client("chat") as bot:
        added = bot.add_reply("Our canteen sells soup.", ["Is there soup?"], id="soup")
        answer = bot.predict(["Is there soup?"], min_offset=added["offset"], timeout_ms=60_000)["predictions"][0]
        assert answer["reply"] == {"id": "soup", "text": "Our canteen sells soup."}
        assert bot.retire_reply("soup")["status"] == "accepted"


# what fails on the way


class Between:
    """A proxy that spoils requests: how(n) is what happens to the n-th one: 'drop' before it, 'cut' after it, a status."""

    def __init__(self, url: str, how: Callable[[int], str | int | None]) -> None:
        self.target, self.how, self.seen = url, how, list[tuple[str, str]]()
        handler = type("Handler", (Handler,), {"between": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class Handler(BaseHTTPRequestHandler):
    between: Between

    def handle_any(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        what = self.between.how(len(self.between.seen))
        self.between.seen.append((self.command, body.decode()))
        if what == "drop":
            self.close_connection = True
            return
        status, content = (what, b'{"error": "just now"}') if isinstance(what, int) else self.forwarded(body)
        if what == "cut":
            self.close_connection = True
            return
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Retry-After", "0")
        self.end_headers()
        self.wfile.write(content)

    def forwarded(self, body: bytes) -> tuple[int, bytes]:
        answered = httpx.request(self.command, self.between.target + self.path, content=body, timeout=30)
        return answered.status_code, answered.content

    do_GET = do_POST = do_DELETE = handle_any

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""


@pytest.fixture
def between(service: Service) -> Iterator[Callable[..., Between]]:
    made: list[Between] = []

    def spoiling(*hows: str | int | None) -> Between:
        made.append(Between(service.url, lambda n: hows[n] if n < len(hows) else None))
        return made[-1]

    yield spoiling
    for each in made:
        each.stop()


def vec_head(service: Service) -> int:
    return int(service.http.get("/v1/models/vec").json()["head"])


@pytest.mark.parametrize("hows", [("drop",), ("cut",), ("cut", "drop", 503), (503, 502, 429)])
def test_feedback_that_is_sent_again_is_given_once(
    service: Service, between: Callable[..., Between], hows: tuple[str | int, ...]
) -> None:
    before, way = vec_head(service), between(*hows)
    with Client(way.url, "vec") as vec:
        receipt = vec.feedback([{"input": [0, 0, 1, 1], "label": "up"}])[0]
    assert vec_head(service) == before + 1 == receipt["offset"]
    assert len(way.seen) == len(hows) + 1 and len({body for _, body in way.seen}) == 1
    assert json.loads(way.seen[0][1])["feedback"][0]["id"] == receipt["id"]


def test_so_it_is_by_whoever_awaits(service: Service, between: Callable[..., Between]) -> None:
    before, way = vec_head(service), between("cut", 503)

    async def give() -> None:
        async with AsyncClient(way.url, "vec") as vec:
            await vec.feedback([{"input": [0, 0, 1, 1], "label": "up"}])

    asyncio.run(give())
    assert vec_head(service) == before + 1 and len(way.seen) == 3


def test_a_reply_is_not_added_twice(service: Service, between: Callable[..., Between]) -> None:
    way = between("cut")
    with Client(way.url, "chat") as bot, pytest.raises(httpx.TransportError):
        bot.add_reply("Cats sleep on the radiator.")
    assert len(way.seen) == 1


def test_it_gives_up_in_the_end_and_says_why(service: Service, between: Callable[..., Between]) -> None:
    way = between(*[503] * 9)
    with Client(way.url, "vec", retries=2) as vec, pytest.raises(ClientError, match="just now") as caught:
        vec.predict([[0, 0, 0, 0]])
    assert caught.value.status == 503 and len(way.seen) == 3


def test_what_was_refused_is_not_sent_again(service: Service, between: Callable[..., Between]) -> None:
    way = between()
    with Client(way.url, "vec") as vec, pytest.raises(ClientError, match="exactly one of"):
        vec.feedback([{"input": [0, 0, 0, 0]}])
    assert len(way.seen) == 1


def test_nobody_there_is_a_connection_error() -> None:
    with Client("http://127.0.0.1:9", "vec", retries=1) as vec, pytest.raises(httpx.ConnectError):
        vec.status()


def test_a_restart_goes_unnoticed(start: Start) -> None:
    service = start()
    port = service.url.rpartition(":")[2]
    with Client(service.url, "vec", retries=12) as vec:
        vec.feedback([{"input": [1, 1, 0, 0], "label": "up"}])
        service.stop()
        again = threading.Thread(target=lambda: start(flags=("--port", port)))
        again.start()
        assert vec.feedback([{"input": [0, 0, 1, 1], "label": "down"}])[0]["offset"] == 2
        again.join()


# light


def test_it_is_imported_in_a_tenth_of_a_second() -> None:
    code = "import time; start = time.process_time(); import online.client; print(time.process_time() - start)"
    times = [float(subprocess.check_output([sys.executable, "-c", code])) for _ in range(5)]
    assert min(times) < 0.1


def test_it_needs_nothing_before_it_is_used() -> None:
    code = "import sys; from online import Client; print(' '.join(sys.modules))"
    loaded = set(subprocess.check_output([sys.executable, "-c", code], text=True).split())
    assert not loaded & {"httpx", "asyncio", "pydantic", "numpy", "torch", "fastapi"}

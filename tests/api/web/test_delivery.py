"""How pages and answers reach a client: rendered with the branding, compressed, with ETags, and by HEAD as by GET."""

import asyncio
import gzip
import itertools
import json
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from online.api import pages
from online.api.app import create_app
from online.api.core_routers import ROUTES
from online.settings import ModelSettings, Settings

MODEL = ModelSettings(name="vec", kind="classifier", options={"input": "vector", "size": 2})
INDEX = """<!doctype html>
<html lang="en">
  <head>
    <meta
      name="description"
      content="A chat."
    />
    <meta name="theme-color" content="#f4f6f3" media="(prefers-color-scheme: light)" />
    <meta name="theme-color" content="#101513" media="(prefers-color-scheme: dark)" />
    <link rel="apple-touch-icon" href="./icon-touch.png" />
    <link rel="icon" href="./favicon.svg" type="image/svg+xml" />
    <title>online</title>
  </head>
  <body></body>
</html>
"""
MANIFEST = {"id": "./", "name": "online", "short_name": "online", "icons": [{"src": "icon-192.png"}], "start_url": "./"}
SCRIPT = b"console.log('hello');\n" * 100
SVG = b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'
PREFIX = {"X-Forwarded-Prefix": "/tools"}
Work = Callable[[httpx.AsyncClient], Coroutine[Any, Any, None]]


@pytest.fixture
def build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small build of the frontend. Its compressed files have contents of their own, so that they can be told apart."""
    folder = tmp_path / "static"
    (folder / "assets").mkdir(parents=True)
    (folder / "index.html").write_text(INDEX)
    (folder / "sw.js").write_text("// the worker")
    (folder / "favicon.svg").write_text('<svg fill="#1b6f5a"/>')
    (folder / "manifest.webmanifest").write_text(json.dumps(MANIFEST))
    (folder / "assets" / "app-1.js").write_bytes(SCRIPT)
    (folder / "assets" / "app-1.js.gz").write_bytes(gzip.compress(SCRIPT))
    (folder / "assets" / "app-1.js.br").write_bytes(b"brotli")
    monkeypatch.setattr(pages, "STATIC", folder)
    return folder


@pytest.fixture
def app(build: Path, tmp_path: Path) -> FastAPI:
    return branded(tmp_path, trusted_proxies=("127.0.0.1",))


def branded(tmp_path: Path, **settings: Any) -> FastAPI:
    return create_app(Settings(state=tmp_path / "state", models=(MODEL,), **settings), with_learner=False)


def run(app: FastAPI, work: Work) -> None:
    async def run_in_lifespan() -> None:
        client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1")
        client.headers["Accept-Encoding"] = "identity"
        async with app.router.lifespan_context(app), client:
            await work(client)

    asyncio.run(run_in_lifespan())


def test_the_page_carries_the_branding(build: Path, tmp_path: Path) -> None:
    async def work(client: httpx.AsyncClient) -> None:
        page = (await client.get("/learning")).text
        assert "<title>Fish &amp; Chips</title>" in page and 'content="Ask us."' in page
        assert 'content="#786000" media="(prefers-color-scheme: light)"' in page
        assert 'content="#101513" media="(prefers-color-scheme: dark)"' in page
        block = page.partition('id="page-settings">')[2].partition("</script>")[0]
        assert json.loads(block)["name"] == "Fish & Chips"
        assert (await client.get("/favicon.svg")).text == '<svg fill="#ffcc00"/>'
        manifest = (await client.get("/manifest.webmanifest")).json()
        assert (manifest["name"], manifest["short_name"]) == ("Fish & Chips", "Fish & Chips")
        assert (manifest["theme_color"], manifest["description"]) == ("#ffcc00", "Ask us.")
        assert manifest["start_url"] == "./" and manifest["icons"] == MANIFEST["icons"]

    run(branded(tmp_path, page_name="Fish & Chips", page_intro="Ask us.", page_color="#FFCC00"), work)


def test_the_manifest_names_pictures_that_exist_with_their_sizes() -> None:
    folder = Path(__file__).parents[3] / "frontend" / "public"
    manifest = json.loads((folder / "manifest.webmanifest").read_text())
    pictures = [each for each in (*manifest["icons"], *manifest["screenshots"]) if each["type"] == "image/png"]
    assert {each.get("form_factor") for each in pictures} == {None, "wide", "narrow"}
    for each in pictures:
        header = (folder / each["src"]).read_bytes()[16:24]
        assert each["sizes"] == f"{int.from_bytes(header[:4], 'big')}x{int.from_bytes(header[4:], 'big')}"
    assert [each["url"] for each in manifest["shortcuts"]] == ["./", "draw", "learning"]


def test_the_logo_is_the_icon_and_cannot_run_scripts(build: Path, tmp_path: Path) -> None:
    (tmp_path / "logo").write_bytes(SVG)

    async def work(client: httpx.AsyncClient) -> None:
        logo = await client.get("/page-logo")
        assert (logo.content, logo.headers["Content-Type"]) == (SVG, "image/svg+xml")
        assert logo.headers["Content-Security-Policy"].startswith("default-src 'none'; ")
        assert "sandbox" in logo.headers["Content-Security-Policy"]
        assert logo.headers["X-Content-Type-Options"] == "nosniff"
        page = (await client.get("/")).text
        assert '<link rel="icon" href="./page-logo" type="image/svg+xml">' in page and "favicon" not in page
        manifest = (await client.get("/manifest.webmanifest", headers=PREFIX)).json()
        assert manifest["icons"] == [{"src": "page-logo", "sizes": "any", "type": "image/svg+xml"}]
        assert '"files":["page-logo"]' in (await client.get("/sw.js")).text

    run(branded(tmp_path, page_logo=tmp_path / "logo"), work)


def test_without_a_logo_there_is_no_address_for_one(app: FastAPI) -> None:
    async def work(client: httpx.AsyncClient) -> None:
        assert (await client.get("/page-logo")).status_code == 404

    run(app, work)


@pytest.mark.long
def test_another_branding_is_another_service_worker(build: Path, tmp_path: Path) -> None:
    workers = list[str]()

    async def work(client: httpx.AsyncClient) -> None:
        workers.append((await client.get("/sw.js")).text)

    for name in ("A", "A", "B"):
        run(branded(tmp_path, page_name=name), work)
    assert workers[0] == workers[1] != workers[2] and workers[0].endswith("// the worker")


def test_a_newer_build_is_served_without_a_restart(app: FastAPI, build: Path) -> None:
    async def work(client: httpx.AsyncClient) -> None:
        assert "newer" not in (await client.get("/")).text
        (build / "newer.html").write_text(INDEX.replace("<body>", "<body>newer"))
        (build / "newer.html").rename(build / "index.html")
        assert "newer" in (await client.get("/")).text

    run(app, work)


def test_an_asset_is_sent_in_the_encoding_that_the_client_prefers(app: FastAPI) -> None:
    async def work(client: httpx.AsyncClient) -> None:
        tags = set[str]()
        for accepted, encoding, length in (
            ("gzip, br", "br", 6),
            ("gzip", "gzip", len(gzip.compress(SCRIPT))),
            ("br;q=0", None, len(SCRIPT)),
        ):
            headers = {"Accept-Encoding": accepted}
            answer = await client.head("/assets/app-1.js", headers=headers)
            assert answer.headers.get("Content-Encoding") == encoding
            assert answer.headers["Content-Length"] == str(length)
            assert answer.headers["Content-Type"] == "text/javascript; charset=utf-8"
            assert answer.headers["Vary"] == "Accept-Encoding" and "immutable" in answer.headers["Cache-Control"]
            tags.add(tag := answer.headers["ETag"])
            again = await client.get("/assets/app-1.js", headers={**headers, "If-None-Match": tag})
            assert again.status_code == 304 and again.headers["Vary"] == "Accept-Encoding" and not again.content
        assert len(tags) == 3
        assert (await client.get("/assets/app-1.js", headers={"Accept-Encoding": "gzip"})).content == SCRIPT
        assert (await client.get("/assets/app-1.js.br")).status_code == 404

    run(app, work)


def test_the_widget_is_loaded_by_pages_of_every_origin_and_revalidated(app: FastAPI, build: Path) -> None:
    (build / "widget.js").write_bytes(SCRIPT)
    (build / "widget.js.br").write_bytes(b"brotli")

    async def work(client: httpx.AsyncClient) -> None:
        answer = await client.get("/widget.js", headers={"Origin": "https://shop.example", "Accept-Encoding": "br"})
        assert answer.headers["Cross-Origin-Resource-Policy"] == "cross-origin"
        assert answer.headers["Access-Control-Allow-Origin"] == "*"
        assert answer.headers["Cache-Control"] == "no-cache"
        assert answer.headers["Content-Encoding"] == "br"
        headers = {"If-None-Match": answer.headers["ETag"], "Accept-Encoding": "br"}
        again = await client.get("/widget.js", headers=headers)
        assert (again.status_code, again.headers["Cross-Origin-Resource-Policy"]) == (304, "cross-origin")
        asset = await client.get("/assets/app-1.js")
        assert "Cross-Origin-Resource-Policy" not in asset.headers

    run(app, work)


def test_the_page_is_compressed_and_revalidated(app: FastAPI) -> None:
    async def work(client: httpx.AsyncClient) -> None:
        plain = await client.get("/")
        packed = await client.get("/", headers={"Accept-Encoding": "gzip"})
        assert packed.headers["Content-Encoding"] == "gzip" and packed.text == plain.text
        assert int(packed.headers["Content-Length"]) < len(plain.content)
        tags = {each.headers["ETag"] for each in (plain, packed)}
        assert len(tags) == 2 and plain.headers["Vary"] == "Accept-Encoding"
        for tag, encoding in ((plain.headers["ETag"], "identity"), (f"W/{packed.headers['ETag']}", "gzip")):
            headers = {"If-None-Match": f'"other", {tag}', "Accept-Encoding": encoding}
            assert (await client.get("/", headers=headers)).status_code == 304
        assert (await client.get("/", headers={"If-None-Match": packed.headers["ETag"]})).status_code == 200

    run(app, work)


def test_head_of_every_page_and_asset_is_answered_as_get(app: FastAPI) -> None:
    files = ("index.html", "sw.js", "manifest.webmanifest", "assets/app-1.js", "openapi.json", "docs", "nothing")

    async def work(client: httpx.AsyncClient) -> None:
        for prefix, name, encoding in itertools.product(
            ("", "/tools"), (*pages.PAGES, *files), ("identity", "gzip", "br")
        ):
            headers = {"Accept-Encoding": encoding, **(PREFIX if prefix else {})}
            async with client.stream("GET", f"{prefix}/{name}", headers=headers) as get:
                expected = (get.status_code, dict(get.headers))
            head = await client.head(f"{prefix}/{name}", headers=headers)
            assert (head.status_code, dict(head.headers)) == expected and head.content == b""
            assert head.status_code == (404 if name == "nothing" else 200)

    run(app, work)


def test_long_answers_that_pages_load_are_compressed(app: FastAPI) -> None:
    async def work(client: httpx.AsyncClient) -> None:
        plain = await client.get("/openapi.json")
        packed = await client.get("/openapi.json", headers={"Accept-Encoding": "gzip"})
        assert packed.headers["Content-Encoding"] == "gzip" and packed.content == plain.content
        assert int(packed.headers["Content-Length"]) < len(plain.content) / 5
        assert packed.headers["Vary"] == plain.headers["Vary"] == "Accept-Encoding"

    run(app, work)


def test_short_answers_predictions_and_event_streams_are_not_compressed(app: FastAPI) -> None:
    async def work(client: httpx.AsyncClient) -> None:
        client.headers["Accept-Encoding"] = "gzip"
        short = await client.get("/v1/models/vec")
        predicted = await client.post("/v1/models/vec:predict", json={"instances": [[1, 2]] * 100})
        events = await asyncio.wait_for(client.head("/v1/models/vec/events"), 10)
        assert len(predicted.content) > 1_000
        assert [each.headers.get("Content-Encoding") for each in (short, predicted, events)] == [None] * 3

    run(app, work)


def test_no_answer_with_a_secret_or_with_the_words_of_a_user_is_compressed() -> None:
    """A compressed answer that also holds what somebody else chose would tell its secret by its length."""
    routes = ROUTES.list_compressed()
    assert "/v1/models/{model}/replies" in routes and "/v1/models/{model}/versions" in routes
    secret = ("session", "keys", "conversation", "holders")
    assert [route for route in routes if any(word in route for word in secret)] == []
    assert "/v1/models/{model}/feedback" not in routes  # the page of a feedback URL, with its question and answer

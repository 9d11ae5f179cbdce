"""Errors as pages: only where a browser navigates, with the branding, in its language, and without scripts."""

import asyncio
import re
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from online.api import pages
from online.api.app import create_app
from online.api.web.messages import ERRORS, MESSAGES
from online.settings import ModelSettings, Settings
from tests.api.web.sentences import check_languages

MODEL = ModelSettings(name="vec", kind="classifier", options={"input": "vector", "size": 2})
BROWSER = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}
Work = Callable[[httpx.AsyncClient], Coroutine[Any, Any, None]]


async def fail() -> None:
    raise ZeroDivisionError("unforeseen")


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FastAPI:
    monkeypatch.setattr(pages, "show_docs", fail)
    settings = Settings.model_validate(
        {
            "state": tmp_path,
            "models": [MODEL],
            "page_name": "Fish & Chips",
            "page_color": "#ffcc00",
            "trusted_proxies": ["127.0.0.1"],
        }
    )
    return create_app(settings, with_learner=False)


def run(app: FastAPI, work: Work, **headers: str) -> None:
    async def run_in_lifespan() -> None:
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        client = httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", headers={**BROWSER, **headers})
        async with app.router.lifespan_context(app), client:
            await work(client)

    asyncio.run(run_in_lifespan())


def test_a_browser_gets_a_page_and_a_program_gets_json(app: FastAPI) -> None:
    async def work(client: httpx.AsyncClient) -> None:
        for path in ("/nothing", "/v1/models/none"):
            page = await client.get(path)
            assert page.status_code == 404 and page.headers["Content-Type"] == "text/html; charset=utf-8"
            assert (
                "This page does not exist" in page.text
                and "<title>This page does not exist · Fish &amp; Chips" in page.text
            )
            for accepted in ("*/*", "application/json", "application/json, text/plain, */*"):
                answer = await client.get(path, headers={"Accept": accepted})
                assert answer.status_code == 404 and answer.json()["error"]
            assert "Accept" in page.headers["Vary"] and page.headers["Cache-Control"] == "no-store"

    run(app, work)


def test_the_page_of_each_error_says_what_happened(app: FastAPI) -> None:
    async def work(client: httpx.AsyncClient) -> None:
        cases = (
            (await client.post("/learning"), 405, "This address cannot be opened like this"),
            (await client.get("/docs"), 500, "Something went wrong"),
            (await client.get("/v1/models/vec", params={"timeout_ms": "x"}), 400, "This request is not valid"),
            (await client.get("/", headers={"Host": "evil.example"}), 421, "This is not the right address"),
            (await client.get("/v1/models/vec:nothing"), 400, "This request is not valid"),
        )
        for answer, status, title in cases:
            assert (answer.status_code, title in answer.text) == (status, True), answer.text
        assert "unforeseen" not in cases[1][0].text and cases[0][0].headers["Allow"]

    run(app, work)


def test_a_person_without_a_key_is_asked_to_sign_in(tmp_path: Path) -> None:
    app = create_app(Settings.model_validate({"state": tmp_path, "models": [MODEL], "admin_key": "k" * 20}), False)

    async def work(client: httpx.AsyncClient) -> None:
        page = await client.get("/v1/models")
        assert page.status_code == 401 and "Please sign in" in page.text
        assert page.headers["WWW-Authenticate"] == "Bearer"

    run(app, work)


def test_the_page_is_in_the_language_of_the_browser(app: FastAPI) -> None:
    async def work(client: httpx.AsyncClient) -> None:
        page = (await client.get("/nothing")).text
        assert '<html lang="de">' in page and "Diese Seite gibt es nicht" in page and "Zur Startseite" in page

    run(app, work, **{"Accept-Language": "de-CH, en;q=0.7"})


def test_its_links_stay_below_the_prefix_of_a_proxy(app: FastAPI) -> None:
    async def work(client: httpx.AsyncClient) -> None:
        page = (await client.get("/nothing")).text
        links = re.findall(r'(?:href|src)="([^"]+)"', page)
        assert links and all(link.startswith("/tools/") for link in links)

    run(app, work, **{"X-Forwarded-Prefix": "/tools"})


def test_it_runs_no_script_and_escapes_what_was_asked_for(app: FastAPI) -> None:
    async def work(client: httpx.AsyncClient) -> None:
        page = await client.get("/v1/models/<script>alert(1)")
        assert page.status_code == 404 and "<script" not in page.text and "&lt;script&gt;" in page.text
        policy = page.headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'none'; ") and "unsafe" not in policy and "script-src" not in policy
        assert page.text.count("<style>") == 1 and " style=" not in page.text

    run(app, work)


def test_it_has_the_configured_colors(app: FastAPI) -> None:
    async def work(client: httpx.AsyncClient) -> None:
        assert "--accent: light-dark(#786000, #ffcc00);" in (await client.get("/nothing")).text

    run(app, work)


def test_head_of_a_page_that_does_not_exist_has_no_body(app: FastAPI) -> None:
    async def work(client: httpx.AsyncClient) -> None:
        get, head = await client.get("/nothing"), await client.head("/nothing")
        assert (head.status_code, dict(head.headers)) == (get.status_code, dict(get.headers))

    run(app, work)


def test_no_language_lacks_a_sentence() -> None:
    check_languages(MESSAGES, ERRORS)

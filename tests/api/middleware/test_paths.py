"""Path prefixes in the documentation and in signed URLs, HEAD requests, and unknown fields."""

import asyncio
import gc
import weakref
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI, Request

from online.api.app import create_app
from online.api.openapi import DocumentRoute
from online.settings import ModelSettings, Settings

MODEL = ModelSettings(name="vec", kind="classifier", options={"input": "vector", "size": 2})
Work = Callable[[httpx.AsyncClient], Coroutine[Any, Any, None]]


def run(app: FastAPI, work: Work) -> None:
    async def run_in_lifespan() -> None:
        client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1")
        async with app.router.lifespan_context(app), client:
            await work(client)

    asyncio.run(run_in_lifespan())


@pytest.fixture
def app(tmp_path: Path) -> FastAPI:
    return create_app(
        Settings(state=tmp_path, models=(MODEL,), open=True, trusted_proxies=("127.0.0.1",)), with_learner=False
    )


@pytest.mark.parametrize("is_stripped", [True, False])
def test_the_prefix_of_a_proxy_is_in_every_url(app: FastAPI, is_stripped: bool) -> None:
    headers, path = {"X-Forwarded-Prefix": "/online"}, "" if is_stripped else "/online"

    async def work(client: httpx.AsyncClient) -> None:
        docs = await client.get(f"{path}/docs", headers=headers)
        assert "/online/openapi.json" in docs.text and "/online/docs/swagger-ui.css" in docs.text
        document = (await client.get(f"{path}/openapi.json", headers=headers)).json()
        assert document["servers"] == [{"url": "/online"}]
        body = {"instances": [[1, 2]], "feedback_urls": True}
        answer = await client.post(f"{path}/v1/models/vec:predict", json=body, headers=headers)
        assert answer.json()["feedback_urls"][0].startswith("http://127.0.0.1/online/v1/models/vec/feedback?")
        assert "servers" not in (await client.get("/openapi.json")).json()

    run(app, work)


@pytest.mark.parametrize(
    ("proxies", "expected"), [((), "http://127.0.0.1/v1/"), (("127.0.0.1",), "https://127.0.0.1/online/v1/")]
)
def test_the_prefix_and_the_scheme_of_a_header_count_only_from_a_trusted_proxy(
    tmp_path: Path, proxies: tuple[str, ...], expected: str
) -> None:
    async def work(client: httpx.AsyncClient) -> None:
        headers = {"X-Forwarded-Prefix": "/online", "X-Forwarded-Proto": "https"}
        body = {"instances": [[1, 2]], "feedback_urls": True}
        answer = await client.post("/v1/models/vec:predict", json=body, headers=headers)
        assert answer.json()["feedback_urls"][0].startswith(expected)

    settings = Settings(state=tmp_path, models=(MODEL,), open=True, trusted_proxies=proxies)
    run(create_app(settings, with_learner=False), work)


def test_the_openapi_document_is_rendered_once(app: FastAPI) -> None:
    """It needs no key, and to render it takes 10 ms, and half a second the first time."""
    shown = DocumentRoute().show

    async def read() -> list[bytes]:
        request = Request({"type": "http", "path": "/openapi.json", "headers": [], "app": app})
        return [bytes((await shown(request)).body) for _ in range(2)]

    first, second = asyncio.run(read())
    assert first is second and b'"openapi":' in first


def test_an_application_that_has_ended_leaves_no_memory(tmp_path: Path) -> None:
    """A process that opens one after another, such as one of these tests, keeps no model of those before."""

    async def work(client: httpx.AsyncClient) -> None:
        assert (await client.get("/openapi.json")).is_success
        assert (await client.post("/v1/models/vec:predict", json={"instances": [[1, 2]]})).is_success

    app = create_app(Settings(state=tmp_path, models=(MODEL,), open=True), with_learner=False)
    run(app, work)
    ended = weakref.ref(app)
    del app
    gc.collect()
    assert ended() is None


def test_the_configured_prefix_overrides_the_header(tmp_path: Path) -> None:
    app = create_app(Settings(state=tmp_path, models=(MODEL,), root_path="/mine/"), with_learner=False)

    async def work(client: httpx.AsyncClient) -> None:
        assert "/mine/openapi.json" in (await client.get("/docs", headers={"X-Forwarded-Prefix": "/other"})).text

    run(app, work)


@pytest.mark.few(2)
@pytest.mark.parametrize("prefix", ["//elsewhere.example", "elsewhere", "/a'b", "/<script>"])
def test_a_prefix_that_is_not_a_path_is_ignored(app: FastAPI, prefix: str) -> None:
    async def work(client: httpx.AsyncClient) -> None:
        docs = await client.get("/docs", headers={"X-Forwarded-Prefix": prefix})
        assert "'/openapi.json'" in docs.text and prefix not in docs.text

    run(app, work)


@pytest.mark.few(3)
@pytest.mark.parametrize(
    "path", ["/", "/learning", "/docs", "/healthz", "/readyz", "/metrics", "/v1/models", "/v1/models/vec", "/v2"]
)
def test_head_is_answered_as_get_without_a_body(app: FastAPI, path: str) -> None:
    async def work(client: httpx.AsyncClient) -> None:
        get, head = await client.get(path), await client.head(path)
        assert (head.status_code, head.content) == (get.status_code, b"")
        assert head.headers["content-type"] == get.headers["content-type"]

    run(app, work)


def test_head_of_the_event_stream_ends(app: FastAPI) -> None:
    async def work(client: httpx.AsyncClient) -> None:
        head = await asyncio.wait_for(client.head("/v1/models/vec/events"), 10)
        assert head.headers["content-type"].startswith("text/event-stream")

    run(app, work)


UNKNOWN_FIELDS: Mapping[str, tuple[str, dict[str, Any], str]] = {
    "predict": (
        ":predict",
        {"instances": [[1, 2]], "min_offest": 3},
        "unknown field 'min_offest'; did you mean 'min_offset'?",
    ),
    "the former name beside the new one": (
        ":predict",
        {"instances": [[1, 2]], "besides": [], "exclude": []},
        "besides",
    ),
    "feedback": (":feedback", {"feedbak": []}, "unknown field 'feedbak'; did you mean 'feedback'?"),
    "an item of feedback": (
        ":feedback",
        {"feedback": [{"input": [1, 2], "lable": "a"}]},
        "feedback.0: unknown field 'lable'; did you mean 'label'?",
    ),
    "a rollback": (":rollback", {"versoin": 1}, "unknown field 'versoin'; did you mean 'version'?"),
}


@pytest.mark.parametrize("case", UNKNOWN_FIELDS)
def test_an_unknown_field_is_refused_with_a_suggestion(app: FastAPI, case: str) -> None:
    path, body, words = UNKNOWN_FIELDS[case]

    async def work(client: httpx.AsyncClient) -> None:
        answer = await client.post(f"/v1/models/vec{path}", json=body)
        assert answer.status_code == 400 and words in answer.json()["error"]

    run(app, work)


def test_a_body_in_the_format_of_tensorflow_may_have_unknown_fields(app: FastAPI) -> None:
    async def work(client: httpx.AsyncClient) -> None:
        answer = await client.post("/v1/models/vec:predict", json={"inputs": [[1, 2]], "min_offest": 3})
        assert answer.status_code == 200

    run(app, work)


def test_classes_are_listed_under_both_names(app: FastAPI) -> None:
    async def work(client: httpx.AsyncClient) -> None:
        await client.post("/v1/models/vec:feedback", json={"feedback": [{"input": [1, 2], "label": "a"}]})
        classes, labels = [(await client.get(f"/v1/models/vec/{name}")).json() for name in ("classes", "labels")]
        assert classes == labels and classes["classes"] == classes["labels"]
        assert [each["label"] for each in classes["classes"]] == ["a"]
        retired = await client.delete("/v1/models/vec/classes/a")
        assert retired.status_code == 202 and retired.json()["id"] == "a"

    run(app, work)


@pytest.mark.parametrize("path", ["/v1/models/vec/conversations/%00", "/v1/models/vec/conversations?q=a%00", "/%00"])
def test_a_nul_in_a_path_is_bad_input_and_no_failure_of_the_store(app: FastAPI, path: str) -> None:
    async def work(client: httpx.AsyncClient) -> None:
        refused = await client.get(path, headers={"X-User": "ann"})
        assert refused.status_code == 400 and "NUL" in refused.json()["error"]

    run(app, work)

"""Host names, origins, and the headers that protect browsers, on every route, the fast path included."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from online.api.app import create_app
from online.settings import ModelSettings, Settings

MODEL = ModelSettings(name="vec", kind="classifier", options={"input": "vector", "size": 2})
PREDICT = "/v1/models/vec:predict"
ROW = b'{"instances": [[1, 2]]}'


def browse(folder: Path, **settings: object) -> TestClient:
    """A client of a new service; it is a context manager."""
    known = Settings.model_validate({"state": folder, "models": (MODEL,), "open": True, **settings})
    return TestClient(create_app(known, with_learner=False), "http://127.0.0.1:8000")


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    with browse(tmp_path) as client:
        yield client


def send(client: TestClient, method: str, path: str, headers: Mapping[str, str]) -> Any:
    return client.request(method, path, headers=headers, content=None if method == "GET" else ROW)


def predict(client: TestClient, **headers: str) -> Any:
    return send(client, "POST", PREDICT, {name.replace("_", "-"): value for name, value in headers.items()})


@pytest.mark.parametrize("path", [PREDICT, "/v1/models", "/healthz", "/", "/v1/models/vec", "/metrics", "/nothing"])
def test_a_name_that_an_attacker_may_have_pointed_here_is_refused(client: TestClient, path: str) -> None:
    response = send(client, "POST" if path == PREDICT else "GET", path, {"Host": "rebound.attacker.example:8000"})
    assert response.status_code == 421
    assert response.json() == {
        "error": "the host 'rebound.attacker.example:8000' is no name of this service; "
        "set public_url, or add it to allowed_hosts"
    }


@pytest.mark.parametrize(
    "host", ["127.0.0.1:8000", "localhost", "[::1]:8000", "10.1.2.3", "online:8000", "a.localhost"]
)
def test_addresses_and_names_that_nobody_can_claim_are_accepted(client: TestClient, host: str) -> None:
    assert predict(client, Host=host).status_code == 200


@pytest.mark.parametrize(
    ("setting", "value", "host"),
    [
        ("public_url", "https://chat.example.com/bot", "chat.example.com"),
        ("public_url", "https://chat.example.com/bot", "CHAT.example.com:443"),
        ("allowed_hosts", ("chat.example.com",), "chat.example.com"),
        ("allowed_hosts", ("*.example.com",), "a.b.example.com"),
    ],
)
def test_configured_names_are_accepted_and_others_are_not(tmp_path: Path, setting: str, value: str, host: str) -> None:
    with browse(tmp_path, **{setting: value}) as client:
        assert predict(client, Host=host).status_code == 200
        assert predict(client, Host=f"{host.partition(':')[0]}.attacker.example").status_code == 421
        assert predict(client, Host="notexample.com").status_code == 421


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://attacker.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:8001"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site", "Origin": "http://127.0.0.1:9000"},
    ],
    ids=lambda headers: "+".join(headers.values()),
)
def test_a_page_elsewhere_changes_nothing(client: TestClient, method: str, headers: Mapping[str, str]) -> None:
    """It could teach a model with a form or with text/plain, which browsers send without asking first."""
    for path in (PREDICT, "/v1/models/vec:feedback", "/v1/models/vec/users/anna", "/v1/models/vec/replies"):
        response = send(client, method, path, {**headers, "Content-Type": "text/plain"})
        assert response.status_code == 403
        assert "may change nothing here" in response.json()["error"]


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Origin": "http://127.0.0.1:8000"},
        {"Origin": "http://127.0.0.1:8000", "Sec-Fetch-Site": "same-origin"},
        {"Origin": "null", "Sec-Fetch-Site": "same-origin"},
        {"Sec-Fetch-Site": "none"},
    ],
    ids=lambda headers: "+".join(headers.values()) or "no browser",
)
def test_programs_and_the_pages_of_the_service_may_change_things(
    client: TestClient, headers: Mapping[str, str]
) -> None:
    assert send(client, "POST", PREDICT, headers).status_code == 200


def test_a_page_elsewhere_may_be_linked_to(client: TestClient) -> None:
    assert send(client, "GET", "/", {"Sec-Fetch-Site": "cross-site"}).status_code == 200


def test_the_public_address_is_an_own_origin_behind_a_proxy_that_rewrites_the_host(tmp_path: Path) -> None:
    with browse(tmp_path, public_url="https://chat.example.com/bot") as client:
        assert predict(client, Origin="https://chat.example.com").status_code == 200
        assert predict(client, Origin="http://chat.example.com").status_code == 403
    with browse(tmp_path / "port", public_url="https://Chat.example.com:443/bot") as client:
        assert predict(client, Origin="https://chat.example.com").status_code == 200


def test_other_origins_may_use_the_api_where_they_are_listed(tmp_path: Path) -> None:
    with browse(tmp_path, cors_origins=("https://shop.example.com",)) as client:
        asked_first = {"Origin": "https://shop.example.com", "Access-Control-Request-Method": "POST"}
        assert (
            send(client, "OPTIONS", PREDICT, asked_first).headers["access-control-allow-origin"]
            == "https://shop.example.com"
        )
        answer = predict(client, Origin="https://shop.example.com", Sec_Fetch_Site="cross-site")
        assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (200, "https://shop.example.com")
        assert predict(client, Origin="https://other.example.com").status_code == 403
        with browse(tmp_path / "without") as client:
            assert "access-control-allow-origin" not in predict(client, Origin="http://127.0.0.1:8000").headers


@pytest.mark.parametrize(
    ("method", "path"), [("POST", PREDICT), ("GET", "/"), ("GET", "/nothing"), ("POST", "/v1/models/none:predict")]
)
def test_every_answer_tells_the_browser_what_a_page_may_do(client: TestClient, method: str, path: str) -> None:
    headers = send(client, method, path, {}).headers
    assert (headers["x-content-type-options"], headers["referrer-policy"]) == ("nosniff", "same-origin")
    policy = headers["content-security-policy"]
    assert policy.startswith("default-src 'self'; ")
    assert policy.endswith("frame-ancestors 'none'")
    assert (
        "; script-src 'self' 'wasm-unsafe-eval'; " in policy
    )  # a text encoder is compiled, and no text becomes a script
    assert policy.count("unsafe") == 1


def test_a_page_that_may_embed_the_chat_is_named(tmp_path: Path) -> None:
    with browse(tmp_path, widget_origins=("https://shop.example.com", "https://example.org")) as client:
        policy = send(client, "GET", "/", {}).headers["content-security-policy"]
        assert policy.endswith("frame-ancestors https://shop.example.com https://example.org")


@pytest.mark.parametrize("origin", ["shop.example.com", "https://shop.example.com/", "https://a b", "*"])
def test_a_setting_that_is_no_origin_is_refused(tmp_path: Path, origin: str) -> None:
    with pytest.raises(ValueError, match="cors_origins"):
        browse(tmp_path, cors_origins=(origin,))


def test_the_documentation_page_runs_its_own_script_alone(client: TestClient) -> None:
    response = send(client, "GET", "/docs", {})
    assert "script-src 'self' 'sha256-" in response.headers["content-security-policy"]
    assert "unsafe" not in response.headers["content-security-policy"]

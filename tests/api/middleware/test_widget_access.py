"""The widget on pages of other origins: CORS for its routes alone, and visitors whom a token tells apart."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI

from tests.api.auth.access import ADMIN_KEY, CHAT, Browser, browse, build

SHOP, OTHER = "https://shop.example.com", "https://attacker.example"
PREDICT, FEEDBACK = "/v1/models/vec:predict", "/v1/models/vec:feedback"
ROW = {"instances": [[1, 2]]}
ROUTES = [
    ("/v1/session", "GET"),
    (PREDICT, "POST"),
    (FEEDBACK, "POST"),
    ("/v1/models/vec/feedback/an-id", "GET, DELETE"),
    ("/v1/models/vec/conversations/an-id", "GET"),
]
ALLOW = "access-control-allow-origin"


def other_page(origin: str = SHOP, site: str = "cross-site", **headers: str) -> dict[str, str]:
    return {"Origin": origin, "Sec-Fetch-Site": site, **{key.replace("_", "-"): text for key, text in headers.items()}}


def preflight(method: str, origin: str = SHOP, asked: str = "content-type,x-visitor-token") -> dict[str, str]:
    return other_page(origin, Access_Control_Request_Method=method, Access_Control_Request_Headers=asked)


def new_token(client: Browser, origin: str = SHOP) -> str:
    token: str = client.get("/v1/session", headers=other_page(origin)).json()["visitor_token"]
    return token


def as_visitor(token: str, origin: str = SHOP) -> dict[str, str]:
    return other_page(origin, X_Visitor_Token=token)


def correct(client: Browser, headers: Mapping[str, str], prediction: str) -> Any:
    item = {"prediction_id": prediction, "correction": "Buy my pills"}
    return client.post("/v1/models/chat:feedback", json={"feedback": [item]}, headers=headers)


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FastAPI]:
    folder = tmp_path_factory.mktemp("widget")
    app = build(folder, public_teaching="off", widget_origins=[SHOP, "https://second.example"])
    with browse(app):
        yield app


@pytest.fixture
def client(app: FastAPI) -> Browser:
    return browse(app)


# CORS


@pytest.mark.parametrize(("path", "methods"), ROUTES)
def test_a_preflight_allows_the_methods_of_a_route_and_two_headers(client: Browser, path: str, methods: str) -> None:
    answer = client.options(path, headers=preflight("POST"))
    assert answer.status_code == 204
    assert answer.headers[ALLOW] == SHOP
    assert answer.headers["access-control-allow-methods"] == methods
    assert answer.headers["access-control-allow-headers"] == "content-type, x-visitor-token"
    assert "access-control-allow-credentials" not in answer.headers
    assert answer.headers["vary"] == "Origin"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/models"),
        ("GET", "/v1/models/vec"),
        ("GET", "/v1/models/vec/replies"),
        ("GET", "/v1/models/vec/conversations"),
        ("DELETE", "/v1/models/vec/conversations/an-id"),
        ("POST", "/v1/models/vec/conversations/an-id:share"),
        ("POST", "/v1/models/vec/versions/1:predict"),
        ("POST", "/v1/session"),
        ("DELETE", "/v1/session"),
        ("POST", "/v1/models/vec/replies"),
        ("PUT", f"/v1/models/vec/classes{FEEDBACK}"),
        ("POST", "/v1/models/vec:rollback"),
        ("DELETE", "/v1/models/vec/examples"),
        ("POST", "/v1/keys"),
        ("GET", "/"),
    ],
)
def test_no_other_route_can_be_used(client: Browser, method: str, path: str) -> None:
    asked = client.options(path, headers=preflight(method))
    assert method not in asked.headers.get("access-control-allow-methods", "").split(", ")
    answer = client.request(method, path, headers=as_visitor(new_token(client)), json=None if method == "GET" else {})
    assert ALLOW not in answer.headers
    assert method == "GET" or answer.status_code == 403


@pytest.mark.parametrize(
    "origin", [OTHER, "null", f"{SHOP}:8443", "http://shop.example.com", f"{SHOP}.attacker.example"]
)
def test_a_page_of_another_origin_can_use_nothing(client: Browser, origin: str) -> None:
    for path, _ in ROUTES:
        assert ALLOW not in client.options(path, headers=preflight("POST", origin)).headers
    session = client.get("/v1/session", headers=other_page(origin))
    assert ALLOW not in session.headers
    assert session.json()["visitor_token"] is None
    assert client.post(PREDICT, json=ROW, headers=as_visitor(new_token(client), origin)).status_code == 403


def test_every_answer_of_its_routes_depends_on_the_origin(client: Browser) -> None:
    for headers in ({}, other_page(), other_page(OTHER)):
        assert "Origin" in client.get("/v1/session", headers=headers).headers["vary"]


def test_errors_can_be_read_by_the_page(client: Browser) -> None:
    unknown = client.post("/v1/models/none:predict", json=ROW, headers=as_visitor(new_token(client)))
    assert (unknown.status_code, unknown.headers[ALLOW]) == (404, SHOP)
    anonymous = client.post(PREDICT, json=ROW, headers=other_page())
    assert (anonymous.status_code, anonymous.headers[ALLOW]) == (401, SHOP)
    assert "GET /v1/session" in anonymous.json()["error"]


def test_too_many_requests_are_refused_with_a_time_that_the_page_can_read(tmp_path: Path) -> None:
    app = build(tmp_path, public_teaching="off", widget_origins=[SHOP], requests_per_minute=3)
    with browse(app) as client:
        token = new_token(client)
        answers = [
            client.post(PREDICT, json=ROW, headers=as_visitor(token)) for _ in range(8)
        ]  # perhaps in two minutes
        refused = next(answer for answer in answers if answer.status_code == 429)
        assert refused.headers[ALLOW] == SHOP
        assert int(refused.headers["retry-after"]) > 0
        assert "retry-after" in refused.headers["access-control-expose-headers"]


def test_a_text_that_is_too_long_is_refused_in_words_for_the_page(tmp_path: Path) -> None:
    app = build(tmp_path, CHAT, public_teaching="off", widget_origins=[SHOP], max_text_chars=100)
    with browse(app) as client:
        headers = as_visitor(new_token(client))
        answer = client.post("/v1/models/chat:predict", json={"instances": ["x" * 101]}, headers=headers)
        assert (answer.status_code, answer.headers[ALLOW]) == (413, SHOP)
        assert (answer.json()["given"], answer.json()["limit"]) == (101, 100)


def test_the_routes_are_found_behind_a_path_prefix(tmp_path: Path) -> None:
    client = browse(
        build(tmp_path / "proxied", public_teaching="off", widget_origins=[SHOP], trusted_proxies=["203.0.113.7"])
    )
    forwarded = {**preflight("POST"), "X-Forwarded-Prefix": "/tools"}
    assert client.options(f"/tools{PREDICT}", headers=forwarded).status_code == 204
    assert client.options(PREDICT, headers=forwarded).status_code == 204  # a proxy that strips it
    with browse(build(tmp_path, public_teaching="off", widget_origins=[SHOP], root_path="/bot/")) as configured:
        token = configured.get("/bot/v1/session", headers=other_page()).json()["visitor_token"]
        assert configured.post(f"/bot{PREDICT}", json=ROW, headers=as_visitor(token)).status_code == 200


def test_a_service_without_widget_origins_answers_as_before(tmp_path: Path) -> None:
    with browse(build(tmp_path, public_teaching="off")) as client:
        answer = client.get("/v1/session", headers=other_page())
        assert ALLOW not in answer.headers and "vary" not in answer.headers
        assert answer.json()["visitor_token"] is None
        assert client.post(PREDICT, json=ROW, headers=other_page()).status_code == 403


@pytest.mark.parametrize("origin", ["*", "https://*.example.com", "shop.example.com", f"{SHOP}/", "null"])
def test_a_setting_that_is_no_exact_origin_is_refused(tmp_path: Path, origin: str) -> None:
    with pytest.raises(ValueError, match="widget_origins"):
        build(tmp_path, widget_origins=[origin])


# visitors


def test_a_new_visitor_gets_a_token_and_no_cookie(client: Browser) -> None:
    answer = client.get("/v1/session", headers=other_page())
    assert "set-cookie" not in answer.headers
    assert answer.headers["cache-control"] == "no-store"
    session = answer.json()
    assert session["caller"].startswith("visitor:") and session["scopes"] == ["predict", "feedback"]
    again = client.get("/v1/session", headers=as_visitor(session["visitor_token"])).json()
    assert (again["caller"], again["visitor_token"]) == (session["caller"], None)


def test_two_visitors_at_one_address_are_told_apart_from_the_first_second_on(client: Browser) -> None:
    tokens = [new_token(client) for _ in range(3)]
    callers = {client.get("/v1/session", headers=as_visitor(token)).json()["caller"] for token in tokens}
    assert len(callers) == 3


def test_what_is_no_token_for_this_page_counts_for_nothing(client: Browser, tmp_path: Path) -> None:
    token = new_token(client)
    id, _, signature = token.partition(".")
    other = f"{int(id[0], 16) ^ 1:x}{id[1:]}"
    with browse(build(tmp_path, public_teaching="off", widget_origins=[SHOP])) as elsewhere:
        foreign = new_token(elsewhere)
    page = browse(client.app)  # type: ignore[arg-type]
    page.get("/v1/session")
    cookie = page.cookies["online_visitor"]
    for forged in ("", id, f"{id}.", f"{other}.{signature}", f".{signature}", foreign, cookie, "é" * 400, ADMIN_KEY):
        headers = {name: text.encode() for name, text in as_visitor(forged).items()}
        assert client.post(PREDICT, json=ROW, headers=headers).status_code == 401, forged  # type: ignore[arg-type]
    assert client.post(PREDICT, json=ROW, headers=as_visitor(token, "https://second.example")).status_code == 401
    assert client.post(PREDICT, json=ROW, headers=as_visitor(token)).status_code == 200


def test_a_token_is_no_cookie_and_counts_on_no_page_of_the_service(client: Browser) -> None:
    token = new_token(client)
    anonymous = {"Sec-Fetch-Site": "same-origin", "X-Visitor-Token": token}
    assert client.post(PREDICT, json=ROW, headers=anonymous).status_code == 401
    assert client.post(PREDICT, json=ROW, headers={"Cookie": f"online_visitor={token}"}).status_code == 401


def test_the_operator_who_visits_such_a_page_is_a_visitor_there(client: Browser) -> None:
    """Browsers send cookies from a page of the same site, and a proxy may know who somebody is."""
    assert client.post("/v1/session", json={"key": ADMIN_KEY}).json()["caller"] == "admin"
    page = other_page(site="same-site")
    session = client.get("/v1/session", headers=page).json()
    assert session["caller"].startswith("visitor:") and not session["is_signed_in"]
    assert client.post(PREDICT, json=ROW, headers=page).status_code == 401
    form = {**page, "Content-Type": "text/plain"}  # sent without a preflight
    assert client.post(FEEDBACK, content=b'{"feedback": []}', headers=form).status_code == 401
    assert client.get("/v1/session").json()["caller"] == "admin"


@pytest.mark.parametrize(
    "settings",
    [
        {"open": True, "admin_key": None},
        {"admin": "local"},
        {"identity_header": "X-User-Email", "trusted_proxies": ["127.0.0.0/8"]},
    ],
    ids=["open to everybody", "open to this machine", "a proxy names users"],
)
def test_such_a_page_gets_no_rights_that_the_network_grants(tmp_path: Path, settings: dict[str, Any]) -> None:
    with browse(build(tmp_path, widget_origins=[SHOP], **settings), "127.0.0.1") as client:
        named = other_page(X_User_Email="anna@example.com")
        session = client.get("/v1/session", headers=named)
        assert (session.json()["caller"], session.json()["scopes"]) == ("anonymous", [])
        assert client.post(PREDICT, json=ROW, headers=named).status_code == 401


def test_an_origin_that_may_use_the_whole_api_may_show_the_widget_too(tmp_path: Path) -> None:
    app = build(tmp_path, public_teaching="off", widget_origins=[SHOP], cors_origins=[SHOP])
    with browse(app) as client:
        answer = client.post(PREDICT, json=ROW, headers=as_visitor(new_token(client)))
        assert (answer.status_code, answer.headers.get_list(ALLOW)) == (200, [SHOP])
        keyed = {**other_page(), "Authorization": f"Bearer {ADMIN_KEY}"}
        assert client.get("/v1/keys", headers=keyed).headers[ALLOW] == SHOP


def test_the_service_may_list_itself_without_locking_its_own_page_out(tmp_path: Path) -> None:
    own = "http://127.0.0.1:8000"
    with browse(build(tmp_path, public_teaching="off", widget_origins=[own])) as client:
        client.get("/v1/session")
        assert client.post(PREDICT, json=ROW, headers={"Origin": own}).status_code == 200


def test_what_a_visitor_teaches_is_reviewed_and_nobody_elses(tmp_path: Path) -> None:
    with browse(build(tmp_path, CHAT, public_teaching="review", widget_origins=[SHOP])) as client:
        mine, yours = as_visitor(new_token(client)), as_visitor(new_token(client))
        question = {"instances": ["Do you lend umbrellas?"], "conversation": "c"}
        asked = client.post("/v1/models/chat:predict", json=question, headers=mine).json()
        prediction = asked["prediction_ids"][0]
        assert correct(client, yours, prediction).status_code in (403, 404)
        receipt = correct(client, mine, prediction).json()["receipts"][0]
        assert receipt["status"] == "held"
        feedback = f"/v1/models/chat/feedback/{receipt['id']}"
        for path in (feedback, "/v1/models/chat/conversations/c"):
            assert client.get(path, headers=yours).status_code in (403, 404)
            assert client.get(path, headers=mine).status_code == 200
        assert client.delete(feedback, headers=yours).status_code in (403, 404)
        assert client.delete(feedback, headers=mine).status_code == 202

"""Keys, sessions, visitors and users that a proxy names: who each request is from, and for whom it acts."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from online.api.auth.key_changes import create_key, revoke_key, rotate_key
from online.api.auth.keys import KeyTable
from online.api.auth.proxies import TrustedProxies
from online.errors import BadInput, NotFound
from online.installed import list_plugins
from online.schemas.access.callers import network_of
from online.settings import Settings
from online.store import Store
from tests.api.auth.access import ADMIN_KEY, bearer, browse, build, new_key

ROW = {"instances": [[1, 2]]}
PREDICT = "/v1/models/vec:predict"


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FastAPI]:
    app = build(tmp_path_factory.mktemp("callers"), public_teaching="off")
    with browse(app):
        yield app


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(f"sqlite:///{tmp_path / 'online.db'}")
    yield store
    store.close()


def in_hours(hours: float) -> datetime:
    return datetime.now(UTC) + timedelta(hours=hours)


# keys


def test_only_the_digest_of_a_key_is_stored(store: Store, tmp_path: Path) -> None:
    new = create_key(store, "alice", ["predict"])
    secret = new.secret.split("_", 2)[2]
    store.close()
    stored = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert new.row.id.encode() in stored and secret.encode() not in stored and len(secret) >= 20


def test_a_key_is_found_until_it_is_revoked_or_expires(store: Store) -> None:
    now = in_hours(0)
    table = KeyTable(store, lambda: now)
    lasting, passing = create_key(store, "a", ["predict"]), create_key(store, "b", ["teach"], None, in_hours(1))
    table.read()
    assert {key.name for key in (table.find(lasting.secret), table.find(passing.secret)) if key} == {"a", "b"}
    assert table.find(lasting.secret[:-1]) is None and table.find("online_") is None
    assert table.find(lasting.secret.replace(lasting.row.id, passing.row.id)) is None
    now = in_hours(2)
    assert table.find(passing.secret) is None and table.find(lasting.secret) is not None
    revoke_key(store, "a")
    table.read()
    assert table.find(lasting.secret) is None and not table


def test_a_rotated_key_leaves_the_old_one_its_grace(store: Store) -> None:
    old = create_key(store, "a", ["predict", "teach"], ["vec"])
    new = rotate_key(store, "a", in_hours(1))
    assert (new.row.scope_list, new.row.model_list) == (["predict", "teach"], ["vec"])
    now = in_hours(0)
    table = KeyTable(store, lambda: now)
    assert table.find(old.secret) and table.find(new.secret)
    now = in_hours(1.1)
    assert not table.find(old.secret) and table.find(new.secret)


def test_a_key_with_an_unknown_scope_or_a_name_in_use_is_refused(store: Store) -> None:
    with pytest.raises(BadInput, match="unknown scope 'everything'"):
        create_key(store, "a", ["everything"])
    with pytest.raises(BadInput, match="at least one scope"):
        create_key(store, "a", [])
    create_key(store, "a", ["predict"])
    with pytest.raises(BadInput, match="there is an active key named 'a'"):
        create_key(store, "a", ["predict"])
    with pytest.raises(NotFound, match=r"no active key 'b'; the active keys are: a"):
        revoke_key(store, "b")


@pytest.mark.parametrize("header", ["Authorization", "X-API-Key", "X-Admin-Key"])
def test_a_new_key_works_at_once_in_each_header(app: FastAPI, header: str) -> None:
    key = new_key(app, "predict", name=header)
    value = f"Bearer {key}" if header == "Authorization" else key
    assert browse(app).post(PREDICT, json=ROW, headers={header: value}).status_code == 200


def test_keys_are_managed_over_http_by_callers_that_have_what_they_give(app: FastAPI) -> None:
    keeper = browse(app, **bearer(new_key(app, "keys", "predict", name="keeper")))
    made = keeper.post("/v1/keys", json={"name": "website", "scopes": ["predict"], "expires_days": 1})
    assert made.status_code == 201 and made.json()["key"].startswith(made.json()["prefix"])
    assert browse(app).post(PREDICT, json=ROW, headers=bearer(made.json()["key"])).status_code == 200
    stronger = keeper.post("/v1/keys", json={"name": "x", "scopes": ["operate"]})
    assert stronger.status_code == 403 and "lacks the scope 'operate'" in stronger.json()["error"]
    assert "key" not in next(each for each in keeper.get("/v1/keys").json()["keys"] if each["name"] == "website")
    rotated = keeper.post(f"/v1/keys/{made.json()['id']}:rotate", json={"grace_hours": 0}).json()["key"]
    assert browse(app).post(PREDICT, json=ROW, headers=bearer(made.json()["key"])).status_code == 401
    assert keeper.delete("/v1/keys/website").status_code == 204
    assert browse(app).post(PREDICT, json=ROW, headers=bearer(rotated)).status_code == 401


# sessions of operators


def sign_in(client: TestClient, key: str) -> int:
    return client.post("/v1/session", json={"key": key}).status_code


def test_an_operator_signs_in_and_out_with_a_cookie_that_no_script_reads(app: FastAPI) -> None:
    client = browse(app, "198.51.100.1")
    assert sign_in(client, "online_00000000_wrong") == 401
    response = client.post("/v1/session", json={"key": ADMIN_KEY})
    cookie = response.headers["set-cookie"].lower()
    assert "httponly" in cookie and "samesite=strict" in cookie and ADMIN_KEY not in cookie
    assert client.get("/v1/session").json()["is_signed_in"]
    assert client.post("/v1/models/vec:freeze", json={}).status_code == 200
    assert client.post("/v1/models/vec:thaw", json={}).status_code == 204
    client.delete("/v1/session")
    assert client.post("/v1/models/vec:freeze", json={}).status_code in (401, 403)


def test_a_cookie_counts_only_for_pages_of_the_service(app: FastAPI) -> None:
    client = browse(app, "198.51.100.2")
    sign_in(client, ADMIN_KEY)
    for headers in ({"Sec-Fetch-Site": ""}, {"Sec-Fetch-Site": "", "Origin": "http://127.0.0.1:9999"}):
        assert client.post("/v1/models/vec:freeze", json={}, headers=headers).status_code in (401, 403)


def test_a_session_ends_with_its_key(app: FastAPI) -> None:
    client, key = browse(app, "198.51.100.3"), new_key(app, "operate", "predict", name="short")
    assert sign_in(client, key) == 200
    assert client.get("/v1/session").json()["caller"] == "key:short"
    revoke_key(app.state.runtime.workspace.store, "short")
    app.state.callers.keys.read()
    assert client.get("/v1/session").json()["caller"] != "key:short"


def test_a_changed_session_cookie_counts_for_nothing(app: FastAPI) -> None:
    client = browse(app, "198.51.100.4")
    sign_in(client, ADMIN_KEY)
    value = client.cookies["online_session"]
    for changed in (
        value[:-1] + ("0" if value[-1] != "0" else "1"),
        "admin.9999999999.",
        "a.b",
        "",
        value.replace(".", ".."),
    ):
        client.cookies.clear()
        client.cookies.set("online_session", changed)
        assert not client.get("/v1/session").json()["is_signed_in"], changed


def test_guessing_keys_is_slowed_down(app: FastAPI) -> None:
    client = browse(app, "198.51.100.5")
    statuses = [sign_in(client, f"guess {n}") for n in range(12)]
    assert statuses[0] == 401 and statuses[-1] == 429
    assert sign_in(browse(app, "198.51.100.6"), ADMIN_KEY) == 200


# visitors


def visit(app: FastAPI) -> TestClient:
    """A new visitor, with a cookie."""
    client = browse(app)
    client.get("/v1/session")
    return client


def test_a_visitor_gets_a_cookie_and_keeps_it(app: FastAPI) -> None:
    client = browse(app)
    assert client.post(PREDICT, json=ROW).status_code == 401  # without the cookie
    first = client.get("/v1/session")
    cookie = first.headers["set-cookie"].lower()
    assert "httponly" in cookie and "samesite=lax" in cookie
    assert first.json()["scopes"] == ["predict", "feedback"] and first.json()["public_teaching"] == "off"
    assert client.get("/v1/session").json()["caller"] == first.json()["caller"]
    assert visit(app).get("/v1/session").json()["caller"] != first.json()["caller"]
    assert client.post(PREDICT, json=ROW).status_code == 200


def test_a_forged_visitor_is_nobody(app: FastAPI) -> None:
    client = visit(app)
    id, _, signature = client.cookies["online_visitor"].partition(".")
    other = visit(app)
    other.cookies.clear()
    other.cookies.set("online_visitor", f"{id[:-1]}{'0' if id[-1] != '0' else '1'}.{signature}")
    assert other.post(PREDICT, json=ROW).status_code == 401


# users that a proxy names


def test_a_trusted_proxy_names_the_user_and_nobody_else_does(tmp_path: Path) -> None:
    settings = {"trusted_proxies": ("10.0.0.0/8",), "identity_header": "X-Forwarded-Email"}
    app = build(tmp_path, admin_key=None, **settings)
    header = {"X-Forwarded-Email": "ann@example.com", "X-Forwarded-For": "6.6.6.6, 198.51.100.7, 10.0.0.9"}
    with browse(app, "10.1.2.3", **header) as proxied:
        session = proxied.get("/v1/session").json()
        assert (session["caller"], session["scopes"]) == ("user:ann@example.com", ["predict", "feedback", "teach"])
        assert browse(app, "203.0.113.9", **header).get("/v1/session").json()["caller"] == "anonymous"
        caller = app.state.callers
        from online.api.auth.callers import Credentials

        found = {name.lower(): value for name, value in header.items()}
        assert caller.find_address(Credentials(found, "10.1.2.3")) == "198.51.100.7"
        assert caller.find_address(Credentials(found, "203.0.113.9")) == "203.0.113.9"


@pytest.mark.parametrize(
    ("forwarded", "address"),
    [
        ("198.51.100.7:4711", "198.51.100.7"),  # with the port, as Azure writes it
        ("[2001:db8::7]:4711", "2001:db8::7"),
        ("2001:db8::7", "2001:db8::7"),
        ("::ffff:198.51.100.7", "198.51.100.7"),
        ("198.51.100.7, unknown", "10.1.2.3"),
        ("", "10.1.2.3"),
    ],
)
def test_a_caller_has_one_address_however_its_proxy_writes_it(forwarded: str, address: str) -> None:
    assert TrustedProxies(["10.0.0.0/8"]).find_client("10.1.2.3", forwarded) == address


@pytest.mark.parametrize(
    ("name", "caller"),
    [
        ("Jos\u00e9 \u674e", "user:Jos\u00e9 \u674e"),
        ("ann\tann", "anonymous"),
        ("ann\x7f", "anonymous"),
        ("a" * 300, f"user:{'a' * 120}"),
    ],
)
def test_a_user_that_a_proxy_names_predicts_under_any_name_that_can_be_recorded(
    tmp_path: Path, name: str, caller: str
) -> None:
    app = build(tmp_path, admin_key=None, trusted_proxies=("10.0.0.0/8",), identity_header="X-Forwarded-Email")
    with browse(app, "10.1.2.3") as proxied:
        headers = {b"x-forwarded-email": name.encode()}
        assert proxied.get("/v1/session", headers=headers).json()["caller"] == caller
        assert proxied.post(PREDICT, json=ROW, headers=headers).status_code == (401 if caller == "anonymous" else 200)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"identity_header": "X-User"}, "needs trusted_proxies"),
        ({"trusted_proxies": ("proxy.example",)}, "neither an address nor a network"),
        ({"public_teaching": "maybe"}, "public_teaching"),
        ({"admin": "remote"}, "admin"),
    ],
)
def test_a_setting_of_access_that_makes_no_sense_is_refused(values: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Settings.model_validate(values)


# limits


def test_requests_are_limited_by_key_visitor_and_address(tmp_path: Path) -> None:
    limits = {"key_requests_per_minute": 3, "requests_per_minute": 4, "address_requests_per_minute": 6}
    app = build(tmp_path, public_teaching="off", **limits)
    with browse(app, "192.0.2.1") as stranger:
        assert [stranger.get("/healthz").status_code for _ in range(8)][-2:] == [429, 429]
        key = new_key(app, "predict")
        statuses = [browse(app, "192.0.2.1").post(PREDICT, json=ROW, headers=bearer(key)).status_code for _ in range(4)]
        assert statuses == [200, 200, 200, 429]
        refused = browse(app, "192.0.2.1").post(PREDICT, json=ROW, headers=bearer(key))
        assert 1 <= int(refused.headers["Retry-After"]) <= 60
        assert browse(app, "192.0.2.2").get("/healthz").status_code == 200
        assert browse(app, "127.0.0.1").post(PREDICT, json=ROW, headers=bearer(ADMIN_KEY)).status_code == 200


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("203.0.113.7", "203.0.113.7"),
        ("::ffff:203.0.113.7", "203.0.113.7"),
        ("2001:db8::1", "2001:db8::"),
        ("2001:db8:0:0:5::9", "2001:db8::"),
        ("2001:db8:0:1::1", "2001:db8:0:1::"),
        ("testclient", "testclient"),
    ],
)
def test_the_addresses_of_one_subscriber_count_as_one(address: str, network: str) -> None:
    assert network_of(address) == network


def test_a_session_names_the_installed_plugins(tmp_path: Path) -> None:
    with browse(build(tmp_path)) as client:
        assert client.get("/v1/session").json()["plugins"] == sorted(plugin.name for plugin in list_plugins())

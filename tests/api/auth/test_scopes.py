"""Every route and every RPC against every scope."""

from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from fastapi.testclient import TestClient

from online.api.auth.callers import Callers
from online.api.auth.scopes import check_scope
from online.api.core_routers import ROUTES
from online.errors import Forbidden, Unauthorized
from online.plugins.grpc.server import create_services, list_rpcs
from online.schemas.access.callers import ANONYMOUS, SCOPE_HELP, SCOPES, Scope, caller_with
from tests.api.auth.access import ADMIN_KEY, CHAT, VEC, bearer, browse, build, new_key
from tests.conftest import Start
from tests.support import run_online

PUBLIC = ("anybody", "share link", "signed URL", "own keys")


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    app = build(tmp_path_factory.mktemp("scopes"), VEC, CHAT)
    with browse(app) as client:
        yield client


@pytest.fixture(scope="module")
def keys(client: TestClient) -> dict[Scope, str]:
    """A key for each scope."""
    return {scope: new_key(client.app, scope) for scope in SCOPES}  # type: ignore[arg-type]


def path_of(template: str) -> str:
    """A path that the template matches, about the model `vec` and things that do not exist."""
    for name, value in {"{model}": "vec", "{name:path}": "nothing", "{path:path}": "nothing"}.items():
        template = template.replace(name, value)
    template = template.replace("{name}", "vec") if template.startswith("/v2") else template
    parts = (
        part if "{" not in part else part.partition("{")[0] + "1" + part.partition("}")[2]
        for part in template.split("/")
    )
    return "/".join(parts)


REFUSALS = {401: Unauthorized, 403: Forbidden}
# these answer 401 or 403 by themselves: a wrong key to sign in with, a signed URL, keys of their own
OWN_CHECKS = {("POST", "/v1/session"), *((each.method, each.path) for each in ROUTES if each.access in PUBLIC[2:])}


@pytest.mark.parametrize("scope", SCOPES)
def test_each_scope_opens_exactly_its_routes(client: TestClient, keys: dict[Scope, str], scope: Scope) -> None:
    for method, template, access in ((each.method, each.path, each.access) for each in ROUTES):
        if (method, template) in OWN_CHECKS or template.endswith("/events"):
            continue
        response = client.request(method, path_of(template), headers=bearer(keys[scope]), content=b"{}")
        is_refused = response.status_code == 403 and "lacks the scope" in response.text
        assert is_refused == (access in SCOPES and access != scope), f"{method} {template}: {response.status_code}"
        assert response.status_code != 401 and response.status_code < 500, f"{method} {template}: {response.text}"


def test_without_a_key_only_the_public_routes_answer(client: TestClient) -> None:
    for method, template, access in ((each.method, each.path, each.access) for each in ROUTES):
        if (method, template) in OWN_CHECKS:
            continue
        response = client.request(method, path_of(template), content=b"{}")
        assert (response.status_code == 401) == (access in SCOPES), f"{method} {template}: {response.status_code}"
        assert ("www-authenticate" in response.headers) == (access in SCOPES)


def test_every_rpc_needs_what_the_table_says(client: TestClient) -> None:
    services = create_services(client.app.state.runtime)  # type: ignore[attr-defined]
    for service in services:
        assert set(service.methods) == set(service.descriptor.methods_by_name) and set(service.exceptions) <= set(
            service.methods
        )


def test_an_rpc_is_refused_without_its_scope(start: Start) -> None:
    service = start(admin_key=ADMIN_KEY, flags=("--grpc-port", "0"))
    command = run_online("keys", "create", "--name", "erases", "--scopes", "erase", "--state", str(service.state))
    key = command.stdout.strip()
    port = int(service.output.partition("listening address=127.0.0.1:")[2].split()[0])
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        for rpc, access in list_rpcs().items():
            kind = channel.stream_stream if rpc.endswith("ModelStreamInfer") else channel.unary_unary
            assert code_of(kind, rpc, None) == (grpc.StatusCode.UNAUTHENTICATED if access in SCOPES else None), rpc
            refused = grpc.StatusCode.PERMISSION_DENIED if access in SCOPES else None
            assert code_of(kind, rpc, key) == refused, rpc
            assert code_of(kind, rpc, ADMIN_KEY) not in (grpc.StatusCode.UNAUTHENTICATED, refused or 0), rpc


def code_of(kind: object, rpc: str, key: str | None) -> grpc.StatusCode | None:
    """The status of a call with an empty message; None for success."""
    metadata = (("authorization", f"Bearer {key}"),) if key else ()
    call = kind(f"/{rpc}", lambda message: message, lambda message: message)  # type: ignore[operator]
    try:
        is_stream = rpc.endswith("ModelStreamInfer")
        next(call(iter([b""]), timeout=30, metadata=metadata)) if is_stream else call(
            b"", timeout=30, metadata=metadata
        )
    except grpc.RpcError as error:
        code: grpc.StatusCode = error.code()
        return code
    return None


def test_a_key_is_limited_to_its_models(client: TestClient) -> None:
    key = bearer(new_key(client.app, "predict", "feedback", name="limited", models=["vec"]))  # type: ignore[arg-type]
    body = {"instances": [[1, 2]]}
    assert client.post("/v1/models/vec:predict", json=body, headers=key).status_code == 200
    for path in ("/v1/models/chat:predict", "/v1/models/chat/labels/latest:predict", "/v2/models/chat/infer"):
        assert client.post(path, json=body, headers=key).status_code == 403, path
    completion = {"model": "chat", "messages": [{"role": "user", "content": "hello"}]}
    assert client.post("/v1/chat/completions", json=completion, headers=key).status_code == 403
    assert client.get("/v1/models", headers=key).json()["models"] == ["vec"]


def test_every_scope_is_explained() -> None:
    assert set(SCOPE_HELP) == set(SCOPES)


def test_the_error_tells_whether_a_key_is_missing_or_too_weak() -> None:
    with pytest.raises(Unauthorized, match=r"needs a key.*'operate'"):
        check_scope(ANONYMOUS, "operate")
    with pytest.raises(Forbidden, match="'key:a' lacks the scope 'operate'"):
        check_scope(caller_with("key:a", ["predict"]), "operate")


def test_a_service_on_another_address_needs_a_key_or_to_be_declared_open(tmp_path: Path) -> None:
    arguments = ("serve", "--state", str(tmp_path), "--host", "0.0.0.0", "--port", "0")
    refused = run_online(*arguments)
    assert refused.returncode == 2 and "online keys create" in refused.stderr and "open = true" in refused.stderr
    app = build(tmp_path, host="0.0.0.0", admin_key=None, open=True)
    with browse(app) as client:
        assert client.post("/v1/models/vec:predict", json={"instances": [[1, 2]]}).status_code == 200
        assert client.post("/v1/models/vec:freeze", json={}).status_code == 403
        assert client.delete("/v1/models/vec/users/anna").status_code == 403


def test_programs_on_this_machine_need_no_key_until_there_is_one(tmp_path: Path) -> None:
    app = build(tmp_path, admin_key=None)
    callers: Callers = app.state.callers
    assert callers.is_open_to_this_machine
    with browse(app, "127.0.0.1") as local:
        assert local.post("/v1/models/vec:freeze", json={}).status_code == 200
        assert local.get("/v1/session").json()["caller"] == "local"
        with_own_key = local.get("/v1/session", headers=bearer("sk-of-another-server")).json()
        assert with_own_key["caller"] == "local"  # clients of OpenAI always send some key
        new_key(app, "predict")
        callers.keys.read()
        assert local.post("/v1/models/vec:thaw", json={}).status_code == 401
    settings = build(tmp_path, admin_key=None, admin="local").state.callers
    assert settings.is_open_to_this_machine


PROXY_HEADERS = ("X-Forwarded-For", "X-Real-IP", "Forwarded", "Via", "CF-Connecting-IP", "X-Forwarded-Proto")


def test_a_forwarded_request_is_never_from_this_machine(tmp_path: Path) -> None:
    with browse(build(tmp_path, admin_key=None, admin="local"), "127.0.0.1") as client:
        assert client.post("/v1/models/vec:freeze", json={}).status_code == 200
        for header in PROXY_HEADERS:
            response = client.post("/v1/models/vec:thaw", json={}, headers={header: "198.51.100.9"})
            assert response.status_code == 401, header

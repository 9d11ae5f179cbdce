"""A key that is limited to some models sees nothing of the others, not even their names."""

import re
from collections.abc import Iterator

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from online.api.core_routers import ROUTES
from online.schemas.access.callers import SCOPES
from tests.api.auth.access import ADMIN_KEY, VEC, bearer, browse, build, new_key

SECRET = "payroll"
WAITS = ("/events", "/openapi.json")  # streams without an end
VALUES = {"model": "vec", "name": "vec", "version": "1", "label": "stable", "user": "ann"}
BODIES = {
    "POST /v1/chat/completions": {"model": "nothing", "messages": [{"role": "user", "content": "Are you open?"}]},
    "POST /v1/models/{model}:predict": {"instances": [[1.0, 1.0]]},
}


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FastAPI]:
    app = build(tmp_path_factory.mktemp("limited"), VEC, VEC.model_copy(update={"name": SECRET}))
    with browse(app):
        yield app


@pytest.fixture(scope="module")
def limited(app: FastAPI) -> TestClient:
    return browse(app, **bearer(new_key(app, *SCOPES, name="limited", models=["vec"])))


@pytest.mark.few(40)
@pytest.mark.parametrize(
    ("method", "path"), [(each.method, each.path) for each in ROUTES if not each.path.endswith(WAITS)]
)
def test_no_answer_names_another_model(limited: TestClient, method: str, path: str) -> None:
    where = re.sub(r"{(\w+)(?::path)?}", lambda match: VALUES.get(match[1], "nothing"), path)
    answer = limited.request(method, where, json=BODIES.get(f"{method} {path}", {}))
    assert SECRET not in answer.text and SECRET not in str(answer.headers)


@pytest.mark.parametrize(
    "path", ["/v1/models/{}", "/v2/models/{}", "/v2/models/{}/config", "/v1/models/{}/versions", "/v1/models/{}/curve"]
)
def test_whether_another_model_exists_is_not_told(limited: TestClient, path: str) -> None:
    there, not_there = limited.get(path.format(SECRET)), limited.get(path.format("nothing"))
    assert there.status_code == not_there.status_code == 403
    assert there.text.replace(SECRET, "nothing") == not_there.text


def test_what_is_about_all_models_is_refused(limited: TestClient) -> None:
    for method, path in (("GET", "/metrics"), ("DELETE", "/v1/users/ann")):
        refused = limited.request(method, path)
        assert refused.status_code == 403 and "may use only vec" in refused.json()["error"]


def test_keys_of_other_models_are_not_listed(app: FastAPI, limited: TestClient) -> None:
    new_key(app, "predict", name="of vec", models=["vec"])
    new_key(app, "predict", name="of all")
    names = {each["name"] for each in limited.get("/v1/keys").json()["keys"]}
    assert names == {"limited", "of vec"}


def test_nobody_without_a_key_learns_the_names_of_models(app: FastAPI) -> None:
    for path in ("/readyz", "/v2", "/v2/health/ready", "/v1/session", "/v1/nothing"):
        assert SECRET not in browse(app).get(path).text
    ready = browse(app, **{"X-Admin-Key": ADMIN_KEY}).get("/readyz").json()
    assert {"vec", SECRET} == ready["models"].keys()

"""Exports over HTTP: the file with its ETag, its manifest, who may read it, and what is refused."""

import hashlib
from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
import onnxruntime
import pytest

from online.client import Client
from online.settings import ModelSettings
from tests.api.auth.access import ADMIN_KEY, bearer, browse, build, new_key
from tests.api.rest.test_versions import DOWN, UP, VEC
from tests.conftest import config
from tests.support import Service, erase, until

MODELS = f"""{VEC}
[[models]]
name = "rows"
kind = "river"
options = {{ estimator = "tree.HoeffdingTreeClassifier" }}
"""


@pytest.fixture(scope="module")
def exporting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("exporting")
    service = Service(folder / "state", config(folder, MODELS))
    yield service
    service.stop()


def get(service: Service, path: str, **headers: str) -> httpx.Response:
    return service.http.get(f"/v1/models/{path}", headers=headers)


def learn(service: Service, user: str | None = None, times: int = 20) -> str:
    """Teach two classes; return the version that has learned them."""
    with Client(service.url, "vec", user) as client:
        items: list[dict[str, Any]] = [{"input": UP, "label": "one"}, {"input": DOWN, "label": "two"}] * times
        offset = client.feedback(items)[-1]["offset"]
        client.wait_until_learned(offset, 60)
        return client.predict([UP], min_offset=offset, record=False)["model_version"]


def test_the_file_gives_the_served_answers(exporting: Service) -> None:
    service = exporting
    version = learn(service)
    response = get(service, f"vec/versions/{version}/export").raise_for_status()
    assert response.headers["etag"] == f'"{hashlib.sha256(response.content).hexdigest()}"'
    assert response.headers["content-disposition"] == f'attachment; filename="vec-{version}.onnx"'
    assert response.headers["x-model-version"] == version
    session = onnxruntime.InferenceSession(response.content)
    manifest = get(service, f"vec/versions/{version}/export/manifest").raise_for_status().json()
    assert manifest["sha256"] == response.headers["etag"].strip('"') and manifest["bytes"] == len(response.content)
    with Client(service.url, "vec") as client:
        served = client.predict([UP, DOWN, [0.4, 0.7]], record=False)["predictions"]
    chances, choice = session.run(["chances", "choice"], {"numbers": np.array([UP, DOWN, [0.4, 0.7]])})
    assert [manifest["classes"][place] for place in choice] == [each["label"] for each in served]
    for row, each in zip(chances, served, strict=True):
        named = dict(zip(manifest["classes"], row.tolist(), strict=True))
        assert named == pytest.approx(each["probabilities"], abs=1e-4)


def test_a_file_that_the_client_has_is_not_sent_again_until_the_version_changes(exporting: Service) -> None:
    service = exporting
    version = learn(service)
    tag = get(service, f"vec/versions/{version}/export").headers["etag"]
    for known in (tag, f'"other", W/{tag}'):
        again = get(service, f"vec/versions/{version}/export", **{"If-None-Match": known})
        assert again.status_code == 304 and not again.content and again.headers["etag"] == tag
    assert get(service, f"vec/versions/{version}/export", **{"If-None-Match": '"other"'}).status_code == 200
    other = get(service, f"vec/versions/{version}/export?format=safetensors")
    assert other.headers["etag"] != tag
    assert other.headers["content-disposition"] == f'attachment; filename="vec-{version}.safetensors"'
    newer = learn(service, times=1)
    later = get(service, "vec/versions/latest/export", **{"If-None-Match": tag})
    assert later.status_code == 200 and later.headers["x-model-version"] == newer
    assert (service.state / "exports" / "vec").is_dir()


def test_the_same_file_is_sent_after_the_kept_one_is_lost_or_damaged(exporting: Service) -> None:
    service = exporting
    version = learn(service)
    first = get(service, f"vec/versions/{version}/export")
    (kept,) = (service.state / "exports" / "vec").glob(f"{version}-onnx-*/model.onnx")
    kept.write_bytes(b"half of it")
    assert get(service, f"vec/versions/{version}/export").content == first.content
    kept.with_name("manifest.json").write_text("{")
    assert get(service, f"vec/versions/{version}/export").content == first.content


def test_what_cannot_be_exported_says_why(exporting: Service) -> None:
    service = exporting
    version = learn(service)
    assert refusal(get(service, f"vec/versions/{version}/export?format=onyx"), 400).endswith(
        "use one of onnx, onnx-int8, safetensors, executorch, litert"
    )
    assert "has no version 999" in refusal(get(service, "vec/versions/999/export"), 404)
    assert "no version of vec has the label" in refusal(get(service, "vec/versions/newest/export"), 404)
    assert "there is no model 'other'" in refusal(get(service, "other/versions/1/export"), 404)
    for route in ("export", "export/manifest"):
        assert "kind river cannot be exported" in refusal(get(service, f"rows/versions/1/{route}"), 409)


def refusal(response: httpx.Response, status: int) -> str:
    assert response.status_code == status, response.text
    return str(response.json()["error"])


def test_exports_of_a_version_are_gone_with_it_when_a_user_is_erased(exporting: Service) -> None:
    service = exporting
    before = learn(service, user="u1")
    get(service, f"vec/versions/{before}/export").raise_for_status()
    learn(service, user="u2")
    with Client(service.url, "vec") as client:
        erase(client, "u1")
    folder = service.state / "exports" / "vec"
    assert until(lambda: not [path for path in folder.iterdir() if path.name.startswith(f"{before}-")])
    assert get(service, f"vec/versions/{before}/export").status_code == 404


def test_exporting_needs_the_scope_predict(tmp_path: Any) -> None:
    app = build(tmp_path / "state")
    with browse(app) as client:
        for route in ("export", "export/manifest"):
            url = f"/v1/models/vec/versions/1/{route}"
            assert client.get(url).status_code == 401
            assert client.get(url, headers=bearer(new_key(app, "feedback", name=route))).status_code == 403
            assert client.get(url, headers=bearer(ADMIN_KEY)).status_code == 404
            allowed = client.get(url, headers=bearer(new_key(app, "predict", name=f"{route} predict")))
            assert allowed.status_code == 404 and "has no version 1" in allowed.json()["error"]


@pytest.mark.parametrize("shares", [False, True])
def test_a_table_names_the_categories_of_others_so_its_exports_are_for_curators(tmp_path: Any, shares: bool) -> None:
    table = ModelSettings(name="tab", kind="classifier", options={"input": "table"}, share_sums=shares)
    app = build(tmp_path / "state", table)
    with browse(app) as client:
        predict, curate = bearer(new_key(app, "predict")), bearer(new_key(app, "predict", "curate"))
        for route in ("export", "export/manifest?format=safetensors", "delta?from=1&format=safetensors"):
            url = f"/v1/models/tab/versions/1/{route}"
            assert client.get(url).status_code == 401
            assert client.get(url, headers=predict).status_code == (404 if shares else 403), route
            assert client.get(url, headers=curate).status_code == 404, "it may be read, but there is no version 1"

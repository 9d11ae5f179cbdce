"""Deltas over REST: a device that has one version follows the model by what changed."""

import hashlib
from collections.abc import Iterator

import httpx
import pytest

from online.client import ClientError
from online.plugins.export.file_deltas import apply_delta
from online.plugins.export.learner_file import read_learner_file
from tests.conftest import Start, config
from tests.plugins.export.test_learner_file_routes import ADMIN, EXPORT, VEC, find_durable, key_of, teach
from tests.support import Service, until

DELTA = "/v1/models/vec/versions/{version}/delta?from={since}"


def teach_one(service: Service) -> str:
    """Teach a class with one example; return a version that has learned it, whose sums are on the disk."""
    given = service.http.post("/v1/models/vec:feedback", json={"feedback": [{"input": [1, 1], "label": "both"}]})
    offset = given.raise_for_status().json()["receipts"][0]["offset"]
    service.wait_learned("vec", offset)
    return str(until(lambda: find_durable(service, offset), what="a durable version"))


Followed = tuple[Service, str, str]


@pytest.fixture(scope="module")
def followed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Followed]:
    """A service, and two versions of its model that follow each other."""
    folder = tmp_path_factory.mktemp("followed")
    service = Service(folder / "state", config(folder, VEC))
    old = teach(service)
    yield service, old, teach_one(service)
    service.stop()


def load(service: Service, version: str, format: str) -> bytes:
    url = EXPORT.format(version=version).replace("format=learner", f"format={format}")
    return service.http.get(url).raise_for_status().content


@pytest.mark.few(1)
@pytest.mark.parametrize("format", ["learner", "safetensors"])
def test_a_delta_turns_the_file_of_one_version_into_that_of_another(followed: Followed, format: str) -> None:
    service, old, new = followed
    file = load(service, old, format)
    answer = service.http.get(f"{DELTA.format(version=new, since=old)}&format={format}").raise_for_status()
    assert answer.headers["Content-Encoding"] == "zstd" and answer.headers["X-Model-Version"] == new
    assert apply_delta(file, answer.content) == load(service, new, format)
    again = service.http.get(
        f"{DELTA.format(version=new, since=old)}&format={format}", headers={"If-None-Match": answer.headers["ETag"]}
    )
    assert again.status_code == 304


def test_the_client_follows_a_model_by_deltas(followed: Followed) -> None:
    service, old, new = followed
    with service.client("vec") as client:
        file = client.export(old, "learner")
        delta = client.delta(file.version, new)
        assert delta.version == new and len(delta.data) < len(file.data)
        assert apply_delta(file.data, delta.data) == client.export(new, "learner").data
        manifest = client.export_manifest(new, "safetensors")
        assert manifest["sha256"] == hashlib.sha256(client.export(new, "safetensors").data).hexdigest()
        with pytest.raises(ClientError, match="999") as refused:
            client.delta(999, new)
    assert refused.value.status == 404


def test_a_client_that_decompresses_nothing_gets_the_delta_as_it_is(followed: Followed) -> None:
    service, old, new = followed
    url = DELTA.format(version=new, since=old)
    answers = [service.http.get(url, headers={"Accept-Encoding": each}) for each in ("identity", "gzip", "zstd")]
    assert [each.headers.get("Content-Encoding") for each in answers] == [None, "gzip", "zstd"]
    assert len({each.content for each in answers}) == 1
    learned = read_learner_file(apply_delta(load(service, old, "learner"), answers[0].content))
    assert learned.fingerprint() == service.versions("vec")[0]["state_sha256"]


@pytest.mark.long
def test_deltas_of_sums_are_for_curators_and_those_of_weights_for_everybody_who_may_ask(start: Start) -> None:
    service = start(VEC, admin_key="open sesame")
    version = teach(service, **ADMIN)
    url = service.url + DELTA.format(version=version, since=version)
    predict = key_of(service, "predict")
    assert httpx.get(url, headers=predict).status_code == 403
    assert httpx.get(f"{url}&format=safetensors", headers=predict).status_code == 200
    assert httpx.get(url, headers=key_of(service, "predict", "curate")).status_code == 200
    assert httpx.get(url).status_code == 401


def test_a_version_that_is_not_kept_or_a_format_without_deltas_is_refused(followed: Followed) -> None:
    service, version, _ = followed
    assert service.http.get(DELTA.format(version=version, since=999)).status_code == 404
    assert service.http.get(f"{DELTA.format(version=version, since=version)}&format=onnx").status_code == 400

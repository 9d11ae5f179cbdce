"""A state folder that an earlier release wrote opens in this one: its models answer as before, and go on learning.

`fixtures/state-RELEASE.tar.xz` holds a folder with a model of every kind, and `state-RELEASE.json` what the service that wrote
it answered from it; `fixtures/make_state.py` made both.
"""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from online.models.kinds import KINDS
from tests.fixtures.make_state import FOLDER, NAME, create_config, read_newest_manifest, unpack_state
from tests.support import Service

RELEASES = sorted(path.name.removesuffix(".tar.xz") for path in FOLDER.glob("state-*.tar.xz"))
EXPECTED: dict[str, dict[str, Any]] = {name: json.loads((FOLDER / f"{name}.json").read_text()) for name in RELEASES}
MODELS = list(EXPECTED[RELEASES[-1]]["models"])
STATUSES = list(EXPECTED[RELEASES[-1]]["statuses"])


@pytest.fixture(scope="module", params=RELEASES)
def release(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def expected(release: str) -> dict[str, Any]:
    """What the service that wrote the folder answered."""
    return EXPECTED[release]


def run_service(folder: Path, release: str) -> Iterator[Service]:
    service = Service(folder / "state", create_config(folder, release))
    yield service
    service.stop()


@pytest.fixture(scope="module")
def opened(release: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service on the folder."""
    folder = tmp_path_factory.mktemp("opened")
    unpack_state(folder, release)
    yield from run_service(folder, release)


@pytest.fixture(scope="module")
def relearned(release: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service on the folder without its snapshots: everything is learned again from the log."""
    folder = tmp_path_factory.mktemp("relearned")
    shutil.rmtree(unpack_state(folder, release) / "snapshots")
    yield from run_service(folder, release)


def predict(service: Service, model: str, instances: list[Any]) -> dict[str, Any]:
    body = {"instances": instances, "record": False}
    answer: dict[str, Any] = service.http.post(f"/v1/models/{model}:predict", json=body).json()
    return answer


def assert_close(actual: object, expected: object, name: str = "") -> None:
    """Assert equality except for the last digits of floats, which depend on the processor."""
    if isinstance(expected, float):
        assert actual == pytest.approx(expected, rel=1e-4, abs=1e-5), name
    elif isinstance(expected, dict):
        assert isinstance(actual, dict) and list(actual) == list(expected), name
        for key, value in expected.items():
            assert_close(actual[key], value, key)
    elif isinstance(expected, list):
        assert isinstance(actual, list)
        for one, other in zip(actual, expected, strict=True):
            assert_close(one, other, name)
    else:
        assert actual == expected, name


def test_this_release_has_a_folder_of_its_own() -> None:
    assert NAME in RELEASES


NEWER_KINDS = {"router"}  # which the folders of earlier releases lack


def test_the_folder_has_a_model_of_every_kind_and_is_small(opened: Service, release: str) -> None:
    kinds = {opened.http.get(f"/v1/models/{model}").json()["kind"] for model in MODELS}
    assert kinds == set(KINDS) - NEWER_KINDS
    assert (FOLDER / f"{release}.tar.xz").stat().st_size < 300_000


@pytest.mark.parametrize("model", MODELS)
def test_every_model_answers_as_before(opened: Service, expected: dict[str, Any], model: str) -> None:
    before = expected["models"][model]
    opened.wait_learned(model, before["learned_until"])  # until its version is loaded, it answers as a new one
    answer = predict(opened, model, before["instances"])
    assert answer["learned_until"] == before["learned_until"]
    assert_close(answer["predictions"], before["predictions"])


@pytest.mark.few(14)
@pytest.mark.parametrize("model", MODELS)
def test_learning_the_log_again_gives_the_same_state(relearned: Service, expected: dict[str, Any], model: str) -> None:
    """The same hash: for exact kinds everywhere, for the others where the same software computed it."""
    before = expected["models"][model]
    kind = relearned.wait_learned(model, before["learned_until"])["kind"]
    manifest = read_newest_manifest(relearned.state, model)
    if KINDS[kind].is_exact or manifest["determinism_domain"] == before["determinism_domain"]:
        assert manifest["state_sha256"] == before["state_sha256"]
    else:
        assert_close(predict(relearned, model, before["instances"])["predictions"], before["predictions"])


@pytest.mark.parametrize("feedback_id", STATUSES)
def test_the_status_of_each_feedback_is_unchanged(opened: Service, expected: dict[str, Any], feedback_id: str) -> None:
    found = opened.http.get(f"/v1/models/chat/feedback/{feedback_id}").json()
    assert found == expected["statuses"][feedback_id]


def test_conversations_and_version_labels_are_kept(opened: Service) -> None:
    listing = opened.http.get("/v1/models/chat/conversations", headers={"X-User": "ann"}).json()
    assert [(each["id"], each["turns"]) for each in listing["conversations"]] == [("c1", 2)]
    labels = {label for version in opened.versions("vec") for label in version["labels"]}
    assert {"stable", "canary", "shadow"} <= labels


def test_an_erased_user_stays_erased(opened: Service) -> None:
    listing = opened.http.get("/v1/models/chat/conversations", headers={"X-User": "dana"}).json()
    assert listing["conversations"] == []


def test_a_feedback_link_still_changes_its_feedback_and_the_model_learns_it(
    opened: Service, expected: dict[str, Any]
) -> None:
    """The link was used once, so a different reward replaces that feedback and changes nothing else."""
    url = opened.url + expected["feedback_link"]
    head = opened.http.get("/v1/models/chat").json()["head"]
    repeated = httpx.post(url, json={"reward": 1}).json()
    assert repeated["status"] == "accepted" and repeated["offset"] <= head
    changed = httpx.post(url, json={"reward": 0}).json()
    assert changed["offset"] == head + 2  # a retraction of the first feedback, then the second
    opened.wait_learned("chat", changed["offset"])
    assert httpx.delete(url).json()["status"] == "retracted"

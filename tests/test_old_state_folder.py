"""A state folder written by release 0.1, before the database had migrations, opens, and its models go on learning.

`fixtures/state-0.1.tar.xz` holds the folder after thumbs, corrections, retractions, a conversation, a
presigned link used three times, an erased user, a retired and restored class, version labels and a
refused event, for nine kinds of model. `state-0.1.json` holds what that release answered from it.
"""

import json
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import torch
from safetensors.torch import load_file

from tests.conftest import config
from tests.support import Service

FIXTURES = Path(__file__).parent / "fixtures"
EXPECTED: dict[str, Any] = json.loads((FIXTURES / "state-0.1.json").read_text())
MODELS = (FIXTURES / "state-0.1.toml").read_text()


def extract_state(folder: Path) -> Path:
    with tarfile.open(FIXTURES / "state-0.1.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return folder / "state"


def run_service(folder: Path) -> Iterator[Service]:
    service = Service(folder / "state", config(folder, MODELS))
    yield service
    service.stop()


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service of the current release on the old folder."""
    folder = tmp_path_factory.mktemp("old")
    extract_state(folder)
    yield from run_service(folder)


@pytest.fixture(scope="module")
def relearned(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service of the current release on the old database without snapshots: everything is learned again from the log."""
    folder = tmp_path_factory.mktemp("relearned")
    shutil.rmtree(extract_state(folder) / "snapshots")
    yield from run_service(folder)


@pytest.mark.parametrize("model", EXPECTED["answers"])
def test_every_model_answers_as_before(opened: Service, model: str) -> None:
    body = {"instances": EXPECTED["answers"][model]["instances"], "record": False}
    answer = opened.http.post(f"/v1/models/{model}:predict", json=body).json()
    assert answer["learned_until"] == EXPECTED["learned_until"][model]
    expected = EXPECTED["answers"][model]["predictions"]
    if model == "chat":  # the scores of candidates have become calibrated chances
        assert [list_replies(each) for each in answer["predictions"]] == [list_replies(each) for each in expected]
    else:
        assert_close(answer["predictions"], expected)


def list_replies(prediction: dict[str, Any]) -> tuple[Any, ...]:
    """What a ranker answers, beside the scores: the reply, the candidates in order, and how it chose."""
    candidates = [(each["id"], each["text"]) for each in prediction["candidates"]]
    return prediction["reply"], candidates, prediction["propensity"], prediction["abstained"]


def assert_close(actual: object, expected: object) -> None:
    """Assert equality except for the last digits of floats, which depend on the processor."""
    if isinstance(expected, float):
        assert actual == pytest.approx(expected, rel=1e-5, abs=1e-6)
    elif isinstance(expected, dict):
        assert isinstance(actual, dict) and list(actual) == list(expected)
        assert_close(list(actual.values()), list(expected.values()))
    elif isinstance(expected, list):
        assert isinstance(actual, list)
        for one, other in zip(actual, expected, strict=True):
            assert_close(one, other)
    else:
        assert actual == expected


# models with numbers that are learned step by step in floats, whose last digits depend on the processor, and the files
# that hold them
IN_FLOATS = {"net": ["weights"], "log": ["weights"], "best": ["line.weights", "slda.weights"]}
EXACT = [model for model in EXPECTED["state_sha256"] if model not in IN_FLOATS]


@pytest.mark.parametrize("model", EXACT)
def test_learning_the_log_again_gives_the_same_state(relearned: Service, model: str) -> None:
    relearned.wait_learned(model, EXPECTED["learned_until"][model])
    newest = max(relearned.versions(model), key=lambda version: int(version["version"]))
    assert newest["state_sha256"] == EXPECTED["state_sha256"][model]


@pytest.mark.parametrize("model", IN_FLOATS)
def test_a_model_in_floats_learns_the_log_to_the_same_numbers(relearned: Service, tmp_path: Path, model: str) -> None:
    relearned.wait_learned(model, EXPECTED["learned_until"][model])
    before, now = newest_numbers(extract_state(tmp_path), model), newest_numbers(relearned.state, model)
    assert before and before.keys() == now.keys()
    for name, tensor in before.items():
        torch.testing.assert_close(now[name], tensor)


def newest_numbers(state: Path, model: str) -> dict[str, torch.Tensor]:
    """The tensors of numbers of the newest version; those of bytes hold JSON."""
    folder = max((state / "snapshots" / model).glob("[0-9]*"), key=lambda folder: int(folder.name))
    files = {file: load_file(folder / f"{file}.safetensors") for file in IN_FLOATS[model]}
    return {
        f"{file}/{name}": tensor
        for file, tensors in files.items()
        for name, tensor in tensors.items()
        if tensor.dtype is not torch.uint8
    }


@pytest.mark.parametrize("feedback_id", EXPECTED["fates"])
def test_the_status_of_each_feedback_is_unchanged(opened: Service, feedback_id: str) -> None:
    status = opened.http.get(f"/v1/models/chat/feedback/{feedback_id}").json()
    assert status == EXPECTED["fates"][feedback_id]


def test_conversations_and_version_labels_are_kept(opened: Service) -> None:
    listing = opened.http.get("/v1/models/chat/conversations", headers={"X-User": "ann"}).json()
    assert [(each["id"], each["turns"]) for each in listing["conversations"]] == [("c1", 4)]
    labels = {label for version in opened.versions("vec") for label in version["labels"]}
    assert {"stable", "canary", "shadow"} <= labels


def test_an_erased_user_stays_erased(opened: Service) -> None:
    listing = opened.http.get("/v1/models/chat/conversations", headers={"X-User": "dana"}).json()
    assert listing["conversations"] == []


def test_an_old_feedback_link_still_changes_its_feedback(opened: Service) -> None:
    """The link was used three times, so a different reward replaces the third feedback and changes nothing else."""
    url = opened.url + EXPECTED["feedback_link"]
    head = opened.http.get("/v1/models/chat").json()["head"]
    repeated = httpx.post(url, json={"reward": 1}).json()
    assert repeated["status"] == "accepted" and repeated["offset"] <= head
    changed = httpx.post(url, json={"reward": 0}).json()
    assert changed["offset"] == head + 2  # a retraction of the third feedback, then the fourth
    opened.wait_learned("chat", changed["offset"])
    assert httpx.delete(url).json()["status"] == "retracted"

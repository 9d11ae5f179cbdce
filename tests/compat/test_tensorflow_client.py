"""TensorFlow Serving's own Python client asks a real service, without TensorFlow, from an environment of its own."""

import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.descriptor import FileDescriptor

from online.serving.protos import tensorflow_error_pb2, tensorflow_pb2, tensorflow_serving_pb2
from tests.compat.environments import ask, environment, run
from tests.compat.wire import assert_ours_is_theirs
from tests.conftest import config
from tests.serving.test_rpc import LEFT, MODELS, RIGHT, Rpcs
from tests.support import Service

VERSION = "2.21.0"
PARTS = ("tensorflow/core/", "tensorflow/tsl/", "tensorflow/compiler/")
AVAILABLE = 30


def unpack_messages(folder: Path) -> None:
    """TensorFlow's messages without TensorFlow: of its 260 MB they are one, and need nothing else of it."""
    pip = [str(folder / "bin" / "pip"), "--disable-pip-version-check"]
    run("tensorflow", [*pip, "install", "-q", "--no-deps", f"tensorflow-serving-api=={VERSION}"])
    run("tensorflow", [*pip, "download", "-q", "--no-deps", "-d", str(folder), f"tensorflow-cpu=={VERSION}"])
    (wheel,) = folder.glob("tensorflow_cpu*.whl")
    (packages,) = folder.glob("lib/python*/site-packages")
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if name.startswith(PARTS) and name.endswith("_pb2.py"):
                archive.extract(name, packages)
    wheel.unlink()


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """Everything the client was told."""
    python = environment("tensorflow-serving", ["grpcio>=1.83", "protobuf>=6.33,<8"], unpack_messages)
    folder = tmp_path_factory.mktemp("tensorflow")
    service = Service(folder / "state", config(folder, MODELS, grpc_port=0))
    rpcs = Rpcs(service)
    rpcs.teach("lab", *[(LEFT, "left"), (RIGHT, "right")] * 4)
    rpcs.teach("num", *[([float(n % 4), float(n % 3)], str(10 + 2 * (n % 4) - n % 3)) for n in range(24)])
    service.wait_learned("chat", 15)
    yield ask(python, "tensorflow_calls", f"127.0.0.1:{rpcs.port}")
    rpcs.channel.close()
    service.stop()


@pytest.fixture
def asked(told: dict[str, Any]) -> dict[str, Any]:
    answers: dict[str, Any] = told["asked"]
    return answers


def test_predict_by_content_and_by_values(asked: dict[str, Any]) -> None:
    got = asked["predict"]
    assert got["shape"] == [2, 2] and got["classes"] == ["left", "right", "right", "left"]
    assert got["scores"][0] > got["scores"][1] and sum(got["scores"]) == pytest.approx(2, abs=1e-5)
    assert got["signature"] == "serving_default" and got["version"] > 0
    assert got["trailing"]["x-model-version"] == str(got["version"])
    assert len(got["trailing"]["x-prediction-ids"].split(",")) == 2
    assert asked["texts"] == {"id": ["hours"], "text": ["We open at nine."]}


def test_by_version_and_by_label(asked: dict[str, Any]) -> None:
    versions = [version for version, _, _ in asked["status"]]
    assert asked["by"] == [versions[-1], versions[0]] and len(versions) > 1
    assert all((state, error) == (AVAILABLE, 0) for _, state, error in asked["status"])


def test_classify_regress_and_several_at_once(asked: dict[str, Any]) -> None:
    assert asked["classify"] == ["left", "right"] and asked["multi"] == "right"
    assert asked["regress"] == [pytest.approx(15, abs=0.5)]
    code, details = asked["no regression"]
    assert code == "INVALID_ARGUMENT" and "Expected regression signature method_name" in details


def test_metadata(asked: dict[str, Any]) -> None:
    assert asked["metadata"] == {
        "serving_default": ["tensorflow/serving/predict", ["x"], ["classes", "scores"]],
        "classify": ["tensorflow/serving/classify", ["inputs"], ["classes", "scores"]],
    }


def test_a_label_moves_and_never_to_what_is_not_available(asked: dict[str, Any]) -> None:
    assert asked["reload"] == 0 and asked["labelled"] == asked["status"][-1][0]
    words = "Request to assign label to version 99999 of model lab, which is not currently available for inference"
    assert asked["reload of none"] == ["FAILED_PRECONDITION", words]


def test_a_deadline_and_what_is_not_there(asked: dict[str, Any]) -> None:
    assert asked["deadline"] == "DEADLINE_EXCEEDED"
    assert asked["no model"] == ["NOT_FOUND", "Servable not found for request: Latest(half)"]
    assert asked["no version"] == ["NOT_FOUND", "Servable not found for request: Specific(lab, 99999)"]
    assert asked["no label"] == ["INVALID_ARGUMENT", "Unrecognized servable version label: x"]


@pytest.mark.parametrize(
    "made", [tensorflow_pb2.DESCRIPTOR, tensorflow_error_pb2.DESCRIPTOR, tensorflow_serving_pb2.DESCRIPTOR]
)
def test_every_field_of_ours_is_theirs(told: dict[str, Any], made: FileDescriptor) -> None:
    assert_ours_is_theirs(made, told["wire"])

"""TensorFlow Serving's own Python client, installed without TensorFlow, against a real service."""

import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.descriptor import FileDescriptor

from online.plugins.grpc.protos import tensorflow_error_pb2, tensorflow_pb2, tensorflow_serving_pb2
from tests.conftest import config
from tests.long.clients.environments import environment, run, run_client
from tests.long.clients.wire import assert_is_subset
from tests.plugins.grpc.test_grpc import LEFT, MODELS, RIGHT, RpcClients
from tests.support import Service

VERSION = "2.21.0"
PARTS = ("tensorflow/core/", "tensorflow/tsl/", "tensorflow/compiler/")
AVAILABLE = 30


def unpack_messages(folder: Path) -> None:
    """Install the protobuf messages of TensorFlow without TensorFlow: 1 of its 260 MB."""
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
def output(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """Everything that tensorflow_calls.py printed."""
    python = environment("tensorflow-serving", ["grpcio>=1.83", "protobuf>=6.33,<8"], unpack_messages)
    folder = tmp_path_factory.mktemp("tensorflow")
    service = Service(folder / "state", config(folder, MODELS, grpc_port=0))
    rpcs = RpcClients(service)
    rpcs.teach("lab", *[(LEFT, "left"), (RIGHT, "right")] * 4)
    rpcs.teach("num", *[([float(n % 4), float(n % 3)], str(10 + 2 * (n % 4) - n % 3)) for n in range(24)])
    service.wait_learned("chat", 15)
    yield run_client(python, "tensorflow_calls", f"127.0.0.1:{rpcs.port}")
    rpcs.channel.close()
    service.stop()


@pytest.fixture
def answers(output: dict[str, Any]) -> dict[str, Any]:
    parsed: dict[str, Any] = output["answers"]
    return parsed


def test_predict_by_content_and_by_values(answers: dict[str, Any]) -> None:
    predict = answers["predict"]
    assert predict["shape"] == [2, 2] and predict["classes"] == ["left", "right", "right", "left"]
    assert predict["scores"][0] > predict["scores"][1] and sum(predict["scores"]) == pytest.approx(2, abs=1e-5)
    assert predict["signature"] == "serving_default" and predict["version"] > 0
    assert predict["trailing"]["x-model-version"] == str(predict["version"])
    assert len(predict["trailing"]["x-prediction-ids"].split(",")) == 2
    assert answers["texts"] == {"id": ["hours"], "text": ["We open at nine."]}


def test_predict_by_version_and_by_label(answers: dict[str, Any]) -> None:
    versions = [version for version, _, _ in answers["status"]]
    assert answers["by"] == [versions[-1], versions[0]] and len(versions) > 1
    assert all((state, error) == (AVAILABLE, 0) for _, state, error in answers["status"])


def test_classify_regress_and_multi_inference(answers: dict[str, Any]) -> None:
    assert answers["classify"] == ["left", "right"] and answers["multi"] == "right"
    assert answers["regress"] == [pytest.approx(15, abs=0.5)]
    code, details = answers["no regression"]
    assert code == "INVALID_ARGUMENT" and "Expected regression signature method_name" in details


def test_the_metadata_lists_the_signatures(answers: dict[str, Any]) -> None:
    assert answers["metadata"] == {
        "serving_default": ["tensorflow/serving/predict", ["x"], ["classes", "scores"]],
        "classify": ["tensorflow/serving/classify", ["inputs"], ["classes", "scores"]],
    }


def test_a_label_moves_only_to_an_available_version(answers: dict[str, Any]) -> None:
    assert answers["reload"] == 0 and answers["labelled"] == answers["status"][-1][0]
    words = "Request to assign label to version 99999 of model lab, which is not currently available for inference"
    assert answers["reload of none"] == ["FAILED_PRECONDITION", words]


def test_a_deadline_and_an_unknown_model_have_their_status_codes(answers: dict[str, Any]) -> None:
    assert answers["deadline"] == "DEADLINE_EXCEEDED"
    assert answers["no model"] == [
        "NOT_FOUND",
        "Servable not found for request: Latest(half); this service has chat, lab, tab, num",
    ]
    assert answers["no version"] == ["NOT_FOUND", "Servable not found for request: Specific(lab, 99999)"]
    assert answers["no label"] == ["INVALID_ARGUMENT", "Unrecognized servable version label: x"]


@pytest.mark.parametrize(
    "descriptor", [tensorflow_pb2.DESCRIPTOR, tensorflow_error_pb2.DESCRIPTOR, tensorflow_serving_pb2.DESCRIPTOR]
)
def test_our_protos_are_a_subset_of_theirs(output: dict[str, Any], descriptor: FileDescriptor) -> None:
    assert_is_subset(descriptor, output["wire"])

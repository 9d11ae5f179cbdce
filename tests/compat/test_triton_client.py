"""Triton's own Python client asks a real service, from an environment of its own."""

from collections.abc import Iterator
from typing import Any

import pytest

from online.serving.protos import inference_pb2
from tests.compat.environments import ask, environment
from tests.compat.wire import assert_ours_is_theirs
from tests.conftest import config
from tests.serving.test_inference import LEFT, MODELS, RIGHT
from tests.serving.test_rpc import port_of
from tests.support import Service


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """Everything the client was told."""
    python = environment("triton", ["tritonclient[http,grpc]>=2.60,<3"])
    folder = tmp_path_factory.mktemp("triton")
    service = Service(folder / "state", config(folder, MODELS, grpc_port=0))
    taught = [{"input": LEFT, "label": "left"}, {"input": RIGHT, "label": "right"}] * 4
    service.wait_learned("vec", service.client("vec").feedback(taught)[-1]["offset"])
    service.wait_learned("chat", 15)
    yield ask(python, "triton_calls", service.url.removeprefix("http://"), f"127.0.0.1:{port_of(service)}")
    service.stop()


def test_health_and_metadata(told: dict[str, Any]) -> None:
    assert told["live"] and told["ready"] and told["model"] == [True, True, False] and not told["nobody"]
    assert (told["server"], told["config"]) == ("online", "vec")
    assert told["metadata"]["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, 2]}]


def test_texts_as_bytes_and_as_json(told: dict[str, Any]) -> None:
    assert told["binary"] == ["print", "mine"]
    assert told["json"] == "print"


def test_requested_outputs_classes_and_versions(told: dict[str, Any]) -> None:
    assert told["requested"] == [[2, 2], True]
    assert [each.split(":")[2] for each in told["classes"]] == ["left", "right", "right", "left"]
    assert told["version"] == told["metadata"]["versions"][0]


def test_an_unknown_model_is_an_error_with_its_text(told: dict[str, Any]) -> None:
    assert told["unknown"] == ["404", "Request for unknown model: 'nobody' is not found"]


def test_repository_and_statistics(told: dict[str, Any]) -> None:
    assert "always served" in told["unload"]
    assert {"chat", "vec"} <= set(told["index"])
    assert told["statistics"] == 6


def test_the_same_over_grpc(told: dict[str, Any]) -> None:
    grpc = told["grpc"]
    assert grpc["ready"] == [True, True, True] and grpc["metadata"] == ["x"]
    assert grpc["infer"] == ["print", "mine"]
    assert [each.split(":")[2] for each in grpc["classes"]] == ["left", "right", "right", "left"]
    assert {"chat", "vec"} <= set(grpc["index"]) and grpc["statistics"] == told["statistics"] + 2
    assert grpc["config"] == ["vec", "online", [["x", 11, [-1, 2]]]]
    assert grpc["version"] == told["metadata"]["versions"][0] and grpc["requested"] == [["scores"], [2, 2]]
    assert "always served" in grpc["unload"]
    assert grpc["unknown"] == ["StatusCode.NOT_FOUND", "Request for unknown model: 'nobody' is not found"]


def test_typed_values_come_back_typed(told: dict[str, Any]) -> None:
    assert told["grpc"]["typed"] == [["left", "right", "right", "left"], 0]


def test_a_stream_answers_each_in_turn_and_goes_on_behind_an_error(told: dict[str, Any]) -> None:
    first, failed, last = told["stream"]
    assert first == ["first", "print", True]
    assert failed == "Request for unknown model: 'nobody' is not found"
    assert last == ["last", "hours", False]


def test_every_field_of_ours_is_theirs(told: dict[str, Any]) -> None:
    assert_ours_is_theirs(inference_pb2.DESCRIPTOR, told["wire"])

"""Triton's own Python client against a real service."""

from collections.abc import Iterator
from typing import Any

import pytest

from online.plugins.grpc.protos import inference_pb2
from tests.conftest import config
from tests.long.clients.environments import environment, run_client
from tests.long.clients.wire import assert_is_subset
from tests.plugins.grpc.test_grpc import port_of
from tests.plugins.open_inference.test_open_inference import LEFT, MODELS, RIGHT
from tests.support import Service


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """All answers the client got."""
    python = environment("triton", ["tritonclient[http,grpc]>=2.60,<3"])
    folder = tmp_path_factory.mktemp("triton")
    service = Service(folder / "state", config(folder, MODELS, grpc_port=0))
    items = [{"input": LEFT, "label": "left"}, {"input": RIGHT, "label": "right"}] * 4
    service.wait_learned("vec", service.client("vec").feedback(items)[-1]["offset"])
    service.wait_learned("chat", 15)
    yield run_client(python, "triton_calls", service.url.removeprefix("http://"), f"127.0.0.1:{port_of(service)}")
    service.stop()


def test_health_and_metadata(answers: dict[str, Any]) -> None:
    assert answers["live"] and answers["ready"] and answers["model"] == [True, True, False] and not answers["nobody"]
    assert (answers["server"], answers["config"]) == ("online", "vec")
    assert answers["metadata"]["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, 2]}]


def test_texts_as_bytes_and_as_json(answers: dict[str, Any]) -> None:
    assert answers["binary"] == ["print", "mine"]
    assert answers["json"] == "print"


def test_compressed_requests(answers: dict[str, Any]) -> None:
    assert answers["compressed"] == ["print", "print"]


def test_requested_outputs_classes_and_versions(answers: dict[str, Any]) -> None:
    assert answers["requested"] == [[2, 2], True]
    assert [each.split(":")[2] for each in answers["classes"]] == ["left", "right", "right", "left"]
    assert answers["version"] == answers["metadata"]["versions"][0]


def test_an_unknown_model_is_an_error_with_its_text(answers: dict[str, Any]) -> None:
    assert answers["unknown"] == [
        "404",
        "Request for unknown model: 'nobody' is not found; this service has chat, vec, num, tab",
    ]


def test_repository_and_statistics(answers: dict[str, Any]) -> None:
    assert "cannot be unloaded" in answers["unload"]
    assert {"chat", "vec"} <= set(answers["index"])
    assert answers["statistics"] == 6


def test_the_same_requests_over_grpc(answers: dict[str, Any]) -> None:
    grpc = answers["grpc"]
    assert grpc["ready"] == [True, True, True] and grpc["metadata"] == ["x"]
    assert grpc["infer"] == ["print", "mine"]
    assert [each.split(":")[2] for each in grpc["classes"]] == ["left", "right", "right", "left"]
    assert {"chat", "vec"} <= set(grpc["index"]) and grpc["statistics"] == answers["statistics"] + 2
    assert grpc["config"] == ["vec", "online", [["x", 11, [-1, 2]]]]
    assert grpc["version"] == answers["metadata"]["versions"][0] and grpc["requested"] == [["scores"], [2, 2]]
    assert "cannot be unloaded" in grpc["unload"]
    assert grpc["unknown"] == [
        "StatusCode.NOT_FOUND",
        "Request for unknown model: 'nobody' is not found; this service has chat, vec, num, tab",
    ]


def test_typed_inputs_get_typed_outputs(answers: dict[str, Any]) -> None:
    assert answers["grpc"]["typed"] == [["left", "right", "right", "left"], 0]


def test_a_stream_answers_each_message_and_continues_after_an_error(answers: dict[str, Any]) -> None:
    first, failed, last = answers["stream"]
    assert first == ["first", "print", True]
    assert failed == "Request for unknown model: 'nobody' is not found; this service has chat, vec, num, tab"
    assert last == ["last", "hours", False]


def test_our_protos_are_a_subset_of_theirs(answers: dict[str, Any]) -> None:
    assert_is_subset(inference_pb2.DESCRIPTOR, answers["wire"])

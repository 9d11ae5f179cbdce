"""KServe's own Python client against a real service: REST v1 and v2, and gRPC."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.conftest import config
from tests.long.clients.environments import environment, run_client
from tests.plugins.grpc.test_grpc import port_of
from tests.plugins.open_inference.test_open_inference import LEFT, MODELS, RIGHT
from tests.support import Service

SIDES = ["left", "right", "right", "left"]
UNKNOWN = "Request for unknown model: 'nobody' is not found; this service has chat, vec, num, tab"


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """All answers the client got. Its environment takes 450 MB, because the client comes with KServe's server."""
    python = environment("kserve", ["kserve>=0.17,<1"])
    folder = tmp_path_factory.mktemp("kserve")
    service = Service(folder / "state", config(folder, MODELS, grpc_port=0))
    items = [{"input": LEFT, "label": "left"}, {"input": RIGHT, "label": "right"}] * 4
    service.wait_learned("vec", service.client("vec").feedback(items)[-1]["offset"])
    service.wait_learned("chat", 15)
    yield run_client(python, "kserve_calls", service.url, f"127.0.0.1:{port_of(service)}")
    service.stop()


def test_a_server_and_its_models_are_ready(answers: dict[str, Any]) -> None:
    rest = answers["rest"]
    assert rest["server"] == [True, True]
    assert (rest["model v2"], rest["model v1"]) == ([True, False], True)
    assert answers["grpc"]["ready"] == [True, True, True]


def test_infer_by_v2_with_bytes_and_with_json(answers: dict[str, Any]) -> None:
    rest = answers["rest"]
    assert rest["binary"] == ["mine", "chat", ["print"]]
    assert rest["bytes back"] == ["print"] and rest["json"] == SIDES
    assert rest["requested"] == [["scores"], [2, 2]]


def test_infer_by_v1(answers: dict[str, Any]) -> None:
    assert answers["rest"]["v1"] == "print"


def test_infer_over_grpc_raw_and_typed(answers: dict[str, Any]) -> None:
    assert answers["grpc"]["raw"] == ["mine", ["print"]] and answers["grpc"]["typed"] == SIDES


def test_an_unknown_model_is_an_error_with_its_text(answers: dict[str, Any]) -> None:
    by_v1, by_v2, ready = answers["rest"]["unknown"]
    assert by_v1[0] == 404 and "Servable not found for request: Latest(nobody)" in by_v1[1]
    assert by_v2[0] == 404 and UNKNOWN in by_v2[1]
    assert ready[0] == 404 and "Could not find any versions of model nobody" in ready[1]
    assert answers["grpc"]["unknown"] == ["NOT_FOUND", UNKNOWN]

"""The requests of TensorFlow Serving's own tests of its REST handler, sent by curl, get exactly the same answers.

The texts are those of http_rest_api_handler.cc, http_rest_api_util.cc and json_tensor.cc. Where their error repeats
the whole document before the message, only the message is compared.
"""

import json
import shutil
import subprocess
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from tests.conftest import config
from tests.support import Service, skip_or_fail

MODELS = """
[[models]]
name = "half"
kind = "regressor"
options = { input = "vector", size = 2, scale = 4.0, target_scale = 64.0 }
"""
HALF = "/v1/models/half"
ONE = '{"instances": [1]}'


class Golden(NamedTuple):
    """An expected error. body: None for a GET. dumped: in TensorFlow Serving the document precedes the text."""

    path: str
    body: str | None
    status: int
    error: str
    dumped: bool = False


GOLDENS = {
    # UnsupportedApiCalls
    "GET foo": Golden("/v1/foo", None, 400, "Malformed request: GET /v1/foo"),
    "POST foo": Golden("/v1/foo", "", 400, "Malformed request: POST /v1/foo"),
    "POST models": Golden("/v1/models", "", 400, "Malformed request: POST /v1/models"),
    "GET predict": Golden("/v1/models/foo:predict", None, 400, "Malformed request: GET /v1/models/foo:predict"),
    "GET a version's predict": Golden(
        "/v1/models/foo/version/50:predict", None, 400, "Malformed request: GET /v1/models/foo/version/50:predict"
    ),
    "version for versions": Golden(
        "/v1/models/foo/version/50:regress", "", 400, "Malformed request: POST /v1/models/foo/version/50:regress"
    ),
    "a version that is a word": Golden(
        "/v1/models/foo/versions/HELLO:regress",
        "",
        400,
        "Malformed request: POST /v1/models/foo/versions/HELLO:regress",
    ),
    "a version beyond int64": Golden(
        f"/v1/models/foo/versions/{2**64 - 1}:regress",
        "",
        400,
        f"Failed to convert version: {2**64 - 1} to numeric.",
    ),
    # PredictModelNameVersionErrors
    "another model": Golden(
        "/v1/models/foo:predict", ONE, 404, "Servable not found for request: Latest(foo); this service has half"
    ),
    "another model's version": Golden(
        "/v1/models/foo/versions/50:predict",
        ONE,
        404,
        "Servable not found for request: Specific(foo, 50); this service has half",
    ),
    "another version": Golden(
        f"{HALF}/versions/99:predict", ONE, 404, "Servable not found for request: Specific(half, 99)"
    ),
    "another label": Golden(f"{HALF}/labels/x:predict", ONE, 400, "Unrecognized servable version label: x"),
    # PredictRequestErrors
    "an empty document": Golden(f"{HALF}:predict", "", 400, "JSON Parse error: The document is empty"),
    "another signature": Golden(
        f"{HALF}:predict",
        '{"signature_name": "x", "instances": [1]}',
        400,
        'Serving signature name: "x" not found in signature def',
    ),
    "a signature that is a number": Golden(
        f"{HALF}:predict", '{"signature_name": 5}', 400, "'signature_name' key must be a string value.", dumped=True
    ),
    "no object": Golden(f"{HALF}:predict", "[1]", 400, "Is not object", dumped=True),
    "neither": Golden(f"{HALF}:predict", "{}", 400, "Missing 'inputs' or 'instances' key"),
    "both": Golden(
        f"{HALF}:predict",
        '{"instances": [1], "inputs": [1]}',
        400,
        "Not formatted correctly expecting only one of 'inputs' or 'instances' keys to exist",
        dumped=True,
    ),
    "instances that are no list": Golden(
        f"{HALF}:predict", '{"instances": 1}', 400, "Excepting 'instances' to be an list/array", dumped=True
    ),
    "no instances": Golden(f"{HALF}:predict", '{"instances": []}', 400, "No values in 'instances' array", dumped=True),
    "a list behind an object": Golden(
        f"{HALF}:predict",
        '{"signature_name": "", "instances": [{"x": [1, 2]}, [1, 2]]}',
        400,
        "Expecting object but got list at item 1 of input list",
    ),
    "an object behind a list": Golden(
        f"{HALF}:predict",
        '{"signature_name": "", "instances": [[1, 2], {"x": [1, 2]}]}',
        400,
        "Expecting value/list but got object at item 1 of input list",
    ),
    "no examples": Golden(
        f"{HALF}:regress", "{}", 400, "When method is classify, key 'examples' is expected and was not found", True
    ),
    "examples that are no list": Golden(
        f"{HALF}:regress", '{"examples": 1}', 400, "Expecting 'examples' value to be an list/array", dumped=True
    ),
    "an empty list of examples": Golden(
        f"{HALF}:regress", '{"examples": []}', 400, "'examples' value is an empty array", dumped=True
    ),
    "an example that is a list": Golden(
        f"{HALF}:regress", '{"examples": [[1]]}', 400, "Example must be JSON object but got JSON Array"
    ),
    "a feature that is null": Golden(
        f"{HALF}:regress",
        '{"examples": [{"x": null}]}',
        400,
        "Feature: x has element with unexpected JSON type: Null",
    ),
    "classify of a regressor": Golden(
        f"{HALF}:classify",
        '{"examples": [{"x": 1}]}',
        400,
        "Expected classification signature method_name to be tensorflow/serving/classify. Was: "
        "tensorflow/serving/predict",
    ),
    # GetStatus, GetModelMetadata
    "another model's status": Golden(
        "/v1/models/foo", None, 404, "Could not find any versions of model foo; this service has half"
    ),
    "another version's status": Golden(f"{HALF}/versions/99", None, 404, "Could not find version 99 of model half"),
}


@pytest.fixture(scope="module")
def half(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    if shutil.which("curl") is None:
        skip_or_fail("no curl")
    folder = tmp_path_factory.mktemp("curl")
    service = Service(folder / "state", config(folder, MODELS))
    with service.client("half") as client:
        points = [{"input": [n % 4, n % 3], "label": 10 + 2 * (n % 4) - n % 3} for n in range(24)]
        service.wait_learned("half", client.feedback(points)[-1]["offset"])
    yield service
    service.stop()


def curl(service: Service, path: str, body: str | None = None, *flags: str) -> tuple[int, str, str]:
    """Return (status, content type, body). The content type of the request is the default of curl -d."""
    data_flags = [] if body is None else ["-d", body]
    write_out = "%{stderr}%{http_code} %{content_type}"
    command = ["curl", "-s", "-w", write_out, *data_flags, *flags, service.url + path]
    process = subprocess.run(command, capture_output=True, text=True, check=True)
    status, _, kind = process.stderr.partition(" ")
    return int(status), kind, process.stdout


@pytest.mark.parametrize("case", GOLDENS)
def test_an_error_has_the_status_and_text_of_tensorflow_serving(half: Service, case: str) -> None:
    golden = GOLDENS[case]
    status, kind, body = curl(half, golden.path, golden.body)
    assert (status, kind) == (golden.status, "application/json"), body
    document = json.loads(body)
    assert list(document) == ["error"]
    assert document["error"] == golden.error or (golden.dumped and document["error"].endswith(golden.error)), document


def test_invalid_json_is_reported_as_rapidjson_reports_it(half: Service) -> None:
    for body in ("instances = [1, 2]", '{"instances": [1, 2', '{"inputs": [1] x'):
        status, _, document = curl(half, f"{HALF}:predict", body)
        assert status == 400 and json.loads(document)["error"].startswith("JSON Parse error: "), document


def test_status_and_metadata_have_the_format_of_tensorflow_serving(half: Service) -> None:
    version = json.loads(curl(half, HALF)[2])["model_version_status"][0]["version"]
    status = {"version": version, "state": "AVAILABLE", "status": {"error_code": "OK", "error_message": ""}}
    assert json.loads(curl(half, f"{HALF}/versions/{version}")[2]) == {"model_version_status": [status]}
    metadata = json.loads(curl(half, f"{HALF}/versions/{version}/metadata")[2])
    assert metadata["model_spec"] == {"name": "half", "signature_name": "", "version": version}
    assert metadata["metadata"]["signature_def"]["signature_def"]["regress"] == {
        "inputs": {
            "inputs": {
                "dtype": "DT_STRING",
                "tensor_shape": {"dim": [{"size": "-1", "name": ""}], "unknown_rank": False},
                "name": "inputs:0",
            }
        },
        "outputs": {
            "outputs": {
                "dtype": "DT_FLOAT",
                "tensor_shape": {"dim": [{"size": "-1", "name": ""}], "unknown_rank": False},
                "name": "outputs:0",
            }
        },
        "method_name": "tensorflow/serving/regress",
        "defaults": {},
    }


def test_numbers_are_written_as_tensorflow_serving_writes_them(half: Service) -> None:
    row = curl(half, f"{HALF}:predict", '{"signature_name": "serving_default", "instances": [[3, 1]]}')[2]
    columns = curl(half, f"{HALF}:predict", '{"inputs": [[3, 1]]} ')[2]
    regress = curl(half, f"{HALF}:regress", '{"examples": [{"x": [3, 1]}]}', "-H", "Content-Type: text/plain")[2]
    number = row.removeprefix('{"predictions": [').removesuffix("]}")
    assert "." in number and float(number) == pytest.approx(15, abs=0.5)
    assert columns == f'{{"outputs": [{number}]}}' and regress == f'{{"results": [{number}]}}'


def test_a_path_outside_v1_is_not_found(half: Service) -> None:
    assert curl(half, "/statuspage")[0] == 404

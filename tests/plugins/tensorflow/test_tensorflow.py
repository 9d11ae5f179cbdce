"""The REST API of TensorFlow Serving: the requests that its clients send, and the exact answers that they read."""

import base64
import json
import tracemalloc
from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
import pytest

from online.errors import BadInput, TooLarge
from online.models import Answer, build_candidates
from online.plugins.grpc.protos import tensorflow_pb2 as tf
from online.plugins.tensorflow import rest
from online.plugins.tensorflow.rpc import array_from_proto, proto_from_array
from online.plugins.tensorflow.tensor_signatures import instances_from_tensors, output_tensors, read_instance
from online.settings import ModelSettings
from tests.conftest import config
from tests.support import Service

VEC = ModelSettings(name="vec", kind="classifier", options={"input": "vector", "size": 2})
TAB = ModelSettings(name="tab", kind="classifier", options={"input": "table"})
CHAT = ModelSettings(name="chat", kind="ranker")
NUM = ModelSettings(name="num", kind="regressor", options={"input": "vector", "size": 2})
LEFT, RIGHT = [-1.0, 0.0], [1.0, 0.0]
ASK = {"instances": [RIGHT], "signature_name": "serving_default"}


@pytest.fixture(scope="module")
def trained_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service whose models `lab`, `num` and `tab` have learned sides, numbers and colours."""
    folder = tmp_path_factory.mktemp("tensorflow")
    service = Service(folder / "state", config(folder))
    with service.client("lab") as lab, service.client("num") as num, service.client("tab") as tab:
        receipts = [lab.feedback([{"input": v, "label": w}])[-1] for v, w in ((LEFT, "left"), (RIGHT, "right")) * 4]
        service.wait_learned("lab", receipts[-1]["offset"])
        points = [{"input": [n % 4, n % 3], "label": 10 + 2 * (n % 4) - n % 3} for n in range(24)]
        service.wait_learned("num", num.feedback(points)[-1]["offset"])
        rows = [{"input": {"colour": colour}, "label": label} for colour, label in (("red", "apple"), ("blue", "plum"))]
        service.wait_learned("tab", tab.feedback(rows)[-1]["offset"])
    yield service
    service.stop()


def post(service: Service, path: str, body: Any, **headers: str) -> httpx.Response:
    content = body if isinstance(body, (str, bytes)) else json.dumps(body)
    return service.http.post(f"/v1/models/{path}", content=content, headers=headers)


# predict


def test_rows_with_a_signature_name_are_answered_with_predictions_only(trained_service: Service) -> None:
    response = post(trained_service, "lab:predict", ASK)
    assert response.headers["content-type"] == "application/json"
    (row,) = response.json()["predictions"]
    assert list(response.json()) == ["predictions"] and set(row) == {"classes", "scores"}
    assert row["classes"][0] == "right" and row["scores"][0] > 0.5 and sum(row["scores"]) == pytest.approx(1, abs=1e-5)


def test_columns_are_answered_with_outputs(trained_service: Service) -> None:
    bare = post(trained_service, "lab:predict", {"inputs": [LEFT, RIGHT]}).json()
    named = post(trained_service, "lab:predict", {"inputs": {"x": [LEFT, RIGHT]}}).json()
    assert bare == named and list(bare) == ["outputs"]
    assert [classes[0] for classes in bare["outputs"]["classes"]] == ["left", "right"]
    assert np.array(bare["outputs"]["scores"]).shape == np.array(bare["outputs"]["classes"]).shape


def test_a_single_output_is_a_list_of_bare_values(trained_service: Service) -> None:
    rows = post(trained_service, "num:predict", {"instances": [[3, 1]], "signature_name": "serving_default"}).json()
    columns = post(trained_service, "num:predict", {"inputs": [[3, 1]]}).json()
    assert rows["predictions"] == columns["outputs"] == [pytest.approx(15, abs=0.5)]


def test_instances_without_a_signature_name_are_answered_in_our_own_format(trained_service: Service) -> None:
    response = post(trained_service, "lab:predict", {"instances": [RIGHT]}).json()
    assert {"predictions", "prediction_ids", "feedback_urls", "model_version", "learned_until"} == set(response)
    assert response["predictions"][0]["label"] == "right"


def test_prediction_ids_are_in_the_headers_and_accept_feedback(trained_service: Service) -> None:
    response = post(trained_service, "lab:predict", {"inputs": [LEFT, RIGHT]})
    ids = response.headers["X-Prediction-Ids"].split(",")
    assert (
        len(ids) == 2
        and response.headers["X-Model-Version"].isdigit()
        and response.headers["X-Learned-Until"].isdigit()
    )
    rewarded = post(trained_service, "lab:feedback", {"feedback": [{"prediction_id": ids[1], "reward": 1}]})
    assert rewarded.status_code == 202
    many = post(trained_service, "lab:predict", {"inputs": [LEFT] * 101})
    assert many.status_code == 200 and "X-Prediction-Ids" not in many.headers  # clients limit the length of headers


def test_a_ranker_returns_the_reply_and_a_table_reads_one_tensor_for_each_feature(trained_service: Service) -> None:
    trained_service.wait_learned("chat", 15)
    outputs = post(trained_service, "chat:predict", {"inputs": {"text": ["When do you open?"]}}).json()["outputs"]
    assert (outputs["id"], outputs["text"]) == (["hours"], ["We open at nine."]) and outputs["score"][0] > 0
    colours = {"inputs": {"colour": ["red", "blue"], "size": [[1.0], [2.0]]}}
    classes = post(trained_service, "tab:predict", colours).json()["outputs"]["classes"]
    assert [each[0] for each in classes] == ["apple", "plum"]


def test_base64_values_are_texts_or_serialised_examples(trained_service: Service) -> None:
    text = base64.b64encode(b"When do you open?").decode()
    response = post(
        trained_service, "chat:predict", {"instances": [{"b64": text}], "signature_name": "serving_default"}
    )
    assert response.json()["predictions"][0]["id"] == "hours"
    feature = tf.Feature(bytes_list=tf.BytesList(value=[b"red"]))
    example = tf.Example(features=tf.Features(feature={"colour": feature})).SerializeToString()
    for inputs in ([{"b64": base64.b64encode(example).decode()}], {"examples": [base64_of(example)]}):
        assert post(trained_service, "tab:predict", {"inputs": inputs}).json()["outputs"]["classes"][0][0] == "apple"
    broken = post(trained_service, "tab:predict", {"inputs": [{"b64": "%%%"}]})
    assert broken.status_code == 400 and "base64" in broken.json()["error"]


def base64_of(data: bytes) -> dict[str, str]:
    return {"b64": base64.b64encode(data).decode()}


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", "nonsense"])
def test_any_content_type_is_accepted(trained_service: Service, content_type: str) -> None:
    for body in ({"inputs": [RIGHT]}, {"instances": [RIGHT]}):
        content = json.dumps(body)
        assert post(trained_service, "lab:predict", content, **{"Content-Type": content_type}).status_code == 200


def test_versions_and_labels_answer_every_method(trained_service: Service) -> None:
    version = trained_service.http.get("/v1/models/lab").json()["model_version_status"][0]["version"]
    for version_path in (f"versions/{version}", "labels/latest"):
        for method, body in (("predict", ASK), ("classify", {"examples": [{"x": RIGHT}]})):
            response = post(trained_service, f"lab/{version_path}:{method}", body)
            assert response.status_code == 200 and response.headers["X-Model-Version"].isdigit(), response.text


# classify, regress


def test_classify_gives_each_class_with_its_score_best_first(trained_service: Service) -> None:
    response = post(trained_service, "lab:classify", {"examples": [{"x": LEFT}, {"x": RIGHT}]}).json()
    assert list(response) == ["results"]
    assert [result[0][0] for result in response["results"]] == ["left", "right"]
    for result in response["results"]:
        scores = [score for _, score in result]
        assert scores == sorted(scores, reverse=True)


def test_a_context_applies_to_every_example_and_must_not_repeat_a_feature(trained_service: Service) -> None:
    response = post(
        trained_service, "tab:classify", {"context": {"colour": "red"}, "examples": [{"size": 1.0}, {}]}
    ).json()
    assert [result[0][0] for result in response["results"]] == ["apple", "apple"]
    twice = post(trained_service, "tab:classify", {"context": {"colour": "red"}, "examples": [{"colour": "blue"}]})
    assert twice.status_code == 400 and "both in the context and in example 0" in twice.json()["error"]


def test_regress_gives_numbers_and_only_for_a_regressor(trained_service: Service) -> None:
    response = post(trained_service, "num:regress", {"signature_name": "regress", "examples": [{"x": [3, 1]}]}).json()
    assert response == {"results": [pytest.approx(15, abs=0.5)]}
    refused = post(trained_service, "lab:regress", {"examples": [{"x": LEFT}]})
    expected = "Expected regression signature method_name to be tensorflow/serving/regress. Was: "
    assert refused.status_code == 400 and refused.json()["error"] == expected + "tensorflow/serving/predict"
    assert post(trained_service, "num:classify", {"examples": [{"x": [3, 1]}]}).status_code == 400


# status, metadata


def test_the_status_is_given_for_one_version_or_for_all(trained_service: Service) -> None:
    listed = trained_service.http.get("/v1/models/lab").json()["model_version_status"]
    version = listed[0]["version"]
    one = trained_service.http.get(f"/v1/models/lab/versions/{version}").json()
    status = {"error_code": "OK", "error_message": ""}
    assert one == {"model_version_status": [{"version": version, "state": "AVAILABLE", "status": status}]}
    assert trained_service.http.get("/v1/models/lab/labels/latest").json() == one
    assert len(listed) > 1 and [int(each["version"]) for each in listed] == sorted(
        (int(each["version"]) for each in listed), reverse=True
    )


def test_metadata_describes_the_signatures(trained_service: Service) -> None:
    response = trained_service.http.get("/v1/models/lab/metadata")
    assert response.json()["model_spec"] == {
        "name": "lab",
        "signature_name": "",
        "version": response.headers["X-Model-Version"],
    }
    signatures = response.json()["metadata"]["signature_def"]["signature_def"]
    assert signatures["serving_default"] == {
        "inputs": {
            "x": {
                "dtype": "DT_FLOAT",
                "tensor_shape": {"dim": [{"size": "-1", "name": ""}, {"size": "2", "name": ""}], "unknown_rank": False},
                "name": "x:0",
            }
        },
        "outputs": signatures["classify"]["outputs"],
        "method_name": "tensorflow/serving/predict",
        "defaults": {},
    }
    version = response.headers["X-Model-Version"]
    assert trained_service.http.get(f"/v1/models/lab/versions/{version}/metadata").json() == response.json()
    assert trained_service.http.get("/v1/models/lab/labels/latest/metadata").status_code == 200


# refusals

DEEP = "[" * 500_000 + "]" * 500_000
BIG = "1" + "0" * 20
BAD: dict[str, tuple[str, str, Any, int, str]] = {
    "an unknown model": ("POST", "half:predict", {"inputs": [1]}, 404, "Servable not found for request: Latest(half)"),
    "an unknown version of one": (
        "POST",
        "half/versions/9:predict",
        {"instances": [1]},
        404,
        "Servable not found for request: Specific(half, 9)",
    ),
    "an unknown version": (
        "POST",
        "vec/versions/999999:predict",
        {"inputs": [[0, 0, 0, 0]]},
        404,
        "Servable not found for request: Specific(vec, 999999)",
    ),
    "an unknown label": ("POST", "vec/labels/x:predict", ASK, 400, "Unrecognized servable version label: x"),
    "an unknown signature": (
        "POST",
        "vec:predict",
        {"instances": [1], "signature_name": "x"},
        400,
        'Serving signature name: "x" not found in signature def',
    ),
    "a signature that is no text": (
        "POST",
        "vec:predict",
        {"instances": [1], "signature_name": 5},
        400,
        "'signature_name' key must be a string value.",
    ),
    "both formats": (
        "POST",
        "vec:predict",
        {"instances": [1], "inputs": [1]},
        400,
        "expecting only one of 'inputs' or 'instances' keys to exist",
    ),
    "neither format": ("POST", "vec:predict", {"rows": [1]}, 400, "Missing 'inputs' or 'instances' key"),
    "no list": ("POST", "vec:predict", {"instances": 1}, 400, "to be an list/array"),
    "an empty list": ("POST", "vec:predict", {"instances": []}, 400, "No values in 'instances' array"),
    "an empty body": ("POST", "vec:predict", "", 400, "JSON Parse error: The document is empty"),
    "no JSON": ("POST", "vec:predict", "instances = [1, 2]", 400, "JSON Parse error: Invalid value"),
    "no object": ("POST", "vec:predict", "[1]", 400, "Is not object"),
    "a deep document": ("POST", "vec:predict", '{"inputs": ' + DEEP + "}", 413, "max_json_depth"),
    "a deep document that is cut off": ("POST", "vec:predict", '{"inputs": ' + "[" * 500_000, 413, "max_json_depth"),
    "a deep document after the JSON": (
        "POST",
        "vec:predict",
        '{"inputs": [[1]]} ' + DEEP,
        400,
        "nothing after it",
    ),
    "a deep example": ("POST", "vec:classify", '{"examples": ' + '{"x":' * 100_000, 413, "max_json_depth"),
    "a large body": ("POST", "vec:classify", b" " * 5_000_000, 413, "max_body_bytes"),
    "no batch": ("POST", "vec:predict", {"inputs": {"x": 5}}, 400, "batch dimension"),
    "batches that differ": ("POST", "tab:predict", {"inputs": {"a": [1], "b": [1, 2]}}, 400, "inconsistent batch size"),
    "no instances at all": ("POST", "vec:predict", {"inputs": {"x": []}}, 400, "no instances"),
    "objects beside lists": (
        "POST",
        "vec:predict",
        {"signature_name": "", "instances": [{"x": [0, 0, 0, 0]}, [0, 0, 0, 0]]},
        400,
        "Expecting object but got list at item 1",
    ),
    "NaN in a vector": ("POST", "vec:predict", '{"inputs": [[NaN, 0, -Infinity, 0]]}', 400, "must be finite"),
    "an unknown input": (
        "POST",
        "vec:predict",
        {"inputs": {"pixels": [[0, 0, 0, 0]]}},
        400,
        "input tensor alias not found in signature: pixels. Inputs expected to be in the set {x}.",
    ),
    "an unknown input beside the known one": (
        "POST",
        "txt:predict",
        {"signature_name": "", "instances": [{"text": "hello", "language": "en"}]},
        400,
        "input tensor alias not found in signature: language. Inputs expected to be in the set {text}.",
    ),
    "an unknown feature": (
        "POST",
        "txt:classify",
        {"examples": [{"sentence": "hello"}]},
        400,
        "not found in signature: sentence. Inputs expected to be in the set {text}.",
    ),
    "an unknown signature of classify": (
        "POST",
        "vec:classify",
        {"signature_name": "x", "examples": [{"x": [0, 0, 0, 0]}]},
        400,
        "No signature was found with the name: x",
    ),
    "no examples": ("POST", "vec:classify", {"instances": [1]}, 400, "'examples' is expected and was not found"),
    "examples of lists": ("POST", "vec:classify", {"examples": [[1]]}, 400, "Example must be JSON object"),
    "a feature of lists": ("POST", "vec:classify", {"examples": [{"x": [[1]]}]}, 400, "unexpected JSON type: Array"),
    "an unknown model's status": ("GET", "half", None, 404, "Could not find any versions of model half"),
    "an unknown version's status": (
        "GET",
        "vec/versions/999999",
        None,
        404,
        "Could not find version 999999 of model vec",
    ),
    "a version beyond int64": ("POST", f"vec/versions/{BIG}:regress", {}, 400, "Failed to convert version"),
    "a version that is no number": ("POST", "vec/versions/HELLO:regress", {}, 400, "Malformed request: POST"),
    "another path": (
        "POST",
        "vec/version/50:regress",
        {},
        400,
        "Malformed request: POST /v1/models/vec/version/50:regress",
    ),
    "another method": ("GET", "vec:predict", None, 400, "Malformed request: GET /v1/models/vec:predict"),
    "a method of no model": ("GET", "foo/version/50:predict", None, 400, "Malformed request"),
    "a version and a label": ("POST", "vec/versions/1/labels/a:predict", ASK, 400, "Malformed request"),
    "another verb": ("POST", "vec:explain", ASK, 400, "Malformed request: POST /v1/models/vec:explain"),
}


@pytest.mark.parametrize("case", BAD)
def test_an_invalid_request_is_refused_with_the_error_that_clients_expect(service: Service, case: str) -> None:
    method, path, body, status, words = BAD[case]
    content = None if body is None else body if isinstance(body, (str, bytes)) else json.dumps(body)
    response = service.http.request(method, f"/v1/models/{path}", content=content)
    assert response.status_code == status, response.text
    assert list(response.json()) == ["error"] and words in response.json()["error"]
    assert len(response.json()["error"]) < 600


@pytest.mark.parametrize(("method", "path"), [("GET", "/v1/foo"), ("POST", "/v1/foo"), ("POST", "/v1/models")])
def test_a_path_that_no_route_matches_is_malformed(service: Service, method: str, path: str) -> None:
    response = service.http.request(method, path)
    assert (response.status_code, response.json()) == (400, {"error": f"Malformed request: {method} {path}"})


# unit tests of numbers and tensors


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (0.2, b"0.2"),
        (1, b"1.0"),
        (1 / 3, b"0.33333334"),
        (float("nan"), b"NaN"),
        (float("-inf"), b"-Infinity"),
        (1e300, b"Infinity"),
        (-0.0, b"-0.0"),
        (1e20, b"1e+20"),
    ],
)
def test_numbers_are_written_in_the_shortest_form_of_a_float32(value: float, written: bytes) -> None:
    assert rest.write_number(value) == written


def test_answers_are_written_byte_for_byte() -> None:
    answered = Answer("b", build_candidates(["a", "b"], [0.2, 0.8]), 0.8)
    abstained = Answer(None, (), abstained=True)
    outputs = output_tensors("classifier", [answered, abstained])
    rows = (
        b'{"predictions": [{"classes": ["b", "a"], "scores": [0.8, 0.2]}, {"classes": ["", ""], "scores": [0.0, 0.0]}]}'
    )
    assert rest.write_rows(outputs) == rows
    assert rest.write_columns(outputs) == (
        b'{"outputs": {"classes": [["b", "a"], ["", ""]], "scores": [[0.8, 0.2], [0.0, 0.0]]}}'
    )
    assert rest.write_classifications([answered, abstained]) == b'{"results": [[["b", 0.8], ["a", 0.2]], []]}'
    numbers = output_tensors("regressor", [Answer("2", ()), Answer(None, ())])
    assert rest.write_rows(numbers) == b'{"predictions": [2.0, NaN]}'
    assert rest.write_columns(numbers) == b'{"outputs": [2.0, NaN]}'


@pytest.mark.parametrize(
    ("spec", "row", "instance"),
    [
        (CHAT, "hello", "hello"),
        (CHAT, {"text": ["hello"]}, "hello"),
        (CHAT, {"text": base64_of(b"hello")}, "hello"),
        (VEC, [[1, 2]], [1, 2]),
        (VEC, {"x": [1.5, 2]}, [1.5, 2]),
        (VEC, {"x": [[1], [2]]}, [1, 2]),
        (TAB, {"a": [1], "b": "x", "c": True}, {"a": 1, "b": "x", "c": True}),
        (TAB, {"a": base64_of(b"x")}, {"a": "x"}),
        (TAB, [1, ["x"]], [1, "x"]),
    ],
)
def test_a_row_in_any_format_is_read_as_an_instance(spec: ModelSettings, row: Any, instance: Any) -> None:
    assert read_instance(spec, row) == instance


SHAPE = tf.TensorShapeProto(dim=[tf.TensorShapeProto.Dim(size=2), tf.TensorShapeProto.Dim(size=2)])
TENSORS: list[tuple[tf.TensorProto, list[Any]]] = [
    (tf.TensorProto(dtype=tf.DT_FLOAT, float_val=[1, 2]), [[1, 2], [2, 2]]),
    (tf.TensorProto(dtype=tf.DT_FLOAT, tensor_content=np.array([1, 2, 3, 4], "<f4").tobytes()), [[1, 2], [3, 4]]),
    (tf.TensorProto(dtype=tf.DT_DOUBLE, double_val=[0.5] * 4), [[0.5, 0.5], [0.5, 0.5]]),
    (tf.TensorProto(dtype=tf.DT_INT64, int64_val=[-5]), [[-5, -5], [-5, -5]]),
    (tf.TensorProto(dtype=tf.DT_UINT8, tensor_content=b"\x01\x02\x03\xff"), [[1, 2], [3, 255]]),
    (tf.TensorProto(dtype=tf.DT_INT16, int_val=[-1, 2, 3, 4]), [[-1, 2], [3, 4]]),
    (tf.TensorProto(dtype=tf.DT_HALF, half_val=[0x3C00, 0xC000]), [[1, -2], [-2, -2]]),
    (tf.TensorProto(dtype=tf.DT_BFLOAT16, half_val=[0x3F80, 0x4000]), [[1, 2], [2, 2]]),
    (tf.TensorProto(dtype=tf.DT_BOOL, bool_val=[True, False]), [[True, False], [False, False]]),
    (tf.TensorProto(dtype=tf.DT_STRING, string_val=[b"a", b"b"]), [[b"a", b"b"], [b"b", b"b"]]),
    (tf.TensorProto(dtype=tf.DT_FLOAT), [[0, 0], [0, 0]]),
]


@pytest.mark.parametrize(("proto", "values"), TENSORS)
def test_a_tensor_is_read_from_its_content_or_from_its_values(proto: tf.TensorProto, values: list[Any]) -> None:
    proto.tensor_shape.CopyFrom(SHAPE)
    assert array_from_proto(proto, 100).tolist() == values


def test_the_size_of_a_tensor_is_checked_before_it_is_allocated() -> None:
    def tensor_of_shape(*sizes: int) -> tf.TensorProto:
        shape = tf.TensorShapeProto(dim=[tf.TensorShapeProto.Dim(size=size) for size in sizes])
        return tf.TensorProto(dtype=tf.DT_DOUBLE, tensor_shape=shape, double_val=[1])

    for sizes in ((10**15,), (10**9, 10**9), (0, 10**15)):
        with pytest.raises(TooLarge, match="at most 100 elements"):
            array_from_proto(tensor_of_shape(*sizes), 100)
    with pytest.raises(BadInput, match="every dimension must be known"):
        array_from_proto(tensor_of_shape(-1), 100)
    with pytest.raises(BadInput, match="33 dimensions"):
        array_from_proto(tensor_of_shape(*[1] * 33), 100)
    with pytest.raises(BadInput, match="takes 8 bytes, not 3"):
        array_from_proto(
            tf.TensorProto(dtype=tf.DT_INT64, tensor_content=b"abc", tensor_shape=tensor_of_shape(1).tensor_shape), 100
        )
    with pytest.raises(BadInput, match="not a valid int8"):
        array_from_proto(
            tf.TensorProto(dtype=tf.DT_INT8, int_val=[70_000], tensor_shape=tensor_of_shape(2).tensor_shape), 100
        )
    with pytest.raises(BadInput, match="DT_COMPLEX64 are not supported"):
        array_from_proto(tf.TensorProto(dtype=tf.DT_COMPLEX64), 100)


def test_an_empty_tensor_of_a_large_shape_takes_no_memory() -> None:
    empty = np.zeros((2, 2_000, 1_000, 0), np.float32)
    tracemalloc.start()
    try:
        assert instances_from_tensors(VEC, {"x": empty}, 100) == [[], []]
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_a_written_tensor_is_read_back_unchanged() -> None:
    for array in (np.array([[0.25, 1.0]], np.float32), np.array(["a", "é"], object)):
        read = array_from_proto(proto_from_array(array), 100)
        assert [v.decode() if isinstance(v, bytes) else v for v in read.ravel().tolist()] == array.ravel().tolist()

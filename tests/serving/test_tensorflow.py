"""TensorFlow Serving's REST API over models that keep learning: what its clients send and read, to the letter."""

import base64
import json
import tracemalloc
from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
import pytest

from online.errors import BadInput, TooLarge
from online.models import Answer, candidates_of
from online.serving import tensorflow
from online.serving.protos import tensorflow_pb2 as tf
from online.serving.tensorflow_protos import array_of, proto_of
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
def taught(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service whose `lab` knows two sides, `num` numbers, `tab` colours."""
    folder = tmp_path_factory.mktemp("tensorflow")
    service = Service(folder / "state", config(folder))
    with service.client("lab") as lab, service.client("num") as num, service.client("tab") as tab:
        given = [lab.feedback([{"input": v, "label": w}])[-1] for v, w in ((LEFT, "left"), (RIGHT, "right")) * 4]
        service.wait_learned("lab", given[-1]["offset"])
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


def test_rows_with_a_signature_name_are_answered_with_predictions_and_nothing_else(taught: Service) -> None:
    told = post(taught, "lab:predict", ASK)
    assert told.headers["content-type"] == "application/json"
    (row,) = told.json()["predictions"]
    assert list(told.json()) == ["predictions"] and set(row) == {"classes", "scores"}
    assert row["classes"][0] == "right" and row["scores"][0] > 0.5 and sum(row["scores"]) == pytest.approx(1, abs=1e-5)


def test_columns_are_answered_with_outputs(taught: Service) -> None:
    bare = post(taught, "lab:predict", {"inputs": [LEFT, RIGHT]}).json()
    named = post(taught, "lab:predict", {"inputs": {"x": [LEFT, RIGHT]}}).json()
    assert bare == named and list(bare) == ["outputs"]
    assert [classes[0] for classes in bare["outputs"]["classes"]] == ["left", "right"]
    assert np.array(bare["outputs"]["scores"]).shape == np.array(bare["outputs"]["classes"]).shape


def test_one_output_is_bare_values(taught: Service) -> None:
    rows = post(taught, "num:predict", {"instances": [[3, 1]], "signature_name": "serving_default"}).json()
    columns = post(taught, "num:predict", {"inputs": [[3, 1]]}).json()
    assert rows["predictions"] == columns["outputs"] == [pytest.approx(15, abs=0.5)]


def test_instances_alone_are_answered_in_our_own_shape_as_ever(taught: Service) -> None:
    told = post(taught, "lab:predict", {"instances": [RIGHT]}).json()
    assert {"predictions", "prediction_ids", "feedback_urls", "model_version", "learned_until"} == set(told)
    assert told["predictions"][0]["label"] == "right"


def test_what_has_no_place_in_the_body_is_in_headers_and_takes_feedback(taught: Service) -> None:
    told = post(taught, "lab:predict", {"inputs": [LEFT, RIGHT]})
    ids = told.headers["X-Prediction-Ids"].split(",")
    assert len(ids) == 2 and told.headers["X-Model-Version"].isdigit() and told.headers["X-Learned-Until"].isdigit()
    rewarded = post(taught, "lab:feedback", {"feedback": [{"prediction_id": ids[1], "reward": 1}]})
    assert rewarded.status_code == 202
    many = post(taught, "lab:predict", {"inputs": [LEFT] * 101})
    assert many.status_code == 200 and "X-Prediction-Ids" not in many.headers  # no client reads headers of any length


def test_a_ranker_gives_the_reply_and_a_table_reads_a_tensor_for_each_feature(taught: Service) -> None:
    taught.wait_learned("chat", 15)
    told = post(taught, "chat:predict", {"inputs": {"text": ["When do you open?"]}}).json()["outputs"]
    assert (told["id"], told["text"]) == (["hours"], ["We open at nine."]) and told["score"][0] > 0
    colours = {"inputs": {"colour": ["red", "blue"], "size": [[1.0], [2.0]]}}
    classes = post(taught, "tab:predict", colours).json()["outputs"]["classes"]
    assert [each[0] for each in classes] == ["apple", "plum"]


def test_base64_stands_for_bytes_a_text_or_a_serialised_example(taught: Service) -> None:
    text = base64.b64encode(b"When do you open?").decode()
    told = post(taught, "chat:predict", {"instances": [{"b64": text}], "signature_name": "serving_default"})
    assert told.json()["predictions"][0]["id"] == "hours"
    feature = tf.Feature(bytes_list=tf.BytesList(value=[b"red"]))
    example = tf.Example(features=tf.Features(feature={"colour": feature})).SerializeToString()
    for inputs in ([{"b64": base64.b64encode(example).decode()}], {"examples": [base64_of(example)]}):
        assert post(taught, "tab:predict", {"inputs": inputs}).json()["outputs"]["classes"][0][0] == "apple"
    broken = post(taught, "tab:predict", {"inputs": [{"b64": "%%%"}]})
    assert broken.status_code == 400 and "base64" in broken.json()["error"]


def base64_of(data: bytes) -> dict[str, str]:
    return {"b64": base64.b64encode(data).decode()}


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", "nonsense"])
def test_any_content_type_is_read_and_what_follows_the_json_is_not(taught: Service, content_type: str) -> None:
    for body in ({"inputs": [RIGHT]}, {"instances": [RIGHT]}):
        content = json.dumps(body) + " and [more"
        assert post(taught, "lab:predict", content, **{"Content-Type": content_type}).status_code == 200


def test_versions_and_labels_answer_every_method(taught: Service) -> None:
    version = taught.http.get("/v1/models/lab").json()["model_version_status"][0]["version"]
    for which in (f"versions/{version}", "labels/latest"):
        for method, body in (("predict", ASK), ("classify", {"examples": [{"x": RIGHT}]})):
            told = post(taught, f"lab/{which}:{method}", body)
            assert told.status_code == 200 and told.headers["X-Model-Version"].isdigit(), told.text


# classify, regress


def test_classify_gives_each_label_with_its_score_the_best_first(taught: Service) -> None:
    told = post(taught, "lab:classify", {"examples": [{"x": LEFT}, {"x": RIGHT}]}).json()
    assert list(told) == ["results"]
    assert [result[0][0] for result in told["results"]] == ["left", "right"]
    for result in told["results"]:
        scores = [score for _, score in result]
        assert scores == sorted(scores, reverse=True)


def test_a_context_goes_for_every_example_and_repeats_nothing(taught: Service) -> None:
    told = post(taught, "tab:classify", {"context": {"colour": "red"}, "examples": [{"size": 1.0}, {}]}).json()
    assert [result[0][0] for result in told["results"]] == ["apple", "apple"]
    twice = post(taught, "tab:classify", {"context": {"colour": "red"}, "examples": [{"colour": "blue"}]})
    assert twice.status_code == 400 and "both in the context and in example 0" in twice.json()["error"]


def test_regress_gives_numbers_and_only_of_a_regressor(taught: Service) -> None:
    told = post(taught, "num:regress", {"signature_name": "regress", "examples": [{"x": [3, 1]}]}).json()
    assert told == {"results": [pytest.approx(15, abs=0.5)]}
    refused = post(taught, "lab:regress", {"examples": [{"x": LEFT}]})
    expected = "Expected regression signature method_name to be tensorflow/serving/regress. Was: "
    assert refused.status_code == 400 and refused.json()["error"] == expected + "tensorflow/serving/predict"
    assert post(taught, "num:classify", {"examples": [{"x": [3, 1]}]}).status_code == 400


# status, metadata


def test_status_is_that_of_one_version_or_of_all(taught: Service) -> None:
    listed = taught.http.get("/v1/models/lab").json()["model_version_status"]
    version = listed[0]["version"]
    told = taught.http.get(f"/v1/models/lab/versions/{version}").json()
    status = {"error_code": "OK", "error_message": ""}
    assert told == {"model_version_status": [{"version": version, "state": "AVAILABLE", "status": status}]}
    assert taught.http.get("/v1/models/lab/labels/latest").json() == told
    assert len(listed) > 1 and [int(each["version"]) for each in listed] == sorted(
        (int(each["version"]) for each in listed), reverse=True
    )


def test_metadata_describes_the_signatures(taught: Service) -> None:
    told = taught.http.get("/v1/models/lab/metadata")
    assert told.json()["model_spec"] == {
        "name": "lab",
        "signature_name": "",
        "version": told.headers["X-Model-Version"],
    }
    described = told.json()["metadata"]["signature_def"]["signature_def"]
    assert described["serving_default"] == {
        "inputs": {
            "x": {
                "dtype": "DT_FLOAT",
                "tensor_shape": {"dim": [{"size": "-1", "name": ""}, {"size": "2", "name": ""}], "unknown_rank": False},
                "name": "x:0",
            }
        },
        "outputs": described["classify"]["outputs"],
        "method_name": "tensorflow/serving/predict",
        "defaults": {},
    }
    version = told.headers["X-Model-Version"]
    assert taught.http.get(f"/v1/models/lab/versions/{version}/metadata").json() == told.json()
    assert taught.http.get("/v1/models/lab/labels/latest/metadata").status_code == 200


# what is refused

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
    "a deep one": ("POST", "vec:predict", '{"inputs": ' + DEEP + "}", 413, "max_json_depth"),
    "a deep one that is cut off": ("POST", "vec:predict", '{"inputs": ' + "[" * 500_000, 413, "max_json_depth"),
    "a deep one behind the JSON": ("POST", "vec:predict", '{"inputs": [[1]]} ' + DEEP, 400, "instance 0 has 1 numbers"),
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
def test_what_cannot_be_meant_is_refused_in_the_words_its_clients_look_for(service: Service, case: str) -> None:
    method, path, body, status, words = BAD[case]
    content = None if body is None else body if isinstance(body, (str, bytes)) else json.dumps(body)
    told = service.http.request(method, f"/v1/models/{path}", content=content)
    assert told.status_code == status, told.text
    assert list(told.json()) == ["error"] and words in told.json()["error"]
    assert len(told.json()["error"]) < 600


@pytest.mark.parametrize(("method", "path"), [("GET", "/v1/foo"), ("POST", "/v1/foo"), ("POST", "/v1/models")])
def test_a_path_that_is_nobodys_is_malformed(service: Service, method: str, path: str) -> None:
    told = service.http.request(method, path)
    assert (told.status_code, told.json()) == (400, {"error": f"Malformed request: {method} {path}"})


# numbers and tensors, by hand


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
    assert tensorflow.number_json(value) == written


def test_answers_become_these_very_bytes() -> None:
    said = Answer("b", candidates_of(["a", "b"], [0.2, 0.8]), 0.8)
    nothing = Answer(None, (), abstained=True)
    outputs = tensorflow.outputs_of("classifier", [said, nothing])
    rows = (
        b'{"predictions": [{"classes": ["b", "a"], "scores": [0.8, 0.2]}, {"classes": ["", ""], "scores": [0.0, 0.0]}]}'
    )
    assert tensorflow.rows_json(outputs) == rows
    assert tensorflow.columns_json(outputs) == (
        b'{"outputs": {"classes": [["b", "a"], ["", ""]], "scores": [[0.8, 0.2], [0.0, 0.0]]}}'
    )
    assert tensorflow.classes_json([said, nothing]) == b'{"results": [[["b", 0.8], ["a", 0.2]], []]}'
    numbers = tensorflow.outputs_of("regressor", [Answer("2", ()), Answer(None, ())])
    assert tensorflow.rows_json(numbers) == b'{"predictions": [2.0, NaN]}'
    assert tensorflow.columns_json(numbers) == b'{"outputs": [2.0, NaN]}'


@pytest.mark.parametrize(
    ("spec", "row", "instance"),
    [
        (CHAT, "hello", "hello"),
        (CHAT, {"text": ["hello"]}, "hello"),
        (CHAT, {"anything": base64_of(b"hello")}, "hello"),
        (VEC, [[1, 2]], [1, 2]),
        (VEC, {"x": [1.5, 2]}, [1.5, 2]),
        (VEC, {"pixels": [[1], [2]]}, [1, 2]),
        (TAB, {"a": [1], "b": "x", "c": True}, {"a": 1, "b": "x", "c": True}),
        (TAB, {"a": base64_of(b"x")}, {"a": "x"}),
        (TAB, [1, ["x"]], [1, "x"]),
    ],
)
def test_a_row_is_an_instance_whatever_it_came_as(spec: ModelSettings, row: Any, instance: Any) -> None:
    assert tensorflow.instance_of(spec, row) == instance


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
def test_a_tensor_is_read_by_its_content_or_by_its_values(proto: tf.TensorProto, values: list[Any]) -> None:
    proto.tensor_shape.CopyFrom(SHAPE)
    assert array_of(proto, 100).tolist() == values


def test_what_a_tensor_promises_is_counted_before_it_is_made() -> None:
    def shaped(*sizes: int) -> tf.TensorProto:
        shape = tf.TensorShapeProto(dim=[tf.TensorShapeProto.Dim(size=size) for size in sizes])
        return tf.TensorProto(dtype=tf.DT_DOUBLE, tensor_shape=shape, double_val=[1])

    for sizes in ((10**15,), (10**9, 10**9), (0, 10**15)):
        with pytest.raises(TooLarge, match="at most 100 elements"):
            array_of(shaped(*sizes), 100)
    with pytest.raises(BadInput, match="dimensions must be known"):
        array_of(shaped(-1), 100)
    with pytest.raises(BadInput, match="33 dimensions"):
        array_of(shaped(*[1] * 33), 100)
    with pytest.raises(BadInput, match="takes 8 bytes, not 3"):
        array_of(tf.TensorProto(dtype=tf.DT_INT64, tensor_content=b"abc", tensor_shape=shaped(1).tensor_shape), 100)
    with pytest.raises(BadInput, match="no int8"):
        array_of(tf.TensorProto(dtype=tf.DT_INT8, int_val=[70_000], tensor_shape=shaped(2).tensor_shape), 100)
    with pytest.raises(BadInput, match="DT_COMPLEX64 are not read"):
        array_of(tf.TensorProto(dtype=tf.DT_COMPLEX64), 100)


def test_a_shape_of_many_places_without_a_value_takes_no_memory() -> None:
    empty = np.zeros((2, 2_000, 1_000, 0), np.float32)
    tracemalloc.start()
    try:
        assert tensorflow.instances_of(VEC, {"x": empty}, 100) == [[], []]
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_what_we_send_reads_back_as_it_was() -> None:
    for array in (np.array([[0.25, 1.0]], np.float32), np.array(["a", "é"], object)):
        read = array_of(proto_of(array), 100)
        assert [v.decode() if isinstance(v, bytes) else v for v in read.ravel().tolist()] == array.ravel().tolist()

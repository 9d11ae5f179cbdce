"""Every limit on every protocol: 413 or RESOURCE_EXHAUSTED, and an error that names the setting."""

import json
import struct
from collections.abc import Iterator
from typing import Any

import grpc
import numpy as np
import pytest
from google.protobuf.message import Message
from google.protobuf.struct_pb2 import ListValue, Value

from online.api.bodies import check_form, measure_depth
from online.errors import TooLarge
from online.plugins.grpc.protos import inference_pb2 as oip
from online.plugins.grpc.protos import online_pb2 as ours
from online.plugins.grpc.protos import tensorflow_pb2 as tf
from online.plugins.grpc.protos import tensorflow_serving_pb2 as tfs
from online.settings import Settings
from tests.conftest import config
from tests.plugins.grpc.test_grpc import (
    CODE,
    Stub,
    assert_refused,
    example_input,
    numbers,
    port_of,
    spec,
    tensor,
    texts,
)
from tests.plugins.open_inference.test_open_inference import JSON_BYTES
from tests.support import Service

MODELS = """
[[models]]
name = "chat"
kind = "ranker"

[[models]]
name = "lab"
kind = "classifier"
options = { input = "vector", size = 4, scale = 4.0 }

[[models]]
name = "tab"
kind = "classifier"
options = { input = "table" }
"""
BYTES, INSTANCES, CHARS, DEPTH, ELEMENTS, LABEL = 20_000, 4, 60, 8, 12, 10
ROW = [0.5, 0.5, 0.5, 0.5]
WIDE = [ROW] * INSTANCES  # as many instances as allowed, but too many elements
LONG = "x" * (CHARS + 1)
MANY = ["hello"] * (INSTANCES + 1)


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def input_of(name: str, datatype: str, shape: list[int], **more: Any) -> dict[str, Any]:
    return {"inputs": [{"name": name, "datatype": datatype, "shape": shape, **more}]}


def binary(name: str, datatype: str, shape: list[int], content: bytes) -> tuple[bytes, dict[str, str]]:
    """A body of the Open Inference Protocol with bytes after the JSON, and the header with the length of the JSON."""
    document = json.dumps(input_of(name, datatype, shape, parameters={"binary_data_size": len(content)})).encode()
    return document + content, {JSON_BYTES: str(len(document))}


def element(text: str) -> bytes:
    return struct.pack("<I", len(text)) + text.encode()


def chat_body(text: str, **more: Any) -> dict[str, Any]:
    return {"model": "chat", "messages": [{"role": "user", "content": text}], **more}


def feedback_body(**item: Any) -> dict[str, Any]:
    return {"feedback": [item]}


LAB, CHAT, TAB, CHATTING = "/v1/models/lab", "/v1/models/chat", "/v1/models/tab", "/v1/chat/completions"
FLOATS = np.array(WIDE, "<f4").tobytes()
BIG = " " * (BYTES + 1)
REST: dict[tuple[str, str], tuple[str, Any]] = {
    ("max_body_bytes", "own predict"): (f"{LAB}:predict", BIG),
    ("max_body_bytes", "own feedback"): (f"{LAB}:feedback", BIG),
    ("max_body_bytes", "TFS predict"): (f"{LAB}:predict", json.dumps({"inputs": [ROW]}) + BIG),
    ("max_body_bytes", "TFS classify"): (f"{LAB}:classify", BIG),
    ("max_body_bytes", "OIP infer"): ("/v2/models/lab/infer", BIG),
    ("max_body_bytes", "OIP binary"): ("/v2/models/lab/infer", binary("x", "FP32", [1, 4], b"\0" * BYTES)),
    ("max_body_bytes", "OIP raw"): ("/v2/models/lab/infer", (b"\0" * (BYTES + 1), {JSON_BYTES: "0"})),
    ("max_body_bytes", "OIP load"): ("/v2/repository/models/lab/load", BIG),
    ("max_body_bytes", "OpenAI chat"): (CHATTING, BIG),
    ("max_instances", "own predict"): (f"{CHAT}:predict", {"instances": MANY}),
    ("max_instances", "own feedback"): (f"{LAB}:feedback", {"feedback": [{"input": [1], "label": "a"}] * 5}),
    ("max_instances", "TFS rows"): (f"{CHAT}:predict", {"instances": MANY, "signature_name": ""}),
    ("max_instances", "TFS columns"): (f"{CHAT}:predict", {"inputs": {"text": MANY}}),
    ("max_instances", "TFS classify"): (f"{CHAT}:classify", {"examples": [{"text": "hello"}] * 5}),
    ("max_instances", "OIP infer"): ("/v2/models/chat/infer", input_of("text", "BYTES", [5], data=MANY)),
    ("max_instances", "OIP binary"): ("/v2/models/chat/infer", binary("text", "BYTES", [5], element("hello") * 5)),
    ("max_text_chars", "own predict"): (f"{CHAT}:predict", {"instances": [LONG]}),
    ("max_text_chars", "own feedback"): (f"{CHAT}:feedback", feedback_body(input=LONG, label="hours")),
    ("max_text_chars", "own correction"): (f"{CHAT}:feedback", feedback_body(input="hello", correction=LONG)),
    ("max_text_chars", "own reply"): (f"{CHAT}/replies", {"text": LONG}),
    ("max_text_chars", "TFS rows"): (f"{CHAT}:predict", {"instances": [LONG], "signature_name": ""}),
    ("max_text_chars", "TFS columns"): (f"{CHAT}:predict", {"inputs": [LONG]}),
    ("max_text_chars", "TFS classify"): (f"{CHAT}:classify", {"examples": [{"text": LONG}]}),
    ("max_text_chars", "OIP infer"): ("/v2/models/chat/infer", input_of("text", "BYTES", [1], data=[LONG])),
    ("max_text_chars", "OIP binary"): ("/v2/models/chat/infer", binary("text", "BYTES", [1], element(LONG))),
    ("max_text_chars", "OIP raw"): ("/v2/models/chat/infer", (LONG.encode(), {JSON_BYTES: "0"})),
    ("max_text_chars", "OpenAI chat"): (CHATTING, chat_body(LONG)),
    ("max_text_chars", "OpenAI stream"): (CHATTING, chat_body(LONG, stream=True)),
    ("max_label_chars", "own feedback"): (f"{LAB}:feedback", feedback_body(input=ROW, label="x" * (LABEL + 1))),
    ("max_json_depth", "own predict"): (f"{LAB}:predict", {"instances": nested(DEPTH)}),
    ("max_json_depth", "own feedback"): (f"{LAB}:feedback", feedback_body(input=nested(DEPTH), label="a")),
    ("max_json_depth", "TFS predict"): (f"{LAB}:predict", {"inputs": nested(DEPTH)}),
    ("max_json_depth", "TFS classify"): (f"{LAB}:classify", {"examples": nested(DEPTH)}),
    ("max_json_depth", "OIP infer"): (
        "/v2/models/lab/infer",
        input_of("x", "FP32", [1], data=nested(DEPTH)),
    ),
    ("max_json_depth", "OIP binary"): (
        "/v2/models/lab/infer",
        ((deep := json.dumps({"inputs": nested(DEPTH)}).encode()) + b"behind", {JSON_BYTES: str(len(deep))}),
    ),
    ("max_json_depth", "OIP load"): ("/v2/repository/models/lab/load", {"parameters": nested(DEPTH)}),
    ("max_json_depth", "OpenAI chat"): (CHATTING, chat_body("hello", metadata={"deep": nested(DEPTH)})),
    ("max_tensor_elements", "own predict"): (f"{LAB}:predict", {"instances": WIDE}),
    ("max_tensor_elements", "own table"): (f"{TAB}:predict", {"instances": [{str(n): n for n in range(13)}]}),
    ("max_tensor_elements", "own feedback"): (
        f"{LAB}:feedback",
        {"feedback": [{"input": ROW, "label": "a"}] * INSTANCES},
    ),
    ("max_tensor_elements", "TFS rows"): (f"{LAB}:predict", {"instances": WIDE, "signature_name": ""}),
    ("max_tensor_elements", "TFS columns"): (f"{LAB}:predict", {"inputs": WIDE}),
    ("max_tensor_elements", "TFS classify"): (f"{LAB}:classify", {"examples": [{"x": ROW}] * INSTANCES}),
    ("max_tensor_elements", "OIP infer"): ("/v2/models/lab/infer", input_of("x", "FP32", [4, 4], data=WIDE)),
    ("max_tensor_elements", "OIP binary"): ("/v2/models/lab/infer", binary("x", "FP32", [4, 4], FLOATS)),
    ("max_tensor_elements", "OIP several"): (
        "/v2/models/tab/infer",
        {"inputs": [{"name": n, "datatype": "FP32", "shape": [3], "data": [1, 2, 3]} for n in "abcde"]},
    ),
}


def predict_request(name: str, **inputs: tf.TensorProto) -> tfs.PredictRequest:
    return tfs.PredictRequest(model_spec=spec(name), inputs=inputs)


def infer_request(
    name: str, datatype: str, shape: list[int], raw: bytes = b"", **contents: Any
) -> oip.ModelInferRequest:
    tensor_contents = oip.InferTensorContents(**contents) if contents else None
    request = oip.ModelInferRequest(model_name=name, raw_input_contents=[raw] if raw else [])
    request.inputs.add(name="text" if name == "chat" else "x", datatype=datatype, shape=shape, contents=tensor_contents)
    return request


def give_request(*items: ours.Item, model: str = "lab") -> ours.GiveRequest:
    return ours.GiveRequest(model=model, feedback=items)


def deep_value(levels: int) -> Value:
    value = Value(number_value=1)
    for _ in range(levels):
        value = Value(list_value=ListValue(values=[value]))
    return value


def text_examples(*values: str) -> tfs.ClassificationRequest:
    examples = [
        tf.Example(features=tf.Features(feature={"text": tf.Feature(bytes_list=tf.BytesList(value=[each.encode()]))}))
        for each in values
    ]
    example_list = tfs.Input(example_list=tfs.ExampleList(examples=examples))
    return tfs.ClassificationRequest(model_spec=spec("chat"), input=example_list)


TOO_LARGE = "larger than max"  # in gRPC's own error
FIVE = [b"hello"] * 5
RPC: dict[tuple[str, str], tuple[str, Message]] = {
    ("grpc_max_message_bytes", "Predict"): ("Predict", predict_request("chat", text=texts("x" * BYTES))),
    ("grpc_max_message_bytes", "ModelInfer"): ("ModelInfer", infer_request("chat", "BYTES", [1], b"x" * BYTES)),
    ("grpc_max_message_bytes", "Give"): ("Give", give_request(ours.Item(comment="x" * BYTES))),
    ("max_instances", "Predict"): ("Predict", predict_request("chat", text=texts(*MANY))),
    ("max_instances", "Classify"): ("Classify", text_examples(*MANY)),
    ("max_instances", "ModelInfer raw"): ("ModelInfer", infer_request("chat", "BYTES", [5], element("hello") * 5)),
    ("max_instances", "ModelInfer typed"): ("ModelInfer", infer_request("chat", "BYTES", [5], bytes_contents=FIVE)),
    ("max_instances", "Give"): ("Give", give_request(*[ours.Item(input=numbers([1]), label="a")] * 5)),
    ("max_text_chars", "Predict"): ("Predict", predict_request("chat", text=texts(LONG))),
    ("max_text_chars", "Classify"): ("Classify", text_examples(LONG)),
    ("max_text_chars", "ModelInfer"): ("ModelInfer", infer_request("chat", "BYTES", [1], element(LONG))),
    ("max_text_chars", "Give"): (
        "Give",
        give_request(ours.Item(input=Value(string_value=LONG), label="hours"), model="chat"),
    ),
    ("max_label_chars", "Give"): ("Give", give_request(ours.Item(input=numbers(ROW), label="x" * (LABEL + 1)))),
    ("max_json_depth", "Give"): ("Give", give_request(ours.Item(input=deep_value(DEPTH + 1), label="a"))),
    ("max_tensor_elements", "Predict by content"): ("Predict", predict_request("lab", x=tensor(*WIDE))),
    ("max_tensor_elements", "Predict by values"): (
        "Predict",
        predict_request(
            "lab", x=tf.TensorProto(dtype=tf.DT_FLOAT, tensor_shape=tensor(*WIDE).tensor_shape, float_val=[1])
        ),
    ),
    ("max_tensor_elements", "Predict of several"): (
        "Predict",
        predict_request("tab", **{n: tensor([1], [2], [3]) for n in "abcde"}),
    ),
    ("max_tensor_elements", "Classify"): (
        "Classify",
        tfs.ClassificationRequest(model_spec=spec("lab"), input=example_input(*WIDE)),
    ),
    ("max_tensor_elements", "ModelInfer raw"): ("ModelInfer", infer_request("lab", "FP32", [4, 4], FLOATS)),
    ("max_tensor_elements", "ModelInfer typed"): (
        "ModelInfer",
        infer_request("lab", "FP32", [4, 4], fp32_contents=[1.0] * 16),
    ),
    ("max_tensor_elements", "Give"): ("Give", give_request(*[ours.Item(input=numbers(ROW), label="a")] * INSTANCES)),
}


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service with small limits."""
    folder = tmp_path_factory.mktemp("limits")
    limits = {"max_instances": INSTANCES, "max_text_chars": CHARS, "max_json_depth": DEPTH, "max_label_chars": LABEL}
    sizes = {"max_body_bytes": BYTES, "grpc_max_message_bytes": BYTES, "max_tensor_elements": ELEMENTS}
    running = Service(folder / "state", config(folder, MODELS, grpc_port=0, **limits, **sizes))
    running.wait_learned("chat", 1)
    yield running
    running.stop()


@pytest.fixture(scope="module")
def methods(small: Service) -> Iterator[dict[str, Any]]:
    services = (
        tfs.DESCRIPTOR.services_by_name["PredictionService"],
        oip.DESCRIPTOR.services_by_name["GRPCInferenceService"],
        ours.DESCRIPTOR.services_by_name["Feedback"],
    )
    with grpc.insecure_channel(f"127.0.0.1:{port_of(small)}") as channel:
        yield {name: call for each in services for name, call in Stub(channel, each).methods.items()}


@pytest.mark.parametrize(("limit", "route"), REST)
def test_a_limit_is_enforced_over_http(small: Service, limit: str, route: str) -> None:
    path, body = REST[limit, route]
    content, headers = body if isinstance(body, tuple) else (body, {})
    content = content if isinstance(content, (str, bytes)) else json.dumps(content)
    response = small.http.post(path, content=content, headers=headers)
    assert (response.status_code, f"({limit})" in response.text) == (413, True), response.text


def test_a_text_that_is_too_long_is_refused_with_both_lengths(small: Service) -> None:
    for path, body in (("/v1/models/chat:predict", {"instances": [LONG]}), ("/v1/models/chat/replies", {"text": LONG})):
        refused = small.http.post(path, json=body).json()
        assert (refused["given"], refused["limit"]) == (CHARS + 1, CHARS)


@pytest.mark.parametrize(("limit", "route"), RPC)
def test_a_limit_is_enforced_over_grpc(methods: dict[str, Any], limit: str, route: str) -> None:
    method, request = RPC[limit, route]
    words = TOO_LARGE if limit == "grpc_max_message_bytes" else f"({limit})"
    assert_refused(CODE.RESOURCE_EXHAUSTED, words, methods[method], request)


def test_limits_are_enforced_in_a_stream(methods: dict[str, Any]) -> None:
    wide = infer_request("lab", "FP32", [4, 4], FLOATS)
    few = infer_request("lab", "FP32", [1, 4], FLOATS[:16])
    errors = [each.error_message for each in methods["ModelStreamInfer"](iter([wide, few]), timeout=60)]
    assert "(max_tensor_elements)" in errors[0] and errors[1] == ""
    large = infer_request("chat", "BYTES", [1], b"x" * BYTES)
    assert_refused(
        CODE.RESOURCE_EXHAUSTED,
        TOO_LARGE,
        lambda request, timeout: [*methods["ModelStreamInfer"](request, timeout=timeout)],
        iter([large]),
    )


def test_requests_just_within_the_limits_are_answered(small: Service, methods: dict[str, Any]) -> None:
    assert small.http.post(f"{LAB}:predict", json={"instances": WIDE[:3]}).status_code == 200
    assert small.http.post(f"{CHAT}:predict", json={"instances": MANY[:INSTANCES]}).status_code == 200
    assert small.http.post(f"{CHAT}:predict", json={"instances": [LONG[:CHARS]]}).status_code == 200
    body = {"inputs": [ROW], "x": nested(DEPTH - 1)}
    assert small.http.post(f"{LAB}:predict", json=body).status_code == 200
    padded = json.dumps({"inputs": [ROW]}).ljust(BYTES)
    assert small.http.post(f"{LAB}:predict", content=padded).status_code == 200
    methods["Predict"](predict_request("lab", x=tensor(*WIDE[:3])), timeout=60)
    methods["Give"](give_request(ours.Item(input=numbers(ROW), label="x" * LABEL)), timeout=60)


@pytest.mark.parametrize(
    ("document", "depth"),
    [
        (b"", 0),
        (b"1", 0),
        (b"[[1], [2]]", 2),
        (b'{"a": [{"b": 1}]}', 3),
        (b'["[[[[", "\\"[[", "\\\\"]', 1),
        (b'["[[[[', 1),
        (b"[1] [[[[", 1),
        (b"[[[", 3),
        (b"]]] [[", 0),
        (b"[" * 1_000_000, 1_000_000),
    ],
)
def test_the_depth_is_that_of_the_first_value_and_ignores_strings(document: bytes, depth: int) -> None:
    assert measure_depth(document) == depth


def test_a_document_of_too_many_lists_is_refused_before_it_is_parsed() -> None:
    settings = Settings(max_instances=2_048)
    few, many = (b'{"instances": [' + b",".join([b"[1]"] * count) + b"]}" for count in (16_382, 16_383))
    assert check_form(few, settings) == few
    with pytest.raises(TooLarge, match=r"more than 16384 lists and objects; send fewer at a time \(max_instances\)"):
        check_form(many, settings)
    texts = b'{"instances": ["' + b"[{" * 20_000 + b'"]}'  # brackets in texts are none
    assert check_form(texts, settings) == texts

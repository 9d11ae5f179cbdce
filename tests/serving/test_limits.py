"""Every limit on every door: 413 or RESOURCE_EXHAUSTED, the setting by its name, and the service goes on."""

import json
import struct
from collections.abc import Iterator, Mapping
from typing import Any

import grpc
import numpy as np
import pytest
from google.protobuf.message import Message
from google.protobuf.struct_pb2 import ListValue, Value

from online.serving.bodies import depth_of
from online.serving.protos import inference_pb2 as oip
from online.serving.protos import online_pb2 as ours
from online.serving.protos import tensorflow_pb2 as tf
from online.serving.protos import tensorflow_serving_pb2 as tfs
from tests.conftest import config
from tests.serving.test_inference import JSON_BYTES
from tests.serving.test_rpc import CODE, Stub, numbers, pointing, port_of, refused, spec, tensor, texts
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
WIDE = [ROW] * INSTANCES  # no more instances than may be, but more elements
LONG = "x" * (CHARS + 1)
MANY = ["hello"] * (INSTANCES + 1)


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def flag(name: str) -> Mapping[str, Any]:
    return {"signature_name": name}


def input_of(name: str, datatype: str, shape: list[int], **more: Any) -> dict[str, Any]:
    return {"inputs": [{"name": name, "datatype": datatype, "shape": shape, **more}]}


def binary(name: str, datatype: str, shape: list[int], content: bytes) -> tuple[bytes, dict[str, str]]:
    """A body of the Open Inference Protocol with bytes behind the JSON, and the header that says so."""
    told = json.dumps(input_of(name, datatype, shape, parameters={"binary_data_size": len(content)})).encode()
    return told + content, {JSON_BYTES: str(len(told))}


def element(text: str) -> bytes:
    return struct.pack("<I", len(text)) + text.encode()


def said(text: str, **more: Any) -> dict[str, Any]:
    return {"model": "chat", "messages": [{"role": "user", "content": text}], **more}


def feedback(**item: Any) -> dict[str, Any]:
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
    ("max_text_chars", "own feedback"): (f"{CHAT}:feedback", feedback(input=LONG, label="hours")),
    ("max_text_chars", "own correction"): (f"{CHAT}:feedback", feedback(input="hello", correction=LONG)),
    ("max_text_chars", "own reply"): (f"{CHAT}/replies", {"text": LONG}),
    ("max_text_chars", "TFS rows"): (f"{CHAT}:predict", {"instances": [LONG], "signature_name": ""}),
    ("max_text_chars", "TFS columns"): (f"{CHAT}:predict", {"inputs": [LONG]}),
    ("max_text_chars", "TFS classify"): (f"{CHAT}:classify", {"examples": [{"text": LONG}]}),
    ("max_text_chars", "OIP infer"): ("/v2/models/chat/infer", input_of("text", "BYTES", [1], data=[LONG])),
    ("max_text_chars", "OIP binary"): ("/v2/models/chat/infer", binary("text", "BYTES", [1], element(LONG))),
    ("max_text_chars", "OIP raw"): ("/v2/models/chat/infer", (LONG.encode(), {JSON_BYTES: "0"})),
    ("max_text_chars", "OpenAI chat"): (CHATTING, said(LONG)),
    ("max_text_chars", "OpenAI stream"): (CHATTING, said(LONG, stream=True)),
    ("max_label_chars", "own feedback"): (f"{LAB}:feedback", feedback(input=ROW, label="x" * (LABEL + 1))),
    ("max_json_depth", "own predict"): (f"{LAB}:predict", {"instances": nested(DEPTH)}),
    ("max_json_depth", "own feedback"): (f"{LAB}:feedback", feedback(input=nested(DEPTH), label="a")),
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
    ("max_json_depth", "OpenAI chat"): (CHATTING, said("hello", metadata={"deep": nested(DEPTH)})),
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


def predicts(name: str, **inputs: tf.TensorProto) -> tfs.PredictRequest:
    return tfs.PredictRequest(model_spec=spec(name), inputs=inputs)


def infers(name: str, datatype: str, shape: list[int], raw: bytes = b"", **contents: Any) -> oip.ModelInferRequest:
    given = oip.InferTensorContents(**contents) if contents else None
    asked = oip.ModelInferRequest(model_name=name, raw_input_contents=[raw] if raw else [])
    asked.inputs.add(name="text" if name == "chat" else "x", datatype=datatype, shape=shape, contents=given)
    return asked


def gives(*items: ours.Item, model: str = "lab") -> ours.GiveRequest:
    return ours.GiveRequest(model=model, feedback=items)


def deep_value(levels: int) -> Value:
    value = Value(number_value=1)
    for _ in range(levels):
        value = Value(list_value=ListValue(values=[value]))
    return value


def text_examples(*given: str) -> tfs.ClassificationRequest:
    listed = [
        tf.Example(features=tf.Features(feature={"text": tf.Feature(bytes_list=tf.BytesList(value=[each.encode()]))}))
        for each in given
    ]
    asked = tfs.Input(example_list=tfs.ExampleList(examples=listed))
    return tfs.ClassificationRequest(model_spec=spec("chat"), input=asked)


SEEN = "larger than max"  # gRPC's own words
FIVE = [b"hello"] * 5
RPC: dict[tuple[str, str], tuple[str, Message]] = {
    ("grpc_max_message_bytes", "Predict"): ("Predict", predicts("chat", text=texts("x" * BYTES))),
    ("grpc_max_message_bytes", "ModelInfer"): ("ModelInfer", infers("chat", "BYTES", [1], b"x" * BYTES)),
    ("grpc_max_message_bytes", "Give"): ("Give", gives(ours.Item(comment="x" * BYTES))),
    ("max_instances", "Predict"): ("Predict", predicts("chat", text=texts(*MANY))),
    ("max_instances", "Classify"): ("Classify", text_examples(*MANY)),
    ("max_instances", "ModelInfer raw"): ("ModelInfer", infers("chat", "BYTES", [5], element("hello") * 5)),
    ("max_instances", "ModelInfer typed"): ("ModelInfer", infers("chat", "BYTES", [5], bytes_contents=FIVE)),
    ("max_instances", "Give"): ("Give", gives(*[ours.Item(input=numbers([1]), label="a")] * 5)),
    ("max_text_chars", "Predict"): ("Predict", predicts("chat", text=texts(LONG))),
    ("max_text_chars", "Classify"): ("Classify", text_examples(LONG)),
    ("max_text_chars", "ModelInfer"): ("ModelInfer", infers("chat", "BYTES", [1], element(LONG))),
    ("max_text_chars", "Give"): (
        "Give",
        gives(ours.Item(input=Value(string_value=LONG), label="hours"), model="chat"),
    ),
    ("max_label_chars", "Give"): ("Give", gives(ours.Item(input=numbers(ROW), label="x" * (LABEL + 1)))),
    ("max_json_depth", "Give"): ("Give", gives(ours.Item(input=deep_value(DEPTH + 1), label="a"))),
    ("max_tensor_elements", "Predict by content"): ("Predict", predicts("lab", x=tensor(*WIDE))),
    ("max_tensor_elements", "Predict by values"): (
        "Predict",
        predicts("lab", x=tf.TensorProto(dtype=tf.DT_FLOAT, tensor_shape=tensor(*WIDE).tensor_shape, float_val=[1])),
    ),
    ("max_tensor_elements", "Predict of several"): (
        "Predict",
        predicts("tab", **{n: tensor([1], [2], [3]) for n in "abcde"}),
    ),
    ("max_tensor_elements", "Classify"): (
        "Classify",
        tfs.ClassificationRequest(model_spec=spec("lab"), input=pointing(*WIDE)),
    ),
    ("max_tensor_elements", "ModelInfer raw"): ("ModelInfer", infers("lab", "FP32", [4, 4], FLOATS)),
    ("max_tensor_elements", "ModelInfer typed"): (
        "ModelInfer",
        infers("lab", "FP32", [4, 4], fp32_contents=[1.0] * 16),
    ),
    ("max_tensor_elements", "Give"): ("Give", gives(*[ours.Item(input=numbers(ROW), label="a")] * INSTANCES)),
}


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service whose every limit is small."""
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


@pytest.mark.parametrize(("limit", "door"), REST)
def test_over_http(small: Service, limit: str, door: str) -> None:
    path, body = REST[limit, door]
    content, headers = body if isinstance(body, tuple) else (body, {})
    content = content if isinstance(content, (str, bytes)) else json.dumps(content)
    told = small.http.post(path, content=content, headers=headers)
    assert (told.status_code, f"({limit})" in told.text) == (413, True), told.text


@pytest.mark.parametrize(("limit", "door"), RPC)
def test_over_grpc(methods: dict[str, Any], limit: str, door: str) -> None:
    method, request = RPC[limit, door]
    words = SEEN if limit == "grpc_max_message_bytes" else f"({limit})"
    refused(CODE.RESOURCE_EXHAUSTED, words, methods[method], request)


def test_in_a_stream_too(methods: dict[str, Any]) -> None:
    wide = infers("lab", "FP32", [4, 4], FLOATS)
    few = infers("lab", "FP32", [1, 4], FLOATS[:16])
    told = [each.error_message for each in methods["ModelStreamInfer"](iter([wide, few]), timeout=60)]
    assert "(max_tensor_elements)" in told[0] and told[1] == ""
    large = infers("chat", "BYTES", [1], b"x" * BYTES)
    refused(
        CODE.RESOURCE_EXHAUSTED,
        SEEN,
        lambda request, timeout: [*methods["ModelStreamInfer"](request, timeout=timeout)],
        iter([large]),
    )


def test_what_is_just_within_is_answered(small: Service, methods: dict[str, Any]) -> None:
    assert small.http.post(f"{LAB}:predict", json={"instances": WIDE[:3]}).status_code == 200
    assert small.http.post(f"{CHAT}:predict", json={"instances": MANY[:INSTANCES]}).status_code == 200
    assert small.http.post(f"{CHAT}:predict", json={"instances": [LONG[:CHARS]]}).status_code == 200
    body = {"inputs": [ROW], "x": nested(DEPTH - 1)}
    assert small.http.post(f"{LAB}:predict", json=body).status_code == 200
    padded = json.dumps({"inputs": [ROW]}).ljust(BYTES)
    assert small.http.post(f"{LAB}:predict", content=padded).status_code == 200
    methods["Predict"](predicts("lab", x=tensor(*WIDE[:3])), timeout=60)
    methods["Give"](gives(ours.Item(input=numbers(ROW), label="x" * LABEL)), timeout=60)


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
def test_depth_is_that_of_the_first_value_and_no_text_has_any(document: bytes, depth: int) -> None:
    assert depth_of(document) == depth

"""gRPC over real connections: both services of TensorFlow Serving, the feedback service, health and reflection."""

import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from google.protobuf import descriptor_pb2
from google.protobuf.descriptor import FileDescriptor, MethodDescriptor
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.struct_pb2 import ListValue, Value
from google.protobuf.wrappers_pb2 import Int64Value
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

from online.errors import BadInput
from online.plugins.grpc.calls import parse_host
from online.plugins.grpc.protos import inference_pb2, tensorflow_error_pb2, tensorflow_pb2
from online.plugins.grpc.protos import online_pb2 as ours
from online.plugins.grpc.protos import tensorflow_pb2 as tf
from online.plugins.grpc.protos import tensorflow_serving_pb2 as tfs
from online.plugins.grpc.server import MAX_METADATA_BYTES, status_code_of, truncate
from tests.conftest import Start, config
from tests.preload import launcher
from tests.support import Service, run_online, until

ROOT = Path(__file__).parents[3]
MODELS = """
[[models]]
name = "chat"
kind = "ranker"

[[models]]
name = "lab"
kind = "classifier"
options = { input = "vector", size = 2, scale = 4.0 }
versions = "all"

[[models]]
name = "tab"
kind = "classifier"
options = { input = "table" }

[[models]]
name = "num"
kind = "regressor"
options = { input = "vector", size = 2, scale = 4.0, target_scale = 64.0 }
"""
LEFT, RIGHT = [-1.0, 0.0], [1.0, 0.0]
CODE = grpc.StatusCode
WAIT_S = 60


def port_of(service: Service) -> int:
    found = until(lambda: re.search(r"grpc listening address=\S+:(\d+)", service.output), what="gRPC's start")
    return int(found.group(1))


class Stub:
    """A client of one service, with its methods as attributes."""

    def __init__(self, channel: grpc.Channel, descriptor: Any) -> None:
        self.methods: dict[str, Any] = {
            method.name: multi_callable(channel, method)(
                f"/{descriptor.full_name}/{method.name}",
                request_serializer=lambda message: message.SerializeToString(),
                response_deserializer=GetMessageClass(method.output_type).FromString,
            )
            for method in descriptor.methods
        }

    def __getattr__(self, name: str) -> Any:
        return self.methods[name]


def multi_callable(channel: grpc.Channel, method: MethodDescriptor) -> Any:
    if method.client_streaming:
        return channel.stream_stream
    return channel.unary_stream if method.server_streaming else channel.unary_unary


class RpcClients:
    def __init__(self, service: Service) -> None:
        self.service, self.port = service, port_of(service)
        self.channel = grpc.insecure_channel(f"127.0.0.1:{self.port}", [("grpc.max_send_message_length", -1)])
        services = tfs.DESCRIPTOR.services_by_name
        self.prediction = Stub(self.channel, services["PredictionService"])
        self.model = Stub(self.channel, services["ModelService"])
        self.feedback = Stub(self.channel, ours.DESCRIPTOR.services_by_name["Feedback"])

    def teach(self, model: str, *pairs: tuple[list[float], str]) -> ours.Learned:
        items = [ours.Item(input=numbers(vector), label=label) for vector, label in pairs]
        response = self.feedback.Give(ours.GiveRequest(model=model, feedback=items), timeout=WAIT_S)
        request = ours.WaitLearnedRequest(model=model, offset=response.receipts[-1].offset)
        learned: ours.Learned = self.feedback.WaitLearned(request, timeout=WAIT_S)
        return learned


def numbers(vector: list[float]) -> Value:
    return Value(list_value=ListValue(values=[Value(number_value=number) for number in vector]))


def spec(name: str, version: int | None = None, **more: str) -> tfs.ModelSpec:
    return tfs.ModelSpec(name=name, **({"version": Int64Value(value=version)} if version is not None else {}), **more)  # type: ignore[arg-type]


def tensor(*rows: list[float]) -> tf.TensorProto:
    """Build a float32 tensor from bytes, as tf.make_tensor_proto does."""
    array = np.array(rows, "<f4")
    shape = tf.TensorShapeProto(dim=[tf.TensorShapeProto.Dim(size=size) for size in array.shape])
    return tf.TensorProto(dtype=tf.DT_FLOAT, tensor_shape=shape, tensor_content=array.tobytes())


def texts(*values: str) -> tf.TensorProto:
    shape = tf.TensorShapeProto(dim=[tf.TensorShapeProto.Dim(size=len(values))])
    return tf.TensorProto(dtype=tf.DT_STRING, tensor_shape=shape, string_val=[value.encode() for value in values])


def example(**features: float | str) -> tf.Example:
    feature = {}
    for name, value in features.items():
        if isinstance(value, str):
            feature[name] = tf.Feature(bytes_list=tf.BytesList(value=[value.encode()]))
        else:
            feature[name] = tf.Feature(float_list=tf.FloatList(value=[value]))
    return tf.Example(features=tf.Features(feature=feature))


def example_input(*vectors: list[float]) -> tfs.Input:
    examples = [
        tf.Example(features=tf.Features(feature={"x": tf.Feature(float_list=tf.FloatList(value=vector))}))
        for vector in vectors
    ]
    return tfs.Input(example_list=tfs.ExampleList(examples=examples))


def classes_in(response: tfs.PredictResponse) -> list[bytes]:
    """The best class of each instance."""
    proto = response.outputs["classes"]
    return list(proto.string_val)[:: proto.tensor_shape.dim[1].size]


@pytest.fixture(scope="module")
def rpcs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RpcClients]:
    """Clients of a service whose models have learned through gRPC only."""
    folder = tmp_path_factory.mktemp("rpc")
    running = Service(folder / "state", config(folder, MODELS, grpc_port=0))
    clients = RpcClients(running)
    clients.teach("lab", *[(LEFT, "left"), (RIGHT, "right")] * 4)
    clients.teach("num", *[([float(n % 4), float(n % 3)], str(10 + 2 * (n % 4) - n % 3)) for n in range(24)])
    running.wait_learned("chat", 15)
    yield clients
    clients.channel.close()
    running.stop()


def assert_refused(code: grpc.StatusCode, words: str, call: Any, *arguments: Any, **options: Any) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        call(*arguments, timeout=WAIT_S, **options)
    assert (caught.value.code(), words in (caught.value.details() or "")) == (code, True), caught.value.details()


# predict


def test_predict_reads_tensors_and_names_the_version_that_answered(rpcs: RpcClients) -> None:
    request = tfs.PredictRequest(model_spec=spec("lab"), inputs={"x": tensor(LEFT, RIGHT)})
    response, call = rpcs.prediction.Predict.with_call(request, timeout=WAIT_S)
    assert classes_in(response) == [b"left", b"right"]
    scores = np.frombuffer(response.outputs["scores"].tensor_content, "<f4").reshape(2, -1)
    assert (scores[:, 0] > 0.5).all() and np.allclose(scores.sum(1), 1)
    assert (response.model_spec.name, response.model_spec.signature_name) == ("lab", "serving_default")
    trailing = dict(call.trailing_metadata())
    assert trailing["x-model-version"] == str(response.model_spec.version.value) != "0"
    assert len(trailing["x-prediction-ids"].split(",")) == 2


def test_each_kind_of_model_has_its_own_outputs(rpcs: RpcClients) -> None:
    request = tfs.PredictRequest(model_spec=spec("chat"), inputs={"text": texts("When do you open?")})
    response = rpcs.prediction.Predict(request, timeout=WAIT_S)
    assert {name: list(response.outputs[name].string_val) for name in ("id", "text")} == {
        "id": [b"hours"],
        "text": [b"We open at nine."],
    }
    filtered = tfs.PredictRequest(model_spec=spec("chat"), inputs=request.inputs, output_filter=["id"])
    assert list(rpcs.prediction.Predict(filtered, timeout=WAIT_S).outputs) == ["id"]
    number_request = tfs.PredictRequest(model_spec=spec("num"), inputs={"x": tensor([3, 1])})
    response = rpcs.prediction.Predict(number_request, timeout=WAIT_S)
    assert np.frombuffer(response.outputs["outputs"].tensor_content, "<f4") == pytest.approx(15, abs=0.5)


def test_a_prediction_accepts_feedback_with_a_status_that_can_be_retracted(rpcs: RpcClients) -> None:
    request = tfs.PredictRequest(model_spec=spec("tab"), inputs={"colour": texts("red"), "size": tensor([2])})
    _, call = rpcs.prediction.Predict.with_call(request, timeout=WAIT_S)
    prediction_id = dict(call.trailing_metadata())["x-prediction-ids"]
    item = ours.Item(id="mine", prediction_id=prediction_id, label="apple", user="ann")
    receipt = rpcs.feedback.Give(ours.GiveRequest(model="tab", feedback=[item])).receipts[0]
    assert (receipt.id, receipt.status) == ("mine", "accepted")
    learned = rpcs.feedback.WaitLearned(ours.WaitLearnedRequest(model="tab", offset=receipt.offset), timeout=WAIT_S)
    assert learned.learned_until >= receipt.offset
    response = rpcs.prediction.Predict(request, timeout=WAIT_S)
    assert classes_in(response) == [b"apple"] and response.model_spec.version.value >= learned.version
    reference = ours.FeedbackRef(model="tab", id="mine")
    status = rpcs.feedback.GetFate(reference)
    assert (status.status, status.offset, status.version) == ("learned", receipt.offset, learned.version)
    retraction = rpcs.feedback.Retract(reference)
    assert retraction.status == "retracted" and retraction.offset > receipt.offset
    rpcs.feedback.WaitLearned(ours.WaitLearnedRequest(model="tab", offset=retraction.offset), timeout=WAIT_S)
    assert rpcs.prediction.Predict(request, timeout=WAIT_S).outputs["classes"].tensor_shape.dim[1].size == 0


def test_versions_and_labels_select_the_version_that_answers(rpcs: RpcClients) -> None:
    inputs = {"x": tensor(RIGHT)}
    status = rpcs.model.GetModelStatus(tfs.GetModelStatusRequest(model_spec=spec("lab")))
    oldest = status.model_version_status[-1].version
    response = rpcs.prediction.Predict(
        tfs.PredictRequest(model_spec=spec("lab", oldest), inputs=inputs), timeout=WAIT_S
    )
    assert response.model_spec.version.value == oldest
    latest = spec("lab", version_label="latest")
    response = rpcs.prediction.Predict(tfs.PredictRequest(model_spec=latest, inputs=inputs), timeout=WAIT_S)
    assert response.model_spec.version.value == status.model_version_status[0].version
    one = rpcs.model.GetModelStatus(tfs.GetModelStatusRequest(model_spec=spec("lab", oldest))).model_version_status
    assert [(each.version, each.state, each.status.error_code) for each in one] == [
        (oldest, tfs.ModelVersionStatus.AVAILABLE, tensorflow_error_pb2.OK)
    ]


def test_no_call_fails_or_waits_while_a_version_is_published(rpcs: RpcClients) -> None:
    is_done, versions = threading.Event(), set()

    def predict_repeatedly() -> None:
        while not is_done.is_set():
            request = tfs.PredictRequest(model_spec=spec("lab"), inputs={"x": tensor(LEFT)})
            versions.add(rpcs.prediction.Predict(request, timeout=WAIT_S).model_spec.version.value)

    with ThreadPoolExecutor(2) as callers:
        calls = [callers.submit(predict_repeatedly) for _ in range(2)]
        learned = [rpcs.teach("lab", (LEFT, "left"), (RIGHT, "right")).version for _ in range(10)]
        is_done.set()
        for each in calls:
            each.result()  # raises if a call failed
    assert len(set(learned)) == 10 and len(versions) > 1


# classify, regress, multi-inference


def test_classify_reads_examples_with_or_without_a_context(rpcs: RpcClients) -> None:
    response = rpcs.prediction.Classify(
        tfs.ClassificationRequest(model_spec=spec("lab"), input=example_input(LEFT, RIGHT))
    )
    best = [each.classes[0] for each in response.result.classifications]
    assert [each.label for each in best] == ["left", "right"] and all(each.score > 0.5 for each in best)
    assert response.model_spec.version.value > 0
    with_context = tfs.ExampleListWithContext(examples=[example(), example(size=1)], context=example(colour="blue"))
    request = tfs.ClassificationRequest(model_spec=spec("tab"), input=tfs.Input(example_list_with_context=with_context))
    assert len(rpcs.prediction.Classify(request).result.classifications) == 2
    with_context.examples[0].CopyFrom(example(colour="red"))
    request.input.example_list_with_context.CopyFrom(with_context)
    assert_refused(CODE.INVALID_ARGUMENT, "both in the context", rpcs.prediction.Classify, request)


def test_regress_is_for_regressors(rpcs: RpcClients) -> None:
    response = rpcs.prediction.Regress(tfs.RegressionRequest(model_spec=spec("num"), input=example_input([3, 1])))
    assert [each.value for each in response.result.regressions] == [pytest.approx(15, abs=0.5)]
    request = tfs.RegressionRequest(model_spec=spec("lab"), input=example_input(LEFT))
    words = (
        "Expected regression signature method_name to be tensorflow/serving/regress. Was: tensorflow/serving/predict"
    )
    assert_refused(CODE.INVALID_ARGUMENT, words, rpcs.prediction.Regress, request)


def test_multi_inference_answers_all_tasks_with_one_version(rpcs: RpcClients) -> None:
    def task(signature: str) -> tfs.InferenceTask:
        model_spec = spec("lab", signature_name=signature)
        return tfs.InferenceTask(model_spec=model_spec, method_name="tensorflow/serving/classify")

    request = tfs.MultiInferenceRequest(tasks=[task(""), task("classify")], input=example_input(LEFT))
    results = rpcs.prediction.MultiInference(request, timeout=WAIT_S).results
    assert [each.classification_result.classifications[0].classes[0].label for each in results] == ["left", "left"]
    assert len({each.model_spec.version.value for each in results}) == 1
    request.tasks[0].model_spec.signature_name = "classify"
    assert_refused(CODE.INVALID_ARGUMENT, "Duplicate evaluation of signature", rpcs.prediction.MultiInference, request)


def test_metadata_is_a_map_of_signatures(rpcs: RpcClients) -> None:
    request = tfs.GetModelMetadataRequest(model_spec=spec("num"), metadata_field=["signature_def"])
    response = rpcs.prediction.GetModelMetadata(request)
    signatures = tfs.SignatureDefMap()
    assert response.metadata["signature_def"].Unpack(signatures) and response.model_spec.version.value > 0
    default = signatures.signature_def["serving_default"]
    assert [dim.size for dim in default.inputs["x"].tensor_shape.dim] == [-1, 2]
    assert default.outputs["outputs"].dtype == tf.DT_FLOAT and default.method_name == "tensorflow/serving/predict"
    assert signatures.signature_def["regress"].method_name == "tensorflow/serving/regress"
    assert_refused(
        CODE.INVALID_ARGUMENT,
        "must specify at least one metadata_field",
        rpcs.prediction.GetModelMetadata,
        tfs.GetModelMetadataRequest(model_spec=spec("num")),
    )


# labels


def reload_of(model: str, **labels: int) -> tfs.ReloadConfigRequest:
    configs = tfs.ModelConfigList(config=[tfs.ModelConfig(name=model, base_path="/models", version_labels=labels)])
    return tfs.ReloadConfigRequest(config=tfs.ModelServerConfig(model_config_list=configs))


def test_a_reload_moves_labels_only_to_available_versions(rpcs: RpcClients) -> None:
    status = rpcs.model.GetModelStatus(tfs.GetModelStatusRequest(model_spec=spec("lab"))).model_version_status
    newest, oldest = status[0].version, status[-1].version
    reload = rpcs.model.HandleReloadConfigRequest
    response = reload(reload_of("lab", stable=newest, best=newest))
    assert response.status.error_code == tensorflow_error_pb2.OK
    words = "Request to assign label to version 99999 of model lab, which is not currently available for inference"
    assert_refused(CODE.FAILED_PRECONDITION, words, reload, reload_of("lab", stable=99999, best=oldest))
    labelled = {name: label_of(rpcs, name) for name in ("stable", "best")}
    assert labelled == {"stable": newest, "best": newest}  # all or none
    reload(reload_of("lab", stable=oldest))
    assert (label_of(rpcs, "stable"), label_of(rpcs, "best")) == (oldest, newest)
    assert_refused(CODE.INVALID_ARGUMENT, "is assigned automatically", reload, reload_of("lab", latest=oldest))
    assert_refused(CODE.FAILED_PRECONDITION, "there is no model", reload, reload_of("new", stable=1))


def label_of(rpcs: RpcClients, label: str) -> int:
    request = tfs.PredictRequest(model_spec=spec("lab", version_label=label), inputs={"x": tensor(LEFT)})
    return int(rpcs.prediction.Predict(request, timeout=WAIT_S).model_spec.version.value)


def test_the_canary_keeps_its_share_of_calls_when_its_label_moves(rpcs: RpcClients) -> None:
    status = rpcs.model.GetModelStatus(tfs.GetModelStatusRequest(model_spec=spec("lab"))).model_version_status
    newest, oldest = status[0].version, status[-1].version
    label = "/v1/models/lab/version_labels/canary"
    rpcs.service.http.put(label, json={"version": oldest, "percent": 100}).raise_for_status()
    route = (("x-route", "ann"),)
    response = rpcs.prediction.Predict(inputs_of(x=tensor(LEFT)), metadata=route)
    assert response.model_spec.version.value == oldest
    rpcs.model.HandleReloadConfigRequest(reload_of("lab", canary=newest))
    assert rpcs.prediction.Predict(inputs_of(x=tensor(LEFT)), metadata=route).model_spec.version.value == newest
    labels = rpcs.service.http.get("/v1/models/lab/versions").json()["labels"]
    assert {"label": "canary", "version": str(newest), "percent": 100.0} in labels
    rpcs.service.http.delete(label).raise_for_status()


@pytest.mark.long
def test_a_reload_needs_the_admin_key_if_one_is_set(start: Start) -> None:
    rpcs = RpcClients(start(MODELS, flags=("--grpc-port", "0"), admin_key="open sesame"))
    reload = rpcs.model.HandleReloadConfigRequest
    assert_refused(CODE.UNAUTHENTICATED, "needs a key", reload, reload_of("lab"))
    assert_refused(
        CODE.UNAUTHENTICATED, "not valid", reload, reload_of("lab"), metadata=(("x-admin-key", "open sesamE"),)
    )
    assert reload(reload_of("lab"), metadata=(("authorization", "Bearer open sesame"),)).HasField("status")


# refusals


def inputs_of(**tensors: tf.TensorProto) -> tfs.PredictRequest:
    return tfs.PredictRequest(model_spec=spec("lab"), inputs=tensors)


HUGE = tf.TensorShapeProto(dim=[tf.TensorShapeProto.Dim(size=10**12)])
BAD: dict[str, tuple[tfs.PredictRequest, grpc.StatusCode, str]] = {
    "no model": (tfs.PredictRequest(), CODE.INVALID_ARGUMENT, "Missing ModelSpec"),
    "an unknown model": (
        tfs.PredictRequest(model_spec=spec("half")),
        CODE.NOT_FOUND,
        "Servable not found for request: Latest(half)",
    ),
    "an unknown version": (
        tfs.PredictRequest(model_spec=spec("lab", 99999), inputs={"x": tensor(LEFT)}),
        CODE.NOT_FOUND,
        "Servable not found for request: Specific(lab, 99999)",
    ),
    "a version below zero": (
        tfs.PredictRequest(model_spec=spec("lab", -1), inputs={"x": tensor(LEFT)}),
        CODE.NOT_FOUND,
        "Specific(lab, -1)",
    ),
    "an unknown label": (
        tfs.PredictRequest(model_spec=spec("lab", version_label="x"), inputs={"x": tensor(LEFT)}),
        CODE.INVALID_ARGUMENT,
        "Unrecognized servable version label: x",
    ),
    "an unknown signature": (
        tfs.PredictRequest(model_spec=spec("lab", signature_name="x"), inputs={"x": tensor(LEFT)}),
        CODE.FAILED_PRECONDITION,
        'Serving signature name: "x" not found in signature def',
    ),
    "no input": (inputs_of(), CODE.INVALID_ARGUMENT, "input size does not match signature: 0!=1"),
    "another input": (
        inputs_of(y=tensor(LEFT)),
        CODE.INVALID_ARGUMENT,
        "input tensor alias not found in signature: y. Inputs expected to be in the set {x}.",
    ),
    "another input beside the right one": (
        inputs_of(x=tensor(LEFT), z=tensor(LEFT)),
        CODE.INVALID_ARGUMENT,
        "input tensor alias not found in signature: z. Inputs expected to be in the set {x}.",
    ),
    "another output": (
        tfs.PredictRequest(model_spec=spec("lab"), inputs={"x": tensor(LEFT)}, output_filter=["y"]),
        CODE.INVALID_ARGUMENT,
        "output tensor alias not found in signature: y Outputs expected to be in the set {classes,scores}.",
    ),
    "texts for a vector": (inputs_of(x=texts("a")), CODE.INVALID_ARGUMENT, "instance 0"),
    "too wide a vector": (inputs_of(x=tensor([1, 2, 3])), CODE.INVALID_ARGUMENT, "this model takes 2"),
    "a scalar": (
        inputs_of(x=tf.TensorProto(dtype=tf.DT_FLOAT, float_val=[1])),
        CODE.INVALID_ARGUMENT,
        "batch dimension",
    ),
    "an empty batch": (inputs_of(x=texts()), CODE.INVALID_ARGUMENT, "Input is empty"),
    "a shape far larger than its values": (
        inputs_of(x=tf.TensorProto(dtype=tf.DT_FLOAT, tensor_shape=HUGE, float_val=[1])),
        CODE.RESOURCE_EXHAUSTED,
        "at most 4194304 elements (max_tensor_elements)",
    ),
    "too many instances": (inputs_of(x=tensor(*[LEFT] * 1025)), CODE.RESOURCE_EXHAUSTED, "max_instances"),
    "numbers that are not finite": (inputs_of(x=tensor([float("nan"), 1])), CODE.INVALID_ARGUMENT, "finite"),
    "no type": (inputs_of(x=tf.TensorProto()), CODE.INVALID_ARGUMENT, "DT_INVALID are not supported"),
}


@pytest.mark.parametrize("case", BAD)
def test_an_invalid_request_is_refused_with_its_status_code(rpcs: RpcClients, case: str) -> None:
    request, code, words = BAD[case]
    assert_refused(code, words, rpcs.prediction.Predict, request)


def test_bytes_that_are_no_message_are_refused_without_internal_details(rpcs: RpcClients) -> None:
    raw: Any = rpcs.channel.unary_unary("/tensorflow.serving.PredictionService/Predict")
    assert_refused(CODE.INVALID_ARGUMENT, "the bytes are not a tensorflow.serving.PredictRequest", raw, b"\xff\xff\xff")
    assert_refused(
        CODE.UNIMPLEMENTED, "", rpcs.channel.unary_unary("/tensorflow.serving.PredictionService/Nothing"), b""
    )


def test_a_message_beyond_the_limit_is_refused(rpcs: RpcClients) -> None:
    large = tfs.PredictRequest(model_spec=spec("chat"), inputs={"text": texts("x" * 4_194_304)})
    assert_refused(CODE.RESOURCE_EXHAUSTED, "4194304", rpcs.prediction.Predict, large)


def test_metadata_beyond_the_limit_are_refused_and_others_go_on(rpcs: RpcClients) -> None:
    request = tfs.PredictRequest(model_spec=spec("lab"), inputs={"x": tensor(LEFT)})
    with pytest.raises(grpc.RpcError) as refused:
        rpcs.prediction.Predict(request, timeout=WAIT_S, metadata=(("x-large", "a" * MAX_METADATA_BYTES),))
    assert refused.value.code() is CODE.RESOURCE_EXHAUSTED
    long = (("x-long", "a" * (MAX_METADATA_BYTES - 2_000)),)
    assert rpcs.prediction.Predict(request, timeout=WAIT_S, metadata=long).outputs


def test_invalid_feedback_is_refused(rpcs: RpcClients) -> None:
    def give(**fields: Any) -> ours.GiveRequest:
        return ours.GiveRequest(model="lab", feedback=[ours.Item(**fields)])

    assert_refused(CODE.INVALID_ARGUMENT, "none of them", rpcs.feedback.Give, give(prediction_id="x"))
    assert_refused(
        CODE.INVALID_ARGUMENT, "less than or equal to 1", rpcs.feedback.Give, give(prediction_id="x", reward=2.0)
    )
    assert_refused(CODE.NOT_FOUND, "no prediction 'x'", rpcs.feedback.Give, give(prediction_id="x", label="left"))
    assert_refused(CODE.INVALID_ARGUMENT, "at least 1 item", rpcs.feedback.Give, ours.GiveRequest(model="lab"))
    assert_refused(CODE.NOT_FOUND, "no model 'half'", rpcs.feedback.Give, ours.GiveRequest(model="half"))
    assert_refused(CODE.NOT_FOUND, "no feedback 'x'", rpcs.feedback.Retract, ours.FeedbackRef(model="lab", id="x"))
    rpcs.feedback.Give(give(id="twice", input=numbers(LEFT), label="left"))
    assert_refused(
        CODE.ALREADY_EXISTS, "used before", rpcs.feedback.Give, give(id="twice", input=numbers(LEFT), label="right")
    )


def test_a_deadline_ends_a_waiting_call(rpcs: RpcClients) -> None:
    request = ours.WaitLearnedRequest(model="lab", offset=10**12)
    with pytest.raises(grpc.RpcError) as caught:
        rpcs.feedback.WaitLearned(request, timeout=0.3)
    assert caught.value.code() == CODE.DEADLINE_EXCEEDED


def test_an_error_message_is_truncated_and_has_a_status_code() -> None:
    assert truncate("x" * 1024) == "x" * 1024 and truncate("x" * 1025) == "x" * 1024 + "...TRUNCATED"
    assert status_code_of(BadInput("")) == CODE.INVALID_ARGUMENT


@pytest.mark.parametrize(
    ("peer", "host"),
    [
        ("ipv4:127.0.0.1:5000", "127.0.0.1"),
        ("ipv6:%5B::1%5D:5000", "::1"),
        ("ipv6:[fe80::1]:1", "fe80::1"),
        ("unix:", ""),
    ],
)
def test_the_host_of_a_peer_is_parsed(peer: str, host: str) -> None:
    assert parse_host(peer) == host


# the server


def test_health_and_reflection_list_the_services(rpcs: RpcClients) -> None:
    stub = Stub(rpcs.channel, health_pb2.DESCRIPTOR.services_by_name["Health"])
    for name in ("", "tensorflow.serving.PredictionService", "online.v1.Feedback"):
        assert stub.Check(health_pb2.HealthCheckRequest(service=name)).status == health_pb2.HealthCheckResponse.SERVING
    assert stub.Check(health_pb2.HealthCheckRequest(service="lab")).status == health_pb2.HealthCheckResponse.SERVING
    assert_refused(
        CODE.NOT_FOUND, "there is no service or model 'half'", stub.Check, health_pb2.HealthCheckRequest(service="half")
    )
    names = {
        "tensorflow.serving.PredictionService",
        "tensorflow.serving.ModelService",
        "online.v1.Feedback",
        "grpc.health.v1.Health",
    }
    assert names <= set(ProtoReflectionDescriptorDatabase(rpcs.channel).get_services())


@pytest.mark.long
def test_health_is_reported_for_each_model_and_follows_its_readiness(start: Start, tmp_path: Path) -> None:
    service = start(MODELS, flags=("--grpc-port", "0"))
    RpcClients(service).teach("lab", (LEFT, "left"))
    service.wait_learned("chat", 15)
    assert service.stop() == 0
    for weights in (service.state / "snapshots" / "lab").glob("*/weights.safetensors"):
        weights.write_bytes(b"damaged")
    service = start(MODELS, flags=("--grpc-port", "0", "--no-learner"))
    with grpc.insecure_channel(f"127.0.0.1:{port_of(service)}") as channel:
        stub = Stub(channel, health_pb2.DESCRIPTOR.services_by_name["Health"])
        statuses = {
            name: stub.Check(health_pb2.HealthCheckRequest(service=name)).status for name in ("", "lab", "chat")
        }
        serving, not_serving = health_pb2.HealthCheckResponse.SERVING, health_pb2.HealthCheckResponse.NOT_SERVING
        assert statuses == {"": not_serving, "lab": not_serving, "chat": serving}
        assert service.http.get("/readyz").status_code == 503
        assert service.http.get("/v1/models/lab").json()["ready"] is False  # the field that KServe's client reads
        updates = stub.Watch(health_pb2.HealthCheckRequest(service="lab"), timeout=WAIT_S)
        assert next(updates).status == not_serving
        learn = [launcher(), "-m", "online", "learn", "--state", str(service.state)]
        learner = subprocess.Popen([*learn, "--config", str(tmp_path / "state.toml")])
        assert next(updates).status == serving
        assert service.stop() == 0  # an open stream does not delay the end
        assert next(updates).status == not_serving and next(updates, None) is None
        learner.send_signal(signal.SIGINT)
        learner.wait(30)


@pytest.mark.long
def test_open_calls_are_bounded(start: Start) -> None:
    service = start(MODELS, flags=("--grpc-port", "0"), grpc_max_calls=2)
    rpcs = RpcClients(service)
    health = Stub(rpcs.channel, health_pb2.DESCRIPTOR.services_by_name["Health"])
    streams = [health.Watch(health_pb2.HealthCheckRequest()) for _ in range(2)]
    for stream in streams:
        next(stream)  # it is open

    def code() -> grpc.StatusCode:
        try:
            health.Check(health_pb2.HealthCheckRequest(), timeout=WAIT_S)
            return CODE.OK
        except grpc.RpcError as error:
            refused: grpc.StatusCode = error.code()
            return refused

    assert code() == CODE.RESOURCE_EXHAUSTED
    for stream in streams:
        stream.cancel()
    until(lambda: code() == CODE.OK, what="an answer after they have ended")


@pytest.mark.long
def test_without_an_admin_key_a_reload_is_accepted_only_from_this_machine(start: Start) -> None:
    service = start(MODELS, flags=("--grpc-port", "0"))
    rpcs = RpcClients(service)
    version = rpcs.teach("lab", (LEFT, "left")).version
    assert rpcs.model.HandleReloadConfigRequest(reload_of("lab", stable=version)).HasField("status")
    proxied = (("x-forwarded-for", "10.0.0.7"),)
    reload = rpcs.model.HandleReloadConfigRequest
    assert_refused(CODE.UNAUTHENTICATED, "needs a key", reload, reload_of("lab"), metadata=proxied)
    second = run_online("serve", "--state", str(service.state) + "2", "--port", "0", "--grpc-port", str(rpcs.port))
    assert second.returncode == 2 and f"{rpcs.port}" in second.stderr and "--grpc-port" in second.stderr
    assert service.stop() == 0
    with pytest.raises(grpc.RpcError):
        rpcs.feedback.GetFate(ours.FeedbackRef(model="lab", id="x"), timeout=5)


@pytest.mark.parametrize(
    "module_descriptor",
    [
        ours.DESCRIPTOR,
        inference_pb2.DESCRIPTOR,
        tensorflow_pb2.DESCRIPTOR,
        tensorflow_error_pb2.DESCRIPTOR,
        tfs.DESCRIPTOR,
    ],
)
def test_the_compiled_protos_match_the_proto_files(module_descriptor: FileDescriptor, tmp_path: Path) -> None:
    out = tmp_path / "set"
    command = [sys.executable, "-m", "grpc_tools.protoc", "-I.", f"--descriptor_set_out={out}", module_descriptor.name]
    subprocess.run(command, cwd=ROOT, check=True)
    (compiled,) = descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes()).file
    committed = descriptor_pb2.FileDescriptorProto()
    module_descriptor.CopyToProto(committed)
    for file in (compiled, committed):
        for message in file.message_type:
            clear_json_names(message)
    assert committed == compiled, "run: make protos"


def clear_json_names(message: descriptor_pb2.DescriptorProto) -> None:
    """Clear the JSON names, which only one of the two descriptors has."""
    for each in message.field:
        each.ClearField("json_name")
    for nested in message.nested_type:
        clear_json_names(nested)


def test_instances_and_bytes_of_a_key_are_limited_over_grpc(start: Start) -> None:
    service = start(MODELS, grpc_port=0, key_instances_per_minute=4, key_bytes_per_minute=2_000)
    scopes = ["predict", "feedback", "teach"]
    made = service.http.post("/v1/keys", json={"name": "eager", "scopes": scopes}).json()["key"]
    rpcs, metadata = RpcClients(service), (("authorization", f"Bearer {made}"),)
    two = tfs.PredictRequest(model_spec=spec("lab"), inputs={"x": tensor(LEFT, RIGHT)})
    item = ours.Item(input=numbers(LEFT), label="a")
    rpcs.prediction.Predict(two, timeout=WAIT_S, metadata=metadata)
    rpcs.feedback.Give(ours.GiveRequest(model="lab", feedback=[item]), timeout=WAIT_S, metadata=metadata)
    with pytest.raises(grpc.RpcError) as refused:
        rpcs.prediction.Predict(two, timeout=WAIT_S, metadata=metadata)
    assert "more than 4 instances in a minute (key_instances_per_minute)" in str(refused.value.details())
    wide = tfs.PredictRequest(model_spec=spec("lab"), inputs={"x": tensor(*[LEFT] * 300)})
    with pytest.raises(grpc.RpcError) as refused:
        rpcs.prediction.Predict(wide, timeout=WAIT_S, metadata=metadata)
    assert refused.value.code() is CODE.RESOURCE_EXHAUSTED and "(key_bytes_per_minute" in str(refused.value.details())

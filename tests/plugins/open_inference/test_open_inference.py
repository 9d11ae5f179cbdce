"""The Open Inference Protocol over REST: tensors as JSON and as bytes, versions, requested outputs, errors."""

import json
import queue
import struct
from collections.abc import Iterator
from typing import Any

import grpc
import httpx
import numpy as np
import pytest

from online.plugins.grpc.protos import inference_pb2 as oip
from tests.conftest import Start, config
from tests.plugins.grpc.test_grpc import CODE, Stub, assert_refused, port_of
from tests.support import Service

MODELS = """
[[models]]
name = "chat"
kind = "ranker"

[[models]]
name = "vec"
kind = "classifier"
options = { input = "vector", size = 2, scale = 4.0 }

[[models]]
name = "num"
kind = "regressor"
options = { input = "vector", size = 2, scale = 4.0, target_scale = 64.0 }

[[models]]
name = "tab"
kind = "classifier"
options = { input = "table" }
"""
LEFT, RIGHT = [1.0, 0.0], [0.0, 1.0]
JSON_BYTES = "Inference-Header-Content-Length"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("inference")
    running = Service(folder / "state", config(folder, MODELS, grpc_port=0))
    items = [{"input": LEFT, "label": "left"}, {"input": RIGHT, "label": "right"}] * 4
    running.wait_learned("vec", running.client("vec").feedback(items)[-1]["offset"])
    running.wait_learned("chat", 15)
    yield running
    running.stop()


def infer(service: Service, model: str, body: dict[str, Any], tensors: bytes = b"", **headers: str) -> httpx.Response:
    document = json.dumps(body).encode()
    length = {JSON_BYTES: str(len(document))} if tensors else {}
    return service.http.post(f"/v2/models/{model}/infer", content=document + tensors, headers={**length, **headers})


def vectors(rows: list[list[float]], **fields: Any) -> dict[str, Any]:
    return {"name": "x", "datatype": "FP32", "shape": [len(rows), 2], "data": rows, **fields}


def output(answer: httpx.Response, name: str) -> dict[str, Any]:
    assert answer.status_code == 200, answer.text
    return next(each for each in answer.json()["outputs"] if each["name"] == name)


def test_a_server_and_its_models_describe_themselves(service: Service) -> None:
    metadata = service.http.get("/v2").json()
    assert metadata["name"] == "online" and "binary_tensor_data" in metadata["extensions"]
    assert service.http.get("/v2/health/live").json()["live"] is True
    assert service.http.get("/v2/health/ready").json()["ready"] is True
    assert service.http.get("/v2/models").json()["models"] == ["chat", "vec", "num", "tab"]
    vec = service.http.get("/v2/models/vec").json()
    assert vec["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, 2]}]
    assert [each["name"] for each in vec["outputs"]] == ["classes", "scores"]
    live = vec["versions"][0]
    assert service.http.get(f"/v2/models/vec/versions/{live}/ready").json() == {"name": "vec", "ready": True}
    assert service.http.get("/v2/models/vec/versions/latest/ready").json()["ready"] is True
    assert service.http.get("/v2/models/chat/config").json()["input"] == [
        {"name": "text", "data_type": "TYPE_STRING", "dims": [-1]}
    ]


def test_a_json_request_gets_a_json_answer_with_its_id_and_accepts_feedback(service: Service) -> None:
    answer = infer(service, "vec", {"id": "mine", "inputs": [vectors([LEFT, RIGHT])]})
    assert (answer.json()["id"], answer.json()["model_name"]) == ("mine", "vec")
    assert answer.json()["model_version"] == answer.headers["X-Model-Version"]
    classes = output(answer, "classes")
    assert (classes["datatype"], classes["shape"]) == ("BYTES", [2, 2])
    assert classes["data"] == ["left", "right", "right", "left"]
    ids = answer.json()["parameters"]["prediction_ids"].split(",")
    receipt = service.client("vec").label(ids[1], "right")
    assert receipt["status"] == "accepted"
    flat = infer(service, "vec", {"inputs": [vectors([LEFT, RIGHT]) | {"data": [*LEFT, *RIGHT]}]})
    assert output(flat, "classes")["data"] == classes["data"]
    assert "id" not in flat.json()


@pytest.mark.parametrize(
    ("datatype", "dtype"),
    [
        ("FP16", "<f2"),
        ("FP32", "<f4"),
        ("FP64", "<f8"),
        ("INT8", "i1"),
        ("INT64", "<i8"),
        ("UINT16", "<u2"),
        ("BF16", ""),
    ],
)
def test_binary_tensors_after_the_json_are_read_in_any_type(service: Service, datatype: str, dtype: str) -> None:
    rows = np.array([LEFT, RIGHT], np.float32)
    content = rows.astype(dtype).tobytes() if dtype else (rows.view(np.uint32) >> 16).astype("<u2").tobytes()
    tensor_json = {"name": "x", "datatype": datatype, "shape": [2, 2], "parameters": {"binary_data_size": len(content)}}
    assert output(infer(service, "vec", {"inputs": [tensor_json]}, content), "classes")["data"][::2] == [
        "left",
        "right",
    ]


@pytest.mark.parametrize("data", [[True, False], [1, 0], [1.0, 0.0]])
def test_booleans_are_read_as_numbers(service: Service, data: list[Any]) -> None:
    tensor = {"name": "x", "datatype": "BOOL", "shape": [1, 2]}
    answer = infer(service, "vec", {"inputs": [{**tensor, "data": data}]})
    expected = infer(service, "vec", {"inputs": [vectors([LEFT])]})
    assert output(answer, "scores")["data"] == output(expected, "scores")["data"]
    raw = infer(service, "vec", {"inputs": [{**tensor, "parameters": {"binary_data_size": 2}}]}, b"\x01\x00")
    assert output(raw, "scores")["data"] == output(expected, "scores")["data"]


def test_texts_are_read_and_on_request_written_as_binary_tensors(service: Service) -> None:
    texts = [b"Can I print here?", "Wo gibt es WLAN? 📶".encode()]
    content = b"".join(struct.pack("<I", len(text)) + text for text in texts)
    tensor_json = {"name": "text", "datatype": "BYTES", "shape": [2], "parameters": {"binary_data_size": len(content)}}
    body = {"inputs": [tensor_json], "parameters": {"binary_data_output": True}}
    answer = infer(service, "chat", body, content)
    assert answer.headers["content-type"] == "application/octet-stream"
    size = int(answer.headers[JSON_BYTES])
    outputs = json.loads(answer.content[:size])["outputs"]
    assert [each["name"] for each in outputs] == ["id", "text", "score"]
    sizes = [each["parameters"]["binary_data_size"] for each in outputs]
    assert sum(sizes) == len(answer.content) - size
    first = answer.content[size : size + sizes[0]]
    length = struct.unpack_from("<I", first)[0]
    assert first[4 : 4 + length] == b"print"
    scores = np.frombuffer(answer.content[-sizes[2] :], "<f4")
    assert scores.shape == (2,) and scores[0] > 0.5


def test_only_the_requested_outputs_are_returned_with_classifications_in_the_format_of_triton(service: Service) -> None:
    wanted = [{"name": "scores", "parameters": {"classification": 1}}]
    answer = infer(service, "vec", {"inputs": [vectors([RIGHT])], "outputs": wanted})
    assert [each["name"] for each in answer.json()["outputs"]] == ["scores"]
    assert output(answer, "scores")["shape"] == [1, 1]
    score, index, label = output(answer, "scores")["data"][0].split(":")
    assert (label, index.isdigit(), float(score) > 0.5) == ("right", True, True)
    mixed = [{"name": "classes"}, {"name": "scores", "parameters": {"binary_data": True}}]
    answer = infer(service, "vec", {"inputs": [vectors([RIGHT])], "outputs": mixed})
    outputs = json.loads(answer.content[: int(answer.headers[JSON_BYTES])])["outputs"]
    assert outputs[0]["data"] == ["right", "left"] and outputs[1]["parameters"] == {"binary_data_size": 8}


def test_a_table_takes_one_tensor_for_each_feature(service: Service) -> None:
    body = {
        "inputs": [
            {"name": "size", "datatype": "FP64", "shape": [2], "data": [1.5, 2.5]},
            {"name": "colour", "datatype": "BYTES", "shape": [2], "data": ["red", "blue"]},
        ]
    }
    answer = infer(service, "tab", body)
    assert answer.status_code == 200 and len(answer.json()["parameters"]["prediction_ids"].split(",")) == 2


def test_a_body_may_consist_of_only_the_bytes_of_the_single_input(service: Service) -> None:
    content = np.array(RIGHT, "<f4").tobytes()
    answer = service.http.post("/v2/models/vec/infer", content=content, headers={JSON_BYTES: "0"})
    assert output(answer, "classes")["data"][0] == "right"
    refused = service.http.post("/v2/models/tab/infer", content=content, headers={JSON_BYTES: "0"})
    assert refused.status_code == 400 and "tf.Example" in refused.json()["error"]


def test_versions_are_selected_by_number_and_by_label(service: Service) -> None:
    version = service.http.get("/v2/models/vec").json()["versions"][0]
    body = {"parameters": {"label": "kept", "version": version}}
    assert service.http.post("/v2/repository/models/vec/load", json=body).json() == {"name": "vec", "load": True}
    for reference in (version, "kept"):
        answer = service.http.post(f"/v2/models/vec/versions/{reference}/infer", json={"inputs": [vectors([LEFT])]})
        assert answer.json()["model_version"] == version
    rows = service.http.post("/v2/repository/index").json()
    assert {"name": "vec", "version": version, "state": "READY", "reason": ""} in rows
    missing = service.http.get("/v2/models/vec/versions/999999/ready")
    assert missing.status_code == 404 and "error" in missing.json()
    assert service.http.post("/v2/repository/models/vec/load").status_code == 200
    assert service.http.post("/v2/repository/models/vec/load", json={"parameters": {"config": "{}"}}).status_code == 400
    assert service.http.post("/v2/repository/models/vec/unload").status_code == 409


def test_statistics_count_inferences(service: Service) -> None:
    def read_stats() -> dict[str, Any]:
        stats: dict[str, Any] = service.http.get("/v2/models/num/stats").json()["model_stats"][0]
        return stats

    before = read_stats()
    infer(service, "num", {"inputs": [vectors([LEFT, RIGHT])]})
    after = read_stats()
    assert after["inference_count"] - before["inference_count"] == 2
    assert after["inference_stats"]["compute_infer"]["count"] - before["inference_stats"]["compute_infer"]["count"] == 1
    assert len(service.http.get("/v2/models/stats").json()["model_stats"]) == 4


X = {"name": "x", "datatype": "FP32", "shape": [1, 2]}
REFUSED: dict[str, tuple[Any, int, str]] = {
    "no JSON": (b"{", 400, "not valid JSON"),
    "no inputs": ({"inputs": []}, 400, "'inputs' must be a list"),
    "no name": ({"inputs": [{"datatype": "FP32"}]}, 400, "an object with a 'name'"),
    "an unknown datatype": ({"inputs": [{**X, "datatype": "FP8"}]}, 400, "unknown datatype"),
    "a datatype of a wrong type": ({"inputs": [{**X, "datatype": {"FP32": 1}}]}, 400, "unknown datatype"),
    "a shape of a wrong type": ({"inputs": [{**X, "shape": [1, "2"]}]}, 400, "whole numbers"),
    "a negative shape": ({"inputs": [{**X, "shape": [-1, 2], "data": [1, 2]}]}, 400, "must be known"),
    "a huge shape": ({"inputs": [{**X, "shape": [2**40, 2**40], "data": []}]}, 413, "at most"),
    "no data": ({"inputs": [X]}, 400, "needs its 'data'"),
    "too little data": ({"inputs": [{**X, "data": [1]}]}, 400, "takes 2 values"),
    "texts for numbers": ({"inputs": [{**X, "data": ["a", "b"]}]}, 400, "must be numbers"),
    "an unknown input": (
        {"inputs": [{**X, "name": "y", "data": [1, 2]}]},
        400,
        "unexpected inference input 'y'; the inputs are x",
    ),
    "an unknown input beside the known one": (
        {"inputs": [{**X, "data": [1, 2]}, {**X, "name": "y", "data": [1, 2]}]},
        400,
        "unexpected inference input 'y'; the inputs are x",
    ),
    "a fraction as a whole number": (
        {"inputs": [{**X, "datatype": "INT32", "data": [1.5, 2]}]},
        400,
        "'data' of INT32 must be whole numbers, not 1.5",
    ),
    "a number beyond its type": ({"inputs": [{**X, "datatype": "UINT8", "data": [300, 2]}]}, 400, "not a valid uint8"),
    "a number as a boolean": (
        {"inputs": [{**X, "datatype": "BOOL", "data": [2, 0]}]},
        400,
        "'data' of BOOL must be true, false, 1 or 0, not 2",
    ),
    "a boolean as a number": ({"inputs": [{**X, "data": [True, 0]}]}, 400, "'data' of FP32 must be numbers, not True"),
    "missing bytes": ({"inputs": [{**X, "parameters": {"binary_data_size": 8}}]}, 400, "binary_data_size"),
    "the same input twice": ({"inputs": [{**X, "data": [1, 2]}] * 2}, 400, "twice"),
    "an unknown output": ({"inputs": [{**X, "data": [1, 2]}], "outputs": [{"name": "y"}]}, 400, "unexpected"),
    "no rows": ({"inputs": [{**X, "shape": [0, 2], "data": []}]}, 400, "no instances"),
    "a row too long": ({"inputs": [{**X, "shape": [1, 3], "data": [1, 2, 3]}]}, 400, "3 values"),
    "an id of a wrong type": ({"id": 7, "inputs": [{**X, "data": [1, 2]}]}, 400, "'id' must be a string"),
    "too deep a document": (b'{"inputs": ' + b"[" * 100_000, 413, "max_json_depth"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_an_invalid_request_is_refused_with_the_reason(service: Service, case: str) -> None:
    body, status, words = REFUSED[case]
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    answer = service.http.post("/v2/models/vec/infer", content=content)
    assert (answer.status_code, words in answer.json()["error"]) == (status, True), answer.text


def test_an_unknown_output_is_refused_before_anything_is_recorded(service: Service, rpc: Stub) -> None:
    def count_inferences() -> int:
        return int(service.http.get("/v2/models/vec/stats").json()["model_stats"][0]["inference_count"])

    before = count_inferences()
    assert infer(service, "vec", {"inputs": [vectors([LEFT])], "outputs": [{"name": "y"}]}).status_code == 400
    request = oip.ModelInferRequest(model_name="vec", inputs=[tensor("FP32", 1, 2, fp32_contents=LEFT)])
    request.outputs.add(name="y")
    assert_refused(CODE.INVALID_ARGUMENT, "unexpected inference output 'y'", rpc.ModelInfer, request)
    assert count_inferences() == before


def test_a_wrong_length_header_and_an_unknown_model_are_refused(service: Service) -> None:
    for length in ("999", "-1", "two", "9" * 30):
        answer = service.http.post("/v2/models/vec/infer", content=b"{}", headers={JSON_BYTES: length})
        assert answer.status_code == 400 and JSON_BYTES in answer.json()["error"]
    cut = {"name": "text", "datatype": "BYTES", "shape": [1], "parameters": {"binary_data_size": 5}}
    assert "cut off" in infer(service, "chat", {"inputs": [cut]}, b"\x09\x00\x00\x00a").json()["error"]
    assert "belong to no input" in infer(service, "vec", {"inputs": [vectors([LEFT])]}, b"more").json()["error"]
    unknown = service.http.get("/v2/models/nobody")
    assert unknown.status_code == 404 and "unknown model: 'nobody' is not found" in unknown.json()["error"]


# over gRPC


@pytest.fixture(scope="module")
def rpc(service: Service) -> Iterator[Stub]:
    with grpc.insecure_channel(f"127.0.0.1:{port_of(service)}") as channel:
        yield Stub(channel, oip.DESCRIPTOR.services_by_name["GRPCInferenceService"])


def tensor(datatype: str, *shape: int, **contents: Any) -> oip.ModelInferRequest.InferInputTensor:
    typed = oip.InferTensorContents(**contents) if contents else None
    name = "text" if datatype == "BYTES" else "x"
    return oip.ModelInferRequest.InferInputTensor(name=name, datatype=datatype, shape=shape, contents=typed)


def test_over_grpc_a_server_and_its_models_describe_themselves_the_same_way(service: Service, rpc: Stub) -> None:
    assert rpc.ServerLive(oip.ServerLiveRequest()).live and rpc.ServerReady(oip.ServerReadyRequest()).ready
    assert "statistics" in rpc.ServerMetadata(oip.ServerMetadataRequest()).extensions
    metadata = rpc.ModelMetadata(oip.ModelMetadataRequest(name="vec"))
    rest = service.http.get("/v2/models/vec").json()
    assert [(each.name, each.datatype, list(each.shape)) for each in metadata.inputs] == [
        (each["name"], each["datatype"], each["shape"]) for each in rest["inputs"]
    ]
    assert (metadata.platform, list(metadata.versions)) == (rest["platform"], rest["versions"])
    assert rpc.ModelReady(oip.ModelReadyRequest(name="vec", version=metadata.versions[0])).ready
    models = rpc.RepositoryIndex(oip.RepositoryIndexRequest()).models
    assert {(each.name, each.version) for each in models} >= {("vec", metadata.versions[0])}
    config = rpc.ModelConfig(oip.ModelConfigRequest(name="vec")).config
    assert [(each.name, each.data_type, list(each.dims)) for each in config.input] == [("x", oip.TYPE_FP32, [-1, 2])]
    assert config.max_batch_size == service.http.get("/v2/models/vec/config").json()["max_batch_size"]
    infer(service, "vec", {"inputs": [vectors([LEFT])]}).raise_for_status()
    stats = rpc.ModelStatistics(oip.ModelStatisticsRequest(name="vec")).model_stats[0]
    assert stats.inference_count > 0 and stats.inference_stats.compute_infer.ns > 0


def test_over_grpc_typed_inputs_get_typed_outputs(rpc: Stub) -> None:
    for datatype, contents in (
        ("FP32", {"fp32_contents": [*LEFT, *RIGHT]}),
        ("FP64", {"fp64_contents": [*LEFT, *RIGHT]}),
        ("INT64", {"int64_contents": [1, 0, 0, 1]}),
        ("UINT8", {"uint_contents": [1, 0, 0, 1]}),
    ):
        request = oip.ModelInferRequest(model_name="vec", id="mine", inputs=[tensor(datatype, 2, 2, **contents)])
        answer = rpc.ModelInfer(request)
        assert (answer.id, answer.model_name, int(answer.model_version) > 0) == ("mine", "vec", True)
        outputs = {each.name: each for each in answer.outputs}
        assert list(outputs["classes"].contents.bytes_contents) == [b"left", b"right", b"right", b"left"], datatype
        assert len(outputs["scores"].contents.fp32_contents) == 4 and not answer.raw_output_contents
        assert len(answer.parameters["prediction_ids"].string_param.split(",")) == 2


def test_over_grpc_raw_inputs_get_raw_outputs(rpc: Stub) -> None:
    text = b"Can I print here?"
    raw = [struct.pack("<I", len(text)) + text]
    request = oip.ModelInferRequest(model_name="chat", inputs=[tensor("BYTES", 1)], raw_input_contents=raw)
    request.outputs.add(name="id")
    answer = rpc.ModelInfer(request)
    assert [(each.name, each.datatype, list(each.shape)) for each in answer.outputs] == [("id", "BYTES", [1])]
    assert list(answer.raw_output_contents) == [struct.pack("<I", 5) + b"print"]
    halves = np.array([RIGHT], "<f2").tobytes()
    request = oip.ModelInferRequest(model_name="vec", inputs=[tensor("FP16", 1, 2)], raw_input_contents=[halves])
    request.outputs.add(name="scores").parameters["classification"].int64_param = 1
    answer = rpc.ModelInfer(request)
    assert answer.raw_output_contents[0][4:].split(b":")[2] == b"right"


def test_over_grpc_a_stream_answers_each_message_and_continues_after_an_error(rpc: Stub) -> None:
    def infer_request(id: str, model: str, vector: list[float]) -> oip.ModelInferRequest:
        return oip.ModelInferRequest(model_name=model, id=id, inputs=[tensor("FP32", 1, 2, fp32_contents=vector)])

    to_send: queue.SimpleQueue[oip.ModelInferRequest | None] = queue.SimpleQueue()
    answers = rpc.ModelStreamInfer(iter(to_send.get, None), timeout=60)
    to_send.put(infer_request("first", "vec", LEFT))
    first = next(answers)  # answered while the stream is still open
    to_send.put(infer_request("wrong", "nobody", LEFT))
    wrong = next(answers)
    last = infer_request("last", "vec", RIGHT)
    last.parameters["triton_enable_empty_final_response"].bool_param = True
    to_send.put(last)
    right = next(answers)
    to_send.put(None)
    assert next(answers, None) is None and answers.code() == CODE.OK
    assert (first.error_message, first.infer_response.id) == ("", "first")
    assert first.infer_response.outputs[0].contents.bytes_contents[0] == b"left"
    assert "triton_final_response" not in first.infer_response.parameters
    assert "unknown model" in wrong.error_message and wrong.infer_response.id == "wrong"
    assert right.infer_response.outputs[0].contents.bytes_contents[0] == b"right"
    assert right.infer_response.parameters["triton_final_response"].bool_param


def test_over_grpc_bytes_that_are_no_message_end_the_stream(service: Service) -> None:
    with grpc.insecure_channel(f"127.0.0.1:{port_of(service)}") as channel:
        raw: Any = channel.stream_stream("/inference.GRPCInferenceService/ModelStreamInfer")
        answers = raw(iter([b"\xff\xff"]), timeout=60)
        with pytest.raises(grpc.RpcError):
            next(answers)
        assert answers.code() == CODE.INVALID_ARGUMENT


def test_a_stream_that_its_caller_cancels_affects_no_other_request(service: Service, rpc: Stub) -> None:
    log_length = len(service.output)
    request = oip.ModelInferRequest(model_name="vec", inputs=[tensor("FP32", 1, 2, fp32_contents=LEFT)])
    for _ in range(20):
        to_send: queue.SimpleQueue[oip.ModelInferRequest | None] = queue.SimpleQueue()
        answers = rpc.ModelStreamInfer(iter(to_send.get, None), timeout=60)
        to_send.put(request)
        assert next(answers).infer_response.model_name == "vec"
        to_send.put(request)
        answers.cancel()
        to_send.put(None)
    assert rpc.ModelInfer(request, timeout=60).model_name == "vec"
    assert "Traceback" not in service.output[log_length:] and "never retrieved" not in service.output[log_length:]


def test_an_open_stream_does_not_delay_the_end_of_a_server(start: Start) -> None:
    running = start(MODELS, flags=("--grpc-port", "0"))
    with grpc.insecure_channel(f"127.0.0.1:{port_of(running)}") as channel:
        stub = Stub(channel, oip.DESCRIPTOR.services_by_name["GRPCInferenceService"])
        to_send: queue.SimpleQueue[oip.ModelInferRequest | None] = queue.SimpleQueue()
        answers = stub.ModelStreamInfer(iter(to_send.get, None))
        to_send.put(oip.ModelInferRequest(model_name="nobody"))
        assert next(answers).error_message
        assert running.stop() == 0
        assert next(answers, None) is None
        to_send.put(None)


def test_over_grpc_a_load_request_labels_a_version_and_unloading_is_refused(rpc: Stub) -> None:
    version = rpc.ModelMetadata(oip.ModelMetadataRequest(name="vec")).versions[0]
    request = oip.RepositoryModelLoadRequest(model_name="vec")
    request.parameters["label"].string_param, request.parameters["version"].string_param = "ours", version
    rpc.RepositoryModelLoad(request)
    values = {"fp32_contents": LEFT}
    infer_request = oip.ModelInferRequest(
        model_name="vec", model_version="ours", inputs=[tensor("FP32", 1, 2, **values)]
    )
    assert rpc.ModelInfer(infer_request).model_version == version
    assert_refused(
        CODE.ALREADY_EXISTS,
        "cannot be unloaded",
        rpc.RepositoryModelUnload,
        oip.RepositoryModelUnloadRequest(model_name="vec"),
    )


def test_over_grpc_an_invalid_request_is_refused(rpc: Stub) -> None:
    def infer(model: str = "vec", raw: list[bytes] | None = None, **fields: Any) -> oip.ModelInferRequest:
        return oip.ModelInferRequest(model_name=model, raw_input_contents=raw or [], **fields)

    for code, words, request in (
        (CODE.NOT_FOUND, "unknown model", infer("nobody")),
        (
            CODE.INVALID_ARGUMENT,
            "unexpected inference input 'text'; the inputs are x",
            infer(inputs=[oip.ModelInferRequest.InferInputTensor(name="text", datatype="FP32", shape=[1, 2])]),
        ),
        (CODE.INVALID_ARGUMENT, "no inputs", infer()),
        (CODE.INVALID_ARGUMENT, "unknown datatype", infer(inputs=[tensor("FP8", 1, 2)])),
        (CODE.INVALID_ARGUMENT, "as raw_input_contents only", infer(inputs=[tensor("FP16", 1, 2)])),
        (CODE.INVALID_ARGUMENT, "takes 8 bytes", infer(raw=[b"123"], inputs=[tensor("FP32", 1, 2)])),
        (CODE.INVALID_ARGUMENT, "2 raw_input_contents for 1", infer(raw=[b"", b""], inputs=[tensor("FP32", 1, 2)])),
        (CODE.RESOURCE_EXHAUSTED, "at most", infer(inputs=[tensor("FP32", 2**40, 2)])),
        (CODE.INVALID_ARGUMENT, "twice", infer(inputs=[tensor("FP32", 1, 2, fp32_contents=LEFT)] * 2)),
        (CODE.INVALID_ARGUMENT, "cut off", infer("chat", raw=[b"\x09\x00\x00\x00a"], inputs=[tensor("BYTES", 1)])),
        (CODE.INVALID_ARGUMENT, "Unrecognized", infer(model_version="nightly", inputs=[tensor("FP32", 1, 2)])),
    ):
        assert_refused(code, words, rpc.ModelInfer, request)

"""Send requests with Triton's client to the service at argv[1] (HTTP) and argv[2] (gRPC); print the answers as JSON.

This module runs in the environment of that client.
"""

import json
import queue
import sys
from typing import Any

import numpy as np
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton
from tritonclient.grpc import model_config_pb2, service_pb2, service_pb2_grpc
from tritonclient.utils import InferenceServerException

from tests.long.clients.wire import wire

client = triton.InferenceServerClient(sys.argv[1])
answers = {
    "live": client.is_server_live(),
    "ready": client.is_server_ready(),
    "model": [
        client.is_model_ready(name, version) for name, version in (("vec", ""), ("vec", "latest"), ("vec", "9999"))
    ],
    "nobody": client.is_model_ready("nobody"),
    "server": client.get_server_metadata()["name"],
    "metadata": client.get_model_metadata("vec"),
    "config": client.get_model_config("vec")["name"],
}

text = triton.InferInput("text", [1], "BYTES")
text.set_data_from_numpy(np.array([b"Can I print here?"], dtype=object))
answer = client.infer("chat", [text], request_id="mine")
binary = triton.InferInput("text", [1], "BYTES")
binary.set_data_from_numpy(np.array([b"Can I print here?"], dtype=object))
answers["binary"] = [answer.as_numpy("id").tolist()[0].decode(), answer.get_response()["id"]]
text.set_data_from_numpy(np.array([b"Can I print here?"], dtype=object), binary_data=False)
answers["json"] = np.asarray(client.infer("chat", [text]).as_numpy("id")).astype(str).tolist()[0]

x = triton.InferInput("x", [2, 2], "FP32")
x.set_data_from_numpy(np.array([[1, 0], [0, 1]], np.float32))
only = [triton.InferRequestedOutput("scores", binary_data=True)]
answer = client.infer("vec", [x], outputs=only)
answers["requested"] = [answer.as_numpy("scores").shape, answer.as_numpy("classes") is None]
three = [triton.InferRequestedOutput("scores", class_count=3)]
answers["classes"] = [
    str(each) for each in client.infer("vec", [x], outputs=three).as_numpy("scores").ravel().astype(str)
]
answers["version"] = client.infer("vec", [x], model_version=answers["metadata"]["versions"][0]).get_response()[
    "model_version"
]
try:
    client.infer("nobody", [x])
except InferenceServerException as error:
    answers["unknown"] = [error.status(), error.message()]

answers["compressed"] = [
    client.infer("chat", [binary], request_compression_algorithm=coding, response_compression_algorithm=coding)
    .as_numpy("id")[0]
    .decode()
    for coding in ("gzip", "deflate")
]

client.load_model("vec")
try:
    client.unload_model("vec")
except InferenceServerException as error:
    answers["unload"] = error.message()
answers["index"] = [each["name"] for each in client.get_model_repository_index()]
answers["statistics"] = client.get_inference_statistics("vec")["model_stats"][0]["inference_count"]

rpc = triton_grpc.InferenceServerClient(sys.argv[2])
text = triton_grpc.InferInput("text", [1], "BYTES")
text.set_data_from_numpy(np.array([b"Can I print here?"], dtype=object))
x = triton_grpc.InferInput("x", [2, 2], "FP32")
x.set_data_from_numpy(np.array([[1, 0], [0, 1]], np.float32))
answer = rpc.infer("chat", [text], request_id="mine")
three = [triton_grpc.InferRequestedOutput("scores", class_count=3)]
answers["grpc"] = {
    "ready": [rpc.is_server_live(), rpc.is_server_ready(), rpc.is_model_ready("vec")],
    "metadata": [each.name for each in rpc.get_model_metadata("vec").inputs],
    "infer": [answer.as_numpy("id").tolist()[0].decode(), answer.get_response().id],
    "classes": [each.decode() for each in rpc.infer("vec", [x], outputs=three).as_numpy("scores").ravel()],
    "index": [each.name for each in rpc.get_model_repository_index().models],
    "statistics": rpc.get_inference_statistics("vec").model_stats[0].inference_count,
}
try:
    rpc.infer("nobody", [x])
except InferenceServerException as error:
    answers["grpc"]["unknown"] = [error.status(), error.message()]
config = rpc.get_model_config("vec").config
answers["grpc"]["config"] = [
    config.name,
    config.backend,
    [[each.name, each.data_type, [*each.dims]] for each in config.input],
]
rpc.load_model("vec")
try:
    rpc.unload_model("vec")
except InferenceServerException as error:
    answers["grpc"]["unload"] = error.message()
version = answers["metadata"]["versions"][0]
answer = rpc.infer("vec", [x], model_version=version, outputs=[triton_grpc.InferRequestedOutput("scores")])
response = answer.get_response()
answers["grpc"]["version"] = response.model_version
answers["grpc"]["requested"] = [[each.name for each in response.outputs], [*answer.as_numpy("scores").shape]]

# typed values: the client never sends them, but its stub can
stub = service_pb2_grpc.GRPCInferenceServiceStub(rpc._channel)
request = service_pb2.ModelInferRequest(model_name="vec")
request.inputs.add(name="x", datatype="FP32", shape=[2, 2]).contents.fp32_contents.extend([1, 0, 0, 1])
request.outputs.add(name="classes")
answer = stub.ModelInfer(request)
classes = [each.decode() for each in answer.outputs[0].contents.bytes_contents]
answers["grpc"]["typed"] = [classes, len(answer.raw_output_contents)]

stream_results: queue.Queue[Any] = queue.Queue()
rpc.start_stream(lambda result, error: stream_results.put(error or result))
answers["stream"] = []
for name, model, words, final in (
    ("first", "chat", "Can I print here?", True),
    ("second", "nobody", "Can I print here?", False),
    ("last", "chat", "When do you open?", False),
):
    text = triton_grpc.InferInput("text", [1], "BYTES")
    text.set_data_from_numpy(np.array([words.encode()], dtype=object))
    rpc.async_stream_infer(model, [text], request_id=name, enable_empty_final_response=final)
    result = stream_results.get(timeout=60)
    if isinstance(result, InferenceServerException):
        answers["stream"].append(result.message())
    else:
        response = result.get_response()
        reply_id = result.as_numpy("id").tolist()[0].decode()
        answers["stream"].append([response.id, reply_id, response.parameters["triton_final_response"].bool_param])
rpc.stop_stream()

answers["wire"] = wire([service_pb2.DESCRIPTOR, model_config_pb2.DESCRIPTOR])
print(json.dumps(answers))

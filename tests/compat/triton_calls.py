"""Run in an environment of its own: Triton's client asks the service whose address it is given, and tells what it got."""

import json
import queue
import sys
from typing import Any

import numpy as np
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton
from tritonclient.grpc import model_config_pb2, service_pb2, service_pb2_grpc
from tritonclient.utils import InferenceServerException

from tests.compat.wire import wire

client = triton.InferenceServerClient(sys.argv[1])
told = {
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
told["binary"] = [answer.as_numpy("id").tolist()[0].decode(), answer.get_response()["id"]]
text.set_data_from_numpy(np.array([b"Can I print here?"], dtype=object), binary_data=False)
told["json"] = np.asarray(client.infer("chat", [text]).as_numpy("id")).astype(str).tolist()[0]

x = triton.InferInput("x", [2, 2], "FP32")
x.set_data_from_numpy(np.array([[1, 0], [0, 1]], np.float32))
only = [triton.InferRequestedOutput("scores", binary_data=True)]
answer = client.infer("vec", [x], outputs=only)
told["requested"] = [answer.as_numpy("scores").shape, answer.as_numpy("classes") is None]
three = [triton.InferRequestedOutput("scores", class_count=3)]
told["classes"] = [str(each) for each in client.infer("vec", [x], outputs=three).as_numpy("scores").ravel().astype(str)]
told["version"] = client.infer("vec", [x], model_version=told["metadata"]["versions"][0]).get_response()[
    "model_version"
]
try:
    client.infer("nobody", [x])
except InferenceServerException as error:
    told["unknown"] = [error.status(), error.message()]

client.load_model("vec")
try:
    client.unload_model("vec")
except InferenceServerException as error:
    told["unload"] = error.message()
told["index"] = [each["name"] for each in client.get_model_repository_index()]
told["statistics"] = client.get_inference_statistics("vec")["model_stats"][0]["inference_count"]

rpc = triton_grpc.InferenceServerClient(sys.argv[2])
text = triton_grpc.InferInput("text", [1], "BYTES")
text.set_data_from_numpy(np.array([b"Can I print here?"], dtype=object))
x = triton_grpc.InferInput("x", [2, 2], "FP32")
x.set_data_from_numpy(np.array([[1, 0], [0, 1]], np.float32))
answer = rpc.infer("chat", [text], request_id="mine")
three = [triton_grpc.InferRequestedOutput("scores", class_count=3)]
told["grpc"] = {
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
    told["grpc"]["unknown"] = [error.status(), error.message()]
config = rpc.get_model_config("vec").config
told["grpc"]["config"] = [
    config.name,
    config.backend,
    [[each.name, each.data_type, [*each.dims]] for each in config.input],
]
rpc.load_model("vec")
try:
    rpc.unload_model("vec")
except InferenceServerException as error:
    told["grpc"]["unload"] = error.message()
version = told["metadata"]["versions"][0]
answer = rpc.infer("vec", [x], model_version=version, outputs=[triton_grpc.InferRequestedOutput("scores")])
response = answer.get_response()
told["grpc"]["version"] = response.model_version
told["grpc"]["requested"] = [[each.name for each in response.outputs], [*answer.as_numpy("scores").shape]]

# typed values, which the client itself never sends, by its stub
stub = service_pb2_grpc.GRPCInferenceServiceStub(rpc._channel)
request = service_pb2.ModelInferRequest(model_name="vec")
request.inputs.add(name="x", datatype="FP32", shape=[2, 2]).contents.fp32_contents.extend([1, 0, 0, 1])
request.outputs.add(name="classes")
answer = stub.ModelInfer(request)
classes = [each.decode() for each in answer.outputs[0].contents.bytes_contents]
told["grpc"]["typed"] = [classes, len(answer.raw_output_contents)]

answers: queue.Queue[Any] = queue.Queue()
rpc.start_stream(lambda result, error: answers.put(error or result))
told["stream"] = []
for name, model, words, final in (
    ("first", "chat", "Can I print here?", True),
    ("second", "nobody", "Can I print here?", False),
    ("last", "chat", "When do you open?", False),
):
    text = triton_grpc.InferInput("text", [1], "BYTES")
    text.set_data_from_numpy(np.array([words.encode()], dtype=object))
    rpc.async_stream_infer(model, [text], request_id=name, enable_empty_final_response=final)
    got = answers.get(timeout=60)
    if isinstance(got, InferenceServerException):
        told["stream"].append(got.message())
    else:
        response = got.get_response()
        said = got.as_numpy("id").tolist()[0].decode()
        told["stream"].append([response.id, said, response.parameters["triton_final_response"].bool_param])
rpc.stop_stream()

told["wire"] = wire([service_pb2.DESCRIPTOR, model_config_pb2.DESCRIPTOR])
print(json.dumps(told))

"""Send every request of TensorFlow Serving's client to the service at argv[1]; print the answers as one JSON object.

test_tensorflow_client.py runs this module in an environment that has that client but none of our packages.
"""

import json
import struct
import sys
from collections.abc import Callable
from typing import Any

import grpc
from tensorflow.core.example import example_pb2, feature_pb2
from tensorflow.core.framework import tensor_pb2, tensor_shape_pb2, types_pb2
from tensorflow.core.protobuf import meta_graph_pb2
from tensorflow_serving.apis import (
    classification_pb2,
    get_model_metadata_pb2,
    get_model_status_pb2,
    inference_pb2,
    input_pb2,
    model_management_pb2,
    model_pb2,
    model_service_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2,
    prediction_service_pb2_grpc,
    regression_pb2,
)

from tests.long.clients.wire import wire

WAIT_S = 60


def shape(*sizes: int) -> Any:
    return tensor_shape_pb2.TensorShapeProto(dim=[tensor_shape_pb2.TensorShapeProto.Dim(size=size) for size in sizes])


def vectors(*rows: list[float]) -> Any:
    content = b"".join(struct.pack(f"<{len(row)}f", *row) for row in rows)
    sizes = shape(len(rows), len(rows[0]))
    return tensor_pb2.TensorProto(dtype=types_pb2.DT_FLOAT, tensor_shape=sizes, tensor_content=content)


def texts(*values: str) -> Any:
    encoded = [value.encode() for value in values]
    return tensor_pb2.TensorProto(dtype=types_pb2.DT_STRING, tensor_shape=shape(len(values)), string_val=encoded)


def predict(name: str, version: int | None = None, label: str | None = None, **inputs: Any) -> Any:
    request = predict_pb2.PredictRequest(inputs=inputs)
    request.model_spec.name = name
    if version is not None:
        request.model_spec.version.value = version
    if label is not None:
        request.model_spec.version_label = label
    return request


def examples(*rows: list[float]) -> Any:
    example_list = [
        example_pb2.Example(
            features=feature_pb2.Features(
                feature={"x": feature_pb2.Feature(float_list=feature_pb2.FloatList(value=row))}
            )
        )
        for row in rows
    ]
    return input_pb2.Input(example_list=input_pb2.ExampleList(examples=example_list))


def reload(name: str, label: str, version: int) -> Any:
    request = model_management_pb2.ReloadConfigRequest()
    config = request.config.model_config_list.config.add(name=name, base_path="/models", model_platform="tensorflow")
    config.version_labels[label] = version
    return request


def error(call: Callable[..., Any], request: Any, timeout: float = WAIT_S) -> list[str]:
    """[code, details] of a call that must fail."""
    try:
        call(request, timeout=timeout)
    except grpc.RpcError as failure:
        return [failure.code().name, failure.details() or ""]
    return ["OK", ""]


def send_all(address: str) -> dict[str, Any]:
    channel = grpc.insecure_channel(address)
    prediction = prediction_service_pb2_grpc.PredictionServiceStub(channel)
    model = model_service_pb2_grpc.ModelServiceStub(channel)
    spec = model_pb2.ModelSpec(name="lab")
    answers: dict[str, Any] = {}

    status = model.GetModelStatus(get_model_status_pb2.GetModelStatusRequest(model_spec=spec), timeout=WAIT_S)
    versions = [each.version for each in status.model_version_status]
    answers["status"] = [[each.version, each.state, each.status.error_code] for each in status.model_version_status]

    both = vectors([-1, 0], [1, 0])
    answer, call = prediction.Predict.with_call(predict("lab", x=both), timeout=WAIT_S)
    scores = answer.outputs["scores"]
    answers["predict"] = {
        "classes": [text.decode() for text in answer.outputs["classes"].string_val],
        "shape": [dim.size for dim in scores.tensor_shape.dim],
        "scores": struct.unpack(f"<{len(scores.tensor_content) // 4}f", scores.tensor_content),
        "version": answer.model_spec.version.value,
        "signature": answer.model_spec.signature_name,
        "trailing": dict(call.trailing_metadata()),
    }
    answer = prediction.Predict(predict("chat", text=texts("When do you open?")), timeout=WAIT_S)
    answers["texts"] = {name: [text.decode() for text in answer.outputs[name].string_val] for name in ("id", "text")}
    by_number = prediction.Predict(predict("lab", version=versions[-1], x=both), timeout=WAIT_S)
    by_label = prediction.Predict(predict("lab", label="latest", x=both), timeout=WAIT_S)
    answers["by"] = [by_number.model_spec.version.value, by_label.model_spec.version.value]

    request = classification_pb2.ClassificationRequest(model_spec=spec, input=examples([-1, 0], [1, 0]))
    answer = prediction.Classify(request, timeout=WAIT_S)
    answers["classify"] = [each.classes[0].label for each in answer.result.classifications]
    numbers = regression_pb2.RegressionRequest(model_spec=model_pb2.ModelSpec(name="num"), input=examples([3, 1]))
    answers["regress"] = [each.value for each in prediction.Regress(numbers, timeout=WAIT_S).result.regressions]
    numbers.model_spec.name = "lab"
    answers["no regression"] = error(prediction.Regress, numbers)
    several = inference_pb2.MultiInferenceRequest(input=examples([1, 0]))
    several.tasks.add(model_spec=spec, method_name="tensorflow/serving/classify")
    answer = prediction.MultiInference(several, timeout=WAIT_S)
    answers["multi"] = answer.results[0].classification_result.classifications[0].classes[0].label

    request = get_model_metadata_pb2.GetModelMetadataRequest(model_spec=spec, metadata_field=["signature_def"])
    answer = prediction.GetModelMetadata(request, timeout=WAIT_S)
    signatures = get_model_metadata_pb2.SignatureDefMap()
    answer.metadata["signature_def"].Unpack(signatures)
    answers["metadata"] = {
        name: [signature.method_name, sorted(signature.inputs), sorted(signature.outputs)]
        for name, signature in signatures.signature_def.items()
    }

    move = model.HandleReloadConfigRequest
    answers["reload"] = move(reload("lab", "stable", versions[-1]), timeout=WAIT_S).status.error_code
    answers["labelled"] = prediction.Predict(predict("lab", label="stable", x=both)).model_spec.version.value
    answers["reload of none"] = error(move, reload("lab", "stable", 99999))

    many = vectors(*[[1.0, 0.0]] * 800)  # takes longer than the deadline, even if the client checks its clock rarely
    answers["deadline"] = error(prediction.Predict, predict("lab", x=many), timeout=1e-3)[0]
    answers["no model"] = error(prediction.Predict, predict("half", x=both))
    answers["no version"] = error(prediction.Predict, predict("lab", version=99999, x=both))
    answers["no label"] = error(prediction.Predict, predict("lab", label="x", x=both))
    return answers


if __name__ == "__main__":
    print(
        json.dumps(
            {
                "answers": send_all(sys.argv[1]),
                "wire": wire(
                    [prediction_service_pb2.DESCRIPTOR, model_service_pb2.DESCRIPTOR, meta_graph_pb2.DESCRIPTOR]
                ),
            }
        )
    )

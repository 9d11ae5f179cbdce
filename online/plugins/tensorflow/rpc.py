"""TensorFlow Serving's gRPC services: PredictionService and ModelService.

The model_spec of every answer names the version that gave it; prediction ids are in the trailing metadata. A call names a
version, a label, or neither: then the live version answers, or the canary (metadata `x-route`, as the header over HTTP).
"""

import asyncio
import time
from collections.abc import Mapping, Sequence

import numpy as np
from google.protobuf.wrappers_pb2 import Int64Value

from online.api.audit import record
from online.api.auth.scopes import check_scope
from online.errors import BadInput, PreconditionFailed
from online.models.contract import AnyArray
from online.plugins.grpc.calls import Call, Method, Service
from online.plugins.grpc.protos import tensorflow_pb2 as tf
from online.plugins.grpc.protos import tensorflow_serving_pb2 as tfs
from online.plugins.tensorflow.errors import VersionErrors, unknown_model, unknown_servable
from online.plugins.tensorflow.request_bodies import merge_examples
from online.plugins.tensorflow.signatures import CLASSIFY, DATA_TYPES, PREDICT, REGRESS, find_signature, signatures_of
from online.plugins.tensorflow.tensor_signatures import (
    MAX_ECHO_CHARS,
    TensorSpec,
    instances_from_tensors,
    output_tensors,
    rank_candidates,
    regression_values,
    signature_of,
)
from online.plugins.tensorflow.tensors import array_from_bytes, array_from_values, read_features, widen_bfloat16
from online.plugins.tensorflow.version_status import find_version, version_statuses
from online.schemas.predict import PredictRequest
from online.serving.model_runtime import ModelRuntime
from online.serving.predictor import PredictionResult
from online.serving.runtime import Runtime
from online.serving.versions import VersionSelector
from online.settings import ModelSettings
from online.snapshots.labels import CANARY, LABEL, MOVING, LabelTarget

HALF_TYPES = (tf.DT_HALF, tf.DT_BFLOAT16)  # their values travel in half_val, as the bits of a number

# {type: (its name in numpy, the field that lists its values)}
TYPES: Mapping[int, tuple[str, str]] = {
    tf.DT_FLOAT: ("float32", "float_val"),
    tf.DT_DOUBLE: ("float64", "double_val"),
    tf.DT_INT8: ("int8", "int_val"),
    tf.DT_INT16: ("int16", "int_val"),
    tf.DT_INT32: ("int32", "int_val"),
    tf.DT_INT64: ("int64", "int64_val"),
    tf.DT_UINT8: ("uint8", "int_val"),
    tf.DT_UINT16: ("uint16", "int_val"),
    tf.DT_UINT32: ("uint32", "uint32_val"),
    tf.DT_UINT64: ("uint64", "uint64_val"),
    tf.DT_BOOL: ("bool", "bool_val"),
    tf.DT_HALF: ("uint16", "half_val"),
    tf.DT_BFLOAT16: ("uint16", "half_val"),
    tf.DT_STRING: ("object", "string_val"),
}


class TensorflowServices:
    """The methods of both services."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime

    def services(self) -> tuple[Service, Service]:
        """Return both services with their methods and scopes."""
        descriptors = tfs.DESCRIPTOR.services_by_name
        predictions: dict[str, Method] = {
            "Predict": self.predict,
            "Classify": self.classify,
            "Regress": self.regress,
            "MultiInference": self.multi_inference,
            "GetModelMetadata": self.metadata,
        }
        models: dict[str, Method] = {"GetModelStatus": self.status, "HandleReloadConfigRequest": self.reload}
        return (
            Service(descriptors["PredictionService"], predictions, "predict"),
            Service(descriptors["ModelService"], models, "predict", {"HandleReloadConfigRequest": "operate"}),
        )

    def _find(self, spec: tfs.ModelSpec, call: Call) -> tuple[ModelRuntime, VersionSelector]:
        """Return the model and the version that a ModelSpec names. Raises BadInput or NotFound."""
        selector = select_version(spec, call)
        _check_named(spec)
        if spec.name not in self.runtime.models:
            raise unknown_servable(spec.name, selector, self.runtime.models)
        return self.runtime.models[spec.name], selector

    # PredictionService

    async def predict(self, request: tfs.PredictRequest, call: Call) -> tfs.PredictResponse:
        """Answer each input; the model does not change."""
        model, selector = self._find(request.model_spec, call)
        signature = find_signature(model.spec, request.model_spec.signature_name, PREDICT)
        names = select_outputs(request.output_filter, signatures_of(model.spec)[signature].outputs)
        predicted = await self._predict(model, selector, self._read_inputs(model.spec, request.inputs), call)
        outputs = output_tensors(model.spec.kind, predicted.answers)
        response = tfs.PredictResponse(model_spec=answered_by(model, predicted, signature))
        for name in names:
            response.outputs[name].CopyFrom(proto_from_array(outputs[name]))
        return response

    def _read_inputs(self, spec: ModelSettings, inputs: Mapping[str, tf.TensorProto]) -> list[object]:
        """Return the instances of a Predict request. Raises BadInput or TooLarge."""
        if not inputs:
            missing = ",".join(signature_of(spec).inputs)
            raise BadInput(f"input size does not match signature: 0!=1 len({{}}) != len({{{missing}}}).")
        settings = self.runtime.settings
        arrays, elements_left = {}, settings.max_tensor_elements
        for name, proto in inputs.items():
            arrays[name] = array_from_proto(proto, elements_left)
            elements_left -= arrays[name].size
        return instances_from_tensors(spec, arrays, settings.max_instances)

    async def _predict(
        self, model: ModelRuntime, selector: VersionSelector, instances: list[object], call: Call
    ) -> PredictionResult:
        if not instances:
            raise BadInput("Input is empty.")
        started = time.perf_counter()
        with VersionErrors():
            predicted = await model.predictor.predict(
                PredictRequest(instances=instances, user=call.caller.user), call.caller, selector=selector
            )
        model.predictor.seconds.observe(time.perf_counter() - started)
        call.set_prediction(predicted)
        return predicted

    async def classify(self, request: tfs.ClassificationRequest, call: Call) -> tfs.ClassificationResponse:
        """Classify examples."""
        model, signature, predicted = await self._predict_examples(request.model_spec, request.input, CLASSIFY, call)
        spec = answered_by(model, predicted, signature)
        return tfs.ClassificationResponse(result=classification_result(predicted), model_spec=spec)

    async def regress(self, request: tfs.RegressionRequest, call: Call) -> tfs.RegressionResponse:
        """Predict numbers for examples."""
        model, signature, predicted = await self._predict_examples(request.model_spec, request.input, REGRESS, call)
        spec = answered_by(model, predicted, signature)
        return tfs.RegressionResponse(result=regression_result(predicted), model_spec=spec)

    async def _predict_examples(
        self, spec: tfs.ModelSpec, examples: tfs.Input, method: str, call: Call
    ) -> tuple[ModelRuntime, str, PredictionResult]:
        model, selector = self._find(spec, call)
        signature = find_signature(model.spec, spec.signature_name, method)
        return model, signature, await self._predict(model, selector, read_input(model.spec, examples), call)

    async def multi_inference(self, request: tfs.MultiInferenceRequest, call: Call) -> tfs.MultiInferenceResponse:
        """Run several tasks of one model on the same examples, with one prediction."""
        if not request.tasks:
            raise BadInput("Inference request must have at least one task")
        first = request.tasks[0].model_spec
        model, selector = self._find(first, call)
        signatures = [task_signature(model.spec, task) for task in request.tasks]
        for task, signature in zip(request.tasks, signatures, strict=True):
            if task.model_spec.name != first.name or select_version(task.model_spec, call) != selector:
                raise BadInput(
                    "All ModelSpecs in a MultiInferenceRequest must access the same model name, and one version of it."
                )
            if signatures.count(signature) > 1:
                raise BadInput(f"Duplicate evaluation of signature: {signature}")
        predicted = await self._predict(model, selector, read_input(model.spec, request.input), call)
        response = tfs.MultiInferenceResponse()
        for task, signature in zip(request.tasks, signatures, strict=True):
            result = response.results.add(model_spec=answered_by(model, predicted, signature))
            if task.method_name == CLASSIFY:
                result.classification_result.CopyFrom(classification_result(predicted))
            else:
                result.regression_result.CopyFrom(regression_result(predicted))
        return response

    async def metadata(self, request: tfs.GetModelMetadataRequest, call: Call) -> tfs.GetModelMetadataResponse:
        """Return the signatures of a model."""
        model, selector = self._find(request.model_spec, call)
        if not request.metadata_field:
            raise BadInput("GetModelMetadataRequest must specify at least one metadata_field")
        for field in request.metadata_field:
            if field != "signature_def":
                raise BadInput(f"Metadata field {field[:MAX_ECHO_CHARS]} is not supported")
        version = Int64Value(value=find_version(model.live, selector).version)
        response = tfs.GetModelMetadataResponse(model_spec=tfs.ModelSpec(name=model.spec.name, version=version))
        response.metadata["signature_def"].Pack(signature_map(model.spec))
        return response

    # ModelService

    async def status(self, request: tfs.GetModelStatusRequest, call: Call) -> tfs.GetModelStatusResponse:
        """Return the state of the versions of a model."""
        spec = request.model_spec
        _check_named(spec)
        if spec.name not in self.runtime.models:
            raise unknown_model(spec.name, self.runtime.models)
        model, selector = self.runtime.models[spec.name], select_version(spec, call)
        version = selector.version
        if selector.label is not None:
            version = find_version(model.live, selector).version
        response = tfs.GetModelStatusResponse()
        for each in version_statuses(model.live, version):
            response.model_version_status.add(
                version=int(each["version"]), state=each["state"], status=tfs.StatusProto(**each["status"])
            )
        return response

    async def reload(self, request: tfs.ReloadConfigRequest, call: Call) -> tfs.ReloadConfigResponse:
        """Move the version labels that the config names, all or none.

        Models come from the settings: none is loaded or unloaded, and labels that the config does not name stay.
        """
        if request.config.WhichOneof("config") != "model_config_list":
            raise BadInput("the config must have a model_config_list")
        configs = request.config.model_config_list.config
        for config in configs:
            check_scope(call.caller, "operate", config.name)
        moves = [
            (self._find_configured(config.name), label, version)
            for config in configs
            for label, version in sorted(config.version_labels.items())
        ]
        for model, label, version in moves:
            check_move(model, label, version)
        await asyncio.shield(move_labels(moves))
        for model, label, version in moves:
            await record(self.runtime, call.caller, "label_version", model.spec.name, f"version {version}", label=label)
        return tfs.ReloadConfigResponse(status=tfs.StatusProto())

    def _find_configured(self, name: str) -> ModelRuntime:
        if name not in self.runtime.models:
            raise PreconditionFailed(
                f"there is no model {name[:MAX_ECHO_CHARS]!r}, and models cannot be loaded while the service runs; "
                f"this service has {', '.join(self.runtime.models)}"
            )
        return self.runtime.models[name]


def _check_named(spec: tfs.ModelSpec) -> None:
    if not spec.name:
        raise BadInput("Missing ModelSpec: the request names no model")


def select_version(spec: tfs.ModelSpec, call: Call) -> VersionSelector:
    """Return the version that a specification names. Raises BadInput."""
    match spec.WhichOneof("version_choice"):
        case "version":
            return VersionSelector(version=spec.version.value)
        case "version_label":
            return VersionSelector(label=spec.version_label)
    return VersionSelector(route=call.route)


def select_outputs(wanted: Sequence[str], outputs: Mapping[str, TensorSpec]) -> list[str]:
    """Return the names in an output_filter, or all outputs where it is empty. Raises BadInput."""
    for place, name in enumerate(wanted):
        if name not in outputs:
            raise BadInput(
                f"output tensor alias not found in signature: {name[:MAX_ECHO_CHARS]} "
                f"Outputs expected to be in the set {{{','.join(outputs)}}}."
            )
        if name in wanted[:place]:
            raise BadInput(f"duplicate output tensor alias: {name}")
    return list(wanted) or list(outputs)


def read_input(spec: ModelSettings, examples: tfs.Input) -> list[object]:
    """Return the instances of tf.Examples, each with the features of the context where there is one."""
    if examples.WhichOneof("kind") == "example_list_with_context":
        with_context = examples.example_list_with_context
        context = read_features(with_context.context)
        return merge_examples(spec, [read_features(each) for each in with_context.examples], context)
    return merge_examples(spec, [read_features(each) for each in examples.example_list.examples], {})


def task_signature(spec: ModelSettings, task: tfs.InferenceTask) -> str:
    """Return the name of the signature that a task evaluates. Raises BadInput."""
    if task.method_name not in (CLASSIFY, REGRESS):
        raise BadInput(f"Unsupported signature method_name: {task.method_name[:MAX_ECHO_CHARS]}")
    return find_signature(spec, task.model_spec.signature_name, task.method_name)


def answered_by(model: ModelRuntime, predicted: PredictionResult, signature: str) -> tfs.ModelSpec:
    """Return the ModelSpec of an answer: the model, version and signature that gave it."""
    version = Int64Value(value=predicted.served.version)
    return tfs.ModelSpec(name=model.spec.name, version=version, signature_name=signature)


def classification_result(predicted: PredictionResult) -> tfs.ClassificationResult:
    """Return classes with their scores."""
    result = tfs.ClassificationResult()
    for answer in predicted.answers:
        classes = [tfs.Class(label=name, score=score) for name, score in rank_candidates(answer)]
        result.classifications.add(classes=classes)
    return result


def regression_result(predicted: PredictionResult) -> tfs.RegressionResult:
    """Return numbers."""
    values = regression_values(predicted.answers).tolist()
    return tfs.RegressionResult(regressions=[tfs.Regression(value=value) for value in values])


def signature_map(spec: ModelSettings) -> tfs.SignatureDefMap:
    """Return the signatures of a model as protobuf messages."""
    signature_defs = tfs.SignatureDefMap()
    for name, signature in signatures_of(spec).items():
        definition = signature_defs.signature_def[name]
        definition.method_name = signature.method
        for tensors, specs in ((definition.inputs, signature.inputs), (definition.outputs, signature.outputs)):
            for tensor, each in specs.items():
                tensors[tensor].CopyFrom(tensor_info(tensor, each))
    return signature_defs


def tensor_info(name: str, spec: TensorSpec) -> tf.TensorInfo:
    """Return the description of a tensor."""
    shape = tf.TensorShapeProto(dim=[tf.TensorShapeProto.Dim(size=size) for size in spec.shape])
    return tf.TensorInfo(name=f"{name}:0", dtype=DATA_TYPES[spec.dtype], tensor_shape=shape)


def check_move(model: ModelRuntime, label: str, version: int) -> None:
    """Refuse to point a label at a version that cannot predict. Raises BadInput or PreconditionFailed."""
    if label in MOVING:
        raise BadInput(f"the version label {label!r} is assigned automatically; choose another name")
    if not LABEL.fullmatch(label):
        raise BadInput(f"a version label has 1 to 64 letters, digits or '_', not {label[:MAX_ECHO_CHARS]!r}")
    if version not in model.live.available:
        raise PreconditionFailed(
            f"Request to assign label to version {version} of model {model.spec.name}, "
            "which is not currently available for inference"
        )


async def move_labels(moves: Sequence[tuple[ModelRuntime, str, int]]) -> None:
    """Set version labels. The canary keeps its share of the traffic."""
    for model, label, version in moves:
        before = model.live.labels.get(label) if label == CANARY else None
        labelled = LabelTarget(version, before.percent if before else 0.0)
        await asyncio.to_thread(model.transactions.versions.set_label, label, labelled)
        await model.live.refresh_others()


# TensorProto <-> numpy arrays


def array_from_proto(proto: tf.TensorProto, most: int) -> AnyArray:
    """Return the array of a TensorProto, from its content or its values; texts as bytes in an array of objects.

    Raises BadInput or TooLarge.
    """
    if proto.dtype not in TYPES:
        raise BadInput(f"tensors of type {_type_name(proto.dtype)} are not supported")
    name, field = TYPES[proto.dtype]
    dtype, shape = np.dtype(name), [dim.size for dim in proto.tensor_shape.dim]
    if proto.tensor_content and not dtype.hasobject:
        array = array_from_bytes(proto.tensor_content, dtype, shape, most)
    else:
        array = array_from_values(getattr(proto, field), dtype, shape, most, repeats=True)
    if proto.dtype in HALF_TYPES:
        return widen_bfloat16(array) if proto.dtype == tf.DT_BFLOAT16 else array.view(np.float16)
    return array


def _type_name(number: int) -> str:
    return tf.DataType.Name(number) if number in tf.DataType.values() else str(number)


def proto_from_array(array: AnyArray) -> tf.TensorProto:
    """Return numbers as content, texts as values: the forms that TensorFlow's own make_ndarray reads fastest."""
    shape = tf.TensorShapeProto(dim=[tf.TensorShapeProto.Dim(size=size) for size in array.shape])
    if array.dtype == object:
        texts = [text.encode() for text in array.ravel().tolist()]
        return tf.TensorProto(dtype=tf.DT_STRING, tensor_shape=shape, string_val=texts)
    content = array.astype("<f4").tobytes()
    return tf.TensorProto(dtype=tf.DT_FLOAT, tensor_shape=shape, tensor_content=content)

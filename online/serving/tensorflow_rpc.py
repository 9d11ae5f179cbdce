"""gRPC: TensorFlow Serving's PredictionService and ModelService.

The model_spec of every answer names the version that gave it; prediction ids are in the trailing metadata. A call names
a version, a label, or neither: then it is the live one, or the canary (metadata `x-route`, as the header of HTTP).
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any

from google.protobuf.wrappers_pb2 import Int64Value

from online.errors import BadInput, NotFound, PreconditionFailed
from online.schemas import PredictRequest
from online.serving import tensorflow
from online.serving.calls import Call, Method, Service
from online.serving.live import Which
from online.serving.parts import ModelParts, Parts
from online.serving.predictor import Predicted
from online.serving.protos import tensorflow_pb2 as tf
from online.serving.protos import tensorflow_serving_pb2 as tfs
from online.serving.tensorflow import CLASSIFY, PREDICT, REGRESS, TensorSpec
from online.serving.tensorflow_protos import array_of, features_of, proto_of
from online.snapshots import CANARY, LABEL, MOVING, Labelled


class Tensorflow:
    def __init__(self, parts: Parts) -> None:
        self.parts = parts

    def services(self) -> tuple[Service, Service]:
        named = tfs.DESCRIPTOR.services_by_name
        asked: dict[str, Method] = {
            "Predict": self.predict,
            "Classify": self.classify,
            "Regress": self.regress,
            "MultiInference": self.multi_inference,
            "GetModelMetadata": self.metadata,
        }
        told: dict[str, Method] = {"GetModelStatus": self.status, "HandleReloadConfigRequest": self.reload}
        return Service(named["PredictionService"], asked), Service(named["ModelService"], told)

    def model(self, spec: tfs.ModelSpec, missing: str) -> ModelParts:
        """missing: what is said of a name that is no model's."""
        if not spec.name:
            raise BadInput("Missing ModelSpec: the request names no model")
        if spec.name not in self.parts.models:
            raise NotFound(missing)
        return self.parts.models[spec.name]

    def asked(self, spec: tfs.ModelSpec, call: Call) -> tuple[ModelParts, Which]:
        which = which_of(spec, call)
        version = "Latest(%s)" if which.version is None else f"Specific(%s, {which.version})"
        return self.model(spec, f"Servable not found for request: {version % spec.name[:80]}"), which

    # PredictionService

    async def predict(self, request: tfs.PredictRequest, call: Call) -> tfs.PredictResponse:
        model, which = self.asked(request.model_spec, call)
        signature = tensorflow.signature_named(model.spec, request.model_spec.signature_name, PREDICT)
        wanted = filtered(request.output_filter, tensorflow.signatures(model.spec)[signature].outputs)
        told = await self._told(model, which, self._instances(model, request.inputs), call)
        outputs = tensorflow.outputs_of(model.spec.kind, told.answers)
        response = tfs.PredictResponse(model_spec=effective(model, told, signature))
        for name in wanted:
            response.outputs[name].CopyFrom(proto_of(outputs[name]))
        return response

    def _instances(self, model: ModelParts, inputs: Mapping[str, tf.TensorProto]) -> list[Any]:
        arrays, left = {}, self.parts.settings.max_tensor_elements
        for name, proto in inputs.items():
            arrays[name] = array_of(proto, left)
            left -= arrays[name].size
        return tensorflow.instances_of(model.spec, arrays, self.parts.settings.max_instances)

    async def _told(self, model: ModelParts, which: Which, instances: list[Any], call: Call) -> Predicted:
        if not instances:
            raise BadInput("Input is empty.")
        started = time.perf_counter()
        told = await model.predictor.predict(PredictRequest(instances=instances), which=which)
        self.parts.metrics.prediction_seconds.labels(model.spec.name).observe(time.perf_counter() - started)
        call.tell(told)
        return told

    async def classify(self, request: tfs.ClassificationRequest, call: Call) -> tfs.ClassificationResponse:
        model, signature, told = await self._examined(request.model_spec, request.input, CLASSIFY, call)
        return tfs.ClassificationResponse(result=classified(told), model_spec=effective(model, told, signature))

    async def regress(self, request: tfs.RegressionRequest, call: Call) -> tfs.RegressionResponse:
        model, signature, told = await self._examined(request.model_spec, request.input, REGRESS, call)
        return tfs.RegressionResponse(result=regressed(told), model_spec=effective(model, told, signature))

    async def _examined(
        self, spec: tfs.ModelSpec, given: tfs.Input, method: str, call: Call
    ) -> tuple[ModelParts, str, Predicted]:
        model, which = self.asked(spec, call)
        signature = tensorflow.signature_named(model.spec, spec.signature_name, method)
        return model, signature, await self._told(model, which, examples_of(model, given), call)

    async def multi_inference(self, request: tfs.MultiInferenceRequest, call: Call) -> tfs.MultiInferenceResponse:
        """Several tasks of one model on the same examples, which are asked once."""
        if not request.tasks:
            raise BadInput("Inference request must have at least one task")
        first = request.tasks[0].model_spec
        model, which = self.asked(first, call)
        signatures = [signature_of(model, task) for task in request.tasks]
        for task, signature in zip(request.tasks, signatures, strict=True):
            if task.model_spec.name != first.name or which_of(task.model_spec, call) != which:
                raise BadInput(
                    "All ModelSpecs in a MultiInferenceRequest must access the same model name, and one version of it."
                )
            if signatures.count(signature) > 1:
                raise BadInput(f"Duplicate evaluation of signature: {signature}")
        told = await self._told(model, which, examples_of(model, request.input), call)
        response = tfs.MultiInferenceResponse()
        for task, signature in zip(request.tasks, signatures, strict=True):
            result = response.results.add(model_spec=effective(model, told, signature))
            if task.method_name == CLASSIFY:
                result.classification_result.CopyFrom(classified(told))
            else:
                result.regression_result.CopyFrom(regressed(told))
        return response

    async def metadata(self, request: tfs.GetModelMetadataRequest, call: Call) -> tfs.GetModelMetadataResponse:
        model, which = self.asked(request.model_spec, call)
        if not request.metadata_field:
            raise BadInput("GetModelMetadataRequest must specify at least one metadata_field")
        for field in request.metadata_field:
            if field != "signature_def":
                raise BadInput(f"Metadata field {field[:80]} is not supported")
        served = model.live.find(which) or model.live.current
        described = tfs.SignatureDefMap()
        for name, signature in tensorflow.signatures(model.spec).items():
            shown = described.signature_def[name]
            shown.method_name = signature.method
            for tensors, specs in ((shown.inputs, signature.inputs), (shown.outputs, signature.outputs)):
                for tensor, spec in specs.items():
                    tensors[tensor].CopyFrom(tensor_info(tensor, spec))
        version = Int64Value(value=served.version)
        response = tfs.GetModelMetadataResponse(model_spec=tfs.ModelSpec(name=model.spec.name, version=version))
        response.metadata["signature_def"].Pack(described)
        return response

    # ModelService

    async def status(self, request: tfs.GetModelStatusRequest, call: Call) -> tfs.GetModelStatusResponse:
        spec = request.model_spec
        model = self.model(spec, f"Could not find any versions of model {spec.name[:80]}")
        which = which_of(spec, call)
        version = which.version
        if which.label is not None:
            version = (model.live.find(which) or model.live.current).version
        response = tfs.GetModelStatusResponse()
        for each in tensorflow.statuses(model.live, version):
            response.model_version_status.add(
                version=int(each["version"]), state=each["state"], status=tfs.StatusProto(**each["status"])
            )
        return response

    async def reload(self, request: tfs.ReloadConfigRequest, call: Call) -> tfs.ReloadConfigResponse:
        """Moves the labels that the config names, all or none. Models come from our settings: none is loaded or unloaded
        by this, and labels that it does not name stay.
        """
        call.check_admin(self.parts.settings)
        if request.config.WhichOneof("config") != "model_config_list":
            raise BadInput("the config must have a model_config_list")
        configs = request.config.model_config_list.config
        moves = [
            (self._configured(config.name), label, version)
            for config in configs
            for label, version in sorted(config.version_labels.items())
        ]
        for model, label, version in moves:
            check_move(model, label, version)
        await asyncio.shield(moved(moves))
        return tfs.ReloadConfigResponse(status=tfs.StatusProto())

    def _configured(self, name: str) -> ModelParts:
        if name not in self.parts.models:
            raise PreconditionFailed(f"there is no model {name[:80]!r} here, and none is loaded while the service runs")
        return self.parts.models[name]


def which_of(spec: tfs.ModelSpec, call: Call) -> Which:
    match spec.WhichOneof("version_choice"):
        case "version":
            return Which(version=spec.version.value)
        case "version_label":
            return Which(label=spec.version_label)
    return Which(route=call.route)


def effective(model: ModelParts, told: Predicted, signature: str) -> tfs.ModelSpec:
    version = Int64Value(value=told.served.version)
    return tfs.ModelSpec(name=model.spec.name, version=version, signature_name=signature)


def filtered(wanted: Sequence[str], outputs: Mapping[str, TensorSpec]) -> list[str]:
    """The outputs that are wanted; all of them where none is named."""
    for place, name in enumerate(wanted):
        if name not in outputs:
            known = ",".join(outputs)
            raise BadInput(
                f"output tensor alias not found in signature: {name[:80]} Outputs expected to be in the set {{{known}}}."
            )
        if name in wanted[:place]:
            raise BadInput(f"duplicate output tensor alias: {name}")
    return list(wanted) or list(outputs)


def examples_of(model: ModelParts, given: tfs.Input) -> list[Any]:
    """Instances out of tf.Examples, each with the features of the context, where there is one."""
    if given.WhichOneof("kind") == "example_list_with_context":
        with_context = given.example_list_with_context
        return tensorflow.of_examples(
            model.spec, [features_of(each) for each in with_context.examples], features_of(with_context.context)
        )
    return tensorflow.of_examples(model.spec, [features_of(each) for each in given.example_list.examples], {})


def signature_of(model: ModelParts, task: tfs.InferenceTask) -> str:
    if task.method_name not in (CLASSIFY, REGRESS):
        raise BadInput(f"Unsupported signature method_name: {task.method_name[:80]}")
    return tensorflow.signature_named(model.spec, task.model_spec.signature_name, task.method_name)


def classified(told: Predicted) -> tfs.ClassificationResult:
    result = tfs.ClassificationResult()
    for answer in told.answers:
        classes = [tfs.Class(label=label, score=score) for label, score in tensorflow.classes_of(answer)]
        result.classifications.add(classes=classes)
    return result


def regressed(told: Predicted) -> tfs.RegressionResult:
    values = tensorflow.numbers_of(told.answers).tolist()
    return tfs.RegressionResult(regressions=[tfs.Regression(value=value) for value in values])


def tensor_info(name: str, spec: TensorSpec) -> tf.TensorInfo:
    shape = tf.TensorShapeProto(dim=[tf.TensorShapeProto.Dim(size=size) for size in spec.shape])
    return tf.TensorInfo(name=f"{name}:0", dtype=spec.dtype, tensor_shape=shape)


def check_move(model: ModelParts, label: str, version: int) -> None:
    """A label never points at what cannot answer. Raises BadInput or PreconditionFailed."""
    if label in MOVING:
        raise BadInput(f"the label {label} moves by itself; choose another")
    if not LABEL.fullmatch(label):
        raise BadInput(f"a label has 1 to 64 letters, digits or '_', not {label[:80]!r}")
    if version not in model.live.available:
        raise PreconditionFailed(
            f"Request to assign label to version {version} of model {model.spec.name}, "
            "which is not currently available for inference"
        )


async def moved(moves: Sequence[tuple[ModelParts, str, int]]) -> None:
    """The canary keeps its share."""
    for model, label, version in moves:
        before = model.live.labels.get(label) if label == CANARY else None
        labelled = Labelled(version, before.percent if before else 0.0)
        await asyncio.to_thread(model.snapshots.set_label, label, labelled)
        await model.live.refresh_others()

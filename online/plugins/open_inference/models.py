"""Models as the Open Inference Protocol v2 shows them: metadata, configuration, repository and statistics."""

import asyncio
from collections.abc import Mapping, Sequence

from online.errors import BadInput, Conflict, UnknownModel
from online.plugins.open_inference.infer_request import DATATYPES
from online.plugins.tensorflow.tensor_signatures import MAX_ECHO_CHARS, TensorSpec, signature_of
from online.schemas.access.callers import Caller
from online.schemas.json_values import JSON, JSONObject
from online.serving.model_runtime import ModelRuntime
from online.serving.runtime import Runtime
from online.serving.versions import VersionSelector
from online.settings import ModelSettings
from online.snapshots.labels import LATEST, LabelTarget

EXTENSIONS = ("binary_tensor_data", "classification", "model_repository", "statistics", "model_configuration")


def find_model(
    runtime: Runtime, name: str, version: str, route: str | None = None
) -> tuple[ModelRuntime, VersionSelector]:
    """Return the model and version of a request. Raises NotFound or BadInput.

    version: a number or a version label; "": the live version, or the canary for its share of the traffic.
    """
    if name not in runtime.models:
        known = ", ".join(runtime.models)
        text = f"Request for unknown model: '{name[:MAX_ECHO_CHARS]}' is not found; this service has {known}"
        raise UnknownModel(text, name)
    model = runtime.models[name]
    if not version:
        return model, VersionSelector(route=route)
    is_number = version.isdecimal() and len(version) < 19
    selector = VersionSelector(version=int(version)) if is_number else VersionSelector(label=version[:MAX_ECHO_CHARS])
    model.live.find(selector)
    return model, selector


def list_names(runtime: Runtime, caller: Caller) -> list[str]:
    """Return the models that a caller may use."""
    return [name for name in runtime.models if caller.may_use(name)]


def list_versions(runtime: Runtime, caller: Caller) -> list[dict[str, str]]:
    """Return the repository index: every version that the caller can request."""
    return [
        {"name": name, "version": str(version), "state": "READY", "reason": ""}
        for name, model in runtime.models.items()
        if caller.may_use(name)
        for version in model.live.known_versions()
        if version == model.live.current.version or version in model.live.available
    ]


async def load_model(runtime: Runtime, name: str, parameters: Mapping[str, object]) -> None:
    """Set a version label, where `parameters` have a `label`, and the `version` it names.

    Raises NotFound or BadInput.
    """
    model, _ = find_model(runtime, name, "")
    if unknown := set(parameters) - {"version", "label"}:
        raise BadInput(
            f"unknown parameter {min(unknown)[:MAX_ECHO_CHARS]!r}: models are loaded from the configuration only; "
            "load takes the parameters version and label"
        )
    if "label" in parameters:
        version = await asyncio.to_thread(model.snapshots.labels.resolve, str(parameters.get("version", LATEST)))
        await asyncio.to_thread(model.transactions.versions.set_label, str(parameters["label"]), LabelTarget(version))
        await model.live.refresh_others()


def refuse_unload(runtime: Runtime, name: str) -> Conflict:
    """Return the error of unload: the models of the configuration are always served.

    Raises NotFound for any other.
    """
    find_model(runtime, name, "")
    return Conflict(f"{name} keeps learning and cannot be unloaded; remove it from the configuration instead")


def describe_model(spec: ModelSettings, versions: Sequence[int]) -> JSONObject:
    """Return the metadata of a model."""
    signature = signature_of(spec)
    return {
        "name": spec.name,
        "versions": [str(version) for version in versions],
        "platform": f"online_{spec.kind}",
        "inputs": _describe_tensors(signature.inputs),
        "outputs": _describe_tensors(signature.outputs),
    }


def _describe_tensors(tensors: Mapping[str, TensorSpec]) -> list[dict[str, object]]:
    return [
        {"name": name, "datatype": DATATYPES[each.dtype], "shape": list(each.shape)} for name, each in tensors.items()
    ]


def model_config(spec: ModelSettings, max_batch: int) -> JSONObject:
    """Return the fields of Triton's model configuration that apply here."""
    metadata = describe_model(spec, ())
    return {
        "name": spec.name,
        "platform": metadata["platform"],
        "backend": "online",
        "max_batch_size": max_batch,
        "input": _config_tensors(metadata["inputs"]),
        "output": _config_tensors(metadata["outputs"]),
    }


def _config_tensors(tensors: Sequence[Mapping[str, JSON]]) -> list[JSONObject]:
    return [
        {
            "name": each["name"],
            "data_type": f"TYPE_{each['datatype'].replace('BYTES', 'STRING')}",
            "dims": each["shape"],
        }
        for each in tensors
    ]


def model_statistics(runtime: Runtime, model: ModelRuntime) -> JSONObject:
    """Return statistics since this server started, of all versions together."""
    name = model.spec.name

    def sample(metric: str) -> float:
        return runtime.metrics.registry.get_sample_value(metric, {"model": name}) or 0.0

    def duration(metric: str) -> dict[str, int]:
        return {"count": int(sample(f"{metric}_count")), "ns": int(1e9 * sample(f"{metric}_sum"))}

    nothing = {"count": 0, "ns": 0}
    return {
        "name": name,
        "version": str(model.live.current.version),
        "inference_count": int(sample("online_predictions_total")),
        "execution_count": int(sample("online_compute_seconds_count")),
        "inference_stats": {
            "success": duration("online_prediction_seconds"),
            "fail": nothing,
            "queue": duration("online_wait_seconds"),
            "compute_input": nothing,
            "compute_infer": duration("online_compute_seconds"),
            "compute_output": nothing,
        },
        "batch_stats": [],
    }

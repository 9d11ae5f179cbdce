"""TensorFlow Serving's names of a model's signatures and methods, and its metadata.

The predict signature of every model is `serving_default`. Beside it there is `classify`, or `regress` of a regressor; these two
methods accept `serving_default` too.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from online.errors import BadInput, PreconditionFailed
from online.models import spec_of
from online.plugins.tensorflow.tensor_signatures import (
    CLASSES,
    MAX_ECHO_CHARS,
    NUMBERS,
    TEXTS,
    TensorSpec,
    signature_of,
)
from online.serving.versions import ServedVersion
from online.settings import ModelSettings

DEFAULT = "serving_default"
METHOD = "tensorflow/serving/"
PREDICT, CLASSIFY, REGRESS = METHOD + "predict", METHOD + "classify", METHOD + "regress"
METHOD_NOUNS = {CLASSIFY: "classification", REGRESS: "regression"}
DATA_TYPES = {"string": "DT_STRING", "float32": "DT_FLOAT"}


@dataclass(frozen=True, slots=True)
class MethodSignature:
    """A signature, and the method that it answers."""

    method: str
    inputs: Mapping[str, TensorSpec]
    outputs: Mapping[str, TensorSpec]


def signatures_of(spec: ModelSettings) -> dict[str, MethodSignature]:
    """Return the signatures of a model, by name."""
    default = signature_of(spec)
    name, method, outputs = ("classify", CLASSIFY, CLASSES)
    if spec_of(spec.kind).predicts_numbers:
        name, method, outputs = ("regress", REGRESS, {"outputs": NUMBERS})
    return {
        DEFAULT: MethodSignature(PREDICT, default.inputs, default.outputs),
        name: MethodSignature(method, {"inputs": TEXTS}, outputs),
    }


def find_signature(spec: ModelSettings, name: str, method: str) -> str:
    """Return the name of the requested signature. Raises BadInput where the model has none that answers this method."""
    known, name = signatures_of(spec), name or DEFAULT
    if method == PREDICT:
        if name != DEFAULT:
            raise PreconditionFailed(f'Serving signature name: "{name[:MAX_ECHO_CHARS]}" not found in signature def')
        return name
    if name not in known:
        raise BadInput(f"No signature was found with the name: {name[:MAX_ECHO_CHARS]}")
    is_answered = any(signature.method == method for signature in known.values())
    if not is_answered or known[name].method not in (PREDICT, method):
        noun = METHOD_NOUNS[method]
        raise BadInput(f"Expected {noun} signature method_name to be {method}. Was: {known[name].method}")
    return name


def metadata_of(spec: ModelSettings, served: ServedVersion) -> dict[str, object]:
    """Return the answer to GET /v1/models/{model}/metadata."""
    definitions = {name: _definition(each) for name, each in signatures_of(spec).items()}
    model_spec = {"name": spec.name, "signature_name": "", "version": str(served.version)}
    return {"model_spec": model_spec, "metadata": {"signature_def": {"signature_def": definitions}}}


def _definition(signature: MethodSignature) -> dict[str, object]:
    """Return a SignatureDef in protobuf's JSON: every field is present, an int64 is a text."""
    return {
        "inputs": {name: _tensor_info(name, each) for name, each in signature.inputs.items()},
        "outputs": {name: _tensor_info(name, each) for name, each in signature.outputs.items()},
        "method_name": signature.method,
        "defaults": {},
    }


def _tensor_info(name: str, spec: TensorSpec) -> dict[str, object]:
    dims = [{"size": str(size), "name": ""} for size in spec.shape]
    shape = {"dim": dims, "unknown_rank": False}
    return {"dtype": DATA_TYPES[spec.dtype], "tensor_shape": shape, "name": f"{name}:0"}

"""What a fuzzer throws at the decoders of tensors: bytes -> one of the doors' own decoders -> instances -> features.

    first byte: which door      the rest: a message, a body, or a tensor's type, shape and content

Whatever comes, a decoder gives instances or raises an OnlineError; `try_one` lets everything else through, which is a find.
Run by `python -m benchmarks.fuzz --only tensors` under atheris, and without it by tests/fuzz/test_seeds.py.
"""

import json
import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError
from pydantic import ValidationError

from online.errors import OnlineError
from online.models.encoder import TableEncoder, VectorEncoder
from online.serving import inference, tensorflow
from online.serving.bodies import checked_depth, depth_of
from online.serving.feedback_rpc import item_of
from online.serving.inference_rpc import inputs_of, wanted_of
from online.serving.protos import inference_pb2 as oip
from online.serving.protos import online_pb2 as ours
from online.serving.protos import tensorflow_pb2 as tf
from online.serving.protos import tensorflow_serving_pb2 as tfs
from online.serving.tensorflow_protos import array_of, example_of, features_of, proto_of
from online.serving.tensorflow_rest import ours as own_body
from online.settings import ModelSettings, Settings

SETTINGS = Settings(max_tensor_elements=100_000)
SPECS = (
    ModelSettings(name="chat", kind="ranker"),
    ModelSettings(name="vec", kind="classifier", options={"input": "vector", "size": 2}),
    ModelSettings(name="tab", kind="classifier", options={"input": "table"}),
    ModelSettings(name="num", kind="regressor", options={"input": "vector", "size": 2}),
)
MOST = SETTINGS.max_tensor_elements


def answered(instances: Sequence[Any], spec: ModelSettings) -> None:
    """As far as the features. Texts have no more to go through than that they are texts."""
    if spec.name == "tab":
        TableEncoder().encode(instances)
    elif spec.name != "chat":
        VectorEncoder(2).encode(instances)
    json.dumps(instances)  # as it is recorded


def by_name(arrays: tensorflow.Outputs) -> None:
    for spec in SPECS:
        try:
            answered(tensorflow.instances_of(spec, arrays, SETTINGS.max_instances), spec)
        except ValueError:  # the caller's fault, as the predictor takes it
            continue


def tensor(data: bytes) -> None:
    proto = tf.TensorProto.FromString(data)
    array = array_of(proto, MOST)
    assert array.size <= MOST
    by_name({"x": array})


def shaped(data: bytes) -> None:
    """A tensor that a fuzzer need not spell: type, number of dimensions, dimensions, content."""
    dtype, rank, *rest = [*data[:2], *data[2:]]
    dims = [each - 2 for each in rest[: rank % 5]]
    content = bytes(rest[rank % 5 :])
    shape = tf.TensorShapeProto(dim=[tf.TensorShapeProto.Dim(size=size) for size in dims])
    if dtype % 2:
        proto = tf.TensorProto(dtype=dtype // 2 % 24, tensor_shape=shape, tensor_content=content)  # type: ignore[arg-type]
    else:
        values = list(content)
        proto = tf.TensorProto(dtype=dtype // 2 % 24, tensor_shape=shape, int_val=values, half_val=values)  # type: ignore[arg-type]
        proto.string_val.extend(content[at : at + 3] for at in range(0, len(content), 3))
        proto.float_val.extend(values)
    array = array_of(proto, MOST)
    if array.dtype in (np.dtype(np.float32), np.dtype(object)) and not array.dtype.hasobject:
        assert np.array_equal(array_of(proto_of(array), MOST), array, equal_nan=True)
    by_name({"x": array})


def predict(data: bytes) -> None:
    request = tfs.PredictRequest.FromString(data)
    left = MOST
    arrays = {}
    for name, proto in request.inputs.items():
        arrays[name] = array_of(proto, left)
        left -= arrays[name].size
    by_name(arrays)


def example(data: bytes) -> None:
    features = features_of(example_of(data))
    for spec in SPECS:
        try:
            answered(tensorflow.of_examples(spec, [features], {}), spec)
        except ValueError:
            continue


def infer_rpc(data: bytes) -> None:
    request = oip.ModelInferRequest.FromString(data)
    for output in request.outputs:
        wanted_of(output)
    by_name(inputs_of(request, MOST))


def infer_rest(data: bytes) -> None:
    length = min(int.from_bytes(data[:2], "little"), len(data) - 2)
    header, behind = data[2 : 2 + length], data[2 + length :]
    asked = inference.asked_of(tensorflow.parsed(checked_depth(header, SETTINGS)), behind, MOST)
    by_name(asked.inputs)


def infer_typed(data: bytes) -> None:
    """A tensor of the Open Inference Protocol that a fuzzer need not spell, as bytes."""
    datatypes = [*inference.DTYPES, "BF16"]
    datatype, rank, *rest = [*data[:2], *data[2:]]
    dims = [each - 2 for each in rest[: rank % 5]]
    content = bytes(rest[rank % 5 :])
    by_name({"x": inference.of_raw(datatypes[datatype % len(datatypes)], dims, content, MOST)})


def infer_raw(data: bytes) -> None:
    for spec in SPECS:
        try:
            by_name(inference.raw_body(spec, data, MOST).inputs)
        except OnlineError:
            continue


def predict_rest(data: bytes) -> None:
    own_body(checked_depth(data, SETTINGS))
    document = tensorflow.parsed(data)
    for spec in SPECS:
        for read in (tensorflow.predict_body, tensorflow.examples_body):
            try:
                answered(read(spec, document), spec)
            except ValueError:
                continue


def give(data: bytes) -> None:
    for item in ours.GiveRequest.FromString(data).feedback:
        item_of(item, SETTINGS.max_json_depth)


def depth(data: bytes) -> None:
    """Counted without a parser, it is what the parser finds."""
    try:
        document = json.loads(
            data, object_pairs_hook=lambda pairs: [value for _, value in pairs]
        )  # one name twice: both
    except (ValueError, RecursionError):
        depth_of(data)
        return
    assert depth_of(data) == levels(document), data


def levels(value: Any) -> int:
    return 1 + max(map(levels, value), default=0) if isinstance(value, list) else 0


DOORS: tuple[Callable[[bytes], None], ...] = (
    tensor,
    shaped,
    predict,
    example,
    infer_rpc,
    infer_rest,
    infer_typed,
    infer_raw,
    predict_rest,
    give,
    depth,
)


def try_one(data: bytes) -> None:
    if len(data) < 4:
        return
    try:
        DOORS[data[0] % len(DOORS)](data[1:])
    except (OnlineError, DecodeError, ValidationError):  # each is an answer with its status
        return


def samples() -> list[bytes]:
    """Something sound for every door, to begin with."""
    shape = tf.TensorShapeProto(dim=[tf.TensorShapeProto.Dim(size=1), tf.TensorShapeProto.Dim(size=2)])
    floats = struct.pack("<2f", 1, 2)
    proto = tf.TensorProto(dtype=tf.DT_FLOAT, tensor_shape=shape, tensor_content=floats)
    texts = tf.TensorProto(dtype=tf.DT_STRING, tensor_shape=shape, string_val=[b"a", b"b"])
    feature = tf.Feature(float_list=tf.FloatList(value=[1, 2]))
    request = oip.ModelInferRequest(model_name="vec", raw_input_contents=[floats])
    request.inputs.add(name="x", datatype="FP32", shape=[1, 2])
    request.outputs.add(name="scores").parameters["classification"].int64_param = 2
    typed = oip.ModelInferRequest(model_name="vec")
    typed.inputs.add(name="x", datatype="FP32", shape=[1, 2]).contents.fp32_contents.extend([1, 2])
    told = {"name": "x", "datatype": "FP32", "shape": [1, 2]}
    header = json.dumps({"inputs": [{**told, "parameters": {"binary_data_size": 8}}]}).encode()
    plain = json.dumps({"id": "a", "inputs": [{**told, "data": [[1, 2]]}], "outputs": [{"name": "scores"}]}).encode()
    value = b'{"feedback": [{"input": [[1, {"a": 1}]], "label": "a"}]}'
    item = ours.Item(label="a", user="b")
    item.input.list_value.values.add(number_value=1)
    return [
        bytes([0]) + proto.SerializeToString(),
        bytes([0]) + texts.SerializeToString(),
        bytes([1, 3, 2, 3, 4]) + floats,
        bytes([1, 14, 1, 4, 97, 98]),
        bytes([2]) + tfs.PredictRequest(inputs={"x": proto, "y": texts}).SerializeToString(),
        bytes([3]) + tf.Example(features=tf.Features(feature={"x": feature})).SerializeToString(),
        bytes([4]) + request.SerializeToString(),
        bytes([4]) + typed.SerializeToString(),
        bytes([5]) + struct.pack("<H", len(header)) + header + floats,
        bytes([5]) + struct.pack("<H", len(plain)) + plain,
        bytes([6, 10, 2, 3, 4]) + floats,
        bytes([7]) + floats,
        bytes([8]) + b'{"signature_name": "", "instances": [{"x": [1, 2.5]}, {"x": {"b64": "YQ=="}}]}',
        bytes([8]) + b'{"inputs": {"x": [[1, 2], [NaN, -Infinity]]}}',
        bytes([8]) + b'{"context": {"a": 1}, "examples": [{"x": [1, 2]}, {"b": "c"}]} and more',
        bytes([9]) + ours.GiveRequest(model="a", feedback=[item]).SerializeToString(),
        bytes([10]) + value,
    ]

"""Fuzz target for the decoders of requests: bytes -> one of the decoders -> instances -> features.

    first byte: the decoder      the rest: a message, a body, or a tensor's type, shape and content

For any input, a decoder returns instances or raises an OnlineError. `try_one` does not catch other
exceptions, so each of them is a finding. Run by `python -m benchmarks.fuzz --only tensors` under
atheris, and without it by tests/fuzz/test_seeds.py.
"""

import json
import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError
from pydantic import ValidationError

from online.api.bodies import check_form, measure_depth
from online.errors import OnlineError
from online.models.encoders.rows import TableEncoder, VectorEncoder
from online.plugins.grpc.feedback import parse_item
from online.plugins.grpc.protos import inference_pb2 as oip
from online.plugins.grpc.protos import online_pb2 as ours
from online.plugins.grpc.protos import tensorflow_pb2 as tf
from online.plugins.grpc.protos import tensorflow_serving_pb2 as tfs
from online.plugins.open_inference.infer_request import (
    DTYPES,
    parse_infer_request,
    parse_object,
    parse_raw_request,
    read_raw,
)
from online.plugins.open_inference.rpc import parse_requested_output, read_inputs
from online.plugins.tensorflow import request_bodies
from online.plugins.tensorflow.rest import parse_predict
from online.plugins.tensorflow.rpc import array_from_proto, proto_from_array
from online.plugins.tensorflow.tensor_signatures import Tensors, instances_from_tensors
from online.plugins.tensorflow.tensors import parse_example, read_features
from online.settings import ModelSettings, Settings

SETTINGS = Settings(max_tensor_elements=100_000)
SPECS = (
    ModelSettings(name="chat", kind="ranker"),
    ModelSettings(name="vec", kind="classifier", options={"input": "vector", "size": 2}),
    ModelSettings(name="tab", kind="classifier", options={"input": "table"}),
    ModelSettings(name="num", kind="regressor", options={"input": "vector", "size": 2}),
)
MAX_ELEMENTS = SETTINGS.max_tensor_elements


def check_instances(instances: Sequence[Any], spec: ModelSettings) -> None:
    """Encode decoded instances as features. Texts are not encoded."""
    if spec.name == "tab":
        TableEncoder().encode(instances)
    elif spec.name != "chat":
        VectorEncoder(2).encode(instances)
    json.dumps(instances)  # the predictor records them as JSON


def check_arrays(arrays: Tensors) -> None:
    for spec in SPECS:
        try:
            check_instances(instances_from_tensors(spec, arrays, SETTINGS.max_instances), spec)
        except ValueError:  # an invalid request: the predictor answers it with an error
            continue


def tensor(data: bytes) -> None:
    proto = tf.TensorProto.FromString(data)
    array = array_from_proto(proto, MAX_ELEMENTS)
    assert array.size <= MAX_ELEMENTS
    check_arrays({"x": array})


def shaped_tensor(data: bytes) -> None:
    """Build a tensor from bytes: type, number of dimensions, dimensions, content."""
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
    array = array_from_proto(proto, MAX_ELEMENTS)
    if array.dtype in (np.dtype(np.float32), np.dtype(object)) and not array.dtype.hasobject:
        assert np.array_equal(array_from_proto(proto_from_array(array), MAX_ELEMENTS), array, equal_nan=True)
    check_arrays({"x": array})


def predict(data: bytes) -> None:
    request = tfs.PredictRequest.FromString(data)
    left = MAX_ELEMENTS
    arrays = {}
    for name, proto in request.inputs.items():
        arrays[name] = array_from_proto(proto, left)
        left -= arrays[name].size
    check_arrays(arrays)


def example(data: bytes) -> None:
    features = read_features(parse_example(data))
    for spec in SPECS:
        try:
            check_instances(request_bodies.merge_examples(spec, [features], {}), spec)
        except ValueError:
            continue


def infer_rpc(data: bytes) -> None:
    request = oip.ModelInferRequest.FromString(data)
    for output in request.outputs:
        parse_requested_output(output)
    check_arrays(read_inputs(request, MAX_ELEMENTS))


def infer_rest(data: bytes) -> None:
    length = min(int.from_bytes(data[:2], "little"), len(data) - 2)
    header, content = data[2 : 2 + length], data[2 + length :]
    request = parse_infer_request(parse_object(check_form(header, SETTINGS)), content, MAX_ELEMENTS)
    check_arrays(request.inputs)


def infer_typed(data: bytes) -> None:
    """Build a tensor of the Open Inference Protocol from bytes: datatype, number of dimensions, dimensions, content."""
    datatypes = [*DTYPES, "BF16"]
    datatype, rank, *rest = [*data[:2], *data[2:]]
    dims = [each - 2 for each in rest[: rank % 5]]
    content = bytes(rest[rank % 5 :])
    check_arrays({"x": read_raw(datatypes[datatype % len(datatypes)], dims, content, MAX_ELEMENTS)})


def infer_raw(data: bytes) -> None:
    for spec in SPECS:
        try:
            check_arrays(parse_raw_request(spec, data, MAX_ELEMENTS).inputs)
        except OnlineError:
            continue


def predict_rest(data: bytes) -> None:
    parse_predict(check_form(data, SETTINGS))
    document = request_bodies.parse_object(data)
    for spec in SPECS:
        for read in (request_bodies.read_instances, request_bodies.read_examples):
            try:
                check_instances(read(spec, document), spec)
            except ValueError:
                continue


def feedback(data: bytes) -> None:
    for item in ours.GiveRequest.FromString(data).feedback:
        parse_item(item, SETTINGS.max_json_depth)


def depth(data: bytes) -> None:
    """Check that the depth counted without a parser is the depth that the parser finds."""
    try:
        document = json.loads(
            data, object_pairs_hook=lambda pairs: [value for _, value in pairs]
        )  # keeps both values of a repeated name
    except (ValueError, RecursionError):
        measure_depth(data)
        return
    assert measure_depth(data) == levels(document), data


def levels(value: Any) -> int:
    return 1 + max(map(levels, value), default=0) if isinstance(value, list) else 0


DECODERS: tuple[Callable[[bytes], None], ...] = (
    tensor,
    shaped_tensor,
    predict,
    example,
    infer_rpc,
    infer_rest,
    infer_typed,
    infer_raw,
    predict_rest,
    feedback,
    depth,
)


def try_one(data: bytes) -> None:
    if len(data) < 4:
        return
    try:
        DECODERS[data[0] % len(DECODERS)](data[1:])
    except (OnlineError, DecodeError, ValidationError):  # the service answers each of them with a status
        return


def samples() -> list[bytes]:
    """Return valid inputs for every decoder, from which a fuzzer starts."""
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
    declared = {"name": "x", "datatype": "FP32", "shape": [1, 2]}
    header = json.dumps({"inputs": [{**declared, "parameters": {"binary_data_size": 8}}]}).encode()
    plain = json.dumps(
        {"id": "a", "inputs": [{**declared, "data": [[1, 2]]}], "outputs": [{"name": "scores"}]}
    ).encode()
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

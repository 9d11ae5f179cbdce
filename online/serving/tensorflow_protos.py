"""TensorFlow's messages <-> arrays and plain values: TensorProto, Example, SignatureDef."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError
from numpy.typing import NDArray

from online.errors import BadInput
from online.serving.protos import tensorflow_pb2 as tf
from online.serving.tensors import of_bfloat16, of_bytes, of_values

HALVES = (tf.DT_HALF, tf.DT_BFLOAT16)  # their values travel as the bits of a number, in half_val

# of each type: what numpy calls it, and the field that lists its values
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


def array_of(proto: tf.TensorProto, most: int) -> NDArray[Any]:
    """A tensor, by its content or by its values; texts as bytes in an array of objects. Raises BadInput or TooLarge."""
    if proto.dtype not in TYPES:
        raise BadInput(f"tensors of type {type_name(proto.dtype)} are not read")
    name, field = TYPES[proto.dtype]
    dtype, shape = np.dtype(name), [dim.size for dim in proto.tensor_shape.dim]
    if proto.tensor_content and not dtype.hasobject:
        array = of_bytes(proto.tensor_content, dtype, shape, most)
    else:
        array = of_values(getattr(proto, field), dtype, shape, most, repeats=True)
    if proto.dtype in HALVES:
        return of_bfloat16(array) if proto.dtype == tf.DT_BFLOAT16 else array.view(np.float16)
    return array


def type_name(number: int) -> str:
    return tf.DataType.Name(number) if number in tf.DataType.values() else str(number)


def proto_of(array: NDArray[Any]) -> tf.TensorProto:
    """float32 as content, texts as values: what TensorFlow's own make_ndarray reads fastest."""
    shape = tf.TensorShapeProto(dim=[tf.TensorShapeProto.Dim(size=size) for size in array.shape])
    if array.dtype == object:
        texts = [text.encode() for text in array.ravel().tolist()]
        return tf.TensorProto(dtype=tf.DT_STRING, tensor_shape=shape, string_val=texts)
    content = array.astype("<f4").tobytes()
    return tf.TensorProto(dtype=tf.DT_FLOAT, tensor_shape=shape, tensor_content=content)


def example_of(data: bytes) -> tf.Example:
    """Raises BadInput for bytes that are no serialised tf.Example."""
    try:
        return tf.Example.FromString(data)
    except DecodeError:
        raise BadInput("bytes that are no serialised tf.Example") from None


def features_of(example: tf.Example) -> dict[str, Any]:
    """{name: values}; a feature without any is left out."""
    found: dict[str, Any] = {}
    for name, feature in example.features.feature.items():
        kind = feature.WhichOneof("kind")
        values: Sequence[Any] = list(getattr(feature, kind).value) if kind else []
        if values:
            found[name] = values
    return found

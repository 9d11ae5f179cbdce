"""TensorProto <-> numpy arrays."""

from collections.abc import Mapping

import numpy as np

from online.errors import BadInput
from online.models.contract import AnyArray
from online.plugins.grpc.protos import tensorflow_pb2 as tf
from online.plugins.tensorflow.tensors import array_from_bytes, array_from_values, widen_bfloat16

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

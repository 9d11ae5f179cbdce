"""Tensors and serialised examples, as the clients of other servers send them -> numpy arrays and plain values.

A shape of a few bytes may announce any amount of memory, so its elements are counted before an array is allocated.
"""

import sys
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError
from numpy.typing import NDArray

from online.errors import BadInput, TooLarge
from online.models.contract import AnyArray
from online.plugins.grpc.protos import tensorflow_pb2 as tf

MAX_RANK = 32


def check_shape(shape: Sequence[int], most: int) -> tuple[int, ...]:
    """Return the shape, if it has at most `most` elements. Raises BadInput or TooLarge."""
    if len(shape) > MAX_RANK:
        raise BadInput(f"the tensor has {len(shape)} dimensions; at most {MAX_RANK} are supported")
    if any(size < 0 for size in shape):
        raise BadInput(f"the tensor has the shape {list(shape)}; every dimension must be known")
    if max(prod(shape), *shape, 0) > most:
        raise TooLarge(f"the tensor has the shape {list(shape)}; at most {most} elements (max_tensor_elements)")
    return tuple(shape)


def array_from_bytes(content: bytes, dtype: np.dtype[np.generic], shape: Sequence[int], most: int) -> AnyArray:
    """Return an array from little-endian bytes in row-major order. Raises BadInput where their number does not fit the shape."""
    shape = check_shape(shape, most)
    expected = prod(shape) * dtype.itemsize
    if len(content) != expected:
        raise BadInput(f"a tensor of shape {list(shape)} and type {dtype} takes {expected} bytes, not {len(content)}")
    array = np.frombuffer(content, dtype.newbyteorder("<")).reshape(shape)
    return array if sys.byteorder == "little" else array.astype(dtype)


def array_from_values(
    values: Sequence[object], dtype: np.dtype[np.generic], shape: Sequence[int], most: int, repeats: bool = False
) -> AnyArray:
    """Return an array from a list of values.

    repeats: fill up a list that is too short with its last value, or with zeros where it is empty.
    """
    shape = check_shape(shape, most)
    count = prod(shape)
    if len(values) > count or (len(values) < count and not repeats):
        raise BadInput(f"a tensor of shape {list(shape)} takes {count} values, not {len(values)}")
    empty: Any = b"" if dtype.hasobject else 0
    try:
        array = np.full(count, values[-1] if values else empty, dtype)
        array[: len(values)] = list(values)
    except (ValueError, TypeError, OverflowError) as error:
        raise BadInput(f"a value of the tensor is not a valid {dtype}: {error}") from None
    return array.reshape(shape)


def widen_bfloat16(bits: NDArray[np.uint16]) -> NDArray[np.float32]:
    """numpy has no bfloat16; it is the upper half of a float32."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def parse_example(data: bytes) -> tf.Example:
    """Parse a serialised tf.Example. Raises BadInput for bytes that are not a serialised tf.Example."""
    try:
        return tf.Example.FromString(data)
    except DecodeError:
        raise BadInput("the bytes are not a serialised tf.Example") from None


def read_features(example: tf.Example) -> dict[str, Sequence[bytes | float]]:
    """{name: values}; a feature without values is left out."""
    features: dict[str, Sequence[bytes | float]] = {}
    for name, feature in example.features.feature.items():
        kind = feature.WhichOneof("kind")
        values: Sequence[bytes | float] = list(getattr(feature, kind).value) if kind else []
        if values:
            features[name] = values
    return features

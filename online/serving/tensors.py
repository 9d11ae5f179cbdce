"""Tensors as callers of other servers send them: a type, a shape, and bytes or values -> numpy.

A shape is a few bytes that may promise any amount of memory, so its elements are counted before anything is made of it.
"""

import sys
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from online.errors import BadInput, TooLarge

MAX_RANK = 32


def checked(shape: Sequence[int], most: int) -> tuple[int, ...]:
    """The shape, if it has no more than `most` elements. Raises BadInput or TooLarge."""
    if len(shape) > MAX_RANK:
        raise BadInput(f"a tensor of {len(shape)} dimensions; at most {MAX_RANK} are read")
    if any(size < 0 for size in shape):
        raise BadInput(f"a tensor's dimensions must be known, not {list(shape)}")
    if max(prod(shape), *shape, 0) > most:
        raise TooLarge(f"a tensor of shape {list(shape)}; at most {most} elements are read (max_tensor_elements)")
    return tuple(shape)


def of_bytes(content: bytes, dtype: np.dtype[Any], shape: Sequence[int], most: int) -> NDArray[Any]:
    """Little-endian and row by row, as every protocol sends them. Raises BadInput where there are more or fewer."""
    shape = checked(shape, most)
    expected = prod(shape) * dtype.itemsize
    if len(content) != expected:
        raise BadInput(f"a tensor of shape {list(shape)} and type {dtype} takes {expected} bytes, not {len(content)}")
    array = np.frombuffer(content, dtype.newbyteorder("<")).reshape(shape)
    return array if sys.byteorder == "little" else array.astype(dtype)


def of_values(
    values: Sequence[Any], dtype: np.dtype[Any], shape: Sequence[int], most: int, repeats: bool = False
) -> NDArray[Any]:
    """From values listed one by one. repeats: a list that is too short goes on with its last value, or with zeros."""
    shape = checked(shape, most)
    count = prod(shape)
    if len(values) > count or (len(values) < count and not repeats):
        raise BadInput(f"a tensor of shape {list(shape)} takes {count} values, not {len(values)}")
    empty: Any = b"" if dtype.hasobject else 0
    try:
        array = np.full(count, values[-1] if values else empty, dtype)
        array[: len(values)] = list(values)
    except (ValueError, TypeError, OverflowError) as error:
        raise BadInput(f"a value that is no {dtype}: {error}") from None
    return array.reshape(shape)


def of_bfloat16(bits: NDArray[np.uint16]) -> NDArray[np.float32]:
    """numpy has no such type: it is the upper half of a float32."""
    return (bits.astype(np.uint32) << 16).view(np.float32)

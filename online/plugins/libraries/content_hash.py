"""A hash of an object that depends on its content alone, not on the order in which it was made."""

import hashlib
from collections.abc import Callable, Iterable
from types import BuiltinFunctionType, FunctionType
from typing import Any

import numpy as np


def compute_fingerprint(value: object) -> str:
    """Return sha256 of every number and name that is reachable from `value`."""
    seen = hashlib.sha256()
    hash_content(value, seen.update, set())
    return seen.hexdigest()


def hash_content(value: Any, update: Callable[[bytes], None], inside: set[int]) -> None:
    """Pass every number and name reachable from `value` to `update`, in an order set by content alone."""
    if value is None or isinstance(value, (bool, int, float, str, bytes, complex)):
        update(repr(value).encode())
    elif isinstance(value, np.ndarray):
        update(value.tobytes())
    elif id(value) in inside:
        update(b"cycle")
    else:
        inside.add(id(value))
        update(type(value).__qualname__.encode())
        for child in list_children(value):
            hash_content(child, update, inside)
        inside.discard(id(value))


def list_children(value: Any) -> Iterable[object]:
    """Return the parts of a value, in an order set by content alone."""
    if isinstance(value, dict) or hasattr(value, "items"):
        unseeded = (
            "_rng" if isinstance(value, dict) and value.get("seed", 0) is None else None
        )  # of river's distributions: never used to learn
        kept = sorted((pair for pair in value.items() if pair[0] != unseeded), key=lambda pair: repr(pair[0]))
        return [child for key, item in kept for child in (repr(key), item)]
    if isinstance(value, (set, frozenset)):
        return sorted(map(repr, value))
    if isinstance(value, (list, tuple)) or hasattr(value, "popleft"):
        return list(value)
    if isinstance(value, (type, FunctionType, BuiltinFunctionType)):
        return [value.__qualname__]
    return [part for part in value.__reduce_ex__(4)[1:3] if part is not None]

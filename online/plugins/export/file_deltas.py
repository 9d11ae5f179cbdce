"""Deltas between two safetensors files, so that a device that has the first one need not load the second.

    old file, new file --write_delta--> delta          old file, delta --apply_delta--> new file, byte for byte

    integers   the difference, in the narrowest type that holds it
    floats     the difference of their bit patterns, one plane for each byte: the high bytes, which hardly change, are zeros
    Gram       of a file of sums: the part that its counts and sums do not tell. A class with one more example has that example,
               x, as the difference of its sums, and x x^T as that of its Gram matrix, so after a thumb nothing is left
    metadata   the entries that changed

Both files are named in the delta by their sha256, which are checked before and after. A delta is itself a safetensors file,
mostly of zeros: it is meant to be compressed when it is sent. Shapes: C classes, D features.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import prod
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load, save

from online.models.contract import AnyArray
from online.models.exchange.sums_file import (
    METADATA_KEY,
    narrow,
    read_metadata,
    read_texts,
    unpack_upper,
    write_metadata,
)
from online.schemas.json_values import JSONObject

FORMAT = 1
DELTA_KEY, GRAM = "delta", "gram"
MISSING = object()
LARGEST_BYTES = 2**30  # of the new file: a forged layout must not fill the memory
Tensors = dict[str, AnyArray]
Stored = Mapping[str, AnyArray]  # in memory or on the disk
Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class DeltaHeader:
    """The header of a delta, about its two files.

    layout: type and shape of each tensor of the new file. changed, removed: entries of the metadata; those of a file of
    sums are the entries of its JSON object.
    """

    from_sha256: str
    to_sha256: str
    layout: Mapping[str, tuple[str, list[int]]]
    changed: JSONObject
    removed: Sequence[str]
    format: int = FORMAT


class StoredTensors(Stored):
    """The tensors of a safetensors file on the disk, each read when it is asked for."""

    def __init__(self, path: Path) -> None:
        """Open the file. Raises FileNotFoundError, and ValueError for another file."""
        try:
            self._file = cast(Any, safe_open(path, "numpy"))
        except SafetensorError as error:
            raise ValueError(f"not a safetensors file: {error}") from error
        self.texts: dict[str, str] = self._file.metadata() or {}
        self._names: list[str] = sorted(self._file.keys())

    def __getitem__(self, name: str) -> AnyArray:
        if name not in self._names:
            raise KeyError(name)
        values: AnyArray = self._file.get_tensor(name)
        return values

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


@dataclass(frozen=True, slots=True)
class TensorFile:
    """A safetensors file. entries: its metadata; of a file of sums, the entries of the JSON object in it. sha256: of the bytes."""

    tensors: Stored
    entries: JSONObject
    has_sums: bool
    sha256: str = ""

    @classmethod
    def parse(cls, data: bytes) -> "TensorFile":
        """Parse the bytes of a file. Raises ValueError."""
        try:
            tensors = load(data)
        except (SafetensorError, KeyError) as error:
            raise ValueError(f"not a safetensors file: {error}") from error
        has_sums = METADATA_KEY in read_texts(data)
        return cls(tensors, read_metadata(data) if has_sums else read_texts(data), has_sums, hash_file(data))

    @classmethod
    def open(cls, path: Path, sha256: str) -> "TensorFile":
        """Return a file without sums, which is read tensor by tensor. Raises FileNotFoundError and ValueError."""
        tensors = StoredTensors(path)
        return cls(tensors, tensors.texts, False, sha256)

    def write(self) -> bytes:
        """Return the bytes of the file."""
        return save(dict(self.tensors), write_metadata(self.entries) if self.has_sums else dict(self.entries) or None)


class TooMuchChanged(ValueError):
    """The differences between two files are larger than they may be."""


def write_delta(old: bytes, new: bytes) -> bytes:
    """Return what turns one safetensors file into another. Raises ValueError for a file that `save` has not written."""
    return compare_files(TensorFile.parse(old), TensorFile.parse(new))


def compare_files(before: TensorFile, after: TensorFile, most_bytes: int = LARGEST_BYTES) -> bytes:
    """As `write_delta`. Of files on the disk few tensors are in memory at once, but for the check that `save` has written them.

    most_bytes: of the tensors that changed. Raises TooMuchChanged.
    """
    if hash_file(after.write()) != after.sha256 or before.has_sums != after.has_sums:
        raise ValueError("both files must be written by the same function of safetensors")
    changes, layout, size = Tensors(), dict[str, tuple[str, list[int]]](), 0
    for name in in_order(after.tensors):
        values = after.tensors[name]
        layout[name] = str(values.dtype), list(values.shape)
        expected = predict(name, values.shape, values.dtype, before.tensors, after.tensors)
        if not np.array_equal(view_bits(expected), view_bits(values)):
            size += values.nbytes
            if size > most_bytes:
                raise TooMuchChanged(f"tensors of more than {most_bytes:,} bytes changed")
            changes[name] = subtract(values, expected)
    header = DeltaHeader(
        before.sha256,
        after.sha256,
        dict(sorted(layout.items())),
        {name: value for name, value in after.entries.items() if before.entries.get(name, MISSING) != value},
        sorted(before.entries.keys() - after.entries.keys()),
    )
    return save(changes, {DELTA_KEY: json.dumps(asdict(header), separators=(",", ":"))})


def apply_delta(old: bytes, delta: bytes) -> bytes:
    """Return the new file. Raises ValueError if the delta is damaged, or belongs to another file."""
    header, changes = read_delta_header(delta), TensorFile.parse(delta).tensors
    if hash_file(old) != header.from_sha256:
        raise ValueError(f"the delta changes the file with sha256 {header.from_sha256}, not {hash_file(old)}")
    try:
        new = restore(TensorFile.parse(old), header, changes).write()
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError) as error:
        raise ValueError(f"the delta is damaged: {error}") from error
    if hash_file(new) != header.to_sha256:
        raise ValueError(f"the delta is damaged: its result is not the file with sha256 {header.to_sha256}")
    return new


def read_delta_header(delta: bytes) -> DeltaHeader:
    """Return the header of a delta. Raises ValueError."""
    text = read_texts(delta).get(DELTA_KEY)
    if text is None:
        raise ValueError(f"the safetensors file has no metadata {DELTA_KEY!r}")
    try:
        header = DeltaHeader(**json.loads(text))
    except (ValueError, TypeError, RecursionError) as error:
        raise ValueError(f"the metadata {DELTA_KEY!r} is damaged") from error
    if header.format != FORMAT:
        raise ValueError(f"the delta has format {header.format}; this release reads format {FORMAT}")
    return header


def restore(old: TensorFile, header: DeltaHeader, changes: Stored) -> TensorFile:
    """Return the newer file, from the older one and the changes. Raises ValueError if they do not fit each other."""
    layout = {name: (read_dtype(dtype), read_shape(shape)) for name, (dtype, shape) in header.layout.items()}
    if sum(dtype.itemsize * prod(shape) for dtype, shape in layout.values()) > LARGEST_BYTES:
        raise ValueError(f"its result has more than {LARGEST_BYTES} bytes")
    tensors = Tensors()
    for name in in_order(layout):
        dtype, shape = layout[name]
        expected = predict(name, shape, dtype, old.tensors, tensors)
        tensors[name] = add(expected, changes[name]) if name in changes else expected
    kept = {name: value for name, value in old.entries.items() if name not in header.removed}
    return TensorFile(tensors, {**kept, **header.changed}, old.has_sums)


def read_dtype(name: str) -> np.dtype[np.generic]:
    """Return a type of numbers. Raises ValueError for any other, such as Python objects."""
    dtype = np.dtype(name)
    if dtype.kind not in "biuf":
        raise ValueError(f"{name!r} is not a type of numbers")
    return dtype


def read_shape(lengths: Sequence[int]) -> tuple[int, ...]:
    """Return a shape. Raises ValueError for a negative length, which would lessen the size of all tensors together."""
    if any(length < 0 for length in lengths):
        raise ValueError(f"the shape {list(lengths)} has a negative length")
    return tuple(lengths)


def in_order(names: Iterable[str]) -> list[str]:
    """Return the Gram matrix last, because it is predicted from the counts and sums of the new file."""
    return sorted(names, key=lambda name: (name == GRAM, name))


def hash_file(data: bytes) -> str:
    """Return the SHA-256 in hex."""
    return hashlib.sha256(data).hexdigest()


# tensors


def predict(name: str, shape: tuple[int, ...], dtype: np.dtype[np.generic], old: Stored, new: Stored) -> AnyArray:
    """Return what a tensor of the new file probably is, known from the old one and from the tensors that came before it."""
    values = old.get(name)
    if name == GRAM and len(shape) == 1 and is_sums_file(old) and "sums" in new:
        return predict_gram(old, new).astype(dtype)
    return np.zeros(shape, dtype) if values is None else resize(values, shape).astype(dtype, copy=False)


def is_sums_file(tensors: Stored) -> bool:
    """Return whether tensors are a file of sums."""
    return {"counts", "sums", GRAM} <= tensors.keys()


def predict_gram(old: Stored, new: Stored) -> Integers:
    """Return the old upper triangle plus s s^T / n of each class that has n more examples with the sum s.

    For n = 1 this is exact. It is computed in integers, so that it is the same on every machine.
    """
    width = new["sums"].shape[2]
    gram = resize(unpack_upper(old[GRAM].astype(np.int64), old["sums"].shape[2]), (width, width))
    counts_C = new["counts"][0].astype(np.int64) - resize(old["counts"], new["counts"].shape)[0]
    sums_CD = new["sums"][0].astype(np.int64) - resize(old["sums"], new["sums"].shape)[0]
    for place in np.flatnonzero(counts_C):
        gram += np.multiply.outer(sums_CD[place], sums_CD[place]) // counts_C[place]
    return gram[np.triu_indices(width)]


def resize(values: AnyArray, shape: tuple[int, ...]) -> AnyArray:
    """Return the same values, with zeros where the new shape is longer and cut where it is shorter."""
    if values.shape == shape:
        return values
    resized = np.zeros(shape, values.dtype)
    if len(shape) == values.ndim:
        overlap = tuple(slice(min(one, other)) for one, other in zip(shape, values.shape, strict=True))
        resized[overlap] = values[overlap]
    return resized


def subtract(values: AnyArray, expected: AnyArray) -> AnyArray:
    """Return what `add` adds to `expected`: for integers their difference, for floats planes of bytes, for bytes themselves."""
    if is_bytes(values.dtype):
        return values
    if values.dtype.kind == "i":
        return narrow(values.astype(np.int64) - expected.astype(np.int64))
    bits, signed = view_bits(values), np.dtype(f"i{values.dtype.itemsize}")
    change = (bits - view_bits(expected)).view(signed)
    folded = ((change << 1) ^ (change >> (8 * signed.itemsize - 1))).reshape(
        -1
    )  # small for small changes of both signs
    return np.ascontiguousarray(folded.view(np.uint8).reshape(-1, signed.itemsize).T)


def add(expected: AnyArray, change: AnyArray) -> AnyArray:
    """Return the inverse of `subtract`. Raises ValueError for a change of another shape."""
    if is_bytes(expected.dtype):
        return change.astype(expected.dtype).reshape(expected.shape)
    if expected.dtype.kind == "i":
        return (expected.astype(np.int64) + change.astype(np.int64).reshape(expected.shape)).astype(expected.dtype)
    bits = view_bits(expected)
    folded = np.ascontiguousarray(change.T).view(bits.dtype).reshape(expected.shape)
    unfolded = (folded >> 1) ^ (~(folded & 1) + 1)
    return np.asarray((bits + unfolded).view(expected.dtype))


def is_bytes(dtype: np.dtype[np.generic]) -> bool:
    """Return JSON and flags, of which a difference says nothing."""
    return dtype.kind == "b" or dtype == np.uint8


def view_bits(values: AnyArray) -> AnyArray:
    """Return the bits of values as unsigned integers, so that NaN equals itself."""
    return np.ascontiguousarray(values).view(np.dtype(f"u{values.dtype.itemsize}"))

"""Integer sums as one file, which other programs can read, add up and send back.

    ExactStatistics --write_sums--> safetensors --read_sums--> ExactStatistics        byte for byte the same file for the same sums

    counts  [2, C]             examples of each class: positive, negative
    sums    [2, C, D]          sum of their features
    gram    [D (D + 1) / 2]    upper triangle of sum x x^T over the positive ones, row by row
    metadata "sums"            JSON: format, classes, and how inputs become features

Each tensor has the narrowest of int8, int16, int32 and int64 that holds its values, so that the sums of a few examples are a
small file. Shapes: C classes, D features.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, deserialize
from safetensors.numpy import save

from online.models.contract import AnyArray
from online.models.statistics.exact import ExactStatistics
from online.schemas.json_values import JSON, JSONObject

FORMAT = 1
TENSORS = ("counts", "sums", "gram")
META_FIELDS = {
    "format",
    "classes",
    "model",
    "version",
    "reads",
    "columns",
    "warm",
    "octave",
    "seed",
}  # that devices write
MAX_META_BYTES = 2_000  # beside the classes and the columns
MAX_COLUMN_BYTES = 100  # of a column: its number as text, and three numbers
MAX_HEADER_BYTES = 2_000  # beside the metadata: names, types and places of the tensors, and padding
METADATA_KEY = "sums"
INTEGERS = (np.int8, np.int16, np.int32, np.int64)
DTYPES = {"I8": "<i1", "I16": "<i2", "I32": "<i4", "I64": "<i8"}  # of safetensors, of NumPy


@dataclass(frozen=True, slots=True)
class SumsFile:
    """The contents of a file of sums. meta: the writer's additions to the classes, such as the mapping of inputs to features."""

    statistics: ExactStatistics
    meta: Mapping[str, JSON]


def write_sums(statistics: ExactStatistics, meta: Mapping[str, object]) -> bytes:
    """Return the file of sums. meta: JSON values; `format` and `classes` are added to it."""
    tensors = {
        "counts": statistics.counts,
        "sums": statistics.sums,
        "gram": statistics.gram[np.triu_indices(statistics.width)],
    }
    content = {**meta, "format": FORMAT, "classes": statistics.classes}
    return save({name: narrow(values) for name, values in tensors.items()}, write_metadata(content))


def read_sums(data: bytes) -> SumsFile:
    """Read a file of sums. Raises ValueError for anything else; whether the sums are plausible is not checked."""
    meta, tensors = read_metadata(data), read_tensors(data)
    classes = read_names(meta.get("classes"))
    if meta.get("format") != FORMAT or classes is None:
        raise ValueError(f"a file of sums has format {FORMAT} and a list of different classes in its metadata")
    missing = [name for name in TENSORS if name not in tensors]
    if missing:
        raise ValueError(f"the file of sums has no integer tensor {missing[0]!r}")
    counts, sums, upper = (tensors[name] for name in TENSORS)
    width = sums.shape[-1] if sums.ndim == 3 else -1
    expected = {"counts": (2, len(classes)), "sums": (2, len(classes), width), "gram": (width * (width + 1) // 2,)}
    for name, shape in expected.items():
        if tensors[name].shape != shape:
            raise ValueError(f"tensor {name!r} has the shape {list(tensors[name].shape)}, not {list(shape)}")
    gram = unpack_upper(upper, width)
    statistics = ExactStatistics.from_tensors(classes, {"counts": counts, "sums": sums, "gram": gram})
    own = {name: value for name, value in meta.items() if name not in ("format", "classes")}
    return SumsFile(statistics, own)


def check_contents(data: bytes) -> None:
    """Raise ValueError for a file that holds anything beside sums: all of a file is stored, for as long as its sums count."""
    for name, entry in deserialize(data):  # type: ignore[no-untyped-call]
        if name not in TENSORS or entry["dtype"] not in DTYPES:
            raise ValueError(
                f"a file of sums has the integer tensors {', '.join(TENSORS)} and no others, such as {name[:80]!r} of "
                f"{entry['dtype']}"
            )
    texts, meta = read_texts(data), read_metadata(data)
    if foreign := sorted({*texts} - {METADATA_KEY}) + sorted({*meta} - META_FIELDS):
        raise ValueError(f"the metadata of a file of sums has no field {foreign[0][:80]!r}")
    length, needed = int.from_bytes(data[:8], "little"), 2 * len(texts[METADATA_KEY].encode()) + MAX_HEADER_BYTES
    if length > needed:
        raise ValueError(
            f"the header of the file of sums has {length:,} bytes, where its contents need at most {needed:,}"
        )
    described = json.dumps({name: value for name, value in meta.items() if name not in ("classes", "columns")})
    columns = meta.get("columns") or []
    most = MAX_COLUMN_BYTES * len(columns) if isinstance(columns, list) else 0
    if len(described) > MAX_META_BYTES or len(json.dumps(columns)) > MAX_META_BYTES + most:
        raise ValueError(
            f"the metadata of the file of sums is too long: more than {MAX_META_BYTES:,} bytes beside the classes"
        )


def read_metadata(data: bytes) -> JSONObject:
    """Return the metadata of a file of sums. Raises ValueError."""
    text = read_texts(data).get(METADATA_KEY)
    if text is None:
        raise ValueError(f"the safetensors file has no metadata {METADATA_KEY!r}")
    try:
        meta = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"metadata {METADATA_KEY!r} is not JSON") from error
    if not isinstance(meta, dict):
        raise ValueError(f"metadata {METADATA_KEY!r} must be a JSON object")
    return meta


def write_metadata(meta: Mapping[str, object]) -> dict[str, str]:
    """Return the metadata of a safetensors file of sums."""
    return {METADATA_KEY: json.dumps(meta, separators=(",", ":"), sort_keys=True)}


def read_texts(data: bytes) -> dict[str, str]:
    """Return the metadata of any safetensors file. Raises ValueError."""
    length = int.from_bytes(data[:8], "little")
    try:
        header: JSON = json.loads(data[8 : 8 + length]) if length <= len(data) else None
        texts = header.get("__metadata__", {})
    except (ValueError, AttributeError, RecursionError) as error:
        raise ValueError("not a safetensors file") from error
    if not isinstance(texts, dict) or not all(isinstance(text, str) for text in texts.values()):
        raise ValueError("the metadata of a safetensors file are texts")
    return texts


def read_tensors(data: bytes) -> dict[str, NDArray[np.int64]]:
    """Return the integer tensors of a safetensors file as int64. Raises ValueError."""
    try:
        entries = deserialize(data)  # type: ignore[no-untyped-call]
    except SafetensorError as error:
        raise ValueError(f"not a safetensors file: {error}") from error
    tensors = dict[str, NDArray[np.int64]]()
    for name, entry in entries:
        dtype = DTYPES.get(entry["dtype"])
        if dtype is not None:
            tensors[name] = np.frombuffer(entry["data"], dtype).reshape(entry["shape"]).astype(np.int64)
    return tensors


def read_names(classes: object) -> list[str] | None:
    """Return the names of classes; None for anything but a list of different texts."""
    if not isinstance(classes, list) or not all(isinstance(name, str) for name in classes):
        return None
    return classes if len({*classes}) == len(classes) else None


def narrow(values: NDArray[np.int64]) -> AnyArray:
    """Return the same integers in the narrowest type that holds them."""
    low, high = (int(values.min()), int(values.max())) if values.size else (0, 0)
    fits = (each for each in INTEGERS if np.iinfo(each).min <= low and high <= np.iinfo(each).max)
    return np.ascontiguousarray(values, next(fits))


def unpack_upper(upper: NDArray[np.int64], width: int) -> NDArray[np.int64]:
    """Return the symmetric matrix [width, width] of an upper triangle, which is given row by row."""
    gram = np.zeros((width, width), np.int64)
    places = np.triu_indices(width)
    gram[places] = upper
    gram.T[places] = upper
    return gram

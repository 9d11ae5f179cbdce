"""The inputs of an exported graph, and its first nodes, which compute the features that the model learned from.

    text    ids int64 [B, T]                              -> MiniLM -> int8 features [B, 384]
    vector  numbers float64 [B, N]                        -> scales by powers of two, rint, clip -> bumps
    table   numbers float64 [B, N], categories [B, G]     -> the same, and 127 for each category that a row has

Features are float32 tensors of whole numbers. Their order differs from that of the served ones: all values, then each bump of
all numbers, then the categories. `Features.order` says which served feature each one is.

Shapes: B rows, T tokens, N numbers, G categories, F features.
"""

import hashlib
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from online.errors import CannotExport
from online.models.contract import AnyArray
from online.models.encoders import minilm
from online.models.encoders.columns import KNOTS, OVERFLOW_COLUMNS, Column, Columns, column_name
from online.models.encoders.text import TEXT_SCALE, extract_text
from online.models.encoders.values import Value
from online.models.inputs import Inputs
from online.models.kinds import Input
from online.plugins.export.graph import ExportGraphBuilder, GraphTensor
from online.schemas.json_values import JSON

if TYPE_CHECKING:
    from tokenizers import Tokenizer

IDS = GraphTensor(
    "ids", "int64", ("B", "T"), "Token ids of texts of the same number of tokens, by tokenizer.json, at most 256 each."
)
ROWS = GraphTensor("rows", "float32", ("B", 1), "Only the number of rows is read: every input has the same answer.")
NUMBERS, CATEGORIES = "numbers", "categories"
LARGEST_EXPONENT = {"float64": 1022, "float32": 126}  # of a power of two that the type holds


@dataclass(frozen=True, slots=True)
class NumberScale:
    """The scale of a number: most of its values lie within `spread` of `centre`."""

    name: str
    centre: float
    spread: float


@dataclass(frozen=True)
class InputSchema:
    """The inputs of an exported graph. numbers: the columns of the input `numbers`, in order. categories: those of `categories`.

    overflow: whether names that are in neither share the categories "overflow-K=", with K = crc32(name) mod 16.
    """

    kind: Input
    tensors: tuple[GraphTensor, ...]
    numbers: tuple[NumberScale, ...] = ()
    categories: tuple[str, ...] = ()
    overflow: bool = False

    def encode(self, instances: Sequence[JSON]) -> list[dict[str, AnyArray]]:
        """Return the inputs of the calls that answer instances: one for all rows, or one for each text."""
        if self.tensors == (ROWS,):
            return [{ROWS.name: np.zeros((len(instances), 1), np.float32)}]
        if self.kind == "text":
            encodings = self._tokenizer.encode_batch(
                [" ".join((extract_text(each) or "").split()) for each in instances]
            )
            return [{IDS.name: np.array([encoding.ids], np.int64)} for encoding in encodings]
        found = self._encode_vectors(instances) if self.kind == "vector" else self._encode_rows(instances)
        return [{spec.name: found[spec.name].astype(spec.dtype) for spec in self.tensors}]

    @cached_property
    def _tokenizer(self) -> "Tokenizer":
        return minilm.tokenizer()

    def _encode_vectors(self, instances: Sequence[object]) -> dict[str, AnyArray]:
        return {NUMBERS: np.array(instances, np.float64).reshape(len(instances), -1)}

    def _encode_rows(self, rows: Sequence[Mapping[str, Value | bool | None]]) -> dict[str, AnyArray]:
        number_of = {number.name: place for place, number in enumerate(self.numbers)}
        category_of = {name: place for place, name in enumerate(self.categories)}
        numbers_BN = np.full((len(rows), len(number_of)), np.nan)
        categories_BG = np.zeros((len(rows), len(category_of)), np.float32)
        for at, row in enumerate(rows):
            for name, value in row.items():
                if value is None:
                    continue
                read = str(value) if isinstance(value, (str, bool)) else float(value)
                key = column_name(name, read)
                if key in number_of and isinstance(read, float):
                    numbers_BN[at, number_of[key]] = read
                    continue
                if self.overflow and key not in category_of:
                    key = f"overflow-{zlib.crc32(key.encode()) % OVERFLOW_COLUMNS}="
                if key in category_of:
                    categories_BG[at, category_of[key]] = 1
        return {NUMBERS: numbers_BN, CATEGORIES: categories_BG}


@dataclass(frozen=True, slots=True)
class Features:
    """The value of the features [B, F], and the served feature that each of them is."""

    value: str
    order: NDArray[np.intp]
    schema: InputSchema

    def arrange(self, rows_FX: AnyArray) -> AnyArray:
        """Return the rows of a table of weights in the order of these features; features without weights get zeros."""
        missing = int(self.order.max(initial=-1)) + 1 - len(rows_FX)
        padded = np.pad(rows_FX, [(0, max(missing, 0)), *[(0, 0)] * (rows_FX.ndim - 1)])
        arranged: AnyArray = padded[self.order]
        return arranged


def read_texts(graph: ExportGraphBuilder) -> Features:
    """Return MiniLM, with the weights that the graph was created with, and its quantisation."""
    scaled = graph.op("Mul", graph.encode(IDS.name), graph.constant("text_scale", TEXT_SCALE, "float32"))
    rounded = graph.clip(graph.op("Round", scaled), "feature", 127, "float32")
    return Features(rounded, np.arange(minilm.WIDTH), InputSchema("text", (IDS,)))


def read_inputs(graph: ExportGraphBuilder, inputs: Inputs) -> Features:
    """Return the features of a head on exact statistics."""
    if inputs.kind == "text":
        return read_texts(graph)
    return read_columns(graph, inputs.columns, inputs.kind == "table")


def read_columns(graph: ExportGraphBuilder, columns: Columns, is_table: bool) -> Features:
    """Return the features of vectors or tables, exactly as `Columns` computes them. Raises CannotExport if there are no columns."""
    numbers = [place for place, column in enumerate(columns.columns) if column.number and not column.is_band]
    categories = [place for place, column in enumerate(columns.columns) if not column.number]
    starts = find_starts(columns)
    blocks, order = list[str](), list[int]()
    if numbers:
        q, present = quantise_numbers(graph, columns, numbers, is_table)
        bumps = [make_bump(graph, q, knot) for knot in KNOTS] if columns.bumps else []
        for at, block in enumerate([q, *bumps]):
            blocks.append(block if present is None else graph.op("Mul", block, present))
            order += [starts[place] + at for place in numbers]
    if columns.bands:
        read, served = read_bands(graph, columns, numbers, is_table)
        blocks, order = [*blocks, *read], [*order, *served]
    if categories:
        blocks.append(graph.op("Mul", CATEGORIES, graph.constant("highest", 127, "float32")))
        order += [starts[place] for place in categories]
    schema = describe_columns(columns, is_table, graph.wide, numbers, categories)
    return Features(join(graph, blocks), np.array(order, np.intp), schema)


def join(graph: ExportGraphBuilder, blocks: Sequence[str]) -> str:
    """Return blocks [B, D] side by side. Raises CannotExport if there are none."""
    if not blocks:
        raise CannotExport("the model has learned no column of a table yet, so there is nothing that it could read")
    return blocks[0] if len(blocks) == 1 else graph.op("Concat", *blocks, axis=1)


def find_starts(columns: Columns) -> list[int]:
    """Return the first served feature of each column."""
    widths = [len(column.parts(columns.bumps)) for column in columns.columns]
    return [0, *np.cumsum(widths).tolist()][:-1]


def quantise_numbers(
    graph: ExportGraphBuilder, columns: Columns, places: Sequence[int], is_table: bool
) -> tuple[str, str | None]:
    """clip(rint(x * 2^exponent) - centre) [B, N], and 1 where a number is present; None if all always are."""
    chosen = [columns.columns[place] for place in places]
    check_scales(chosen, graph.wide)
    x, present = NUMBERS, None
    if is_table:
        x, present = split_missing(graph, NUMBERS)
    steps = count_steps(graph, x, chosen)
    return graph.cast(graph.clip(steps, "quanta", 127), "float32"), present


def check_scales(columns: Sequence[Column], wide: str) -> None:
    """Raise CannotExport for a scale that numbers of this type cannot be multiplied by."""
    if max(abs(column.exponent) for column in columns) > LARGEST_EXPONENT[wide]:
        raise CannotExport(f"the scale of a number does not fit into {wide}")


def count_steps(graph: ExportGraphBuilder, x: str, columns: Sequence[Column], prefix: str = "") -> str:
    """rint(x * 2^exponent) - centre [B, N]: how many quanta each number lies from the centre of its column."""
    scales = np.exp2([float(column.exponent) for column in columns])
    scaled = graph.op("Mul", x, graph.constant(f"{prefix}scales", scales, graph.wide))
    centres = graph.constant(f"{prefix}centres", [float(column.centre) for column in columns], graph.wide)
    return graph.op("Sub", graph.op("Round", scaled), centres)


def read_bands(
    graph: ExportGraphBuilder, columns: Columns, numbers: Sequence[int], is_table: bool
) -> tuple[list[str], list[int]]:
    """Return the features of bands, each [B, K], and the served feature of each: zero where a number is outside its band."""
    place_of = {columns.columns[number].name: at for at, number in enumerate(numbers)}
    bands = [place for place, column in enumerate(columns.columns) if column.is_band]
    chosen, starts = [columns.columns[place] for place in bands], find_starts(columns)
    check_scales(chosen, graph.wide)
    x, present = split_missing(graph, NUMBERS) if is_table else (NUMBERS, None)
    whose = graph.constant("band_numbers", [place_of[band.name] for band in chosen], "int64")
    steps = count_steps(graph, graph.op("Gather", x, whose, axis=1), chosen, "band_")
    q = graph.clip(steps, "quanta", 127)
    inside = graph.cast(graph.op("Equal", steps, q), "float32")
    if present is not None:
        inside = graph.op("Mul", inside, graph.op("Gather", present, whose, axis=1))
    q = graph.cast(q, "float32")
    read = [
        q,
        *(make_bump(graph, q, knot) for knot in (KNOTS if columns.bumps else ())),
        graph.constant("highest", 127, "float32"),
    ]
    blocks = [graph.op("Mul", each, inside) for each in read]
    return blocks, [starts[place] + at for at in range(len(read)) for place in bands]


def split_missing(graph: ExportGraphBuilder, numbers: str) -> tuple[str, str]:
    """Return the numbers with 0 for each missing one (NaN), and 1.0 where one is present."""
    missing = graph.op("IsNaN", numbers)
    return graph.op("Where", missing, graph.scalar("zero", 0), numbers), graph.cast(graph.op("Not", missing), "float32")


def make_bump(graph: ExportGraphBuilder, q: str, knot: int) -> str:
    """max(127 * (96 - |q - knot|) // 96, 0): each product is exact, and no quotient is near the next whole number."""
    distance = graph.op("Abs", graph.add(q, f"knot_{knot}", -knot))
    half_width = graph.constant("half_width", 96, "float32")
    height = graph.op("Mul", graph.op("Sub", half_width, distance), graph.constant("highest", 127, "float32"))
    return graph.op("Relu", graph.op("Floor", graph.op("Div", height, half_width)))


def describe_columns(
    columns: Columns, is_table: bool, wide: str, numbers: Sequence[int], categories: Sequence[int]
) -> InputSchema:
    """Return the inputs of a model of vectors or tables, with their scales."""
    scales = tuple(
        NumberScale(c.name, float(np.ldexp(float(c.centre), -c.exponent)), float(np.ldexp(64.0, -c.exponent)))
        for c in (columns.columns[place] for place in numbers)
    )
    names = tuple(columns.columns[place].name for place in categories)
    full = is_table and columns.is_full
    return describe_numbers(is_table, wide, scales, names, full)


def describe_numbers(
    is_table: bool, wide: str, numbers: tuple[NumberScale, ...], categories: tuple[str, ...], overflow: bool
) -> InputSchema:
    """Return the schema of vectors or tables. Inputs without columns are left out."""
    missing = ", NaN where it has none" if is_table else ""
    specs = (
        GraphTensor(
            NUMBERS, wide, ("B", len(numbers)), f"The numbers of each row, in the order of their names{missing}."
        ),
        GraphTensor(
            CATEGORIES,
            "float32",
            ("B", len(categories)),
            'For each "name=value" of categories: 1 where a row has it, else 0.',
        ),
    )
    tensors = tuple(spec for spec in specs if spec.shape[1])
    return InputSchema("table" if is_table else "vector", tensors, numbers, categories, overflow)


def sha256_of_tokenizer() -> str:
    """Return the hash of the tokenizer's file."""
    return hashlib.sha256(tokenizer_file().read_bytes()).hexdigest()


def tokenizer_file() -> Path:
    """Return the path of the tokenizer."""
    return minilm.package_folder() / "tokenizer.json"

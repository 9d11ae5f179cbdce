"""Versions in formats that answer elsewhere."""

from typing import Literal

from pydantic import Field

from online.schemas.fields import Wire


class TensorDetails(Wire):
    """One input or output of an exported file."""

    name: str
    dtype: Literal["float32", "float64", "int64"]
    shape: list[int | str] = Field(description="Numbers, and names of dimensions that differ from call to call.")
    meaning: str


class ExportManifest(Wire):
    """The manifest of an exported file: its inputs, its outputs, and how near they are to the served answers."""

    manifest_format: int
    model: str
    version: int
    kind: str
    format: str
    task: Literal["classification", "regression", "ranking"]
    learned_until: int
    state_sha256: str = Field(description="Digest of what was learned.")
    weights_sha256: str
    feature_epoch: str
    input: Literal["text", "vector", "table"]
    inputs: list[TensorDetails]
    outputs: list[TensorDetails]
    classes: list[str] = Field(description="What the columns of `chances` mean, in order; empty for numbers.")
    numbers: list[str] = Field(description="The columns of the input `numbers`, in order.")
    categories: list[str] = Field(description='The columns of the input `categories`, each "name=value", in order.')
    shares_overflow: bool = Field(
        description='Whether other names share the categories "overflow-K=", where K is crc32(name) mod 16.'
    )
    preprocessing: str = Field(description="What is left to do before the graph, which does the rest.")
    tokenizer_sha256: str = Field(description="Of tokenizer.json; empty if no text is read.")
    temperature: float | None = Field(description="By which scores are divided in the graph.")
    abstain_below: float
    file: str
    sha256: str = Field(description="Of the file; its ETag.")
    bytes: int
    int8_products: int | None = Field(
        None,
        description="Products by matrices of int8, and look-ups in them; 0: no matrix is large enough, and the file is in float32 "
        "throughout. Only of onnx-int8.",
    )
    golden_count: int = Field(
        description="Inputs on which the file was compared with the served model, one by one and together."
    )
    largest_difference: float = Field(
        description="Of a probability; of numbers, as a share of the largest number that was served."
    )
    agreement_ratio: float = Field(description="The share of equal choices, or of numbers within one percent.")
    labelled_count: int = Field(description="Held-out examples on which both were scored; 0 if none are kept.")
    served_accuracy: float | None
    accuracy: float | None = Field(description="Of the exported file.")

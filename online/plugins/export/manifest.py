"""The JSON document beside an exported file: what it is, what it reads, what it answers, and how near to the served answer."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from online.models.kinds import Input, Task
from online.plugins.export.graph import GraphTensor
from online.plugins.export.inputs import InputSchema
from online.schemas.json_values import JSONObject

FORMAT = 1
METADATA_KEY = "online"


@dataclass(frozen=True, slots=True)
class ExportSubject:
    """The exported version of a model. state_sha256: of the learned state; weights_sha256: of the served files."""

    model: str
    version: int
    kind: str
    learned_until: int
    state_sha256: str
    weights_sha256: str
    feature_epoch: str


@dataclass(frozen=True, slots=True)
class ExportAccuracy:
    """The agreement of an exported file with the served model on the golden inputs, one by one and together.

    largest_difference: of a class's probability; of numbers, as a share of the largest served one. How large it is in each format is
    measured in docs/how-to/export-a-model.md. agreement_ratio: share of inputs with the same choice in both ways. labelled_count, served_accuracy, accuracy:
    on held-out examples whose inputs the version keeps.
    """

    golden_count: int
    largest_difference: float
    agreement_ratio: float
    labelled_count: int = 0
    served_accuracy: float | None = None
    accuracy: float | None = None


@dataclass(frozen=True, slots=True)
class ExportDescription:
    """The description that is written into an exported file as well. It follows from the version alone, so that the same one gives the same bytes.

    classes: what the columns of `chances` mean, in order; empty for numbers. numbers, categories: the columns of those inputs.
    shares_overflow: whether other names share the categories "overflow-K=", K = crc32(name) mod 16. preprocessing: what is left to
    do before the graph, which does the rest. tokenizer_sha256: of tokenizer.json; empty if no text is read.
    """

    subject: ExportSubject
    format: str
    task: Task
    input: Input
    inputs: tuple[GraphTensor, ...]
    outputs: tuple[GraphTensor, ...]
    classes: tuple[str, ...]
    numbers: tuple[str, ...]
    categories: tuple[str, ...]
    shares_overflow: bool
    preprocessing: str
    tokenizer_sha256: str
    temperature: float | None
    abstain_below: float

    def to_json(self) -> str:
        """Return the description as canonical JSON."""
        return json.dumps(describe(self), sort_keys=True, ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class ExportDocument:
    """The whole document. file, sha256, bytes: of the exported file. measured: None for a file that does not answer.

    int8_products: products by matrices of int8, and look-ups in them; 0: the file is in float32 throughout. None for the
    formats that have none.
    """

    description: ExportDescription
    file: str
    sha256: str
    bytes: int
    measured: ExportAccuracy | None
    int8_products: int | None = None

    def to_json(self) -> JSONObject:
        """Return the manifest as JSON values."""
        document = describe(self.description)
        measured = {} if self.measured is None else asdict(self.measured)
        file = {"file": self.file, "sha256": self.sha256, "bytes": self.bytes}
        integers = {} if self.int8_products is None else {"int8_products": self.int8_products}
        return {**document, **file, **integers, **measured}


def describe(description: ExportDescription) -> JSONObject:
    """Return a description as one JSON object."""
    fields = asdict(description)
    subject: JSONObject = fields.pop("subject")
    return {"manifest_format": FORMAT, **subject, **fields}


PREPROCESSING: Mapping[Input, str] = {
    "text": "Join the words of a text by single spaces and give it to tokenizer.json, cut to 256 tokens and not padded. "
    "Answer texts one by one, or together those with the same number of tokens.",
    "vector": "None: the numbers as they are.",
    "table": "A number goes to its column of `numbers`, NaN where a row has none. A text or a boolean (True, False) sets its "
    'category "name=value" to 1. Any other number or category is not read, but where `shares_overflow` is true, its name or "name=value" '
    'sets the category "overflow-K=" to 1, K = crc32 of it in UTF-8, modulo 16.',
}


def name_columns(schema: InputSchema) -> tuple[str, ...]:
    """Return the names of the number columns."""
    return tuple(number.name for number in schema.numbers)

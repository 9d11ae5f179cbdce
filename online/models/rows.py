"""What a model that learns labels from vectors, tables' rows or encoded texts asks of an example."""

from online.models import BadExample, Example
from online.models.encoder import TEXT_WIDTH
from online.models.inputs import check_row


def check(example: Example, kind: str, input: str, size: int) -> None:
    """Raises BadExample with what is wrong. input: text, vector or table; size: numbers in a vector."""
    if example.kind not in ("label", "reward"):
        raise BadExample(f"a {kind} model learns labels and rewards, not a {example.kind}")
    if not example.label:
        raise BadExample("there is no label to learn: the answer it refers to had none")
    expected = {"text": TEXT_WIDTH, "vector": 8 * size}.get(input)
    if expected is not None and len(example.features) != expected:
        raise BadExample(f"features of {len(example.features)} bytes where {expected} are expected")
    if input == "table":
        check_row(example.features)

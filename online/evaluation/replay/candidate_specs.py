"""One of the models that a replay compares."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from online.schemas.json_values import JSON
from online.settings import Drift


@dataclass(frozen=True, slots=True)
class CandidateSpec:
    """A model to replay. every: the number of events that it learns together (1: each at once).

    from_operator: whether it comes from a command line of the operator, who may name code of their own. baseline:
    whether a simple model runs beside it, to tell when it is far behind.
    """

    kind: str
    options: Mapping[str, JSON] = field(default_factory=dict)
    name: str = ""
    device: str = "cpu"
    drift: Drift | None = None
    every: int = 1
    from_operator: bool = False
    baseline: bool = False

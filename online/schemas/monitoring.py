"""Drift alarms, refused feedback and the prequential curve."""

from typing import Literal

from pydantic import Field

from online.schemas.events import EventKind
from online.schemas.fields import Wire


class DriftAlarm(Wire):
    """An alarm of a drift detector: what changed (the loss, the loss of a class, the features), since when, by how much."""

    offset: int = Field(description="Of the feedback that raised the alarm.")
    what: Literal["loss", "class", "features"]
    label: str | None
    projection: int | None = Field(description="Of the features: the direction that changed most.")
    since: int = Field(description="The approximate offset where the change began.")
    before: float = Field(description="The mean loss before; of the features, their mean in the direction.")
    after: float
    size: float = Field(description="after - before; of the features, the Kolmogorov-Smirnov distance.")
    window: int = Field(description="The number of entries that the detector compared.")
    noted_at: str


class DriftAnswer(Wire):
    drift: list[DriftAlarm]


class RefusedFeedback(Wire):
    """An event that the model could not learn. It was skipped."""

    offset: int
    id: str
    kind: EventKind
    label: str = Field(description="The class or reply that the event names.")
    reason: str
    created_at: str | None


class RefusedAnswer(Wire):
    refused: list[RefusedFeedback]


class Tally(Wire):
    judged: int = Field(description="The number of outcomes that judge its answers.")
    total: float = Field(description="How many of those were right; of numbers, the sum of the absolute errors.")


class CurvePoint(Wire):
    """The outcomes after the previous point, up to number `until`. counts, sums: by the name of the tally."""

    until: int
    offset: int = Field(description="Of the last feedback among them.")
    began: str | None
    ended: str | None
    counts: dict[str, int]
    sums: dict[str, float]


class CurveAnswer(Wire):
    """How often the served answers were right, compared with baselines that see the same feedback.

    The baselines are `no_change` (the last class again) and `majority` (the most frequent class; of numbers `mean`). An outcome
    is counted when it arrives, even if it is retracted later, so that a replay of the log counts the same.
    """

    measure: Literal["right", "error"]
    counted_until: int = Field(
        description="Everything up to this offset is counted; it is below `head` while a long log is being counted."
    )
    head: int
    rated: int = Field(description="The number of feedbacks about predictions that had an answer.")
    right: int
    feedback: int = Field(description="The number of all feedbacks.")
    feedback_per_minute: float = Field(description="In the last minute.")
    tallies: dict[str, Tally]
    points: list[CurvePoint]

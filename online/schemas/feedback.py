"""Feedback about a prediction or an input, its receipt, and what became of it."""

from typing import Literal

from pydantic import Field

from online.schemas.fields import Id, Label, Name, NativeRequest, Text, Wire
from online.schemas.json_values import JSON, JSONObject

CorrectionScope = Literal["reply", "question"]
FeedbackStatus = Literal["accepted", "learned", "refused", "retracted", "quarantined", "held", "rejected"]


class FeedbackItem(NativeRequest):
    """One feedback: exactly one of reward, label and correction, about a prediction or about an input."""

    id: Id | None = Field(
        None, description="An idempotency key: the same feedback with the same id has no second effect."
    )
    prediction_id: Name | None = None
    input: JSON = Field(None, description="An instance, instead of a prediction_id.")
    choice: Label | None = Field(
        None,
        description="Of a reward for an input, the reply id or class that it judges: what a device answered without the "
        "service. It does not count as an answer of the service.",
    )
    reward: float | None = Field(None, ge=0, le=1, allow_inf_nan=False)
    label: Label | None = Field(None, description="The right class, reply id or number.")
    correction: Text | None = Field(
        None, description="The text of the reply it should have given. A new text becomes a new reply."
    )
    scope: CorrectionScope | None = Field(
        None,
        description="Of a correction, how far it reaches. reply: it also supersedes the reply that was given, for "
        "questions like this one. question: it changes near-duplicates of this question only. Without it, the "
        "correction is learned as an example of the right reply.",
    )
    user: Name | None = None
    reason: str | None = Field(None, max_length=200)
    comment: str | None = Field(None, max_length=2_000)


class FeedbackRequest(NativeRequest):
    """Feedback to give; all of it is accepted, or none."""

    feedback: list[FeedbackItem] = Field(min_length=1)


class Receipt(Wire):
    """The receipt of feedback that is stored."""

    id: str
    offset: int
    status: FeedbackStatus


class FeedbackAnswer(Wire):
    """The receipts, in the order of the items."""

    receipts: list[Receipt]


class FeedbackOutcome(Receipt):
    """The outcome of one feedback."""

    version: str | None = None
    reason: str | None = None
    freshness_ms: float | None = None


STEPS = "retract, unlearn, void, copy, relearn, snapshots, done"


class ErasureAnswer(Wire):
    """An erasure from one model that has begun: how much was retracted and blanked at once."""

    id: str = Field(description="`GET /v1/erasures/{id}` tells how far it is, and gives the statement in the end.")
    feedback: int
    predictions: int
    offset: int = Field(
        description="Of the last retraction: no answer of a version that has learned it depends on the user. "
        "0: there was nothing."
    )


class ErasureStarted(Wire):
    """An erasure from several models that has begun."""

    id: str = Field(description="`GET /v1/erasures/{id}` tells how far it is, and gives the statement in the end.")
    feedback: int
    predictions: int
    offsets: dict[str, int] = Field(description="Of each model, the offset of the last retraction; 0: there was none.")


class ErasureStatus(Wire):
    """The state of an erasure. statement: signed; None until it is done."""

    id: str
    state: Literal["running", "done"]
    created_at: str
    ended_at: str | None = None
    step: str = Field(description="Of the whole: models, files, database, done.")
    models: dict[str, str] = Field(description=f"The step of each model: {STEPS}.")
    statement: JSONObject | None = Field(
        None,
        description="Signed: what was removed from where, and each model's state before and after. Null until done.",
    )

"""Feedback about a prediction or an input, its receipt, and what became of it."""

from typing import Literal

from pydantic import Field

from online.schemas.fields import Id, Label, Name, NativeRequest, Text, Wire
from online.schemas.json_values import JSON, JSONObject

CorrectionScope = Literal["reply", "question"]
RewardSignal = Literal["preference", "judge", "regenerate", "retry", "edit", "copy"]
FeedbackStatus = Literal["accepted", "learned", "refused", "retracted", "quarantined", "held", "rejected"]


class RouteOutcome(NativeRequest):
    """The cost and time of an answer of a route."""

    cost: float = Field(ge=0, le=1e6, allow_inf_nan=False, description="US dollars.")
    seconds: float = Field(0.0, ge=0, le=1e6, allow_inf_nan=False, description="Until the answer was complete.")
    first_token_seconds: float | None = Field(None, ge=0, le=1e6, allow_inf_nan=False)
    unit: float | None = Field(
        None,
        gt=0,
        le=1e6,
        allow_inf_nan=False,
        description="The level of the route's prices, by which the cost is divided.",
    )
    tokens_in: int | None = Field(None, ge=0, le=10**9)
    tokens_out: int | None = Field(None, ge=0, le=10**9)
    tokens_cached: int | None = Field(None, ge=0, le=10**9)
    failure: str | None = Field(None, max_length=40, description="Why there was no answer, or only a part of one.")


class FeedbackItem(NativeRequest):
    """One feedback: exactly one of reward, label, correction and outcome, about a prediction or about an input."""

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
    signal: RewardSignal | None = Field(
        None, description="Of a reward, what it was read from; a router counts each by a weight. Without it: a thumb."
    )
    outcome: RouteOutcome | None = Field(
        None, description="Of a router's answer, what it took; needs the scope operate. It is not a rating."
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

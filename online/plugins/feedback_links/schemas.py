"""The body of feedback by a signed URL."""

from pydantic import Field

from online.schemas.feedback import CorrectionScope
from online.schemas.fields import Label, NativeRequest, Text


class LinkedFeedback(NativeRequest):
    """Feedback about the prediction of a feedback_url: exactly one of reward, label and correction."""

    reward: float | None = Field(None, ge=0, le=1, allow_inf_nan=False)
    label: Label | None = None
    correction: Text | None = None
    scope: CorrectionScope | None = None
    reason: str | None = Field(None, max_length=200)
    comment: str | None = Field(None, max_length=2_000)

"""Held feedback: what waits for a curator."""

from typing import Any, Literal

from pydantic import Field

from online.schemas.feedback import CorrectionScope
from online.schemas.fields import Wire


class HeldItem(Wire):
    """One held item: exactly one of reward, label and correction is set."""

    id: str
    question: Any = Field(description="The instance that it is about.")
    reward: float | None = None
    label: str | None = None
    correction: str | None = None
    scope: CorrectionScope | None = None
    caller: str
    user: str | None
    reason: Literal["review", "influence", "quarantine"] = Field(
        description="review: visitors' teaching is reviewed; influence: its caller has said as much as one caller may; "
        "quarantine: its caller is quarantined."
    )
    created_at: str


class HeldAnswer(Wire):
    """Held feedback that waits for a decision."""

    held: list[HeldItem]
    count: int = Field(description="How many wait; the list has the oldest of them.")

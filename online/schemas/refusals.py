"""Feedback that could not be learned."""

from pydantic import Field

from online.schemas.events import EventKind
from online.schemas.fields import Wire


class RefusedFeedback(Wire):
    """An event that the model could not learn. It was skipped."""

    offset: int
    id: str
    kind: EventKind
    label: str = Field(description="The class or reply that the event names.")
    reason: str
    created_at: str | None


class RefusedGroup(Wire):
    """Refused events whose reasons differ in values only."""

    reason: str = Field(description="Of the newest of them.")
    count: int
    first_offset: int
    last_offset: int


class RefusedAnswer(Wire):
    """Feedback that a model could not learn."""

    count: int = Field(description="How many events the model could not learn.")
    groups: list[RefusedGroup] = Field(
        description="The newest 10,000 of them at most, by their reasons; the largest group first, 20 at most."
    )
    refused: list[RefusedFeedback] = Field(description="The newest of them.")

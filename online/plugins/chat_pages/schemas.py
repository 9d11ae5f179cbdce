"""Feedback that other chat pages send: events of Open WebUI, scores in Langfuse's shape.

Other fields are ignored.
"""

from typing import Literal

from pydantic import Field

from online.schemas.fields import Name, Wire
from online.schemas.json_values import JSON, JSONObject


class OpenWebuiSubject(Wire):
    """The chat or message of an event."""

    id: str | int | None = None


class OpenWebuiEvent(Wire):
    """An event, as the webhooks of Open WebUI send it."""

    event: str
    subject: OpenWebuiSubject | None = None


class LangfuseScore(Wire):
    """A score in Langfuse's shape, with the fields that LibreChat sends."""

    id: Name | None = None
    traceId: Name | None = Field(None, description="The trace that is scored. A score of anything else is ignored.")
    name: str
    value: JSON = Field(
        None, description="Of the score `user-feedback`: 1 for a thumb up, 0 for a thumb down, null for none."
    )
    comment: str | None = None
    metadata: JSONObject | None = None


class ScoreEvent(Wire):
    """An event of Langfuse's ingestion. Only scores (`score-create`) are read."""

    id: str
    type: str
    body: JSON = None


class ScoreEvents(Wire):
    """Scores in Langfuse's batch format."""

    batch: list[ScoreEvent]


class IntegrationAnswer(Wire):
    """The outcome of the feedback.

    waiting: it will be looked up again later. ignored: it is not about a prediction of this service.
    """

    id: str
    status: Literal["accepted", "retracted", "ignored", "waiting"]

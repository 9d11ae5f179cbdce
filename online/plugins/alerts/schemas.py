"""Alerts: where they are sent, how that goes, and the newest ones."""

from pydantic import Field

from online.schemas.fields import Wire
from online.schemas.json_values import JSONObject


class EndpointState(Wire):
    """endpoint: the address of a webhook, without its path, which may be secret."""

    endpoint: str
    waiting: int = Field(description="Alerts that are not delivered yet.")
    delivered_at: str | None = Field(description="When the last one was delivered.")
    error: str | None = Field(description="Of the last attempt that failed.")
    failed_at: str | None


class SentAlert(Wire):
    """An alert that was sent, or is being sent."""

    id: str
    event: str
    model: str | None = Field(description="Null for the service itself.")
    at: str
    sentence: str
    figures: JSONObject


class AlertsAnswer(Wire):
    """The alerts of a model and of the service, and how their delivery goes."""

    endpoints: list[EndpointState]
    is_signed: bool = Field(description="Whether there is an alert_secret.")
    min_interval_s: float
    alerts: list[SentAlert] = Field(description="The newest ones about the model and about the service, newest first.")


class TestedEndpoint(Wire):
    """The result of a test of one webhook."""

    endpoint: str
    status: int | None = Field(description="Of the HTTP answer; null without one.")
    error: str | None = Field(description="Null if the alert was accepted.")
    answer: str = Field(description="The first 300 characters of what the endpoint said.")
    duration_ms: float


class AlertTestAnswer(Wire):
    """The results of a test of all webhooks."""

    endpoints: list[TestedEndpoint]

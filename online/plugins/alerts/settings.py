"""The settings of alerts."""

import re

from pydantic import BaseModel, Field, SecretStr, field_validator

from online.schemas.fields import Secret

WEBHOOK_URL = re.compile(r"https?://[^\s/?#@]+(?:[/?]\S*)?\Z")


class AlertSettings(BaseModel):
    """The settings of alerts."""

    alert_webhooks: tuple[Secret, ...] = Field(
        (),
        description="http:// or https:// URLs that get an alert when the verdict on a model changes, the guard acts, drift begins, the "
        "learner stops or the disk is nearly full. Slack, Mattermost and others show the field `text`. Default: none.",
    )
    alert_secret: Secret | None = Field(
        None,
        min_length=16,
        description="Secret with which alerts are signed (HMAC-SHA256). Default: they are not signed.",
    )
    alert_min_interval_s: float = Field(
        300.0, ge=0, description="Shortest time, in seconds, between two alerts of the same kind about the same model."
    )

    @field_validator("alert_webhooks")
    @classmethod
    def _webhooks_are_urls(cls, webhooks: tuple[SecretStr, ...]) -> tuple[SecretStr, ...]:
        for number, webhook in enumerate(webhooks, 1):
            if WEBHOOK_URL.match(webhook.get_secret_value()) is None:  # the value may be secret, so it is not shown
                raise ValueError(f"webhook {number} is no URL such as https://chat.example.com/hooks/abc")
        return webhooks

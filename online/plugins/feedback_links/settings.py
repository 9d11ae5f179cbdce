"""The settings of feedback URLs."""

from pydantic import BaseModel, Field


class FeedbackLinkSettings(BaseModel):
    """The settings of feedback URLs. The address that they begin with is `public_url`, of the core."""

    feedback_url_days: int = Field(30, ge=1, le=3_650, description="How long a signed feedback URL is valid, in days.")

"""The body of a comparison of a shadow version."""

from pydantic import Field

from online.schemas.fields import Wire


class ShadowAnswer(Wire):
    """The version with the label `shadow`, compared with what was answered."""

    version: str | None = Field(description="Null: no version has the label.")
    answered: int
    judged: int = Field(description="Those with feedback that says what was right.")
    shadow_right: int
    live_right: int

"""The settings of encoder tuning."""

from typing import Self

from pydantic import BaseModel, Field, model_validator


class TuningSettings(BaseModel):
    """The settings of encoder tuning."""

    encoder_adapt: bool = Field(
        False, description="Tune text encoders beside the service, and use a tuned one that is proven better."
    )
    encoder_adapt_every_s: float = Field(
        600.0, gt=0, description="Seconds between checks for enough new feedback to tune an encoder."
    )

    @model_validator(mode="after")
    def _texts_are_kept(self) -> Self:
        if self.encoder_adapt and getattr(self, "event_retention_days", None) is not None:  # a setting of the core
            raise ValueError(
                "encoder_adapt and event_retention_days exclude each other: another encoder needs the texts of all events; "
                "set one of them"
            )
        return self

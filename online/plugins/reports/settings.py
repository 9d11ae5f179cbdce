"""The settings of reports, and of the logs that are uploaded for one."""

from pydantic import BaseModel, Field


class ReportSettings(BaseModel):
    """The settings of reports."""

    max_log_bytes: int = Field(268_435_456, ge=1, description="Largest log that can be uploaded for replay, in bytes.")
    replays_kept: int = Field(10, ge=1, description="Number of newest replays of uploaded logs whose reports are kept.")

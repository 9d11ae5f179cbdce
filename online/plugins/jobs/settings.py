"""The settings of batch prediction jobs."""

from pathlib import Path

from pydantic import BaseModel, Field


class JobSettings(BaseModel):
    """The settings of batch prediction jobs."""

    job_folders: tuple[Path, ...] = Field(
        (), description="Folders that batch prediction jobs may read and write. Default: no jobs through the API."
    )

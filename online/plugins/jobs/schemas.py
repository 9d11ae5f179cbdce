"""Batch prediction jobs."""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from online.schemas.fields import NativeRequest, Wire


class BatchPredictRequest(NativeRequest):
    """A file of instances and a folder for the results. Both must be inside a folder of the setting `job_folders`."""

    input: str = Field(
        min_length=1, max_length=4_096, description="A file in JSONL, CSV or Parquet; .gz and .zst are decompressed."
    )
    output: str = Field(
        min_length=1, max_length=4_096, description="A folder that is new or empty, or belongs to this job."
    )
    version: int | Annotated[str, StringConstraints(min_length=1, max_length=64)] = Field(
        "latest", description="A number or a version label, which is resolved once, when the job starts."
    )
    key: str = Field(
        "", max_length=200, description="The field that is written with each prediction, instead of the instance."
    )
    format: Literal["", "jsonl", "csv", "parquet"] = Field(
        "", description="Default: by the ending of the input, or JSONL."
    )
    shards: int = Field(4, ge=1, le=100, description="The number of result files.")
    max_bad_ratio: float = Field(0.5, ge=0, le=1, description="The largest share of rows that may fail.")


class JobStatus(BatchPredictRequest):
    """A job and its progress."""

    id: str
    model: str
    created_at: str
    state: Literal["waiting", "running", "done", "failed", "cancelled"]
    model_version: str | None = Field(None, description="The version that predicts; null before the job starts.")
    rows: int = Field(0, description="In the input; 0 before the job starts.")
    done: int = Field(0, description="Of these, how many are done: results and errors.")
    results: int = 0
    errors: int = 0
    error: str | None = Field(None, description="Why it failed.")


class JobsAnswer(Wire):
    """The jobs of a model."""

    jobs: list[JobStatus]

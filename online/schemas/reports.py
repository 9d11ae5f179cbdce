"""Reports of a model's log, and replays of uploaded logs."""

from typing import Literal

from pydantic import Field

from online.schemas.fields import Wire


class Progress(Wire):
    what: str = Field(description="What is being done.")
    percent: int = Field(description="How much of it is done.")


class ReportState(Wire):
    """The newest report of a model's log, and the progress of the next one."""

    until: int | None = Field(description="The last offset that it covers; null: there is none yet.")
    made_at: str | None
    head: int = Field(description="The newest offset of the log.")
    making: Progress | None
    failed: str | None = Field(description="Why the last attempt failed, until the next attempt.")


class ReplayRequest(Wire):
    """An uploaded log, and the models to replay it on. file: its name in the folder of the replay.

    drop, features: columns of a table that are no features, or the only ones that are. baseline: whether a simple model
    runs beside each.
    """

    name: str
    file: str
    models: list[str]
    label: str
    format: str
    max_bad_ratio: float
    size_bytes: int
    created_at: str
    drop: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    baseline: bool = True


class ReplayStatus(Wire):
    id: str
    name: str = Field(description="The name that the uploader gave the log.")
    size_bytes: int
    created_at: str
    models: list[str] = Field(description="The models it is replayed on; empty until the fitting ones are known.")
    state: Literal["waiting", "running", "done", "failed"]
    progress: Progress | None = Field(description="Of a replay that waits or runs.")
    error: str | None = Field(description="Why it failed.")


class ReplaysAnswer(Wire):
    replays: list[ReplayStatus]
    kinds: list[str] = Field(description="The kinds of models that a log can be replayed on.")
    max_bytes: int = Field(description="The largest log that is accepted, in bytes.")


class DeletedReplay(Wire):
    id: str

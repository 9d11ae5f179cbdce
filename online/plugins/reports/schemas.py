"""Reports of a model's log, and replays of uploaded logs."""

from typing import Literal

from pydantic import Field

from online.schemas.columns import ColumnKind, Reason, Treatment
from online.schemas.fields import Cause, Language, Wire


class ReportProgress(Wire):
    """The progress of a report or a replay."""

    what: str = Field(description="What is being done.")
    percent: int = Field(description="How much of the whole is done, over all steps.")
    ahead: int = Field(0, description="How many others come before it, while it waits.")
    done: int | None = Field(None, description="Events of this step that are done; null in a step without any.")
    total: int | None = Field(
        None, description="Events of this step. An estimate, for a log whose length is not known."
    )
    per_second: float | None = Field(None, description="Events a second, smoothed; null while that is not known.")
    left_s: float | None = Field(None, description="Seconds left, smoothed; null while that is not known.")


class Finding(Wire):
    """The finding of a report, as its first words say."""

    level: Literal["good", "attention", "unclear"]
    sentence: str
    language: Language = Field("en", description="Of the sentence.")


class ReportEntry(Wire):
    """A report that was made earlier."""

    until: int = Field(description="The last offset that it covers.")
    made_at: str
    finding: Finding | None = Field(description="null: the page is gone.")


class ReportState(Wire):
    """The newest report of a model's log, and the progress of the next one."""

    until: int | None = Field(description="The last offset that it covers; null: there is none yet.")
    made_at: str | None
    head: int = Field(description="The newest offset of the log.")
    making: ReportProgress | None
    failed: str | None = Field(description="Why the last attempt failed, until the next attempt.")
    reports: list[ReportEntry] = Field(description="The newest reports, newest first.")


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
    """An uploaded log and its replay."""

    id: str
    name: str = Field(description="The name that the uploader gave the log.")
    size_bytes: int
    created_at: str
    models: list[str] = Field(description="The models it is replayed on; empty until the fitting ones are known.")
    state: Literal["waiting", "running", "done", "failed"]
    progress: ReportProgress | None = Field(description="Of a replay that waits or runs.")
    error: str | None = Field(description="Why it failed.")
    cause: Cause | None = Field(None, description="The same for programs, where the log was refused.")
    finding: Finding | None = Field(description="What its report found, once it is done.")


class RecognisedColumn(Wire):
    """A column of an uploaded table."""

    name: str
    kind: ColumnKind
    reason: Reason = Field(description="What shows its kind.")
    treatment: Treatment = Field(description="What is done with it.")
    reads: str = Field(
        description="How it is written: of a date iso, dmy, mdy, ymd, named (3 May 2026) or compact (20260503); of "
        "a number with a unit, how its digits are written, and the unit."
    )


class ColumnsAnswer(Wire):
    """The columns of a table, as its first rows show them; none for a log, and for texts or vectors."""

    rows: int = Field(description="How many rows were read to see that.")
    input: Literal["text", "vector", "table"] = Field(description="What a model reads of a row.")
    columns: list[RecognisedColumn]


class ReplaysAnswer(Wire):
    """The uploaded logs of a service."""

    replays: list[ReplayStatus]
    kinds: list[str] = Field(description="The kinds of models that a log can be replayed on.")
    max_bytes: int = Field(description="The largest log that is accepted, in bytes.")


class CancelledReport(Wire):
    """The result of cancelling a report."""

    cancelled: bool = Field(description="Whether a report was in progress.")


class DeletedReplay(Wire):
    """A replay that was deleted."""

    id: str

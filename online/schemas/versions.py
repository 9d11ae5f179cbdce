"""Versions of a model: labels, rollback, freezing and quarantine."""

from typing import Literal

from pydantic import Field

from online.schemas.fields import Cause, NativeRequest, Wire


class VersionDetails(Wire):
    """A version of a model."""

    version: str
    parent: str | None
    learned_until: int
    created_at: str
    state_sha256: str
    weights_sha256: str
    feature_epoch: str
    durable: bool
    metrics: dict[str, float]
    live: bool
    labels: list[str] = Field(
        description="Its version labels: latest (the live version), previous, and those that were set."
    )
    state: Literal["START", "LOADING", "AVAILABLE", "END"] = Field(description="Whether it can be requested.")


class VersionLabel(Wire):
    """A label and its version."""

    label: str
    version: str
    percent: float = Field(description="Of the canary: its share of the traffic.")


class FreezeState(Wire):
    """The reason and the beginning of a freeze."""

    since: str
    reason: str
    cause: Cause | None = Field(None, description="The same for programs; null for the words of an operator.")


class RejectedSnapshot(Wire):
    """A proposed snapshot that the gate rejected, `times` in a row; the last one had learned `until`."""

    learned_until: int = Field(description="The offset that the first of them had learned.")
    until: int
    times: int
    reason: str
    created_at: str


class VersionsAnswer(Wire):
    """A page of the versions, and the live one."""

    versions: list[VersionDetails]
    version_count: int = Field(description="How many versions there are in all.")
    next_before: int | None = Field(description="The `before` of the next page; null: this is the last one.")
    live_version: str = Field(description="The version that answers; 0: none yet.")
    refused: list[RejectedSnapshot] = Field(description="The proposed snapshots that the gate rejected, newest first.")
    labels: list[VersionLabel]
    frozen: FreezeState | None = Field(
        description="Since when learning is frozen, and why; null where the model learns."
    )


class RollbackRequest(NativeRequest):
    """The version to go back to."""

    version: str | int = Field("previous", description="A number or a version label.")
    freeze: bool = Field(
        False, description="Also stop learning, so that no newer version goes live until the model is thawed."
    )
    reason: str = Field("", max_length=500, description="Of the freeze.")


class LabelRequest(NativeRequest):
    """The version that a label names."""

    version: str | int = Field(description="A number or another version label.")
    percent: float = Field(0, ge=0, le=100, description="Of the canary: its share of the traffic.")


class FreezeRequest(NativeRequest):
    """The reason of a freeze."""

    reason: str = Field("", max_length=500)


class QuarantineDetails(Wire):
    """The feedback that the rollback guard quarantined, from one offset to another, until an operator decides about it."""

    offset: int = Field(description="Of the feedback that raised the alarm.")
    since: int
    since_at: str | None = Field(description="When the first feedback after `since` was given.")
    until: int | None
    reason: str
    cause: Cause = Field(description="The reason for programs. Its figures lack what is not known any more.")
    rolled_back_to: int | None = Field(description="The version that was made live; null: there was no earlier one.")
    created_at: str
    ended_at: str | None
    outcome: Literal["learned", "dropped"] | None


class QuarantinesAnswer(Wire):
    """The quarantines of a model."""

    quarantines: list[QuarantineDetails]


class EndQuarantine(NativeRequest):
    """The end of a quarantine."""

    outcome: Literal["learned", "dropped"]


class RollbackAnswer(Wire):
    """The version that is live after a roll back."""

    version: str
    learned_until: int

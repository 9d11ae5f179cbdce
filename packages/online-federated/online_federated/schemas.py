"""Cohorts of clients whose sums are added by secure aggregation, and the messages of their rounds. Bytes are base64."""

from typing import Literal

from pydantic import Field, JsonValue

from online.schemas.fields import Label, NativeRequest, Wire

CohortStateName = Literal["joining", "sharing", "masking", "unmasking", "adding", "done", "failed"]
Base64 = str


class CohortParameters(NativeRequest):
    """The parameters that all members of a cohort agree on."""

    classes: list[Label] = Field(min_length=1, max_length=1_000, description="The classes, in the order of the sums.")
    size: int = Field(100, ge=2, description="Members at which the cohort stops to take further ones.")
    least: int | None = Field(
        None, ge=2, description="Members below which it fails. Default: the setting `min_cohort_members`."
    )
    max_examples: int = Field(
        64, ge=1, description="Most examples of one member; the bits of its values follow from it."
    )
    max_class_examples: int | None = Field(
        None,
        ge=1,
        description="Most examples of one class, of all members together. Lower limits of the total need fewer bits, and a total beyond one fails the cohort. Default: all.",
    )
    max_negative_examples: int | None = Field(
        None,
        ge=0,
        description="Most examples of what a class is not, of all members together; 0 if they learn labels only. Default: all.",
    )
    max_mean_square: int | None = Field(
        None,
        ge=1,
        le=127**2,
        description="Largest mean of the squares of one feature, as if every member had `max_examples`; 2500 suits texts. Default: 127^2.",
    )
    round_s: float = Field(60.0, gt=0, le=86_400, description="Longest time of a round, in seconds.")


class CohortAnswer(Wire):
    """The state of a cohort."""

    id: str
    state: CohortStateName
    parameters: CohortParameters
    width: int = Field(description="Features, D.")
    features: dict[str, JsonValue] = Field(
        description="How inputs become features, as the metadata of a file of sums says. It is fixed when the cohort begins."
    )
    member_count: int = Field(description="Members that have joined.")
    threshold: int | None = Field(None, description="Members that each round needs; null while members join.")
    deadline: str = Field(
        description="Of the present round, in ISO 8601; while adding, when it is tried again if there is no total by then."
    )
    reason: str | None = Field(None, description="Why it has failed.")
    segments: list[tuple[int, int]] = Field(
        description="(length, bits) of each part of the values, as they are packed."
    )


class JoinRequest(NativeRequest):
    """The public keys of a client that joins."""

    sealing: Base64 = Field(max_length=64, description="Public key, X25519, to which others seal shares.")
    masking: Base64 = Field(max_length=64, description="Public key, X25519, for pairwise masks.")


class Membership(Wire):
    """The membership of a client in a cohort."""

    number: int = Field(description="Of this member, from 1.")
    token: str = Field(description="Proves the membership: send it as `X-Cohort-Token`. It is shown once.")
    context: Base64 = Field(description="What the derived keys and sealed shares are bound to.")


class MemberAnswer(Wire):
    """The data that a member needs for the present round, until it has sent its message; null otherwise."""

    state: CohortStateName
    deadline: str = Field(description="As of the cohort.")
    threshold: int | None = None
    keys: dict[int, JoinRequest] | None = Field(None, description="While sharing: the public keys of all members.")
    sealed: dict[int, Base64] | None = Field(None, description="While masking: shares for this member, by sender.")
    survivors: list[int] | None = Field(None, description="While unmasking: the members whose values came.")
    reason: str | None = None


class SharesMessage(NativeRequest):
    """The sealed shares of a member's secrets, by recipient."""

    sealed: dict[int, Base64]
    commitment: Base64 = Field(max_length=64)


class UnmaskingMessage(NativeRequest):
    """The shares that a member reveals."""

    masking_keys: dict[int, Base64]
    seeds: dict[int, Base64]


class ValuesMessage(NativeRequest):
    """The masked values of a member."""

    packed: Base64

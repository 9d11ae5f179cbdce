"""The settings of moderation."""

from pydantic import BaseModel, Field


class ModerationSettings(BaseModel):
    """Limits of the influence that one caller has on what is learned."""

    influence_window_hours: float = Field(
        24.0,
        gt=0,
        le=8_760,
        description="Hours within which the influence of a caller is limited, and held feedback waits.",
    )
    influence_per_reply: int = Field(
        5,
        ge=1,
        description="Most feedback of one caller about one reply or class that is learned within that window; more is held "
        "until others agree. Curators have no limit.",
    )
    new_influence_per_reply: int = Field(
        1, ge=1, description="The same of a new caller, with whom nobody has agreed yet."
    )
    new_influence: int = Field(
        10, ge=1, description="Most feedback of a new caller in all that is learned within that window; more is held."
    )
    new_influence_per_address: int = Field(
        50, ge=1, description="The same of all new visitors at one address together."
    )

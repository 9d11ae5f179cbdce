"""The standing of callers: how far each is trusted."""

from typing import Literal

from pydantic import Field

from online.schemas.fields import Wire


class HolderInfo(Wire):
    """One caller, or one user on whose behalf feedback is given. Curators are trusted and not listed."""

    caller: str
    state: Literal["new", "established", "quarantined", "released", "dropped"] = Field(
        description="new: nobody has agreed with it yet; established: others agree with it; quarantined: by the "
        "review; released: an operator vouches for it; dropped: an operator has retracted all it said."
    )
    reason: str | None = Field(description="Why it was quarantined.")
    decided_by: str | None = Field(description="Who changed its state last: review, or the id of an operator.")
    decided_at: str | None
    standing: int = Field(description="How much of its feedback is learned.")
    held: int = Field(description="How much of its feedback is held.")
    judged: int = Field(description="Of how much of its newest feedback the last review found what others say.")
    agreed: int = Field(description="How much of that others agree with.")
    seen_at: str


class HoldersAnswer(Wire):
    """Callers of a model, with their standing."""

    callers: list[HolderInfo] = Field(description="The quarantined ones first, then the newest.")
    counts: dict[str, int] = Field(description="State -> how many callers are in it.")

"""The settings of cohorts."""

from pydantic import BaseModel, Field


class CohortSettings(BaseModel):
    """The settings of cohorts."""

    min_cohort_members: int = Field(
        20,
        ge=2,
        description="Fewest members of a cohort whose sums are added unseen; with fewer, the total would show too much.",
    )
    max_cohort_members: int = Field(
        200,
        ge=2,
        le=1_000,
        description="Most members of a cohort: each sends a share of its secrets to every other one.",
    )
    cohort_retention_days: float = Field(
        7.0,
        gt=0,
        le=36_500,
        description="Days for which a cohort is kept after its last deadline. What its members have sent is deleted as soon as it ends.",
    )

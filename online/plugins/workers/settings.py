"""The settings of workers."""

from pydantic import BaseModel, Field

from online.schemas.fields import Secret


class WorkerSettings(BaseModel):
    learn_workers: int = Field(
        0,
        ge=0,
        le=256,
        description="Processes that sum parts of a log for the learner, when it is more than 8,192 events behind: after a "
        "restart, a change of options or an import. For kinds whose sums can be added. They also learn parts of the steps of "
        "towers whose option accumulate is more than 1.",
    )
    learn_address: str | None = Field(
        None,
        pattern=r"^[^\s/]+:\d{1,5}$",
        description="HOST:PORT at which the learner takes workers of other machines, which `online learn --join` starts. "
        "Default: none. Needs workers_key.",
    )
    workers_key: Secret | None = Field(
        None, min_length=16, description="What a worker of another machine proves that it knows, without sending it."
    )

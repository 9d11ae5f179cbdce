"""The devices of a service: their memory, and which models learn and answer on which of them."""

from pydantic import Field

from online.models.devices.observer import Role
from online.schemas.fields import Wire


class DeviceState(Wire):
    """A device, as one of the processes that use it has last measured it."""

    name: str = Field(description="cpu, or an accelerator such as cuda:0.")
    description: str = Field(description="The name of its maker, or the number of cores.")
    total_bytes: int | None = Field(None, description="Its memory. Null where the system does not say, as below.")
    used_bytes: int | None = Field(None, description="What all processes take of it.")
    free_bytes: int | None = None
    cap_bytes: int | None = Field(None, description="What each process of this service may take of it. Null: all.")
    utilization_percent: float | None = Field(
        None, description="How busy it is: of the processor the load of the last minute. Null without NVML."
    )
    cores: int | None = Field(None, description="Of the processor: how many the service may use.")


class ModelPlace(Wire):
    """A model in a process, and where it computes there."""

    model: str
    role: Role = Field(description="Whether the process learns the model or answers with it.")
    process: str = Field(description="learner, or worker-0 and so on.")
    wanted: str = Field(description="The devices that the settings name, separated by commas.")
    device: str = Field(description="The devices it computes on: the CPU where those had too little memory.")


class MemoryFallback(Wire):
    """A device had too little memory, and what happened instead."""

    model: str
    role: Role
    process: str
    what: str = Field(description="What was computed.")
    device: str
    to: str = Field(description="What happens instead: fewer rows at once, or the CPU.")
    reason: str
    count: int = Field(description="How often this happened since the process started.")
    at: str = Field(description="When it happened last.")


class SummedExamples(Wire):
    """The number of examples of a model that one process has summed: `learner`, or `worker-1` and so on."""

    model: str
    by: str
    examples: int


class DeviceReport(Wire):
    """The report of one process on the devices that it uses."""

    process: str
    pid: int
    devices: list[DeviceState]
    places: list[ModelPlace]
    fallbacks: list[MemoryFallback]
    summed: list[SummedExamples] = Field(default_factory=list)


class DevicesAnswer(Wire):
    """The devices of a service."""

    has_accelerator: bool = Field(description="Whether any process of the service uses a device beside the processor.")
    devices: list[DeviceState]
    places: list[ModelPlace]
    fallbacks: list[MemoryFallback] = Field(description="Of the processes that run, the newest first.")

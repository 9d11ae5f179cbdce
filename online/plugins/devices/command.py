"""`online devices`: the devices of this machine, and which model learns and answers where."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import typer

from online.cli.options import ConfigOption, JsonOption, SetOption, StateOption
from online.cli.state import load_settings
from online.cli.tables import align

if TYPE_CHECKING:
    from online.models.devices.probe import Devices
    from online.plugins.devices.schemas import DevicesAnswer, DeviceState, MemoryFallback, ModelPlace
    from online.settings import Settings

PLANNED = "planned"  # in place of a process, where none runs


def devices(
    state: StateOption = None, config: ConfigOption = None, set: SetOption = None, as_json: JsonOption = False
) -> None:
    """Show the devices of this machine, their memory, and which model learns and answers where.

    The processes of a running service say what they have where. Without one, the places are those that the settings ask for.

    \b
    Examples:
      online devices
      online devices --state ./state --json
    """
    from online.models.devices.probe import SystemDevices

    answer = look_up(load_settings(config, set, state=state), SystemDevices())
    typer.echo(answer.model_dump_json(indent=1) if as_json else "\n".join(describe(answer)))


def look_up(settings: "Settings", machine: "Devices") -> "DevicesAnswer":
    """Return what the machine has, and what a service with these settings has where. Raises SetupError."""
    from online.plugins.devices.device_reports import collect_reports, describe_device, summarize

    states = [describe_device(machine.measure(name)) for name in machine.list_names()]
    reports = collect_reports(settings.state)
    answer = summarize(reports, states)
    return answer if reports else answer.model_copy(update={"places": [*plan(settings, machine)]})


def plan(settings: "Settings", machine: "Devices") -> "Iterator[ModelPlace]":
    """Yield where the models of these settings would learn and answer. Raises SetupError."""
    from online.learning.placing import place_model as place_learner
    from online.plugins.devices.schemas import ModelPlace
    from online.serving.devices.placing import place_model as place_worker

    for model in settings.models:
        device = place_learner(settings, model, machine)
        yield ModelPlace(model=model.name, role="learner", process=PLANNED, wanted=device, device=device)
        for device in dict.fromkeys(place_worker(model, worker, machine) for worker in range(settings.workers)):
            yield ModelPlace(model=model.name, role="server", process=PLANNED, wanted=device, device=device)


def describe(answer: "DevicesAnswer") -> Iterator[str]:
    """Yield the answer in lines, for people."""
    if not answer.has_accelerator:
        yield "no GPU: torch finds no accelerator on this machine; the CPU learns and answers"
    yield from align(("device", "", "used", "free", "of", "cap", "busy"), [*map(describe_state, answer.devices)])
    yield ""
    yield from align(("model", "does", "on", "process"), [*map(describe_place, answer.places)])
    if answer.fallbacks:
        yield ""
        yield "memory ran out:"
        yield from map(describe_fallback, answer.fallbacks)


def describe_state(state: "DeviceState") -> Sequence[str]:
    """Return the cells of a device: name, memory and load."""
    sizes = (state.used_bytes, state.free_bytes, state.total_bytes, state.cap_bytes)
    busy = "" if state.utilization_percent is None else f"{state.utilization_percent:.0f} %"
    return (state.name, state.description, *map(describe_size, sizes), busy)


def describe_size(size: int | None) -> str:
    """Return a size in GiB; "" if it is unknown."""
    return "" if size is None else f"{size / (1 << 30):.1f} GiB"


def describe_place(place: "ModelPlace") -> Sequence[str]:
    """Return the cells of a model's place: the model, its role and its device."""
    moved = "" if place.device == place.wanted else f" (instead of {place.wanted})"
    return place.model, "learns" if place.role == "learner" else "answers", place.device + moved, place.process


def describe_fallback(fallback: "MemoryFallback") -> str:
    """Return a line about work that did not fit into a device's memory."""
    times = "" if fallback.count == 1 else f", {fallback.count} times"
    where = f"{fallback.model} ({fallback.process}): {fallback.what} on {fallback.device}"
    return f"  {fallback.at} {where} continued {fallback.to}{times}: {fallback.reason}"

"""Places the answering of each model in this process: replicas of a model lie on several devices, one in each worker.

    placement.serve_on = ["cuda:0", "cuda:1"]     worker 0 -> cuda:0, worker 1 -> cuda:1, worker 2 -> cuda:0, ...
    no placement                                  the CPU

A worker answers one micro-batch at a time, so that as many workers as devices keep all of them busy.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from online.models import spans_devices
from online.models.devices.memory import MemoryShare, apply_share
from online.models.devices.placement import find_devices, join_devices, split_devices
from online.models.devices.probe import CPU, Devices
from online.settings import ModelSettings, Settings


@dataclass(frozen=True, slots=True)
class ServingPlaces:
    """of_model: the devices of each model in this process, joined. caps: bytes it may take, by accelerator."""

    of_model: Mapping[str, str]
    caps: Mapping[str, int]


def place_models(settings: Settings, worker: int, devices: Devices) -> ServingPlaces:
    """Find the devices of each model, and limit this process to its share of them. Raises SetupError."""
    places = {model.name: place_model(model, worker, devices) for model in settings.models}
    used = [name for joined in places.values() for name in split_devices(joined)]
    return ServingPlaces(places, apply_share(MemoryShare(settings.serving_memory_fraction), used, devices))


def place_model(model: ModelSettings, worker: int, devices: Devices) -> str:
    """Return the devices on which a worker answers with a model, joined. Raises SetupError for one that does not exist."""
    where = f"model {model.name!r}, placement.serve_on"
    found = find_devices(model.placement.serve_on or (CPU,), devices, where)
    if spans_devices(model.kind, model.options):
        return join_devices(found)
    return found[worker % len(found)]

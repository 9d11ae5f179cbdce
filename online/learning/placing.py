"""Places the learning of each model on devices, within the memory that the learner may take there.

    [[models]] placement.learn_on, or the setting `device` --place_models--> LearnerPlaces: model -> "cuda:1"

All models are learned in one process, each in its own thread on its own devices. They share the process's memory of a
device (`device_memory_fraction`, `device_memory_bytes`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from online.models import spans_devices
from online.models.devices.memory import MemoryShare, apply_share
from online.models.devices.placement import find_devices, join_devices, name_member_devices, split_devices
from online.models.devices.probe import Devices, SystemDevices
from online.settings import ModelSettings, Settings


@dataclass(frozen=True, slots=True)
class LearnerPlaces:
    """of_model: the devices of each model, joined. caps: bytes that the learner may take, by accelerator."""

    of_model: Mapping[str, str]
    caps: Mapping[str, int]


def place_models(settings: Settings, models: Sequence[ModelSettings], devices: Devices) -> LearnerPlaces:
    """Find each model's devices, and limit this process to its share of them.

    A model that finds no room in the share continues on the CPU, as on a full device. Raises SetupError for a device that
    does not exist.
    """
    places = {model.name: place_model(settings, model, devices) for model in models}
    share = MemoryShare(settings.device_memory_fraction, settings.device_memory_bytes, settings.device_memory_growth)
    used = [name for joined in places.values() for name in split_devices(joined)]
    members = [name for model in models for name in find_member_devices(model, devices)]
    return LearnerPlaces(places, apply_share(share, [*used, *members], devices))


def place_model(settings: Settings, model: ModelSettings, devices: Devices) -> str:
    """Return the devices of one model, joined: a single one, unless its kind can be spread over several."""
    own = model.placement.learn_on
    where = f"model {model.name!r}, placement.learn_on" if own else "device"
    found = find_devices(own or (settings.device,), devices, where)
    return join_devices(found if spans_devices(model.kind, model.options) else found[:1])


def find_member_devices(model: ModelSettings, devices: Devices) -> tuple[str, ...]:
    """Return the devices that the members of an ensemble name. Raises SetupError for one that does not exist."""
    return find_devices([*name_member_devices(model.options)], devices, f"model {model.name!r}, option 'members'")


def configure_device(settings: Settings, model: ModelSettings) -> str:
    """Place one model, for a process that learns nothing else. Raises SetupError."""
    return place_models(settings, [model], SystemDevices()).of_model[model.name]

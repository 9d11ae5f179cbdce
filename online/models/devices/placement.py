"""Chooses the device of a model: from names in the settings to devices that exist.

    "auto" | "cpu" | "cuda" | "cuda:1"  --find_device-->  "cpu" | "cuda:0" | "cuda:1"  (SetupError: it does not exist)
    a model's several devices           --join_devices--> "cuda:0,cuda:1"  --registry.create--> one for each member

A kind that is not spread over devices computes on the first of them.
"""

from collections.abc import Iterable, Mapping, Sequence

from online.errors import SetupError
from online.models.devices.probe import CPU, Devices, SystemDevices

AUTO = "auto"


def choose_device(wanted: str) -> str:
    """Return the name of one device of this machine. Raises SetupError if it does not exist."""
    return find_device(wanted, SystemDevices())


def find_device(wanted: str, devices: Devices, where: str = "device") -> str:
    """Return the name of a device that exists. where: what asked for it, in the error.

    `auto` is the first accelerator, or the CPU without one; `cuda` is the first of that type. Raises SetupError that
    names the devices there are.
    """
    if wanted == CPU:
        return CPU
    names = devices.list_names()
    if wanted == AUTO:
        return [*names[1:], CPU][0]
    if wanted in names:
        return wanted
    of_type = [name for name in names[1:] if name.partition(":")[0] == wanted]
    if not of_type:
        there_are = f"this machine has {', '.join(names)}"
        raise SetupError(f"{where}: there is no device {wanted!r}; {there_are}; use one of these, or auto")
    return of_type[0]


def spread_device(wanted: str, place: int, devices: Devices) -> str:
    """Return the device of the n-th of several processes: if `wanted` names a type, another one of these for each in turns."""
    first = find_device(wanted, devices)
    if wanted == first or first == CPU:
        return first
    of_type = [name for name in devices.list_names() if name.partition(":")[0] == first.partition(":")[0]]
    return of_type[place % len(of_type)]


def find_devices(wanted: Sequence[str], devices: Devices, where: str) -> tuple[str, ...]:
    """Return the same for several, each named once. Raises SetupError."""
    return tuple(dict.fromkeys(find_device(each, devices, where) for each in wanted))


def join_devices(names: Iterable[str]) -> str:
    """Return several devices as one text, as a model is created with."""
    return ",".join(names)


def split_devices(joined: str) -> tuple[str, ...]:
    """Return the inverse of `join_devices`."""
    return tuple(joined.split(","))


def first_device(joined: str) -> str:
    """Return the first of the devices in a joined name."""
    return split_devices(joined)[0]


def name_member_devices(options: Mapping[str, object]) -> Iterable[str]:
    """Yield the devices that the members of an ensemble name in its options."""
    members = options.get("members")
    for member in members if isinstance(members, (list, tuple)) else ():
        device = member.get("device") if isinstance(member, Mapping) else None
        if isinstance(device, str) and device:
            yield device

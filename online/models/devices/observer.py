"""Notices of the devices on which a process learns or answers, for a plugin that shows them.

process --place, move, note--> DeviceObserver: does nothing; a plugin derives from it
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from online.installed import collect_one
from online.models.devices.fallback import Fallback
from online.models.devices.probe import Devices

Role = Literal["learner", "server"]


class DeviceObserver:
    """Receives the notices of one process, from any thread."""

    def place(self, model: str, wanted: str, device: str) -> None:
        """Note the devices on which a model computes from now on. wanted: those that the settings name."""

    def move(self, model: str, device: str) -> None:
        """Note another device for a model that is placed."""

    def note(self, model: str, fallback: Fallback) -> None:
        """Note that a device had too little memory."""

    def note_sums(self, counts: Mapping[tuple[str, str], int]) -> None:
        """Note how many examples were summed, by model and process."""

    def write(self) -> None:
        """Write what was noted. The learner calls it twice a second."""

    def close(self) -> None:
        """Withdraw what was written."""


def create_observer(state: Path, process: str, role: Role, devices: Devices, caps: Mapping[str, int]) -> DeviceObserver:
    """Return that of the plugin which has one; else one that does nothing. The rest is as in `Plugin.device_observer`."""
    return collect_one("device_observer", DeviceObserver(), state, process, role, devices, caps)

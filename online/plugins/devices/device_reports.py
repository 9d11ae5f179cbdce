"""Reports of the devices on which models compute: each process writes its own, and any process reads them all.

    learner  -> <state>/devices/learner.json     \
    server 0 -> <state>/devices/worker-0.json     > collect_reports -> /v1/devices, `online devices`
    server 1 -> <state>/devices/worker-1.json    /

A process holds the lock beside its file for as long as it lives. A file whose lock is free is that of a process which has
ended, and is not read.
"""

import os
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import IO

from pydantic import ValidationError

from online.io.atomic import replace_file
from online.io.locks import is_locked, lock_file
from online.models.devices.fallback import Fallback
from online.models.devices.observer import DeviceObserver, Role
from online.models.devices.placement import split_devices
from online.models.devices.probe import CPU, DeviceFigures, Devices
from online.plugins.devices.schemas import (
    DeviceReport,
    DevicesAnswer,
    DeviceState,
    MemoryFallback,
    ModelPlace,
    SummedExamples,
)

FOLDER = "devices"  # of the state folder
MAX_FALLBACKS = 50


class DeviceReporter(DeviceObserver):
    """Keeps what one process has placed where, and writes it. Any thread may change it."""

    def __init__(
        self,
        state: Path,
        process: str,
        role: Role,
        devices: Devices,
        caps: Mapping[str, int],
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """process: `learner`, or `worker-0`. caps: bytes that this process may take, by device."""
        self.folder, self.process, self.role = state / FOLDER, process, role
        self.devices, self.caps, self.clock = devices, caps, clock
        self._places = dict[str, ModelPlace]()
        self._fallbacks = dict[tuple[str, str, str, str], MemoryFallback]()
        self._summed = list[SummedExamples]()
        self._changes = threading.Lock()
        self._written = b""
        self.path, self._lock = self._take_name()

    def _take_name(self) -> tuple[Path, IO[str]]:
        """Return a file for the report, and its lock. A second service on the same folder takes the next name."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for number in count(1):
            path = self.folder / f"{self.process}{'' if number == 1 else f'-{number}'}.json"
            with suppress(BlockingIOError):
                return path, lock_file(path.with_suffix(".lock"), wait=False)
        raise AssertionError("the numbers do not end")

    def place(self, model: str, wanted: str, device: str) -> None:
        """Note the devices on which a model computes from now on."""
        where = ModelPlace(model=model, role=self.role, process=self.process, wanted=wanted, device=device)
        with self._changes:
            self._places[model] = where

    def move(self, model: str, device: str) -> None:
        """Note another device for a model that is placed."""
        with self._changes:
            self._places[model] = self._places[model].model_copy(update={"device": device})

    def note(self, model: str, fallback: Fallback) -> None:
        """Note that a device had too little memory."""
        key = model, fallback.what, fallback.device, fallback.to
        with self._changes:
            before = self._fallbacks.pop(key, None)
            self._fallbacks[key] = MemoryFallback(
                model=model,
                role=self.role,
                process=self.process,
                **asdict(fallback),
                count=1 + (before.count if before else 0),
                at=self.clock().isoformat(timespec="milliseconds"),
            )
            while len(self._fallbacks) > MAX_FALLBACKS:
                del self._fallbacks[next(iter(self._fallbacks))]

    def note_sums(self, counts: Mapping[tuple[str, str], int]) -> None:
        """Note how many examples were summed, by model and process."""
        self._summed = [SummedExamples(model=model, by=by, examples=count) for (model, by), count in counts.items()]

    def write(self) -> None:
        """Write the report if it says anything else than before."""
        data = self._build().model_dump_json().encode()
        if data != self._written:
            replace_file(self.path, data, durable=False, mode=0o600)
            self._written = data

    def _build(self) -> DeviceReport:
        with self._changes:
            places, fallbacks = [*self._places.values()], [*self._fallbacks.values()]
        names = {name for place in places for name in split_devices(place.device)} | self.caps.keys()
        states = [self._measure(name) for name in sorted(names - {CPU})]
        return DeviceReport(
            process=self.process,
            pid=os.getpid(),
            devices=states,
            places=places,
            fallbacks=fallbacks[::-1],
            summed=self._summed,
        )

    def _measure(self, name: str) -> DeviceState:
        return describe_device(self.devices.measure(name), self.caps.get(name))

    def close(self) -> None:
        """Withdraw the report."""
        self.path.unlink(missing_ok=True)
        self._lock.close()


def describe_device(figures: DeviceFigures, cap_bytes: int | None = None) -> DeviceState:
    """Return the figures of a device as the API shows them."""
    return DeviceState(**asdict(figures), cap_bytes=cap_bytes)


def collect_reports(state: Path) -> list[DeviceReport]:
    """Return the reports of the processes that run now, in the order of their names. A file that cannot be read is left out."""
    reports = list[DeviceReport]()
    for path in sorted((state / FOLDER).glob("*.json")):
        with suppress(OSError, ValidationError):
            if is_locked(path.with_suffix(".lock")):
                reports.append(DeviceReport.model_validate_json(path.read_bytes()))
    return reports


def summarize(reports: Iterable[DeviceReport], machine: Iterable[DeviceState]) -> DevicesAnswer:
    """Return what a service has where. machine: devices as the reader measures them, the processor among them."""
    reports = [*reports]
    states = {each.name: each for each in machine}
    for report in reports:
        for state in report.devices:
            known = states.get(state.name)
            caps = [each.cap_bytes for each in (known, state) if each is not None and each.cap_bytes is not None]
            states[state.name] = state.model_copy(update={"cap_bytes": min(caps, default=None)})
    fallbacks = sorted((each for report in reports for each in report.fallbacks), key=lambda each: each.at)
    return DevicesAnswer(
        has_accelerator=any(name != CPU for name in states),
        devices=[states[name] for name in sorted(states, key=lambda name: (name != CPU, name))],
        places=[place for report in reports for place in report.places],
        fallbacks=fallbacks[::-1],
    )

"""What each process says about its devices, who reads it, and that it is gone with the process."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from online.models.devices.fallback import Fallback
from online.models.devices.probe import DeviceFigures
from online.plugins.devices.device_reports import DeviceReporter, collect_reports, describe_device, summarize
from tests.models.devices.fakes import GIB, FakeDevices

FULL = Fallback("statistics", "cuda:0", "on the CPU", "full")
CPU = describe_device(DeviceFigures("cpu", "4 cores", 8 * GIB, 3 * GIB, 5 * GIB, 25.0, 4))


class Clock:
    second = 0

    def __call__(self) -> datetime:
        self.second += 1
        return datetime(2026, 1, 1, 12, tzinfo=UTC) + timedelta(seconds=self.second)


@pytest.fixture
def reporter(tmp_path: Path) -> DeviceReporter:
    devices = FakeDevices("cuda:0", "cuda:1", free_bytes=10 * GIB)
    return DeviceReporter(tmp_path, "learner", "learner", devices, {"cuda:0": 4 * GIB}, Clock())


def test_a_report_names_models_devices_and_what_did_not_fit(reporter: DeviceReporter, tmp_path: Path) -> None:
    reporter.place("digits", "cuda:0", "cuda:0")
    reporter.note("digits", FULL)
    reporter.note("digits", FULL)
    reporter.move("digits", "cpu")
    reporter.write()
    (report,) = collect_reports(tmp_path)
    (place,), (fallback,), (device,) = report.places, report.fallbacks, report.devices
    assert (place.model, place.role, place.wanted, place.device) == ("digits", "learner", "cuda:0", "cpu")
    assert (fallback.what, fallback.to, fallback.count) == ("statistics", "on the CPU", 2)
    assert fallback.at == "2026-01-01T12:00:02.000+00:00"
    assert (device.used_bytes, device.free_bytes, device.cap_bytes) == (6 * GIB, 10 * GIB, 4 * GIB)


def test_a_report_says_who_summed_how_many_examples(reporter: DeviceReporter, tmp_path: Path) -> None:
    reporter.note_sums({("digits", "learner"): 300, ("digits", "worker-1"): 500})
    reporter.write()
    (report,) = collect_reports(tmp_path)
    assert [(each.model, each.by, each.examples) for each in report.summed] == [
        ("digits", "learner", 300),
        ("digits", "worker-1", 500),
    ]


def test_a_report_of_a_process_that_has_ended_is_not_read(reporter: DeviceReporter, tmp_path: Path) -> None:
    reporter.place("digits", "auto", "cpu")
    reporter.write()
    reporter._lock.close()  # as when the process is killed: the file stays
    assert (tmp_path / "devices" / "learner.json").exists()
    assert collect_reports(tmp_path) == []


def test_a_process_that_starts_again_takes_the_place_of_its_report(reporter: DeviceReporter, tmp_path: Path) -> None:
    reporter.close()
    again = DeviceReporter(tmp_path, "learner", "learner", FakeDevices(), {})
    assert collect_reports(tmp_path) == []
    again.place("chat", "auto", "cpu")
    again.write()
    assert [place.model for report in collect_reports(tmp_path) for place in report.places] == ["chat"]


def test_a_report_that_cannot_be_read_is_left_out(reporter: DeviceReporter, tmp_path: Path) -> None:
    reporter.write()
    (tmp_path / "devices" / "learner.json").write_text("{")
    assert collect_reports(tmp_path) == []


def test_only_a_report_that_says_something_new_is_written(reporter: DeviceReporter, tmp_path: Path) -> None:
    path = tmp_path / "devices" / "learner.json"
    reporter.write()
    path.unlink()
    reporter.write()
    assert not path.exists()
    reporter.place("digits", "cuda:1", "cuda:1")
    reporter.write()
    assert path.exists()


def test_the_newest_of_many_fallbacks_are_kept(reporter: DeviceReporter, tmp_path: Path) -> None:
    for number in range(60):
        reporter.note(f"m{number}", FULL)
    reporter.write()
    fallbacks = collect_reports(tmp_path)[0].fallbacks
    assert [fallbacks[0].model, fallbacks[-1].model, len(fallbacks)] == ["m59", "m10", 50]


def test_the_summary_joins_what_the_processes_say(reporter: DeviceReporter, tmp_path: Path) -> None:
    worker = DeviceReporter(tmp_path, "worker-0", "server", FakeDevices("cuda:0"), {"cuda:0": 2 * GIB}, Clock())
    reporter.place("digits", "cuda:1", "cuda:1")
    worker.place("digits", "cuda:0", "cuda:0")
    worker.note("digits", FULL)
    for each in (reporter, worker):
        each.write()
    answer = summarize(collect_reports(tmp_path), [CPU])
    assert answer.has_accelerator
    assert [(each.name, each.cap_bytes) for each in answer.devices] == [
        ("cpu", None),
        ("cuda:0", 2 * GIB),
        ("cuda:1", None),
    ]
    assert [(each.role, each.device) for each in answer.places] == [("learner", "cuda:1"), ("server", "cuda:0")]
    assert [each.process for each in answer.fallbacks] == ["worker-0"]


def test_a_service_without_an_accelerator_has_its_processor_alone() -> None:
    answer = summarize([], [CPU])
    assert not answer.has_accelerator
    assert answer.devices == [CPU]

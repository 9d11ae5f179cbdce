"""`online devices`: with and without accelerators, with and without a service."""

import json
from datetime import UTC, datetime
from pathlib import Path

from online.models.devices.fallback import Fallback
from online.plugins.devices.command import describe, look_up
from online.plugins.devices.device_reports import DeviceReporter
from online.settings import ModelSettings, Placement, Settings
from tests.models.devices.fakes import GIB, FakeDevices
from tests.support import run_online

SPEC = ModelSettings(name="m", kind="tower", placement=Placement(learn_on=("cuda:1",), serve_on=("cuda:0", "cuda:1")))


def test_without_a_gpu_the_command_says_so_and_shows_the_processor(tmp_path: Path) -> None:
    lines = [*describe(look_up(Settings(state=tmp_path), FakeDevices()))]
    assert lines[0].startswith("no GPU: torch finds no accelerator")
    assert lines[2].split() == ["cpu", "4", "cores", "3.0", "GiB", "5.0", "GiB", "8.0", "GiB", "25", "%"]
    assert "digits  learns   cpu  planned" in lines


def test_without_a_service_the_places_are_those_of_the_settings(tmp_path: Path) -> None:
    answer = look_up(Settings(state=tmp_path, models=(SPEC,), workers=3), FakeDevices("cuda:0", "cuda:1"))
    assert [(each.role, each.device) for each in answer.places] == [
        ("learner", "cuda:1"),
        ("server", "cuda:0"),
        ("server", "cuda:1"),
    ]
    assert [each.name for each in answer.devices] == ["cpu", "cuda:0", "cuda:1"]


def test_a_running_service_says_what_it_has_where_and_what_did_not_fit(tmp_path: Path) -> None:
    devices = FakeDevices("cuda:0", "cuda:1", free_bytes=6 * GIB)
    reporter = DeviceReporter(
        tmp_path, "learner", "learner", devices, {"cuda:1": 4 * GIB}, lambda: datetime(2026, 1, 1, tzinfo=UTC)
    )
    reporter.place("m", "cuda:1", "cuda:1")
    reporter.note("m", Fallback("statistics", "cuda:1", "on the CPU", "full"))
    reporter.move("m", "cpu")
    reporter.write()
    text = "\n".join(describe(look_up(Settings(state=tmp_path, models=(SPEC,)), devices)))
    reporter.close()
    assert "cuda:1  Fake 16  10.0 GiB  6.0 GiB  16.0 GiB  4.0 GiB  40 %" in text
    assert "m      learns  cpu (instead of cuda:1)  learner" in text
    assert "m (learner): statistics on cuda:1 continued on the CPU: full" in text


def test_the_command_prints_json_and_refuses_a_device_that_does_not_exist(tmp_path: Path) -> None:
    shown = run_online("devices", "--state", str(tmp_path), "--json")
    answer = json.loads(shown.stdout)
    assert answer["devices"][0]["name"] == "cpu" and answer["devices"][0]["total_bytes"] > 0
    refused = run_online("devices", "--state", str(tmp_path), "--set", "device=cuda:77")
    assert refused.returncode == 2
    assert "device: there is no device 'cuda:77'; this machine has cpu" in refused.stderr

"""Which worker answers on which device, and how much of its memory it takes."""

from pathlib import Path

import pytest

from online.errors import SetupError
from online.serving.devices.placing import place_models
from online.settings import ModelSettings, Placement, Settings
from tests.models.devices.fakes import GIB, FakeDevices

THREE_GPUS = ("cuda:0", "cuda:1", "cuda:2")


def settings(path: Path, *serve_on: str, kind: str = "tower", **more: float) -> Settings:
    spec = ModelSettings(name="m", kind=kind, placement=Placement(serve_on=serve_on))
    return Settings(state=path, models=(spec,), **more)  # type: ignore[arg-type]


def test_replicas_lie_on_the_devices_in_turns_one_in_each_worker(tmp_path: Path) -> None:
    given = settings(tmp_path, "cuda:0", "cuda:2")
    placed = [place_models(given, worker, FakeDevices(*THREE_GPUS)).of_model["m"] for worker in range(5)]
    assert placed == ["cuda:0", "cuda:2", "cuda:0", "cuda:2", "cuda:0"]


def test_an_ensemble_is_spread_over_all_of_them_in_every_worker(tmp_path: Path) -> None:
    given = settings(tmp_path, "cuda:0", "cuda:2", kind="ensemble")
    assert place_models(given, 1, FakeDevices(*THREE_GPUS)).of_model == {"m": "cuda:0,cuda:2"}


def test_without_a_placement_the_cpu_answers_and_no_accelerator_is_touched(tmp_path: Path) -> None:
    devices = FakeDevices(*THREE_GPUS)
    assert place_models(settings(tmp_path), 0, devices).of_model == {"m": "cpu"}
    assert devices.limits == {}


def test_a_worker_takes_at_most_its_share_of_the_device_on_which_it_answers(tmp_path: Path) -> None:
    devices = FakeDevices(*THREE_GPUS)
    given = settings(tmp_path, "cuda:1", serving_memory_fraction=0.25)
    assert place_models(given, 0, devices).caps == {"cuda:1": 4 * GIB}
    assert devices.limits == {"cuda:1": 0.25}


def test_a_device_that_does_not_exist_is_refused_with_those_that_do(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=r"model 'm', placement.serve_on: there is no device 'cuda:7'.* cpu, cuda:0"):
        place_models(settings(tmp_path, "cuda:7"), 0, FakeDevices("cuda:0"))

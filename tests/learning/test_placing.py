"""Which model is learned on which device, and how much of its memory the learner takes."""

import threading
from functools import partial
from pathlib import Path

import pytest

from online.errors import SetupError
from online.learning.placing import place_models
from online.learning.process import join_all, start_thread
from online.learning.workers import WorkerHost
from online.models import recipe
from online.plugins.devices.device_reports import DeviceReporter, collect_reports
from online.schemas.events import Event
from online.settings import ModelSettings, Placement, Settings
from online.snapshots import Snapshots
from online.state.workspace import Workspace
from tests.models.devices.fakes import GIB, FakeDevices
from tests.support import until


def model(name: str, *learn_on: str, kind: str = "majority", **options: object) -> ModelSettings:
    return ModelSettings(name=name, kind=kind, options=options, placement=Placement(learn_on=learn_on))


def place(settings: Settings, *devices: str) -> dict[str, str]:
    return dict(place_models(settings, settings.models, FakeDevices(*devices)).of_model)


def test_each_model_is_learned_on_the_device_of_its_placement_or_else_on_that_of_the_service(tmp_path: Path) -> None:
    models = (model("a"), model("b", "cuda:1"), model("c", "cpu"), model("d", "cuda"))
    settings = Settings(state=tmp_path, models=models)
    assert place(settings, "cuda:0", "cuda:1") == {"a": "cuda:0", "b": "cuda:1", "c": "cpu", "d": "cuda:0"}
    assert place(settings.model_copy(update={"device": "cuda:1"}), "cuda:0", "cuda:1")["a"] == "cuda:1"


def test_without_an_accelerator_every_model_is_learned_on_the_cpu(tmp_path: Path) -> None:
    assert place(Settings(state=tmp_path, models=(model("a"), model("b", "auto")))) == {"a": "cpu", "b": "cpu"}


def test_a_device_that_does_not_exist_is_refused_with_the_model_and_those_that_do(tmp_path: Path) -> None:
    settings = Settings(state=tmp_path, models=(model("a"), model("b", "cuda:3")))
    with pytest.raises(
        SetupError, match=r"model 'b', placement.learn_on: there is no device 'cuda:3'.* has cpu, cuda:0"
    ):
        place(settings, "cuda:0")
    with pytest.raises(SetupError, match=r"^device: there is no device 'cuda:3'"):
        place(Settings(state=tmp_path, device="cuda:3"), "cuda:0")


def test_only_an_ensemble_is_spread_over_several_devices(tmp_path: Path) -> None:
    models = (model("a", "cuda:0", "cuda:1"), model("b", "cuda:1", "cuda:0", kind="ensemble"))
    assert place(Settings(state=tmp_path, models=models), "cuda:0", "cuda:1") == {"a": "cuda:0", "b": "cuda:1,cuda:0"}


def test_a_device_of_a_member_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    spec = model("b", "cuda:0", kind="ensemble", members=[{"kind": "knn", "device": "cuda:5"}])
    with pytest.raises(SetupError, match="model 'b', option 'members': there is no device 'cuda:5'"):
        place(Settings(state=tmp_path, models=(spec,)), "cuda:0")


def test_the_learner_limits_itself_on_every_device_that_a_model_or_a_member_uses(tmp_path: Path) -> None:
    members = [{"kind": "knn", "device": "cuda:2"}, {"kind": "majority"}]
    models = (model("a", "cuda:0"), model("b", "cuda:0", kind="ensemble", members=members), model("c", "cpu"))
    devices = FakeDevices("cuda:0", "cuda:1", "cuda:2")
    settings = Settings(state=tmp_path, models=models, device_memory_fraction=0.5, device_memory_bytes=4 * GIB)
    assert place_models(settings, models, devices).caps == {"cuda:0": 4 * GIB, "cuda:2": 4 * GIB}
    assert devices.limits == {"cuda:0": 0.25, "cuda:2": 0.25}


def has_learned(snapshots: Snapshots, of: str) -> bool:
    return snapshots.folder.live_until(of) == 3


def test_several_models_learn_on_several_devices_and_the_report_says_where(tmp_path: Path) -> None:
    exact = {"input": "vector", "size": 2, "scale": 4.0}
    models = (
        model("one", "cpu:0", kind="classifier", **exact),
        model("two", "cpu:1", kind="classifier", **exact),
    )
    workspace, devices, stop = (
        Workspace(Settings(state=tmp_path / "state", models=models)),
        FakeDevices("cpu:0", "cpu:1"),
        threading.Event(),
    )
    for spec in models:
        stream = workspace.sql_stream(spec.name)
        for n in range(3):
            stream.append(Event(f"{spec.name}{n}", "label", b"\0" * 16, "a"))
        stream.close()
    places = place_models(workspace.settings, models, devices)
    reporter = DeviceReporter(workspace.state, "learner", "learner", devices, places.caps)
    threads = [start_thread(workspace, spec, places, stop, WorkerHost(), reporter) for spec in models]
    try:
        for spec in models:
            snapshots, of = workspace.snapshots(spec.name), recipe(spec.kind, spec.options)
            until(partial(has_learned, snapshots, of), what="a version of each model")
        reporter.write()
        (report,) = collect_reports(workspace.state)
    finally:
        stop.set()
        join_all(threads)
        workspace.store.close()
    assert {place.model: place.device for place in report.places} == {"one": "cpu:0", "two": "cpu:1"}
    assert [(each.name, each.cap_bytes) for each in report.devices] == [("cpu:0", 16 * GIB), ("cpu:1", 16 * GIB)]

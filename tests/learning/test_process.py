"""The learner process: its device, its share of the device's memory, and the fallback to the CPU."""

import logging
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from pydantic import ValidationError

from online.learning.building import create_learner
from online.learning.placing import configure_device
from online.learning.process import run_learner
from online.models import KINDS, recipe
from online.schemas.events import Event
from online.settings import SHIPPED, ModelSettings, Settings
from online.state.workspace import Workspace
from tests.support import until


@pytest.fixture
def whole_device() -> Iterator[int]:
    """The bytes of a CUDA device's memory. The limit is removed afterwards."""
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device on this machine")
    yield torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(1.0)


def test_a_learner_uses_at_most_its_share_of_the_device(whole_device: int, tmp_path: Path) -> None:
    assert (
        configure_device(Settings(state=tmp_path, device="cuda", device_memory_fraction=0.01), SHIPPED[1]) == "cuda:0"
    )
    assert torch.empty(whole_device // 200, dtype=torch.uint8, device="cuda").nbytes == whole_device // 200
    with pytest.raises(torch.OutOfMemoryError):
        torch.empty(whole_device // 50, dtype=torch.uint8, device="cuda")


def test_a_share_of_the_device_has_no_effect_on_the_cpu(tmp_path: Path) -> None:
    assert configure_device(Settings(state=tmp_path, device="cpu", device_memory_fraction=0.01), SHIPPED[1]) == "cpu"


@pytest.mark.parametrize("share", [0, -0.5, 1.01, float("nan"), "half"])
def test_a_share_of_the_device_is_above_0_and_at_most_1(share: object) -> None:
    with pytest.raises(ValidationError, match="device_memory_fraction"):
        Settings.model_validate({"device_memory_fraction": share})


def test_a_model_too_large_for_the_device_is_learned_on_the_cpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(KINDS, "river", replace(KINDS["river"], path="tests.learning.failing_models:OversizedModel"))
    spec = ModelSettings(name="m", kind="river")
    workspace, stop = Workspace(Settings(state=tmp_path / "state", models=(spec,))), threading.Event()
    stream, recipe_hash = workspace.sql_stream("m"), recipe("river", workspace.options(spec))
    for n in range(3):
        stream.append(Event(f"e{n}", "label", b"", "a"))
    caplog.set_level(logging.WARNING, "online.learner")
    learner = threading.Thread(target=run_learner, args=(workspace, spec, "meta", stop))
    learner.start()
    try:
        until(
            lambda: workspace.snapshots("m").folder.live_until(recipe_hash) == 3,
            what="a version that learned everything",
        )
    finally:
        stop.set()
        learner.join()
        stream.close()
        workspace.store.close()
    assert "continuing on cpu" in caplog.text


GIVES_SIGNAL_TO_ANOTHER_THREAD = """
import signal, threading
from online.learning.process import join_all

stop = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: stop.set())
learner = threading.Thread(target=stop.wait)
learner.start()
other = threading.Thread(target=lambda: (signal.pthread_kill(threading.get_ident(), signal.SIGTERM), stop.wait()))
other.start()
join_all([learner, other])
print("ended")
"""


@pytest.mark.long
def test_a_signal_that_another_thread_gets_ends_the_process_too() -> None:
    command = [sys.executable, "-c", GIVES_SIGNAL_TO_ANOTHER_THREAD]
    assert subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout == "ended\n"


def test_each_setting_reaches_the_learner_that_it_is_for(tmp_path: Path) -> None:
    spec = ModelSettings.model_validate({"name": "m", "kind": "classifier", "options": {"input": "vector", "size": 2}})
    state = tmp_path / "state"
    settings = Settings(state=state, models=(spec,), learn_batch=7, publish_every_ms=11, durable_every_s=13)
    workspace = Workspace(settings)
    setup = create_learner(workspace, spec, workspace.options(spec), workspace.sql_stream("m"), "cpu").setup
    workspace.store.close()
    assert (setup.batch, setup.publish_every_ms, setup.durable_every_s, setup.idle_ms) == (7, 11.0, 13.0, 250.0)

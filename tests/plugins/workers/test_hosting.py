"""Processes that help a learner: started by it, from another machine, or by torchrun."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from online.errors import SetupError
from online.learning.training_state import OWN_PARTS, build_example
from online.models import create, recipe
from online.plugins.workers.hosting import find_rank, open_board
from online.plugins.workers.joining import join_board, parse_address
from online.schemas.events import Event
from online.settings import ModelSettings, Settings
from online.state.workspace import Workspace
from online.store.events import append_events
from tests.learning.scene import text_features
from tests.models.synthetic import TOPICS
from tests.preload import launcher
from tests.support import until

COUNT = 13_000
KEY = "a key for these tests"
SPEC = ModelSettings.model_validate({"name": "m", "kind": "classifier", "options": {"input": "text"}})


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="module")
def events() -> list[Event]:
    features = [text_features(seed) for seed in range(40)]
    labels = [TOPICS[int(n)] for n in np.random.default_rng(0).integers(len(TOPICS), size=40)]
    return [Event(f"e{n}", "label", features[n % 40], labels[n % 40]) for n in range(COUNT)]


@pytest.fixture
def workspace(tmp_path: Path, events: list[Event]) -> Iterator[Workspace]:
    (tmp_path / "online.toml").write_text(
        f'state = "{tmp_path}/state"\n[[models]]\nname = "m"\nkind = "classifier"\noptions = {{ input = "text" }}\n'
    )
    opened = Workspace(Settings(state=tmp_path / "state", models=(SPEC,)))
    with opened.store.durable_writer.begin() as connection:
        append_events(connection, "m", events, new=True)
    yield opened
    opened.store.close()


@contextmanager
def running(folder: Path, *command: str, **environment: str) -> Iterator["subprocess.Popen[str]"]:
    process = subprocess.Popen(
        command,
        cwd=folder,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.communicate(timeout=120)


LEARN = (launcher(), "-m", "online", "learn")


def wait_until_learned(workspace: Workspace) -> str:
    """Wait for a durable version that has learned the whole log, and return its fingerprint."""
    snapshots, options = workspace.snapshots("m"), workspace.options(SPEC)

    def has_learned() -> bool:
        return any(each.durable and each.learned_until == COUNT for each in snapshots.folder.manifests())

    until(has_learned, timeout_s=60, what="a durable version of the whole log")
    newest = next(iter(snapshots.folder.durable(recipe(SPEC.kind, options))))
    model = create(SPEC.kind, options)
    model.restore({name: part for name, part in newest.parts.items() if name not in OWN_PARTS})
    return model.fingerprint()


@pytest.fixture(scope="module")
def expected(events: list[Event]) -> str:
    model = create("classifier", {"input": "text"})
    model.learn([build_example(event.at(offset)) for offset, event in enumerate(events, 1)])
    return model.fingerprint()


@pytest.mark.long
def test_a_learner_starts_workers_and_ends_them(workspace: Workspace, expected: str) -> None:
    command = (sys.executable, *LEARN[1:])  # not through the preloader, whose children they would be
    with running(workspace.state.parent, *command, "--workers", "2") as learner:
        assert wait_until_learned(workspace) == expected
        until(lambda: len(list_descendants(learner.pid)) >= 2, what="two workers")  # it waits for none to learn
        children = list_descendants(learner.pid)
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in children), what="the end of the workers")


def list_descendants(pid: int) -> list[int]:
    """The processes that a process started from any of its threads, and those that these did."""
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    found = [int(each) for task in tasks for each in task.read_text().split()]
    return [*found, *(each for child in found for each in list_descendants(child))]


@pytest.mark.long
def test_a_worker_of_another_machine_joins_by_address_and_key(workspace: Workspace, expected: str) -> None:
    address, folder = f"127.0.0.1:{free_port()}", workspace.state.parent
    worker = running(folder, *LEARN, "--join", address, ONLINE_WORKERS_KEY=KEY)
    learner = running(folder, *LEARN, "--set", f"learn_address={address}", ONLINE_WORKERS_KEY=KEY)
    with worker, learner:
        assert wait_until_learned(workspace) == expected


@pytest.mark.long
def test_torchrun_makes_rank_0_the_learner_and_the_others_its_workers(workspace: Workspace, expected: str) -> None:
    torchrun = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "3", "--no-python")
    with running(workspace.state.parent, *torchrun, *LEARN, ONLINE_WORKERS_KEY=KEY):
        assert wait_until_learned(workspace) == expected


def test_an_address_without_a_key_is_refused_with_a_remedy(tmp_path: Path) -> None:
    settings = Settings.model_validate({"state": tmp_path, "learn_address": "127.0.0.1:7000"})
    with pytest.raises(SetupError, match="set workers_key"), open_board(settings):
        pass


def test_an_address_that_is_taken_is_refused_by_name(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        settings = Settings.model_validate({"state": tmp_path, "learn_address": address, "workers_key": KEY})
        with pytest.raises(SetupError, match=f"cannot listen for workers at {address}"), open_board(settings):
            pass


def test_a_worker_without_a_key_is_told_what_to_set(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="ONLINE_WORKERS_KEY"):
        join_board(Workspace(Settings(state=tmp_path)), "127.0.0.1:7000")


def test_a_worker_with_another_key_is_refused(tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    with (
        open_board(Settings.model_validate({"state": tmp_path, "learn_address": address, "workers_key": KEY})),
        pytest.raises(SetupError, match="another workers_key"),
    ):
        join_board(Workspace(Settings.model_validate({"state": tmp_path, "workers_key": KEY[::-1]})), address)


def test_a_worker_that_finds_no_learner_says_where_it_looked(tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    with pytest.raises(SetupError, match=f"no learner takes workers at {address}: Connection refused"):
        join_board(Workspace(Settings.model_validate({"state": tmp_path, "workers_key": KEY})), address, patience_s=0)


@pytest.mark.parametrize("text", ["7000", ":7000", "host:", "host:port", "host:65536"])
def test_an_address_is_a_host_and_a_port(text: str) -> None:
    with pytest.raises(SetupError, match="is not HOST:PORT"):
        parse_address(text)


def test_a_process_that_torchrun_did_not_start_has_no_rank() -> None:
    assert find_rank(Settings(), {}) is None
    assert find_rank(Settings(), {"RANK": "0", "WORLD_SIZE": "1"}) is None

"""Towers of which each process holds a part: they learn what one process learns, and outlive a lost part."""

import multiprocessing
import threading
from collections.abc import Iterator
from multiprocessing.connection import Client
from multiprocessing.process import BaseProcess
from pathlib import Path

import numpy as np
import pytest

from online.learning.learner import Learner
from online.models import Model, Options, create
from online.plugins.towers.parallel.split_stack import SplitStack
from online.plugins.towers.shared import as_tower
from online.plugins.towers.stack import FLAT
from online.plugins.towers.tower import Tower
from online.plugins.workers import team as teams
from online.plugins.workers.board import ShareBoard
from online.plugins.workers.worker import work
from tests.learning.scene import Scene, retraction
from tests.plugins.workers.of_learner import team_of
from tests.plugins.workers.test_team import KEY, OPTIONS, events, learn, learner_of, open_nothing
from tests.support import until

pytestmark = pytest.mark.long

SPLIT: Options = {**OPTIONS, "hidden": [8, 8]}
ENGINES = {"fsdp": "er", "pipeline": "derpp"}  # each with a strategy; this one also keeps logits of fresh rows
EVENTS = 48


class Workers:
    """Processes that join a board."""

    def __init__(self, board: ShareBoard) -> None:
        self.board = board
        self.processes: list[BaseProcess] = []

    def join(self, count: int) -> None:
        before, context = self.board.idle_count, multiprocessing.get_context("spawn")
        for _ in range(count):
            process = context.Process(target=work, args=(self.board.address, KEY, open_nothing))
            process.start()
            self.processes.append(process)
        until(lambda: self.board.idle_count >= before + count, timeout_s=60)


@pytest.fixture(autouse=True)
def stopped(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Stop every team at the end of its test: a process can hold a part of one tower at a time."""
    started: list[teams.Team] = []
    wrap = teams.Team.wrap

    def remember(team: teams.Team, model: Model) -> Model:
        started.append(team)
        return wrap(team, model)

    monkeypatch.setattr(teams.Team, "wrap", remember)
    yield
    for team in started:
        team.stop()


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[Workers]:
    board = ShareBoard(str(tmp_path / "board"), KEY)
    joined = Workers(board)
    yield joined
    board.close()
    for process in joined.processes:
        process.kill()
        process.join()


def tower_of(learner: Learner) -> Tower:
    return as_tower(learner.training.model.model)  # type: ignore[attr-defined]


def learn_split(scene: Scene, learner: Learner, start: int, count: int) -> None:
    """Learn a micro-batch, which calls idle workers; once they are ready, learn the others with them."""
    assert team_of(learner) is not None
    team = team_of(learner)
    learn(scene, learner, *events(4, start))
    until(lambda: all(call.is_ready for call in team.calls), timeout_s=30)
    learn(scene, learner, *events(count - 4, start + 4))


@pytest.mark.parametrize("engine", ENGINES)
def test_processes_that_hold_parts_learn_what_one_process_learns(engine: str, workers: Workers, tmp_path: Path) -> None:
    options = {**SPLIT, "parallel": engine, "strategy": ENGINES[engine]}
    scene, learner = learner_of(tmp_path, workers.board, options)
    workers.join(1)
    learn_split(scene, learner, 0, EVENTS)
    assert team_of(learner) is not None and team_of(learner).member_count == 1
    split = tower_of(learner)
    assert isinstance(split.trainer.stack, SplitStack)
    state, answers = learner.training.model.state(), learner.training.model.predict([e.features for e in events(9)])

    other, alone = learner_of(tmp_path / "alone", None, options)
    learn(other, alone, *events(EVENTS))
    expected = alone.training.model.state()
    whole_bytes = sum(expected["stack"].tensors[flat].nbytes for flat in FLAT)
    assert split.trainer.stack.held_bytes() <= 0.7 * whole_bytes * 5 / 4  # of which a gradient is the fifth
    for flat in FLAT:
        assert np.allclose(state["stack"].tensors[flat], expected["stack"].tensors[flat], atol=1e-4)
    assert np.allclose(state["memory"].tensors["loss"], expected["memory"].tensors["loss"], atol=1e-4)

    restored = create("tower", scene.options)
    restored.restore({name: part for name, part in state.items() if part.serving})
    assert restored.predict([e.features for e in events(9)]) == answers


def test_when_a_part_is_lost_the_learner_learns_again_from_the_log(workers: Workers, tmp_path: Path) -> None:
    scene, learner = learner_of(tmp_path, workers.board, {**SPLIT, "parallel": "fsdp"}, publish_every_ms=10)
    team, stop = team_of(learner), threading.Event()
    assert team is not None
    learn(scene, learner, *events(4))
    learner.save()  # learned alone: what is learned again after it has equal bits, too
    count = 4
    workers.join(1)
    running = threading.Thread(target=learner.run, args=(stop,))
    running.start()

    def append(more: int) -> None:
        nonlocal count
        for event in events(more, count):
            scene.stream.append(event)
        count += more
        until(lambda: learner.training.learned_until == scene.stream.head(), timeout_s=60)

    try:
        append(4)
        until(lambda: bool(team.calls) and all(call.is_ready for call in team.calls), timeout_s=60)
        append(16)
        assert team.member_count == 1
        assert learner.publisher.durable_until == 4
        workers.processes[0].kill()
        workers.processes[0].join()
        append(24)
        assert team.member_count == 0
    finally:
        stop.set()
        running.join(60)
    assert not running.is_alive()
    other, alone = learner_of(tmp_path / "alone", None, SPLIT)
    learn(other, alone, *events(count))
    assert learner.training.model.fingerprint() == alone.training.model.fingerprint()  # all of it was learned again


@pytest.mark.parametrize("engine", ENGINES)
def test_a_learner_warns_at_its_start_of_a_split_that_the_tower_does_not_need(
    engine: str, workers: Workers, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    _, learner = learner_of(tmp_path, workers.board, {**SPLIT, "parallel": engine})
    learner.resume()  # creates the model again
    (line,) = [record for record in caplog.records if record.message == "a tower need not be split"]
    fields = vars(line)["fields"]
    assert (line.levelname, fields["model"], fields["parallel"]) == ("WARNING", "m", engine)
    assert fields["reason"].endswith('set parallel to "auto" or "ddp"')


@pytest.mark.parametrize(("free_bytes", "engine"), [(1 << 40, "ddp"), (7_500, "fsdp")])
def test_auto_holds_a_tower_so_that_it_fits(
    free_bytes: int, engine: str, workers: Workers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene, learner = learner_of(tmp_path, workers.board, {**SPLIT, "parallel": "auto"})
    monkeypatch.setattr(teams, "share_memory", lambda members: [free_bytes] * len(members))
    workers.join(1)
    learn_split(scene, learner, 0, 16)
    assert team_of(learner) is not None and team_of(learner).member_count == 1
    assert team_of(learner).engine == engine


def test_what_was_retracted_is_learned_again_by_a_new_group(workers: Workers, tmp_path: Path) -> None:
    scene, learner = learner_of(tmp_path, workers.board, {**SPLIT, "parallel": "fsdp"})
    workers.join(1)
    learn_split(scene, learner, 0, 8)
    learn(scene, learner, retraction(scene.stream, 3), *events(8, 8))
    until(lambda: workers.board.idle_count == 1 or bool(team_of(learner) and team_of(learner).calls), timeout_s=30)
    learn_split(scene, learner, 16, 12)
    assert team_of(learner) is not None and team_of(learner).member_count == 1
    other, alone = learner_of(tmp_path / "alone", None, SPLIT)
    learn(other, alone, *events(8))
    learn(other, alone, retraction(other.stream, 3), *events(20, 8))
    found, expected = learner.training.model.state(), alone.training.model.state()
    for flat in FLAT:
        assert np.allclose(found["stack"].tensors[flat], expected["stack"].tensors[flat], atol=1e-4)


def test_a_worker_that_dies_before_it_is_ready_is_not_waited_for(workers: Workers, tmp_path: Path) -> None:
    scene, learner = learner_of(tmp_path, workers.board, {**SPLIT, "parallel": "fsdp"})
    assert team_of(learner) is not None
    team = team_of(learner)

    def die() -> None:
        with Client(workers.board.address, authkey=KEY) as connection:
            connection.recv_bytes()  # the call

    dying = threading.Thread(target=die, daemon=True)
    dying.start()
    until(lambda: workers.board.idle_count == 1)
    learn(scene, learner, *events(4))
    dying.join(10)
    until(lambda: workers.board.worker_count == 0)
    workers.join(1)
    learn_split(scene, learner, 4, 12)
    assert team.member_count == 1

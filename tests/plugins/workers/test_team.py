"""Workers that learn a tower with its learner: they come, go and fail, and what is learned stays the same."""

import multiprocessing
import threading
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Client
from pathlib import Path

import pytest

from online.learning.learner import Learner
from online.learning.setup import LearnerSetup
from online.learning.workers import WorkerHost
from online.models import Options
from online.plugins.workers.board import ShareBoard
from online.plugins.workers.learner_workers import BoardHost
from online.plugins.workers.worker import work
from online.schemas.events import Event
from online.stream.contract import Stream
from tests.learning.scene import Scene, retraction, vector_event
from tests.plugins.workers.of_learner import team_of
from tests.support import until

pytestmark = pytest.mark.long

KEY = b"the key of these tests"
OPTIONS: Options = {"input": "vector", "size": 3, "hidden": [8], "batch": 4, "replay": 4, "accumulate": 4}
FIRST, SECOND = 24, 40  # events before and after workers joined


@pytest.fixture
def board(tmp_path: Path) -> Iterator[ShareBoard]:
    opened = ShareBoard(str(tmp_path / "board"), KEY)
    yield opened
    opened.close()


def events(count: int, start: int = 0) -> list[Event]:
    return [vector_event(f"e{n}", "abc"[n % 3], n) for n in range(start, start + count)]


def learner_of(
    folder: Path, board: ShareBoard | None, options: Options, publish_every_ms: float = 1e9
) -> tuple[Scene, Learner]:
    scene = Scene(folder, "tower", options)
    created = Learner(
        "tower",
        scene.options,
        scene.snapshots,
        scene.stream,
        scene.workspace.store,
        LearnerSetup(
            publish_every_ms=publish_every_ms,
            durable_every_s=1e9,
            workers=WorkerHost() if board is None else BoardHost(board),
            drift="act",
        ),
    )
    return scene, created


def learn(scene: Scene, learner: Learner, *new: Event) -> None:
    for event in new:
        scene.stream.append(event)
    while learner.training.learned_until < scene.stream.head():
        learner.step()


def open_nothing(model: str, options: Options) -> Stream:
    raise AssertionError("a worker that learns a tower reads no log")


def join(board: ShareBoard, count: int) -> list[threading.Thread]:
    """Let workers join, each in a thread."""
    before = board.idle_count
    joined = [
        threading.Thread(target=partial(work, board.address, KEY, open_nothing), daemon=True) for _ in range(count)
    ]
    for thread in joined:
        thread.start()
    until(lambda: board.idle_count >= before + count)
    return joined


def call_workers(scene: Scene, learner: Learner, start: int) -> None:
    """Learn a micro-batch, which calls idle workers; wait until they are ready; learn another one, with them."""
    assert team_of(learner) is not None
    team = team_of(learner)
    until(lambda: team.may_call)
    learn(scene, learner, *events(4, start))
    until(lambda: all(call.is_ready for call in team.calls))
    learn(scene, learner, *events(4, start + 4))


def learn_alone(folder: Path, options: Options, *new: Event) -> str:
    scene, learner = learner_of(folder, None, options)
    learn(scene, learner, *new)
    return learner.training.model.fingerprint()


@pytest.mark.parametrize(("count", "processes"), [(1, 2), (2, 2), (3, 4), (5, 4)])
def test_workers_leave_the_bits_of_the_learner_alone(
    count: int, processes: int, board: ShareBoard, tmp_path: Path
) -> None:
    scene, learner = learner_of(tmp_path, board, OPTIONS)
    join(board, count)
    learn(scene, learner, *events(FIRST))
    call_workers(scene, learner, FIRST)
    assert team_of(learner) is not None and team_of(learner).member_count == processes - 1
    learn(scene, learner, *events(SECOND, FIRST + 8))
    assert team_of(learner).member_count == processes - 1  # nobody was lost
    alone = learn_alone(tmp_path / "alone", OPTIONS, *events(FIRST + 8 + SECOND))
    assert learner.training.model.fingerprint() == alone


def test_a_worker_that_joins_later_is_let_in(board: ShareBoard, tmp_path: Path) -> None:
    scene, learner = learner_of(tmp_path, board, OPTIONS)
    assert team_of(learner) is not None
    join(board, 1)
    call_workers(scene, learner, 0)
    assert team_of(learner).member_count == 1
    join(board, 2)
    call_workers(scene, learner, 8)
    assert team_of(learner).member_count == 3
    learn(scene, learner, *events(8, 16))
    assert learner.training.model.fingerprint() == learn_alone(tmp_path / "alone", OPTIONS, *events(24))


def test_a_worker_that_is_killed_is_replaced(board: ShareBoard, tmp_path: Path) -> None:
    scene, learner = learner_of(tmp_path, board, OPTIONS)
    assert team_of(learner) is not None
    process = multiprocessing.get_context("spawn").Process(target=work, args=(board.address, KEY, open_nothing))
    process.start()
    until(lambda: board.idle_count == 1)
    call_workers(scene, learner, 0)
    assert team_of(learner).member_count == 1
    process.kill()
    process.join()  # until then it may still take part in a step, and the loss would be noticed later
    learn(scene, learner, *events(8, 8))
    until(lambda: board.worker_count == 0)
    join(board, 1)
    call_workers(scene, learner, 16)
    assert team_of(learner).member_count == 1
    assert learner.training.model.fingerprint() == learn_alone(tmp_path / "alone", OPTIONS, *events(24))


def test_what_a_model_cannot_subtract_is_learned_again_with_workers(board: ShareBoard, tmp_path: Path) -> None:
    scene, learner = learner_of(tmp_path, board, OPTIONS)
    join(board, 1)
    call_workers(scene, learner, 0)
    learn(scene, learner, retraction(scene.stream, 3), *events(8, 8))
    call_workers(scene, learner, 16)
    other, alone = learner_of(tmp_path / "alone", None, OPTIONS)
    learn(other, alone, *events(8))
    learn(other, alone, retraction(other.stream, 3), *events(16, 8))
    assert learner.training.model.fingerprint() == alone.training.model.fingerprint()


def test_a_tower_in_one_part_calls_nobody(board: ShareBoard, tmp_path: Path) -> None:
    scene, learner = learner_of(tmp_path, board, {**OPTIONS, "accumulate": 1})
    join(board, 1)
    learn(scene, learner, *events(FIRST))
    assert team_of(learner) is not None and not team_of(learner).calls


def test_workers_are_free_again_when_the_learner_ends(board: ShareBoard, tmp_path: Path) -> None:
    scene, learner = learner_of(tmp_path, board, OPTIONS)
    join(board, 2)
    call_workers(scene, learner, 0)
    stop = threading.Event()
    stop.set()
    learner.run(stop)
    until(lambda: board.idle_count == 2)


def test_a_worker_that_says_something_else_is_let_go(board: ShareBoard, tmp_path: Path) -> None:
    scene, learner = learner_of(tmp_path, board, OPTIONS)

    def answer_wrongly() -> None:
        with suppress(OSError, EOFError), Client(board.address, authkey=KEY) as connection:
            connection.recv_bytes()
            connection.send_bytes(b"hello")
            connection.recv_bytes()

    rude = threading.Thread(target=answer_wrongly, daemon=True)
    rude.start()
    until(lambda: board.idle_count == 1)
    learn(scene, learner, *events(4))
    rude.join(10)
    learn(scene, learner, *events(12, 4))
    assert board.worker_count == 0
    assert learner.training.model.fingerprint() == learn_alone(tmp_path / "alone", OPTIONS, *events(16))

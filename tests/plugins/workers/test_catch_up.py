"""Workers that sum parts of a log: whatever they do, the learner ends in the state of one process."""

import threading
from collections.abc import Callable, Iterator
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from online.learning.learner import Learner
from online.learning.setup import LearnerSetup
from online.learning.shares import ShareReader, SumShare
from online.learning.workers import WorkerHost
from online.models import State
from online.plugins.workers import catch_up
from online.plugins.workers.board import ShareBoard
from online.plugins.workers.learner_workers import BoardHost
from online.plugins.workers.worker import ShareWorker, work
from online.schemas.events import Event
from tests.learning.scene import Scene, text_features
from tests.support import until

KEY = b"the key of these tests"
RANGE = 64
TEXT = {"input": "text"}


@pytest.fixture(autouse=True)
def short_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catch_up, "RANGE", RANGE)


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path, options=TEXT)


@pytest.fixture
def board(tmp_path: Path) -> Iterator[ShareBoard]:
    opened = ShareBoard(str(tmp_path / "board"), KEY)
    yield opened
    opened.close()


def text_event(number: int) -> Event:
    label = f"topic {number % 5}"
    return Event(f"e{number}", "label", text_features(number % 5 * 1_000 + number % 7), label, choice="topic 1")


def fill(scene: Scene, count: int) -> None:
    for number in range(count):
        scene.stream.append(text_event(number))


def learn_all(scene: Scene, board: ShareBoard | None = None, **settings: Any) -> Learner:
    """Learn the whole log from nothing."""
    learner = Learner(
        scene.kind,
        scene.options,
        scene.snapshots,
        scene.stream,
        scene.workspace.store,
        LearnerSetup(
            batch=16,
            publish_every_ms=1e9,
            durable_every_s=1e9,
            workers=WorkerHost() if board is None else BoardHost(board),
            **settings,
        ),
    )
    while learner.training.learned_until < scene.stream.head():
        learner.step()
    return learner


def everything(learner: Learner) -> dict[str, dict[str, bytes]]:
    """All that the learner keeps, but for solved weights, which are equal only to their last digits."""
    state: State = learner.training.state()
    parts = {name: part for name, part in state.items() if name != "weights"}
    return {name: {key: np.asarray(t).tobytes() for key, t in part.tensors.items()} for name, part in parts.items()}


@pytest.fixture
def start_worker(scene: Scene, board: ShareBoard) -> Iterator[Callable[[], None]]:
    threads: list[threading.Thread] = []

    def start() -> None:
        joined = board.worker_count + 1
        address = board.address
        thread = threading.Thread(
            target=work, args=(address, KEY, lambda model, options: scene.workspace.sql_stream("m"))
        )
        threads.append(thread)
        thread.start()
        until(lambda: board.worker_count == joined, what="the worker to join")

    yield start
    board.close()
    for thread in threads:
        thread.join()


def test_a_learner_with_workers_ends_in_the_state_of_one_without(
    scene: Scene, board: ShareBoard, start_worker: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(scene, 700)
    alone = learn_all(scene)
    start_worker()
    start_worker()
    merged = count_merged(monkeypatch)
    shared = learn_all(scene, board)
    assert everything(shared) == everything(alone)
    assert shared.counts == alone.counts
    assert shared.training.log_digest == alone.training.log_digest
    assert sum(merged) >= 3 * RANGE


@pytest.mark.long
def test_the_log_and_the_tally_say_who_summed_how_much(
    scene: Scene, board: ShareBoard, start_worker: Callable[[], None], caplog: pytest.LogCaptureFixture
) -> None:
    fill(scene, 700)
    start_worker()
    with caplog.at_level("INFO"):
        learn_all(scene, board)
    counts = board.tally.counts()
    assert {*counts} == {("m", "learner"), ("m", "worker-1")}
    (line,) = [vars(record)["fields"] for record in caplog.records if record.message == "summed with workers"]
    total = sum(counts.values())
    assert line["examples"] == total > 500
    assert line["worker_1_ratio"] == round(counts["m", "worker-1"] / total, 3) > 0.2
    assert line["learner_ratio"] == round(counts["m", "learner"] / total, 3)


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "workers", "events", "reason"),
    [
        ("classifier", 1, 30, "fewer than 128 events are left to learn"),
        ("classifier", 0, 300, "none has joined yet"),
        ("best_of", 1, 300, "the sums of this best_of cannot be added"),
    ],
)
def test_the_log_says_once_why_no_worker_was_asked(
    tmp_path: Path,
    board: ShareBoard,
    start_worker: Callable[[], None],
    caplog: pytest.LogCaptureFixture,
    kind: str,
    workers: int,
    events: int,
    reason: str,
) -> None:
    scene = Scene(tmp_path / "other", kind=kind, options=TEXT)
    fill(scene, events)
    for _ in range(workers):
        start_worker()
    with caplog.at_level("INFO"):
        learn_all(scene, board)
    lines = [vars(record)["fields"] for record in caplog.records if record.message == "workers not asked"]
    assert lines[0]["reason"] == reason and len(lines) == len({line["reason"] for line in lines})
    assert not board.tally.counts()


def test_a_worker_that_joins_has_the_lowest_number_that_is_free(board: ShareBoard) -> None:
    assert [board._admit(), board._admit()] == [1, 2]
    board._dismiss(1, "it was killed")
    assert (board._admit(), board.worker_count) == (1, 2)


def test_the_learner_takes_ranges_so_that_it_never_waits() -> None:
    assignment = catch_up.RangeAssignment()
    assignment.note_workers(2)
    assert [assignment.is_learners() for _ in range(7)] == [False, False, True, False, False, True, False]
    for _ in range(3):
        assignment.note_share(is_ready=True)
    assert assignment.in_a_row == 3  # the workers are fast
    for _ in range(5):
        assignment.note_share(is_ready=False)
    assert assignment.in_a_row == 1  # they are slow, but always asked
    assert [assignment.is_learners() for _ in range(4)] == [True, False, True, False]
    for count in (1, 32):  # one has left, others join
        assignment.note_workers(count)
    assert assignment.in_a_row == 32
    for _ in range(10_000):
        assignment.note_share(is_ready=True)
    assert assignment.in_a_row == catch_up.MOST_IN_A_ROW


def count_merged(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of examples whose sums were found, which grows."""
    found: list[int] = []
    before = catch_up.CatchUp.find_sums

    def find_sums(self: catch_up.CatchUp, examples: Any) -> Any:
        sums = before(self, examples)
        found.extend([len(examples)] if sums is not None else [])
        return sums

    monkeypatch.setattr(catch_up.CatchUp, "find_sums", find_sums)
    return found


def test_retractions_in_the_log_are_learned_in_their_place(
    scene: Scene, board: ShareBoard, start_worker: Callable[[], None]
) -> None:
    fill(scene, 300)
    for offset in (20, 170, 290):
        event = scene.stream.read(offset - 1, 1)[0]
        scene.stream.append(Event(f"{event.id}#gone", "retraction", event.features, target=event.at(offset)))
        for number in range(40):
            scene.stream.append(replace(text_event(number), id=f"after {offset} {number}"))
    start_worker()
    assert everything(learn_all(scene, board)) == everything(learn_all(scene))


@pytest.mark.long
def test_refused_examples_are_refused_with_workers_too(
    scene: Scene, board: ShareBoard, start_worker: Callable[[], None]
) -> None:
    fill(scene, 200)
    scene.stream.append(Event("broken", "label", b"short", "topic 1"))
    for number in range(200, 400):
        scene.stream.append(text_event(number))
    start_worker()
    shared = learn_all(scene, board)
    assert list(shared.training.refused) == [201]
    assert everything(shared) == everything(learn_all(scene))


class RudeWorker(threading.Thread):
    """Takes a range and does something else than to sum it."""

    def __init__(self, board: ShareBoard, reply: bytes | None) -> None:
        super().__init__()
        self.address, self.reply, self.is_over = board.address, reply, threading.Event()
        self.start()
        until(lambda: board.worker_count == 1, what="the worker to join")

    def run(self) -> None:
        with Client(self.address, authkey=KEY) as connection:
            for _ in range(3):  # how the model reads, in two messages, and a range
                connection.recv_bytes()
            if self.reply is not None:
                connection.send_bytes(self.reply)
                self.is_over.wait()


@pytest.mark.few(1)
@pytest.mark.parametrize("reply", [None, b"no share at all"], ids=["it leaves", "it sends nonsense"])
def test_a_worker_that_fails_changes_nothing(scene: Scene, board: ShareBoard, reply: bytes | None) -> None:
    fill(scene, 500)
    rude = RudeWorker(board, reply)
    shared = learn_all(scene, board)
    rude.is_over.set()
    rude.join()
    assert everything(shared) == everything(learn_all(scene))


def test_a_worker_that_never_answers_delays_a_range_at_most_by_its_patience(
    scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(scene, 500)
    ticks = iter(range(10**9))
    board = ShareBoard(str(tmp_path / "hurried"), KEY, clock=lambda: 10.0 * next(ticks))
    silent = RudeWorker(board, b"")
    shared = learn_all(scene, board)
    silent.is_over.set()
    board.close()
    silent.join()
    assert everything(shared) == everything(learn_all(scene))


@pytest.mark.long
def test_a_worker_may_join_in_the_midst_of_a_log(
    scene: Scene, board: ShareBoard, start_worker: Callable[[], None]
) -> None:
    fill(scene, 700)
    learner = Learner(
        scene.kind,
        scene.options,
        scene.snapshots,
        scene.stream,
        scene.workspace.store,
        LearnerSetup(workers=WorkerHost() if board is None else BoardHost(board)),
    )
    learner.step()
    start_worker()
    while learner.training.learned_until < scene.stream.head():
        learner.step()
    assert everything(learner) == everything(learn_all(scene))


def test_a_worker_without_the_key_is_refused(board: ShareBoard) -> None:
    with pytest.raises(AuthenticationError):
        work(board.address, b"another key", lambda model, options: pytest.fail("it reads nothing"))
    assert board.worker_count == 0


@pytest.mark.long
def test_a_share_of_a_log_that_has_changed_since_is_not_merged(
    scene: Scene, board: ShareBoard, start_worker: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(scene, 500)
    before = ShareWorker._sum_up

    def sum_another_log(self: ShareWorker, name: str, after: int, until: int) -> Any:
        return before(self, name, max(0, after - 1), until)

    monkeypatch.setattr(ShareWorker, "_sum_up", sum_another_log)
    merged = count_merged(monkeypatch)
    start_worker()
    assert everything(learn_all(scene, board)) == everything(learn_all(scene))
    assert not merged


@pytest.mark.long
def test_a_worker_goes_on_after_a_range_that_it_cannot_sum(
    scene: Scene, board: ShareBoard, start_worker: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(scene, 500)
    before = ShareReader.sum_up

    def fail_at_first(self: ShareReader, after: int, until: int) -> SumShare:
        if after == RANGE:
            raise ArithmeticError("a defect of this worker")
        return before(self, after, until)

    monkeypatch.setattr(ShareReader, "sum_up", fail_at_first)
    start_worker()
    assert everything(learn_all(scene, board)) == everything(learn_all(scene))
    assert board.worker_count == 1

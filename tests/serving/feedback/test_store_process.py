"""Feedback that the store process commits: as if this process did it, and also where that one fails."""

import asyncio
import os
import signal
import socket
import sqlite3
import sys
import threading
from asyncio.subprocess import PIPE, Process, create_subprocess_exec
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from sqlalchemy import select

from online.errors import BadInput, OnlineError
from online.schemas.access.callers import SERVICE, Caller
from online.schemas.feedback import FeedbackItem, Receipt
from online.serving.feedback.recording import prepare_item
from online.serving.feedback.work import FeedbackWork, create_work
from online.serving.processes import store_client
from online.serving.processes.store_client import StoreClient
from online.serving.processes.store_messages import (
    MAX_MESSAGE_BYTES,
    READY,
    MarkLearned,
    NewFeedback,
    RetractFeedback,
    SubmitFeedback,
    Work,
    WriteOutcome,
    frame,
)
from online.serving.processes.store_process import StoreProcess
from online.settings import ModelSettings, Settings
from online.state.workspace import Workspace
from online.store.events import EVENTS
from online.store.feedback import FEEDBACK
from online.store.predictions import add_predictions
from tests.conftest import Start, config
from tests.serving.processes.test_workers import children
from tests.support import Service
from tests.support import until as until_true

FEATURES = b"\x01" * 384
ANN = Caller("key:ann", frozenset({"predict", "feedback"}), user="ann")


def open_workspace(folder: Path) -> Workspace:
    spec = ModelSettings(name="m", kind="ranker")
    settings = Settings(state=folder, models=(spec,), feedback_per_hour=3, min_free_bytes=0)
    return Workspace(settings)


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    workspace = open_workspace(tmp_path / "state")
    yield workspace
    workspace.store.close()


@pytest.fixture
def work(workspace: Workspace) -> FeedbackWork:
    return create_work(workspace, workspace.journal_copy())


def prediction(id: str, choice: str | None, user: str | None = None) -> dict[str, Any]:
    answer = {"input": '"?"', "features": FEATURES, "choice": choice, "propensity": 1.0, "candidates": "[]"}
    row = {"id": id, "model": "m", "version": 0, "learned_until": 0, "user": user, "created_at": "2026-01-01"}
    return {**row, **answer}


def ask(workspace: Workspace) -> None:
    rows = [prediction("p", "r1"), prediction("abstained", None), prediction("of-ann", "r1", "ann")]
    workspace.store.submit(lambda connection: add_predictions(connection, rows)).result()


def item(id: str, **fields: Any) -> NewFeedback:
    return prepare_item(FeedbackItem(id=id, **fields), True, FEATURES, FEATURES)


def submit(*items: NewFeedback, caller: Caller = SERVICE, encoders: tuple[str, ...] = ()) -> SubmitFeedback:
    return SubmitFeedback("m", [*items], caller, [*encoders])


LIKE = submit(item("a", prediction_id="p", reward=1))
WORKS: dict[str, list[Work]] = {
    "receipts": [LIKE, LIKE, submit(item("b", prediction_id="p", correction="Hello there"))],
    "replaced": [LIKE, submit(item("b", prediction_id="p", reward=0)), RetractFeedback("m", "b", SERVICE)],
    "twice in one request": [submit(*[item("a", prediction_id="p", reward=1)] * 2)],
    "Conflict": [LIKE, submit(item("new", prediction_id="p", reward=1), item("a", prediction_id="p", reward=0))],
    "Conflict within a request": [
        submit(item("a", prediction_id="p", reward=1), item("a", prediction_id="p", reward=0))
    ],
    "NotFound, the prediction": [submit(item("a", prediction_id="nowhere", reward=1))],
    "NotFound, the reply": [submit(item("a", prediction_id="p", label="no such reply"))],
    "NotFound, the feedback": [RetractFeedback("m", "nowhere", SERVICE)],
    "NotFound, another caller's": [LIKE, RetractFeedback("m", "a", ANN)],
    "BadInput": [submit(item("a", prediction_id="abstained", reward=1))],
    "Forbidden": [submit(item("a", prediction_id="of-ann", correction="New"), caller=ANN)],
    "QuotaExceeded": [submit(*(item(f"{n}", prediction_id="of-ann", reward=n % 2) for n in range(4)), caller=ANN)],
    "EncoderMoved": [submit(item("a", input="?", correction="New"), encoders=("another",))],
    "a defect": [SubmitFeedback("unknown", [], SERVICE, [])],
}


class Child:
    """Starts processes for a client. What they should do with their end of the connection is done by `serve`, in a thread."""

    def __init__(self, serve: Callable[[socket.socket], None]) -> None:
        self.serve, self.processes = serve, list[Process]()

    async def start(self, channel: int) -> Process:
        process = await create_subprocess_exec(sys.executable, "-c", "input()", stdin=PIPE)
        self.processes.append(process)
        self.serve(socket.socket(fileno=os.dup(channel)))
        return process

    async def end(self) -> None:
        for process in self.processes:
            if process.returncode is None:
                process.kill()
            await process.wait()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.005)


def with_client(
    here: FeedbackWork, serve: Callable[[socket.socket], None], test: Callable[[StoreClient, Child], Awaitable[Any]]
) -> Any:
    """Run a test with a client whose process is ready."""

    async def run() -> Any:
        child = Child(serve)
        client = StoreClient(here.submit, child.start)
        await client.start()
        channel = client.channel
        assert channel is not None
        await until(lambda: channel.is_ready)
        try:
            return await test(client, child)
        finally:
            await child.end()

    return asyncio.run(run())


def serve_with(work: FeedbackWork) -> Callable[[socket.socket], None]:
    return lambda channel: StoreProcess(channel, work.submit, lambda: None).start()


def ready_then(act: Callable[[socket.socket], None]) -> Callable[[socket.socket], None]:
    """A process that says that it can work, and then acts when the first work arrives."""

    def wait_and_act(channel: socket.socket) -> None:
        channel.recv(1)
        act(channel)

    def serve(channel: socket.socket) -> None:
        channel.sendall(frame(WriteOutcome(READY)))
        threading.Thread(target=wait_and_act, args=(channel,), daemon=True).start()

    return serve


async def try_all(client: StoreClient, works: list[Work]) -> list[Any]:
    """What each work returns, or raises."""
    found = list[Any]()
    for each in works:
        try:
            found.append(await client.perform(each))
        except OnlineError as error:
            values = {name: value for name, value in vars(error).items() if name != "retry_after_s"}
            found.append((type(error), str(error), error.status, values, hasattr(error, "retry_after_s")))
        except Exception as error:
            found.append("a defect" if "KeyError" in repr(error) else error)
    return found


def rows_of(workspace: Workspace) -> list[Any]:
    """The log and the feedback in the store, without times and what differs from store to store."""
    events, feedback = EVENTS.c, FEEDBACK.c
    logged = select(events.offset, events.id, events.label, events.features, events.body, events.feedback_id)
    kept = select(feedback.id, feedback.offset, feedback.content, feedback.caller, feedback.about, feedback.status)
    queries = logged.order_by(events.offset), kept.order_by(feedback.id)
    rows: list[Any] = workspace.store.read(lambda connection: [connection.execute(each).all() for each in queries])
    return rows


@pytest.mark.parametrize("name", WORKS)
def test_it_answers_as_this_process_does(name: str, tmp_path: Path) -> None:
    here, there = open_workspace(tmp_path / "here"), open_workspace(tmp_path / "there")
    ask(here)
    ask(there)

    async def run_here() -> list[Any]:
        return await try_all(StoreClient(create_work(here, here.journal_copy()).submit), WORKS[name])

    expected = asyncio.run(run_here())
    work = create_work(there, there.journal_copy())
    unused = FeedbackWork(there.store, {}, {})
    found = with_client(unused, serve_with(work), lambda client, child: try_all(client, WORKS[name]))
    assert found == expected
    assert rows_of(there) == rows_of(here)
    is_error = not name.startswith(("receipts", "replaced", "twice"))
    assert isinstance(expected[-1], tuple | str) == is_error
    assert not is_error or name.split(",")[0].split(" within")[0] in str(expected[-1])
    for workspace in (here, there):
        workspace.store.close()


def test_the_learner_is_woken_by_what_is_committed_and_by_nothing_else(
    workspace: Workspace, work: FeedbackWork
) -> None:
    ask(workspace)
    with closing(workspace.event_wakeup("m").listen()) as listener:
        assert isinstance(work.submit(WORKS["BadInput"][0]).exception(), BadInput)
        assert isinstance(work.submit(WORKS["a defect"][0]).exception(), KeyError)
        assert not work.submit(MarkLearned("m", [(0, 5, 1, "2026-01-01")])).result() and not listener.wait(0)
        assert work.submit(LIKE).result() and listener.wait(0)


def test_a_store_that_is_closed_is_unavailable_both_ways(work: FeedbackWork, tmp_path: Path) -> None:
    work.store.close()
    here = asyncio.run(try_all(StoreClient(work.submit), [LIKE]))
    there = with_client(work, serve_with(work), lambda client, child: try_all(client, [LIKE]))
    assert here == there and "Unavailable" in str(here)


def likes(client: StoreClient, count: int) -> Awaitable[list[list[Receipt]]]:
    """Work whose ids the service has just made, so that nobody looks for them the first time."""
    works = (submit(item(f"{number}", input="?", correction=f"Reply {number}")) for number in range(count))
    return asyncio.gather(*(client.perform(msgspec.structs.replace(work, may_be_known=False)) for work in works))


def check_likes(workspace: Workspace, receipts: list[list[Receipt]], count: int) -> None:
    """Every one was acknowledged, and is in the log once."""
    assert [each[0].id for each in receipts] == [f"{number}" for number in range(count)]
    events, feedback = rows_of(workspace)
    assert {row.offset: row.id for row in feedback} == {each[0].offset: each[0].id for each in receipts}
    assert sorted(row.id for row in events if "#" not in row.id) == sorted(each[0].id for each in receipts)
    assert len(events) == 2 * count  # a reply and a correction each


@pytest.mark.parametrize(
    "act",
    [
        lambda channel: channel.shutdown(socket.SHUT_RDWR),
        lambda channel: channel.sendall(b"\x04\x00\x00\x00\xc1\xc1\xc1\xc1"),
        lambda channel: channel.sendall((MAX_MESSAGE_BYTES + 1).to_bytes(4, "little")),
        lambda channel: channel.sendall(b"\x04"),
    ],
    ids=["it ends", "it writes nonsense", "it announces a huge message", "it is silent"],
)
def test_what_a_failed_process_has_not_answered_is_done_here(
    workspace: Workspace, work: FeedbackWork, act: Callable[[socket.socket], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_client, "ANSWER_S", 0.2)
    monkeypatch.setattr(store_client, "CHECK_EVERY_S", 0.05)
    receipts = with_client(work, ready_then(act), lambda client, child: likes(client, 20))
    check_likes(workspace, receipts, 20)


def test_work_that_was_committed_and_not_answered_is_not_done_twice(workspace: Workspace, work: FeedbackWork) -> None:
    def commit_and_end(channel: socket.socket) -> None:
        def submit_and_end(each: Work) -> Any:
            work.submit(each).result()
            channel.shutdown(socket.SHUT_RDWR)
            raise BrokenPipeError

        StoreProcess(channel, submit_and_end, lambda: None).start()

    receipts = with_client(work, commit_and_end, lambda client, child: likes(client, 20))
    check_likes(workspace, receipts, 20)


def test_a_message_that_is_too_long_is_work_for_this_process(
    workspace: Workspace, work: FeedbackWork, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("online.serving.processes.store_messages.MAX_MESSAGE_BYTES", 100)
    unused = FeedbackWork(workspace.store, {}, {})
    check_likes(workspace, with_client(work, serve_with(unused), lambda client, child: likes(client, 2)), 2)


def test_a_stopped_process_is_killed(work: FeedbackWork, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_client, "ANSWER_S", 0.2)
    monkeypatch.setattr(store_client, "CHECK_EVERY_S", 0.05)

    async def stop_and_work(client: StoreClient, child: Child) -> int:
        child.processes[0].send_signal(signal.SIGSTOP)
        await likes(client, 3)
        return await asyncio.wait_for(child.processes[0].wait(), 30)

    open_ends = list[socket.socket]()
    assert with_client(work, ready_then(open_ends.append), stop_and_work) == -signal.SIGKILL
    assert len(open_ends) == 1


CONFIG = """
restart_max_s = 0.2
[[models]]
name = "vec"
kind = "classifier"
options = { input = "vector", size = 2, scale = 4.0 }
"""
GIVERS, START_S = 2, 120.0


@pytest.mark.parametrize("kills", [1, pytest.param(3, marks=pytest.mark.long)])
def test_a_stream_of_feedback_survives_kills_of_the_store_process(tmp_path: Path, kills: int) -> None:
    """Every item is acknowledged, and is in the log once."""
    service = Service(
        tmp_path / "state", config(tmp_path, CONFIG), preloaded=False
    )  # the processes are told by their commands
    enough, killed = threading.Event(), list[int]()

    def give(name: str) -> list[tuple[str, int]]:
        found, limits = list[tuple[str, int]](), httpx.Limits(max_connections=1)
        with httpx.Client(base_url=service.url, timeout=30, limits=limits) as client:
            while not enough.is_set():
                items = [{"id": f"{name}-{len(found) + place}", "input": [1, 2], "label": "a"} for place in range(3)]
                response = client.post("/v1/models/vec:feedback", json={"feedback": items})
                assert response.status_code == 202, response.text
                found += [(each["id"], each["offset"]) for each in response.json()["receipts"]]
        return found

    with ThreadPoolExecutor(GIVERS) as threads:
        givers = [threads.submit(give, f"giver{number}") for number in range(GIVERS)]
        try:
            while len(killed) < kills:
                pid = until_true(lambda: next(iter({*working_processes(service)} - {*killed}), None), START_S)
                wait_for_feedback(service, 30)
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)
        finally:
            enough.set()
        acknowledged = [each for giver in givers for each in giver.result()]
    assert service.stop() == 0
    store = sqlite3.connect(tmp_path / "state" / "online.db")
    logged = store.execute("SELECT id, offset FROM event ORDER BY offset").fetchall()
    assert sorted(acknowledged) == sorted(logged) == sorted(store.execute("SELECT id, offset FROM feedback"))
    assert [offset for _, offset in logged] == [*range(1, len(logged) + 1)]
    store.close()


def test_readyz_shows_a_store_process_that_was_killed(start: Start) -> None:
    service = start(CONFIG.replace("restart_max_s = 0.2", ""))

    def look(state: str) -> dict[str, str] | None:
        ready = service.http.get("/readyz")
        assert ready.status_code == 200, ready.text
        found: dict[str, str] = ready.json()["store_process"]
        return found if found["state"] == state else None

    found = None
    while found is None:  # the pause before the next start doubles each time, so that it is seen in the end
        assert until_true(lambda: look("running"), START_S) == {"state": "running"}
        os.kill(until_true(lambda: children(service.process.pid, "store"), START_S)[0], signal.SIGKILL)
        for _ in range(50):
            found = found or look("restarting")
            threading.Event().wait(0.01)
    assert found["reason"].startswith("it ended with status -9; next start in ")
    service.http.post(
        "/v1/models/vec:feedback", json={"feedback": [{"input": [1, 2], "label": "a"}]}
    ).raise_for_status()


def working_processes(service: Service) -> list[int]:
    """The store processes that have opened the store."""
    found = []
    for pid in children(service.process.pid, "store"):
        with suppress(OSError):
            files = [str(each.readlink()) for each in Path(f"/proc/{pid}/fd").iterdir()]
            found += [pid] if any(each.endswith("online.db") for each in files) else []
    return found


def wait_for_feedback(service: Service, count: int) -> None:
    before = head(service)
    until_true(lambda: head(service) >= before + count)


def head(service: Service) -> int:
    return int(service.http.get("/v1/models/vec").json()["head"])

"""Helpers shared by the tests: a real service as a child process, polling, and a skip that fails in CI."""

import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import Connection, create_engine, text

from online.client import Client, ErasureResult
from tests.preload import ForkedProcess, launcher

READY = re.compile(r"is ready: (https?://\S+)")
START_S = 120.0
LOOPS, LOOPS_S = 30_000_000, 0.3  # how long `sum(range(LOOPS))` takes on the machine of our figures


def skip_or_fail(reason: str) -> None:
    """Skip the test locally; fail it in CI, where everything must be installed."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"missing in CI: {reason}")
    pytest.skip(reason)


def first_of(values: Iterable[Any], count: int = 1) -> list[Any]:
    """Let a test run always for the first values of its parameter, and for the others with --all only."""
    chosen = list[Any](values)
    others = (value if isinstance(value, tuple) else (value,) for value in chosen[count:])
    return [*chosen[:count], *(pytest.param(*value, marks=pytest.mark.long) for value in others)]


def wait_for_rows(store: sqlite3.Connection, count: int) -> None:
    """Return once a store has so many predictions: what was answered is copied from the journal a moment later."""
    query = "SELECT count(*) FROM prediction"
    until(lambda: store.execute(query).fetchone()[0] >= count, what="the copy of the journal")


def until(condition: Callable[[], Any], timeout_s: float = 30.0, what: str = "it", every_s: float = 0.02) -> Any:
    """Call `condition` until its value is true, and return that value. Fails after `timeout_s` seconds.

    every_s: longer where the condition takes time from what it waits for, such as a process of low priority.
    """
    end, pause = time.monotonic() + timeout_s, threading.Event()
    while not (value := condition()):
        if time.monotonic() > end:
            pytest.fail(f"{what} did not happen within {timeout_s} s")
        pause.wait(every_s)
    return value


def measure_slowness() -> float:
    """Return how many times longer a loop takes than on the machine of our figures, beside what else runs; at least 1.

    A time limit that is a promise for that machine is multiplied by it: a shared machine may be eight times slower.
    """
    began = time.monotonic()
    sum(range(LOOPS))
    return max(1.0, (time.monotonic() - began) / LOOPS_S)


def start_process(arguments: list[str], preloaded: bool) -> subprocess.Popen[str] | ForkedProcess:
    if preloaded:
        return ForkedProcess(arguments)
    return subprocess.Popen([sys.executable, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def erase(client: Client, user: str) -> ErasureResult:
    """Erase a user, and wait until nothing is left: an erasure goes on beside requests, and appends to the log."""
    erased = client.erase(user)
    until(lambda: client.erasure(erased["id"])["state"] == "done", 120, "the end of the erasure")
    return erased


class Service:
    """`online serve` as a child process. Its output is kept in `output`.

    preloaded: fork a process that has its modules imported already. Otherwise start it as in production.
    """

    def __init__(self, state: Path, config: str = "", *flags: str, preloaded: bool = True) -> None:
        self.state, self.output = state, ""
        command = ["-m", "online", "serve", "--state", str(state), "--port", "0", *flags]
        if config:
            state.parent.mkdir(parents=True, exist_ok=True)
            path = state.parent / f"{state.name}.toml"
            path.write_text(config)
            command += ["--config", str(path)]
        self.process = start_process(command, preloaded and not re.search(r"^workers = (?!1$)", config, re.MULTILINE))
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.url = self._wait_ready()
        self.http = httpx.Client(base_url=self.url, timeout=30)

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.output += line

    def _wait_ready(self) -> str:
        def ready() -> str | None:
            if self.process.poll() is not None:
                pytest.fail(f"the service ended with {self.process.returncode}:\n{self.output}")
            match = READY.search(self.output)
            return match.group(1) if match else None

        return str(until(ready, START_S, "the service's start"))

    def client(self, model: str, user: str | None = None) -> Client:
        return Client(self.url, model, user)

    def learner_pid(self) -> int | None:
        """The learner's process id, from the last line that logs one."""
        pids = re.findall(r"learner started pid=(\d+)", self.output)
        return int(pids[-1]) if pids else None

    def copier_pid(self) -> int | None:
        """The process id of the copier of the journal, from the last line that logs one."""
        pids = re.findall(r"journal copier started pid=(\d+)", self.output)
        return int(pids[-1]) if pids else None

    @contextmanager
    def stopped_copier(self) -> Iterator[None]:
        """Let the predictions of the block wait in the journal."""
        pid = until(self.copier_pid, what="the copier's start")
        until(lambda: self._stop_between_transactions(pid), what="a moment in which the copier does not write")
        try:
            yield
        finally:
            with suppress(ProcessLookupError):  # the block has killed it
                os.kill(pid, signal.SIGCONT)

    def _stop_between_transactions(self, pid: int) -> bool:
        """Stop the copier; let it go on where it holds the store's lock, without which nothing could be written."""
        os.kill(pid, signal.SIGSTOP)
        until(lambda: re.search(r"^State:\s+T", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE), what="the stop")
        try:
            with closing(sqlite3.connect(self.state / "online.db", timeout=0.1, isolation_level=None)) as store:
                store.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            os.kill(pid, signal.SIGCONT)
            return False
        return True

    def kill_learner(self) -> None:
        pid = until(self.learner_pid, what="the learner's start")
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            return

    def wait_learned(self, model: str, offset: int, timeout_s: float = 60.0) -> dict[str, Any]:
        def learned() -> dict[str, Any] | None:
            status: dict[str, Any] = self.http.get(f"/v1/models/{model}").json()
            return status if status["learned_until"] >= offset else None

        learned_status: dict[str, Any] = until(learned, timeout_s, f"offset {offset} of {model}")
        return learned_status

    def stop(self, number: int = signal.SIGINT) -> int:
        """Send it a signal and wait; return the exit status."""
        self.http.close()
        if self.process.poll() is None:
            self.process.send_signal(number)
        status = self.process.wait(30)
        self._reader.join(5)
        return status

    def versions(self, model: str) -> list[dict[str, Any]]:
        versions: list[dict[str, Any]] = self.http.get(f"/v1/models/{model}/versions").json()["versions"]
        return versions


@contextmanager
def connect_as_admin(url: str) -> Iterator[Connection]:
    """A connection beside a Postgres database, to create, change or drop it. Raises SQLAlchemyError."""
    base, _, _ = url.rpartition("/")
    engine = create_engine(f"{base}/postgres", isolation_level="AUTOCOMMIT")
    with closing(engine.connect()) as connection:
        yield connection
    engine.dispose()


@contextmanager
def refuse_postgres(url: str) -> Iterator[None]:
    """Let nobody connect to a database, until the block ends.

    A connection that is about to open may have passed the check already. It is not yet in pg_stat_activity, but holds a
    lock on its database until it is.
    """
    _, _, name = url.rpartition("/")
    opening = "pg_locks WHERE classid = 'pg_database'::regclass AND objid = (SELECT oid FROM pg_database WHERE datname = :name)"
    opened = "pg_stat_activity WHERE datname = :name"
    with connect_as_admin(url) as admin:

        def end_all() -> bool:
            """Returns whether there was none; those that open are looked for first, because they become open ones."""
            ended = [
                admin.execute(text(f"SELECT pg_terminate_backend(pid) FROM {these}"), {"name": name}).all()
                for these in (opening, opened)
            ]
            return not any(ended)

        admin.execute(text(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false"))
        try:
            until(end_all, what="the end of the connections")
            yield
        finally:
            admin.execute(text(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true"))


class PostgresBackup:
    """A copy of a database that takes over while services are connected, as a stale replica does."""

    def __init__(self, url: str) -> None:
        self.url = url
        _, _, self.name = url.rpartition("/")

    def __enter__(self) -> "PostgresBackup":
        return self

    def __exit__(self, *_: object) -> None:
        self._run(f"DROP DATABASE IF EXISTS {self.name}_kept WITH (FORCE)")

    def keep(self) -> None:
        """Copy the database. Its connections are ended for that."""
        with refuse_postgres(self.url):
            self._run(f"CREATE DATABASE {self.name}_kept TEMPLATE {self.name}")

    def bring_back(self) -> None:
        """Let the copy take over."""
        rename = f"ALTER DATABASE {self.name}_kept RENAME TO {self.name}"
        with refuse_postgres(self.url):
            self._run(f"DROP DATABASE {self.name} WITH (FORCE)", rename)

    def _run(self, *statements: str) -> None:
        with connect_as_admin(self.url) as admin:
            for statement in statements:
                admin.execute(text(statement))


def run_online(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    # Ray starts its workers with the interpreter that started it, which cannot be the launcher.
    python = sys.executable if "ray" in arguments else launcher()
    return subprocess.run(
        [python, "-m", "online", *arguments], capture_output=True, text=True, timeout=120, check=False, **options
    )


def replay_json(*arguments: str) -> dict[str, Any]:
    process = run_online("replay", *arguments, "--json")
    assert process.returncode == 0, process.stderr
    report: dict[str, Any] = json.loads(process.stdout)["results"][0]
    return report

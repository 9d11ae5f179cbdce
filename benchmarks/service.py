"""Runs a real service for a benchmark: a separate process with a temporary state, removed at the end.

running_service(config) -> TOML and state in a temporary folder -> online serve --port 0 -> "is ready: http://..." -> Service
"""

import fcntl
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
READY = re.compile(r"is ready: http://([^:\s]+):(\d+)")
START_S = 180  # the text encoder's graph may have to be built first
CHILDREN = {"learner": "learn", "store": "store"}  # processes of a server, by their commands
STOP_S = 30  # the service drains for 10 s and gives its learner another 10 s

VEC = """
[[models]]
name = "vec"
kind = "classifier"
options = { input = "vector", size = 30, scale = 4.0 }
"""
TXT = """
[[models]]
name = "txt"
kind = "classifier"
options = { input = "text" }
"""
CHAT = """
[[models]]
name = "chat"
kind = "ranker"
"""


class BenchmarkError(Exception):
    """A benchmark cannot run. The message gives the reason."""


@dataclass(frozen=True, slots=True)
class Service:
    host: str
    port: int
    pid: int
    log: Path

    def log_problems(self) -> list[str]:
        """Return unexpected lines of the service's log."""
        words = ("Traceback", "Error", "failed", "refused", "rejected", "isolating", "paused", "restarting")
        return [line for line in self.log.read_text().splitlines() if any(word in line for word in words)]

    def memory_mb(self) -> dict[str, float]:
        """Return the anonymous resident memory of the server, its learner and its store process."""
        children = {name: sum(map(anonymous_mb, self.children(command))) for name, command in CHILDREN.items()}
        return {"server": anonymous_mb(self.pid), **children}

    def children(self, command: str) -> list[int]:
        """Return the processes of the server that run this command of `online`."""
        pids = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        words = {int(pid): Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0") for pid in pids}
        return [pid for pid, line in words.items() if command.encode() in line]

    def cpu_s(self) -> dict[str, float]:
        """Return processor seconds used so far: server, learner, store process, this client, everything else on the machine."""
        used = os.times()
        ours = {
            "server": process_cpu_s(self.pid),
            **{name: sum(map(process_cpu_s, self.children(command))) for name, command in CHILDREN.items()},
            "client": used.user + used.system,
        }
        return {**ours, "others": machine_cpu_s() - sum(ours.values())}


def process_cpu_s(pid: int) -> float:
    """Return user and system seconds of one process (proc(5): fields 14 and 15 of stat)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def anonymous_mb(pid: int) -> float:
    """Return anonymous resident memory (proc(5): RssAnon of status, in kB)."""
    found = re.search(r"RssAnon:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    return int(found[1]) / 1024 if found else float("nan")


def machine_cpu_s() -> float:
    """Return busy seconds of all processors, including stolen time; repeat a run in which others used much."""
    user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, Path("/proc/stat").read_text().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


@contextmanager
def running_service(config: str) -> Iterator[Service]:
    """Run a service with this TOML configuration. Raises BenchmarkError, with the end of its log, if it does not start."""
    with tempfile.TemporaryDirectory(prefix="online-benchmark-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        (folder / "online.toml").write_text(config)
        process = launch(folder)
        try:
            host, port = address_of(process, folder / "log")
            yield Service(host, port, process.pid, folder / "log")
        finally:
            stop(process, folder / "state")


def launch(folder: Path, *flags: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "online", "serve", "--port", "0", "--device", "cpu"]
    command += ["--state", str(folder / "state"), "--config", str(folder / "online.toml"), *flags]
    with open(folder / "log", "w") as log:  # a session of its own, so that Ctrl-C does not reach it
        return subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True
        )


def address_of(process: "subprocess.Popen[str]", log: Path) -> tuple[str, int]:
    """Read the service's output until it reports that it is ready; return its address."""
    assert process.stdout is not None
    patience = threading.Timer(START_S, process.kill)
    patience.start()
    try:
        for line in process.stdout:
            if found := READY.search(line):
                return found[1], int(found[2])
    finally:
        patience.cancel()
    raise BenchmarkError(
        "the service did not start; its log ends with\n" + "\n".join(log.read_text().splitlines()[-15:])
    )


def stop(process: "subprocess.Popen[str]", state: Path) -> None:
    """Stop the service; return once its learner has ended too, so that the folder can be removed."""
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(STOP_S)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        process.kill()
        process.wait()
    if process.stdout is not None:
        process.stdout.close()
    with suppress(FileNotFoundError), open(state / "learner.lock") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # held by the learner until it ends

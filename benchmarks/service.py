"""A real service for a benchmark: its own process, its own temporary state, gone afterwards whatever happened.

running(config) -> TOML and state in a temporary folder -> online serve --port 0 -> "is ready: http://..." -> Service
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


class Failed(Exception):
    """The benchmark cannot be run; the text says why."""


@dataclass(frozen=True, slots=True)
class Service:
    host: str
    port: int
    pid: int
    log: Path

    def complaints(self) -> list[str]:
        """What its log says that should not be there."""
        words = ("Traceback", "Error", "failed", "refused", "isolating", "set aside", "waiting", "restarting")
        return [line for line in self.log.read_text().splitlines() if any(word in line for word in words)]

    def memory_mb(self) -> dict[str, float]:
        """Resident memory that is no file's, of the server and of its learner."""
        return {"server": anonymous_mb(self.pid), "learner": sum(map(anonymous_mb, self.learners()))}

    def learners(self) -> list[int]:
        return [int(pid) for pid in Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()]

    def cpu_s(self) -> dict[str, float]:
        """Processor seconds used so far by the server, its learner, this client, and everything else on the machine."""
        used = os.times()
        ours = {
            "server": process_cpu_s(self.pid),
            "learner": sum(map(process_cpu_s, self.learners())),
            "client": used.user + used.system,
        }
        return {**ours, "others": machine_cpu_s() - sum(ours.values())}


def process_cpu_s(pid: int) -> float:
    """User and system seconds of one process (proc(5): fields 14 and 15 of stat)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def anonymous_mb(pid: int) -> float:
    """proc(5): RssAnon of status, in kB."""
    found = re.search(r"RssAnon:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    return int(found[1]) / 1024 if found else float("nan")


def machine_cpu_s() -> float:
    """Busy seconds of all processors, stolen ones too: a run in which others took much of them is worth repeating."""
    user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, Path("/proc/stat").read_text().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


@contextmanager
def running(config: str) -> Iterator[Service]:
    """A service with this TOML configuration. Raises Failed, with the end of its log, when it does not start."""
    with tempfile.TemporaryDirectory(prefix="online-benchmark-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        (folder / "online.toml").write_text(config)
        process = launch(folder)
        try:
            host, port = address_of(process, folder / "log")
            yield Service(host, port, process.pid, folder / "log")
        finally:
            stop(process, folder / "state")


def launch(folder: Path) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "online", "serve", "--port", "0", "--device", "cpu"]
    command += ["--state", str(folder / "state"), "--config", str(folder / "online.toml")]
    with open(folder / "log", "w") as log:  # its own session: a Ctrl-C is ours to pass on
        return subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True
        )


def address_of(process: "subprocess.Popen[str]", log: Path) -> tuple[str, int]:
    """Read the service's output up to the line that says it is ready."""
    assert process.stdout is not None
    patience = threading.Timer(START_S, process.kill)
    patience.start()
    try:
        for line in process.stdout:
            if found := READY.search(line):
                return found[1], int(found[2])
    finally:
        patience.cancel()
    raise Failed("the service did not start; its log ends with\n" + "\n".join(log.read_text().splitlines()[-15:]))


def stop(process: "subprocess.Popen[str]", state: Path) -> None:
    """End the service and return once its learner is gone too, so that the folder can go."""
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(STOP_S)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        process.kill()
        process.wait()
    if process.stdout is not None:
        process.stdout.close()
    with suppress(FileNotFoundError), open(state / "learner.lock") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the learner holds it until its end

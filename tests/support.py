"""What tests share: a real service as a real process, and the one way to say that something is absent here."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from online.client import Client

READY = re.compile(r"is ready: (http://\S+)")
START_S = 120.0


def absent(reason: str) -> None:
    """Locally a reason to skip; in CI, where everything is installed, a failure."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"absent in CI: {reason}")
    pytest.skip(reason)


def until(fact: Callable[[], Any], timeout_s: float = 30.0, what: str = "it") -> Any:
    """The first true value of `fact`, asked again and again. Fails after `timeout_s` seconds."""
    end, pause = time.monotonic() + timeout_s, threading.Event()
    while not (value := fact()):
        if time.monotonic() > end:
            pytest.fail(f"{what} did not happen within {timeout_s} s")
        pause.wait(0.02)
    return value


class Service:
    """`online serve` as a child process. Its output is kept in `output`."""

    def __init__(self, state: Path, config: str = "", *flags: str) -> None:
        self.state, self.output = state, ""
        command = [sys.executable, "-m", "online", "serve", "--state", str(state), "--port", "0", *flags]
        if config:
            state.parent.mkdir(parents=True, exist_ok=True)
            path = state.parent / f"{state.name}.toml"
            path.write_text(config)
            command += ["--config", str(path)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
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
            found = READY.search(self.output)
            return found.group(1) if found else None

        return str(until(ready, START_S, "the service's start"))

    def client(self, model: str, user: str | None = None) -> Client:
        return Client(self.url, model, user)

    def learner_pid(self) -> int | None:
        """The learner's process id, from the newest line that told it."""
        found = re.findall(r"learner started pid=(\d+)", self.output)
        return int(found[-1]) if found else None

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
        """Ask it to stop; gives the exit status."""
        self.http.close()
        if self.process.poll() is None:
            self.process.send_signal(number)
        status = self.process.wait(30)
        self._reader.join(5)
        return status

    def versions(self, model: str) -> list[dict[str, Any]]:
        listed: list[dict[str, Any]] = self.http.get(f"/v1/models/{model}/versions").json()["versions"]
        return listed


def run_online(*arguments: str, **more: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "online", *arguments], capture_output=True, text=True, timeout=120, check=False, **more
    )


def replay_json(*arguments: str) -> dict[str, Any]:
    done = run_online("replay", *arguments, "--json")
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)["results"][0]
    return report

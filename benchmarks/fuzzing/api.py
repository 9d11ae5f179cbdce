"""Fuzzes the HTTP API of a real service with schemathesis, as three callers see it.

an operator fills the service --> schemathesis, as the caller --> its findings, ours (hooks.py), and what has changed
"""

import json
import os
import re
import subprocess
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from benchmarks.fuzzing.environments import HANG_S, MAX_GROWTH_MB, Outcome, environment
from benchmarks.fuzzing.openapi_document import MODELS, prepare_document
from benchmarks.fuzzing.seeded_service import (
    PRIVATE_WORDS,
    WORDS,
    changed_names,
    digest_state,
    empty_journal,
    seed_service,
    send,
    view_others,
)
from benchmarks.service import BenchmarkError, Service, running_service
from online.api.core_routers import ROUTES
from online.schemas.access.callers import SCOPES

SCHEMATHESIS = "schemathesis>=4,<5"
SAMPLE_EVERY_S = 2.0
ADMIN_KEY = "the key of the operator"
KEY_SCOPES = ("predict", "feedback", "teach")
# a key that is created by the fuzzer must not end the access of an open service: admin = "local"
OPEN = 'admin = "local"\n'
# without these, almost every request of a run would be answered 429
KEYS = f"""admin_key = "{ADMIN_KEY}"
address_requests_per_minute = 1_000_000
key_requests_per_minute = 1_000_000
requests_per_minute = 1_000_000
feedback_per_hour = 1_000_000
teaching_per_hour = 1_000_000
"""
CONFIG = """
hooks = "hooks"

[checks]
not_a_server_error.expected-statuses = ["2xx", "3xx", "4xx", 504]
"""  # 504: min_offset was not learned within timeout_ms
CHECKS = "not_a_server_error,nothing_is_open_or_leaks"
ACCESS = {
    "open": "no key exists: every caller on this machine may do everything",
    "anonymous": "keys exist, and none is shown: nothing may change, be shown, or be answered but public routes",
    "key": f"a key with the scopes {', '.join(KEY_SCOPES)}: what is of others may neither change nor be shown",
}


@dataclass(slots=True)
class ProcessSamples:
    """The resident memory of a process over time, in MB, and its slowest health check."""

    memory: list[float] = field(default_factory=list)
    slowest_s: float = 0.0

    def growth_mb(self) -> float:
        half = self.memory[len(self.memory) // 2 :]
        return half[-1] - half[0] if half else 0.0


@contextmanager
def watch_process(pid: int, url: str) -> Iterator[ProcessSamples]:
    samples, stop = ProcessSamples(), threading.Event()

    def watch() -> None:
        with httpx.Client(base_url=url, timeout=6 * HANG_S) as http:
            while not stop.wait(SAMPLE_EVERY_S):
                sent_at = time.monotonic()
                with suppress(httpx.HTTPError):  # the elapsed time is recorded all the same
                    http.get("/healthz")
                samples.slowest_s = max(samples.slowest_s, time.monotonic() - sent_at)
                samples.memory.append(resident_mb(pid))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield samples
    finally:
        stop.set()
        thread.join()


def resident_mb(pid: int) -> float:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except OSError:
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def closed_operations(document: dict[str, Any], access: str) -> list[str]:
    """Return the operations that a caller may not use, as schemathesis calls them."""
    granted = {"open": (*SCOPES, "anybody", "signed URL", "own keys"), "anonymous": ("anybody",)}
    allowed = granted.get(access, (*KEY_SCOPES, "anybody"))
    needed = {(route.method, unnamed(route.path)): route.access for route in ROUTES}
    operations = [(method.upper(), path) for path, methods in document["paths"].items() for method in methods]
    return [f"{method} {path}" for method, path in operations if needed[method, unnamed(path)] not in allowed]


def unnamed(path: str) -> str:
    return re.sub(r"{[^}]*}", "{}", path)


def show_key(operator: httpx.Client, access: str) -> list[str]:
    """Return the flags with which schemathesis shows the key of a caller; none for a caller without one."""
    if access != "key":
        return []
    key = send(operator, "POST", "/v1/keys", json={"name": "fuzzer", "scopes": KEY_SCOPES})["key"]
    return ["--header", f"Authorization: Bearer {key}"]


def fuzz_as(access: str) -> Callable[[int], Outcome]:
    """Return what fuzzes a service for some seconds as this caller."""

    def fuzz(seconds: int) -> Outcome:
        with running_service((OPEN if access == "open" else KEYS) + MODELS) as service:
            return fuzz_service(service, access, seconds)

    return fuzz


def fuzz_service(service: Service, access: str, seconds: int) -> Outcome:
    url, state = f"http://{service.host}:{service.port}", service.log.parent / "state"
    headers = {} if access == "open" else {"X-Admin-Key": ADMIN_KEY}
    with (
        tempfile.TemporaryDirectory(prefix="online-fuzz-") as name,
        httpx.Client(base_url=url, headers=headers, timeout=90) as operator,
    ):
        folder, seeded = Path(name), seed_service(operator)
        flags = show_key(operator, access)
        document = prepare_document(httpx.get(f"{url}/openapi.json").json(), seeded.known)
        rules = {
            "closed": closed_operations(document, access),
            "secrets": {"open": (), "anonymous": WORDS}.get(access, PRIVATE_WORDS),
        }
        write_inputs(folder, document, rules)
        empty_journal(state)
        seen, stored = view_others(operator, seeded), digest_state(state)
        with watch_process(service.pid, url) as samples:
            completed = run_schemathesis(folder, url, seconds, flags)
        statuses = json.loads((folder / "statuses.json").read_text())
        found = problems(service)
        changed = [] if access == "open" or found else changed_names(seen, view_others(operator, seeded))
        if access == "anonymous":
            changed += changed_names(stored, digest_state(state))
    findings = [f"{name} is not what it was before" for name in changed]
    return summarize(completed, statuses, samples, [*findings, *found])


def write_inputs(folder: Path, document: dict[str, Any], rules: dict[str, Any]) -> None:
    (folder / "openapi.json").write_text(json.dumps(document))
    (folder / "rules.json").write_text(json.dumps(rules))
    (folder / "schemathesis.toml").write_text(CONFIG)
    (folder / "hooks.py").write_text(Path(__file__).with_name("hooks.py").read_text())


def run_schemathesis(folder: Path, url: str, seconds: int, flags: list[str]) -> "subprocess.CompletedProcess[str]":
    program = environment("schemathesis", SCHEMATHESIS, shares_packages=False) / "schemathesis"
    flags = [*flags, "--url", url, "--checks", CHECKS, f"--request-timeout={HANG_S}", "--continue-on-failure"]
    flags += [f"--max-time={seconds}", "--suppress-health-check=all", "--warnings=off", "--no-color"]
    return subprocess.run(
        [str(program), "run", str(folder / "openapi.json"), *flags],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
    )


def problems(service: Service) -> list[str]:
    """How the service ended, if it did, and the errors in its log."""
    ended = os.waitid(os.P_PID, service.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    found = [f"the service ended with {ended.si_status}; its log:\n{service.log.read_text()[-3_000:]}"] if ended else []
    return found + re.findall(r"(?m)^Traceback.*(?:\n.+)*", service.log.read_text())[:10]


def summarize(
    completed: "subprocess.CompletedProcess[str]",
    statuses: Mapping[str, int],
    samples: ProcessSamples,
    findings: list[str],
) -> Outcome:
    """statuses: the number of responses, by status."""
    if not (statuses and samples.memory):
        raise BenchmarkError(f"schemathesis did not run: {completed.stdout[-1_000:]}{completed.stderr[-1_000:]}")
    count = Counter[str]()
    for status, times in statuses.items():
        count[status if status in ("401", "403") else f"{status[0]}xx"] += times
    figures: dict[str, str | int | float] = {
        "requests": sum(statuses.values()),
        "answered 2xx": count["2xx"],
        "answered 401 or 403": count["401"] + count["403"],
        "slowest health check, s": samples.slowest_s,
        "memory half way, MB": samples.memory[len(samples.memory) // 2],
        "memory at the end, MB": samples.memory[-1],
    }
    found = [completed.stdout[-6_000:]] if completed.returncode else []
    found += findings
    if samples.slowest_s > HANG_S:
        found.append(f"a request to /healthz took {samples.slowest_s:.1f} s")
    if samples.growth_mb() > MAX_GROWTH_MB:
        found.append(f"memory grew by {samples.growth_mb():.0f} MB in the second half")
    return Outcome(figures, found)

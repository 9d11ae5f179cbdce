"""The systems whose overhead is compared: each a process (of one worker) between the load and the mock endpoint.

    load --> direct | httpx, aiohttp (pass-through) | LiteLLM's proxy | our router --> mock endpoint (two routes to the same one)

LiteLLM has an environment of its own, which is created if it is missing. It demands a key, so it gets a random one; our service trusts
callers on the same machine by default.
"""

import json
import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from benchmarks.report import say
from benchmarks.service import ROOT, BenchmarkError, process_cpu_s, running_service
from benchmarks.serving import end, free_port

LITELLM = "litellm[proxy]==1.108.7"
START_S = 90
CHAT = "/v1/chat/completions"
FAILURES = ("dead", "slow", "cut", "limited", "malformed")
ALONE, SECOND = "alone", "second"
LIMIT_S = 1  # of a slow route


@dataclass(frozen=True, slots=True)
class System:
    """A system that answers. pid: of its first process; 0: there is none, the load asks the endpoint itself."""

    name: str
    port: int
    path: str = CHAT
    pid: int = 0
    key: str = ""

    def cpu_s(self) -> float:
        """Return the processor seconds of the process that answers."""
        return process_cpu_s(self.pid) if self.pid else 0.0

    def all_cpu_s(self) -> float:
        """Return those of its child processes too."""
        return sum(map(process_cpu_s, list_tree(self.pid))) if self.pid else 0.0


def list_tree(pid: int) -> list[int]:
    """Return a process and those below it."""
    children = [int(each) for path in Path(f"/proc/{pid}/task").glob("*/children") for each in path.read_text().split()]
    return [pid, *(below for child in children for below in list_tree(child))]


@contextmanager
def running(name: str, command: Sequence[object], probe: str, variables: Mapping[str, str]) -> Iterator[int]:
    """Run a server until it answers `probe`; yield its pid. Raises BenchmarkError with the end of its log."""
    with tempfile.TemporaryFile() as log:
        words = [str(word) for word in command]
        process = subprocess.Popen(words, cwd=ROOT, env=variables, stdout=log, stderr=log, start_new_session=True)
        try:
            deadline = time.monotonic() + START_S
            while not answers(probe):
                if process.poll() is not None or time.monotonic() > deadline:
                    log.seek(0)
                    raise BenchmarkError(f"{name} did not start: {log.read().decode(errors='replace')[-1_500:]}")
                time.sleep(0.1)
            yield process.pid
        finally:
            end(process)


def answers(url: str) -> bool:
    """Return whether a server answers at all."""
    try:
        httpx.get(url, timeout=5)
    except httpx.RemoteProtocolError:
        return True
    except httpx.TransportError:
        return False
    return True


@contextmanager
def mock_endpoint() -> Iterator[System]:
    """Run the mock endpoint."""
    port = free_port()
    command = [sys.executable, "-m", "benchmarks.routing_upstream", port]
    with running("the mock endpoint", command, f"http://127.0.0.1:{port}", os.environ) as pid:
        yield System("direct", port, f"/ok{CHAT}", pid)


@contextmanager
def passthrough(kind: str, upstream: System) -> Iterator[System]:
    """Run a bare pass-through. kind: httpx or aiohttp."""
    port = free_port()
    url = f"http://127.0.0.1:{upstream.port}{upstream.path}"
    command = [sys.executable, "-m", "benchmarks.routing_passthrough", kind, port, url]
    with running(kind, command, f"http://127.0.0.1:{port}", os.environ) as pid:
        yield System(kind, port, pid=pid)


def base_url(upstream: System, behaviour: str, dead_port: int) -> str:
    """Return the base URL of a route that behaves so."""
    return f"http://127.0.0.1:{dead_port if behaviour == 'dead' else upstream.port}/{behaviour}/v1"


@contextmanager
def our_router(upstream: System) -> Iterator[System]:
    """Run our service, with a router for each kind of text features and two for each failure."""
    dead_port, tables = free_port(), []
    for model in ("hashed", "minilm"):
        routes = [{"name": name, "url": base_url(upstream, "ok", 0), "model": name} for name in ("a", "b")]
        tables.append(write_router(model, {"text_features": model}, routes))
    never = {"text_features": "hashed", "explore": 0.0, "explore_new": 0.0}
    good = {"name": "good", "url": base_url(upstream, "ok", 0), "model": "good", "prior": 0.1}
    for failure in FAILURES:
        limits = {"timeout_s": LIMIT_S, "first_token_timeout_s": LIMIT_S} if failure == "slow" else {}
        url = base_url(upstream, failure, dead_port)
        bad = {"name": failure, "url": url, "model": failure, "prior": 0.9, **limits}
        tables += [
            write_router(f"{failure}-{ALONE}", never, [bad]),
            write_router(f"{failure}-{SECOND}", never, [bad, good]),
        ]
    with running_service("\n".join(tables)) as service:
        yield System("ours", service.port, pid=service.pid)


def write_router(model: str, options: Mapping[str, object], routes: Sequence[Mapping[str, object]]) -> str:
    """Return the table of a router in online.toml. Its routes take as many requests at once as there are."""
    written = ", ".join(f"{name} = {json.dumps(value)}" for name, value in options.items())
    lines = ["[[models]]", f'name = "{model}"', 'kind = "router"', f"options = {{ {written} }}"]
    for route in routes:
        lines += ["[[models.routes]]", "max_parallel = 5000"]
        lines += [f"{name} = {json.dumps(value)}" for name, value in route.items()]
    return "\n".join(lines) + "\n"


@contextmanager
def litellm_proxy(upstream: System, folder: Path) -> Iterator[System]:
    """Run LiteLLM's proxy, with fallbacks as its documentation configures them. Raises BenchmarkError without it."""
    program, port, dead_port = install_litellm(folder), free_port(), free_port()

    def deployment(model: str, behaviour: str) -> dict[str, object]:
        url = base_url(upstream, behaviour, dead_port)
        limits = {"timeout": LIMIT_S, "stream_timeout": LIMIT_S} if behaviour == "slow" else {}
        parameters = {"model": f"openai/{behaviour}", "api_base": url, "api_key": "none", **limits}
        return {"model_name": model, "litellm_params": parameters}

    names = [(failure, kind) for failure in FAILURES for kind in (ALONE, SECOND)]
    models = [deployment("router", "ok"), deployment("router", "ok"), deployment("good", "ok")]
    models += [deployment(f"{failure}-{kind}", failure) for failure, kind in names]
    fallbacks = [{f"{failure}-{SECOND}": ["good"]} for failure in FAILURES]
    key = f"sk-{secrets.token_urlsafe(32)}"
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    variables |= {"LITELLM_MASTER_KEY": key, "LITELLM_LOG": "ERROR", "LITELLM_MODE": "PRODUCTION"}
    variables |= {"LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as config:  # JSON is YAML
        json.dump({"model_list": models, "router_settings": {"fallbacks": fallbacks}}, config)
        config.flush()
        command = [program, "--config", config.name, "--host", "127.0.0.1", "--port", port, "--num_workers", 1]
        with running("LiteLLM", command, f"http://127.0.0.1:{port}/health/liveliness", variables) as pid:
            yield System("LiteLLM", port, pid=pid, key=key)


def install_litellm(folder: Path) -> Path:
    """Return LiteLLM's program; its environment is created if the folder is missing. Raises BenchmarkError."""
    program = folder / "bin" / "litellm"
    if not folder.exists():
        say(f"creating {folder} ...")
        for command in (
            [sys.executable, "-m", "venv", folder],
            [folder / "bin" / "pip", "install", "-q", "--disable-pip-version-check", LITELLM],
        ):
            completed = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
            if completed.returncode:
                raise BenchmarkError(f"{LITELLM} cannot be installed: {completed.stderr.strip()[-300:]}")
    if not program.exists():
        raise BenchmarkError(f"{folder} has no LiteLLM; remove the folder, or install {LITELLM} there")
    return program

"""Measures many models on few replicas, each of which owns a share of them (`--models 1/3`).

    for each replica: seconds until it is ready, models, memory of its processes, CPU while nothing happens
    then: feedback for models of all shares, sent to the first replica, which forwards it: seconds until it is learned

All replicas run on this machine, one after another, on one Postgres (--store). A database of its own is created and dropped.
"""

import os
import subprocess
import tempfile
import time
import uuid
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import psycopg

from benchmarks.report import command, create_parser, print_json, say, table
from benchmarks.service import Service, address_of, launch, stop

MODEL = """
[[models]]
name = "model-{number}"
kind = "classifier"
options = {{ input = "vector", size = 8, scale = 4.0 }}
"""
ADMIN_KEY = "k" * 16
KEY = {"Authorization": f"Bearer {ADMIN_KEY}"}
IDLE_S = 20.0
ASKED = 30  # models whose feedback is timed


@contextmanager
def create_database(server: str) -> Iterator[str]:
    """Yield the URL of an empty database. server: libpq's URL of a Postgres server, without a database."""
    name = f"online_benchmark_{uuid.uuid4().hex[:8]}"
    with psycopg.connect(f"{server}/postgres", autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name}")
        try:
            yield f"{server}/{name}"
        finally:
            admin.execute(f"DROP DATABASE {name} WITH (FORCE)")


def measure(arguments: Namespace) -> tuple[list[dict[str, object]], list[float]]:
    """Start the replicas, and return a row for each of them, and the seconds until feedback was learned."""
    os.environ["ONLINE_SECRET"] = uuid.uuid4().hex
    models = "".join(MODEL.format(number=number) for number in range(arguments.models))
    started, rows = list[tuple["subprocess.Popen[str]", Path, Service]](), list[dict[str, object]]()
    with create_database(arguments.server) as url, tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as root:
        try:
            for number in range(1, arguments.replicas + 1):
                folder = Path(root) / str(number)
                folder.mkdir()
                (folder / "online.toml").write_text(f'store = "{url}"\nadmin_key = "{ADMIN_KEY}"\n{models}')
                began = time.perf_counter()
                process = launch(folder, "--models", f"{number}/{arguments.replicas}")
                host, port = address_of(process, folder / "log")
                started.append((process, folder, Service(host, port, process.pid, folder / "log")))
                rows.append({"replica": f"{number}/{arguments.replicas}", "ready_s": time.perf_counter() - began})
                say(f"replica {number} is ready after {rows[-1]['ready_s']:.1f} s")
            services = [service for _, _, service in started]
            time.sleep(IDLE_S)  # the learners of all models have started
            before = [service.cpu_s() for service in services]
            time.sleep(IDLE_S)
            for row, service, used in zip(rows, services, before, strict=True):
                now, memory = service.cpu_s(), service.memory_mb()
                with httpx.Client(base_url=f"http://{service.host}:{service.port}", headers=KEY, timeout=60) as client:
                    row["models"] = len(client.get("/readyz").json()["models"])
                row |= {f"{name}_mb": memory[name] for name in ("server", "learner", "store")}
                row["idle_cores"] = sum(now[name] - used[name] for name in ("server", "learner", "store")) / IDLE_S
            return rows, time_feedback(services[0], arguments.models)
        finally:
            for process, folder, _ in started:
                stop(process, folder / "state")


def time_feedback(service: Service, models: int) -> list[float]:
    """Return the seconds from feedback to the answer that has learned it, for models of all replicas."""
    taken = []
    with httpx.Client(base_url=f"http://{service.host}:{service.port}", headers=KEY, timeout=60) as client:
        for place in range(ASKED):
            path, began = f"/v1/models/model-{place * models // ASKED}", time.perf_counter()
            body = {"feedback": [{"input": [1.0] * 8, "label": "a"}]}
            given = client.post(f"{path}:feedback", json=body)
            given.raise_for_status()
            offset = given.json()["receipts"][-1]["offset"]
            asked = {"instances": [[1.0] * 8], "min_offset": offset, "timeout_ms": 30_000}
            client.post(f"{path}:predict", json=asked).raise_for_status()
            taken.append(time.perf_counter() - began)
    return sorted(taken)


def main() -> int:
    parser = create_parser(__doc__ or "")
    parser.add_argument("--models", type=int, default=1_000)
    parser.add_argument("--replicas", type=int, default=3)
    parser.add_argument("--server", default="postgresql://postgres@127.0.0.1:5432", help="a Postgres server")
    flags = parser.parse_args()
    rows, taken = measure(flags)
    if flags.json:
        print_json({"benchmark": "many_models", "replicas": rows, "learned_s": taken})
        return 0
    title = f"{flags.models} models on {flags.replicas} replicas"
    table(title, list(rows[0]), [[*row.values()] for row in rows])
    middle = taken[len(taken) // 2]
    print(f"feedback to learned, by way of the first replica: median {middle:.2f} s, most {taken[-1]:.2f} s")
    return 0


if __name__ == "__main__":
    command(main)

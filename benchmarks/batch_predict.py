"""What does a batch prediction job cost whoever asks meanwhile, and what is left for the job?

    quiet     people ask at fixed times, and nobody else
    a job     a job alone: rows a second
    both      the same questions at the same times beside the same job

Vectors of 30 numbers to a classifier of ten labels, and sentences of about 12 words that nobody asked before. Answers to
people are recorded, as always. `a command` is `online predict` on the same rows with the service idle, its start counted.
"""

import asyncio
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import orjson

from benchmarks import inputs
from benchmarks.freshness import teach
from benchmarks.report import command, parser, percentile, print_json, say, table
from benchmarks.service import ROOT, TXT, VEC, Service, running
from benchmarks.wire import Connection, Pool, Reply, at, get, must, open_loop, post, predict

WORDS = 12
POLL_S = 0.05
CONNECTIONS = 16


@dataclass(frozen=True, slots=True)
class Load:
    """rate: questions of people a second. rows: of the job, more than it can do while it is looked at, so many of them
    different (more than the encoder remembers).
    """

    model: str
    rate: float
    rows: int
    distinct_rows: int
    command_rows: int


LOADS = (Load("vec", 100, 1_000_000, 20_000, 20_000), Load("txt", 20, 100_000, 10_000, 2_000))


@dataclass(frozen=True, slots=True)
class Result:
    model: str
    what: str
    rows_per_s: float
    asked: int
    failed: int
    p50_ms: float
    p99_ms: float
    max_ms: float


def result(model: str, what: str, rows_per_s: float, replies: Sequence[Reply]) -> Result:
    took = [reply.elapsed_ms for reply in replies if reply.ok]
    failed = len(replies) - len(took)
    worst = max(took, default=float("nan"))
    return Result(model, what, rows_per_s, len(replies), failed, percentile(took, 50), percentile(took, 99), worst)


def instances(model: str, count: int, seed: int) -> list[object]:
    if model == "vec":
        return [point for point, _ in inputs.vectors(count, seed)]
    return list(inputs.sentences(count, WORDS, seed))


def by_operator(request: bytes) -> bytes:
    """Jobs are for whoever asks for the machine by its own name."""
    return request.replace(b"Host: benchmark", b"Host: localhost", 1)


class Job:
    """One that runs."""

    def __init__(self, connection: Connection, model: str, id: str) -> None:
        self.connection, self.path = connection, f"/v1/models/{model}/jobs/{id}"

    @classmethod
    async def begun(cls, connection: Connection, load: Load, output: str) -> "Job":
        """Returns once its first rows are done."""
        asked = post(f"/v1/models/{load.model}:batchPredict", {"input": f"{load.model}.jsonl", "output": output})
        job = cls(connection, load.model, (await must(connection, by_operator(asked)))["id"])
        while not await job.done():
            await at(time.perf_counter() + POLL_S)
        return job

    async def done(self) -> int:
        return int((await must(self.connection, by_operator(get(self.path))))["done"])

    async def cancel(self) -> None:
        await must(self.connection, by_operator(post(f"{self.path}:cancel", {})))


async def measure(service: Service, load: Load, seconds: float) -> list[Result]:
    connection = Connection(service.host, service.port)
    count = int(load.rate * seconds)
    questions = instances(load.model, 2 * count, 2)
    asked = [predict(load.model, question) for question in questions]
    async with Pool(service, CONNECTIONS) as pool:
        say(f"{load.model}: quiet ...")
        found = [result(load.model, "quiet", float("nan"), await open_loop(pool.ask, asked[:count], load.rate))]
        say(f"{load.model}: a job ...")
        job = await Job.begun(connection, load, f"{load.model}-results")
        before, started = await job.done(), time.perf_counter()
        await at(started + seconds)
        rate = (await job.done() - before) / (time.perf_counter() - started)
        found.append(result(load.model, "a job", rate, []))
        say(f"{load.model}: both ...")
        before, started = await job.done(), time.perf_counter()
        replies = await open_loop(pool.ask, asked[count:], load.rate)
        rate = (await job.done() - before) / (time.perf_counter() - started)
        found.append(result(load.model, "both", rate, replies))
        await job.cancel()
    connection.close()
    return found


def by_command(service: Service, files: Path, load: Load) -> Result:
    say(f"{load.model}: a command ...")
    folder, source = service.log.parent, files / f"{load.model}-command.jsonl"
    words = ["predict", str(source), "--out", str(files / f"{load.model}-command"), "--model", load.model]
    where = ["--state", str(folder / "state"), "--config", str(folder / "online.toml")]
    started = time.perf_counter()
    subprocess.run([sys.executable, "-m", "online", *words, *where], cwd=ROOT, check=True, capture_output=True)
    return result(load.model, "a command", load.command_rows / (time.perf_counter() - started), [])


def write(path: Path, rows: Sequence[object]) -> None:
    path.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))


async def taught(service: Service) -> None:
    connection = Connection(service.host, service.port)
    await teach(connection, "vec", inputs.vectors(100, 0))
    await teach(connection, "txt", inputs.labelled_sentences(100, WORDS, 0))
    connection.close()


def flags_given() -> Namespace:
    made = parser(__doc__ or "")
    made.add_argument("--seconds", type=float, default=20.0, help="of each phase (default 20)")
    return made.parse_args()


def row(each: Result) -> list[object]:
    return [
        f"{each.model}, {each.what}",
        each.rows_per_s,
        each.asked,
        each.failed,
        each.p50_ms,
        each.p99_ms,
        each.max_ms,
    ]


def main() -> int:
    flags = flags_given()
    with tempfile.TemporaryDirectory(prefix="online-jobs-") as name:
        files = Path(name)
        for load in LOADS:
            rows = instances(load.model, load.distinct_rows, 1)
            write(files / f"{load.model}.jsonl", rows * (load.rows // load.distinct_rows))
            write(files / f"{load.model}-command.jsonl", rows[: load.command_rows])
        with running(f'job_folders = ["{files}"]\n{VEC}{TXT}') as service:
            asyncio.run(taught(service))
            found = [each for load in LOADS for each in asyncio.run(measure(service, load, flags.seconds))]
            found += [by_command(service, files, load) for load in LOADS]
            complaints = service.complaints()
    if flags.json:
        print_json({"benchmark": "batch_predict", "rows": [asdict(each) for each in found], "complaints": complaints})
    else:
        columns = ("what", "job rows/s", "asked", "failed", "p50 ms", "p99 ms", "max ms")
        table("batch prediction beside people", columns, map(row, found))
        print(*complaints, sep="\n")
    return int(any(each.failed for each in found))


if __name__ == "__main__":
    command(main)

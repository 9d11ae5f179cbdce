"""Measures how much a batch prediction job slows online requests, and how fast the job runs meanwhile.

    requests alone   online requests at fixed times, no job
    job alone        a job without requests: rows per second
    both             the same requests at the same times during the same job
    command          `online predict` on the same rows while the service is idle, including its start

The inputs are vectors of 30 numbers for a classifier of ten classes, and new sentences of about 12
words. Online predictions are recorded, as usual.
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
from benchmarks.report import command, create_parser, percentile, print_json, say, table
from benchmarks.service import ROOT, TXT, VEC, Service, running_service
from benchmarks.wire import Connection, Pool, Response, fetch_json, get, open_loop, post, predict, sleep_until

WORDS = 12
POLL_S = 0.05
CONNECTIONS = 16


@dataclass(frozen=True, slots=True)
class Load:
    """The load of one model. rate: online requests per second.

    rows: of the job; more than it can finish during the measurement.
    distinct_rows: more than the encoder's cache holds.
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
    requests: int
    failed: int
    p50_ms: float
    p99_ms: float
    max_ms: float


def result(model: str, what: str, rows_per_s: float, responses: Sequence[Response]) -> Result:
    took = [response.elapsed_ms for response in responses if response.ok]
    failed = len(responses) - len(took)
    worst = max(took, default=float("nan"))
    return Result(model, what, rows_per_s, len(responses), failed, percentile(took, 50), percentile(took, 99), worst)


def instances(model: str, count: int, seed: int) -> list[object]:
    if model == "vec":
        return [point for point, _ in inputs.vectors(count, seed)]
    return list(inputs.sentences(count, WORDS, seed))


class Job:
    """A running batch prediction job."""

    def __init__(self, connection: Connection, model: str, id: str) -> None:
        self.connection, self.path = connection, f"/v1/models/{model}/jobs/{id}"

    @classmethod
    async def start(cls, connection: Connection, load: Load, output: str) -> "Job":
        """Start a job, and wait until its first rows are done."""
        request = post(f"/v1/models/{load.model}:batchPredict", {"input": f"{load.model}.jsonl", "output": output})
        job = cls(connection, load.model, (await fetch_json(connection, request))["id"])
        while not await job.done():
            await sleep_until(time.perf_counter() + POLL_S)
        return job

    async def done(self) -> int:
        return int((await fetch_json(self.connection, get(self.path)))["done"])

    async def cancel(self) -> None:
        await fetch_json(self.connection, post(f"{self.path}:cancel", {}))


async def measure(service: Service, load: Load, seconds: float) -> list[Result]:
    connection = Connection(service.host, service.port)
    count = int(load.rate * seconds)
    questions = instances(load.model, 2 * count, 2)
    requests = [predict(load.model, question) for question in questions]
    async with Pool(service, CONNECTIONS) as pool:
        say(f"{load.model}: requests alone ...")
        results = [
            result(load.model, "requests alone", float("nan"), await open_loop(pool.send, requests[:count], load.rate))
        ]
        say(f"{load.model}: job alone ...")
        job = await Job.start(connection, load, f"{load.model}-results")
        before, started = await job.done(), time.perf_counter()
        await sleep_until(started + seconds)
        rate = (await job.done() - before) / (time.perf_counter() - started)
        results.append(result(load.model, "job alone", rate, []))
        say(f"{load.model}: both ...")
        before, started = await job.done(), time.perf_counter()
        responses = await open_loop(pool.send, requests[count:], load.rate)
        rate = (await job.done() - before) / (time.perf_counter() - started)
        results.append(result(load.model, "both", rate, responses))
        await job.cancel()
    connection.close()
    return results


def measure_command(service: Service, files: Path, load: Load) -> Result:
    say(f"{load.model}: command ...")
    folder, source = service.log.parent, files / f"{load.model}-command.jsonl"
    arguments = ["predict", str(source), "--out", str(files / f"{load.model}-command"), "--model", load.model]
    options = ["--state", str(folder / "state"), "--config", str(folder / "online.toml")]
    started = time.perf_counter()
    subprocess.run([sys.executable, "-m", "online", *arguments, *options], cwd=ROOT, check=True, capture_output=True)
    return result(load.model, "command", load.command_rows / (time.perf_counter() - started), [])


def write(path: Path, rows: Sequence[object]) -> None:
    path.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))


async def teach_models(service: Service) -> None:
    connection = Connection(service.host, service.port)
    await teach(connection, "vec", inputs.vectors(100, 0))
    await teach(connection, "txt", inputs.labelled_sentences(100, WORDS, 0))
    connection.close()


def parse_flags() -> Namespace:
    parser = create_parser(__doc__ or "")
    parser.add_argument("--seconds", type=float, default=20.0, help="seconds of each phase (default 20)")
    return parser.parse_args()


def row(each: Result) -> list[object]:
    return [
        f"{each.model}, {each.what}",
        each.rows_per_s,
        each.requests,
        each.failed,
        each.p50_ms,
        each.p99_ms,
        each.max_ms,
    ]


def main() -> int:
    flags = parse_flags()
    with tempfile.TemporaryDirectory(prefix="online-jobs-") as name:
        files = Path(name)
        for load in LOADS:
            rows = instances(load.model, load.distinct_rows, 1)
            write(files / f"{load.model}.jsonl", rows * (load.rows // load.distinct_rows))
            write(files / f"{load.model}-command.jsonl", rows[: load.command_rows])
        with running_service(f'job_folders = ["{files}"]\n{VEC}{TXT}') as service:
            asyncio.run(teach_models(service))
            results = [each for load in LOADS for each in asyncio.run(measure(service, load, flags.seconds))]
            results += [measure_command(service, files, load) for load in LOADS]
            problems = service.log_problems()
    if flags.json:
        print_json({"benchmark": "batch_predict", "rows": [asdict(each) for each in results], "log_problems": problems})
    else:
        columns = ("what", "job rows/s", "requests", "failed", "p50 ms", "p99 ms", "max ms")
        table("batch prediction with online requests", columns, map(row, results))
        print(*problems, sep="\n")
    return int(any(each.failed for each in results))


if __name__ == "__main__":
    command(main)

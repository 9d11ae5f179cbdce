"""Fuzzes every interface for some minutes. A finding is a status 500, a hang, or growing memory.

    api       a real service <--its OpenAPI document and the routes of other protocols-- schemathesis
    tensors   benchmarks/fuzz_tensors.py <--bytes-- atheris (libFuzzer, guided by coverage)

Each fuzzer has its own virtual environment, created on the first run. Every finding is printed with
the input that repeats it. Earlier findings are in tests/fuzz, where tests/fuzz/test_seeds.py repeats
them with every run of the tests.
"""

import json
import os
import re
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import httpx

from benchmarks import fuzz_tensors
from benchmarks.report import command, create_parser, print_json, say, table
from benchmarks.service import ROOT, BenchmarkError, running_service
from online.workspace import cache_folder

ATHERIS, SCHEMATHESIS = "atheris==3.0.0", "schemathesis>=4,<5"
SEEDS = ROOT / "tests" / "fuzz" / "tensors"
HANG_S = 10
INPUT_BYTES = 4_096
MAX_GROWTH_MB, MAX_MB = 64, 2_048
SAMPLE_EVERY_S = 2.0
# It compares arrays, and atheris keeps an object for each traced comparison of arrays.
NOT_TRACED = ["online.api.bodies"]
FUZZ_PROGRAM = f"""
import sys, atheris
with atheris.instrument_imports(include=["online", "benchmarks.fuzz_tensors"], exclude={NOT_TRACED}):
    from benchmarks.fuzz_tensors import try_one
atheris.Setup(sys.argv, try_one)
atheris.Fuzz()
"""
MODELS = """
[[models]]
name = "chat"
kind = "ranker"

[[models]]
name = "vec"
kind = "classifier"
options = { input = "vector", size = 2, scale = 4.0 }

[[models]]
name = "tab"
kind = "classifier"
options = { input = "table" }

[[models]]
name = "num"
kind = "regressor"
options = { input = "vector", size = 2, scale = 4.0, target_scale = 64.0 }

[[models]]
name = "txt"
kind = "classifier"
options = { input = "text" }
"""
NAMES = ["chat", "vec", "tab", "num", "txt", "unknown"]
CHECKS = """
[checks]
not_a_server_error.expected-statuses = ["2xx", "3xx", "4xx", 504]
"""  # 504: min_offset was not learned within timeout_ms


@dataclass(frozen=True, slots=True)
class Outcome:
    figures: dict[str, str | int | float]
    findings: list[str]


def environment(name: str, package: str, shares_packages: bool) -> Path:
    """Return the bin folder of an environment with this package.

    shares_packages: whether it can import the packages of this interpreter.
    """
    folder = cache_folder() / "fuzzers" / name
    done = folder / ".made"
    if not done.exists() or done.read_text() != package:
        say(f"creating the environment of {name}")
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        pip = [str(folder / "bin" / "pip"), "install", "-q", "--disable-pip-version-check", package]
        output = subprocess.run(pip, capture_output=True, text=True, check=False)
        if output.returncode:
            raise BenchmarkError(f"{package} cannot be installed: {output.stderr.strip()[-300:]}")
        if shares_packages:
            (packages,) = folder.glob("lib/python*/site-packages")
            (packages / "ours.pth").write_text(sysconfig.get_paths()["purelib"])
        done.write_text(package)
    return folder / "bin"


# tensors


def fuzz_tensors_for(seconds: int) -> Outcome:
    python = environment("atheris", ATHERIS, shares_packages=True) / "python"
    with tempfile.TemporaryDirectory(prefix="online-fuzz-") as name:
        corpus = Path(name)
        for place, sample in enumerate(fuzz_tensors.samples()):
            (corpus / f"sample-{place}").write_bytes(sample)
        limits = [f"-max_total_time={seconds}", f"-timeout={HANG_S}", f"-rss_limit_mb={MAX_MB}"]
        flags = [*limits, f"-max_len={INPUT_BYTES}", f"-artifact_prefix={SEEDS}/", "-print_final_stats=1"]
        command_line = [str(python), "-c", FUZZ_PROGRAM, *flags, str(corpus), str(SEEDS)]
        completed = subprocess.run(
            command_line,
            capture_output=True,
            text=True,
            check=False,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        kept = len(list(corpus.iterdir()))
    output = completed.stdout + completed.stderr
    memory = [int(mb) for mb in re.findall(r"rss: (\d+)Mb", output)]
    runs = re.findall(r"number_of_executed_units: (\d+)", output)
    features = re.findall(r"ft: (\d+)", output)
    if not (runs and memory and features):
        raise BenchmarkError(f"atheris did not run: {output[-1_000:]}")
    figures: dict[str, str | int | float] = {
        "inputs tried": int(runs[0]),
        "features covered": int(features[-1]),
        "inputs kept": kept,
        "memory half way, MB": memory[len(memory) // 2],
        "memory at the end, MB": memory[-1],
    }
    findings = [output[-3_000:]] if completed.returncode else []
    if memory[-1] - memory[len(memory) // 2] > MAX_GROWTH_MB:
        findings.append(f"memory grew by {memory[-1] - memory[len(memory) // 2]} MB in the second half")
    return Outcome(figures, findings)


# api


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


def prepare_document(document: dict[str, Any]) -> dict[str, Any]:
    """Return the OpenAPI document with the names of existing models and the routes of other protocols.

    Event streams are left out because they do not end. The timeout for an offset is at most a second.
    """
    paths: dict[str, Any] = {path: each for path, each in document["paths"].items() if not path.endswith("/events")}
    for each in paths.values():
        for method in each.values():
            for parameter in method.get("parameters", []):
                if parameter["name"] == "model" and parameter["in"] == "path":
                    parameter["schema"] = {"type": "string", "enum": NAMES}
                if parameter["name"] == "timeout_ms":
                    parameter["schema"] |= MAX_TIMEOUT
    schemas = document["components"]["schemas"]
    schemas["PredictRequest"]["properties"]["timeout_ms"] |= MAX_TIMEOUT
    schemas["PredictRequest"]["properties"]["instances"]["items"] = INSTANCE
    schemas["FeedbackItem"]["properties"]["input"] = INSTANCE
    paths |= {path: {"get": operation(path)} for path in GET_PATHS}
    paths |= {path: {"post": {**operation(path), "requestBody": body(schema)}} for path, schema in POST_BODIES.items()}
    return {**document, "paths": paths}


MAX_TIMEOUT = {"maximum": 1_000}
NUMBERS = {"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 2}
INSTANCE: dict[str, Any] = {"anyOf": [{"type": "string"}, NUMBERS, {"type": "object"}, {}]}
TENSOR = {
    "type": "object",
    "required": ["name", "datatype", "shape"],
    "properties": {
        "name": {"type": "string", "enum": ["x", "text", "a"]},
        "datatype": {"type": "string", "enum": ["FP32", "BYTES", "INT64", "BOOL", "FP16", "BF16", "?"]},
        "shape": {"type": "array", "items": {"type": "integer", "minimum": -1, "maximum": 4}, "maxItems": 3},
        "data": {"type": "array", "items": INSTANCE},
        "parameters": {"type": "object", "properties": {"binary_data_size": {"type": "integer"}}},
    },
}
INFER = {
    "type": "object",
    "properties": {
        "id": {"type": "string"},
        "inputs": {"type": "array", "items": TENSOR},
        "outputs": {"type": "array", "items": {"type": "object", "properties": {"name": {"type": "string"}}}},
        "parameters": {"type": "object"},
    },
}
ROWS = {
    "type": "object",
    "properties": {
        "signature_name": {"type": "string"},
        "instances": {"type": "array", "items": INSTANCE},
        "inputs": INSTANCE,
        "examples": {"type": "array", "items": {"type": "object"}},
        "context": {"type": "object"},
    },
}
POST_BODIES: dict[str, dict[str, Any]] = {
    "/v2/models/{model}/infer": INFER,
    "/v2/models/{model}/versions/{version}/infer": INFER,
    "/v2/repository/index": {"type": "object"},
    "/v2/repository/models/{model}/load": {"type": "object", "properties": {"parameters": {"type": "object"}}},
    "/v2/repository/models/{model}/unload": {"type": "object"},
    "/v1/models/{model}:classify": ROWS,
    "/v1/models/{model}:regress": ROWS,
    "/v1/models/{model}/versions/{version}:classify": ROWS,
    "/v1/models/{model}/labels/{label}:regress": ROWS,
}
GET_PATHS = (
    "/v2",
    "/v2/models",
    "/v2/models/{model}",
    "/v2/models/{model}/config",
    "/v2/models/{model}/stats",
    "/v2/models/{model}/versions/{version}/ready",
    "/v1/models/{model}/versions/{version}",
    "/v1/models/{model}/labels/{label}/metadata",
)


def body(schema: dict[str, Any]) -> dict[str, Any]:
    return {"content": {"application/json": {"schema": schema}}}


def operation(path: str) -> dict[str, Any]:
    schemas = {"model": {"type": "string", "enum": NAMES}}
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": schemas.get(name, {"type": "string"})}
        for name in re.findall(r"{(\w+)}", path)
    ]
    return {"parameters": parameters, "responses": {"default": {"description": "any response"}}}


def fuzz_api_for(seconds: int) -> Outcome:
    schemathesis = environment("schemathesis", SCHEMATHESIS, shares_packages=False) / "schemathesis"
    with tempfile.TemporaryDirectory(prefix="online-fuzz-") as name, running_service(MODELS) as service:
        folder, url = Path(name), f"http://{service.host}:{service.port}"
        document = folder / "openapi.json"
        document.write_text(json.dumps(prepare_document(httpx.get(f"{url}/openapi.json").json())))
        (folder / "schemathesis.toml").write_text(CHECKS)
        flags = ["--url", url, "--checks", "not_a_server_error", f"--request-timeout={HANG_S}", "--continue-on-failure"]
        flags += [f"--max-time={seconds}", "--suppress-health-check=all", "--warnings=off", "--no-color"]
        with watch_process(service.pid, url) as samples:
            command_line = [str(schemathesis), "run", str(document), *flags]
            completed = subprocess.run(command_line, capture_output=True, text=True, check=False, cwd=folder)
        log = service.log.read_text()
    cases = re.findall(r"([\d,]+) generated", completed.stdout)
    if not (cases and samples.memory):
        raise BenchmarkError(f"schemathesis did not run: {completed.stdout[-1_000:]}{completed.stderr[-1_000:]}")
    figures: dict[str, str | int | float] = {
        "requests": int(cases[-1].replace(",", "")),
        "slowest health check, s": samples.slowest_s,
        "memory half way, MB": samples.memory[len(samples.memory) // 2],
        "memory at the end, MB": samples.memory[-1],
    }
    findings = [completed.stdout[-6_000:]] if completed.returncode else []
    findings += re.findall(r"(?m)^Traceback.*(?:\n.+)*", log)[:10]
    if samples.slowest_s > HANG_S:
        findings.append(f"a request to /healthz took {samples.slowest_s:.1f} s")
    if samples.growth_mb() > MAX_GROWTH_MB:
        findings.append(f"memory grew by {samples.growth_mb():.0f} MB in the second half")
    return Outcome(figures, findings)


FUZZERS = {"api": fuzz_api_for, "tensors": fuzz_tensors_for}


def run(arguments: Namespace) -> int:
    wanted = [arguments.only] if arguments.only else list(FUZZERS)
    outcomes = {name: FUZZERS[name](round(60 * arguments.minutes)) for name in wanted}
    if arguments.json:
        print_json({name: asdict(outcome) for name, outcome in outcomes.items()})
    for name, outcome in outcomes.items():
        if not arguments.json:
            table(name, ["", ""], list(outcome.figures.items()))
        for each in outcome.findings:
            say(each)
    return 1 if any(outcome.findings for outcome in outcomes.values()) else 0


def main() -> int:
    parser = create_parser(__doc__ or "")
    parser.add_argument("--minutes", type=float, default=10.0, help="minutes for each fuzzer")
    parser.add_argument("--only", choices=sorted(FUZZERS), help="run only this fuzzer")
    return run(parser.parse_args())


if __name__ == "__main__":
    command(main)

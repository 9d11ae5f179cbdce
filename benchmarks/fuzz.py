"""Fuzzes every interface for some minutes. A finding is a status 500, a hang, growing memory, or what a caller may not do.

    api       a real service <--its OpenAPI document and the routes of other protocols-- schemathesis
    tensors   benchmarks/fuzz_tensors.py <--bytes-- atheris (libFuzzer, guided by coverage)

The API is fuzzed as three callers, one after another, with the ids of what an operator has put there before:

    open        no key exists, so that a caller on this machine may do everything
    anonymous   keys exist and none is shown: closed routes answer 4xx, no word of anybody is shown, and after the run
                every table and file is what it was, but the audit log
    key         a key with the scopes predict, feedback and teach, which is what a program of others has: routes of other
                scopes answer 4xx, and what others said is neither shown nor changed. A key with every scope
                may do what `open` tests.

Each fuzzer has its own virtual environment, created on the first run. Every finding is printed with
the input that repeats it. Earlier findings are in tests/fuzz, where tests/fuzz/test_seeds.py repeats
them with every run of the tests.
"""

import os
import re
import subprocess
import tempfile
from argparse import Namespace
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from benchmarks import fuzz_tensors
from benchmarks.fuzzing.api import ACCESS, fuzz_as
from benchmarks.fuzzing.environments import HANG_S, MAX_GROWTH_MB, Outcome, environment
from benchmarks.report import command, create_parser, print_json, say, table
from benchmarks.service import ROOT, BenchmarkError

ATHERIS = "atheris==3.0.0"
SEEDS = ROOT / "tests" / "fuzz" / "tensors"
INPUT_BYTES = 4_096
MAX_MB = 2_048
# It compares arrays, and atheris keeps an object for each traced comparison of arrays.
NOT_TRACED = ["online.api.bodies"]
FUZZ_PROGRAM = f"""
import sys, atheris
with atheris.instrument_imports(include=["online", "benchmarks.fuzz_tensors"], exclude={NOT_TRACED}):
    from benchmarks.fuzz_tensors import try_one
atheris.Setup(sys.argv, try_one)
atheris.Fuzz()
"""


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


def choose_fuzzers(only: str | None, access: list[str]) -> dict[str, Callable[[int], Outcome]]:
    """Return the fuzzers to run, by the name of their table."""
    chosen = {f"api, {name}": fuzz_as(name) for name in access} if only != "tensors" else {}
    return chosen if only == "api" else {**chosen, "tensors": fuzz_tensors_for}


def run(arguments: Namespace) -> int:
    outcomes = {}
    for name, fuzz in choose_fuzzers(arguments.only, arguments.access or list(ACCESS)).items():
        say(f"{name}: {arguments.minutes:g} minutes ...")
        outcomes[name] = fuzz(round(60 * arguments.minutes))
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
    parser.add_argument("--minutes", type=float, default=10.0, help="minutes for each fuzzer, and each access")
    parser.add_argument("--only", choices=["api", "tensors"], help="run only this fuzzer")
    explained = "; ".join(f"{name}: {what}" for name, what in ACCESS.items())
    parser.add_argument("--access", choices=ACCESS, action="append", help=f"fuzz the API as (default: all) {explained}")
    return run(parser.parse_args())


if __name__ == "__main__":
    command(main)

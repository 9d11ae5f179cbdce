"""FedAvg whose server is Flower's (flwr.server.strategy), with the clients of `averaging.py` in the same process.

    python -m benchmarks.cohorts.flower PROBLEM.npz     prints {"version": ..., "accuracies": [...], "seconds": ...}

Flower needs an older protobuf than the service, so it has an environment of its own: this file and what it imports need
NumPy and flwr only. Its simulation would start a process of Ray for each core and change no number: the strategy averages.
"""

import json
import sys
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from subprocess import run
from tempfile import TemporaryDirectory
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray

from benchmarks.cohorts.averaging import Floats, Problem, Schedule, train

MISSING = 3  # exit status where flwr is not installed


class FlowerResult(TypedDict):
    version: str
    accuracies: list[float]
    seconds: float


def run_flower(python: str, problem: Problem, schedule: Schedule) -> FlowerResult | None:
    """FedAvg in the environment of this interpreter; None if Flower is not installed there."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "problem.npz"
        arrays = {name: getattr(problem, name) for name in Problem.__dataclass_fields__}
        settings = [schedule.rounds, schedule.drop, schedule.seed, schedule.rate]
        np.savez(path, schedule=np.array(settings, np.float64), **arrays)
        done = run([python, "-m", "benchmarks.cohorts.flower", str(path)], capture_output=True, text=True, check=False)
    if done.returncode == MISSING:
        return None
    done.check_returncode()
    result: FlowerResult = json.loads(done.stdout.splitlines()[-1])
    return result


def read_problem(path: Path) -> tuple[Problem, Schedule]:
    with np.load(path) as stored:
        rounds, drop, seed, rate = stored["schedule"].tolist()
        arrays = {name: stored[name] for name in Problem.__dataclass_fields__}
    problem = Problem(**{**arrays, "class_count": int(arrays["class_count"])})
    return problem, Schedule(int(rounds), drop, int(seed), rate)


class FlowerAverage:
    """The average of Flower's FedAvg, of the whole weights of every client."""

    def __init__(self) -> None:
        from flwr.server.strategy import FedAvg

        self.strategy: Any = FedAvg()
        self.round = 1  # it warns of missing metrics in the first one

    def __call__(self, sent_DC: Floats, x_SED: Floats, a_SEC: Floats, examples_S: NDArray[np.int64]) -> Floats:
        from flwr.common import Code, FitRes, Status, ndarrays_to_parameters, parameters_to_ndarrays

        self.round += 1
        results = [
            (None, FitRes(Status(Code.OK, ""), ndarrays_to_parameters([sent_DC + x_ED.T @ a_EC]), count, {}))
            for x_ED, a_EC, count in zip(x_SED, a_SEC, examples_S.tolist(), strict=True)
        ]
        parameters, _ = self.strategy.aggregate_fit(self.round, results, [])
        averaged: Floats = parameters_to_ndarrays(parameters)[0].astype(np.float32)
        return averaged


def main(path: Path) -> int:
    try:
        installed = version("flwr")
    except PackageNotFoundError:
        return MISSING
    began = time.perf_counter()
    accuracies = train(*read_problem(path), FlowerAverage())
    seconds = round(time.perf_counter() - began, 1)
    print(json.dumps(FlowerResult(version=installed, accuracies=accuracies, seconds=seconds)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1])))

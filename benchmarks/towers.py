"""Towers that several processes learn: equal bits, speed, gradients of 16 bits, and a worker that is killed.

    python -m benchmarks.towers [--events N] [--only identity,speed,precision,faults]

identity    parts of a step against the whole step: even, odd and empty parts; then 1, 2 and 4 processes: equal sha256
speed       one process against two and four, by the size of the network, in times the learner alone
precision   held-out accuracy with gradients of float32, bfloat16 and float16, and what is sent for a step
faults      workers that are killed one after the other: equal sha256, and the longest pause of the learner

Digits (1,797 images of 8 x 8) are learned in order, again and again; the last 500 are held out.
"""

import argparse
import multiprocessing
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from rich.progress import track
from sklearn.datasets import load_digits

from online.models import Example, Model, Options, create
from online.plugins.towers.stack import BETAS
from online.plugins.workers.board import ShareBoard
from online.plugins.workers.team import Team
from online.plugins.workers.worker import work
from online.stream.contract import Stream

KEY = b"a key for this benchmark"
HELD_OUT = 500
BASE: Options = {"input": "vector", "size": 64, "batch": 64, "replay": 64, "buffer": 1_000, "accumulate": 4}
SIZES = (([128, 128], 64), ([512, 512], 64), ([1024, 1024], 64), ([512, 512], 512))  # hidden layers, rows
FAULTS = 6
TRIES = 3  # of which the median is quoted


@dataclass(frozen=True, slots=True)
class Result:
    """What one run learned. longest_s: of a call to learn."""

    sha256: str
    seconds: float
    longest_s: float
    accuracy: float


def digits() -> tuple[list[Example], list[Example]]:
    """The digits to learn and those held out, each at its offset."""
    data = load_digits()
    order = np.random.default_rng(0).permutation(len(data.target))
    examples = [
        Example(n + 1, "label", data.data[place].astype(np.float64).tobytes(), str(data.target[place]))
        for n, place in enumerate(order)
    ]
    return examples[:-HELD_OUT], examples[-HELD_OUT:]


def repeat_examples(examples: Sequence[Example], count: int) -> list[Example]:
    """The first `count` examples of an endless repetition, at consecutive offsets."""
    times = (examples[n % len(examples)] for n in range(count))
    return [Example(n + 1, each.kind, each.features, each.label) for n, each in enumerate(times)]


def learn(
    model: Model, examples: Sequence[Example], held_out: Sequence[Example], actions: Sequence[tuple[int, Any]] = ()
) -> Result:
    """Learn examples in the micro-batches of the model. actions: what is done at which example."""
    due, longest_s, batch = dict(actions), 0.0, BASE["batch"]
    began = time.perf_counter()
    for start in range(0, len(examples), batch):
        if (action := due.get(start)) is not None:
            action()
        at = time.perf_counter()
        model.learn(examples[start : start + batch])
        longest_s = max(longest_s, time.perf_counter() - at)
    seconds = time.perf_counter() - began
    answers = model.predict([example.features for example in held_out])
    right = [answer.choice == example.label for answer, example in zip(answers, held_out, strict=True)]
    return Result(model.fingerprint(), seconds, longest_s, float(np.mean(right)))


def open_nothing(model: str, options: Options) -> Stream:
    raise AssertionError("a worker that learns a tower reads no log")


def run_worker(address: Any) -> None:
    os.environ["OMP_NUM_THREADS"] = "1"
    torch.set_num_threads(1)
    with suppress(OSError):  # the run has ended by now
        work(address, KEY, open_nothing)


class Cluster:
    """A board, and workers in processes of their own."""

    def __init__(self, folder: str) -> None:
        self.board = ShareBoard(str(Path(folder) / "board"), KEY)
        self.processes: list[Any] = []

    def start(self, count: int = 1) -> None:
        """Start workers, and wait until they are idle."""
        for _ in range(count):
            process = multiprocessing.get_context("spawn").Process(target=run_worker, args=(self.board.address,))
            process.start()
            self.processes.append(process)

    def wait_for(self, count: int) -> None:
        while self.board.idle_count < count:
            time.sleep(0.01)

    def replace_one(self) -> None:
        """Kill the oldest worker, and start another one."""
        self.processes.pop(0).kill()
        self.start()

    def close(self) -> None:
        self.board.close()
        for process in self.processes:
            process.join(10)
            process.kill()


@contextmanager
def cluster(workers: int) -> Iterator[Cluster]:
    with tempfile.TemporaryDirectory() as folder:
        opened = Cluster(folder)
        try:
            opened.start(workers)
            opened.wait_for(workers)
            yield opened
        finally:
            opened.close()


def warm_up(model: Model, team: Team, examples: Sequence[Example], processes: int) -> int:
    """Learn until all workers have joined. Returns how many examples that took."""
    done, batch = 0, BASE["batch"]
    while team.member_count < processes - 1:
        model.learn(examples[done : done + batch])
        done += batch
    return done


def run(options: Options, processes: int, count: int, faults: int = 0) -> Result:
    """Learn with a number of processes. Only what is learned once all are there is timed."""
    examples, held_out = digits()
    with cluster(processes - 1) as workers:
        team = Team(workers.board, "digits", "tower", options)
        model = team.wrap(create("tower", options))
        stream = repeat_examples(examples, 100_000)
        done = warm_up(model, team, stream, processes) if processes > 1 else 0
        until = done + count // BASE["batch"] * BASE["batch"]
        every = count // (faults + 1) // BASE["batch"] * BASE["batch"]
        actions = [(every * (n + 1), workers.replace_one) for n in range(faults)]
        result = learn(model, stream[done:until], held_out, actions)
        check = create("tower", options)
        check.learn(stream[:until])
        assert check.fingerprint() == result.sha256, "the processes did not learn what one learns"
        team.stop()
        return result


def show_identity(count: int) -> None:
    print("\nA step in parts against the whole step from the same state: largest difference of the gradient, 20 steps")
    for batch, parts in ((64, 2), (64, 4), (61, 3), (64, 7), (3, 8)):
        empty = " (some without fresh rows)" if parts > batch else ""
        print(f"  {batch} rows in {parts} parts{empty}: {find_difference(batch, parts, 20):.1e}")
    print("\nProcesses, option accumulate = 4")
    for strategy in ("er", "er_ace", "derpp", "agem"):
        options = {**BASE, "strategy": strategy}
        for processes in (2, 4):
            result = run(options, processes, count)
            print(f"  {strategy:7} {processes} processes: sha256 {result.sha256[:12]}, that of one process")


def find_difference(batch: int, parts: int, steps: int) -> float:
    """The largest difference of a gradient in parts from the whole one. Gradients are clipped to the norm 1."""
    stream = repeat_examples(digits()[0], (steps + 1) * batch)[batch - 1 :]  # a micro-batch begins at offset `batch`
    whole, cut = (create("tower", {**BASE, "batch": batch, "accumulate": n}) for n in (1, parts))
    largest = 0.0
    for start in range(0, steps * batch, batch):
        cut.restore(whole.state())
        for model in (whole, cut):
            model.learn(stream[start : start + batch])
        difference = np.abs(moments_of(whole) - moments_of(cut)).max() / (1 - BETAS[0])
        largest = max(largest, float(difference))
    return largest


def moments_of(model: Model) -> Any:
    return model.state()["stack"].tensors["mean_LP"]


def show_speed(count: int) -> None:
    print(f"\nSpeed, {torch.get_num_threads()} thread in each process, {os.cpu_count()} cores")
    for hidden, rows in track(SIZES, "networks", transient=True):
        for strategy in ("er", "er_ace"):
            rates = {}
            for processes in (1, 2, 4):
                options = {**BASE, "hidden": hidden, "strategy": strategy, "batch": rows, "replay": rows}
                found = [run({**options, "accumulate": max(2, processes)}, processes, count) for _ in range(TRIES)]
                rates[processes] = median(count / each.seconds for each in found)
            ratios = ", ".join(f"{n} processes {rates[n] / rates[1]:.2f}" for n in (2, 4))
            print(f"  hidden {hidden}, {rows} + {rows} rows, {strategy}: alone {rates[1]:,.0f} events/s; {ratios}")


def show_precision(count: int) -> None:
    examples, held_out = digits()
    stream = repeat_examples(examples, count)
    print("\nPrecision of gradients, 5 seeds")
    for gradients, size in (("float32", 4), ("bfloat16", 2), ("float16", 2)):
        accuracies = []
        for seed in range(5):
            model = create("tower", {**BASE, "gradients": gradients, "seed": seed})
            accuracies.append(learn(model, stream, held_out).accuracy)
        numbers = moments_of(model).size
        print(
            f"  {gradients:8}: held-out {100 * median(accuracies):.1f} % "
            f"({100 * min(accuracies):.1f} to {100 * max(accuracies):.1f}), {numbers * size / 1e6:.2f} MB for a step"
        )


def show_faults(count: int) -> None:
    options, count = {**BASE, "hidden": [512, 512]}, 10 * count  # so that a new worker joins before the next is killed
    calm, faulty = run(options, 2, count), run(options, 2, count, FAULTS)
    print(
        f"\n{FAULTS} workers killed one after the other: sha256 that of one process, "
        f"longest pause {faulty.longest_s:.2f} s, {calm.seconds / faulty.seconds:.2f} times the speed without faults"
    )


SECTIONS = {"identity": show_identity, "speed": show_speed, "precision": show_precision, "faults": show_faults}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=6_400, help="events in a run")
    parser.add_argument("--only", default=",".join(SECTIONS), help="sections, with commas between them")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    for name in arguments.only.split(","):
        SECTIONS[name](arguments.events)


if __name__ == "__main__":
    main()

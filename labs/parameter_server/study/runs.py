"""Simulated runs of a parameter server, on every core.

jobs --pool of processes, progress bar--> outcomes, in the order of the jobs
"""

import hashlib
import math
import os
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from functools import lru_cache
from multiprocessing import get_context
from typing import TypeVar

import numpy as np
import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from labs.parameter_server.coordination import Synchronous
from labs.parameter_server.gradients import GradientTask
from labs.parameter_server.policies import POLICIES, Policy
from labs.parameter_server.simulation import Cluster, Simulation
from labs.parameter_server.study.data import DATA_SETS

T = TypeVar("T", bound=Hashable)
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Job:
    """One run. rate: the learning rate. validate: judge by validation rows. target: the accuracy, in percent, at which it ends.

    passes: over the data; 0 for those of the data set.
    """

    data: str
    policy: str
    cluster: Cluster
    rate: float
    seed: int = 0
    validate: bool = False
    target: float = math.inf
    passes: int = 0

    def with_seed(self, seed: int) -> "Job":
        delays = replace(self.cluster.delays, seed=seed)
        return replace(self, seed=seed, cluster=replace(self.cluster, delays=delays))


@dataclass(frozen=True, slots=True)
class Outcome:
    """accuracy: at the end, in percent. staleness: mean. used: share of the gradients that were applied. elapsed_s: of the virtual clock.

    reached_s: when the target was reached; NaN if never. digest: of the parameters.
    """

    accuracy: float
    staleness: float
    used: float
    elapsed_s: float
    sent_bytes: int
    reached_s: float
    digest: str = field(repr=False)


def is_synchronous(policy: Policy) -> bool:
    return isinstance(policy.coordination(5), Synchronous)


@lru_cache(maxsize=4)
def create_task(data: str, seed: int, validate: bool) -> GradientTask:
    return DATA_SETS[data].create_task(seed, validate)


def run_job(job: Job) -> Outcome:
    torch.set_num_threads(1)
    data_set, task = DATA_SETS[job.data], create_task(job.data, job.seed, job.validate)
    data = data_set.load(job.seed, job.validate)
    budget = (job.passes or data_set.passes) * task.per_pass

    def judge(run: Simulation) -> float:
        return task.accuracy(run.join_parameters(), data.judged_x_ND, data.judged_class_N)

    def has_reached(run: Simulation) -> bool:
        return job.target < math.inf and judge(run) >= job.target

    run = Simulation(task, POLICIES[job.policy], job.cluster, job.rate, budget, has_reached)
    run.run()
    accuracy = judge(run)
    return Outcome(
        accuracy,
        float(np.mean(run.tally.staleness or [0])),
        run.tally.used / run.tally.pushes,
        run.now_s,
        run.sent_bytes,
        run.now_s if accuracy >= job.target else math.nan,
        hashlib.sha256(run.join_parameters().numpy().tobytes()).hexdigest(),
    )


class Pool:
    """Runs jobs on all cores, and shows how many are done."""

    def __init__(self) -> None:
        context = get_context("forkserver")
        context.set_forkserver_preload([__name__, "labs.parameter_server.processes"])
        self._executor = ProcessPoolExecutor(os.cpu_count(), context)

    def run(self, what: str, function: Callable[[T], R], jobs: Sequence[T]) -> list[R]:
        """What the function returns for each job; equal jobs run once."""
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        different = list(dict.fromkeys(jobs))
        with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
            row = bar.add_task(what, total=len(different))
            futures = [self._executor.submit(function, job) for job in different]
            for future in futures:
                future.add_done_callback(lambda _: bar.advance(row))
            found = dict(zip(different, (future.result() for future in futures), strict=True))
        return [found[job] for job in jobs]

    def close(self) -> None:
        self._executor.shutdown(cancel_futures=True)


@dataclass(frozen=True, slots=True)
class Tuner:
    """Chooses learning rates on validation rows, in runs with the same delays."""

    pool: Pool
    factors: Sequence[float]
    seeds: int = 1

    def choose(self, what: str, jobs: Sequence[Job], rates: Sequence[Sequence[float]]) -> list[Job]:
        """Each job with the one of its rates that is best on validation rows; among equals the lower one."""
        trials = [
            replace(job, rate=rate, validate=True).with_seed(seed)
            for job, own in zip(jobs, rates, strict=True)
            for rate in sorted(own)
            for seed in range(self.seeds)
        ]
        outcomes = iter(self.pool.run(what, run_job, trials))
        chosen = []
        for job, own in zip(jobs, rates, strict=True):
            means = {rate: np.mean([next(outcomes).accuracy for _ in range(self.seeds)]) for rate in sorted(own)}
            chosen.append(replace(job, rate=max(means, key=lambda rate: means[rate])))
        return chosen

    def choose_factor(self, what: str, jobs: Sequence[Job]) -> list[Job]:
        """Each job with its rate, or a multiple of it."""
        return self.choose(what, jobs, [[job.rate * factor for factor in self.factors] for job in jobs])

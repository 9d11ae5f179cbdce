"""Replays many models over many logs on a Ray cluster: every model over every log is a task of its own.

logs x models --> ReplayJob --in the folder?--> CachedResult --> tables, comparisons
                   | not yet                        ^
                   v                                | saved in the folder
                  Ray: a worker replays it ---------+   if its worker dies: again, up to RETRIES times
                                                        an error of the replay: reported, not tried again

Every node must see the logs at the same paths and have the same release of all packages; a worker computes the job's key
itself to check that.
"""

import socket
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from online.errors import BadInput, OnlineError, SetupError
from online.evaluation.replay.candidate_specs import CandidateSpec
from online.evaluation.replay.replay import ScoredSpan
from online.evaluation.replay.replay_job import CachedResult, ReplayJob, identify_content
from online.evaluation.replay.replay_report import LogResults, ReplayResult
from online.evaluation.replay.results_cache import ResultsFolder
from online.evaluation.replay.runs import describe_time_left
from online.evaluation.sources.replay_source import Source
from online.io.progress import Progress
from online.io.ray_cluster import connect
from online.models import spec_of
from online.scoring.paired_comparison import PairedComparison

RETRIES = 3  # of a replay whose worker died


COMPARED_LOSSES = 4_096  # losses compared at once


NOT_FINISHED = "interrupted before it was finished"


def replay_on_ray(
    address: str,
    folder: ResultsFolder,
    sources: Sequence[Source],
    candidates: Sequence[CandidateSpec],
    span: ScoredSpan,
    tick: Progress,
) -> list[LogResults]:
    """Replay every model over every log; Ctrl-C keeps what is finished.

    address: of a running cluster; "" starts one on this machine.

    Raises SetupError if Ray is not available, or if results cannot be saved.
    """
    jobs = list[ReplayJob]()
    for place, source in enumerate(sources):
        tick(f"looking at {source.name}", place, len(sources))
        jobs += create_jobs(source, candidates, span)
    to_do = [job for job in jobs if folder.find(job) is None]
    if len(to_do) < len(jobs):
        folder.tell(f"{len(jobs) - len(to_do)} of {len(jobs)} replays were finished before: {folder.path}")
    run = RayRun(folder, len(jobs), tick)
    if to_do:
        run.go(address, to_do)
    by_log = [jobs[start : start + len(candidates)] for start in range(0, len(jobs), len(candidates))]
    return [
        LogResults(each[0].source.name, collect_results(each, run.failures, folder), run.interrupted) for each in by_log
    ]


def create_jobs(source: Source, candidates: Sequence[CandidateSpec], span: ScoredSpan) -> list[ReplayJob]:
    """Return a job for each candidate, identified by the content of the log."""
    found = source if source.path is None else replace(source, path=source.path.resolve())
    content = identify_content(found)
    return [ReplayJob(found, content, each, span) for each in candidates]


@dataclass(slots=True)
class RayRun:
    """One run of jobs on a cluster. of: the number of all replays, including those finished before."""

    folder: ResultsFolder
    of: int
    tick: Progress
    failures: dict[str, str] = field(default_factory=dict)
    interrupted: bool = False
    deaths: Counter[str] = field(default_factory=Counter)

    def go(self, address: str, jobs: Sequence[ReplayJob]) -> None:
        """Run the jobs on a cluster. Raises SetupError if it cannot be reached or lacks a device."""
        with connect(address) as ray:
            check_devices(ray, jobs)
            task = ray.remote(num_cpus=1, max_retries=0)(
                run_job
            )  # Ray would retry forever a task that does not fit into memory

            def submitted(job: ReplayJob) -> Any:
                return task.options(num_gpus=int(job.candidate.device != "cpu")).remote(job, job.key)

            waiting = {submitted(job): job for job in jobs}
            started = time.monotonic()
            try:
                while waiting:
                    left = describe_time_left(time.monotonic() - started, 1 - len(waiting) / len(jobs))
                    done = self.of - len(waiting)
                    self.tick(f"{done:,} of {self.of:,} replays{left}", done, self.of)
                    ready, _ = ray.wait([*waiting], num_returns=1)
                    job = waiting.pop(ready[0])
                    if not self._ended(job, ray, ready[0]):
                        waiting[submitted(job)] = job
            except KeyboardInterrupt:
                self.interrupted = True
                for reference in waiting:
                    ray.cancel(reference, force=True)
                self.folder.tell(
                    f"{self.of - len(waiting)} of {self.of} replays are finished; the same command goes on"
                )

    def _ended(self, job: ReplayJob, ray: Any, reference: object) -> bool:
        """Save the outcome of a task; return False if it is to be tried again."""
        try:
            outcome: CachedResult | str = ray.get(reference)
        except ray.exceptions.RayTaskError as error:
            outcome = f"its worker could not begin: {str(error).splitlines()[-1]}"
        except ray.exceptions.RayError as error:
            self.deaths[job.key] += 1
            died = f"its worker died ({type(error).__name__})"
            if self.deaths[job.key] <= RETRIES:
                self.folder.tell(f"{job.name} on {job.source.name}: {died}; tried again")
                return False
            outcome = f"{died}, {self.deaths[job.key]} times"
        if isinstance(outcome, CachedResult):
            self.folder.keep(job, outcome)
        else:
            self.failures[job.key] = outcome
        return True


def check_devices(ray: Any, jobs: Sequence[ReplayJob]) -> None:
    """Raise SetupError if a job needs a GPU that the cluster does not have."""
    if any(job.candidate.device != "cpu" for job in jobs) and not ray.cluster_resources().get("GPU"):
        raise SetupError("this Ray cluster has no GPU: replay with --device cpu")


def run_job(job: ReplayJob, key: str) -> CachedResult | str:
    """Run a job on a worker. A failure is returned as text, so that Ray does not count it as the worker's."""
    try:
        here = replace(job, content=identify_content(job.source))
        if here.key != key:
            raise BadInput(
                f"on {socket.gethostname()} the log, a package or our release differ from those it was started with"
            )
        return here.run()
    except (OnlineError, ValueError) as error:
        return str(error)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def collect_results(jobs: Sequence[ReplayJob], failures: dict[str, str], folder: ResultsFolder) -> list[ReplayResult]:
    """Return the results of one log. The first model is the champion."""
    found, champion = list[ReplayResult](), None
    for place, job in enumerate(jobs):
        finished = folder.find(job)
        champion = champion or (finished if place == 0 else None)
        report, failure = (finished.report, None) if finished else (None, failures.get(job.key, NOT_FINISHED))
        comparison = (
            compare_losses(champion, finished, spec_of(jobs[0].candidate.kind).predicts_numbers, len(jobs) - 1)
            if place
            else None
        )
        found.append(ReplayResult(job.candidate, report, failure, comparison))
    return found


def compare_losses(
    champion: CachedResult | None, challenger: CachedResult | None, numbers: bool, among: int
) -> dict[str, object]:
    """among: the number of challengers."""
    comparison = PairedComparison(numbers)
    if champion is not None and challenger is not None:
        most = max(len(champion.losses.offsets_N), len(challenger.losses.offsets_N))
        for start in range(0, most, COMPARED_LOSSES):
            comparison.add(*(each.losses.part(start, start + COMPARED_LOSSES) for each in (champion, challenger)))
    return comparison.as_dict(among)

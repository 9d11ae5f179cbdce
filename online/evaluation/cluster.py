"""Many replays on a Ray cluster: every model over every log is a task of its own.

    logs x models --> Job --in the folder?--> Finished --> tables, duels
                       | not yet                 ^
                       v                         | kept in the folder
                      Ray: a worker replays it --+    its worker dies: again, up to RETRIES times
                                                      an error of ours: told, and not tried again

Every node reads the logs at the same paths, and has the same release of everything: a worker makes the job's key itself.
What Ray pickles travels between its own processes. A cluster started here is for one run, and lets in who has its token.
"""

import logging
import os
import secrets
import socket
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from online.errors import BadInput, OnlineError, SetupError
from online.evaluation.duel import Duel
from online.evaluation.finished import Finished, Folder, Job, content_of
from online.evaluation.race import Played, Result, Tick
from online.evaluation.replay import Contender, Span
from online.evaluation.sources import Source

RETRIES = 3  # of a replay whose worker died
REACHED_S = 10.0  # that a cluster's head may take to be reached
TOGETHER = 4_096  # losses compared at once
NOT_FINISHED = "interrupted before it was finished"


def played_on_ray(
    address: str,
    folder: Folder,
    sources: Sequence[Source],
    contenders: Sequence[Contender],
    span: Span,
    tick: Tick,
) -> list[Played]:
    """Every model over every log. Ctrl-C keeps what is finished. address: of a cluster; "" starts one here.

    Raises SetupError where there is no Ray, or what is finished cannot be kept.
    """
    jobs = list[Job]()
    for place, source in enumerate(sources):
        tick(f"looking at {source.name}", place, len(sources))
        jobs += jobs_of(source, contenders, span)
    to_do = [job for job in jobs if folder.find(job) is None]
    if len(to_do) < len(jobs):
        folder.tell(f"{len(jobs) - len(to_do)} of {len(jobs)} replays were finished before: {folder.path}")
    run = Run(folder, len(jobs), tick)
    if to_do:
        run.go(address, to_do)
    by_log = [jobs[start : start + len(contenders)] for start in range(0, len(jobs), len(contenders))]
    return [Played(each[0].source.name, results(each, run.failures, folder), run.interrupted) for each in by_log]


def jobs_of(source: Source, contenders: Sequence[Contender], span: Span) -> list[Job]:
    found = source if source.path is None else replace(source, path=source.path.resolve())
    content = content_of(found)
    return [Job(found, content, each, span) for each in contenders]


@dataclass(slots=True)
class Run:
    """of: how many replays there are, with those that are finished already."""

    folder: Folder
    of: int
    tick: Tick
    failures: dict[str, str] = field(default_factory=dict)
    interrupted: bool = False
    deaths: Counter[str] = field(default_factory=Counter)

    def go(self, address: str, jobs: Sequence[Job]) -> None:
        with connected(address) as ray:
            check_devices(ray, jobs)
            task = ray.remote(num_cpus=1, max_retries=0)(replayed)  # Ray would try for ever what has no room

            def submitted(job: Job) -> Any:
                return task.options(num_gpus=int(job.contender.device == "cuda")).remote(job, job.key)

            waiting = {submitted(job): job for job in jobs}
            try:
                while waiting:
                    self.tick(f"{self.of - len(waiting):,} of {self.of:,} replays", self.of - len(waiting), self.of)
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

    def _ended(self, job: Job, ray: Any, reference: Any) -> bool:
        """False where it is to be tried again."""
        try:
            outcome: Finished | str = ray.get(reference)
        except ray.exceptions.RayTaskError as error:
            outcome = f"its worker could not begin: {str(error).splitlines()[-1]}"
        except ray.exceptions.RayError as error:
            self.deaths[job.key] += 1
            died = f"its worker died ({type(error).__name__})"
            if self.deaths[job.key] <= RETRIES:
                self.folder.tell(f"{job.name} on {job.source.name}: {died}; tried again")
                return False
            outcome = f"{died}, {self.deaths[job.key]} times"
        if isinstance(outcome, Finished):
            self.folder.keep(job, outcome)
        else:
            self.failures[job.key] = outcome
        return True


def replayed(job: Job, key: str) -> Finished | str:
    """On a worker: what it came to, or why it failed, in words, so that Ray does not take it for a fault of the worker."""
    try:
        here = replace(job, content=content_of(job.source))
        if here.key != key:
            raise BadInput(
                f"on {socket.gethostname()} the log, a package or our release differ from those it was started with"
            )
        return here.run()
    except (OnlineError, ValueError) as error:
        return str(error)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


# Ray


@contextmanager
def connected(address: str) -> Iterator[Any]:
    """Ray, while it lasts. Raises SetupError."""
    with tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as folder:
        where = existing(address) if address else local(folder)
        try:
            import ray
        except ImportError:
            raise SetupError("--engine ray needs Ray, which is not installed: pip install 'online[ray]'") from None
        try:
            ray.init(**where, log_to_driver=False, logging_level=logging.ERROR)
        except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
            raise SetupError(f"Ray cannot be {'reached at ' + address if address else 'started'}: {error}") from None
        try:
            yield ray
        finally:
            ray.shutdown()


def local(folder: str) -> dict[str, Any]:
    """A cluster of this machine: it tells nobody of its use, shows no page, and leaves nothing behind.

    (Ray asks the link-local address of clouds, 169.254.169.254, which of them it is in, and keeps that to itself.)
    """
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    for name, value in {"RAY_USAGE_STATS_ENABLED": "0", **token}.items():
        os.environ.setdefault(name, value)
    return {"address": "local", "include_dashboard": False, "_temp_dir": folder}


def existing(address: str) -> dict[str, Any]:
    """Raises SetupError at once where nobody listens: Ray would wait for minutes."""
    host, _, port = address.rpartition(":")
    try:
        if port.isdigit():
            socket.create_connection((host, int(port)), REACHED_S).close()
    except OSError as error:
        raise SetupError(f"there is no Ray cluster at {address}: {error}") from None
    return {"address": address}


def check_devices(ray: Any, jobs: Sequence[Job]) -> None:
    if any(job.contender.device == "cuda" for job in jobs) and not ray.cluster_resources().get("GPU"):
        raise SetupError("this Ray cluster has no GPU: replay with --device cpu")


# what they came to


def results(jobs: Sequence[Job], failures: dict[str, str], folder: Folder) -> list[Result]:
    """Of one log. The first model is the champion."""
    found, champion = list[Result](), None
    for place, job in enumerate(jobs):
        finished = folder.find(job)
        champion = champion or (finished if place == 0 else None)
        report, failure = (finished.report, None) if finished else (None, failures.get(job.key, NOT_FINISHED))
        duel = duelled(champion, finished, jobs[0].contender.kind == "regressor") if place else None
        found.append(Result(job.contender, report, failure, duel))
    return found


def duelled(champion: Finished | None, challenger: Finished | None, numbers: bool) -> dict[str, Any]:
    duel = Duel(numbers)
    if champion is not None and challenger is not None:
        most = max(len(champion.losses.offsets_N), len(challenger.losses.offsets_N))
        for start in range(0, most, TOGETHER):
            duel.add(*(each.losses.part(start, start + TOGETHER) for each in (champion, challenger)))
    return duel.told()

"""Saves the results of replays in a folder, so that an interrupted run of many continues where it stopped.

    ReplayJob (a log, a model, options) --key--> KEY.json           the report, and the job
                                                 KEY.safetensors    the losses, for comparisons

Files are written aside and renamed, the JSON last. A checksum detects damaged files.
"""

import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import safetensors.numpy
from safetensors import SafetensorError

from online.errors import SetupError
from online.evaluation.replay.replay_job import (
    CachedResult,
    LossArrays,
    ReplayJob,
    compute_sha256,
    serialize_canonically,
)
from online.evaluation.replay.replay_report import ReplayReport
from online.evaluation.replay.tasks import Tasks
from online.evaluation.scoring.baseline_lead import Lead
from online.evaluation.scoring.confusion import ConfusedPair, Confusion
from online.evaluation.scoring.score import ScoreDetails
from online.learning.drift import Alarm
from online.prequential import CurveSegment

# the folder


@dataclass(frozen=True, slots=True)
class ResultsFolder:
    """A folder of results. tell: is called with a message about each damaged file."""

    path: Path
    tell: Callable[[str], None]

    @classmethod
    def opened(cls, path: Path, tell: Callable[[str], None]) -> "ResultsFolder":
        """Open or create a folder. Raises SetupError if nothing can be saved in it."""
        try:
            path.mkdir(parents=True, exist_ok=True)
            write_file(path / "writable", b"")
            (path / "writable").unlink()
        except OSError as error:
            raise SetupError(f"finished replays cannot be kept in {path}: {error.strerror}") from None
        return cls(path, tell)

    def find(self, job: ReplayJob) -> CachedResult | None:
        """Return the saved result of a job, if it is there and undamaged."""
        file = self._json(job)
        try:
            if not file.exists():
                return None
            return self._read(job, file)
        except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
            self.tell(f"{file} is damaged ({error}): {job.name} on {job.source.name} is replayed again")
            return None

    def _read(self, job: ReplayJob, file: Path) -> CachedResult:
        content = json.loads(file.read_text())
        losses = file.with_suffix(".safetensors").read_bytes()
        if content["losses_sha256"] != compute_sha256(losses) or content["sha256"] != compute_checksum(content):
            raise ValueError("its checksum does not match")
        parts = safetensors.numpy.load(losses)
        report = replace(
            parse_report(content["report"]), name=job.name
        )  # the same model may have had another name then
        return CachedResult(report, LossArrays(parts["offsets"], parts["losses"]))

    def keep(self, job: ReplayJob, finished: CachedResult) -> None:
        """Save the result of a job. Raises SetupError if it cannot be written."""
        parts = {"offsets": finished.losses.offsets_N, "losses": finished.losses.losses_N}
        losses = safetensors.numpy.save(parts)
        content = {"of": job.of(), "report": asdict(finished.report), "losses_sha256": compute_sha256(losses)}
        content = json.loads(json.dumps(content, default=str))  # as it will be read: all keys are strings
        file = self._json(job)
        try:
            write_file(file.with_suffix(".safetensors"), losses)
            write_file(file, json.dumps({"sha256": compute_checksum(content), **content}).encode())
        except OSError as error:
            raise SetupError(f"finished replays cannot be kept in {self.path}: {error.strerror}") from None

    def _json(self, job: ReplayJob) -> Path:
        return self.path / f"{job.key}.json"


def compute_checksum(content: dict[str, Any]) -> str:
    return compute_sha256(serialize_canonically({name: value for name, value in content.items() if name != "sha256"}))


def write_file(path: Path, data: bytes) -> None:
    """Write a complete file or none. A file damaged by a crash of the machine fails its checksum and is replaced."""
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        aside.write_bytes(data)
        os.replace(aside, path)
    finally:
        aside.unlink(missing_ok=True)


def parse_report(content: dict[str, Any]) -> ReplayReport:
    """The inverse of `asdict`, through JSON."""
    details, tasks = content["details"], content["tasks"]
    read = {
        "curve": [CurveSegment(**each) for each in details["curve"]],
        "versions": {int(version): tuple(counts) for version, counts in details["versions"].items()},
        "reliability": [tuple(each) for each in details["reliability"]],
        "confusion": parse_confusion(details["confusion"]),
        "pairs": [tuple(each) for each in details["pairs"]],
    }
    return ReplayReport(
        **{
            **content,
            "drift": [Alarm(**each) for each in content["drift"]],
            "leads": [Lead(**each) for each in content["leads"]],
            "details": ScoreDetails(**{**details, **read}),
            "tasks": None if tasks is None else Tasks(**tasks),
        }
    )


def parse_confusion(content: dict[str, Any] | None) -> Confusion | None:
    if content is None:
        return None
    return Confusion(**{**content, "pairs": [ConfusedPair(**each) for each in content["pairs"]]})

"""Saves the results of replays in a folder, so that an interrupted run of many continues where it stopped.

    ReplayJob (a log, a model, options) --key--> KEY.json           the report, and the job
                                                 KEY.safetensors    the losses, for comparisons

Files are written aside and renamed, the JSON last. A checksum detects damaged files.
"""

import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass, is_dataclass, replace
from itertools import cycle, islice
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

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
from online.schemas.json_values import JSON, JSONObject

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


def compute_checksum(content: JSONObject) -> str:
    """Return the checksum of a stored result."""
    return compute_sha256(serialize_canonically({name: value for name, value in content.items() if name != "sha256"}))


def write_file(path: Path, data: bytes) -> None:
    """Write a complete file or none. A file damaged by a crash of the machine fails its checksum and is replaced."""
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        aside.write_bytes(data)
        os.replace(aside, path)
    finally:
        aside.unlink(missing_ok=True)


def parse_report(content: JSONObject) -> ReplayReport:
    """Return the inverse of `asdict`, through JSON."""
    report: ReplayReport = rebuild(ReplayReport, content)
    return report


def rebuild(kind: Any, content: JSON) -> Any:
    """Return a value of a type from what JSON left of it: dataclasses from objects, tuples from lists, whole keys from texts."""
    base, of = get_origin(kind), get_args(kind)
    if content is None:
        return None
    if is_dataclass(kind):
        kinds = get_type_hints(kind)
        return kind(**{name: rebuild(kinds[name], value) for name, value in content.items()})  # type: ignore[operator]
    if base is UnionType or base is Union:
        return rebuild(next(each for each in of if each is not NoneType), content)
    if base is list:
        return [rebuild(of[0], each) for each in content]
    if base is tuple:
        return tuple(map(rebuild, islice(cycle(of[:1]) if of[-1] is ... else of, len(content)), content))
    if base is dict:
        return {(int(name) if of[0] is int else name): rebuild(of[1], value) for name, value in content.items()}
    return content

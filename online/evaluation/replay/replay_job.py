"""One model over one log as a job, identified by everything that decides its result.

The key is made of the log's content, the model's kind and options, the flags, our code and the
packages that compute the result.
"""

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from online.evaluation.replay.candidate_specs import CandidateSpec
from online.evaluation.replay.model_setup import prepare_process
from online.evaluation.replay.replay import Replay, ScoredSpan
from online.evaluation.replay.replay_report import ReplayReport
from online.evaluation.sources.replay_source import Source
from online.io.installation import hash_code, list_packages
from online.models import find_named_code, spec_of
from online.models.operator_code import import_own_module
from online.schemas.json_values import JSONObject
from online.scoring.score import Loss


@dataclass(frozen=True, slots=True)
class LossArrays:
    """The losses of N outcomes, in order; NaN if the model was not judged by an outcome."""

    offsets_N: NDArray[np.int64]
    losses_N: NDArray[np.float64]

    @classmethod
    def of(cls, losses: Sequence[Loss]) -> "LossArrays":
        """Return losses as arrays."""
        values = [np.nan if loss is None else loss for _, loss in losses]
        return cls(np.array([offset for offset, _ in losses], np.int64), np.array(values, np.float64))

    def part(self, start: int, stop: int) -> list[Loss]:
        """Return a range of the losses."""
        values = self.losses_N[start:stop]
        losses = [None if missing else value for missing, value in zip(np.isnan(values), values.tolist(), strict=True)]
        return list(zip(self.offsets_N[start:stop].tolist(), losses, strict=True))


@dataclass(frozen=True, slots=True)
class CachedResult:
    """The stored result of a job."""

    report: ReplayReport
    losses: LossArrays


@dataclass(frozen=True, slots=True)
class ReplayJob:
    """One model over one log. content: identifies what the log holds, see `identify_content`."""

    source: Source
    content: str
    candidate: CandidateSpec
    span: ScoredSpan

    def run(self) -> CachedResult:
        """Replay the log. Raises BadInput and ValueError as `Replay` does."""
        prepare_process()
        replay = Replay(self.source, self.candidate, self.span, self.source.reads.max_bad_ratio)
        losses = LossArrays.of(list(replay.losses()))
        return CachedResult(drop_held_out(replay.report()), losses)

    def of(self) -> JSONObject:
        """Return everything that decides the result; the model's name does not."""
        model = {name: value for name, value in asdict(self.candidate).items() if name != "name"}
        how = {"reads": asdict(self.source.reads), "span": asdict(self.span), "model": model}
        own = hash_own_code({spec_of(self.candidate.kind).path, *find_named_code(self.candidate.options)})
        return {"log": self.content, **how, "code": hash_code(), "own_code": own, "packages": list_packages()}

    @property
    def name(self) -> str:
        """The name of the candidate, by default its kind."""
        return self.candidate.name or self.candidate.kind

    @property
    def key(self) -> str:
        """The hash that identifies the job."""
        return compute_sha256(serialize_canonically(self.of()))


def identify_content(source: Source) -> str:
    """Return a checksum of the file, or the name of a dataset that a package holds."""
    if source.path is None:
        return source.name
    with open(source.path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def hash_own_code(paths: Iterable[str]) -> dict[str, str]:
    """Return the sha256 of each module that the operator names, by its import path. Not that of what it imports itself."""
    return {path: hash_module(path) for path in sorted(paths)}


def hash_module(path: str) -> str:
    """Return the sha256 of the module in an import path; "" if there is none, since an option's text can look like a path."""
    try:
        origin = getattr(import_own_module(path.partition(":")[0], path), "__file__", None)
    except ValueError:
        origin = None
    return hashlib.sha256(Path(origin).read_bytes()).hexdigest() if origin else ""


def serialize_canonically(value: object) -> bytes:
    """Return a value as JSON with sorted names."""
    return json.dumps(value, sort_keys=True, default=str).encode()


def compute_sha256(data: bytes) -> str:
    """Return the SHA-256 in hex."""
    return hashlib.sha256(data).hexdigest()


def drop_held_out(report: ReplayReport) -> ReplayReport:
    """Return the report without the held-out rows, which the log holds."""
    return report if report.tasks is None else replace(report, tasks=replace(report.tasks, held=[]))

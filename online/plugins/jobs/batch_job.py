"""One batch prediction job: an input file -> the answers of one version, in shards, in the input's order.

    input --rows--> Batch (encoded) --answered--> .prediction.results-00000-of-00004.part ... --finish--> renamed
                      |                            ^ truncated to what .progress.json says, after a kill
                      \\--rows that cannot be answered--> .prediction.errors_stats-00000-of-00001.part

The folder of the results holds everything about a job: `job.json` says what the job is, and
`.progress.json` how many rows are done and how long the parts were then. The same job, begun again,
continues after the last row that is known to be on the disk. Batches begin at fixed rows and are
answered one at a time, so the files are the same byte for byte, whatever was killed.
"""

import hashlib
import json
import os
import time
from bisect import bisect_right
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import IO, Literal

from online.errors import BadInput, Conflict, NotFound
from online.io.atomic import sync_folder
from online.io.records import suffix_of
from online.models import Encoder
from online.models.contract import Options
from online.plugins.jobs.batch_files import (
    Check,
    file_stamp,
    lock_results,
    replace_durably,
    reporting_disk_errors,
    sha256_of,
)
from online.plugins.jobs.batch_rows import (
    BatchRowReader,
    DirectReader,
    RowBatch,
    RowsRequest,
    encode_rows,
)
from online.plugins.jobs.row_answers import BATCH_ROWS, Outcome, RowError, render_line, render_rows
from online.schemas.json_values import JSON, JSONObject
from online.snapshots import Snapshots
from online.snapshots.labels import LabelTarget
from online.snapshots.manifest import Manifest

MAX_SHARDS = 100
READ_HERE = DirectReader()
DURABLE_EVERY_S = 0.25  # a kill loses at most the work of this time
MAX_CAUSES = 3  # causes that an error names
INVALID_ARGUMENT = 3  # google.rpc.Code, as Vertex AI writes it
FORMATS: Mapping[str, str] = {".csv": "csv", ".parquet": "parquet"}

Format = Literal["", "jsonl", "csv", "parquet"]
Pin = Callable[[str, str], Manifest]


@dataclass(frozen=True, slots=True)
class JobSpec:
    """The specification of a job, which decides every byte of the results together with the content of the input.

    version: a number or a label. key: a field of the input that is written instead of the instance
    and is not part of it; "" for none.
    """

    input: Path
    output: Path
    model: str
    version: str = "latest"
    key: str = ""
    format: Format = ""
    shards: int = 4

    @property
    def label(self) -> str:
        """Label by which the version is kept until the job has ended; the same for the same folder."""
        return f"job_{hashlib.sha256(str(self.output).encode()).hexdigest()[:12]}"

    def as_json(self) -> JSONObject:
        """Return the job as JSON values."""
        return {**asdict(self), "input": str(self.input), "output": str(self.output)}


@dataclass(slots=True)
class JobCounts:
    """rows: in the input. done: rows written, counted from the first; results + errors = done."""

    rows: int = 0
    done: int = 0
    results: int = 0
    errors: int = 0


@dataclass(slots=True)
class WrittenParts:
    """sizes: bytes of every part, by name."""

    counts: JobCounts
    sizes: dict[str, int] = field(default_factory=dict)


class BatchJob:
    """A job that holds the lock of its folder until it is closed. For one thread at a time."""

    def __init__(
        self,
        spec: JobSpec,
        input_options: Options,
        max_bad_ratio: float,
        pin: Pin,
        check: Check = lambda: None,
        reader: BatchRowReader = READ_HERE,
    ) -> None:
        """Begin a job, or continue it.

        input_options: what the model reads (input, size). pin: gives the version of this name a
        label and returns its manifest. check: called while the input is read, which may take long;
        it raises to end the job. reader: reads the rows of the input. Raises Conflict if the folder is another job's, or the input has
        changed; BadInput if the input cannot be read; Unavailable if the folder cannot be written.
        """
        self.spec, self.max_bad_ratio, self.check, self.reader = spec, max_bad_ratio, check, reader
        format = spec.format or FORMATS.get(suffix_of(spec.input), "jsonl")
        self.rows_request = RowsRequest(spec.input, format, spec.key, input_options["input"])
        self.names = [f"prediction.results-{n:05d}-of-{spec.shards:05d}" for n in range(spec.shards)]
        self.errors_name = "prediction.errors_stats-00000-of-00001"
        self._files: dict[str, IO[bytes]] = {}
        self._causes: list[str] = []
        self._committed_at = 0.0
        self._input_stamp = file_stamp(spec.input)
        with reporting_disk_errors():
            spec.output.mkdir(parents=True, exist_ok=True)
            self._lock = lock_results(spec.output)
        try:
            self._begin(pin)
        except BaseException:
            self.close()
            raise

    def _begin(self, pin: Pin) -> None:
        content = sha256_of(self.spec.input, self.check)
        record = self._read_record() or self._create_record(content, pin)
        self._check_same(record, content)
        self.record, self.version, self.done = record, int(record["version"]), bool(record["done"])
        self._shard_starts = [n * record["rows"] // self.spec.shards for n in range(self.spec.shards)]
        if self.done:
            self.progress = WrittenParts(JobCounts(**record["counts"]))
            return
        if pin(self.spec.label, str(self.version)).weights_sha256 != record["weights_sha256"]:
            raise Conflict(f"version {self.version} of {self.spec.model} is not the one that the job began with")
        self.progress = self._read_progress(record["rows"])
        with reporting_disk_errors():
            self._open_parts()

    @property
    def counts(self) -> JobCounts:
        """The counts of the rows written."""
        return self.progress.counts

    # the record of the job, job.json

    def _create_record(self, content: str, pin: Pin) -> JSONObject:
        self._check_empty()
        rows = self.reader.count(self.rows_request, self.check)
        if not rows:
            raise BadInput(f"{self.spec.input.name} holds no rows")
        manifest = pin(self.spec.label, self.spec.version)
        record = {
            "spec": self.spec.as_json(),
            "version": manifest.version,
            "weights_sha256": manifest.weights_sha256,
            "input_sha256": content,
            "rows": rows,
            "done": False,
        }
        self._write_record(record)
        return record

    def _read_record(self) -> JSONObject | None:
        try:
            record: JSONObject = json.loads((self.spec.output / "job.json").read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValueError):
            raise Conflict("the job.json of this folder is damaged; choose another folder") from None
        return record

    def _write_record(self, record: Mapping[str, object]) -> None:
        with reporting_disk_errors():
            replace_durably(self.spec.output / "job.json", json.dumps(record, indent=1).encode())

    def _check_empty(self) -> None:
        with reporting_disk_errors():
            foreign = sorted({path.name for path in self.spec.output.iterdir()} - {".job.json.new"})  # left by a kill
        if foreign:
            raise Conflict(f"the folder for the results is not empty, it holds {foreign[0]}; choose another")

    def _check_same(self, record: Mapping[str, JSON], content: str) -> None:
        for name, value in self.spec.as_json().items():
            before = record["spec"].get(name)
            if before != value:
                raise Conflict(
                    f"the folder holds a job with another {name} ({before!r}, not {value!r}); choose another"
                )
        if record["input_sha256"] != content:
            raise Conflict(f"{self.spec.input.name} has changed since the job began; choose another folder for it")

    def _read_progress(self, rows: int) -> WrittenParts:
        try:
            progress = json.loads((self.spec.output / ".progress.json").read_bytes())
        except FileNotFoundError:
            return WrittenParts(JobCounts(rows))
        except (OSError, ValueError):
            raise Conflict("the progress of this job is damaged; choose another folder") from None
        return WrittenParts(JobCounts(**progress["counts"]), progress["sizes"])

    # the rows

    def batches(self, encoder: Encoder) -> Generator[RowBatch, None, None]:
        """Yield what is still to be answered. Raises BadInput if the input cannot be read on."""
        self._committed_at = time.monotonic()
        with closing(self.reader.read(self.rows_request, self.check)) as rows:
            left = islice(rows, self.counts.done, self.counts.rows)
            while chunk := list(islice(left, BATCH_ROWS)):
                yield encode_rows(encoder, chunk)

    # the parts, which become the results

    def _part(self, name: str) -> Path:
        return self.spec.output / f".{name}.part"

    def _open_parts(self) -> None:
        """Open the parts, truncated to the sizes that were committed."""
        if self.counts.done == self.counts.rows:  # some may have been renamed already
            return
        for name in [*self.names, self.errors_name]:
            path, size = self._part(name), self.progress.sizes.get(name, 0)
            if size and (not path.exists() or path.stat().st_size < size):
                raise Conflict("the unfinished results of this job are damaged; choose another folder")
            file = self._files[name] = open(path, "ab")
            file.truncate(size)

    def write(self, batch: RowBatch, predictions: Sequence[object]) -> None:
        """Write a batch. predictions: of the rows without a cause. Raises as `write_outcomes` does."""
        self.write_outcomes(render_rows(batch, predictions, bool(self.spec.key)))

    def write_outcomes(self, outcomes: Sequence[Outcome]) -> None:
        """Write what became of the next rows. Raises BadInput if more rows than max_bad_ratio allows cannot be answered."""
        with reporting_disk_errors():
            for outcome in outcomes:
                if isinstance(outcome, RowError):
                    self._write_error(outcome)
                else:
                    self._write_result(outcome)
                self.counts.done += 1
        self._check_errors()
        if time.monotonic() - self._committed_at > DURABLE_EVERY_S:
            self.commit()

    def _write_result(self, line: bytes) -> None:
        shard = self.names[bisect_right(self._shard_starts, self.counts.done) - 1]
        self._files[shard].write(line)
        self.counts.results += 1

    def _write_error(self, row: RowError) -> None:
        error = {"code": INVALID_ARGUMENT, "message": row.cause}
        self._files[self.errors_name].write(render_line({"line": row.line, "error": error}))
        if len(self._causes) < MAX_CAUSES:
            self._causes.append(f"line {row.line}: {row.cause}")
        self.counts.errors += 1

    def _check_errors(self) -> None:
        counts = self.counts
        if counts.errors > self.max_bad_ratio * counts.rows:
            causes = f": {'; '.join(self._causes)}" if self._causes else ""
            raise BadInput(
                f"{counts.errors:,} of {counts.rows:,} rows cannot be answered, more than max_bad_ratio "
                f"({self.max_bad_ratio:g}) allows{causes}"
            )

    def commit(self) -> None:
        """Wait until the parts are on the disk, then record their sizes."""
        with reporting_disk_errors():
            for name, file in self._files.items():
                size = file.tell()
                if size != self.progress.sizes.get(name, 0):
                    file.flush()
                    os.fsync(file.fileno())
                    self.progress.sizes[name] = size
            replace_durably(self.spec.output / ".progress.json", json.dumps(asdict(self.progress)).encode())
        self._committed_at = time.monotonic()

    def finish(self) -> None:
        """Give the results their names. Raises Conflict if the input has changed meanwhile."""
        self._check_errors()
        if file_stamp(self.spec.input) != self._input_stamp or self.counts.done != self.counts.rows:
            raise Conflict(f"{self.spec.input.name} has changed while the job ran; choose another folder for it")
        with reporting_disk_errors():
            if self._files:
                self.commit()
            for name in [*self.names, self.errors_name]:
                with suppress(FileNotFoundError):  # renamed before a kill
                    os.rename(self._part(name), self.spec.output / name)
            sync_folder(self.spec.output)
            self._write_record({**self.record, "done": True, "counts": asdict(self.counts)})
            (self.spec.output / ".progress.json").unlink(missing_ok=True)
        self.done = True

    def discard(self) -> None:
        """Delete everything of an unfinished job, so that another can use the folder."""
        for name in [*self.names, self.errors_name]:
            self._part(name).unlink(missing_ok=True)
        for name in (".progress.json", "job.json"):
            (self.spec.output / name).unlink(missing_ok=True)

    def close(self) -> None:
        """Close the files of the job."""
        for file in self._files.values():
            with suppress(OSError):  # a full disk, which was reported when it was met
                file.close()
        os.close(self._lock)


def pin_version(snapshots: Snapshots) -> Pin:
    """Return a function that gives a version a label, so that it is not pruned."""
    return lambda label, version: snapshots.labels.set(label, LabelTarget(snapshots.labels.resolve(version)))


def unpin_version(snapshots: Snapshots, spec: JobSpec) -> None:
    """Delete the label that kept the version of a job."""
    with suppress(NotFound):
        snapshots.labels.delete(spec.label)

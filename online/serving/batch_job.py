"""One batch prediction job: an input file -> the answers of one version, in shards, in the input's order.

    input --rows--> Batch (encoded) --whoever answers--> .prediction.results-00000-of-00004.part ...  --all whole--> renamed
                      |                                   ^ cut to what .progress.json says, after a kill
                      \\--a row that cannot be answered--> .prediction.errors_stats-00000-of-00001.part

The folder is the whole memory of a job: `job.json` says what it is of, `.progress.json` how many rows are done and how
long the parts were then. So the same job, begun again, goes on behind the last row that it knows to be on disk. Batches begin
at fixed rows whatever was killed, and are answered alone: the files come out the same, byte for byte.
"""

import csv
import fcntl
import hashlib
import json
import os
import time
from bisect import bisect_right
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import IO, Any, Literal, TypeVar

import orjson

from online.errors import BadInput, Conflict, NotFound, Unavailable
from online.files import (
    number_or_text,
    parquet_file,
    parquet_records,
    plain,
    reading,
    reading_bytes,
    suffix_of,
)
from online.models import Encoder
from online.snapshots import Labelled, Manifest, Snapshots, sync_folder, write

BATCH = 32  # rows that are answered together: as long as a person may have to wait for a job
MAX_SHARDS = 100
DURABLE_EVERY_S = 0.25  # what is lost to a kill, at most, is the work of so long
CAUSES_TOLD = 3
CHECKED_EVERY = 1_024  # rows
PIECE_BYTES = 1 << 20
INVALID = 3  # google.rpc.Code, as Vertex writes it
FORMATS: Mapping[str, str] = {".csv": "csv", ".parquet": "parquet"}

T = TypeVar("T")

Format = Literal["", "jsonl", "csv", "parquet"]
Pin = Callable[[str, str], Manifest]
Check = Callable[[], None]


@dataclass(frozen=True, slots=True)
class JobSpec:
    """What decides every byte of the results, beside what the input holds.

    version: a number or a label. key: the field that is told instead of the instance, and is no part of it.
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
        """Of the version, for as long as the job has not ended, so that it is kept: the same for the same folder."""
        return f"job_{hashlib.sha256(str(self.output).encode()).hexdigest()[:12]}"

    def told(self) -> dict[str, Any]:
        return {**asdict(self), "input": str(self.input), "output": str(self.output)}


@dataclass(slots=True)
class Counts:
    """rows: in the input. done: those of the first that are written; of them results, and errors."""

    rows: int = 0
    done: int = 0
    results: int = 0
    errors: int = 0


@dataclass(frozen=True, slots=True)
class Row:
    """line: where it stands. cause: why it cannot be answered."""

    line: int
    instance: Any = None
    key: Any = None
    cause: str | None = None


@dataclass(frozen=True, slots=True)
class Batch:
    """inputs: of the rows without a cause, in their order."""

    rows: Sequence[Row]
    inputs: Sequence[bytes]


@dataclass(slots=True)
class Progress:
    """sizes: of every part, by its name."""

    counts: Counts
    sizes: dict[str, int] = field(default_factory=dict)


class BatchJob:
    """A job whose folder is ours alone, until it is closed. Its methods may be called by one thread at a time."""

    def __init__(
        self,
        spec: JobSpec,
        reads: Mapping[str, Any],
        max_bad_ratio: float,
        pin: Pin,
        check: Check = lambda: None,
    ) -> None:
        """Begin it, or take it up where it was left.

        reads: what the model reads (input, size). pin: (label, version as it is named) -> that version, which has the label.
        check: called now and then while the input is read, which may take long; what it raises ends that.
        Raises Conflict where the folder is another job's, or the input has changed since; BadInput for an input that cannot
        be read; Unavailable where the folder cannot be written.
        """
        self.spec, self.reads, self.max_bad_ratio, self.check = spec, reads, max_bad_ratio, check
        self.format = spec.format or FORMATS.get(suffix_of(spec.input), "jsonl")
        self.names = [f"prediction.results-{n:05d}-of-{spec.shards:05d}" for n in range(spec.shards)]
        self.errors_name = "prediction.errors_stats-00000-of-00001"
        self._files: dict[str, IO[bytes]] = {}
        self._causes: list[str] = []
        self._committed_at = 0.0
        self._looked = seen(spec.input)
        with written():
            spec.output.mkdir(parents=True, exist_ok=True)
            self._lock = locked(spec.output)
        try:
            self._begin(pin)
        except BaseException:
            self.close()
            raise

    def _begin(self, pin: Pin) -> None:
        content = sha256_of(self.spec.input, self.check)
        told = self._told()
        if told is None:
            self._check_empty()
            rows = count_rows(self.spec.input, self.format, self.check)
            if not rows:
                raise BadInput(f"{self.spec.input.name} holds no rows")
            manifest = pin(self.spec.label, self.spec.version)
            told = {
                "spec": self.spec.told(),
                "version": manifest.version,
                "weights_sha256": manifest.weights_sha256,
                "input_sha256": content,
                "rows": rows,
                "done": False,
            }
            self._tell(told)
        self._check_same(told, content)
        self.told, self.version, self.done = told, int(told["version"]), bool(told["done"])
        self._starts = [n * told["rows"] // self.spec.shards for n in range(self.spec.shards)]
        if self.done:
            self.progress = Progress(Counts(**told["counts"]))
            return
        if pin(self.spec.label, str(self.version)).weights_sha256 != told["weights_sha256"]:
            raise Conflict(f"version {self.version} of {self.spec.model} is not the one that the job began with")
        self.progress = self._known(told["rows"])
        with written():
            self._open_parts()

    # what is known of it

    @property
    def counts(self) -> Counts:
        return self.progress.counts

    def _told(self) -> dict[str, Any] | None:
        try:
            told: dict[str, Any] = json.loads((self.spec.output / "job.json").read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValueError):
            raise Conflict("the job.json of this folder is damaged; choose another folder") from None
        return told

    def _tell(self, told: Mapping[str, Any]) -> None:
        with written():
            put(self.spec.output / "job.json", json.dumps(told, indent=1).encode())

    def _check_empty(self) -> None:
        with written():
            foreign = sorted({path.name for path in self.spec.output.iterdir()} - {".job.json.new"})  # a kill's
        if foreign:
            raise Conflict(f"the folder for the results is not empty, it holds {foreign[0]}; choose another")

    def _check_same(self, told: Mapping[str, Any], content: str) -> None:
        for name, value in self.spec.told().items():
            if told["spec"].get(name) != value:
                was = told["spec"].get(name)
                raise Conflict(f"the folder holds a job with another {name} ({was!r}, not {value!r}); choose another")
        if told["input_sha256"] != content:
            raise Conflict(f"{self.spec.input.name} has changed since the job began; choose another folder for it")

    def _known(self, rows: int) -> Progress:
        try:
            known = json.loads((self.spec.output / ".progress.json").read_bytes())
        except FileNotFoundError:
            return Progress(Counts(rows))
        except (OSError, ValueError):
            raise Conflict("the progress of this job is damaged; choose another folder") from None
        return Progress(Counts(**known["counts"]), known["sizes"])

    # the parts

    def _part(self, name: str) -> Path:
        return self.spec.output / f".{name}.part"

    def _open_parts(self) -> None:
        """Cut to what is known to be whole."""
        if self.counts.done == self.counts.rows:  # some may have been renamed already
            return
        for name in [*self.names, self.errors_name]:
            path, size = self._part(name), self.progress.sizes.get(name, 0)
            if size and (not path.exists() or path.stat().st_size < size):
                raise Conflict("the unfinished results of this job are damaged; choose another folder")
            file = self._files[name] = open(path, "ab")
            file.truncate(size)

    def batches(self, encoder: Encoder) -> Generator[Batch, None, None]:
        """What is still to be answered. Raises BadInput where the input cannot be read on."""
        self._committed_at = time.monotonic()
        rows = checked(records(self.spec.input, self.format), self.check)
        rows = islice(rows, self.counts.done, self.counts.rows)
        while chunk := list(islice(rows, BATCH)):
            made = [encoded(encoder, self._row(line, record)) for line, record in chunk]
            yield Batch([row for row, _ in made], [features for _, features in made if features is not None])

    def _row(self, line: int, record: Any) -> Row:
        if isinstance(record, Unreadable):
            return Row(line, cause=record.cause)
        try:
            return Row(line, *self._instance(record))
        except ValueError as error:
            return Row(line, cause=str(error))

    def _instance(self, record: Any) -> tuple[Any, Any]:
        """(the instance, its key). Raises ValueError."""
        key, wanted = None, self.spec.key
        if wanted:
            if not isinstance(record, dict) or record.get(wanted) is None:
                raise ValueError(f"it has no {wanted!r}, the field of the key")
            key = record[wanted] if isinstance(record[wanted], (str, int, float)) else str(record[wanted])
            record = {name: value for name, value in record.items() if name != wanted}
        return as_instance(record, self.reads["input"], self.format), key

    def write(self, batch: Batch, predictions: Sequence[Any]) -> None:
        """predictions: of the rows without a cause. Raises BadInput where more rows cannot be answered than are borne."""
        counts, answers = self.counts, iter(predictions)
        with written():
            for row in batch.rows:
                if row.cause is None:
                    about = {"key": row.key} if self.spec.key else {"instance": row.instance}
                    self._append(
                        self.names[bisect_right(self._starts, counts.done) - 1], {**about, "prediction": next(answers)}
                    )
                    counts.results += 1
                else:
                    self._append(self.errors_name, {"line": row.line, "error": {"code": INVALID, "message": row.cause}})
                    self._causes += [f"line {row.line}: {row.cause}"] if len(self._causes) < CAUSES_TOLD else []
                    counts.errors += 1
                counts.done += 1
        self._check_errors()
        if time.monotonic() - self._committed_at > DURABLE_EVERY_S:
            self.commit()

    def _append(self, name: str, line: Mapping[str, Any]) -> None:
        self._files[name].write(orjson.dumps(line, default=str) + b"\n")

    def _check_errors(self) -> None:
        counts = self.counts
        if counts.errors > self.max_bad_ratio * counts.rows:
            first = f": {'; '.join(self._causes)}" if self._causes else ""
            raise BadInput(
                f"{counts.errors:,} of {counts.rows:,} rows cannot be answered, more than max_bad_ratio "
                f"({self.max_bad_ratio:g}) bears{first}"
            )

    def commit(self) -> None:
        """Have on disk what was done, then the word that it was."""
        with written():
            for name, file in self._files.items():
                size = file.tell()
                if size != self.progress.sizes.get(name, 0):
                    file.flush()
                    os.fsync(file.fileno())
                    self.progress.sizes[name] = size
            put(self.spec.output / ".progress.json", json.dumps(asdict(self.progress)).encode())
        self._committed_at = time.monotonic()

    def finish(self) -> None:
        """Put the results in place. Raises Conflict where the input has changed meanwhile."""
        self._check_errors()
        if seen(self.spec.input) != self._looked or self.counts.done != self.counts.rows:
            raise Conflict(f"{self.spec.input.name} has changed while the job ran; choose another folder for it")
        with written():
            if self._files:
                self.commit()
            for name in [*self.names, self.errors_name]:
                with suppress(FileNotFoundError):  # renamed before a kill
                    os.rename(self._part(name), self.spec.output / name)
            sync_folder(self.spec.output)
            self._tell({**self.told, "done": True, "counts": asdict(self.counts)})
            (self.spec.output / ".progress.json").unlink(missing_ok=True)
        self.done = True

    def discard(self) -> None:
        """Leave nothing of an unfinished job, so that another may have the folder."""
        for name in [*self.names, self.errors_name]:
            self._part(name).unlink(missing_ok=True)
        for name in (".progress.json", "job.json"):
            (self.spec.output / name).unlink(missing_ok=True)

    def close(self) -> None:
        for file in self._files.values():
            with suppress(OSError):  # a full disk, which was told where it was met
                file.close()
        os.close(self._lock)


# versions


def pinning(snapshots: Snapshots) -> Pin:
    """Gives a version a label, so that it is kept."""
    return lambda label, version: snapshots.set_label(label, Labelled(snapshots.number_of(version)))


def let_go(snapshots: Snapshots, spec: JobSpec) -> None:
    with suppress(NotFound):
        snapshots.drop_label(spec.label)


# rows


@dataclass(frozen=True, slots=True)
class Unreadable:
    cause: str


def records(path: Path, format: str) -> Iterator[tuple[int, Any]]:
    """(its line, what stands there) of every row. Raises BadInput where it cannot be read on."""
    match format:
        case "parquet":
            yield from enumerate(parquet_records(path, parquet_file(path)), 1)
        case "csv":
            with reading(path) as (file, _):
                rows = csv.DictReader(file)
                for row in rows:
                    yield (
                        rows.line_num,
                        row if None not in row else Unreadable("it has more cells than the header names"),
                    )
        case _:
            with reading_bytes(path) as (lines, _):
                for number, line in enumerate(lines, 1):
                    if number == 1:
                        line = line.removeprefix(b"\xef\xbb\xbf")
                    if line.strip():
                        yield number, line_of(line)


def line_of(line: bytes) -> Any:
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError as error:
        return Unreadable(f"it is not JSON: {error.msg}, at character {error.pos + 1}")


def checked(rows: Iterable[T], check: Check) -> Iterator[T]:
    for number, row in enumerate(rows):
        if number % CHECKED_EVERY == 0:
            check()
        yield row


def count_rows(path: Path, format: str, check: Check) -> int:
    """Raises BadInput where it cannot be read to its end."""
    match format:
        case "parquet":
            return int(parquet_file(path).metadata.num_rows)
        case "csv":
            return sum(1 for _ in checked(records(path, format), check))
        case _:
            with reading_bytes(path) as (lines, _):
                return sum(1 for line in checked(lines, check) if line.strip())


def as_instance(record: Any, input: str, format: str) -> Any:
    """What a model takes, of a row: of a table an object, of a text or a vector also what an object of columns means by it.

    Raises ValueError.
    """
    if not isinstance(record, dict):
        return record
    cells = {name: value for name, value in record.items() if value not in (None, "")}
    if input == "text":
        return cells["text"] if "text" in cells else only(cells)
    if format == "csv":
        cells = {name: number_or_text(value) for name, value in cells.items()}
    if format == "parquet" and input == "table":
        cells = {name: plain(value) for name, value in cells.items()}
    if input == "table":
        return cells
    values = list(cells.values())
    return values[0] if len(values) == 1 and isinstance(values[0], list) else values


def only(cells: Mapping[str, Any]) -> Any:
    if len(cells) != 1:
        raise ValueError(f"it has no field 'text', and {len(cells)} others; name the text so")
    return next(iter(cells.values()))


def encoded(encoder: Encoder, row: Row) -> tuple[Row, bytes | None]:
    """The row with its input, or with the cause why there is none."""
    if row.cause is not None:
        return row, None
    try:
        return row, encoder.encode([row.instance])[0]
    except ValueError as error:
        return Row(row.line, cause=f"it {str(error).removeprefix('instance 0 ')}"), None


# files


@contextmanager
def written() -> Iterator[None]:
    """Raises Unavailable for what the disk does not take."""
    try:
        yield
    except OSError as error:
        raise Unavailable(
            f"the results cannot be written: {error.strerror}; what is done is kept, the same job again goes on from there"
        ) from None


def locked(folder: Path) -> int:
    """Nobody else works in the folder for as long as this is open. Raises Conflict."""
    end = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(end, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(end)
        raise Conflict("another job is at work in the folder for the results") from None
    return end


def put(path: Path, data: bytes) -> None:
    """Whole or not at all, and on disk."""
    aside = path.with_name(f".{path.name}.new")
    write(aside, data, durable=True)
    os.replace(aside, path)
    sync_folder(path.parent)


def seen(path: Path) -> tuple[int, int, int]:
    """What changes when a file does. Raises BadInput."""
    try:
        found = path.stat()
    except OSError as error:
        raise BadInput(f"{path.name} cannot be read: {error.strerror}") from None
    return found.st_ino, found.st_size, found.st_mtime_ns


def sha256_of(path: Path, check: Check) -> str:
    digest = hashlib.sha256()
    try:
        with open(path, "rb") as file:
            while piece := file.read(PIECE_BYTES):
                check()
                digest.update(piece)
        return digest.hexdigest()
    except OSError as error:
        raise BadInput(f"{path.name} cannot be read: {error.strerror}") from None

"""Answers rows by one version, as lines of the results: in this process, or in the workers of a pool.

    rows --parse, encode--> RowBatch --model--> answers --render--> a line of JSON for each row, or an error

Rows are answered in batches that begin at fixed rows, so that the lines are the same bytes wherever they are made.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import orjson

from online.io.cache import cache_folder
from online.learning.shares import pack_state, unpack_state
from online.models import Answer, Encoder, Options, admit_all, create, encoder_options, spec_of
from online.models.contract import State
from online.models.encoders.factory import create_encoder
from online.plugins.jobs.batch_rows import RowBatch, RowsRequest, SourceRow, encode_rows, parse_row
from online.serving.answers import render_answer

BATCH_ROWS = 32  # rows answered together; an interactive request may have to wait for one batch


@dataclass(frozen=True, slots=True)
class RowError:
    """A row that cannot be answered. line: its place in the file."""

    line: int
    cause: str


Outcome = bytes | RowError  # of a row: a line of the results, with its end


def render_rows(batch: RowBatch, predictions: Sequence[object], has_key: bool) -> list[Outcome]:
    """Return the outcome of each row. predictions: of the rows without a cause. has_key: whether the key names a row."""
    remaining = iter(predictions)
    return [
        RowError(row.line, row.cause)
        if row.cause is not None
        else render_line(
            {"key": row.key, "prediction": next(remaining)}
            if has_key
            else {"instance": row.instance, "prediction": next(remaining)}
        )
        for row in batch.rows
    ]


def render_line(values: Mapping[str, object]) -> bytes:
    """Return values as a line of JSON."""
    return orjson.dumps(values, default=str, option=orjson.OPT_APPEND_NEWLINE)


@dataclass(frozen=True, slots=True)
class RowAnswerer:
    """Answers rows: a worker of a pool. predict: returns the answers to inputs. max_candidates: that an answer lists."""

    request: RowsRequest
    encoder: Encoder
    predict: Callable[[Sequence[bytes]], list[Answer]]
    kind: str
    max_candidates: int

    def __call__(self, rows: Sequence[SourceRow]) -> list[Outcome]:
        """Return the outcomes of rows, of which the first begins a batch."""
        found = list[Outcome]()
        for start in range(0, len(rows), BATCH_ROWS):
            parsed = [parse_row(self.request, row) for row in rows[start : start + BATCH_ROWS]]
            batch = encode_rows(self.encoder, parsed)
            answers = self.predict(batch.inputs) if batch.inputs else []
            rendered = [render_answer(self.kind, answer, self.max_candidates) for answer in answers]
            found += render_rows(batch, rendered, bool(self.request.key))
        return found


@dataclass(frozen=True, slots=True)
class VersionContent:
    """All that another process needs to answer as a version does. tuned: the file of its tuned text encoder."""

    kind: str
    options: Options
    state: bytes
    tuned: Path | None
    max_text_chars: int

    @classmethod
    def of(cls, kind: str, options: Options, state: State, tuned: Path | None, max_text_chars: int) -> "VersionContent":
        """Return the content of a version. state: its serving parts."""
        return cls(kind, dict(options), pack_state(state), tuned, max_text_chars)

    def create_answerer(self, request: RowsRequest, max_candidates: int) -> RowAnswerer:
        """Return what answers rows in this process."""
        admit_all([(self.kind, self.options)])
        model = create(self.kind, self.options)
        model.restore(unpack_state(self.state))
        read = encoder_options(self.kind, self.options)
        encoder = create_encoder(read, cache_folder(), 1, self.max_text_chars, self.tuned)
        return RowAnswerer(request, encoder, model.predict, self.kind, max_candidates)

    def prepare(self, request: RowsRequest, max_candidates: int) -> Callable[[], RowAnswerer]:
        """Return what creates a worker in any process."""
        return partial(self.create_answerer, request, max_candidates)


def list_modules(kind: str) -> tuple[str, ...]:
    """Return the modules that a worker imports: those that take long."""
    return __name__, spec_of(kind).path.partition(":")[0]

"""Copy the journal of predictions into the store, exactly once.

    segment --frames behind the position--> one transaction: predictions, turns, the new position --> COMMIT
    sealed, and copied to its end: the file is deleted after the commit

The position is a value in the same database, so it is what the rows are: both are there, or neither. Any process may copy at any
moment, also within a transaction that needs a prediction which is not copied yet.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import orjson
from sqlalchemy import Connection, delete, select, text

from online.journal import DamagedSegment, FrameRead, JournalFrame, JournalRow, Segment, list_segments, read_frames
from online.store.conversations import Turn, add_turns
from online.store.database.meta import META, save_value
from online.store.database.store import Store
from online.store.encoder_moves import encoder_of, hold_encoder
from online.store.predictions import PREDICTIONS, PredictionRow, add_predictions, load_predictions
from online.telemetry import log_event

log = logging.getLogger("online.journal")

CHUNK_BYTES = 1_000_000  # of a segment, read at once
COPIED_AT_ONCE = 2_000_000  # bytes, in one transaction
MAX_PARAMETERS = 1_000  # of one query
NUMBERS = msgspec.json.Decoder(list[float])
Encode = Callable[[str, str, Sequence[str]], list[bytes]]


@dataclass(slots=True)
class Copied:
    """What one transaction has copied. It is in the store once that is committed.

    rows: predictions. positions: of the segments that were read. finished: segments of which nothing is left to copy.
    is_complete: whether everything was copied that was written before. forgotten: deleted segments whose positions were deleted.
    """

    rows: int = 0
    positions: dict[str, int] = field(default_factory=dict)
    finished: list[Segment] = field(default_factory=list)
    is_complete: bool = True
    forgotten: list[str] = field(default_factory=list)


class JournalCopy:
    """Copies the segments of one folder."""

    def __init__(self, folder: Path, encode: Encode | None = None) -> None:
        """encode: (model, encoder, inputs as JSON) -> features, for predictions whose encoder was replaced meanwhile."""
        self.folder, self.encode = folder, encode
        self._positions: dict[str, int] = {}  # committed; only to see without a query that there is nothing new
        self._deleted: list[str] = []  # segments whose positions are to be deleted, after their files

    def has_new(self) -> bool:
        """Whether there is anything to copy, or to delete."""
        return any(
            segment.is_sealed or segment.size > self._positions.get(segment.name, 0)
            for segment in list_segments(self.folder)
        )

    def seal_all(self) -> None:
        """Let every process begin a new segment, so that what is written by now is deleted once it is copied."""
        for segment in list_segments(self.folder):
            with suppress(FileNotFoundError):
                segment.seal()

    def copy(self, connection: Connection, max_bytes: int | None = None) -> Copied:
        """Copy in the caller's transaction, the oldest first. max_bytes: about how much of the journal; None: all."""
        copied, left = Copied(forgotten=self._deleted), max_bytes
        if copied.forgotten:
            keys = [position_key(name) for name in copied.forgotten]
            connection.execute(delete(META).where(META.c.key.in_(keys)))
        for segment in list_segments(self.folder):
            if left is not None and left <= 0:
                copied.is_complete = False
                break
            left = self._copy_segment(connection, segment, copied, left)
        return copied

    def note_committed(self, copied: Copied) -> None:
        """Delete what was copied to its end. Call it after the commit; it does no harm to call it late, or never."""
        self._positions |= copied.positions
        self._deleted = [name for name in self._deleted if name not in copied.forgotten]
        for segment in copied.finished:
            segment.path.unlink(missing_ok=True)
            self._positions.pop(segment.name, None)
            self._deleted.append(segment.name)

    def _copy_segment(self, connection: Connection, segment: Segment, copied: Copied, left: int | None) -> int | None:
        """Copy what is new in a segment. left: bytes that may be read; returns those that still may."""
        position = begin = load_position(connection, segment.name)
        is_at_end = False
        while not is_at_end and (left is None or left > 0):
            frames = self._read(segment, position, CHUNK_BYTES if left is None else min(CHUNK_BYTES, left))
            is_at_end = not frames
            if frames:
                copied.rows += self._insert(connection, frames)
                left = None if left is None else left - (frames[-1].position - position)
                position = frames[-1].position
        if position > begin:
            save_value(connection, position_key(segment.name), str(position))
        copied.positions[segment.name] = position
        if is_at_end and segment.is_sealed:
            copied.finished.append(segment)
        copied.is_complete &= is_at_end
        return left

    def _read(self, segment: Segment, position: int, max_bytes: int) -> list[FrameRead]:
        """The next frames; none at the end, and none of what comes after damage."""
        frames = list[FrameRead]()
        try:
            frames.extend(read_frames(segment.path, position, max_bytes))
        except FileNotFoundError:  # another process has just copied the rest, and deleted it
            return []
        except DamagedSegment as error:
            if not frames:
                self._set_aside(segment, error)
        return frames

    def _set_aside(self, segment: Segment, error: DamagedSegment) -> None:
        """Keep a damaged segment for a person to look at; what comes before the damage is copied."""
        with suppress(FileNotFoundError):
            segment.seal()
            segment.path.rename(segment.path.with_suffix(".damaged"))
        log_event(
            log,
            "a segment of the journal is damaged: the predictions behind the damage are lost",
            logging.ERROR,
            segment=segment.name,
            reason=str(error),
        )

    def _insert(self, connection: Connection, frames: Sequence[FrameRead]) -> int:
        rows, turns = list[dict[str, Any]](), list[dict[str, Any]]()
        names = encoder_names(connection, {read.frame.model for read in frames})
        for frame in (read.frame for read in frames):
            new = find_new(connection, frame) if frame.is_repeated else frame.rows
            features = self._features(frame, new, names[frame.model])
            rows += (build_row(frame, row, encoded) for row, encoded in zip(new, features, strict=True))
            turns += build_turns(frame, new)
        add_predictions(connection, rows)
        for turn in turns:
            add_turns(connection, turn["model"], [turn])
        return len(rows)

    def _features(self, frame: JournalFrame, rows: Sequence[JournalRow], encoder: str) -> list[bytes]:
        """The features by the encoder of the store, which may have been replaced since the prediction."""
        if frame.encoder == encoder or not rows:
            return [number_features(row.input) if row.features is None else row.features for row in rows]
        assert self.encode is not None, "a copier of models whose encoders are tuned can encode"
        return self.encode(frame.model, encoder, [row.input.decode() for row in rows])


def copy_all(store: Store, journal: JournalCopy, is_sealing: bool = False) -> None:
    """Copy everything that is in the journal now. Raises Unavailable.

    is_sealing: also delete the segments, so that nothing that was recorded before is left in the journal.
    """
    if is_sealing:
        journal.seal_all()
    is_complete = not journal.has_new()
    while not is_complete:
        copied: Copied = store.submit(
            lambda connection: journal.copy(connection, COPIED_AT_ONCE), durable=False
        ).result()
        journal.note_committed(copied)
        is_complete = copied.is_complete


def load_predictions_with(
    connection: Connection, journal: JournalCopy, model: str, ids: Sequence[str]
) -> dict[str, PredictionRow]:
    """Id -> prediction, in a transaction that writes: those that are not copied yet are copied within it."""
    found = load_predictions(connection, model, ids)
    if len(found) < len({*ids}):
        journal.copy(connection)
        found = load_predictions(connection, model, ids)
    return found


def position_key(segment: str) -> str:
    return f"journal/{segment}"


def load_position(connection: Connection, segment: str) -> int:
    """How far a segment is copied, as long as the transaction lasts: no other transaction copies it meanwhile."""
    key = position_key(segment)
    if connection.dialect.name == "postgresql":  # SQLite has one writer at a time
        connection.execute(text("SELECT pg_advisory_xact_lock(hashtext(:key))"), {"key": f"online/{key}"})
    return int(connection.scalar(select(META.c.value).where(META.c.key == key)) or 0)


def encoder_names(connection: Connection, models: set[str]) -> dict[str, str]:
    """The encoder of the store's features by model, which stays the same until the transaction ends."""
    for model in sorted(models):
        hold_encoder(connection, model)
    return {model: encoder_of(connection, model) for model in models}


def find_new(connection: Connection, frame: JournalFrame) -> list[JournalRow]:
    """The predictions of a frame that are not in the store."""
    ids, known = [row.id for row in frame.rows], set[str]()
    for start in range(0, len(ids), MAX_PARAMETERS):
        page = PREDICTIONS.c.id.in_(ids[start : start + MAX_PARAMETERS])
        known.update(connection.scalars(select(PREDICTIONS.c.id).where(page)))
    return [row for row in frame.rows if row.id not in known]


def number_features(input: bytes) -> bytes:
    """The numbers of an input, as their encoder packs them."""
    return np.array(NUMBERS.decode(input), np.float64).tobytes()


def build_row(frame: JournalFrame, row: JournalRow, features: bytes) -> dict[str, Any]:
    """The row of the table `prediction`."""
    return {
        "id": row.id,
        "model": frame.model,
        "version": frame.version,
        "learned_until": frame.learned_until,
        "user": row.user,
        "input": row.input.decode(),
        "features": features,
        "choice": row.choice,
        "propensity": row.propensity,
        "candidates": orjson.dumps([[id, round(score, 6)] for id, score in row.candidates]).decode(),
        "created_at": frame.created_at,
    }


def build_turns(frame: JournalFrame, rows: Sequence[JournalRow]) -> Iterator[dict[str, Any]]:
    """A turn outside any conversation for each prediction that was to leave answers out."""
    for row in rows:
        if row.exclude:
            yield {"id": row.id, "model": frame.model, "user": row.user, "turn": Turn(None, "", tuple(row.exclude))}

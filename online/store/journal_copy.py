"""Copy the journal of predictions into the store, exactly once.

    segment --frames behind the position--> one transaction: predictions, turns, the new position --> COMMIT
    sealed, and copied to its end: the file is deleted after the commit, and then the position

The position is a value in the same database, so it is what the rows are: both are there, or neither. Any process may copy at any
moment, also within a transaction that needs a prediction which is not copied yet. What is read again all the same, because a
writer repeated it or because a backup brought a segment back, is recognized by the ids of its predictions.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import orjson
from sqlalchemy import Connection, delete, select, text
from sqlalchemy.exc import DataError, IntegrityError

from online.errors import Unavailable
from online.journal import (
    MAGIC,
    DamagedSegment,
    FrameRead,
    JournalFrame,
    JournalRow,
    Segment,
    list_segments,
    read_frames,
)
from online.store.conversations.conversations import add_turns
from online.store.conversations.turns import RequestedTurn
from online.store.database.meta import META, save_value
from online.store.database.store import Store
from online.store.deletion.retention import look_again_from
from online.store.encoder_moves import encoder_of, hold_encoder
from online.store.predictions import PREDICTIONS, PredictionRow, add_predictions, load_predictions
from online.telemetry import log_event

log = logging.getLogger("online.journal")

DAMAGED = ".damaged"  # ends the names of segments that were set aside
CHUNK_BYTES = 1_000_000  # of a segment, read at once
COPIED_AT_ONCE = 2_000_000  # bytes, in one transaction
MAX_PARAMETERS = 1_000  # of one query
ORPHANED_AFTER_S = 30 * 86_400  # the age of a segment whose position is of no use any more, wherever the segment was
IsErased = Callable[
    [str | None, str], bool
]  # of a user and an instant: whether what was recorded then is to be forgotten
Encode = Callable[[str, str, Sequence[str]], list[bytes]]


def is_kept_always(user: str | None, at: str) -> bool:
    """Leave out no prediction."""
    return False


@dataclass(slots=True)
class CopyCounts:
    """The counts of one transaction. The rows are in the store once it is committed.

    rows: predictions. positions: of the segments that were read. finished: segments of which nothing is left to copy.
    is_complete: whether everything was copied that was written before, as far as it can be read. forgotten: deleted segments
    whose positions were deleted. damaged, unreadable: segments, with the reason; of a damaged one all is copied that can be.
    """

    rows: int = 0
    positions: dict[str, int] = field(default_factory=dict)
    finished: list[Segment] = field(default_factory=list)
    is_complete: bool = True
    forgotten: list[str] = field(default_factory=list)
    damaged: list[tuple[Segment, str]] = field(default_factory=list)
    unreadable: dict[str, str] = field(default_factory=dict)


class JournalCopy:
    """Copies the segments of one folder. Several threads may use it."""

    def __init__(self, folder: Path, encode: Encode | None = None, is_erased: IsErased = is_kept_always) -> None:
        """encode: (model, encoder, inputs as JSON) -> features, for predictions whose encoder was replaced meanwhile.

        is_erased: which predictions are left out, because their user was erased while this replica was away.

        unreadable: segments, with the reason, when this was last tried.
        """
        self.folder, self.encode, self.is_erased = folder, encode, is_erased
        self.unreadable: dict[str, str] = {}
        self._lock = threading.Lock()  # of what is kept from one copy to the next
        self._positions: dict[str, int] = {}  # committed; only to see without a query that there is nothing new
        self._deleted: list[str] = []  # segments whose positions are to be deleted, after their files

    @property
    def has_deleted(self) -> bool:
        """Whether positions of deleted segments are still to be deleted."""
        return bool(self._deleted)

    def has_new(self) -> bool:
        """Return whether there is anything to copy, or to delete. A segment that cannot be read is tried again with the next one."""
        return self.has_deleted or any(
            segment.name not in self.unreadable
            and (segment.is_sealed or segment.size > self._positions.get(segment.name, len(MAGIC)))
            for segment in list_segments(self.folder)
        )

    def seal_all(self) -> None:
        """Let every process begin a new segment, so that what is written by now is deleted once it is copied."""
        for segment in list_segments(self.folder):
            with suppress(OSError):  # it is deleted, or another user's
                segment.seal()

    def copy(self, connection: Connection, max_bytes: int | None = None) -> CopyCounts:
        """Copy in the caller's transaction, the oldest first. max_bytes: about how much of the journal; None: all."""
        copied, left = CopyCounts(forgotten=[*self._deleted]), max_bytes
        if copied.forgotten:
            forget_positions(connection, copied.forgotten)
        for segment in list_segments(self.folder):
            if left is not None and left <= 0:
                copied.is_complete = False
                break
            left = self._copy_segment(connection, segment, copied, left)
        return copied

    def note_committed(self, copied: CopyCounts) -> None:
        """Delete what was copied to its end. Call it after the commit; it does no harm to call it late, or never."""
        with self._lock:
            self._deleted = [name for name in self._deleted if name not in copied.forgotten]
            for name in copied.unreadable.keys() - self.unreadable.keys():
                report("a segment of the journal cannot be read", name, copied.unreadable[name])
            self.unreadable, self._positions = copied.unreadable, copied.positions
            for segment, reason in copied.damaged:
                self._set_aside(segment, reason)
            for segment in copied.finished:
                self._delete(segment, copied.positions[segment.name])

    def forget_orphans(self, connection: Connection) -> None:
        """Delete the positions of old segments that do not exist: a process was killed between both deletions.

        Only a young one may be of another service on the same store, which still has the segment.
        """
        found = {segment.name for segment in list_segments(self.folder)}
        young = f"{time.time_ns() - ORPHANED_AFTER_S * 10**9:016x}"
        keys = connection.scalars(select(META.c.key).where(META.c.key.startswith(position_key(""))))
        names = [key.removeprefix(position_key("")) for key in keys]
        forget_positions(connection, [name for name in names if name < young and name not in found])

    def _copy_segment(
        self, connection: Connection, segment: Segment, copied: CopyCounts, left: int | None
    ) -> int | None:
        """Copy what is new in a segment. left: bytes that may be read; returns those that still may."""
        position = begin = load_position(connection, segment.name)
        is_at_end = False
        while not is_at_end and (left is None or left > 0):
            frames = self._read(segment, position, CHUNK_BYTES if left is None else min(CHUNK_BYTES, left), copied)
            is_at_end = not frames
            if frames:
                copied.rows += self._insert(connection, frames)
                left = None if left is None else left - (frames[-1].position - position)
                position = frames[-1].position
        if position > begin:
            save_value(connection, position_key(segment.name), str(position))
        copied.positions[segment.name] = max(position, len(MAGIC))
        is_whole = segment.name not in copied.unreadable and segment not in [each for each, _ in copied.damaged]
        if is_at_end and segment.is_sealed and is_whole:
            copied.finished.append(segment)
        copied.is_complete &= is_at_end
        return left

    def _read(self, segment: Segment, position: int, max_bytes: int, copied: CopyCounts) -> list[FrameRead]:
        """Return the next frames; none at the end, and none of what comes after damage."""
        frames = list[FrameRead]()
        try:
            frames.extend(read_frames(segment.path, position, max_bytes))
        except FileNotFoundError:  # another process has just copied the rest, and deleted it
            return []
        except DamagedSegment as error:
            if not frames:
                copied.damaged.append((segment, str(error)))
        except OSError as error:
            copied.unreadable[segment.name] = error.strerror or str(error)
        return frames

    def _set_aside(self, segment: Segment, reason: str) -> None:
        """Keep a damaged segment for a person to look at; what comes before the damage is copied."""
        with suppress(FileNotFoundError):
            segment.seal()
            segment.path.rename(segment.path.with_suffix(DAMAGED))
            self._deleted.append(segment.name)
            report(
                "a segment of the journal is damaged: the predictions behind the damage are lost", segment.name, reason
            )

    def _delete(self, segment: Segment, position: int) -> None:
        segment.path.unlink(missing_ok=True)
        self._deleted.append(segment.name)
        if segment.size > position:
            reason = f"its last {segment.size - position:,} bytes are no complete frame: their writer was killed"
            report("the end of a segment of the journal is ignored", segment.name, reason, logging.WARNING)

    def _insert(self, connection: Connection, frames: Sequence[FrameRead]) -> int:
        """Insert the predictions of frames; returns their number."""
        names = encoder_names(connection, {read.frame.model for read in frames})
        try:
            with connection.begin_nested():
                return self._insert_new(connection, frames, names, is_checked=False)
        except (IntegrityError, DataError):
            return self._insert_carefully(connection, frames, names)

    def _insert_carefully(self, connection: Connection, frames: Sequence[FrameRead], names: Mapping[str, str]) -> int:
        """After an error: leave out what is in the store, and what it does not take, so that all others are copied."""
        try:
            with connection.begin_nested():
                return self._insert_new(connection, frames, names, is_checked=True)
        except (IntegrityError, DataError) as error:
            if len(frames) == len(frames[0].frame.rows) == 1:
                row = frames[0].frame.rows[0]
                report(
                    "the store does not take a prediction, which is lost", row.id, str(error.orig), what="prediction"
                )
                return 0
        return sum(self._insert_carefully(connection, [single], names) for single in split(frames))

    def _insert_new(
        self, connection: Connection, frames: Sequence[FrameRead], names: Mapping[str, str], is_checked: bool
    ) -> int:
        """is_checked: whether any of the predictions may be in the store, not only the repeated ones."""
        rows, turns, seen = list[dict[str, Any]](), list[dict[str, Any]](), set[str]()
        for frame in (read.frame for read in frames):
            new = find_new(connection, frame, seen) if is_checked or frame.is_repeated else frame.rows
            new = [row for row in new if not self.is_erased(row.user, frame.created_at)]
            features = self._features(frame, new, names[frame.model])
            rows += (build_row(frame, row, encoded) for row, encoded in zip(new, features, strict=True))
            turns += build_turns(frame, new)
        if rows:
            add_predictions(connection, rows)
            look_again_from(connection, [row["id"] for row in rows])
        for turn in turns:
            add_turns(connection, turn["model"], [turn])
        return len(rows)

    def _features(self, frame: JournalFrame, rows: Sequence[JournalRow], encoder: str) -> list[bytes]:
        """Return the features by the encoder of the store, which may have been replaced since the prediction.

        Rows of numbers have none beside the numbers.
        """
        if frame.encoder == encoder or not rows:
            return [row.features or b"" for row in rows]
        assert self.encode is not None, "a copier of models whose encoders are tuned can encode"
        return self.encode(frame.model, encoder, [row.input.decode() for row in rows])


def copy_all(store: Store, journal: JournalCopy, is_sealing: bool = False) -> None:
    """Copy everything that is in the journal now. Raises Unavailable.

    is_sealing: also delete the segments, so that nothing that was recorded before is left in the journal. Then it raises
    Unavailable too if a segment cannot be read.
    """
    if is_sealing:
        journal.seal_all()
    is_complete = not journal.has_new()
    while not is_complete:
        copied: CopyCounts = store.submit(
            lambda connection: journal.copy(connection, COPIED_AT_ONCE), durable=False
        ).result()
        try:
            journal.note_committed(copied)
        except OSError as error:
            raise Unavailable(f"what was copied of the journal cannot be deleted: {error}") from error
        is_complete = copied.is_complete and not journal.has_deleted
    if is_sealing and journal.unreadable:
        name, reason = next(iter(journal.unreadable.items()))
        raise Unavailable(
            f"the segment {name} of the journal cannot be read ({reason}); make it readable, or move it away"
        )


def remove_damaged(folder: Path) -> None:
    """Delete the segments that were set aside: they hold words of users, and nothing else can be read from them."""
    for path in folder.glob(f"*{DAMAGED}"):
        path.unlink(missing_ok=True)


def report(event: str, name: str, reason: str, level: int = logging.ERROR, what: str = "segment") -> None:
    """Log a problem with a segment."""
    log_event(log, event, level, **{what: name, "reason": reason})


def split(frames: Sequence[FrameRead]) -> list[FrameRead]:
    """Return each frame by itself; the predictions of a single frame by themselves."""
    if len(frames) > 1:
        return list(frames)
    [read] = frames
    return [FrameRead(msgspec.structs.replace(read.frame, rows=[row]), read.position) for row in read.frame.rows]


def load_predictions_with(
    connection: Connection, journal: JournalCopy, model: str, ids: Sequence[str]
) -> dict[str, PredictionRow]:
    """Return id -> prediction, in a transaction that writes: those that are not copied yet are copied within it."""
    found = load_predictions(connection, model, ids)
    if len(found) < len({*ids}):
        journal.copy(connection, COPIED_AT_ONCE)  # not more: `Transactions.with_predictions` copies a longer journal
        found = load_predictions(connection, model, ids)
    return found


def position_key(segment: str) -> str:
    """Return the key under which the position in a segment is kept."""
    return f"journal/{segment}"


def forget_positions(connection: Connection, names: Sequence[str]) -> None:
    """Delete the positions of deleted segments."""
    for start in range(0, len(names), MAX_PARAMETERS):
        keys = [position_key(name) for name in names[start : start + MAX_PARAMETERS]]
        connection.execute(delete(META).where(META.c.key.in_(keys)))


def load_position(connection: Connection, segment: str) -> int:
    """Return how far a segment is copied, as long as the transaction lasts: no other transaction copies it meanwhile."""
    key = position_key(segment)
    if connection.dialect.name == "postgresql":  # SQLite has one writer at a time
        connection.execute(text("SELECT pg_advisory_xact_lock(hashtext(:key))"), {"key": f"online/{key}"})
    return int(connection.scalar(select(META.c.value).where(META.c.key == key)) or 0)


def encoder_names(connection: Connection, models: set[str]) -> dict[str, str]:
    """Return the encoder of the store's features by model, which stays the same until the transaction ends."""
    for model in sorted(models):
        hold_encoder(connection, model)
    return {model: encoder_of(connection, model) for model in models}


def find_new(connection: Connection, frame: JournalFrame, seen: set[str]) -> list[JournalRow]:
    """Return the predictions of a frame that are not in the store. seen: those that are about to be; the new ones are added."""
    ids, known = [row.id for row in frame.rows], {*seen}
    for start in range(0, len(ids), MAX_PARAMETERS):
        page = PREDICTIONS.c.id.in_(ids[start : start + MAX_PARAMETERS])
        known.update(connection.scalars(select(PREDICTIONS.c.id).where(page)))
    seen.update(ids)
    return [row for row in frame.rows if row.id not in known]


def build_row(frame: JournalFrame, row: JournalRow, features: bytes) -> dict[str, object]:
    """Return the row of the table `prediction`."""
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
        "candidates": orjson.dumps([*zip(row.candidates, map(round_score, row.scores), strict=True)]).decode(),
        "created_at": frame.created_at,
    }


def round_score(score: float) -> float:
    """Return a score as it is stored."""
    return round(score, 6)


def build_turns(frame: JournalFrame, rows: Sequence[JournalRow]) -> Iterator[dict[str, object]]:
    """Yield a turn outside any conversation for each prediction that was to leave answers out."""
    for row in rows:
        if row.exclude:
            yield {
                "id": row.id,
                "model": frame.model,
                "user": row.user,
                "turn": RequestedTurn(None, "", tuple(row.exclude)),
            }

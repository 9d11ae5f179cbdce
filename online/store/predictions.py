"""Recorded predictions: one row for each instance that was answered."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
from sqlalchemy import ColumnElement, Connection, FromClause, RowMapping, or_, select
from sqlmodel import Field, SQLModel

from online.store.database.tables import table_of
from online.store.database.values import NO_TEXT, copy_rows, insert_rows
from online.store.usage.counts import count_predictions

SEARCHED = 20_000  # newest predictions among which those of one model are looked for
NUMBERS = msgspec.json.Decoder(list[float])


class PredictionRow(SQLModel, table=True):
    """One answered instance. choice: the answer, None for an abstention.

    features: what feedback on it teaches. Empty for a row of numbers, whose features are the numbers: `restore_features`.
    """

    __tablename__ = "prediction"

    id: str = Field(primary_key=True)
    model: str
    version: int
    learned_until: int
    user: str | None
    input: str  # JSON
    features: bytes
    choice: str | None
    propensity: float
    candidates: str  # JSON: [[id, score], ...]
    created_at: str  # ISO 8601, UTC


PREDICTIONS = table_of(PredictionRow)


class NewestPrediction(NamedTuple):
    """A prediction with its answer. input: JSON."""

    id: str
    input: str
    features: bytes
    choice: str | None
    created_at: str


def add_predictions(connection: Connection, rows: Sequence[Mapping[str, object]]) -> None:
    """Add predictions, and count them."""
    count_predictions(connection, rows)
    if connection.dialect.name == "postgresql":
        copy_rows(connection, PREDICTIONS, rows)
    else:
        insert_rows(connection, PREDICTIONS, rows)


def load_predictions(connection: Connection, model: str, ids: Sequence[str]) -> dict[str, PredictionRow]:
    """Return id -> prediction, for the ids that exist and were not erased."""
    if not ids:
        return {}
    by_id = (PREDICTIONS.c.id.in_(ids), PREDICTIONS.c.model == model, is_kept())
    found = connection.execute(select(PREDICTIONS).where(*by_id))
    return {row["id"]: PredictionRow(**restore_features(row)) for row in found.mappings()}


def restore_features(row: RowMapping) -> dict[str, Any]:
    """Return a row of the table with its features."""
    return {**row, "features": read_features(row["features"], row["input"])}


def read_features(features: bytes, input: str) -> bytes:
    """Return the features of a row; those of a row of numbers are the numbers, as float64."""
    if features or not input.startswith("["):
        return features
    return np.array(NUMBERS.decode(input), np.float64).tobytes()


def is_kept(predictions: FromClause = PREDICTIONS) -> ColumnElement[bool]:
    """Return the condition that a prediction was not erased: of an erased one there are no words and no features."""
    return or_(predictions.c.features != b"", predictions.c.input != NO_TEXT)


def load_newest(connection: Connection, model: str, count: int) -> list[NewestPrediction]:
    """Return the newest predictions of a model that were not erased, at most `count`, newest first.

    Only the newest SEARCHED predictions of all models are read. There is no index by time, but new ids sort after older ones
    of the same kind: ids that begin with a digit, and ids with a prefix.
    """
    columns = [PREDICTIONS.c[name] for name in ("id", "input", "features", "choice", "created_at")]
    rows: list[NewestPrediction] = []
    for of_kind in (PREDICTIONS.c.id < ":", PREDICTIONS.c.id >= ":"):
        recent = select(PREDICTIONS.c.id).where(of_kind).order_by(PREDICTIONS.c.id.desc()).limit(SEARCHED).subquery()
        query = select(*columns).join(recent, recent.c.id == PREDICTIONS.c.id)
        newest = query.where(PREDICTIONS.c.model == model, is_kept()).order_by(PREDICTIONS.c.id.desc()).limit(count)
        rows += [NewestPrediction(**restore_features(row)) for row in connection.execute(newest).mappings()]
    return sorted(rows, key=lambda row: (row.created_at, row.id), reverse=True)[:count]

"""The text encoder of the stored features, and how features of another encoder replace them.

begin_move -> features in temporary tables -> finish_move -> COMMIT: all features are the new encoder's
"""

import json
from collections.abc import Mapping

from sqlalchemy import (
    Column,
    Connection,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    bindparam,
    insert,
    select,
    text,
    update,
)
from sqlmodel import Field, SQLModel

from online.errors import EncoderMoved
from online.schemas.json_values import JSONObject
from online.store.database.tables import table_of
from online.store.database.values import NO_TEXT
from online.store.events import EVENTS
from online.store.predictions import PREDICTIONS


class EncoderRow(SQLModel, table=True):
    """The encoder of one model; a model without a row has the frozen one.

    sha256: of the tuned encoder; "" for the frozen one. tuned_until: the offset until which it was tuned.
    adaptation: the result of the last attempt to tune it, as JSON.
    """

    __tablename__ = "encoder"

    model: str = Field(primary_key=True)
    sha256: str = ""
    tuned_until: int = 0
    adaptation: str | None = None


ENCODERS = table_of(EncoderRow)
ENCODER_OF = select(ENCODERS.c.sha256).where(ENCODERS.c.model == bindparam("model"))

# The features of the new encoder are computed before the move. Temporary tables belong to one connection, are gone with
# it, and write nothing to the database.
TEMPORARY = ["TEMPORARY"]
MOVED_EVENTS = Table(
    "moved_event",
    MetaData(),
    Column("offset", Integer, primary_key=True),
    Column("features", LargeBinary),
    prefixes=TEMPORARY,
)
MOVED_PREDICTIONS = Table(
    "moved_prediction",
    MetaData(),
    Column("id", String, primary_key=True),
    Column("features", LargeBinary),
    prefixes=TEMPORARY,
)


def encoder_of(connection: Connection, model: str) -> str:
    """Return sha256 of the tuned encoder that computed the features of this model's texts; "" for the frozen one."""
    return connection.scalar(ENCODER_OF, {"model": model}) or ""


def encoder_since(connection: Connection, model: str) -> int:
    """Return the offset until which the encoder was tuned; 0 for the frozen one."""
    return connection.scalar(select(ENCODERS.c.tuned_until).where(ENCODERS.c.model == model)) or 0


def check_encoder(connection: Connection, model: str, encoder: str) -> None:
    """Raise EncoderMoved unless `encoder` computed the features of this model's texts."""
    if encoder_of(connection, model) != encoder:
        raise EncoderMoved(f"the encoder of {model} has changed in the meantime, nothing was changed; try again")


def hold_encoder(connection: Connection, model: str) -> None:
    """Keep the encoder from changing until the transaction ends. Call it before reading features."""
    lock_encoder(connection, model, "pg_advisory_xact_lock_shared")


def lock_encoder(connection: Connection, model: str, lock: str) -> None:
    """Lock the encoder of a model until the transaction ends."""
    if connection.dialect.name == "postgresql":  # SQLite has one writer at a time
        connection.execute(text(f"SELECT {lock}(hashtext(:key))"), {"key": f"online/encoder/{model}"})


def create_temporary_tables(connection: Connection) -> None:
    """Create the tables that hold features of the other encoder."""
    MOVED_EVENTS.create(connection)
    MOVED_PREDICTIONS.create(connection)


def begin_move(connection: Connection, model: str, encoder: str, since: int) -> None:
    """Keep other transactions from writing features until the commit, and set the encoder.

    The same transaction must call `finish_move`, or be rolled back.
    """
    lock_encoder(connection, model, "pg_advisory_xact_lock")
    save_encoder(connection, model, {"sha256": encoder, "tuned_until": since})


def finish_move(connection: Connection, model: str) -> None:
    """Replace the features by those in the temporary tables, except where they were erased in the meantime."""
    moved = (EVENTS.c.model == model, EVENTS.c.offset == MOVED_EVENTS.c.offset, EVENTS.c.kind != "void")
    connection.execute(update(EVENTS).where(*moved).values(features=MOVED_EVENTS.c.features))
    same = (PREDICTIONS.c.id == MOVED_PREDICTIONS.c.id, PREDICTIONS.c.input != NO_TEXT)
    connection.execute(update(PREDICTIONS).where(*same).values(features=MOVED_PREDICTIONS.c.features))


def save_encoder(connection: Connection, model: str, values: Mapping[str, str | int]) -> None:
    """Save values of a model's encoder."""
    found = connection.execute(update(ENCODERS).where(ENCODERS.c.model == model).values(**values))
    if not found.rowcount:
        connection.execute(insert(ENCODERS), [{**EncoderRow(model=model).model_dump(), **values}])


def load_predictions_to_move(connection: Connection, model: str, after: str, count: int) -> list[tuple[str, str]]:
    """Return (id, input) of predictions whose new features are not computed yet, in the order of ids."""
    moved = PREDICTIONS.outerjoin(MOVED_PREDICTIONS, PREDICTIONS.c.id == MOVED_PREDICTIONS.c.id)
    query = select(PREDICTIONS.c.id, PREDICTIONS.c.input).select_from(moved)
    remaining = (PREDICTIONS.c.id > after, MOVED_PREDICTIONS.c.id.is_(None), PREDICTIONS.c.input != NO_TEXT)
    query = query.where(PREDICTIONS.c.model == model, *remaining).order_by(PREDICTIONS.c.id)
    return list(connection.execute(query.limit(count)).all())


def load_adaptation(connection: Connection, model: str) -> JSONObject | None:
    """Return the result of the last attempt to tune the encoder."""
    result = connection.scalar(select(ENCODERS.c.adaptation).where(ENCODERS.c.model == model))
    return None if result is None else dict(json.loads(result))


def save_adaptation(connection: Connection, model: str, result: Mapping[str, object]) -> None:
    """Save the result of the last attempt to tune."""
    save_encoder(connection, model, {"adaptation": json.dumps(result)})


def load_encoder_status(connection: Connection, model: str) -> dict[str, object]:
    """Return the encoder in use, and the last attempt to tune one."""
    return {"encoder": encoder_of(connection, model), "adaptation": load_adaptation(connection, model)}

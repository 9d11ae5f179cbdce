"""Single values of a store, by key."""

import uuid

from sqlalchemy import Connection, delete, insert, select, text
from sqlmodel import Field, SQLModel

from online.store.database.tables import table_of


class MetaRow(SQLModel, table=True):
    """A value that exists once in a store."""

    __tablename__ = "meta"

    key: str = Field(primary_key=True)
    value: str


META = table_of(MetaRow)
SIGNING_KEYS = "signing-keys"


def save_value(connection: Connection, key: str, value: str) -> None:
    """Save a value under a key."""
    connection.execute(delete(META).where(META.c.key == key))
    connection.execute(insert(META).values(key=key, value=value))


def load_kind(connection: Connection, model: str) -> str | None:
    """Return the kind of a model whose history this store holds; None if it was never saved."""
    return connection.scalar(select(META.c.value).where(META.c.key == f"kind/{model}"))


def save_kind(connection: Connection, model: str, kind: str) -> None:
    """Save the kind of a model, which never changes."""
    save_value(connection, f"kind/{model}", kind)


def compatible_key(tables: str, revision: str) -> str:
    """Return the key under which a release says which code may use a group of tables at a revision."""
    return f"compatible-from/{tables}/{revision}"


def load_oldest_code(connection: Connection, tables: str, revision: str) -> str | None:
    """Return the oldest revision whose code may use a group of tables at a revision; None if no release has said so."""
    return connection.scalar(select(META.c.value).where(META.c.key == compatible_key(tables, revision)))


def save_oldest_code(connection: Connection, tables: str, revision: str, oldest: str) -> None:
    """Save the oldest revision whose code may use a group of tables at a revision."""
    save_value(connection, compatible_key(tables, revision), oldest)


def find_instance(connection: Connection) -> str | None:
    """Return the name of this store; None if it has none yet."""
    found: str | None = connection.scalar(select(META.c.value).where(META.c.key == "instance"))
    return found


def load_instance(connection: Connection) -> str:
    """Return the name of this store, which keeps two services apart on one Redis; created on first use."""
    known = find_instance(connection)
    if known is None:
        known = uuid.uuid4().hex[:12]
        connection.execute(insert(META).values(key="instance", value=known))
    return str(known)


def lock_signing_keys(connection: Connection) -> None:
    """Let one replica change the signing keys at a time, until its transaction ends. On SQLite the transaction is the lock."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(hashtext('online/signing-keys'))"))


def load_signing_keys(connection: Connection) -> str | None:
    """Return what the store holds of the signing keys, as state/shared_keys.py has written it; None if it holds nothing."""
    found: str | None = connection.scalar(select(META.c.value).where(META.c.key == SIGNING_KEYS))
    return found


def save_signing_keys(connection: Connection, value: str) -> None:
    """Save what the store is to hold of the signing keys."""
    save_value(connection, SIGNING_KEYS, value)

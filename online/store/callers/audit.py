"""The audit log: who did what to what is served and learned. Append-only, and every entry holds a digest of all before it.

    entry 1 --digest--> entry 2 --digest--> ... --digest--> head, which is also kept outside the database

Triggers refuse to change or delete an entry. Whoever gets round them breaks the chain, or its head. An entry holds no words of users
and no names that they chose: what was done to the log of a model is named by its offset.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from sqlalchemy import DDL, Connection, event, insert, select, text
from sqlmodel import Field, SQLModel

from online.store.database.tables import table_of
from online.store.database.values import now

FIRST_DIGEST = ""  # what the first entry holds in the place of a digest before it
MAX_CHARS = 200  # of an actor, an address or a target
PAGE = 1_000
REFUSAL = "the audit log is append-only"
SQLITE_TRIGGERS = tuple(
    f"CREATE TRIGGER audit_no_{verb.lower()} BEFORE {verb} ON audit BEGIN SELECT RAISE(ABORT, '{REFUSAL}'); END"
    for verb in ("UPDATE", "DELETE")
)
POSTGRES_TRIGGERS = (
    f"CREATE FUNCTION audit_refuse_change() RETURNS trigger AS $$ BEGIN RAISE EXCEPTION '{REFUSAL}'; END $$ LANGUAGE plpgsql",
    "CREATE TRIGGER audit_no_change BEFORE UPDATE OR DELETE OR TRUNCATE ON audit "
    "FOR EACH STATEMENT EXECUTE FUNCTION audit_refuse_change()",
)


class AuditRow(SQLModel, table=True):
    """One entry. details: a JSON object. digest: of the entry before and of all other columns."""

    __tablename__ = "audit"

    id: int = Field(primary_key=True, sa_column_kwargs={"autoincrement": False})
    at: str
    actor: str
    address: str
    action: str
    model: str | None
    target: str | None
    details: str
    digest: str


AUDIT = table_of(AuditRow)
for dialect, statements in (("sqlite", SQLITE_TRIGGERS), ("postgresql", POSTGRES_TRIGGERS)):
    for statement in statements:
        event.listen(AUDIT, "after_create", DDL(statement).execute_if(dialect=dialect))  # type: ignore[no-untyped-call]


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """An entry to append.

    actor: who did it: "key:NAME", "visitor:ID", "local", ... address: from where; "" for the machine itself.
    target: an offset, a version or a key; never a name that a user chose. details: numbers and short words of our own.
    is_person: whether the actor is a person; the audit log then records a pseudonym of its name.
    """

    actor: str
    action: str
    address: str = ""
    model: str | None = None
    target: str | None = None
    details: Mapping[str, object] = field(default_factory=dict)
    is_person: bool = False


@dataclass(frozen=True, slots=True)
class AuditHead:
    """The newest entry: its number and its digest. Number 0 for an empty log."""

    id: int = 0
    digest: str = FIRST_DIGEST


@dataclass(frozen=True, slots=True)
class BrokenEntry:
    """The first entry that is not what was appended, and what is wrong with it."""

    id: int
    reason: str


def append_audit(connection: Connection, entry: AuditEntry) -> AuditHead:
    """Append an entry in the caller's transaction; return the new head."""
    if connection.dialect.name == "postgresql":  # on SQLite the transaction is the lock
        connection.execute(text("SELECT pg_advisory_xact_lock(hashtext('online/audit'))"))
    before = load_head(connection)
    values: dict[str, Any] = {
        "id": before.id + 1,
        "at": now(),
        "actor": clean(entry.actor),
        "address": clean(entry.address),
        "action": entry.action,
        "model": entry.model,
        "target": None if entry.target is None else clean(entry.target),
        "details": json.dumps(dict(entry.details), sort_keys=True),
    }
    digest = compute_digest(before.digest, values)
    connection.execute(insert(AUDIT).values(**values, digest=digest))
    return AuditHead(values["id"], digest)


def load_head(connection: Connection) -> AuditHead:
    """Return the newest entry of the log."""
    found = connection.execute(select(AUDIT.c.id, AUDIT.c.digest).order_by(AUDIT.c.id.desc()).limit(1)).first()
    return AuditHead() if found is None else AuditHead(found.id, found.digest)


def load_audit(connection: Connection, count: int, actors: Sequence[str] = ()) -> list[AuditRow]:
    """Return the newest entries, newest first. actors: only entries of these, if there are any."""
    query = select(AUDIT).order_by(AUDIT.c.id.desc()).limit(count)
    rows = connection.execute(query.where(AUDIT.c.actor.in_(actors)) if actors else query).mappings()
    return [AuditRow(**row) for row in rows]


def verify_audit(connection: Connection, known: AuditHead | None = None) -> BrokenEntry | None:
    """Return the first entry that was changed, inserted or removed; None if there is none.

    known: a head that was kept elsewhere, which shows whether the newest entries are missing or were all written again.
    """
    before = AuditHead()
    for row in walk_audit(connection):
        if row["id"] != before.id + 1:
            return BrokenEntry(before.id + 1, "the entry is missing")
        if row["digest"] != compute_digest(before.digest, row):
            return BrokenEntry(row["id"], "the entry, or the digest of the entry before, was changed")
        before = AuditHead(row["id"], row["digest"])
        if known is not None and known.id == before.id and known != before:
            return BrokenEntry(before.id, "the digest is not the one that was kept outside the database")
    if known is not None and known.id > before.id:
        return BrokenEntry(before.id + 1, f"the entries up to {known.id} are missing")
    return None


def walk_audit(connection: Connection) -> Iterator[Mapping[str, object]]:
    """Yield all entries, oldest first, read in pages. Entries with numbers below 1 come first: there should be none."""
    last: int | None = None
    while True:
        query = select(AUDIT).order_by(AUDIT.c.id).limit(PAGE)
        page = connection.execute(query if last is None else query.where(AUDIT.c.id > last)).mappings().all()
        if not page:
            return
        yield from map(dict, page)
        last = page[-1]["id"]


def compute_digest(before: str, row: Mapping[str, object]) -> str:
    """Return sha256 of the digest before and of every column but the digest. A list in JSON, so that no two rows look alike."""
    values = [row[name] for name in ("id", "at", "actor", "address", "action", "model", "target", "details")]
    return sha256(json.dumps([before, *values]).encode()).hexdigest()


def clean(words: str) -> str:
    """Return text that every database stores as it is."""
    return words[:MAX_CHARS].replace("\0", "?").encode("utf-8", "replace").decode()

"""The bases of models in a store that several replicas share: contents of events are removed, and no folder alone may have learned them.

    base        one for each model and recipe: the manifest, with the sha256 of every file
    base_chunk  the files, cut into chunks, each of which is written in a transaction of its own

A base follows the one that it continued, or none. So of two replicas that make the next one at the same time, the store takes
one; the other replica takes that one over.
"""

from dataclasses import dataclass

from sqlalchemy import Connection, delete, func, insert, select, text
from sqlmodel import Field, SQLModel

from online.snapshots.manifest import Manifest
from online.store.database.tables import table_of
from online.store.deletion.event_expiry import load_expiry
from online.store.events import load_digests, lock_log

CHUNK_BYTES = 1 << 20
KEPT_RECIPES = 2  # of one model: during a change of the options, replicas with either may run


class BaseRow(SQLModel, table=True):
    """The base of one model and recipe. manifest: its text, as in a folder. seal: of a model whose state is signed; else ""."""

    __tablename__ = "base"

    model: str = Field(primary_key=True)
    recipe: str = Field(primary_key=True)
    created_at: str
    manifest: str
    seal: str


class BaseChunkRow(SQLModel, table=True):
    """A part of a file of a base, which its sha256 names."""

    __tablename__ = "base_chunk"

    model: str = Field(primary_key=True)
    sha256: str = Field(primary_key=True)
    number: int = Field(primary_key=True)
    data: bytes


BASES, CHUNKS = table_of(BaseRow), table_of(BaseChunkRow)
BASE_TABLES = [BASES, CHUNKS]


@dataclass(frozen=True, slots=True)
class StoredBase:
    """A base in the store."""

    text: str
    seal: str

    @property
    def manifest(self) -> Manifest:
        """The manifest. Raises ValueError, TypeError, KeyError or AttributeError for one that is damaged."""
        return Manifest.parse(self.text.encode())


def load_stored_base(connection: Connection, model: str, recipe: str) -> StoredBase | None:
    """Return the base of a model and a recipe; None if there is none."""
    same = (BASES.c.model == model, BASES.c.recipe == recipe)
    found = connection.execute(select(BASES.c.manifest, BASES.c.seal).where(*same)).one_or_none()
    return None if found is None else StoredBase(found.manifest, found.seal)


def load_chunk(connection: Connection, model: str, sha256: str, number: int) -> bytes | None:
    """Return a chunk of a file, counted from 0; None if there is none."""
    same = (CHUNKS.c.model == model, CHUNKS.c.sha256 == sha256, CHUNKS.c.number == number)
    return connection.scalar(select(CHUNKS.c.data).where(*same))


def save_chunk(connection: Connection, model: str, sha256: str, number: int, data: bytes) -> None:
    """Save a chunk of a file, unless it is there."""
    lock_bases(connection, model)
    if load_chunk(connection, model, sha256, number) is None:
        connection.execute(insert(CHUNKS), [{"model": model, "sha256": sha256, "number": number, "data": data}])


def save_base(connection: Connection, model: str, base: StoredBase) -> bool:
    """Let a base be that of all replicas; return False if the store has another one than it follows, or it is not of this log.

    Its chunks are saved before, and those of no base are deleted here.
    """
    lock_log(connection, model)
    lock_bases(connection, model)
    new, before = base.manifest, load_stored_base(connection, model, base.manifest.recipe)
    if before is not None and before.manifest.version != new.parent:
        return False
    if not is_of_log(connection, model, new) or not has_all_chunks(connection, model, new):
        return False
    same = (BASES.c.model == model, BASES.c.recipe == new.recipe)
    connection.execute(delete(BASES).where(*same))
    row = {"model": model, "recipe": new.recipe, "created_at": new.created_at, "manifest": base.text, "seal": base.seal}
    connection.execute(insert(BASES), [row])
    forget_others(connection, model)
    return True


def is_of_log(connection: Connection, model: str, base: Manifest) -> bool:
    """Return whether a base has learned this log, until an offset before which nothing is retracted any more."""
    if not base.learned_until:
        return True
    digest = load_digests(connection, model, [base.learned_until]).get(base.learned_until)
    return digest == base.log_digest and base.learned_until <= load_expiry(connection, model).closed_until


def has_all_chunks(connection: Connection, model: str, base: Manifest) -> bool:
    """Return whether every file of a base is in the store."""
    wanted = {file.sha256: file.bytes for file in base.files.values()}
    sizes = select(CHUNKS.c.sha256, func.sum(func.length(CHUNKS.c.data))).where(
        CHUNKS.c.model == model, CHUNKS.c.sha256.in_(wanted)
    )
    found = connection.execute(sizes.group_by(CHUNKS.c.sha256)).all()
    return {sha256: int(size) for sha256, size in found} == wanted


def forget_others(connection: Connection, model: str) -> None:
    """Delete the bases of older recipes, and chunks that no base names."""
    of_model = BASES.c.model == model
    newest = select(BASES.c.recipe).where(of_model).order_by(BASES.c.created_at.desc()).limit(KEPT_RECIPES)
    connection.execute(delete(BASES).where(of_model, BASES.c.recipe.not_in(list(connection.scalars(newest)))))
    kept = [StoredBase(row, "").manifest for row in connection.scalars(select(BASES.c.manifest).where(of_model))]
    named = {file.sha256 for each in kept for file in each.files.values()}
    connection.execute(delete(CHUNKS).where(CHUNKS.c.model == model, CHUNKS.c.sha256.not_in(named)))


def lock_bases(connection: Connection, model: str) -> None:
    """Let one transaction write the bases of a model at a time. On SQLite the transaction is the lock."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(hashtext(:key))"), {"key": f"online/base/{model}"})

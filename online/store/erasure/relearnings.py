"""Records of learning again after an erasure, with the hash of the state before and after."""

from sqlalchemy import Connection, delete, insert, select
from sqlmodel import Field, SQLModel

from online.store.database.tables import table_of
from online.store.database.values import now


class RelearningRow(SQLModel, table=True):
    """One time that a model's log was learned again.

    offset: of the event that asked for it. learned_until: where the hashes were compared. subtracted_sha256: of the
    state from which the user had been subtracted; relearned_sha256: of the state that replaced it.
    """

    __tablename__ = "relearning"

    model: str = Field(primary_key=True)
    offset: int = Field(primary_key=True, sa_column_kwargs={"autoincrement": False})
    learned_until: int
    subtracted_sha256: str
    relearned_sha256: str
    ended_at: str


RELEARNINGS = table_of(RelearningRow)


def add_relearning(connection: Connection, model: str, offset: int, until: int, hashes: tuple[str, str]) -> None:
    """hashes: of the state before and after. A learner that was killed may have done the same before."""
    connection.execute(delete(RELEARNINGS).where(RELEARNINGS.c.model == model, RELEARNINGS.c.offset == offset))
    subtracted, relearned = hashes
    row = RelearningRow(
        model=model,
        offset=offset,
        learned_until=until,
        subtracted_sha256=subtracted,
        relearned_sha256=relearned,
        ended_at=now(),
    )
    connection.execute(insert(RELEARNINGS), [row.model_dump()])


def find_relearning(connection: Connection, model: str, offset: int) -> RelearningRow | None:
    """Return the first time that the log was learned again at the request of this event or of a later one."""
    since = (RELEARNINGS.c.model == model, RELEARNINGS.c.offset >= offset)
    row = connection.execute(select(RELEARNINGS).where(*since).order_by(RELEARNINGS.c.offset)).mappings().first()
    return None if row is None else RelearningRow(**row)

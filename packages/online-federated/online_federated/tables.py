"""Cohorts: groups of clients whose sums are added without anybody seeing one client's, and the messages of their rounds.

    cohort (state, deadline) <-- one row for each member and round: the message

The messages of a cohort are deleted once it has ended, and the cohort some time after its last deadline.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from sqlalchemy import Connection, Index, delete, func, insert, select, update
from sqlmodel import Field, SQLModel

from online.store.database.tables import TableGroup

CohortState = Literal["joining", "sharing", "masking", "unmasking", "adding", "done", "failed"]
ENDED: tuple[CohortState, ...] = ("done", "failed")


class CohortRow(SQLModel, table=True):
    """parameters: JSON, as `CohortParameters`. width, features: number of the features, and how inputs become them, as
    JSON; of the model when the cohort began. reason: why it has failed.

    deadline: of the present round; while the total is added, until when the process that adds it has time, and of a cohort
    that has ended the last one that it had.

    member_count: how many it has, once it takes no further ones; 0 before. created_at, deadline: instants in ISO 8601.
    """

    __tablename__ = "cohort"

    model: str = Field(primary_key=True)
    id: str = Field(primary_key=True)
    state: str
    parameters: str
    width: int
    features: str
    member_count: int
    created_at: str
    deadline: str
    reason: str | None


class CohortMessageRow(SQLModel, table=True):
    """A message of one member in one round.

    holder, token: of the first round, hashes of who it is, and of what proves the membership.
    """

    __tablename__ = "cohort_message"
    __table_args__ = (Index("cohort_message_by_round", "model", "cohort", "round"),)

    model: str = Field(primary_key=True)
    cohort: str = Field(primary_key=True)
    number: int = Field(primary_key=True)
    round: str = Field(primary_key=True)
    body: bytes
    holder: str = ""
    token: str = ""


COHORTS: Any = CohortRow.__table__  # type: ignore[attr-defined]
COHORT_MESSAGES: Any = CohortMessageRow.__table__  # type: ignore[attr-defined]
COHORT_TABLES = TableGroup("cohorts", (COHORTS, COHORT_MESSAGES), ("1",), Path(__file__).parent / "migrations")


def add_cohort(connection: Connection, row: CohortRow) -> None:
    """Store a new cohort."""
    connection.execute(insert(COHORTS), [row.model_dump()])


def load_cohort(connection: Connection, model: str, id: str, lock: bool = False) -> CohortRow | None:
    """lock: until the transaction ends nobody else changes it. On SQLite, the transaction is the lock."""
    query = select(COHORTS).where(COHORTS.c.model == model, COHORTS.c.id == id)
    found = connection.execute(query.with_for_update() if lock else query).mappings().first()
    return None if found is None else CohortRow(**found)


def count_open(connection: Connection, model: str) -> int:
    """Return the number of cohorts that have not ended."""
    is_open = (COHORTS.c.model == model, COHORTS.c.state.not_in(ENDED))
    return connection.scalar(select(func.count()).select_from(COHORTS).where(*is_open)) or 0


def list_open(connection: Connection, model: str) -> list[str]:
    """Return the ids of the cohorts that have not ended, oldest first."""
    is_open = (COHORTS.c.model == model, COHORTS.c.state.not_in(ENDED))
    return list(connection.scalars(select(COHORTS.c.id).where(*is_open).order_by(COHORTS.c.created_at, COHORTS.c.id)))


def change_cohort(connection: Connection, row: CohortRow, changes: Mapping[str, object]) -> CohortRow | None:
    """Change a cohort unless its state or its deadline has changed since `row`, and return it; None if it has.

    So of several processes that change the same state, one does. The messages of a cohort that has ended are deleted.
    """
    same = (COHORTS.c.state == row.state, COHORTS.c.deadline == row.deadline)
    of_cohort = _of_cohort(COHORTS.c.id, row.model, row.id)
    if not connection.execute(update(COHORTS).where(*of_cohort, *same).values(**changes)).rowcount:
        return None
    changed = CohortRow(**(row.model_dump() | dict(changes)))
    if changed.state in ENDED:
        _delete_messages(connection, row.model, row.id)
    return changed


def finish_cohort(connection: Connection, model: str, id: str, reason: str | None = None) -> bool:
    """End a cohort whose total is being added: it is done, or has failed for a reason. The deadline does not matter.

    Returns whether it is done or was done before; for a failure, whether it has failed now.
    """
    of_cohort = _of_cohort(COHORTS.c.id, model, id)
    state: CohortState = "done" if reason is None else "failed"
    ending = update(COHORTS).where(*of_cohort, COHORTS.c.state == "adding").values(state=state, reason=reason)
    if connection.execute(ending).rowcount:
        _delete_messages(connection, model, id)
        return True
    return reason is None and connection.scalar(select(COHORTS.c.state).where(*of_cohort)) == "done"


def _delete_messages(connection: Connection, model: str, id: str) -> None:
    connection.execute(delete(COHORT_MESSAGES).where(*_of_cohort(COHORT_MESSAGES.c.cohort, model, id)))


def prune_cohorts(connection: Connection, before: str, count: int) -> int:
    """Delete at most `count` cohorts whose last deadline was before this time, with their messages; return how many.

    Those that have not ended are included: nobody has asked about them since.
    """
    names = (COHORTS.c.model, COHORTS.c.id)
    found = connection.execute(select(*names).where(COHORTS.c.deadline < before).limit(count)).all()
    for model, id in found:
        _delete_messages(connection, model, id)
        connection.execute(delete(COHORTS).where(*_of_cohort(COHORTS.c.id, model, id)))
    return len(found)


# messages


def add_message(connection: Connection, row: CohortMessageRow) -> None:
    """Store a message of a member."""
    connection.execute(insert(COHORT_MESSAGES), [row.model_dump()])


def load_body(connection: Connection, model: str, cohort: str, number: int, round: str) -> bytes | None:
    """Return what a member has sent in a round; None if it has sent nothing."""
    query = select(COHORT_MESSAGES.c.body).where(*_of_round(model, cohort, round), COHORT_MESSAGES.c.number == number)
    found: bytes | None = connection.scalar(query)
    return found


def has_sent(connection: Connection, model: str, cohort: str, number: int, round: str) -> bool:
    """Return whether a member has sent its message of a round."""
    of_member = (*_of_round(model, cohort, round), COHORT_MESSAGES.c.number == number)
    return connection.scalar(select(COHORT_MESSAGES.c.number).where(*of_member)) is not None


def load_token(connection: Connection, model: str, cohort: str, number: int) -> str | None:
    """Return the hash of what proves a membership; None for a number that is not of a member."""
    of_member = (*_of_round(model, cohort, "joining"), COHORT_MESSAGES.c.number == number)
    found: str | None = connection.scalar(select(COHORT_MESSAGES.c.token).where(*of_member))
    return found


def is_member(connection: Connection, model: str, cohort: str, holder: str) -> bool:
    """Return whether a holder, which is given as a hash, is a member."""
    of_holder = (*_of_round(model, cohort, "joining"), COHORT_MESSAGES.c.holder == holder)
    return connection.scalar(select(COHORT_MESSAGES.c.number).where(*of_holder).limit(1)) is not None


def load_bodies(
    connection: Connection, model: str, cohort: str, round: str, part: slice | None = None
) -> dict[int, bytes]:
    """Return what the members have sent in a round, by their number, in order. part: of each body, to read no more."""
    body = COHORT_MESSAGES.c.body
    read = body if part is None else func.substr(body, part.start + 1, part.stop - part.start, type_=body.type)
    query = select(COHORT_MESSAGES.c.number, read).where(*_of_round(model, cohort, round))
    return {number: bytes(sent) for number, sent in connection.execute(query.order_by(COHORT_MESSAGES.c.number))}


def count_messages(connection: Connection, model: str, cohort: str, round: str) -> int:
    """Return the number of messages of a round."""
    query = select(func.count()).select_from(COHORT_MESSAGES).where(*_of_round(model, cohort, round))
    return connection.scalar(query) or 0


def list_numbers(connection: Connection, model: str, cohort: str, round: str) -> Sequence[int]:
    """Return the numbers of the members that have sent something in a round, in order."""
    query = select(COHORT_MESSAGES.c.number).where(*_of_round(model, cohort, round))
    return list(connection.scalars(query.order_by(COHORT_MESSAGES.c.number)))


def _of_cohort(column: Any, model: str, id: str) -> tuple[Any, Any]:
    return column.table.c.model == model, column == id


def _of_round(model: str, cohort: str, round: str) -> tuple[Any, ...]:
    return (*_of_cohort(COHORT_MESSAGES.c.cohort, model, cohort), COHORT_MESSAGES.c.round == round)

"""Cohorts: groups of clients whose sums are added without anybody seeing one client's, and the messages of their rounds.

    cohort (state, deadline) <-- one row for each member and round: the message, as JSON

The messages of a cohort are deleted once it has ended.
"""

from collections.abc import Sequence
from typing import Any, Literal

from sqlalchemy import Connection, Index, delete, func, insert, select, update
from sqlmodel import Field, SQLModel

CohortState = Literal["joining", "sharing", "masking", "unmasking", "adding", "done", "failed"]
ENDED: tuple[CohortState, ...] = ("done", "failed")


class CohortRow(SQLModel, table=True):
    """parameters: JSON, as `CohortParameters`. width, features: number of the features, and how inputs become them, as
    JSON; of the model when the cohort began. deadline: of the present round. reason: why it has failed.

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
    """What one member has sent in one round.

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


def add_cohort(connection: Connection, row: CohortRow) -> None:
    connection.execute(insert(COHORTS), [row.model_dump()])


def load_cohort(connection: Connection, model: str, id: str, lock: bool = False) -> CohortRow | None:
    """lock: until the transaction ends nobody else changes it. On SQLite, the transaction is the lock."""
    query = select(COHORTS).where(COHORTS.c.model == model, COHORTS.c.id == id)
    found = connection.execute(query.with_for_update() if lock else query).mappings().first()
    return None if found is None else CohortRow(**found)


def count_open(connection: Connection, model: str) -> int:
    is_open = (COHORTS.c.model == model, COHORTS.c.state.not_in(ENDED))
    return connection.scalar(select(func.count()).select_from(COHORTS).where(*is_open)) or 0


def list_open(connection: Connection, model: str) -> list[str]:
    """The ids of the cohorts that have not ended, oldest first."""
    is_open = (COHORTS.c.model == model, COHORTS.c.state.not_in(ENDED))
    return list(connection.scalars(select(COHORTS.c.id).where(*is_open).order_by(COHORTS.c.created_at, COHORTS.c.id)))


def set_cohort(connection: Connection, row: CohortRow) -> None:
    """Write the state of a cohort. The messages of one that has ended are deleted."""
    same = (COHORTS.c.model == row.model, COHORTS.c.id == row.id)
    connection.execute(update(COHORTS).where(*same).values(**row.model_dump(exclude={"model", "id"})))
    if row.state in ENDED:
        of_cohort = (COHORT_MESSAGES.c.model == row.model, COHORT_MESSAGES.c.cohort == row.id)
        connection.execute(delete(COHORT_MESSAGES).where(*of_cohort))


def add_message(connection: Connection, row: CohortMessageRow) -> None:
    connection.execute(insert(COHORT_MESSAGES), [row.model_dump()])


def load_message(connection: Connection, model: str, cohort: str, number: int, round: str) -> CohortMessageRow | None:
    of_member = (COHORT_MESSAGES.c.number == number, COHORT_MESSAGES.c.round == round)
    query = select(COHORT_MESSAGES).where(
        COHORT_MESSAGES.c.model == model, COHORT_MESSAGES.c.cohort == cohort, *of_member
    )
    found = connection.execute(query).mappings().first()
    return None if found is None else CohortMessageRow(**found)


def load_messages(connection: Connection, model: str, cohort: str, round: str) -> list[CohortMessageRow]:
    """The messages of a round, by the number of their members."""
    of_round = (COHORT_MESSAGES.c.model == model, COHORT_MESSAGES.c.cohort == cohort, COHORT_MESSAGES.c.round == round)
    query = select(COHORT_MESSAGES).where(*of_round).order_by(COHORT_MESSAGES.c.number)
    return [CohortMessageRow(**row) for row in connection.execute(query).mappings()]


def list_numbers(connection: Connection, model: str, cohort: str, round: str) -> Sequence[int]:
    """The numbers of the members that have sent something in a round, in order."""
    of_round = (COHORT_MESSAGES.c.model == model, COHORT_MESSAGES.c.cohort == cohort, COHORT_MESSAGES.c.round == round)
    return list(
        connection.scalars(select(COHORT_MESSAGES.c.number).where(*of_round).order_by(COHORT_MESSAGES.c.number))
    )

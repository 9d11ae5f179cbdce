"""The standing of each holder: the result of reviews, and decisions of operators. One row for each model and holder.

A holder is who has an opinion: the user on whose behalf feedback is given, or else the caller. Callers with the scope
`curate` are trusted and have no row.

    new --others agree with it--> established
      +--- others disagree, or it takes part in a campaign ---> quarantined --operator--> released, or dropped
"""

from collections.abc import Sequence
from typing import Any, Literal, get_args

from sqlalchemy import Connection, Index, delete, func, insert, select, update
from sqlmodel import Field, SQLModel

from online.store.callers.held_feedback import HELD, held_by
from online.store.database.tables import table_of
from online.store.feedback import FEEDBACK, given_by

State = Literal["new", "established", "quarantined", "released", "dropped"]
STATES: tuple[State, ...] = get_args(State)
QUARANTINED_STATES: tuple[State, ...] = ("quarantined", "dropped")


class StandingRow(SQLModel, table=True):
    """The standing of one holder.

    number: counts the holders of a model; their events carry it. address: of a visitor, from whom anybody can get
    as many identities as they like; "" otherwise. judged, agreed: how much of its newest feedback the last review could
    judge, and how much of that others agreed with. reason, decided_by, decided_at: of the last change of its state.
    """

    __tablename__ = "caller_standing"
    __table_args__ = (Index("standing_by_state", "model", "state", "seen_at"),)

    model: str = Field(primary_key=True)
    holder: str = Field(primary_key=True)
    number: int
    state: str
    address: str
    seen_at: str
    judged: int = 0
    agreed: int = 0
    reason: str | None = None
    decided_by: str | None = None
    decided_at: str | None = None

    @property
    def is_quarantined(self) -> bool:
        """Whether nothing of the holder is learned."""
        return self.state in QUARANTINED_STATES


STANDING = table_of(StandingRow)


def load_standing(connection: Connection, model: str, holder: str) -> StandingRow | None:
    """Return the standing of a holder; None without one."""
    row = connection.execute(select(STANDING).where(*at(model, holder))).mappings().first()
    return None if row is None else StandingRow(**row)


def load_or_create_standing(connection: Connection, model: str, holder: str, address: str, now: str) -> StandingRow:
    """Return the standing of a holder that gives feedback now; a new row for one that was not seen before."""
    row = load_standing(connection, model, holder)
    if row is not None:
        connection.execute(update(STANDING).where(*at(model, holder)).values(seen_at=now))
        return row
    last = connection.scalar(select(func.max(STANDING.c.number)).where(STANDING.c.model == model)) or 0
    row = StandingRow(model=model, holder=holder, number=last + 1, state="new", address=address, seen_at=now)
    connection.execute(insert(STANDING), [row.model_dump()])
    return row


def at(model: str, holder: str) -> tuple[Any, ...]:
    """Return the conditions that select a holder."""
    return STANDING.c.model == model, STANDING.c.holder == holder


def load_number(connection: Connection, model: str, holder: str) -> int:
    """Return the number of a holder; 0 for a trusted one."""
    return connection.scalar(select(STANDING.c.number).where(*at(model, holder))) or 0


def load_newest_standings(connection: Connection, model: str, count: int) -> list[StandingRow]:
    """Return the holders that were seen last, newest first."""
    query = select(STANDING).where(STANDING.c.model == model).order_by(STANDING.c.seen_at.desc(), STANDING.c.holder)
    return [StandingRow(**row) for row in connection.execute(query.limit(count)).mappings()]


def load_standings(connection: Connection, model: str, holders: Sequence[str]) -> dict[str, StandingRow]:
    """Return holder -> its standing, for those that have one."""
    found = connection.execute(select(STANDING).where(STANDING.c.model == model, STANDING.c.holder.in_(holders)))
    return {row["holder"]: StandingRow(**row) for row in found.mappings()}


def list_standings(connection: Connection, model: str, count: int) -> list[StandingRow]:
    """Return the quarantined holders, then the others, those that were seen last first."""
    is_free = STANDING.c.state.not_in(QUARANTINED_STATES)
    query = select(STANDING).where(STANDING.c.model == model).order_by(is_free, STANDING.c.seen_at.desc())
    return [StandingRow(**row) for row in connection.execute(query.order_by(STANDING.c.holder).limit(count)).mappings()]


def set_state(
    connection: Connection, model: str, holder: str, state: State, reason: str | None, by: str, now: str
) -> None:
    """Note a decision about a holder."""
    values = {"state": state, "reason": reason, "decided_by": by, "decided_at": now}
    connection.execute(update(STANDING).where(*at(model, holder)).values(**values))


def set_judgement(connection: Connection, model: str, holder: str, judged: int, agreed: int) -> None:
    """Note how often others agree with a holder."""
    connection.execute(update(STANDING).where(*at(model, holder)).values(judged=judged, agreed=agreed))


def forget_new_holders(connection: Connection, model: str, seen_before: str) -> None:
    """Delete the rows of holders that are new and were not seen for long: without a row they are new as well."""
    unseen = (STANDING.c.model == model, STANDING.c.state == "new", STANDING.c.seen_at < seen_before)
    connection.execute(delete(STANDING).where(*unseen))


def count_states(connection: Connection, model: str) -> dict[str, int]:
    """Return how many holders are in each state."""
    found = connection.execute(
        select(STANDING.c.state, func.count()).where(STANDING.c.model == model).group_by(STANDING.c.state)
    )
    return dict(found.all())


def count_given(connection: Connection, model: str, holders: Sequence[str]) -> dict[str, tuple[int, int]]:
    """Return holder -> how many of its feedbacks stand, and how many are held."""
    stands = (FEEDBACK.c.model == model, given_by.in_(holders), FEEDBACK.c.retracted_offset.is_(None))
    waits = (HELD.c.model == model, HELD.c.decision.is_(None), held_by.in_(holders))
    standing: dict[str, int] = dict(
        connection.execute(select(given_by, func.count()).where(*stands).group_by(given_by)).all()
    )
    held: dict[str, int] = dict(connection.execute(select(held_by, func.count()).where(*waits).group_by(held_by)).all())
    return {holder: (standing.get(holder, 0), held.get(holder, 0)) for holder in holders}


def delete_standing_of(connection: Connection, model: str, holder: str) -> None:
    """Delete the standing of a holder."""
    connection.execute(delete(STANDING).where(*at(model, holder)))

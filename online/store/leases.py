"""The leases on models that only one replica may learn at a time: of kinds that are not exact.

    learner --take--> holder, fence, until --prolong, each second--> ...      a standby takes it once it has run out
                           |
    claim of a version ----+--> the token of the holder is compared in the transaction that publishes

The clock is that of the database, so that a replica whose own clock jumps neither loses its lease nor keeps one for too long.
A transaction that takes or prolongs a lease locks nothing else, so that none waits for it in a circle.
"""

from typing import Any, NamedTuple

from sqlalchemy import Connection, Float, Row, delete, insert, literal_column, select, text, update
from sqlmodel import Field, SQLModel

from online.errors import LeaseLost
from online.store.database.tables import table_of


class LeaseRow(SQLModel, table=True):
    """The replica that alone learns a model. until: seconds of the database's clock. fence: counts the holders."""

    __tablename__ = "lease"

    model: str = Field(primary_key=True)
    holder: str
    fence: int
    until: float


class LeaseToken(NamedTuple):
    """The proof that a replica holds a lease. fence: higher than that of every token before."""

    holder: str
    fence: int


LEASES = table_of(LeaseRow)


def take_lease(connection: Connection, model: str, holder: str, duration_s: float) -> LeaseToken | None:
    """Return a new token for the lease on a model; None while another replica holds it.

    A holder that takes it again, as a process that was started again does, has a new fence: the token from before is worthless.
    """
    found = lock_lease(connection, model)
    now = read_clock(connection)  # after a wait for the lock
    if found is None:
        connection.execute(insert(LEASES), [{"model": model, "holder": holder, "fence": 1, "until": now + duration_s}])
        return LeaseToken(holder, 1)
    if found.holder != holder and found.until > now:
        return None
    token = LeaseToken(holder, found.fence + 1)
    save_lease(connection, model, token, now + duration_s)
    return token


def prolong_lease(connection: Connection, model: str, token: LeaseToken, duration_s: float) -> bool:
    """Prolong a lease; return False if another token was given out since."""
    found = lock_lease(connection, model)
    if found is None or LeaseToken(found.holder, found.fence) != token:
        return False
    save_lease(connection, model, token, read_clock(connection) + duration_s)
    return True


def release_lease(connection: Connection, model: str, token: LeaseToken) -> None:
    """Let another replica take the lease at once. A token that is not the newest changes nothing."""
    save_lease(connection, model, token, 0.0)


def end_lease(connection: Connection, model: str) -> None:
    """Delete the lease on what nobody needs any more."""
    connection.execute(delete(LEASES).where(LEASES.c.model == model))


def save_lease(connection: Connection, model: str, token: LeaseToken, until: float) -> None:
    """Save the holder of a lease, whose fence is this one or the one before."""
    same = (LEASES.c.model == model, LEASES.c.fence <= token.fence)
    connection.execute(update(LEASES).where(*same).values(**token._asdict(), until=until))


def check_lease(connection: Connection, model: str, token: LeaseToken) -> None:
    """Raise LeaseLost unless this token is the newest, and keep it so until the transaction ends.

    A lease that has run out is still good while nobody else has taken it.
    """
    found = lock_lease(connection, model)
    if found is None or LeaseToken(found.holder, found.fence) != token:
        holder = "nobody" if found is None else f"{found.holder} with fence {found.fence}"
        raise LeaseLost(
            f"{token.holder} has lost the lease on {model} that it had with fence {token.fence}: it is held by {holder}; "
            "nothing was published"
        )


def lock_lease(connection: Connection, model: str) -> Row[Any] | None:
    """Return the lease on a model, and keep other transactions from changing it; None if nobody ever had it."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(hashtext(:key))"), {"key": f"online/lease/{model}"})
    return connection.execute(select(LEASES).where(LEASES.c.model == model)).one_or_none()


def list_holders(connection: Connection) -> dict[str, str]:
    """Return model -> the replica that holds the lease on it. A lease that has run out has no holder."""
    held = select(LEASES.c.model, LEASES.c.holder).where(LEASES.c.until > read_clock(connection))
    return dict(connection.execute(held).all())


def read_clock(connection: Connection) -> float:
    """Return the seconds of the database's clock."""
    is_postgres = connection.dialect.name == "postgresql"
    clock = "extract(epoch from clock_timestamp())" if is_postgres else "(julianday('now') - 2440587.5) * 86400"
    return float(connection.scalar(select(literal_column(clock, Float))) or 0.0)

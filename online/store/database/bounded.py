"""Connections of psycopg that give up when the server does not answer, and servers that give up when the client does not.

    query --> server frozen, cut off or half-open --limit_s--> OperationalError, and the connection is closed
    transaction --> client frozen or cut off --IDLE_S--> the server rolls it back, so that its locks hold nobody up

The time limits of Postgres do not reach a client that is cut off, and TCP waits a quarter of an hour.
"""

import time
from collections.abc import Generator, Mapping
from typing import Any, TypeVar

from sqlalchemy import Engine, event
from sqlalchemy.engine import make_url

T = TypeVar("T")

CONNECT_S, STATEMENT_S = 5, 10  # Postgres counts as unavailable after these
ANSWER_S = (
    STATEMENT_S + 2.0
)  # after which a connection without an answer is closed; the server reports the other limit itself
PING_S = 2.0  # for the answer of a connection from the pool, before it is used again
IDLE_S = 3  # in which a client that is in a transaction of the writer has to say what follows
PROBE_S, INTERVAL_S, PROBES = 3, 2, 3  # of TCP, on both sides: first probe after, next one after, and how many are lost
UNSENT_S = 10  # that data may stay unacknowledged


def describe_limits(writes: bool) -> dict[str, Any]:
    """Return the arguments of libpq with which both sides notice that the other is gone.

    writes: the connection is of a writer, whose transactions others wait for.
    """
    server = {
        "statement_timeout": f"{STATEMENT_S}s",
        "tcp_keepalives_idle": PROBE_S,
        "tcp_keepalives_interval": INTERVAL_S,
        "tcp_keepalives_count": PROBES,
        "tcp_user_timeout": 1_000 * UNSENT_S,
        **({"idle_in_transaction_session_timeout": f"{IDLE_S}s"} if writes else {}),
    }
    return {
        "connect_timeout": CONNECT_S,
        "keepalives": 1,
        "keepalives_idle": PROBE_S,
        "keepalives_interval": INTERVAL_S,
        "keepalives_count": PROBES,
        "tcp_user_timeout": 1_000 * UNSENT_S,
        "options": " ".join(f"-c {name}={value}" for name, value in server.items()),
    }


def bound_connections(engine: Engine, limit_s: float = ANSWER_S) -> None:
    """Let the connections of an engine on psycopg 3 wait for each answer for a limited time. Other drivers are left alone."""
    if make_url(engine.url).drivername != "postgresql+psycopg":
        return

    @event.listens_for(engine, "do_connect")
    def connect(_: Any, __: Any, arguments: list[Any], named: Mapping[str, Any]) -> Any:
        connection = connection_class().connect(*arguments, **named)
        connection.limit_s = limit_s
        return connection

    ping = engine.dialect.do_ping

    def ping_soon(connection: Any) -> bool:
        connection.limit_s = PING_S
        try:
            return ping(connection)
        finally:
            connection.limit_s = limit_s

    engine.dialect.do_ping = ping_soon  # type: ignore[assignment, method-assign]

    @event.listens_for(engine, "checkin")
    def restore(connection: Any, _: Any) -> None:
        if connection is not None:
            connection.limit_s = limit_s


def connection_class() -> Any:
    """Return the class of connections that give up. psycopg is imported here, because other databases do without."""
    import psycopg
    from psycopg.errors import OperationalError

    class BoundedConnection(psycopg.Connection[Any]):
        """A connection. limit_s: how long an answer may take; None: without a limit."""

        limit_s: float | None = None

        def wait(self, gen: Any, *arguments: Any, **named: Any) -> Any:
            """Wait for an answer. Raises OperationalError after `limit_s`, and then the connection is closed."""
            if self.limit_s is None:
                return super().wait(gen, *arguments, **named)
            try:
                return super().wait(give_up(gen, self.limit_s), *arguments, **named)
            except NoAnswer:
                self.pgconn.finish()
                raise OperationalError(f"the server has not answered for {self.limit_s:g} s") from None

    return BoundedConnection


class NoAnswer(Exception):
    """The time limit of an answer is reached."""


def give_up(waits: Generator[Any, Any, T], limit_s: float) -> Generator[Any, Any, T]:
    """Yield what a generator of psycopg waits for, and return its result. Raises NoAnswer after a time.

    The loop of psycopg that drives it comes back several times per second, also when nothing has arrived.
    """
    end = time.monotonic() + limit_s
    try:
        wanted = next(waits)
        while True:
            ready = yield wanted
            if not ready and time.monotonic() > end:
                raise NoAnswer
            wanted = waits.send(ready)
    except StopIteration as finished:
        result: T = finished.value
        return result

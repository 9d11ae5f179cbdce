"""Pages of a log: each is read at the cost of its own rows, however long the log is."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from sqlalchemy import text

from online.schemas.events import Event
from online.store import Store
from online.store.events import PAGE, append_events, read_events

EVENTS, COUNT = 4_000, 100


@pytest.fixture
def postgres(postgres_url: str) -> Iterator[Store]:
    with closing(Store(postgres_url)) as opened:
        yield opened


def list_steps(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for step in plan.get("Plans", ()):
        yield from list_steps(step)


def test_postgres_reads_no_more_rows_than_a_page_has(postgres: Store) -> None:
    """Its statistics are older than the rows, as after a bulk load: with a limit it would sort all that follows."""
    events = [Event(f"e{n}", "label", bytes(32), "a") for n in range(EVENTS)]
    postgres.submit(lambda connection: append_events(connection, "m", events, new=True)).result()
    values = {"model": "m", "after": 10, "until": 10 + COUNT}
    with postgres.reader.connect() as connection:
        statement = str(PAGE.params(**values).compile(connection.engine, compile_kwargs={"literal_binds": True}))
        [[[explained]]] = connection.execute(text(f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}")).all()
    assert max(step["Actual Rows"] for step in list_steps(explained["Plan"])) == COUNT + 1
    read = postgres.read(lambda connection: read_events(connection, "m", 10, COUNT))
    assert [event.offset for event in read] == [*range(11, 11 + COUNT)]

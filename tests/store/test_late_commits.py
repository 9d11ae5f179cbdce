"""A transaction that commits later than one with a higher offset: its events are neither skipped nor reordered."""

from sqlalchemy import delete, insert, select

from online.schemas.events import Event
from online.store import Store
from online.store.events import EVENTS, append_events, read_events


def read(store: Store, after: int, digest: str = "") -> list[int]:
    return [event.offset for event in store.read(lambda connection: read_events(connection, "m", after, 10, digest))]


def test_a_reader_stops_before_an_event_that_is_not_visible_yet(store: Store) -> None:
    events = [Event(f"e{n}", "label", bytes([n]), "a") for n in range(1, 6)]
    store.submit(lambda connection: append_events(connection, "m", events)).result()
    first = store.read(lambda connection: read_events(connection, "m", 0, 1))[0]
    late = store.read(
        lambda connection: connection.execute(select(EVENTS).where(EVENTS.c.offset.in_((1, 3)))).mappings().all()
    )
    store.submit(lambda connection: connection.execute(delete(EVENTS).where(EVENTS.c.offset == 3))).result()
    assert read(store, 0) == [1, 2] and read(store, 1, first.digest) == [2] and read(store, 2) == []
    store.submit(lambda connection: connection.execute(insert(EVENTS), [dict(late[1])])).result()
    assert read(store, 2) == [3, 4, 5]
    store.submit(lambda connection: connection.execute(delete(EVENTS).where(EVENTS.c.offset == 1))).result()
    assert read(store, 0) == []
    store.submit(lambda connection: connection.execute(insert(EVENTS), [dict(late[0])])).result()
    assert read(store, 0) == [1, 2, 3, 4, 5]

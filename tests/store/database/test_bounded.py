"""Connections to Postgres that nobody answers on: both sides notice, and neither waits for long."""

import threading
import time
from collections.abc import Iterator
from functools import partial

import pytest
from sqlalchemy import Connection, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError, OperationalError

from online.errors import Unavailable
from online.store import Store
from online.store.database.bounded import IDLE_S
from online.store.database.engine import create_engine_for, limit_answers
from online.store.events import lock_log
from online.store.notifications import SILENT_S, listen
from tests.cluster.fault_proxy import FaultProxy, LoopThread
from tests.cluster.local_cluster import target_of


@pytest.fixture
def link(postgres_url: str) -> Iterator[FaultProxy]:
    thread = LoopThread()
    proxy = FaultProxy(thread, target_of(make_url(postgres_url)))
    yield proxy
    proxy.close()
    thread.close()


def through(link: FaultProxy, url: str) -> str:
    return make_url(url).set(host=link.host, port=link.port).render_as_string(hide_password=False)


def test_a_query_that_nobody_answers_ends_and_the_next_one_works(postgres_url: str, link: FaultProxy) -> None:
    engine = create_engine_for(through(link, postgres_url), "FULL", "DEFERRED")
    with engine.connect() as connection:
        assert connection.scalar(text("SELECT 1")) == 1
        limit_answers(connection, 0.3)
        link.freeze()
        began = time.monotonic()
        with pytest.raises(OperationalError, match=r"has not answered for 0\.3 s"):
            connection.execute(text("SELECT 1"))
        assert time.monotonic() - began < 2
    link.heal()
    with engine.connect() as connection:
        assert connection.scalar(text("SELECT 2")) == 2
    engine.dispose()


def test_a_follower_notices_that_its_connection_is_silent(postgres_url: str, link: FaultProxy) -> None:
    store = Store(through(link, postgres_url))
    with pytest.raises(Exception, match="has not answered"), store.separate_connection() as connection:
        for number, _ in enumerate(listen(connection)):
            if number == 1:
                link.freeze()
                began = time.monotonic()
    assert time.monotonic() - began < SILENT_S + 3
    link.heal()
    store.close()


def test_a_connection_that_is_lost_within_a_group_refuses_all_of_it_and_the_next_group_is_written(
    postgres_url: str,
) -> None:
    store, begun, ready = Store(postgres_url), threading.Event(), threading.Event()

    def wait(_: Connection) -> None:
        begun.set()
        ready.wait(10)

    first = store.submit(wait)
    begun.wait(10)  # what follows waits for the writer, and goes into one transaction
    write = text("INSERT INTO meta (key, value) VALUES (:key, 'x')")
    lost = [
        store.submit(lambda connection: connection.execute(write, {"key": "before"})),
        store.submit(lambda connection: connection.execute(text("SELECT pg_terminate_backend(pg_backend_pid())"))),
        store.submit(lambda connection: connection.execute(write, {"key": "after"})),
    ]
    ready.set()
    first.result()
    for each in lost:
        with pytest.raises(Unavailable, match="nothing was changed"):
            each.result()
    keys = "SELECT key FROM meta WHERE value = 'x'"
    assert store.read(lambda connection: connection.execute(text(keys)).all()) == []
    store.submit(lambda connection: connection.execute(write, {"key": "later"})).result()
    assert store.read(lambda connection: connection.execute(text(keys)).all()) == [("later",)]
    store.close()


def test_replicas_whose_groups_wait_for_each_other_both_write(postgres_url: str) -> None:
    stores, meeting = [Store(postgres_url) for _ in range(2)], threading.Barrier(2)
    attempts = list[str]()

    def lock_both(connection: Connection, first: str, second: str) -> str:
        attempts.append(first)
        lock_log(connection, first)
        if len(attempts) <= 2:
            meeting.wait(10)  # each has its first lock
        lock_log(connection, second)
        return first

    work = [partial(lock_both, first="a", second="b"), partial(lock_both, first="b", second="a")]
    done = [store.submit(each) for store, each in zip(stores, work, strict=True)]
    assert [each.result(20) for each in done] == ["a", "b"] and len(attempts) == 3
    for store in stores:
        store.close()


@pytest.mark.parametrize("others", [0, 2], ids=["alone", "in a group"])
def test_work_of_a_process_that_was_too_slow_is_done_again(postgres_url: str, others: int) -> None:
    store, begun, ready = Store(postgres_url), threading.Event(), threading.Event()
    write, attempts = text("INSERT INTO meta (key, value) VALUES (:key, 'x')"), list[str]()

    def wait(_: Connection) -> None:
        begun.set()
        ready.wait(10)

    def save(connection: Connection, key: object) -> None:
        connection.execute(write, {"key": str(key)})

    def be_slow(connection: Connection) -> None:
        save(connection, "slow")
        attempts.append("slow")
        if len(attempts) == 1:
            time.sleep(IDLE_S + 1)  # as on a machine whose processors are taken away
        connection.execute(text("SELECT 1"))

    first = store.submit(wait)
    begun.wait(10)
    done = [store.submit(partial(save, key=n)) for n in range(others)] + [store.submit(be_slow)]
    ready.set()
    for each in [first, *done]:
        each.result(20)
    keys = store.read(lambda connection: connection.scalars(text("SELECT key FROM meta WHERE value = 'x'")).all())
    assert sorted(keys) == [*map(str, range(others)), "slow"] and len(attempts) == 2
    store.close()


def test_a_writer_that_is_frozen_in_a_transaction_does_not_hold_up_the_others(postgres_url: str) -> None:
    frozen, other = (create_engine_for(postgres_url, "FULL", "IMMEDIATE") for _ in range(2))
    with frozen.connect() as connection:
        lock_log(connection, "m")
        with other.begin() as second:
            lock_log(second, "m")  # the server ends the other transaction after some seconds
        with pytest.raises(DBAPIError, match=r"idle-in-transaction|closed"):
            connection.execute(text("SELECT 1"))
    frozen.dispose()
    other.dispose()

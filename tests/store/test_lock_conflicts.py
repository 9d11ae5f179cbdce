"""Two replicas whose transactions need the same locks in another order."""

import threading
from functools import partial

from sqlalchemy import Connection, text

from online.store import Store


def lock(connection: Connection, name: str) -> str:
    connection.execute(text("SELECT pg_advisory_xact_lock(hashtext(:name))"), {"name": name})
    return name


def test_work_of_two_replicas_that_lock_in_another_order_is_all_done(postgres_url: str) -> None:
    begun, orders = threading.Barrier(3), (["a", "b"] * 20, ["b", "a"] * 20)
    stores = [Store(postgres_url) for _ in orders]
    try:
        for store in stores:  # while this waits, what follows becomes one transaction
            store.submit(lambda connection: begun.wait(30))
        work = [
            (store, partial(lock, name=name)) for store, order in zip(stores, orders, strict=True) for name in order
        ]
        done = [store.submit(each) for store, each in work]
        begun.wait(30)
        assert [each.result(30) for each in done] == [*orders[0], *orders[1]]
    finally:
        for store in stores:
            store.close()

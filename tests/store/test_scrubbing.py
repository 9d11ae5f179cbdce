"""What is done to a database after an erasure, so that nothing deleted is left in its files."""

from pathlib import Path

import pytest
from sqlalchemy import Column, MetaData, String, Table

from online.store import Store
from online.store.database.schema import list_groups
from online.store.database.scrubbing import scrub
from online.store.database.tables import TableGroup


def test_every_table_of_postgres_is_vacuumed_whatever_a_plugin_calls_it(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(postgres_url)
    table = Table("Order", MetaData(), Column("id", String, primary_key=True))
    store.submit(table.create).result()
    groups = [*list_groups(), TableGroup("orders", (table,), ("1",), Path("unused"))]
    monkeypatch.setattr("online.store.database.scrubbing.list_groups", lambda: groups)
    done = scrub(store)
    store.close()
    assert done == {"kind": "postgresql", "vacuumed": [each.name for group in groups for each in group.tables]}

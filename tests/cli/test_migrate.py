"""`online migrate`: the schema of a store is ready before the first service starts."""

import json
import sqlite3
from pathlib import Path

import pytest
from sqlalchemy import text

from online.store.database.engine import create_engine_for
from online.store.database.schema import list_groups
from tests.support import run_online

HEADS = {group.name: group.head for group in list_groups()}


@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_the_first_run_creates_the_tables_and_a_second_one_changes_nothing(
    database: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    where = ["--state", str(tmp_path / "state")]
    if database == "postgres":
        where += ["--store", str(request.getfixturevalue("postgres_url"))]
    first, second = (run_online("migrate", *where, "--json") for _ in range(2))
    assert (first.returncode, second.returncode) == (0, 0), first.stderr + second.stderr
    assert json.loads(first.stdout) == {name: {"before": None, "now": head} for name, head in HEADS.items()}
    assert json.loads(second.stdout) == {name: {"before": head, "now": head} for name, head in HEADS.items()}


def test_the_revisions_are_printed_one_a_line_with_those_before(tmp_path: Path) -> None:
    printed = run_online("migrate", "--state", str(tmp_path)).stdout.splitlines()
    assert [line.split()[:2] for line in printed] == [[name, head] for name, head in HEADS.items()]
    assert all(line.endswith("(before: no tables)") for line in printed)
    assert (tmp_path / "online.db").stat().st_mode & 0o077 == 0


def test_a_store_of_a_newer_version_is_refused_and_not_changed(postgres_url: str) -> None:
    run_online("migrate", "--store", postgres_url)
    engine = create_engine_for(postgres_url, "NORMAL", "IMMEDIATE")
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = 'later'"))
    refused = run_online("migrate", "--store", postgres_url)
    assert refused.returncode == 2 and "schema revision 'later' of the core tables" in refused.stderr
    with engine.connect() as connection:
        assert connection.scalar(text("SELECT version_num FROM alembic_version")) == "later"
    engine.dispose()


@pytest.mark.parametrize(
    "store", ["postgresql+psycopg://postgres:hidden-word@127.0.0.1:1/online", "nonsense://hidden-word@db/online"]
)
def test_a_store_that_cannot_be_opened_is_refused_in_one_line_without_its_password(store: str) -> None:
    refused = run_online("migrate", "--store", store)
    assert refused.returncode == 2 and refused.stderr.count("\n") == 1, refused.stderr
    assert "cannot be opened" in refused.stderr and ":hidden-word" not in refused.stderr


def test_a_database_of_another_program_is_refused(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "online.db") as database:
        database.execute("CREATE TABLE prediction (id INTEGER)")
    refused = run_online("migrate", "--state", str(tmp_path))
    assert refused.returncode == 2 and "without a schema revision" in refused.stderr

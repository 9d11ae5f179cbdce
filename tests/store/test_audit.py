"""The audit log on both databases: append-only, chained, and every byte of it covered."""

import os
import string
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from online.state import audit_log
from online.state.audit_log import AuditLog
from online.state.signing_keys import SigningKeys
from online.store import Store
from online.store.callers.audit import AuditEntry, AuditHead, append_audit, load_audit, load_head, verify_audit

COLUMNS = ("id", "at", "actor", "address", "action", "model", "target", "details", "digest")
ENTRIES = [
    AuditEntry("key:ab12cd34", "roll_back", "192.0.2.7", "chat", "version 12", {"by": "hand"}),
    AuditEntry("visitor:5e5e5e5e", "retract", "2001:db8::1", "chat", "offset 7"),
    AuditEntry("local", "erase", "127.0.0.1", "chat", "offset 9", {"feedback": 2, "predictions": 3}),
    AuditEntry("address only", "sign_in_failed", "192.0.2.8"),
]


@pytest.fixture
def store(store: Store) -> Store:
    """The store, with the entries."""
    for entry in ENTRIES:
        store.submit(partial(append_audit, entry=entry)).result()
    return store


def tamper(store: Store, statement: str, **values: Any) -> None:
    """Run a statement with the triggers off, as the owner of the database can."""
    with store.durable_writer.begin() as connection:
        if connection.dialect.name == "sqlite":
            connection.execute(text("DROP TRIGGER IF EXISTS audit_no_update"))
            connection.execute(text("DROP TRIGGER IF EXISTS audit_no_delete"))
        else:
            connection.execute(text("ALTER TABLE audit DISABLE TRIGGER USER"))
        connection.execute(text(statement), values)


def find_broken(store: Store, known: AuditHead | None = None) -> int | None:
    broken = store.read(lambda connection: verify_audit(connection, known))
    return None if broken is None else int(broken.id)


def test_an_untouched_log_is_whole(store: Store) -> None:
    assert find_broken(store, store.read(load_head)) is None
    rows = store.read(lambda connection: load_audit(connection, 10))
    assert [(row.id, row.actor, row.action) for row in reversed(rows)] == [
        (number, entry.actor, entry.action) for number, entry in enumerate(ENTRIES, 1)
    ]


@pytest.mark.parametrize("statement", ["UPDATE audit SET actor = 'local'", "DELETE FROM audit WHERE id = 4"])
def test_the_database_refuses_to_change_an_entry(store: Store, statement: str) -> None:
    with pytest.raises(DBAPIError, match="append-only"), store.durable_writer.begin() as connection:
        connection.execute(text(statement))
    assert find_broken(store) is None


def change_one_byte(value: Any) -> Any:
    """Another value of the same length, or the next number, or a text in the place of nothing."""
    if value is None:
        return ""
    return value + 100 if isinstance(value, int) else f"{'b' if value[:1] == 'a' else 'a'}{value[1:]}"


@pytest.mark.few(3)
@pytest.mark.parametrize("id", range(1, len(ENTRIES) + 1))
def test_a_change_of_one_byte_is_found(store: Store, id: int) -> None:
    for column in COLUMNS:
        with store.reader.connect() as connection:
            value = connection.scalar(text(f"SELECT {column} FROM audit WHERE id = {id}"))
        change, changed = f"UPDATE audit SET {column} = :value WHERE id = :id", change_one_byte(value)
        tamper(store, change, value=changed, id=id)
        assert find_broken(store, store.read(load_head)) == id, column
        tamper(store, change, value=value, id=changed if column == "id" else id)
        assert find_broken(store, store.read(load_head)) is None, "as it was"


@pytest.mark.few(3)
@pytest.mark.parametrize("id", range(1, len(ENTRIES)))
def test_a_removed_entry_is_found(store: Store, id: int) -> None:
    tamper(store, f"DELETE FROM audit WHERE id = {id}")
    assert find_broken(store) == id


def test_an_inserted_entry_is_found(store: Store) -> None:
    columns = ", ".join(COLUMNS)
    tamper(store, f"INSERT INTO audit ({columns}) SELECT 0, {columns.partition(', ')[2]} FROM audit WHERE id = 1")
    assert find_broken(store) == 1


@pytest.fixture
def log(store: Store, tmp_path: Path) -> AuditLog:
    log = AuditLog(store, tmp_path, SigningKeys(tmp_path))
    log.record(AuditEntry("local", "freeze", model="chat"))
    return log


def test_a_tail_that_was_cut_off_is_found_by_the_head_in_the_state_folder(store: Store, log: AuditLog) -> None:
    assert log.verify()[1] is None
    tamper(store, "DELETE FROM audit WHERE id >= 4")
    broken = log.verify()[1]
    assert broken is not None and (broken.id, broken.reason) == (4, "the entries up to 5 are missing")


def test_a_log_that_was_written_again_as_a_whole_is_found(store: Store, log: AuditLog) -> None:
    tamper(store, "DELETE FROM audit")
    for entry in [*ENTRIES[1:], *ENTRIES]:
        store.submit(partial(append_audit, entry=entry)).result()
    assert find_broken(store) is None
    broken = log.verify()[1]
    assert broken is not None and broken.id == 5 and "kept outside the database" in broken.reason


def test_a_missing_head_is_reported(log: AuditLog) -> None:
    assert log.path.stat().st_mode & 0o777 == 0o600
    log.path.unlink()
    broken = log.verify()[1]
    assert broken is not None and "audit.head is missing or damaged" in broken.reason


def test_an_older_head_does_not_replace_a_newer_one(store: Store, log: AuditLog) -> None:
    newest = store.read(load_head)
    log.save_head(AuditHead(2, "stale"))
    assert log.load_saved_head() == newest


def test_the_name_of_a_user_is_not_in_the_log_and_their_entries_can_be_found(store: Store, log: AuditLog) -> None:
    log.record(AuditEntry("user:zoe@example.com", "retract", "192.0.2.9", "chat", "offset 3", is_person=True))
    (pseudonym,) = log.pseudonyms("zoe@example.com")
    rows = store.read(lambda connection: load_audit(connection, 10, actors=[f"user:{pseudonym}"]))
    assert [row.action for row in rows] == ["retract"]
    every = store.read(lambda connection: load_audit(connection, 10))
    assert "zoe" not in " ".join(row.actor + row.details for row in every)


def test_any_text_of_an_address_or_actor_is_stored_and_verifies(log: AuditLog) -> None:
    log.record(AuditEntry("key:\0\ud800é" + string.printable * 9, "sign_in_failed", os.fsdecode(b"\xff")))
    assert log.verify()[1] is None


@contextmanager
def no_table(store: Store) -> Iterator[None]:
    """The audit log cannot be written."""
    rename(store, "audit", "audit_away")
    yield
    rename(store, "audit_away", "audit")


def rename(store: Store, old: str, new: str) -> None:
    with store.durable_writer.begin() as connection:
        connection.execute(text(f"ALTER TABLE {old} RENAME TO {new}"))


def fields_of(caplog: pytest.LogCaptureFixture, event: str) -> list[dict[str, Any]]:
    """The fields of the log lines of an event."""
    return [vars(record)["fields"] for record in caplog.records if record.message == event]


def newest_actions(store: Store, count: int) -> list[str]:
    return [row.action for row in reversed(store.read(lambda connection: load_audit(connection, count)))]


def test_an_entry_that_cannot_be_appended_is_logged_and_appended_before_the_next(
    store: Store, log: AuditLog, caplog: pytest.LogCaptureFixture
) -> None:
    with no_table(store):
        log.record_or_postpone(AuditEntry("local", "retract", model="chat", target="offset 7"))
        log.record_or_postpone(AuditEntry("local", "roll_back", model="chat"))
    assert [each["target"] for each in fields_of(caplog, "not in the audit log yet")] == ["offset 7", None]
    log.record_or_postpone(AuditEntry("local", "thaw", model="chat"))
    assert newest_actions(store, 4) == ["freeze", "retract", "roll_back", "thaw"]
    assert log.verify()[1] is None
    log.record_or_postpone(AuditEntry("local", "erase"))
    assert newest_actions(store, 3) == ["roll_back", "thaw", "erase"], "each once"


def test_what_waits_for_the_audit_log_is_bounded_and_what_is_lost_is_logged(
    store: Store, log: AuditLog, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_log, "MAX_POSTPONED", 2)
    with no_table(store):
        for number in range(3):
            log.record_or_postpone(AuditEntry("local", f"act {number}"))
    (lost,) = fields_of(caplog, "lost to the audit log")
    assert (lost["action"], lost["reason"]) == ("act 0", "more than 2 entries wait")
    log.record_or_postpone(AuditEntry("local", "act 3"))
    assert newest_actions(store, 4) == ["freeze", "act 1", "act 2", "act 3"]


def test_an_entry_stands_where_its_head_cannot_be_saved(
    store: Store, log: AuditLog, caplog: pytest.LogCaptureFixture
) -> None:
    log.path.with_name("audit.lock").unlink()
    log.path.with_name("audit.lock").mkdir()  # it cannot be opened as a file
    log.record_or_postpone(AuditEntry("local", "thaw", model="chat"))
    assert newest_actions(store, 2) == ["freeze", "thaw"] and "the head of the audit log is not saved" in caplog.text
    log.path.with_name("audit.lock").rmdir()
    log.record_or_postpone(AuditEntry("local", "erase"))
    assert log.verify()[1] is None

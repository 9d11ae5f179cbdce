"""Copying the journal: every prediction is in the store exactly once, whichever process copies it, and whatever fails."""

import threading
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import Connection, select

from online.errors import Unavailable
from online.journal import MAGIC, SUFFIX, JournalFrame, JournalRow, JournalWriter, list_segments
from online.store import Store
from online.store.conversations.turns import TURNS
from online.store.database.meta import META
from online.store.deletion.retention import prune_oldest
from online.store.encoder_moves import save_encoder
from online.store.journal_copy import CopyCounts, JournalCopy, copy_all
from online.store.predictions import PREDICTIONS, load_predictions


@pytest.fixture
def writer(tmp_path: Path) -> JournalWriter:
    return JournalWriter(tmp_path / "journal")


@pytest.fixture
def journal(tmp_path: Path) -> JournalCopy:
    return JournalCopy(tmp_path / "journal")


def frame(*ids: str, encoder: str = "", exclude: tuple[str, ...] = (), is_repeated: bool = False) -> JournalFrame:
    rows = [JournalRow(id, "ada", b'"h\\u00e9"', b"xy", "r1", 0.5, ["r1"], [0.12345678], exclude) for id in ids]
    return JournalFrame("chat", 3, 7, encoder, "2026-01-01T00:00:00+00:00", rows, is_repeated)


def stored_ids(store: Store) -> list[str]:
    return sorted(store.read(lambda connection: list(connection.scalars(select(PREDICTIONS.c.id)))))


def test_a_prediction_is_stored_as_it_was_answered(store: Store, writer: JournalWriter, journal: JournalCopy) -> None:
    numbers = JournalRow("n", None, b"[2.50, -0, 1e1, 1000000000000000000000]", None, None, 1.0, [], [])
    writer.append(frame("a", exclude=("r2", "r3")))
    writer.append(JournalFrame("vec", 1, 0, "", "2026-01-01T00:00:00+00:00", [numbers]))
    copy_all(store, journal)
    text = store.read(lambda connection: load_predictions(connection, "chat", ["a"]))["a"]
    assert text.model_dump() == {
        "id": "a",
        "model": "chat",
        "version": 3,
        "learned_until": 7,
        "user": "ada",
        "input": '"h\\u00e9"',
        "features": b"xy",
        "choice": "r1",
        "propensity": 0.5,
        "candidates": '[["r1",0.123457]]',
        "created_at": "2026-01-01T00:00:00+00:00",
    }
    vector = store.read(lambda connection: load_predictions(connection, "vec", ["n"]))["n"]
    assert vector.input == "[2.50, -0, 1e1, 1000000000000000000000]" and vector.choice is None
    assert np.frombuffer(vector.features).tolist() == [2.5, 0.0, 10.0, 1e21]
    turns = store.read(lambda connection: connection.execute(select(TURNS)).mappings().all())
    assert [(each["prediction_id"], each["conversation"], each["exclude"]) for each in turns] == [
        ("a", None, '["r2", "r3"]')
    ]


def kept_positions(store: Store) -> list[str]:
    query = select(META.c.key).where(META.c.key.like("journal/%"))
    return sorted(store.read(lambda connection: list(connection.scalars(query))))


def copy_without_deleting(store: Store, journal: JournalCopy) -> CopyCounts:
    """Copy as a process that is killed between the commit and the deletion."""
    copied: CopyCounts = store.submit(journal.copy).result()
    return copied


def test_each_prediction_is_copied_once(store: Store, writer: JournalWriter, journal: JournalCopy) -> None:
    for number in range(30):
        writer.append(frame(f"{number:02}"))
        if number % 7 == 0:
            copy_all(store, journal)
    copy_all(store, journal)
    copy_all(store, JournalCopy(journal.folder))  # another process, which knows no positions
    assert stored_ids(store) == [f"{number:02}" for number in range(30)]
    assert not journal.has_new()


def test_a_copy_that_is_rolled_back_is_repeated(store: Store, writer: JournalWriter, journal: JournalCopy) -> None:
    writer.append(frame("a"))

    def fail(connection: Connection) -> None:
        assert journal.copy(connection).rows == 1
        raise ValueError("killed")

    with pytest.raises(ValueError, match="killed"):
        store.submit(fail).result()
    assert stored_ids(store) == []
    copy_all(store, journal)
    assert stored_ids(store) == ["a"]


def test_sealed_segments_are_deleted_once_they_are_copied(
    store: Store, writer: JournalWriter, journal: JournalCopy
) -> None:
    writer.append(frame("a"))
    copy_all(store, journal)
    assert len(list_segments(journal.folder)) == 1
    copy_all(store, journal, is_sealing=True)
    assert list_segments(journal.folder) == []
    writer.append(frame("b"))
    copy_all(store, journal, is_sealing=True)
    assert stored_ids(store) == ["a", "b"] and list_segments(journal.folder) == []
    writer.append(frame("c"))
    copy_all(store, journal)
    assert len(kept_positions(store)) == 1, "positions of deleted segments are deleted"


def test_a_frame_that_was_written_again_is_stored_once(
    store: Store, writer: JournalWriter, journal: JournalCopy
) -> None:
    """Its writer could not know whether a copier had seen it in the segment that was sealed meanwhile."""
    writer.append(frame("a"))
    [segment] = list_segments(journal.folder)
    segment.seal()
    writer.append(frame("b", "c", exclude=("r2",)))
    copy_all(store, journal)
    assert stored_ids(store) == ["a", "b", "c"] and list_segments(journal.folder) != []
    assert len(store.read(lambda connection: connection.execute(select(TURNS)).all())) == 2


def test_features_of_a_replaced_encoder_are_computed_again(store: Store, writer: JournalWriter, tmp_path: Path) -> None:
    calls = list[tuple[str, str, list[str]]]()

    def encode(model: str, encoder: str, inputs: object) -> list[bytes]:
        assert isinstance(inputs, list)
        calls.append((model, encoder, inputs))
        return [b"new"] * len(inputs)

    journal = JournalCopy(tmp_path / "journal", encode)
    writer.append(frame("a", encoder="old"))
    writer.append(frame("b", encoder="tuned"))
    store.submit(lambda connection: save_encoder(connection, "chat", {"sha256": "tuned"})).result()
    copy_all(store, journal)
    found = store.read(lambda connection: load_predictions(connection, "chat", ["a", "b"]))
    assert (found["a"].features, found["b"].features) == (b"new", b"xy")
    assert calls == [("chat", "tuned", ['"h\\u00e9"'])]


def test_what_comes_before_damage_is_copied_and_the_segment_is_kept_aside(
    store: Store, writer: JournalWriter, journal: JournalCopy, caplog: pytest.LogCaptureFixture
) -> None:
    writer.append(frame("a"))
    writer.append(frame("b"))
    [segment] = list_segments(journal.folder)
    content = bytearray(segment.path.read_bytes())
    content[-3] ^= 0xFF
    segment.path.write_bytes(content)
    copy_all(store, journal)
    assert stored_ids(store) == ["a"]
    assert [path.suffix for path in journal.folder.iterdir()] == [".damaged"]
    assert "a segment of the journal is damaged" in caplog.text
    writer.append(frame("c"))
    copy_all(store, journal)
    assert stored_ids(store) == ["a", "c"]


def test_a_large_journal_is_copied_in_several_transactions(
    store: Store, writer: JournalWriter, journal: JournalCopy
) -> None:
    for number in range(40):
        writer.append(frame(f"{number:02}"))
    copied = list[CopyCounts]()
    while not copied or not copied[-1].is_complete:
        copied.append(store.submit(lambda connection: journal.copy(connection, 500)).result())
        journal.note_committed(copied[-1])
    assert len(copied) > 5 and sum(each.rows for each in copied) == 40
    assert stored_ids(store) == [f"{number:02}" for number in range(40)]


def test_two_processes_may_copy_at_once(store: Store, writer: JournalWriter, journal: JournalCopy) -> None:
    other = Store(store.url)
    for number in range(200):
        writer.append(frame(f"{number:03}"))
    copies = [(store, journal), (other, JournalCopy(journal.folder))]
    threads = [threading.Thread(target=copy_all, args=(*each, True)) for each in copies]
    for thread in threads:
        thread.start()
    for number in range(200, 260):
        writer.append(frame(f"{number:03}"))
    for thread in threads:
        thread.join()
    copy_all(store, journal, is_sealing=True)
    other.close()
    assert stored_ids(store) == [f"{number:03}" for number in range(260)]


def test_a_kill_between_commit_and_deletion_stores_nothing_twice(store: Store, writer: JournalWriter) -> None:
    folder = writer.folder
    writer.append(frame("a"))
    JournalCopy(folder).seal_all()
    assert [each.is_sealed for each in copy_without_deleting(store, JournalCopy(folder)).finished] == [True]
    copy_all(store, JournalCopy(folder))
    assert stored_ids(store) == ["a"] and list_segments(folder) == [] and kept_positions(store) == []


def test_a_kill_between_the_deletions_of_file_and_position_leaves_the_position_for_a_while(
    store: Store, writer: JournalWriter, journal: JournalCopy, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer.append(frame("a"))
    journal.seal_all()
    copied = copy_without_deleting(store, journal)
    journal.note_committed(copied)
    other = JournalCopy(journal.folder)
    store.submit(other.forget_orphans).result()
    assert len(kept_positions(store)) == 1, "it may be of a service on another machine"
    monkeypatch.setattr("online.store.journal_copy.ORPHANED_AFTER_S", -1)
    store.submit(other.forget_orphans).result()
    assert kept_positions(store) == []


def test_a_frame_that_was_written_after_the_seal_and_again_is_stored_once(
    store: Store, writer: JournalWriter, journal: JournalCopy
) -> None:
    """The copier reads the repetition first, and is killed before it deletes the sealed segment."""
    writer.append(frame("a"))
    journal.seal_all()
    [first] = list_segments(journal.folder)
    content = first.path.read_bytes()
    writer.append(frame("b", "c", exclude=("r2",)))
    complete = first.path.read_bytes()
    first.path.write_bytes(content)
    copy_without_deleting(store, journal)
    first.path.write_bytes(complete)
    writer.append(frame("d"))
    copy_all(store, JournalCopy(journal.folder), is_sealing=True)
    assert stored_ids(store) == ["a", "b", "c", "d"] and list_segments(journal.folder) == []


def test_a_segment_that_a_backup_brings_back_is_stored_once(
    store: Store, writer: JournalWriter, journal: JournalCopy
) -> None:
    writer.append(frame("a", "b"))
    writer.append(frame("b", "c"))  # a request that was tried again under its id
    [segment] = list_segments(journal.folder)
    content = segment.path.read_bytes()
    copy_all(store, journal, is_sealing=True)
    assert kept_positions(store) == []
    segment.path.write_bytes(content)
    writer.append(frame("d"))
    copy_all(store, JournalCopy(journal.folder), is_sealing=True)
    assert stored_ids(store) == ["a", "b", "c", "d"]


def test_a_prediction_that_the_store_does_not_take_does_not_hold_up_the_others(
    store: Store, writer: JournalWriter, journal: JournalCopy, caplog: pytest.LogCaptureFixture
) -> None:
    strange = JournalRow("b", "a\0da", b'"x"', b"xy", "r1", 0.5, [], [])  # Postgres takes no NUL
    writer.append(JournalFrame("chat", 3, 7, "", "2026-01-01T00:00:00+00:00", [*frame("a").rows, strange]))
    writer.append(frame("c"))
    copy_all(store, journal)
    if store.url.startswith("sqlite"):
        assert stored_ids(store) == ["a", "b", "c"]
    else:
        assert stored_ids(store) == ["a", "c"]
        assert "the store does not take a prediction, which is lost" in caplog.text
    copy_all(store, JournalCopy(journal.folder), is_sealing=True)
    assert list_segments(journal.folder) == []


def test_what_comes_before_damage_is_not_lost_with_the_transaction(
    store: Store, writer: JournalWriter, journal: JournalCopy
) -> None:
    writer.append(frame("a"))
    [segment] = list_segments(journal.folder)
    with segment.path.open("ab") as file:
        file.write(bytes(100))

    def fail(connection: Connection) -> None:
        journal.copy(connection)
        raise ValueError("killed")

    with pytest.raises(ValueError, match="killed"):
        store.submit(fail).result()
    copy_all(store, JournalCopy(journal.folder))
    assert stored_ids(store) == ["a"]
    assert [path.suffix for path in journal.folder.iterdir()] == [".damaged"] and kept_positions(store) == []


def test_a_segment_that_cannot_be_read_does_not_hold_up_the_others(
    store: Store, writer: JournalWriter, journal: JournalCopy, caplog: pytest.LogCaptureFixture
) -> None:
    writer.open()
    strange = journal.folder / f"{0:016x}-0{SUFFIX}"
    strange.mkdir()  # no user can read it as a file
    writer.append(frame("a"))
    copy_all(store, journal)
    writer.append(frame("b"))
    copy_all(store, journal)
    assert stored_ids(store) == ["a", "b"] and not journal.has_new()
    assert caplog.text.count("a segment of the journal cannot be read") == 1
    with pytest.raises(Unavailable, match="make it readable, or move it away"):
        copy_all(store, journal, is_sealing=True)
    assert list_segments(journal.folder)[0].path == strange


def test_the_end_that_a_killed_writer_has_left_is_reported_and_deleted(
    store: Store, writer: JournalWriter, journal: JournalCopy, caplog: pytest.LogCaptureFixture
) -> None:
    writer.append(frame("a"))
    writer.append(frame("b"))
    [segment] = list_segments(journal.folder)
    segment.path.write_bytes(segment.path.read_bytes()[:-7])
    copy_all(store, journal, is_sealing=True)
    assert stored_ids(store) == ["a"] and list_segments(journal.folder) == []
    assert "the end of a segment of the journal is ignored" in caplog.text


def test_a_segment_without_predictions_is_nothing_new(writer: JournalWriter, journal: JournalCopy) -> None:
    writer.open()
    assert [segment.size for segment in list_segments(journal.folder)] == [len(MAGIC)] and not journal.has_new()
    journal.seal_all()
    assert journal.has_new(), "it is to be deleted"


def test_predictions_that_are_copied_late_are_pruned_too(
    store: Store, writer: JournalWriter, journal: JournalCopy
) -> None:
    writer.append(frame("0002", "0004", "chat-2"))
    copy_all(store, journal)
    while store.submit(lambda connection: prune_oldest(connection, 10)).result().seen:
        pass
    assert stored_ids(store) == []
    writer.append(frame("0001", "0003", "chat-1"))
    writer.append(frame("0005", "chat-3"))
    copy_all(store, journal)
    while store.submit(lambda connection: prune_oldest(connection, 10)).result().seen:
        pass
    assert stored_ids(store) == []

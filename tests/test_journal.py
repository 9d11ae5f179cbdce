"""The journal: what is appended is read back, whatever is sealed, cut off or damaged meanwhile."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from online import journal
from online.errors import Unavailable
from online.journal import (
    HEADER,
    MAGIC,
    DamagedSegment,
    JournalFrame,
    JournalRow,
    JournalWriter,
    list_segments,
    read_frames,
)

LARGE = 10**9


def frame(*ids: str, size: int = 10) -> JournalFrame:
    rows = [JournalRow(id, "ada", b'"hello"', b"x" * size, "r1", 1.0, ["r1", "r2"], [0.75, 0.25], ["r3"]) for id in ids]
    return JournalFrame("chat", 3, 7, "", "2026-01-01T00:00:00+00:00", rows)


def read_ids(folder: Path, max_bytes: int = LARGE) -> list[str]:
    """The ids of all predictions that are not repeated, and of the repeated ones those that are new."""
    ids = list[str]()
    for segment in list_segments(folder):
        position = 0
        while frames := list(read_frames(segment.path, position, max_bytes)):
            position = frames[-1].position
            ids += (
                row.id for each in frames for row in each.frame.rows if row.id not in ids or not each.frame.is_repeated
            )
    return ids


def test_what_is_appended_is_read_back_as_it_was(tmp_path: Path) -> None:
    writer = JournalWriter(tmp_path)
    writer.append(first := frame("a", "b"))
    writer.append(second := frame("c"))
    [segment] = list_segments(tmp_path)
    assert [each.frame for each in read_frames(segment.path, 0, LARGE)] == [first, second]
    assert not segment.is_sealed and segment.path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("max_bytes", [1, 60, 200, LARGE])
def test_a_reader_goes_on_where_it_stopped(tmp_path: Path, max_bytes: int) -> None:
    writer = JournalWriter(tmp_path)
    for number in range(20):
        writer.append(frame(str(number), size=number * 10))
    assert read_ids(tmp_path, max_bytes) == [str(number) for number in range(20)]


def test_a_sealed_segment_is_followed_by_another_and_its_last_frame_is_repeated(tmp_path: Path) -> None:
    writer = JournalWriter(tmp_path)
    writer.append(frame("a"))
    [first] = list_segments(tmp_path)
    first.seal()
    writer.append(frame("b"))
    writer.append(frame("c"))
    sealed, second = list_segments(tmp_path)
    assert sealed.is_sealed and not second.is_sealed and sealed.name == first.name
    flags = [each.frame.is_repeated for each in read_frames(second.path, 0, LARGE)]
    assert flags == [True, False] and read_ids(tmp_path) == ["a", "b", "c"]


def test_a_segment_that_was_deleted_loses_nothing_that_is_written_afterwards(tmp_path: Path) -> None:
    writer = JournalWriter(tmp_path)
    writer.append(frame("a"))
    [first] = list_segments(tmp_path)
    first.seal()
    first.path.unlink()
    writer.append(frame("b"))
    assert read_ids(tmp_path) == ["b"]


def test_a_segment_that_somebody_has_deleted_is_not_written_to(tmp_path: Path) -> None:
    writer = JournalWriter(tmp_path)
    writer.append(frame("a"))
    list_segments(tmp_path)[0].path.unlink()
    writer.append(frame("b"))
    assert read_ids(tmp_path) == ["b"]


def test_frames_of_one_call_are_written_together_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = JournalWriter(tmp_path)
    writer.append(frame("a"), frame("b", "c"))
    whole = os.write
    monkeypatch.setattr(os, "write", lambda file, data: whole(file, bytes(data)[:-5]))
    with pytest.raises(Unavailable):
        writer.append(frame("d"), frame("e"))
    monkeypatch.undo()
    writer.append(frame("f"))
    assert read_ids(tmp_path) == ["a", "b", "c", "f"]


def test_a_full_segment_is_sealed_by_its_writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "MAX_SEGMENT_BYTES", 300)
    writer = JournalWriter(tmp_path)
    for number in range(9):
        writer.append(frame(str(number), size=100))
    segments = list_segments(tmp_path)
    assert len(segments) > 2 and all(each.is_sealed for each in segments[:-1])
    assert read_ids(tmp_path) == [str(number) for number in range(9)]
    assert not any(each.frame.is_repeated for segment in segments for each in read_frames(segment.path, 0, LARGE))


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_a_frame_that_is_cut_off_is_left_for_later(tmp_path: Path, cut: int) -> None:
    writer = JournalWriter(tmp_path)
    writer.append(frame("a"))
    writer.append(frame("b"))
    [segment] = list_segments(tmp_path)
    content = segment.path.read_bytes()
    segment.path.write_bytes(content[:-cut])
    assert read_ids(tmp_path) == ["a"]
    segment.path.write_bytes(content)
    assert read_ids(tmp_path) == ["a", "b"]


def test_every_changed_byte_is_noticed(tmp_path: Path) -> None:
    writer = JournalWriter(tmp_path)
    writer.append(frame("a"))
    [segment] = list_segments(tmp_path)
    content = segment.path.read_bytes()
    for place in range(len(content)):
        segment.path.write_bytes(content[:place] + bytes([content[place] ^ 0x10]) + content[place + 1 :])
        try:
            found = list(read_frames(segment.path, 0, LARGE))
        except DamagedSegment:
            continue
        assert found == [] and place < len(MAGIC) + HEADER.size, (
            place
        )  # a longer length looks like a frame being written


def test_a_tail_of_zeros_is_damage(tmp_path: Path) -> None:
    """What a failure of power may leave of a file."""
    writer = JournalWriter(tmp_path)
    writer.append(frame("a"))
    [segment] = list_segments(tmp_path)
    with segment.path.open("ab") as file:
        file.write(bytes(100))
    frames = read_frames(segment.path, 0, LARGE)
    assert next(frames).frame.rows[0].id == "a"
    with pytest.raises(DamagedSegment, match="a frame of 0 bytes at byte"):
        next(frames)


def test_a_frame_of_another_release_is_not_taken_for_one_of_this(tmp_path: Path) -> None:
    writer = JournalWriter(tmp_path)
    writer.append(frame("a"))
    strange = msgspec.structs.replace(frame("b"), version="three")
    writer.append(strange)
    [segment] = list_segments(tmp_path)
    frames = read_frames(segment.path, 0, LARGE)
    position = next(frames).position
    with pytest.raises(DamagedSegment, match="a frame that this release cannot read") as error:
        next(frames)
    assert error.value.position == position


def count_open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 KiB. Only root can make one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("no file system can be mounted here")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_a_disk_that_is_full_refuses_and_is_used_again_once_there_is_room(small_disk: Path) -> None:
    folder, writer = small_disk / "journal", JournalWriter(small_disk / "journal")
    answered, files = list[str](), count_open_files()
    for number in range(100):
        try:
            writer.append(frame(str(number), size=5_000))
            answered.append(str(number))
        except Unavailable as error:
            assert "No space left on device" in str(error)
    assert 20 < len(answered) < 100 and read_ids(folder) == answered
    assert len(list_segments(folder)) < 5 and count_open_files() <= files + 1
    assert any(segment.is_sealed for segment in list_segments(folder)), "a copier may delete it"
    writer.close()
    with pytest.raises(Unavailable):  # not even the beginning of a segment
        for number in range(100):
            JournalWriter(folder).append(frame(str(number), size=1))
    assert all(segment.size >= len(MAGIC) for segment in list_segments(folder))
    (oldest,) = list_segments(folder)[:1]
    oldest.path.unlink()
    writer.append(frame("later"))
    assert read_ids(folder)[-1] == "later"


WRITE_BEYOND_A_LIMIT = """
import resource, sys
from pathlib import Path
from online.errors import Unavailable
from online.journal import JournalWriter
from tests.test_journal import frame
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
writer = JournalWriter(Path(sys.argv[1]))
for number in range(60):
    try:
        writer.append(frame(str(number), size=1_000))
        print(number)
    except Unavailable:
        pass
"""


def test_a_file_that_cannot_grow_is_followed_by_another(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WRITE_BEYOND_A_LIMIT, str(tmp_path)]
    answered = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert read_ids(tmp_path) == answered and len(answered) > 45
    assert len(list_segments(tmp_path)) > 2


def test_a_full_disk_records_nothing_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = JournalWriter(tmp_path)
    writer.append(frame("a"))
    whole = os.write
    monkeypatch.setattr(os, "write", lambda file, data: whole(file, bytes(data)[:-5]))  # as write(2) does near the end
    with pytest.raises(Unavailable, match="journal of predictions cannot be written"):
        writer.append(frame("b"))
    monkeypatch.undo()
    writer.append(frame("c"))
    assert read_ids(tmp_path) == ["a", "c"]


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "journal").write_text("a file")
    with pytest.raises(Unavailable, match="journal of predictions cannot be written"):
        JournalWriter(tmp_path / "journal").append(frame("a"))


WRITE_UNTIL_KILLED = """
import sys
from pathlib import Path
from tests.test_journal import frame
from online.journal import JournalWriter
writer = JournalWriter(Path(sys.argv[1]))
for number in range(10**6):
    writer.append(frame(str(number), size=2_000))
    sys.stdout.write(f"{number}\\n")
    sys.stdout.flush()
"""


def test_a_killed_writer_loses_nothing_that_it_has_acknowledged(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WRITE_UNTIL_KILLED, str(tmp_path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    acknowledged = [next(process.stdout).strip() for _ in range(200)]
    process.send_signal(signal.SIGKILL)
    acknowledged += [line.strip() for line in process.stdout]
    process.wait()
    ids = read_ids(tmp_path)
    assert ids[: len(acknowledged)] == acknowledged and len(ids) <= len(acknowledged) + 1

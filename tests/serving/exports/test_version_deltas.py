"""Deltas between exported files: kept, computed one at a time, and refused for files that are too large."""

import asyncio

import numpy as np
import pytest
from safetensors.numpy import save

from online.errors import NotFound, TooLarge
from online.models.exchange.deltas import apply_delta
from online.serving.exports import deltas
from online.serving.exports.deltas import MAX_FILE_BYTES, VersionDeltas, VersionFile, tag_delta
from online.serving.exports.learner_files import LearnerFile
from tests.serving.exports.test_export_files import ask_too_often


class File:
    """A file of a version, which counts how often it is read."""

    def __init__(self, version: int) -> None:
        self.data, self.reads = save({"weights": np.full(50, version, np.float32)}), 0
        self.file = VersionFile(version, f"sha256 of {version}", len(self.data), self.read)

    def read(self) -> bytes:
        self.reads += 1
        return self.data


def test_a_delta_is_computed_once_for_each_pair_and_encoding() -> None:
    old, new, found = File(1), File(2), VersionDeltas()
    first = asyncio.run(found.find(old.file, new.file, "identity"))
    assert apply_delta(old.data, first) == new.data
    assert asyncio.run(found.find(old.file, new.file, "identity")) is first and new.reads == 1
    asyncio.run(found.find(old.file, new.file, "zstd"))
    asyncio.run(found.find(new.file, old.file, "zstd"))
    assert new.reads == 3


def test_the_tag_names_both_files_and_the_encoding_and_reads_neither() -> None:
    old, new = File(1), File(2)
    pairs = [(old, new), (new, old), (old, old)]
    tags = {tag_delta(one.file, other.file, encoding) for one, other in pairs for encoding in ("zstd", "gzip")}
    assert len(tags) == 6 and not old.reads + new.reads


def test_few_requests_may_wait_for_a_delta_and_they_hold_no_thread() -> None:
    old, new, found = File(1), File(2), VersionDeltas()
    sent = asyncio.run(ask_too_often(found.turns, lambda: found.find(old.file, new.file, "zstd"), threads=1))
    assert len({id(each) for each in sent}) == 1 and new.reads == 1


def test_the_kept_deltas_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    old, new, found = File(1), File(2), VersionDeltas()
    one = len(asyncio.run(found.find(old.file, new.file, "identity")))
    monkeypatch.setattr(deltas, "MAX_KEPT_BYTES", 2 * one)
    for version in range(3, 8):
        asyncio.run(found.find(old.file, File(version).file, "identity"))
    assert len(found.kept) == 2
    assert tag_delta(old.file, File(7).file, "identity") in found.kept
    monkeypatch.setattr(deltas, "MAX_KEPT_BYTES", one - 1)
    assert asyncio.run(found.find(new.file, old.file, "identity")) and not found.kept


def test_files_that_are_too_large_are_refused_before_they_are_read() -> None:
    small, large = File(1), VersionFile(2, "b", MAX_FILE_BYTES + 1, lambda: pytest.fail("it is not read"))
    for pair in ((small.file, large), (large, small.file)):
        with pytest.raises(TooLarge, match=r"version 2 is a file of 67,108,865 bytes.*: load the whole file"):
            asyncio.run(VersionDeltas().find(*pair, "zstd"))


def test_a_file_that_is_deleted_before_it_is_read_is_not_found() -> None:
    def read() -> bytes:
        raise FileNotFoundError("model.safetensors")

    with pytest.raises(NotFound, match="send the request again"):
        asyncio.run(VersionDeltas().find(File(1).file, VersionFile(2, "b", 1, read), "zstd"))


def test_a_file_of_a_learner_is_in_memory() -> None:
    file = VersionFile.of_learner(LearnerFile(3, b"data", "hash"))
    assert (file.version, file.sha256, file.size_bytes, file.read()) == (3, "hash", 4, b"data")

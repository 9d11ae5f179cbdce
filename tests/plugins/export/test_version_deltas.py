"""Deltas between exported files: kept, computed one at a time, and refused for files that are too large."""

import asyncio
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save

from online.errors import NotFound, TooLarge
from online.plugins.export import deltas
from online.plugins.export.deltas import MAX_FILE_BYTES, VersionDeltas, VersionFile, tag_delta
from online.plugins.export.exporter import build_graph, describe_export, read_encoder, unwrap
from online.plugins.export.file_deltas import TensorFile, apply_delta, hash_file
from online.plugins.export.files import KeptExport
from online.plugins.export.graph import ExportGraphBuilder
from online.plugins.export.learner_files import LearnerFile
from tests.models.synthetic import texts
from tests.plugins.export.cases import TEXT, Case
from tests.plugins.export.test_export_files import TENSORS, ask_too_often


class File:
    """A file of a version, which counts how often it is opened."""

    def __init__(self, version: int) -> None:
        self.data, self.reads = save({"weights": np.full(50, version, np.float32)}), 0
        self.file = VersionFile(version, f"sha256 of {version}", len(self.data), self.open)

    def open(self) -> TensorFile:
        self.reads += 1
        return TensorFile.parse(self.data)


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
        with pytest.raises(TooLarge, match=r"version 2 is a file of 134,217,729 bytes.*: load the whole file"):
            asyncio.run(VersionDeltas().find(*pair, "zstd"))


def test_a_file_that_is_deleted_before_it_is_read_is_not_found(tmp_path: Path) -> None:
    gone = VersionFile.of_export(KeptExport(tmp_path / "model.safetensors", {"version": 2, "bytes": 1, "sha256": "b"}))
    with pytest.raises(NotFound, match="send the request again"):
        asyncio.run(VersionDeltas().find(File(1).file, gone, "zstd"))


def test_what_did_not_change_may_be_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the text encoder beside the weights of a model: the limit is of what changed."""
    encoder, kept, files = np.arange(100_000, dtype=np.float32), list[VersionFile](), list[bytes]()
    for version in (1, 2):
        data = save({"encoder": encoder, "weights": np.full(50, version, np.float32)}, {"online": f"{version}"})
        path = tmp_path / f"{version}.safetensors"
        path.write_bytes(data)
        manifest = {"version": version, "bytes": len(data), "sha256": hash_file(data)}
        kept.append(VersionFile.of_export(KeptExport(path, manifest)))
        files.append(data)
    monkeypatch.setattr(deltas, "MAX_CHANGED_BYTES", 200)
    delta = asyncio.run(VersionDeltas().find(kept[0], kept[1], "identity"))
    assert len(delta) < 1_000 and apply_delta(files[0], delta) == files[1]
    monkeypatch.setattr(deltas, "MAX_CHANGED_BYTES", 199)
    with pytest.raises(
        TooLarge, match=r"between versions 1 and 2 tensors of more than 199 bytes changed: load the whole"
    ):
        asyncio.run(VersionDeltas().find(kept[0], kept[1], "zstd"))


def test_a_file_of_a_learner_is_in_memory() -> None:
    data = File(3).data
    file = VersionFile.of_learner(LearnerFile(3, data, "hash"))
    assert (file.version, file.sha256, file.size_bytes) == (3, "hash", len(data))
    assert file.open().write() == data


@pytest.mark.long
def test_a_model_of_texts_is_followed_without_its_encoder(tmp_path: Path) -> None:
    """The exported files have 90 MB each, of which the encoder is the same."""
    paths, kept = [tmp_path / f"{version}.safetensors" for version in (1, 2)], list[VersionFile]()
    for version, path in enumerate(paths, 1):
        path.write_bytes(write_tensors(version))
        manifest = {"version": version, "bytes": path.stat().st_size, "sha256": hash_file(path.read_bytes())}
        kept.append(VersionFile.of_export(KeptExport(path, manifest)))
    assert kept[0].size_bytes > 80_000_000
    delta = asyncio.run(VersionDeltas().find(kept[0], kept[1], "identity"))
    assert len(delta) < 100_000
    assert apply_delta(paths[0].read_bytes(), delta) == paths[1].read_bytes()


def write_tensors(version: int) -> bytes:
    """A classifier of texts that has learned more in each version."""
    examples = texts(20 * version)
    restored = Case("texts", "classifier", TEXT, tuple(examples), texts).version()
    spec, model, retired = unwrap(restored)
    graph = build_graph(spec, model, ExportGraphBuilder(TENSORS.wide, read_encoder(restored)), retired)
    subject = replace(restored.subject, version=version)
    return TENSORS.write(graph, describe_export(subject, spec, graph, TENSORS))

"""Exported files on the disk: found again, bounded, and gone with their version."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest

from online.api.app import create_app
from online.errors import Overloaded
from online.io.atomic import write_file
from online.io.wakeup import Wakeup
from online.models import Example, Model, create, recipe
from online.plugins.export import files
from online.plugins.export import model_exports as exporting
from online.plugins.export.exporter import ExportedModel, export
from online.plugins.export.files import ABANDONED_S, ExportFolder, KeptExport
from online.plugins.export.formats import FORMATS
from online.plugins.export.learner_files import LearnerFile, LearnerFiles
from online.plugins.export.model_exports import VersionExports, exports_of
from online.serving.model_runtime import ModelRuntime
from online.serving.turns import MAX_WAITING, Turns
from online.settings import Settings
from online.snapshots import Snapshots
from online.snapshots.manifest import Manifest
from tests.api.auth.access import ADMIN_KEY, VEC
from tests.plugins.export.cases import CASES

T = TypeVar("T")
ONNX, TENSORS = FORMATS["onnx"], FORMATS["safetensors"]
VERSION = next(case for case in CASES if case.name == "slda-vector").version()


@pytest.fixture
def snapshots(tmp_path: Path) -> Snapshots:
    """Three versions."""
    found = Snapshots(tmp_path / "snapshots", "m", Wakeup(tmp_path / "bell"))
    for _ in range(3):
        publish(found)
    return found


def publish(snapshots: Snapshots, model: Model = VERSION.served.model, recipe: str = "r", durable: bool = True) -> None:
    number = snapshots.folder.next_version()
    manifest = Manifest(
        snapshots.model,
        number,
        None,
        learned_until=number,
        created_at="2026-01-01T00:00:00+00:00",
        state_sha256=model.fingerprint(),
        weights_sha256="",
        feature_epoch=model.feature_epoch(),
        recipe=recipe,
        durable=durable,
    )
    snapshots.publisher.publish(model.state(), manifest)


def exported(form: str = "onnx") -> ExportedModel:
    return export(VERSION, FORMATS[form])


def keep_all(folder: ExportFolder, snapshots: Snapshots) -> None:
    for number in snapshots.folder.versions():
        folder.keep(snapshots.folder.manifest(number), ONNX, exported())


def find(folder: ExportFolder, snapshots: Snapshots, number: int) -> KeptExport | None:
    return folder.find(snapshots.folder.manifest(number), ONNX)


def test_what_is_kept_is_found_with_its_manifest(tmp_path: Path, snapshots: Snapshots) -> None:
    folder, file = ExportFolder(tmp_path / "exports", snapshots), exported()
    assert find(folder, snapshots, 1) is None
    folder.keep(snapshots.folder.manifest(1), ONNX, file)
    kept = find(folder, snapshots, 1)
    assert kept is not None and kept.path.read_bytes() == file.data and kept.sha256 == file.manifest.sha256
    assert folder.find(snapshots.folder.manifest(1), TENSORS) is None and find(folder, snapshots, 2) is None
    assert not [path for path in (tmp_path / "exports").iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize("name", ["model.onnx", "manifest.json"])
def test_an_entry_that_is_not_whole_is_not_found_and_written_again(
    tmp_path: Path, snapshots: Snapshots, name: str
) -> None:
    folder = ExportFolder(tmp_path / "exports", snapshots)
    folder.keep(snapshots.folder.manifest(1), ONNX, exported())
    kept = find(folder, snapshots, 1)
    assert kept is not None
    kept.path.with_name(name).write_bytes(b"{}")
    assert find(folder, snapshots, 1) is None
    folder.keep(snapshots.folder.manifest(1), ONNX, exported())
    assert find(folder, snapshots, 1) is not None


def test_the_entries_that_were_read_least_recently_go_first(tmp_path: Path, snapshots: Snapshots) -> None:
    one = len(exported().data)
    folder = ExportFolder(tmp_path / "exports", snapshots, max_bytes=3 * one)
    for number in (1, 2):
        folder.keep(snapshots.folder.manifest(number), ONNX, exported())
    for place, path in enumerate(sorted((tmp_path / "exports").iterdir())):
        os.utime(path, (place, place))
    assert find(folder, snapshots, 1) is not None  # read now, later than the other one
    folder = ExportFolder(tmp_path / "exports", snapshots, max_bytes=3 * one)
    folder.keep(snapshots.folder.manifest(3), ONNX, exported())
    present = [number for number in (1, 2, 3) if find(folder, snapshots, number)]
    assert 3 in present and 2 not in present
    small = ExportFolder(tmp_path / "exports", snapshots, max_bytes=1)
    small.keep(snapshots.folder.manifest(2), ONNX, exported())
    assert [number for number in (1, 2, 3) if find(small, snapshots, number)] == [2]  # the newest is always kept


def test_entries_of_versions_that_are_gone_are_deleted(tmp_path: Path, snapshots: Snapshots) -> None:
    folder = ExportFolder(tmp_path / "exports", snapshots)
    keep_all(folder, snapshots)
    snapshots.retention.remove_before(3)
    assert folder.remove_gone() == 2
    assert [path.name.partition("-")[0] for path in (tmp_path / "exports").iterdir()] == ["3"]
    assert ExportFolder(tmp_path / "nothing", snapshots).remove_gone() == 0


def leave_unfinished(folder: ExportFolder, version: int, age_s: float) -> Path:
    """What a process leaves that is killed while it writes an entry, or that still writes it."""
    left = folder.folder / f".{version}-abcd1234"
    left.mkdir(parents=True)
    (left / "model.onnx").write_bytes(b"a whole model")
    os.utime(left, (folder.clock() - age_s,) * 2)
    return left


def test_what_a_killed_process_has_left_is_deleted_and_what_another_one_writes_is_not(
    tmp_path: Path, snapshots: Snapshots
) -> None:
    folder = ExportFolder(tmp_path / "exports", snapshots, clock=lambda: 1_000_000.0)
    old, new = leave_unfinished(folder, 1, ABANDONED_S + 1), leave_unfinished(folder, 2, ABANDONED_S - 1)
    assert folder.remove_gone() == 1
    assert not old.exists() and new.exists()


def test_an_unfinished_entry_of_a_version_that_is_gone_is_deleted_at_once(tmp_path: Path, snapshots: Snapshots) -> None:
    folder = ExportFolder(tmp_path / "exports", snapshots, clock=lambda: 1_000_000.0)
    gone, kept = leave_unfinished(folder, 1, 0), leave_unfinished(folder, 3, 0)
    snapshots.retention.remove_before(3)
    assert folder.remove_gone() == 1
    assert not gone.exists() and kept.exists()


def test_an_entry_that_an_erasure_deletes_while_it_is_written_is_not_kept(
    tmp_path: Path, snapshots: Snapshots, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = ExportFolder(tmp_path / "exports", snapshots)

    def write_and_erase(path: Path, data: bytes, durable: bool) -> None:
        write_file(path, data, durable=durable)
        snapshots.retention.remove_before(3)
        folder.remove_gone()

    manifest = snapshots.folder.manifest(1)
    monkeypatch.setattr(files, "write_file", write_and_erase)
    folder.keep(manifest, ONNX, exported())
    assert not [*folder.folder.iterdir()]


def test_a_version_that_is_deleted_while_it_is_exported_leaves_nothing(tmp_path: Path, snapshots: Snapshots) -> None:
    folder, manifest = ExportFolder(tmp_path / "exports", snapshots), snapshots.folder.manifest(1)
    snapshots.retention.remove_before(3)
    folder.keep(manifest, ONNX, exported())
    assert not list((tmp_path / "exports").iterdir())


def test_few_requests_may_wait_for_another_export(tmp_path: Path) -> None:
    exports: VersionExports = exports_of(build(tmp_path)).versions
    found = asyncio.run(ask_too_often(exports.turns, lambda: exports.find(1, ONNX)))
    assert len({each.path for each in found}) == 1 and exports.turns.waiting == 0


def test_of_two_processes_that_are_asked_for_an_export_one_computes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, calls = exports_of(build(tmp_path)).versions, list[object]()
    second = VersionExports(first.workspace, first.loader, first.disk)

    def count_and_export(*given: Any) -> ExportedModel:
        calls.append(given)
        return export(*given)

    async def ask_both() -> list[KeptExport]:
        return await asyncio.gather(*(each.find(1, ONNX) for each in (first, second)))

    monkeypatch.setattr(exporting, "export", count_and_export)
    found = asyncio.run(ask_both())
    assert found[0] == found[1] and len(calls) == 1


def test_few_requests_may_wait_for_the_file_of_a_learner_and_they_hold_no_thread(tmp_path: Path) -> None:
    learner: LearnerFiles = exports_of(build(tmp_path)).learner_files
    found: list[LearnerFile] = asyncio.run(ask_too_often(learner.turns, lambda: learner.load(1), threads=1))
    assert len({id(each) for each in found}) == 1, "one file is written for all"
    assert found[0].version == 1 and [*learner.kept] == [1]


def test_another_log_with_the_same_numbers_of_versions_gets_files_of_its_own(tmp_path: Path) -> None:
    async def forget() -> tuple[LearnerFile, LearnerFile]:
        model = build(tmp_path)
        first = await exports_of(model).learner_files.load(1)
        model.forget_log()
        return first, await exports_of(model).learner_files.load(1)

    first, second = asyncio.run(forget())
    assert first is not second


def test_the_file_of_a_durable_version_is_its_own_and_another_version_with_its_state_stands_in_for_one_that_is_not(
    tmp_path: Path,
) -> None:
    model = build(tmp_path)
    for durable in (False, True, True, False):
        publish_same(model, durable)
    damaged = model.snapshots.folder.path / "4" / "manifest.json"
    damaged.write_bytes(b"{}")

    async def load_all() -> list[int]:
        return [(await exports_of(model).learner_files.load(version)).version for version in (1, 2, 3, 5)]

    assert asyncio.run(load_all()) == [1, 3, 3, 3]


def build(folder: Path) -> ModelRuntime:
    """A model with one version."""
    found: ModelRuntime = create_app(settings(folder), with_learner=False).state.runtime.models["vec"]
    publish_same(found)
    return found


def publish_same(found: ModelRuntime, durable: bool = True) -> None:
    """Publish one more version that has learned the same examples."""
    options = exports_of(found).versions.loader.config.options
    model = create("classifier", options)
    model.learn([Example(1 + n, "label", np.array([n % 2, 1.0]).tobytes(), f"l{n % 2}") for n in range(8)])
    publish(found.snapshots, model, recipe("classifier", options), durable)


async def ask_too_often(turns: Turns, send: Callable[[], Awaitable[T]], threads: int = 8) -> list[T]:
    """Send as many requests as may wait while one computes, and one more, which is refused; return the answers."""
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(threads))
    begun, end = asyncio.Event(), asyncio.Event()

    async def compute() -> None:
        begun.set()
        await end.wait()

    running = asyncio.create_task(turns.run(compute))
    await begun.wait()
    waiting = [asyncio.ensure_future(send()) for _ in range(MAX_WAITING)]
    async with asyncio.timeout(30):
        while turns.waiting < MAX_WAITING:
            await asyncio.to_thread(int)  # let the others go on
    with pytest.raises(Overloaded, match=r"^4 (exports|files for learners|deltas|text encoders) wait already"):
        await send()
    end.set()
    await running
    return await asyncio.gather(*waiting)


def test_the_next_turn_begins_after_the_work_of_a_cancelled_request() -> None:
    async def cancel_one() -> list[str]:
        turns, begun, end, log = Turns("works"), asyncio.Event(), asyncio.Event(), list[str]()

        async def work(name: str) -> None:
            begun.set()
            await end.wait()
            log.append(name)

        first = asyncio.create_task(turns.run(lambda: work("first")))
        await begun.wait()
        first.cancel()
        await asyncio.wait([first])
        second = asyncio.create_task(turns.run(lambda: work("second")))
        end.set()
        await second
        return log

    assert asyncio.run(cancel_one()) == ["first", "second"]


def settings(folder: Path) -> Settings:
    return Settings.model_validate({"state": folder / "state", "models": (VEC,), "admin_key": ADMIN_KEY})

"""Copy a version of another replica, or of a bucket, into the snapshot folder.

source --manifest--> signature, seal, check --files that no local version has--> .0.part/<sha256>.safetensors
                                                                                     |
    12/ <--rename, under the lock of the folder-- fsync <-- .12.copy.part/ <--hard links

Nothing counts before the rename. A process that is killed leaves files in `.0.part`, with which the next attempt goes on. No version
has the number 0, so nothing else is written there, and an erasure deletes it with what is older than the erasure.
"""

import os
import re
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

from online.errors import Conflict, CorruptSnapshot, NotFound, Unavailable
from online.io.atomic import sync_folder, write_file
from online.io.locks import lock_file
from online.plugins.cluster.kept_versions import KeptVersions, SignedManifest, read_manifest
from online.plugins.cluster.transfers import VersionSource, WrongContent, hash_file
from online.snapshots import Snapshots
from online.snapshots.folder import MANIFEST, SIGNATURE, SnapshotFolder
from online.snapshots.manifest import Manifest, SnapshotFile
from online.snapshots.publish import put_on_disk

PART_NAME = re.compile(r"[^/\x00.][^/\x00]{0,199}")
SHA256 = re.compile(r"[0-9a-f]{64}")
FETCHED, LOCK = ".0.part", ".copy.lock"


def copy_version(
    source: VersionSource, snapshots: Snapshots, version: int, check: Callable[[Manifest], None]
) -> Manifest:
    """Copy a version with all its files, durably; it does not go live. One that is here with the same manifest is left alone.

    check: raises if the manifest is not that of the version which is wanted; called before anything is fetched, and again under the
    lock of the folder before the version counts. Raises NotFound where the source lacks the version, Unavailable where it does not
    answer, sends something else or the disk refuses a write, and Conflict where another version has this number. Then nothing has
    changed, and a next attempt goes on with what was fetched. One copy of a model is made at a time; others wait.
    """
    folder = snapshots.folder
    signed = source.load_manifest(folder.model, version)
    manifest = parse_manifest(source, folder, version, signed)
    check(manifest)
    try:
        with lock_file(folder.path / LOCK):
            if is_completed_by(folder, manifest) or not is_here(folder, version, signed):
                write_version(source, folder, manifest, signed, check)
            shutil.rmtree(folder.path / FETCHED, ignore_errors=True)
    except OSError as error:
        shutil.rmtree(folder.path / FETCHED, ignore_errors=True)  # the disk may be full
        raise Unavailable(f"version {version} of {folder.model} could not be written: {error.strerror}") from error
    folder.wakeup.notify()
    return manifest


def parse_manifest(source: VersionSource, folder: SnapshotFolder, version: int, signed: SignedManifest) -> Manifest:
    """Return the manifest. Raises WrongContent for one of another version, without the seal that the model needs, or damaged."""
    what = f"a manifest of {folder.model} version {version}"
    if folder.seal is not None and not folder.seal.check(folder.sealed_message(version, signed.data), signed.seal):
        raise WrongContent(
            f"{source.name} sent {what} without a valid signature of its state; give all replicas the same signing keys"
        )
    try:
        manifest = Manifest.parse(signed.data)
        is_valid = all(is_file(name, file) for name, file in manifest.files.items())
    except (ValueError, TypeError, KeyError, AttributeError):
        raise WrongContent(f"{source.name} sent {what} that is damaged") from None
    if not is_valid or (manifest.model, manifest.version) != (folder.model, version):
        raise WrongContent(f"{source.name} sent {what} that is of another version, or names files that no version has")
    return manifest


def is_file(name: str, file: SnapshotFile) -> bool:
    """Return whether a manifest names a file as a learner does. Raises TypeError for values of other types."""
    return bool(PART_NAME.fullmatch(name) and SHA256.fullmatch(file.sha256)) and file.bytes >= 0


def is_here(folder: SnapshotFolder, version: int, signed: SignedManifest) -> bool:
    """Return whether the folder has this version. Raises Conflict where it has another one of this number."""
    try:
        data, _ = read_manifest(folder, version)
    except NotFound:
        return False
    if data != signed.data:
        raise Conflict(
            f"{folder.model} has another version {version} than the one to copy: set it aside or delete it, then try again"
        )
    return True


def is_completed_by(folder: SnapshotFolder, manifest: Manifest) -> bool:
    """Return whether the folder has this version as it was before its learner added what only a learner reads.

    A signed manifest is never replaced, because its signature is a second file.
    """
    if folder.seal is not None or not manifest.durable:
        return False
    try:
        own = folder.manifest(manifest.version)
    except (NotFound, CorruptSnapshot):
        return False
    is_same = own.state_sha256 == manifest.state_sha256 and own.files.items() <= manifest.files.items()
    return is_same and not own.durable


def complete_version(folder: SnapshotFolder, aside: Path, manifest: Manifest) -> None:
    """Add to a version what it lacks, and replace its manifest last. The lock is held."""
    target = folder.path / str(manifest.version)
    for name in manifest.files.keys() - folder.manifest(manifest.version).files.keys():
        os.replace(aside / f"{name}.safetensors", target / f"{name}.safetensors")
    os.replace(aside / MANIFEST, target / MANIFEST)
    put_on_disk(target)
    folder.forget_facts(manifest.version)


def write_version(
    source: VersionSource,
    folder: SnapshotFolder,
    manifest: Manifest,
    signed: SignedManifest,
    check: Callable[[Manifest], None],
) -> None:
    """Write a version aside, and let it count unless it was published here meanwhile. Raises Conflict, and what the check raises."""
    aside = folder.path / f".{manifest.version}.copy.part"
    remove_leftovers(folder, manifest)
    try:
        write_files(source, folder, aside, manifest, signed)
        put_on_disk(aside)
        with folder.locked():
            check(manifest)
            if is_completed_by(folder, manifest):
                complete_version(folder, aside, manifest)
            elif not is_here(folder, manifest.version, signed):
                aside.rename(folder.path / str(manifest.version))
        sync_folder(folder.path)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def remove_leftovers(folder: SnapshotFolder, manifest: Manifest) -> None:
    """Delete what killed processes have left, and what was fetched but is no part of this version. Creates the folder of what is fetched."""
    for left in folder.path.glob(".*.copy.part"):
        shutil.rmtree(left)
    fetched, wanted = folder.path / FETCHED, {file.sha256 for file in manifest.files.values()}
    fetched.mkdir(exist_ok=True)
    for path in fetched.iterdir():
        if path.stem not in wanted:
            path.unlink()


def write_files(
    source: VersionSource, folder: SnapshotFolder, aside: Path, manifest: Manifest, signed: SignedManifest
) -> None:
    """Write the files of a version: hard links to those that are here, and what the source sends of the others."""
    fetched, kept = folder.path / FETCHED, KeptVersions(folder)
    aside.mkdir()
    for name, file in manifest.files.items():
        target, own = aside / f"{name}.safetensors", fetched / f"{file.sha256}.safetensors"
        if not link_file(file.sha256, (own, *kept.find_files(file.sha256)), target):
            source.fetch_file(folder.model, file, own)
            place_file(own, target)
    write_file(aside / MANIFEST, signed.data, durable=False)
    if folder.seal is not None:
        write_file(aside / SIGNATURE, signed.seal.encode(), durable=False)


def link_file(sha256: str, candidates: Iterable[Path], target: Path) -> bool:
    """Let `target` be the first undamaged one of these files; return whether there is one."""
    for path in candidates:
        try:
            place_file(path, target)
        except FileNotFoundError:  # pruned meanwhile
            continue
        if hash_file(target) == sha256:
            return True
        target.unlink()
    return False


def place_file(path: Path, target: Path) -> None:
    """Give a file a second name, or copy it where the file system has no hard links. Raises FileNotFoundError."""
    try:
        os.link(path, target)
    except FileNotFoundError:
        raise
    except OSError:
        shutil.copyfile(path, target)

"""The folder of one model's snapshots: its versions, their manifests, and the LIVE link.

LIVE is a symbolic link because its target is a name and no data: replacing a file by rename makes
ext4 write that file out at once, which took a third of the time of a publication.

    LIVE -> 12,previous=11        version 11 was live before
    LIVE -> 5,held_until=30       after a roll back: only a version that has learned more than offset
                                  30 goes live by itself
"""

import hashlib
import os
import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO

from safetensors.numpy import load

from online.errors import CorruptSnapshot, NewerRelease, NotFound
from online.io.atomic import sync_folder
from online.io.locks import lock_file
from online.io.wakeup import Wakeup
from online.models import State, StatePart
from online.snapshots.manifest import Manifest, ManifestSeal, SnapshotFile

NEAR, MAX_FACTS = 64, 20_000  # versions that are tried one by one; versions whose offset is remembered
MANIFEST, SIGNATURE, ON_DISK = "manifest.json", "signature", "on-disk"
ROLLED_BACK = "ROLLED_BACK"
AGREED = "AGREED"  # the revision of the serving state to which the folder was brought (agreed.py)
NONE: Mapping[int, Manifest] = {}
LIVE_TARGET = re.compile(r"(\d{1,18})(?:,held_until=(\d{1,18}))?(?:,previous=(\d{1,18}))?")


@dataclass(frozen=True, slots=True)
class LiveVersion:
    """The target of the LIVE link. previous: the version that was live before; 0 if there is none."""

    version: int
    held_until: int = 0
    previous: int = 0

    def target(self) -> str:
        """Return the target of the link LIVE."""
        held = f",held_until={self.held_until}" if self.held_until else ""
        return f"{self.version}{held}" + (f",previous={self.previous}" if self.previous else "")


@dataclass(frozen=True, slots=True)
class VersionFacts:
    """The facts of manifests that a search among the versions needs."""

    learned_until: int = 0
    created_at: str = ""
    recipe: str = ""


@dataclass(frozen=True, slots=True)
class LoadedSnapshot:
    """The manifest and the parts of a version."""

    manifest: Manifest
    parts: State


@dataclass(frozen=True, slots=True)
class ManifestPage:
    """Manifests, newest first. before: where the next page begins, None after the last. count: versions in all."""

    manifests: list[Manifest]
    before: int | None
    count: int


class SnapshotFolder:
    """Reads and replaces the names in the folder, and loads the verified parts of its versions."""

    def __init__(self, path: Path, model: str, wakeup: Wakeup, seal: ManifestSeal | None = None) -> None:
        """wakeup: wakes the processes that serve the model. seal: signs the manifests of a state that must be trusted."""
        self.path, self.model, self.wakeup, self.seal = path, model, wakeup, seal
        self.sound_version = 0  # the live version that was last found to be undamaged
        self._facts: dict[int, VersionFacts] = {}
        path.mkdir(parents=True, exist_ok=True)

    def live(self) -> LiveVersion | None:
        """Return the live version; None before the first publication. Raises CorruptSnapshot."""
        try:
            target = str((self.path / "LIVE").readlink())
        except FileNotFoundError:
            return None
        except OSError as error:
            raise CorruptSnapshot(f"LIVE of {self.model} is not a link") from error
        found = LIVE_TARGET.fullmatch(target)
        if found is None:
            raise CorruptSnapshot(f"LIVE of {self.model} does not name a version")
        return LiveVersion(int(found[1]), int(found[2] or 0), int(found[3] or 0))

    def live_until(self, recipe: str) -> int:
        """Return the offset that a version must have passed to go live by itself.

        -1 if no undamaged version of this recipe is live; a damaged one that a roll back made live holds until its offset.
        """
        try:
            live = self.live()
            if live is None:
                return -1
            manifest = self.manifest(live.version)
        except (NotFound, CorruptSnapshot):
            return -1
        if manifest.recipe != recipe:
            return -1
        try:
            if live.version != self.sound_version:
                self.load(live.version)
                self.sound_version = live.version
        except NotFound:
            return -1
        except CorruptSnapshot:
            return live.held_until or -1
        return max(live.held_until, manifest.learned_until)

    def goes_live(self, recipe: str, learned_until: int, taught_until: int) -> bool:
        """Return whether a version of this recipe goes live by itself: it has learned more, and no roll back holds it.

        taught_until: as in the manifest. Control events that follow a roll back do not end it.
        """
        try:
            live = self.live()
        except CorruptSnapshot:
            live = None
        is_held = live is not None and taught_until <= live.held_until
        until = self.live_until(recipe)
        return learned_until > until and not (is_held and until >= 0)

    def find_previous(self, new: Manifest) -> int:
        """Return the version that counts as the one before a new live version; 0 if there is none.

        One that has only learned control events, such as a label, answers as the live one does: what was before that stays so.
        """
        try:
            live = self.live()
        except CorruptSnapshot:
            return 0
        if live is None:
            return 0
        return live.previous if 0 < new.taught_until <= self.read_learned_until(live.version) else live.version

    def versions(self) -> list[int]:
        """Return every complete version, oldest first."""
        return list_numbers(self.path)

    def next_version(self) -> int:
        """Return the number of the next version, which was never used before."""
        return 1 + max([*self.versions(), *list_numbers(self.aside), self.live_number()])

    @property
    def aside(self) -> Path:
        """Where versions are that were learned from another log."""
        return self.path / "set-aside"

    def is_on_disk(self, version: int) -> bool:
        """Return whether the files of a version survive a loss of power."""
        return (self.path / str(version) / ON_DISK).exists()

    def manifest(self, version: int) -> Manifest:
        """Return the manifest of a version. Raises NotFound or CorruptSnapshot."""
        return self._parse_manifest(version, self._read_manifest(version))

    def sealed_manifest(self, version: int) -> Manifest:
        """Return the manifest of a version whose files are about to be loaded.

        Raises CorruptSnapshot unless it was signed for this model and version, where that is required; NotFound.
        """
        data = self._read_manifest(version)
        if self.seal is not None:
            self._check_seal(self.seal, version, data)
        return self._parse_manifest(version, data)

    def _read_manifest(self, version: int) -> bytes:
        try:
            return (self.path / str(version) / MANIFEST).read_bytes()
        except FileNotFoundError:
            raise NotFound(f"{self.model} has no version {version}") from None

    def _parse_manifest(self, version: int, data: bytes) -> Manifest:
        try:
            return Manifest.parse(data)
        except NewerRelease as error:  # an older version answers, or the log is learned again
            raise CorruptSnapshot(str(error)) from error
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise CorruptSnapshot(f"the manifest of {self.model} version {version} is damaged") from error

    def _check_seal(self, seal: ManifestSeal, version: int, manifest: bytes) -> None:
        try:
            signature = (self.path / str(version) / SIGNATURE).read_text(errors="replace")
        except FileNotFoundError:
            signature = ""
        if not seal.check(self.sealed_message(version, manifest), signature):
            raise CorruptSnapshot(
                f"{self.model} version {version} was not signed by this installation, or for another version, or with a key "
                "that is no longer valid"
            )

    def sealed_message(self, version: int, manifest: bytes) -> bytes:
        """Return the bytes whose signature seals a manifest."""
        return f"{self.model}/{version}\n".encode() + manifest

    def load(self, version: int, serving_only: bool = True, known: LoadedSnapshot | None = None) -> LoadedSnapshot:
        """Return the verified parts of a version.

        known: a snapshot in memory, whose parts are reused where the files are the same.
        Raises CorruptSnapshot if a file does not match its sha256, NotFound if there is no such version.
        """
        manifest = self.sealed_manifest(version)
        parts = {}
        for name, file in manifest.files.items():
            if file.serving or not serving_only:
                parts[name] = reuse_part(name, file, known) or self._read_part(version, name, file)
        return LoadedSnapshot(manifest, parts)

    def durable(self, recipe: str, since: int = 0) -> Iterator[LoadedSnapshot]:
        """Yield the versions that learning may resume from, newest first, without damaged ones.

        since: the offset that they must have learned, because contents of events before it are gone.
        """
        for version in reversed(self.versions()):
            try:
                manifest = self.manifest(version)
                usable = manifest.durable and manifest.recipe == recipe and manifest.learned_until >= since
                loaded = self.load(version, serving_only=False) if usable else None
            except (CorruptSnapshot, NotFound):
                continue
            if loaded is not None:
                yield loaded

    def _read_part(self, version: int, name: str, file: SnapshotFile) -> StatePart:
        try:
            data = (self.path / str(version) / f"{name}.safetensors").read_bytes()
        except FileNotFoundError:
            if (self.path / str(version)).exists():
                raise CorruptSnapshot(f"{self.model} version {version} lacks its file {name}") from None
            raise NotFound(f"{self.model} has no version {version}") from None
        if hashlib.sha256(data).hexdigest() != file.sha256:
            raise CorruptSnapshot(f"{self.model} version {version}: the file {name} does not match its sha256")
        return StatePart(load(data), file.serving)

    def manifests(self) -> list[Manifest]:
        """Newest first, without versions that are damaged or pruned in the meantime."""
        return list(self._walk_manifests(self.versions()))

    def page(self, count: int, before: int | None = None, others: Sequence[Manifest] = ()) -> ManifestPage:
        """Return the newest `count` manifests, of versions before one of them, newest first.

        others: of versions that may be elsewhere only, such as those that other replicas have published.
        """
        known = {each.version: each for each in others}
        versions = sorted({*self.versions(), *known})
        older = [each for each in versions if before is None or each < before]
        found = list(islice(self._walk_manifests(older, known), count))
        has_more = bool(found) and older[0] < found[-1].version
        return ManifestPage(found, found[-1].version if has_more else None, len(versions))

    def _walk_manifests(self, versions: Sequence[int], others: Mapping[int, Manifest] = NONE) -> Iterator[Manifest]:
        for version in reversed(versions):
            try:
                yield self.manifest(version)
            except (NotFound, CorruptSnapshot):
                if version in others:
                    yield others[version]

    def newest_before(self, offset: int, recipe: str, below: int | None = None) -> int | None:
        """Return the newest version of this recipe that had not learned an offset; None if none is kept.

        below: only versions before this one.
        """
        return self._find_last(lambda facts: facts.learned_until < offset, recipe, below)

    def newest_until(self, at: str, recipe: str, below: int) -> int | None:
        """Return the newest version of this recipe before another one that existed at an instant; None if none is kept."""
        return self._find_last(lambda facts: facts.created_at <= at, recipe, below)

    def _find_last(self, is_early: Callable[[VersionFacts], bool], recipe: str, below: int | None) -> int | None:
        """Later versions were created later and have learned more, but for a few after a roll back.

        So this reads a few manifests of a long list.
        """
        versions = [each for each in self.versions() if below is None or each < below]
        place = bisect_left(versions, True, key=lambda version: not is_early(self._read_facts(version)))
        for version in reversed(versions[max(0, place - NEAR) : place]):
            facts = self._read_facts(version)
            if facts.learned_until and facts.recipe == recipe and is_early(facts):
                return version
        return None

    def read_learned_until(self, version: int) -> int:
        """Return what a version has learned; 0 of one that is damaged or gone."""
        return self._read_facts(version).learned_until

    def _read_facts(self, version: int) -> VersionFacts:
        """Return nothing of a version that is damaged or gone. Read once."""
        if version not in self._facts:
            if len(self._facts) >= MAX_FACTS:
                self._facts.clear()
            try:
                manifest = self.manifest(version)
            except (NotFound, CorruptSnapshot):
                return VersionFacts()
            self._facts[version] = VersionFacts(manifest.learned_until, manifest.created_at, manifest.recipe)
        return self._facts[version]

    def forget_facts(self, version: int) -> None:
        """Forget what was read of a version whose files were replaced."""
        self._facts.pop(version, None)

    def manifests_of(self, recipe: str) -> Iterator[Manifest]:
        """Yield the manifests of a recipe, the newest first."""
        return (manifest for manifest in self.manifests() if manifest.recipe == recipe)

    def live_number(self) -> int:
        """Return the number of the live version; 0 if there is none or LIVE is damaged."""
        try:
            live = self.live()
        except CorruptSnapshot:
            return 0
        return live.version if live else 0

    def locked(self) -> IO[str]:
        """Hold the lock, across processes, that guards LIVE, labels and the removal of versions."""
        return lock_file(self.path / ".lock")

    def set_live(self, live: LiveVersion, durable: bool) -> None:
        """Point LIVE at a version. The caller holds the lock."""
        replace_link(self.path / "LIVE", live.target(), durable)


def list_numbers(folder: Path) -> list[int]:
    """Return the versions in a folder, oldest first."""
    try:
        with os.scandir(folder) as entries:  # five times as fast as `Path.iterdir`, which counts with 10,000 versions
            return sorted(int(entry.name) for entry in entries if entry.name.isdigit())
    except FileNotFoundError:
        return []


def replace_link(path: Path, target: str, durable: bool) -> None:
    """Let a link have another target. The lock is held."""
    aside = path.parent / f".{path.name}"
    aside.unlink(missing_ok=True)  # left by a killed process
    aside.symlink_to(target)
    os.replace(aside, path)
    if durable:
        sync_folder(path.parent)


def reuse_part(name: str, file: SnapshotFile, known: LoadedSnapshot | None) -> StatePart | None:
    """Return the part of a snapshot in memory if its file is the same."""
    same = known is not None and known.manifest.files.get(name) == file
    return known.parts.get(name) if known is not None and same else None

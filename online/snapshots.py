"""What to serve: numbered immutable folders, and one small file that says which of them is live.

    snapshots/<model>/LIVE -> 12        a symbolic link, replaced by rename
    snapshots/<model>/12/manifest.json  version, parent, learned_until, sha256 of every file, ...
    snapshots/<model>/12/*.safetensors  a part that did not change is a hard link to the parent's file

Publishing is a rename; durability is an fsync. Volatile versions hold what serving needs; durable ones hold all of the
state and are what learning resumes from. LIVE is a link because its target is a name and no data: replacing a file by
rename makes ext4 write it out at once, which took a third of a publication. After a roll back it reads
`5,held_until=30`: only a version that has learned more than that goes live by itself.
"""

import fcntl
import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from safetensors.numpy import load, save

from online.doorbell import Doorbell
from online.errors import Conflict, CorruptSnapshot, NotFound, Unavailable
from online.models import Part, State

FORMAT = 1
LIVE_TARGET = re.compile(r"(\d{1,18})(?:,held_until=(\d{1,18}))?")


@dataclass(frozen=True, slots=True)
class File:
    sha256: str
    bytes: int
    serving: bool


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a snapshot folder holds.

    state_sha256: of what was learned; weights_sha256: of what serving loads; recipe: of the model's kind and options.
    determinism_domain: within which the same log gives these very bits; exact statistics need none.
    """

    model: str
    version: int
    parent: int | None
    learned_until: int
    created_at: str
    state_sha256: str
    weights_sha256: str
    feature_epoch: str
    recipe: str
    durable: bool
    metrics: Mapping[str, float] = field(default_factory=dict)
    files: Mapping[str, File] = field(default_factory=dict)
    format: int = FORMAT
    determinism_domain: str = ""

    @classmethod
    def parse(cls, data: bytes) -> "Manifest":
        fields = json.loads(data)
        files = {name: File(**entry) for name, entry in fields.pop("files").items()}
        return cls(files=files, **fields)


@dataclass(frozen=True, slots=True)
class Live:
    version: int
    held_until: int = 0

    def target(self) -> str:
        return f"{self.version},held_until={self.held_until}" if self.held_until else str(self.version)


@dataclass(frozen=True, slots=True)
class Loaded:
    manifest: Manifest
    parts: State


class Snapshots:
    """The snapshots of one model. One process publishes; any number read, roll back and are woken by the bell."""

    def __init__(self, folder: Path, model: str, bell: Doorbell, retain: int = 20) -> None:
        self.folder, self.model, self.bell, self.retain = folder, model, bell, retain
        folder.mkdir(parents=True, exist_ok=True)
        self._written: dict[str, tuple[int, int, File]] = {}  # part -> (revision, version, file) last written here

    # reading

    def live(self) -> Live | None:
        try:
            target = str((self.folder / "LIVE").readlink())
        except FileNotFoundError:
            return None
        except OSError as error:
            raise CorruptSnapshot(f"LIVE of {self.model} is not a link") from error
        found = LIVE_TARGET.fullmatch(target)
        if found is None:
            raise CorruptSnapshot(f"LIVE of {self.model} does not name a version")
        return Live(int(found[1]), int(found[2] or 0))

    def live_until(self, recipe: str) -> int:
        """Only a version that has learned more than this goes live by itself; -1 where nothing usable is live."""
        try:
            live = self.live()
            if live is None:
                return -1
            manifest = self.manifest(live.version)
            return max(live.held_until, manifest.learned_until) if manifest.recipe == recipe else -1
        except (NotFound, CorruptSnapshot):
            return -1

    def versions(self) -> list[int]:
        """Every complete version, oldest first."""
        return sorted(int(entry.name) for entry in self.folder.iterdir() if entry.name.isdigit())

    def manifest(self, version: int) -> Manifest:
        try:
            return Manifest.parse((self.folder / str(version) / "manifest.json").read_bytes())
        except FileNotFoundError:
            raise NotFound(f"{self.model} has no version {version}") from None
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise CorruptSnapshot(f"the manifest of {self.model} version {version} is damaged") from error

    def manifests(self) -> list[Manifest]:
        """Newest first. A version that is pruned or damaged meanwhile is left out."""
        found = []
        for version in reversed(self.versions()):
            try:
                found.append(self.manifest(version))
            except (NotFound, CorruptSnapshot):
                continue
        return found

    def load(self, version: int, serving_only: bool = True, known: Loaded | None = None) -> Loaded:
        """The verified parts of a version. Parts whose file is the same as in `known` are taken from there.

        Raises CorruptSnapshot when a file does not match its sha256, NotFound when the version is not there.
        """
        manifest = self.manifest(version)
        parts = {}
        for name, file in manifest.files.items():
            if file.serving or not serving_only:
                parts[name] = self._kept(name, file, known) or self._read(version, name, file)
        return Loaded(manifest, parts)

    @staticmethod
    def _kept(name: str, file: File, known: Loaded | None) -> Part | None:
        same = known is not None and known.manifest.files.get(name) == file
        return known.parts.get(name) if known is not None and same else None

    def _read(self, version: int, name: str, file: File) -> Part:
        try:
            data = (self.folder / str(version) / f"{name}.safetensors").read_bytes()
        except FileNotFoundError:
            if (self.folder / str(version)).exists():
                raise CorruptSnapshot(f"{self.model} version {version} lacks its file {name}") from None
            raise NotFound(f"{self.model} has no version {version}") from None
        if hashlib.sha256(data).hexdigest() != file.sha256:
            raise CorruptSnapshot(f"{self.model} version {version}: the file {name} does not match its sha256")
        return Part(load(data), file.serving)

    def durable(self, recipe: str) -> Iterator[Loaded]:
        """Where learning may resume: the whole versions of this recipe, newest first; damaged ones are passed over."""
        for version in reversed(self.versions()):
            try:
                manifest = self.manifest(version)
                loaded = (
                    self.load(version, serving_only=False) if manifest.durable and manifest.recipe == recipe else None
                )
            except (CorruptSnapshot, NotFound):
                continue
            if loaded is not None:
                yield loaded

    # publishing

    def publish(self, state: State, manifest: Manifest) -> Manifest:
        """Write a version aside, rename it into place, and point LIVE at it where it knows more than what is live.

        Raises Unavailable when the disk does not take it; then nothing has changed.
        """
        aside = self.folder / f".{manifest.version}.part"
        try:
            shutil.rmtree(aside, ignore_errors=True)
            aside.mkdir()
            files = {name: self._write(aside, manifest, name, part) for name, part in state.items()}
            whole = replace(manifest, files=files, weights_sha256=digest_of(files))
            write(aside / "manifest.json", json.dumps(asdict(whole), indent=1).encode(), manifest.durable)
            if manifest.durable:
                sync_folder(aside)
            aside.rename(self.folder / str(manifest.version))
            if manifest.durable:
                sync_folder(self.folder)
            with self._locked():
                if manifest.learned_until > self.live_until(manifest.recipe):
                    self._point(Live(manifest.version), manifest.durable)
        except OSError as error:
            shutil.rmtree(aside, ignore_errors=True)
            raise Unavailable(
                f"version {manifest.version} of {self.model} could not be written: {error.strerror}"
            ) from error
        for name, part in state.items():
            if part.revision is not None:
                self._written[name] = (part.revision, manifest.version, files[name])
        self.bell.ring()
        return whole

    def _write(self, aside: Path, manifest: Manifest, name: str, part: Part) -> File:
        path = aside / f"{name}.safetensors"
        revision, version, file = self._written.get(name, (None, 0, None))
        if file is not None and revision == part.revision and self._linked(version, name, path):
            if manifest.durable:
                sync_file(path)
            return file
        data = save(
            {key: tensor.copy() if not tensor.flags.c_contiguous else tensor for key, tensor in part.tensors.items()}
        )
        write(path, data, manifest.durable)
        return File(hashlib.sha256(data).hexdigest(), len(data), part.serving)

    def _linked(self, version: int, name: str, path: Path) -> bool:
        try:
            os.link(self.folder / str(version) / f"{name}.safetensors", path)
        except OSError:
            return False  # pruned meanwhile, or a file system without hard links
        return True

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """One at a time, in all processes, decides what LIVE points at or removes what it could point at."""
        with open(self.folder / ".lock", "a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _point(self, live: Live, durable: bool) -> None:
        aside = self.folder / ".LIVE"
        aside.unlink(missing_ok=True)  # left by a killed process; we hold the lock
        aside.symlink_to(live.target())
        os.replace(aside, self.folder / "LIVE")
        if durable:
            sync_folder(self.folder)

    def roll_back(self, version: int, recipe: str) -> Manifest:
        """Make an older version live, verified first. Later versions are kept; what is learned next goes live.

        Raises Conflict for a version that another kind or other options made.
        """
        with self._locked():
            loaded = self.load(version)
            if loaded.manifest.recipe != recipe:
                raise Conflict(f"version {version} of {self.model} was made by another kind or by other options")
            newest = max((manifest.learned_until for manifest in self.manifests()), default=0)
            self._point(Live(version, held_until=newest), durable=True)
        self.bell.ring()
        return loaded.manifest

    def next_version(self) -> int:
        return 1 + max([*self.versions(), self._live_version()])

    def _live_version(self) -> int:
        try:
            live = self.live()
        except CorruptSnapshot:
            return 0
        return live.version if live else 0

    def prune(self) -> list[int]:
        """Drop what retention no longer holds: all but the newest, the newest durable ones and the live one."""
        kept = self.manifests()
        durable = [manifest.version for manifest in kept if manifest.durable][: self.retain]
        keep = {manifest.version for manifest in kept[: self.retain]} | set(durable)
        with self._locked():
            gone = [version for version in self.versions() if version not in keep | {self._live_version()}]
            for version in gone:  # renamed first: readers see a whole version or none
                (self.folder / str(version)).rename(self.folder / f".{version}.gone")
        for doomed in self.folder.glob(".*.gone"):  # also what a killed process left
            shutil.rmtree(doomed, ignore_errors=True)
        return gone


def digest_of(files: Mapping[str, File]) -> str:
    """One sha256 for all that serving loads."""
    serving = sorted((name, file.sha256) for name, file in files.items() if file.serving)
    return hashlib.sha256(json.dumps(serving).encode()).hexdigest()


def write(path: Path, data: bytes, durable: bool) -> None:
    with open(path, "wb") as file:
        file.write(data)
        if durable:
            file.flush()
            os.fsync(file.fileno())


def sync_file(path: Path) -> None:
    with open(path, "rb") as file:
        os.fsync(file.fileno())


def sync_folder(path: Path) -> None:
    end = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(end)
    finally:
        os.close(end)


def as_shown(manifest: Manifest, live: bool) -> dict[str, Any]:
    """A version as the API and the command line list it."""
    names = ("learned_until", "created_at", "state_sha256", "weights_sha256", "feature_epoch", "durable")
    shown = {name: getattr(manifest, name) for name in names}
    parent = None if manifest.parent is None else str(manifest.parent)
    return {
        "version": str(manifest.version),
        "parent": parent,
        **shown,
        "metrics": dict(manifest.metrics),
        "live": live,
    }

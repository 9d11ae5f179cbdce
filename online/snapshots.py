"""What to serve: numbered immutable folders, and one small file that says which of them is live.

    snapshots/<model>/LIVE -> 12        a symbolic link, replaced by rename
    snapshots/<model>/12/manifest.json  version, parent, learned_until, sha256 of every file, ...
    snapshots/<model>/12/*.safetensors  a part that did not change is a hard link to the parent's file

Publishing is a rename; durability is an fsync. Volatile versions hold what serving needs; durable ones hold all of the
state and are what learning resumes from. LIVE is a link because its target is a name and no data: replacing a file by
rename makes ext4 write it out at once, which took a third of a publication. After a roll back it reads
`5,held_until=30`: only a version that has learned more than that goes live by itself. `previous=11` is the version that
was live before.

    snapshots/<model>/labels/stable -> 7            a name for a version, which is kept as long as it has one
    snapshots/<model>/labels/canary -> 9,percent=5  with the share of the traffic that it answers
    snapshots/<model>/FROZEN                        while it is there, nothing is learned: what comes in waits in the log
"""

import fcntl
import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from safetensors.numpy import load, save

from online.doorbell import Doorbell
from online.errors import BadInput, Conflict, CorruptSnapshot, NotFound, Unavailable
from online.models import Part, State

FORMAT = 1
LIVE_TARGET = re.compile(r"(\d{1,18})(?:,held_until=(\d{1,18}))?(?:,previous=(\d{1,18}))?")
LATEST, PREVIOUS, CANARY, SHADOW = "latest", "previous", "canary", "shadow"
LIVE = "live"  # another word for the latest
MOVING = (LATEST, LIVE, PREVIOUS)  # labels that nobody gives: they move by themselves
LABEL = re.compile(r"[A-Za-z0-9_]{1,64}")
LABEL_TARGET = re.compile(r"(\d{1,18})(?:,percent=(\d{1,3}(?:\.\d{1,6})?))?")


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
    previous: int = 0

    def target(self) -> str:
        held = f",held_until={self.held_until}" if self.held_until else ""
        return f"{self.version}{held}" + (f",previous={self.previous}" if self.previous else "")


@dataclass(frozen=True, slots=True)
class Labelled:
    """percent: the share of the traffic, where the label is one that takes a share."""

    version: int
    percent: float = 0.0

    def target(self) -> str:
        return f"{self.version},percent={self.percent:f}" if self.percent else str(self.version)


@dataclass(frozen=True, slots=True)
class Frozen:
    """Since when nothing is learned, and why."""

    since: str
    reason: str


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
        return Live(int(found[1]), int(found[2] or 0), int(found[3] or 0))

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

    def labels(self) -> dict[str, Labelled]:
        """The names that somebody gave to versions."""
        found = {}
        with suppress(FileNotFoundError):
            for path in (self.folder / "labels").iterdir():
                if LABEL.fullmatch(path.name) and (told := LABEL_TARGET.fullmatch(str(path.readlink()))):
                    found[path.name] = Labelled(int(told[1]), float(told[2] or 0))
        return found

    def names(self) -> dict[int, list[str]]:
        """Every version that has names, with those that move by themselves first."""
        live = self.live()
        pairs = [(live.version, LATEST), (live.previous, PREVIOUS)] if live else []
        named: dict[int, list[str]] = {}
        for version, name in [*pairs, *((each.version, label) for label, each in self.labels().items())]:
            named.setdefault(version, []).append(name)
        return named

    def number_of(self, wanted: str) -> int:
        """The number of a version that is named by number or by label. Raises BadInput, or NotFound for an unknown label."""
        if re.fullmatch(r"[0-9]{1,18}", wanted):
            return int(wanted)
        if not LABEL.fullmatch(wanted):
            raise BadInput(f"version must be a number such as 12, or a label, not {wanted[:40]!r}")
        found = [version for version, names in self.names().items() if wanted in names and version]
        if not found:
            raise NotFound(f"no version of {self.model} has the label {wanted!r}")
        return found[0]

    def frozen(self) -> Frozen | None:
        try:
            return Frozen(**json.loads((self.folder / "FROZEN").read_bytes()))
        except FileNotFoundError:
            return None
        except (ValueError, TypeError):  # whoever froze it meant it
            return Frozen("", "")

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
        """Write a version aside, rename it into place, and point LIVE at it where it knows more than what is live and the
        model is not frozen.

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
                if manifest.learned_until > self.live_until(manifest.recipe) and self.frozen() is None:
                    self._point(Live(manifest.version, previous=self._live_version()), manifest.durable)
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
        self._link(self.folder / "LIVE", live.target(), durable)

    @staticmethod
    def _link(path: Path, target: str, durable: bool) -> None:
        """Replace a link. The lock is held."""
        aside = path.parent / f".{path.name}"
        aside.unlink(missing_ok=True)  # left by a killed process
        aside.symlink_to(target)
        os.replace(aside, path)
        if durable:
            sync_folder(path.parent)

    def roll_back(self, version: int, recipe: str) -> Manifest:
        """Make an older version live, verified first. Later versions are kept; what is learned next goes live.

        Raises Conflict for a version that another kind or other options made.
        """
        with self._locked():
            loaded = self.load(version)
            if loaded.manifest.recipe != recipe:
                raise Conflict(f"version {version} of {self.model} was made by another kind or by other options")
            newest = max((manifest.learned_until for manifest in self.manifests()), default=0)
            self._point(Live(version, newest, previous=self._other_than(version)), durable=True)
        self.bell.ring()
        return loaded.manifest

    def set_label(self, name: str, labelled: Labelled) -> Manifest:
        """Give a version a name, or move the name to it; verified first. Raises BadInput, NotFound or CorruptSnapshot."""
        if name in MOVING:
            raise BadInput(f"the label {name} moves by itself; choose another")
        if labelled.percent and name != CANARY:
            raise BadInput(f"only the label {CANARY} has a share of the traffic")
        if not LABEL.fullmatch(name):
            raise BadInput(f"a label has 1 to 64 letters, digits or '_', not {name[:80]!r}")
        with self._locked():
            manifest = self.load(labelled.version).manifest
            (self.folder / "labels").mkdir(exist_ok=True)
            self._link(self.folder / "labels" / name, labelled.target(), durable=True)
        self.bell.ring()
        return manifest

    def drop_label(self, name: str) -> None:
        """Raises NotFound."""
        if name not in self.labels():
            raise NotFound(f"no version of {self.model} has the label {name[:80]!r}")
        with self._locked():
            (self.folder / "labels" / name).unlink(missing_ok=True)
            sync_folder(self.folder / "labels")
        self.bell.ring()

    def freeze(self, frozen: Frozen) -> None:
        aside = self.folder / f".FROZEN.{os.getpid()}"
        write(aside, json.dumps(asdict(frozen)).encode(), durable=True)
        os.replace(aside, self.folder / "FROZEN")
        sync_folder(self.folder)
        self.bell.ring()

    def thaw(self, recipe: str, held: bool = True) -> None:
        """Learning goes on, from the newest version there is. Not held: whatever was rolled back goes live again, too."""
        with self._locked():
            live, until = self.live(), self.live_until(recipe)
            if live is not None and not held:
                until = self.manifest(live.version).learned_until
            newest = max(self._made_by(recipe), key=lambda each: (each.learned_until, each.version), default=None)
            if newest is not None and newest.learned_until > until:
                self._point(Live(newest.version, previous=self._live_version()), durable=True)
            self._unfreeze()

    def _made_by(self, recipe: str) -> Iterator[Manifest]:
        return (manifest for manifest in self.manifests() if manifest.recipe == recipe)

    def before(self, offset: int, recipe: str) -> Manifest | None:
        """The newest version that had not learned this offset or, where none is kept that had learned anything by then, the
        one that had learned least since.
        """
        learned = sorted(self._made_by(recipe), key=lambda each: (each.learned_until, each.version))
        older = [manifest for manifest in learned if 0 < manifest.learned_until < offset]
        return older[-1] if older else next((manifest for manifest in learned if manifest.learned_until), None)

    def _unfreeze(self) -> None:
        (self.folder / "FROZEN").unlink(missing_ok=True)
        sync_folder(self.folder)
        self.bell.ring()

    def next_version(self) -> int:
        return 1 + max([*self.versions(), self._live_version()])

    def _live_version(self) -> int:
        try:
            live = self.live()
        except CorruptSnapshot:
            return 0
        return live.version if live else 0

    def _named(self) -> set[int]:
        """The live version, the one before it, and those with a label."""
        labelled = {each.version for each in self.labels().values()}
        try:
            live = self.live()
        except CorruptSnapshot:
            return labelled
        return labelled | ({live.version, live.previous} if live else set())

    def _other_than(self, version: int) -> int:
        """The version that is live or, where that is this one, the one before it; 0: none."""
        try:
            live = self.live() or Live(0)
        except CorruptSnapshot:
            return 0
        return live.version if live.version != version else live.previous

    def prune(self) -> list[int]:
        """Drop what retention no longer holds: all but the newest, the newest durable, the live, the one before, the labelled."""
        kept = self.manifests()
        durable = [manifest.version for manifest in kept if manifest.durable][: self.retain]
        keep = {manifest.version for manifest in kept[: self.retain]} | set(durable)
        with self._locked():
            keep |= self._named()
            gone = [version for version in self.versions() if version not in keep]
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


def as_shown(manifest: Manifest, live: bool, labels: Sequence[str], state: str = "") -> dict[str, Any]:
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
        "labels": list(labels),
        **({"state": state} if state else {}),
    }

"""Go back to an older version, and freeze the model so that nothing is learned."""

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass

from online.errors import Conflict, CorruptSnapshot
from online.io.atomic import replace_file, sync_folder
from online.schemas.json_values import JSON
from online.snapshots.folder import ROLLED_BACK, LiveVersion, SnapshotFolder
from online.snapshots.manifest import Manifest


@dataclass(frozen=True, slots=True)
class Freeze:
    """Since when nothing is learned, and why. cause: the same for programs; None for the words of an operator."""

    since: str
    reason: str
    cause: Mapping[str, JSON] | None = None


@dataclass(frozen=True, slots=True)
class LastRollBack:
    """The last roll back: the version that it made live, and its last learned offset. since: the offset that the newest version had learned then."""

    version: int
    learned_until: int
    since: int


@dataclass(frozen=True, slots=True)
class RollBackInForce:
    """A roll back that is in force: the newest version, what it has learned, and what was learned when the roll back came.

    previous: the version that was live before; 0 if it is older than the one that is live now, or unknown.
    """

    newest: int
    learned_until: int
    held_until: int
    previous: int


class LiveControl:
    """Moves LIVE to older versions; freezes and thaws."""

    def __init__(self, folder: SnapshotFolder) -> None:
        self.folder = folder

    def roll_back(self, version: int, recipe: str, freeze: Freeze | None = None) -> Manifest:
        """Make an older version live. The version is verified first; newer versions are kept.

        What is learned afterwards goes live again, unless it freezes the model as well: nothing is published in between. A
        freeze that is in force stays as it is. Raises Conflict for a version of another recipe.
        """
        with self.folder.locked():
            loaded = self.folder.load(version)
            if loaded.manifest.recipe != recipe:
                raise Conflict(
                    f"version {version} of {self.folder.model} was created by another kind or with other options"
                )
            newest = max((manifest.learned_until for manifest in self.folder.manifests()), default=0)
            if freeze is not None and self.frozen() is None:
                self.freeze(freeze)
            self.folder.set_live(LiveVersion(version, newest, previous=self._previous_for(version)), durable=True)
            self._note_roll_back(LastRollBack(version, loaded.manifest.learned_until, newest))
        self.folder.wakeup.notify()
        return loaded.manifest

    def _note_roll_back(self, done: LastRollBack) -> None:
        """Note a roll back. The caller holds the lock. LIVE forgets a roll back once a newer version is live; the note stays. Going forward to the newest ends it."""
        if done.learned_until < done.since:
            replace_file(self.folder.path / ROLLED_BACK, json.dumps(asdict(done)).encode(), durable=True)
        else:
            (self.folder.path / ROLLED_BACK).unlink(missing_ok=True)

    def last_roll_back(self) -> LastRollBack | None:
        """Return the newest roll back, also when a newer version is live again; None without one."""
        with suppress(FileNotFoundError, ValueError, TypeError):  # a damaged note is no reason to fail
            return LastRollBack(**json.loads((self.folder.path / ROLLED_BACK).read_bytes()))
        return None

    def _previous_for(self, version: int) -> int:
        """Return the version that is live, or the one before it if that is `version`; 0 if there is none."""
        try:
            live = self.folder.live() or LiveVersion(0)
        except CorruptSnapshot:
            return 0
        return live.version if live.version != version else live.previous

    def find_before(self, offset: int, recipe: str) -> Manifest | None:
        """Return the newest version that had not learned this offset.

        If none is kept, return the version that has learned least; None if no version has learned anything.
        """
        learned = sorted(self.folder.manifests_of(recipe), key=lambda each: (each.learned_until, each.version))
        older = [manifest for manifest in learned if 0 < manifest.learned_until < offset]
        return older[-1] if older else next((manifest for manifest in learned if manifest.learned_until), None)

    def frozen(self) -> Freeze | None:
        """Return the freeze in force; None while the model learns."""
        try:
            return Freeze(**json.loads((self.folder.path / "FROZEN").read_bytes()))
        except FileNotFoundError:
            return None
        except (ValueError, TypeError):  # a damaged file still freezes
            return Freeze("", "")

    def freeze(self, freeze: Freeze) -> None:
        """Stop learning, durably and across processes."""
        replace_file(self.folder.path / "FROZEN", json.dumps(asdict(freeze)).encode(), durable=True)
        self.folder.wakeup.notify()

    def thaw(self, recipe: str, held: bool = True) -> None:
        """Let learning go on, from the newest version.

        held: whether versions that were rolled back stay so; if False, the newest goes live again.
        """
        with self.folder.locked():
            live, until = self.folder.live(), self.folder.live_until(recipe)
            if live is not None and not held:
                until = self.folder.manifest(live.version).learned_until
            newest = max(
                self.folder.manifests_of(recipe), key=lambda each: (each.learned_until, each.version), default=None
            )
            is_held = held and live is not None and newest is not None and newest.taught_until <= live.held_until
            if newest is not None and newest.learned_until > until and not is_held:
                self.folder.set_live(
                    LiveVersion(newest.version, previous=self.folder.find_previous(newest)), durable=True
                )
            (self.folder.path / "FROZEN").unlink(missing_ok=True)
            sync_folder(self.folder.path)
            self.folder.wakeup.notify()

    def find_held(self) -> RollBackInForce | None:
        """Return the roll back that is in force; None while the newest version is live, or about to be."""
        try:
            live = self.folder.live()
        except CorruptSnapshot:
            return None
        if live is None or live.held_until <= self.folder.read_learned_until(live.version):
            return None
        newest = self.folder.versions()[-1]
        if newest <= live.version:
            return None
        previous = live.previous if live.previous > live.version else 0
        return RollBackInForce(newest, self.folder.read_learned_until(newest), live.held_until, previous)

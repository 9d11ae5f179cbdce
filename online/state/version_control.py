"""Roll back, freeze, thaw and label: recorded as an event of the log, then carried out in the folder of the snapshots.

    one folder    event `control` --commit--> the folder is changed      CONTROL: the offset of the last event carried out
    replicas      event `control` + what answers --commit--> every replica mirrors it (online/snapshots/agreed.py)

A process that is killed between the two leaves an event that is not carried out; the next one that opens the folder does it.
"""

import logging
from dataclasses import replace
from functools import partial
from typing import TypeVar

from sqlalchemy import Connection

from online.errors import Conflict, CorruptSnapshot, NotFound
from online.io.atomic import replace_file
from online.schemas.control import ControlChange
from online.snapshots import Snapshots
from online.snapshots.agreed import ServingState, mirror
from online.snapshots.folder import ManifestPage
from online.snapshots.labels import LabelTarget, check_label
from online.snapshots.manifest import Manifest
from online.snapshots.roll_back import Freeze
from online.store import Store
from online.store.events import head_of
from online.store.publications import StoredPublications, list_changes, load_serving, record_change

log = logging.getLogger("online.state")

T = TypeVar("T")

CONTROL = "CONTROL"


class VersionControl:
    """Carries out what operators and the guard decide about the versions of one model."""

    def __init__(self, snapshots: Snapshots, store: Store) -> None:
        self.snapshots, self.store, self.model = snapshots, store, snapshots.model

    def roll_back(self, version: int, recipe: str, freeze: Freeze | None = None) -> Manifest:
        """Make an older version live. The version is verified first; newer versions are kept.

        What is learned afterwards goes live again, unless it freezes the model as well. Raises NotFound, CorruptSnapshot, or
        Conflict for a version of another recipe.
        """
        manifest = self.snapshots.obtain(version).manifest
        if manifest.recipe != recipe:
            raise Conflict(f"version {version} of {self.model} was created by another kind or with other options")
        change = ControlChange("roll_back", version)
        if freeze is not None:
            change = replace(change, freezes=True, at=freeze.since, reason=freeze.reason, cause=freeze.cause)
        self.apply(change, recipe)
        return manifest

    def freeze(self, freeze: Freeze) -> None:
        """Stop learning, durably and on every replica."""
        self.apply(ControlChange("freeze", at=freeze.since, reason=freeze.reason, cause=freeze.cause))

    def thaw(self, recipe: str, held: bool = True) -> None:
        """Let learning go on, from the newest version. held: whether versions that were rolled back stay so."""
        self.apply(ControlChange("thaw", is_held=held), recipe)

    def set_label(self, name: str, target: LabelTarget) -> Manifest:
        """Give a version a label, or move the label to it. Raises BadInput, NotFound or CorruptSnapshot."""
        check_label(name, target)
        manifest = self.snapshots.obtain(target.version).manifest
        self.apply(ControlChange("label", target.version, label=name, percent=target.percent))
        return manifest

    def delete_label(self, name: str) -> None:
        """Delete a label. Raises NotFound."""
        if name not in self.snapshots.labels.read():
            raise NotFound(f"no version of {self.model} has the label {name[:80]!r}")
        self.apply(ControlChange("unlabel", label=name))

    def forget_before(self, version: int) -> None:
        """Delete every version before this one, whatever its labels, on every replica: they hold what an erased user taught."""
        if self.store.is_shared:
            self.apply(ControlChange("forget_versions", version))
        self.snapshots.retention.remove_before(version)

    def list_page(self, connection: Connection, limit: int, before: int | None) -> ManifestPage:
        """Return a page of the versions that are here, and of the newest that other replicas have published."""
        folder = self.snapshots.folder
        if not self.store.is_shared:
            return folder.page(limit, before)
        published = StoredPublications(connection, self.model).list(self.snapshots.retention.retain)
        return folder.page(limit, before, [each.manifest(self.model) for each in published])

    def apply(self, change: ControlChange, recipe: str = "") -> None:
        """Record a change, and carry it out here. Raises Unavailable."""
        self.finish(self.store.submit(partial(self.record, change=change)).result(), change, recipe)

    def record(self, connection: Connection, change: ControlChange) -> tuple[int, ServingState]:
        """Record a change in a transaction of the caller, who then calls `finish` with what this returns."""
        return record_change(connection, self.model, change, self.store.is_shared)

    def finish(self, recorded: tuple[int, ServingState], change: ControlChange, recipe: str) -> None:
        """Carry out a change that is committed."""
        offset, state = recorded
        if self.store.is_shared:
            mirror(self.snapshots, state)
        else:
            self._carry_out(change, recipe)
            self._note(offset)

    def catch_up(self, recipe: str) -> None:
        """Carry out what was recorded and not carried out. Raises Unavailable."""
        if self.store.is_shared:
            state = self.store.read(partial(load_serving, model=self.model))
            if state is not None:
                mirror(self.snapshots, state)
            return
        after = self._read_note()
        for offset, change in self.store.read(partial(list_changes, model=self.model, after=after)):
            try:
                self._carry_out(change, recipe)
            except (NotFound, CorruptSnapshot, Conflict) as error:  # its version is gone: the live one stays
                log.warning("a change of %s at offset %d is not carried out: %s", self.model, offset, error)
            self._note(offset)

    def _carry_out(self, change: ControlChange, recipe: str) -> None:
        control, labels = self.snapshots.control, self.snapshots.labels
        frozen = Freeze(change.at, change.reason, change.cause)
        match change.action:
            case "roll_back":
                control.roll_back(change.version or 0, recipe, frozen if change.freezes else None)
            case "quarantine":
                if change.version is not None:
                    self._try_roll_back(change.version, recipe)
                control.freeze(frozen)
            case "freeze":
                control.freeze(frozen)
            case "thaw" | "end_quarantine":
                control.thaw(recipe, change.is_held)
            case "label":
                labels.set(change.label, LabelTarget(change.version or 0, change.percent))
            case "unlabel":
                if change.label in labels.read():
                    labels.delete(change.label)
            case "forget_versions" | "adopt_encoder":
                pass

    def _try_roll_back(self, version: int, recipe: str) -> None:
        try:
            self.snapshots.control.roll_back(version, recipe)
        except (NotFound, CorruptSnapshot, Conflict) as error:  # the live version stays, frozen
            log.error("rollback failed model=%s version=%d reason=%s", self.model, version, error)

    def _read_note(self) -> int:
        """Return the offset of the last change that was carried out; 0 for a folder without a note.

        A folder whose log was replaced by a shorter one has noted an offset that this one does not have.
        """
        head: int = self.store.read(partial(head_of, model=self.model))
        try:
            noted = int((self.snapshots.folder.path / CONTROL).read_text())
        except (FileNotFoundError, ValueError):
            return 0
        return min(noted, head)

    def _note(self, offset: int) -> None:
        replace_file(self.snapshots.folder.path / CONTROL, str(offset).encode(), durable=True)

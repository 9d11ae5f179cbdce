"""The versions that all replicas of a model agree on, and what follows from each change: pure functions.

    Publication ──┐
    ControlChange ┴─> ServingState: live, previous, held_until, frozen, labels  --mirror--> the folder of each replica

A publication is a row that the store accepts once for each version; a control change is an event of the log. The store applies
both in one order to one `ServingState` (online/store/publications.py), and every replica brings its own folder to it. The rules
are those of a folder without replicas (publish.py, roll_back.py): one suite runs over both.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Protocol

from online.errors import Conflict, CorruptSnapshot, NotFound
from online.io.atomic import replace_file, sync_folder
from online.schemas.control import ControlChange
from online.schemas.known_fields import build_known
from online.snapshots import Snapshots
from online.snapshots.folder import AGREED, ROLLED_BACK, LiveVersion, replace_link
from online.snapshots.labels import LabelTarget
from online.snapshots.manifest import Manifest
from online.snapshots.roll_back import Freeze, LastRollBack

INCOMPLETE = b" incomplete"  # after the revision in AGREED: a version that the state names was not in the folder
OWN_PREFIX = "job_"  # of labels that keep a version for work of this replica, which the others know nothing of


@dataclass(frozen=True, slots=True)
class Publication:
    """One version, as the store accepted it. replica: whose learner proposed it. The other fields: as in `Manifest`."""

    version: int
    parent: int | None
    learned_until: int
    taught_until: int
    relearned: int
    state_sha256: str
    weights_sha256: str
    feature_epoch: str
    metrics: Mapping[str, float]
    log_digest: str
    recipe: str
    determinism_domain: str
    created_at: str
    replica: str

    def manifest(self, model: str) -> Manifest:
        """Return what is known of the version without its files."""
        return Manifest(
            model=model,
            version=self.version,
            parent=self.parent,
            learned_until=self.learned_until,
            created_at=self.created_at,
            state_sha256=self.state_sha256,
            weights_sha256=self.weights_sha256,
            feature_epoch=self.feature_epoch,
            recipe=self.recipe,
            durable=False,
            metrics=self.metrics,
            determinism_domain=self.determinism_domain,
            log_digest=self.log_digest,
        )

    @property
    def place(self) -> tuple[int, int]:
        """What orders publications of one recipe: a state without an erased user follows every one with that user."""
        return self.relearned, self.learned_until


@dataclass(frozen=True, slots=True)
class ServingState:
    """The version that answers, and what may follow it. revision: counts the changes. recipe: of the versions that go live. rolled_back: the newest roll back.

    first_version: the oldest version that may be kept; an erasure deletes those before it.
    """

    live: int = 0
    previous: int = 0
    held_until: int = 0
    frozen: Freeze | None = None
    labels: Mapping[str, LabelTarget] = field(default_factory=dict)
    rolled_back: LastRollBack | None = None
    recipe: str = ""
    first_version: int = 0
    revision: int = 0

    def dump(self) -> str:
        """Return everything as JSON."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def parse(cls, text: str) -> "ServingState":
        """Return the inverse of `dump`. Raises NewerRelease for a field that this release does not know, and would not keep."""
        what, values = "the serving state of the store", json.loads(text)
        values["labels"] = {name: build_known(LabelTarget, each, what) for name, each in values["labels"].items()}
        for name, part in (("frozen", Freeze), ("rolled_back", LastRollBack)):
            values[name] = values[name] and build_known(part, values[name], what)
        return build_known(cls, values, what)


class Publications(Protocol):
    """Finds the publications of one model."""

    def find(self, version: int) -> Publication | None:
        """Return a publication; None if there is none of this version."""

    def newest(self, recipe: str) -> Publication | None:
        """Return the one of a recipe that is last in the order of `Publication.place`."""


# the rules


def follow_publication(state: ServingState, new: Publication, publications: Publications) -> ServingState:
    """Return the state after a publication was accepted: it goes live unless a freeze or a roll back prevents it."""
    if state.frozen is not None or not goes_live(state, new, publications):
        return state
    return replace(state, live=new.version, previous=find_previous(state, new, publications), held_until=0)


def find_previous(state: ServingState, new: Publication, publications: Publications) -> int:
    """Return the version that counts as the one before a new live version: not one that answers as the new one does."""
    live = publications.find(state.live)
    is_same = live is not None and live.recipe == new.recipe and 0 < new.taught_until <= live.learned_until
    return state.previous if is_same else state.live


def goes_live(state: ServingState, new: Publication, publications: Publications) -> bool:
    """Return whether a publication takes the place of the live version by itself."""
    live = publications.find(state.live)
    if live is None or live.recipe != new.recipe or new.relearned > live.relearned:
        return True
    return new.learned_until > live.learned_until and new.taught_until > state.held_until


def follow_change(state: ServingState, change: ControlChange, publications: Publications) -> ServingState:
    """Return the state after a control change. Raises NotFound or Conflict for a change that is not possible."""
    match change.action:
        case "roll_back" | "quarantine":
            return follow_roll_back(state, change, publications)
        case "freeze":
            return replace(state, frozen=freeze_of(change))
        case "thaw" | "end_quarantine":
            return follow_thaw(state, change.is_held, publications)
        case "label":
            check_known(change.version, publications)
            return replace(
                state, labels={**state.labels, change.label: LabelTarget(change.version or 0, change.percent)}
            )
        case "unlabel":
            return replace(state, labels={name: each for name, each in state.labels.items() if name != change.label})
        case "forget_versions":
            return follow_removal(state, change.version or 0)
        case "adopt_encoder":
            return state


def freeze_of(change: ControlChange) -> Freeze:
    """Return the freeze that a change begins."""
    return Freeze(change.at, change.reason, change.cause)


def check_known(version: int | None, publications: Publications) -> Publication:
    """Return a publication. Raises NotFound if its version is unknown."""
    found = None if version is None else publications.find(version)
    if found is None:
        raise NotFound(f"there is no version {version}")
    return found


def follow_roll_back(state: ServingState, change: ControlChange, publications: Publications) -> ServingState:
    """Return the state after a roll back, which a quarantine also is, where an older version is known."""
    freezes = change.freezes or change.action == "quarantine"
    frozen = state.frozen or (freeze_of(change) if freezes else None)
    if change.version is None:
        return replace(state, frozen=frozen)
    target = check_known(change.version, publications)
    if target.recipe != state.recipe:
        raise Conflict(f"version {target.version} was created by another kind or with other options")
    newest = publications.newest(state.recipe)
    until = newest.learned_until if newest else 0
    previous = state.live if state.live != target.version else state.previous
    done = LastRollBack(target.version, target.learned_until, until)
    return replace(
        state,
        live=target.version,
        previous=previous,
        held_until=until,
        frozen=frozen,
        rolled_back=done if done.learned_until < done.since else None,
    )


def follow_thaw(state: ServingState, is_held: bool, publications: Publications) -> ServingState:
    """Return the state after a thaw. is_held: whether versions that were rolled back stay so."""
    newest, thawed = publications.newest(state.recipe), replace(state, frozen=None)
    if newest is None or newest.version == state.live:
        return thawed
    if not goes_live(state if is_held else replace(state, held_until=0), newest, publications):
        return thawed
    return replace(thawed, live=newest.version, previous=find_previous(state, newest, publications), held_until=0)


def follow_removal(state: ServingState, first: int) -> ServingState:
    """Return the state after every version before one was deleted."""
    live = max(state.live, first)
    return replace(
        state,
        live=live,
        previous=state.previous if state.previous >= first else 0,
        held_until=state.held_until if live == state.live else 0,
        labels={name: each for name, each in state.labels.items() if each.version >= first},
        rolled_back=state.rolled_back if state.rolled_back and state.rolled_back.version >= first else None,
        first_version=max(state.first_version, first),
    )


# the folder of a replica


def mirror(snapshots: Snapshots, state: ServingState) -> list[int]:
    """Bring a folder to a serving state; return the versions that it names and that are not in the folder.

    Until the live one is there, the folder goes on with what it has. An older state than the folder was brought to before
    changes nothing, and neither does the same one, once nothing is missing: a learner asks for this many times a second.
    """
    folder, whole = snapshots.folder, str(state.revision).encode()
    wanted = {state.live, state.previous, *(each.version for each in state.labels.values())} - {0}
    with folder.locked():
        if state.revision < read_revision(snapshots) or read_agreed(snapshots) == whole:
            return []
        present = set(folder.versions())
        mirror_freeze(snapshots, state.frozen)
        mirror_labels(snapshots, state.labels, present)
        mirror_roll_back(snapshots, state.rolled_back)
        mirror_live(snapshots, state, present)
        replace_file(folder.path / AGREED, whole if wanted <= present else whole + INCOMPLETE, durable=False)
    if state.first_version and present and min(present) < state.first_version and state.live in present:
        snapshots.retention.remove_before(state.first_version)
    folder.wakeup.notify()
    return sorted(wanted - present, key=lambda version: (version != state.live, version))


def read_revision(snapshots: Snapshots) -> int:
    """Return the revision to which the folder was brought; -1 if it never was."""
    try:
        return int(read_agreed(snapshots).removesuffix(INCOMPLETE))
    except ValueError:
        return -1


def read_agreed(snapshots: Snapshots) -> bytes:
    """Return the revision to which the folder was brought, and whether a version was missing then; b"" if it never was."""
    try:
        return (snapshots.folder.path / AGREED).read_bytes()
    except FileNotFoundError:
        return b""


def mirror_freeze(snapshots: Snapshots, frozen: Freeze | None) -> None:
    """Freeze or thaw, if the folder is not as the state says. The lock is held."""
    path = snapshots.folder.path / "FROZEN"
    if frozen is None:
        path.unlink(missing_ok=True)
    elif snapshots.control.frozen() != frozen:
        replace_file(path, json.dumps(asdict(frozen)).encode(), durable=True)


def mirror_labels(snapshots: Snapshots, labels: Mapping[str, LabelTarget], present: set[int]) -> None:
    """Set and delete labels. One whose version is not here yet is left out. The lock is held."""
    path, before = snapshots.labels.path, snapshots.labels.read()
    own = {name: each for name, each in before.items() if name.startswith(OWN_PREFIX)}
    wanted = own | {name: each for name, each in labels.items() if each.version in present}
    if wanted == before:
        return
    path.mkdir(exist_ok=True)
    for name in before.keys() - wanted.keys():
        (path / name).unlink(missing_ok=True)
    for name, target in wanted.items():
        if before.get(name) != target:
            replace_link(path / name, target.target(), durable=False)
    sync_folder(path)


def mirror_roll_back(snapshots: Snapshots, done: LastRollBack | None) -> None:
    """Note the newest roll back. The lock is held."""
    path = snapshots.folder.path / ROLLED_BACK
    if done is None:
        path.unlink(missing_ok=True)
    elif snapshots.control.last_roll_back() != done:
        replace_file(path, json.dumps(asdict(done)).encode(), durable=True)


def mirror_live(snapshots: Snapshots, state: ServingState, present: set[int]) -> None:
    """Make the live version live, if it is here. The lock is held."""
    if state.live not in present:
        return
    live = LiveVersion(state.live, state.held_until, state.previous)
    with suppress(CorruptSnapshot):
        if snapshots.folder.live() == live:
            return
    snapshots.folder.set_live(live, durable=False)

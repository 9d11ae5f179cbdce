"""Agrees with the learners of other replicas on one sequence of versions. There is no leader: the first one publishes.

    learned until n --claim--> store: nobody was at n or further?   accepted: publish it under its number
                                      somebody has published n      the same hash: adopt that number; another: stop proposing
                                      somebody is further, at m     learn exactly until m, then adopt that

The state at an offset is the same bytes wherever it was learned, so a version is made on each replica and not sent. A replica that
skipped a version, because it was further already, does not need it: the live version is the newest.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from online.errors import CorruptSnapshot, NotFound
from online.models import State
from online.snapshots import Snapshots
from online.snapshots.agreed import Publication, ServingState, mirror
from online.snapshots.divergence import Divergence, write_divergence
from online.snapshots.manifest import Manifest
from online.snapshots.set_aside import find_foreign
from online.store import Store
from online.store.events import head_of, load_digests
from online.store.publications import Claim, adopt_folder, announce_recipe, claim, load_newest, load_serving
from online.telemetry import log_event

log = logging.getLogger("online.learner")

LOOK_EVERY_S = 0.05  # for publications of other replicas, while something is learned
Place = tuple[int, int]  # as `Publication.place`


class Agreement:
    """The publications of one model, as the learner of one replica sees them.

    newest: of this recipe, as far as it is known. divergence: after one, this replica proposes nothing.
    """

    def __init__(
        self,
        snapshots: Snapshots,
        store: Store,
        recipe: str,
        replica: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.snapshots, self.store, self.recipe, self.replica, self.clock = snapshots, store, recipe, replica, clock
        self.newest: Publication | None = None
        self.divergence: Divergence | None = None
        self._looked_at = -1e9

    def start(self) -> None:
        """Take over what this folder has published before, and let versions of this recipe go live. Raises Unavailable."""
        model = self.snapshots.model
        write_divergence(self.snapshots.folder.path, None)
        if self.store.read(partial(load_serving, model=model)) is None:
            known, state = self._describe_folder()
            self.store.submit(partial(adopt_folder, model=model, known=known, state=state)).result()
        state = self.store.submit(partial(announce_recipe, model=model, recipe=self.recipe)).result()
        mirror(self.snapshots, state)
        self.look(is_due=True)

    def _describe_folder(self) -> tuple[list[Publication], ServingState]:
        """Return what a folder that had no replicas beside it has published, and what answers there."""
        model, manifests = self.snapshots.model, self.snapshots.folder.manifests()
        offsets = sorted({manifest.learned_until for manifest in manifests} - {0})
        head, digests = self.store.read(
            lambda connection: (head_of(connection, model), load_digests(connection, model, offsets))
        )
        foreign = {each.version for each in find_foreign(manifests, head, digests)}
        known = {each.version: publication_of(each, self.replica) for each in manifests if each.version not in foreign}
        return [*known.values()], read_folder(self.snapshots, known, self.recipe)

    def look(self, is_due: bool = False) -> None:
        """See what others have published, if the last look is some time ago. Raises Unavailable."""
        if not is_due and self.clock() - self._looked_at < LOOK_EVERY_S:
            return
        model = self.snapshots.model
        self.newest, state = self.store.read(partial(load_newest, model=model, recipe=self.recipe))
        self._looked_at = self.clock()
        if state is not None:
            mirror(self.snapshots, state)

    def find_room(self, place: Place) -> int | None:
        """Return how many entries may be learned until the newest publication's offset; None if it is not ahead."""
        ahead = self.newest is not None and self.newest.place > place and self.newest.learned_until > place[1]
        return self.newest.learned_until - place[1] if ahead and self.newest else None

    def is_behind(self, place: Place) -> bool:
        """Return whether another replica has published more."""
        return self.newest is not None and self.newest.place > place

    def is_published(self, place: Place) -> bool:
        """Return whether a version at this place is published."""
        return self.newest is not None and self.newest.place == place

    def is_here(self) -> bool:
        """Return whether the newest publication is in the folder."""
        return self.newest is not None and self.find_local(self.newest) is not None

    def find_local(self, publication: Publication) -> Manifest | None:
        """Return the manifest of a publication in the folder; None if it is not there, or if another version has its number."""
        try:
            found = self.snapshots.folder.manifest(publication.version)
        except (NotFound, CorruptSnapshot):
            return None
        return found if found.state_sha256 == publication.state_sha256 else None

    def claim(self, manifest: Manifest, repeats: bool = False) -> Claim:
        """Propose a version; its number is not chosen yet. Raises Unavailable or LogReplaced."""
        floor = self.snapshots.folder.next_version() - 1
        proposed = publication_of(manifest, self.replica)
        claimed: Claim = self.store.submit(
            partial(claim, model=self.snapshots.model, proposed=proposed, floor=floor, repeats=repeats)
        ).result()
        self.newest = claimed.newest
        return claimed

    def write(self, claimed: Claim, state: State, manifest: Manifest, waits: bool) -> Manifest:
        """Write the publication that a claim has found into the folder, or what it lacks there, and follow what answers now.

        waits: it is on the disk when this returns. Raises Unavailable.
        """
        assert claimed.accepted is not None, "nothing is written without a publication"
        written = self._write(claimed.accepted, state, manifest, waits)
        mirror(self.snapshots, claimed.state)
        return written

    def _write(self, published: Publication, state: State, manifest: Manifest, waits: bool) -> Manifest:
        writer = self.snapshots.publisher
        numbered = replace(
            manifest, version=published.version, parent=published.parent, created_at=published.created_at
        )
        if self.find_local(published) is None:
            self.snapshots.aside.displace(published.version)
            return writer.write(state, numbered, waits)
        if not manifest.durable:
            return self.snapshots.folder.manifest(published.version)
        completed = writer.complete(state, numbered)
        if completed is None:  # other files of the same state: a version of its own
            again = self.claim(manifest, repeats=True).accepted
            assert again is not None, "a claim that repeats is accepted"
            return writer.write(state, replace(numbered, version=again.version, parent=again.parent), waits)
        if waits:
            writer.make_durable(completed.version)
        return completed

    def is_same(self, published: Publication, state_sha256: str, domain: str = "") -> bool:
        """Return whether the state of this replica is the published one; note it where it is not.

        domain: the determinism domain of this learner; "" for a kind that is exact everywhere.
        """
        if published.state_sha256 == state_sha256:
            return True
        if self.divergence is None:
            facts = {"version": published.version, "learned_until": published.learned_until}
            hashes = {"ours": state_sha256, "published": published.state_sha256, "published_by": published.replica}
            self.divergence = Divergence(
                **facts, ours=state_sha256, published=published.state_sha256, determinism_domain=domain
            )
            write_divergence(self.snapshots.folder.path, self.divergence)
            reason = (
                "this replica learned another state from the same log, as another processor or another build does: it takes "
                "the published versions from now on, and publishes none"
            )
            log_event(
                log, "replica diverged", logging.ERROR, model=self.snapshots.model, **facts, **hashes, reason=reason
            )
        return False


def publication_of(manifest: Manifest, replica: str) -> Publication:
    """Return a version as it is proposed."""
    return Publication(
        version=manifest.version,
        parent=manifest.parent,
        learned_until=manifest.learned_until,
        taught_until=manifest.taught_until,
        relearned=manifest.relearned,
        state_sha256=manifest.state_sha256,
        log_digest=manifest.log_digest,
        recipe=manifest.recipe,
        determinism_domain=manifest.determinism_domain,
        created_at=manifest.created_at,
        replica=replica,
    )


def read_folder(snapshots: Snapshots, known: dict[int, Publication], recipe: str) -> ServingState:
    """Return what answers in a folder, as far as its versions are known."""
    try:
        live = snapshots.folder.live()
    except CorruptSnapshot:
        live = None
    labels = {name: each for name, each in snapshots.labels.read().items() if each.version in known}
    frozen, rolled_back = snapshots.control.frozen(), snapshots.control.last_roll_back()
    if live is None or live.version not in known:
        return ServingState(frozen=frozen, labels=labels, recipe=recipe)
    return ServingState(live.version, live.previous, live.held_until, frozen, labels, rolled_back, recipe)

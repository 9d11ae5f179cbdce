"""Agrees with the learners of other replicas on one sequence of versions. There is no leader: the first one publishes.

    learned until n --claim--> store: nobody was at n or further?   accepted: publish it under its number
                                      somebody has published n      the same hash: adopt that number; another: stop proposing
                                      somebody is further, at m     learn exactly until m, then adopt that

The state at an offset is the same bytes wherever it was learned, so a version is made on each replica and not sent. A replica that
skipped a version, because it was further already, does not need it: the live version is the newest.

Of a kind that is not exact the bytes differ, so one replica alone learns it, with a lease: what it has learned counts, whatever others
have published at the same place before.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from online.errors import CorruptSnapshot, NotFound
from online.learning.lease import LearnerLease
from online.models import State
from online.snapshots import Snapshots
from online.snapshots.agreed import Publication, ServingState, mirror
from online.snapshots.divergence import Divergence, write_divergence
from online.snapshots.manifest import Manifest
from online.snapshots.publish import PreparedVersion
from online.store import Store
from online.store.claims import Claim, Proposal, claim
from online.store.events import list_foreign
from online.store.publications import adopt_folder, announce_recipe, load_newest, load_serving
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
        lease: LearnerLease | None = None,
    ) -> None:
        """replica: the name of this one. lease: held by this learner; None for an exact kind."""
        self.snapshots, self.store, self.recipe, self.replica, self.clock = snapshots, store, recipe, replica, clock
        self.lease = lease
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
        found, _ = self.store.read(partial(list_foreign, model=model, manifests=manifests))
        foreign = {each.version for each in found}
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
        """Return how many entries may be learned until the newest publication's offset; None if it is not ahead, or of no interest."""
        if self.lease is not None:
            return None
        ahead = self.newest is not None and self.newest.place > place and self.newest.learned_until > place[1]
        return self.newest.learned_until - place[1] if ahead and self.newest else None

    def is_behind(self, place: Place) -> bool:
        """Return whether another replica has published more."""
        return self.newest is not None and self.newest.place > place

    def is_published(self, place: Place) -> bool:
        """Return whether a version at this place is published."""
        return self.newest is not None and self.newest.place == place

    def needs_copy(self, place: Place) -> bool:
        """Return whether a version at this place is published, and must be written here as well."""
        return self.lease is None and self.is_published(place) and not self.is_here()

    def is_done(self, place: Place) -> bool:
        """Return whether nothing is left to do about a version at this place that serves only."""
        return self.is_published(place) and not self.needs_copy(place)

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
        """Propose a version; its number is not chosen yet. Raises Unavailable, LogReplaced or LeaseLost."""
        floor = self.snapshots.folder.next_version() - 1
        proposed = publication_of(manifest, self.replica)
        if self.lease is not None:
            self.lease.check()
        token = None if self.lease is None else self.lease.token
        claimed = claim(self.store, Proposal(self.snapshots.model, proposed, floor, repeats), token)
        self.newest = claimed.newest
        is_other = claimed.accepted is not None and claimed.accepted.state_sha256 != manifest.state_sha256
        if self.lease is not None and is_other:  # what the holder before had learned at this place
            return self.claim(manifest, repeats=True)
        return claimed

    def publish(self, state: State, manifest: Manifest, waits: bool) -> Manifest | None:
        """Publish a state: under a number of its own, or under that of the replica which was there before.

        The files are written before the number is claimed, so that a publication is on the disk of its replica a moment after
        the others can see it. None if another replica is ahead, or has published another state. waits: the version is on the
        disk when this returns. Raises Unavailable or LogReplaced.
        """
        prepared = self.snapshots.publisher.prepare(state)
        claimed = self.claim(replace(manifest, weights_sha256=prepared.weights_sha256))
        published = claimed.accepted
        if published is None or not self.is_same(published, manifest.state_sha256, manifest.determinism_domain):
            return None
        written = self._place(published, prepared, manifest, waits)
        mirror(self.snapshots, claimed.state)
        return written

    def _place(self, published: Publication, prepared: PreparedVersion, manifest: Manifest, waits: bool) -> Manifest:
        writer = self.snapshots.publisher
        numbered = number(manifest, published)
        if self.find_local(published) is None:
            self.snapshots.aside.displace(published.version)
            return writer.place(prepared, numbered, waits)
        if not manifest.durable:
            return self.snapshots.folder.manifest(published.version)
        completed = writer.complete(prepared, numbered)
        if completed is None:  # other files of the same state: a version of its own
            again = self.claim(replace(manifest, weights_sha256=prepared.weights_sha256), repeats=True).accepted
            assert again is not None, "a claim that repeats is accepted"
            return writer.place(prepared, number(manifest, again), waits)
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


def number(manifest: Manifest, published: Publication) -> Manifest:
    """Return the manifest of a state under the number at which it is published."""
    return replace(manifest, version=published.version, parent=published.parent, created_at=published.created_at)


def publication_of(manifest: Manifest, replica: str) -> Publication:
    """Return a version as it is proposed."""
    return Publication(
        version=manifest.version,
        parent=manifest.parent,
        learned_until=manifest.learned_until,
        taught_until=manifest.taught_until,
        relearned=manifest.relearned,
        state_sha256=manifest.state_sha256,
        weights_sha256=manifest.weights_sha256,
        feature_epoch=manifest.feature_epoch,
        metrics=dict(manifest.metrics),
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

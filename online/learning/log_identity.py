"""Recognise the log that the snapshots were learned from.

    manifest: learned_until 322, log_digest a1..   <--compare-->   log: head 170, or another digest at 322

A database that was restored from an older backup, a fail-over to a stale replica, a truncated WAL or a new database
give a log that is shorter, or that has other events at the same offsets. No snapshot that has learned what is not
in the log may answer or be continued from: it is set aside, and the log is learned again.
"""

import logging
from collections.abc import Sequence

from online.snapshots import Snapshots
from online.snapshots.manifest import Manifest
from online.snapshots.set_aside import SetAsideRecord, find_foreign
from online.store import Store, now
from online.store.events import head_of, load_digests
from online.telemetry import log_event

log = logging.getLogger("online.learner")


class LogIdentity:
    """Compares the snapshots of one model with its log."""

    def __init__(self, snapshots: Snapshots, store: Store, recipe: str) -> None:
        self.snapshots, self.store, self.recipe = snapshots, store, recipe

    def set_aside_foreign(self) -> SetAsideRecord | None:
        """Set aside every version that was learned from another log; None if there is none. Raises Unavailable."""
        manifests, model = self.snapshots.folder.manifests(), self.snapshots.model
        offsets = sorted({manifest.learned_until for manifest in manifests} - {0})
        if not offsets:
            return None
        head, digests = self.store.read(
            lambda connection: (head_of(connection, model), load_digests(connection, model, offsets))
        )
        foreign = find_foreign(manifests, head, digests)
        if not foreign:
            return None
        versions = {manifest.version for manifest in foreign}
        kept = [each for each in manifests if each.version not in versions and each.recipe == self.recipe]
        live = max(kept, key=lambda each: (each.learned_until, each.version), default=None)
        return self._set_aside(foreign, head, None if live is None else live.version)

    def _set_aside(self, foreign: Sequence[Manifest], head: int, live: int | None) -> SetAsideRecord:
        newest = foreign[0]
        notice = SetAsideRecord(
            at=now(),
            reason=describe(newest, head),
            versions=tuple(sorted(manifest.version for manifest in foreign)),
            learned_until=max(manifest.learned_until for manifest in foreign),
            head=head,
        )
        notice = self.snapshots.aside.move(notice, live)
        facts = {"versions": len(foreign), "newest": newest.version, "live": live, "labels": ",".join(notice.labels)}
        log_event(log, "snapshots set aside", logging.ERROR, model=newest.model, reason=notice.reason, **facts)
        return notice


def describe(newest: Manifest, head: int) -> str:
    """Say why a version is not of the log, in a sentence."""
    if newest.learned_until > head:
        difference = (
            f"the log ends at offset {head}, but version {newest.version} had learned until {newest.learned_until}"
        )
    else:
        difference = f"the log has other events than version {newest.version} had learned, at or before offset {newest.learned_until}"
    return f"{difference}: the database is older than the snapshots, or another one"

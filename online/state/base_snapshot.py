"""The base of a model: a durable snapshot of what was learned from events whose contents are no longer kept.

    log       void void void void | event event retraction event event event
                                  B: the base has learned until here       H: the end of the log when the base was begun
    base      the model that learned every event until B, except those that were retracted until H
    learning  starts from the base where it would otherwise start from nothing, and goes on with the events after B

A history that was loaded from files comes before the log. It is in a base, too, which has learned until offset 0:

    history (files) | event event event ...
                    B = H = 0

A base is in a folder of its own, which the cleaning of snapshots leaves alone, and is replaced by the next base. The learner
makes it (online/learning/base_building.py), and only then are contents removed (online/serving/event_retention.py).
"""

from collections.abc import Mapping

from sqlalchemy import Connection

from online.errors import CorruptSnapshot
from online.snapshots import Snapshots
from online.snapshots.folder import LoadedSnapshot
from online.snapshots.manifest import Manifest
from online.store.deletion.event_expiry import load_expiry
from online.store.events import load_digests

CLOSED_AT = "closed_at"  # a metric of the base's manifest: H
HISTORY = "history_examples"  # a metric of the base's manifest: how many examples came from files; without it: none
MISSING_UNTIL = "missing_until"  # a metric of versions that could not learn the events until this offset


def find_base(connection: Connection, snapshots: Snapshots, recipe: str) -> Manifest | None:
    """Return the manifest of a model's base; None if there is none of this recipe and this log."""
    if not snapshots.has_base:
        return None
    bases = (each for each in snapshots.base().folder.manifests() if each.durable and each.recipe == recipe)
    found = next(bases, None)
    if found is None or CLOSED_AT not in found.metrics:
        return None
    if not found.learned_until:
        return found if HISTORY in found.metrics else None  # it comes before the log, whichever that is
    digests = load_digests(connection, snapshots.model, [found.learned_until])
    is_of_log = bool(found.log_digest) and digests.get(found.learned_until) == found.log_digest
    is_closed = found.learned_until <= load_expiry(connection, snapshots.model).closed_until
    return found if is_of_log and is_closed else None


def load_base(snapshots: Snapshots, base: Manifest) -> LoadedSnapshot:
    """Load the whole state of a base. Raises CorruptSnapshot."""
    loaded = snapshots.base().folder.load(base.version, serving_only=False)
    if loaded.manifest != base:
        raise CorruptSnapshot(f"the base of {snapshots.model} was replaced while it was read")
    return loaded


def closed_at(base: Manifest) -> int:
    """Return the offset up to which feedback cannot be retracted any more."""
    return int(base.metrics[CLOSED_AT])


def history_count(base: Manifest) -> int:
    """Return how many of the examples that a base has learned came from files, before the log."""
    return int(base.metrics.get(HISTORY, 0))


def missing_until(metrics: Mapping[str, float]) -> int:
    """Return the offset up to which a version lacks what had expired before it learned; 0: it lacks nothing."""
    return int(metrics.get(MISSING_UNTIL, 0))

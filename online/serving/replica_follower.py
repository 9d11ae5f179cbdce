"""Keeps the folders of the snapshots as the store says, where other replicas share it, and says that this one is here.

    Postgres --NOTIFY model--> wake the learner and the event feeds of the model
                               what answers has changed? --> mirror it to the folder --missing version--> fetch it
                               message --handler of its kind--> copy the journal, send an event of the feed, ...
    every second: this replica is here, and what it serves; has anything changed without a notification?

It is a thread of the first worker. Without it, or while the store does not answer, the service goes on with what it has.
"""

import logging
import time
from collections.abc import Callable, Mapping, Set
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict
from functools import partial

from online.errors import NotFound, Unavailable
from online.models import is_exact
from online.schemas.json_values import JSON, JSONObject
from online.serving.model_runtime import ModelRuntime
from online.snapshots import Snapshots
from online.snapshots.agreed import ServingState, mirror, read_revision
from online.snapshots.divergence import read_divergence
from online.store import Store
from online.store.database.schema import list_groups
from online.store.leases import list_holders, read_clock
from online.store.notifications import NotificationThread
from online.store.publications import load_revisions, load_serving
from online.store.replica_messages import parse_message
from online.store.replicas import JOURNAL_COPIED_AT, SCHEMA, remove_replica, report_replica
from online.telemetry import OutageLog, log_event

log = logging.getLogger("online.replica")

REPORT_EVERY_S = 1.0
GRACE_S = 0.4  # in which the learner of this replica may make a missing version itself
NONE: frozenset[str] = frozenset()
QUIET_S = 5.0  # until the version before the live one is fetched, which few ask for
Handler = Callable[[JSONObject], None]  # of the content of a message, called in the thread of the follower
STALE_LOOKS = 3  # after which a store with an older state than the folder counts as one that went back in time


class ReplicaFollower:
    """Follows the store for every model of one service."""

    def __init__(
        self,
        store: Store,
        models: Mapping[str, ModelRuntime],
        replica: str,
        copy_journal: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """replica: the name of this one. copy_journal: returns once all of its predictions are in the store.

        url: where others reach it, which a plugin sets.
        standing_by: the models that another replica learns alone at present. describe_service: returns what is reported beside
        the models. clock_difference_s: of this machine to the database.
        """
        self.store, self.models, self.replica, self.clock = store, models, replica, clock
        self.url, self.copy_journal, self.journal_copied_at, self.standing_by = "", copy_journal, 0.0, NONE
        self.clock_difference_s = 0.0
        self.describe_service: Callable[[], Mapping[str, JSON]] = dict
        self.handlers: dict[str, Handler] = {"copy_journal": self._copy_journal}
        self._alone = {name for name, model in models.items() if not is_exact(model.spec.kind, model.spec.options)}
        self._thread = NotificationThread(store, self._hear, "replica-follower")
        self._fetching = OutageLog(log, "a version is not fetched")
        self._fetcher = ThreadPoolExecutor(1, "version-fetcher")
        self._fetches: dict[str, Future[None]] = {}
        self._missing_since: dict[str, float] = {}
        self._stale: dict[str, int] = {}
        self._reported_at = -1e9

    def start(self) -> None:
        """Follow in a thread until `stop`."""
        self._thread.start()

    def stop(self) -> None:
        """Stop following, and say that this replica is gone."""
        self._thread.stop()
        self._fetcher.shutdown(wait=False, cancel_futures=True)
        with suppress(Unavailable):
            self.store.submit(partial(remove_replica, id=self.replica)).result()

    def _hear(self, named: set[str]) -> None:
        self._wake(named)
        self._receive(named)
        self.look(named & self.models.keys())

    def _wake(self, named: set[str]) -> None:
        for name in named & self.models.keys():
            self.models[name].stream.wakeup.notify()

    def _receive(self, payloads: Set[str]) -> None:
        """Call the handler of each message."""
        for kind, content in map(parse_message, sorted(payloads)):
            if kind in self.handlers:
                self.handlers[kind](content)

    def _copy_journal(self, content: JSONObject) -> None:
        """Copy the journal for a replica that looks for a prediction, and say until when it is copied. Raises Unavailable."""
        if float(content["at"]) > self.journal_copied_at:
            at = self.store.read(read_clock)
            self.copy_journal()
            self.journal_copied_at = at
            self.report()

    def report(self) -> None:
        """Say that this replica is here, and note by how much its clock differs from that of the database. Raises Unavailable."""
        self._reported_at = self.clock()
        holders = self.store.read(list_holders) if self._alone else {}
        self.standing_by = frozenset(name for name in self._alone & holders.keys() if holders[name] != self.replica)
        report, before = partial(report_replica, id=self.replica, url=self.url, report=self.describe()), time.time()
        seen_at = self.store.submit(report).result()
        self.clock_difference_s = (before + time.time()) / 2 - seen_at

    def look(self, named: Set[str] = NONE) -> None:
        """Bring each folder to what the store says. named: models of which something was heard. Raises Unavailable."""
        if self.clock() - self._reported_at >= REPORT_EVERY_S:
            self.report()
        elif not named and not self._missing_since:
            return
        revisions = self.store.read(load_revisions)
        for name in revisions.keys() & self.models.keys():
            self._follow(name, revisions[name])

    def describe(self) -> dict[str, JSON]:
        """Return what this replica says of itself.

        schema: the revisions that it knows. models: the version of each. standing_by: those that another replica learns. Also until
        when its journal is copied, and what its process is like.
        """
        return {
            **self.describe_service(),
            SCHEMA: {group.name: group.head for group in list_groups()},
            "clock_difference_s": round(self.clock_difference_s, 3),
            "models": {name: describe_model(model) for name, model in self.models.items()},
            "standing_by": [*sorted(self.standing_by)],
            JOURNAL_COPIED_AT: self.journal_copied_at,
        }

    def _follow(self, name: str, revision: int) -> None:
        snapshots = self.models[name].snapshots
        here = read_revision(snapshots)
        if revision < here:
            self._note_stale(name, snapshots)
            return
        self._stale.pop(name, None)
        if revision == here and name not in self._missing_since:
            return
        state = self.store.read(partial(load_serving, model=name))
        missing = [] if state is None else mirror(snapshots, state)
        if not missing:
            self._missing_since.pop(name, None)
            return
        since = self._missing_since.setdefault(name, self.clock())
        waited_s = self.clock() - since
        if state is not None and (waited_s >= GRACE_S or name in self.standing_by) and self._is_free(name):
            wanted = [each for each in missing if each != state.previous or waited_s >= QUIET_S]
            self._fetches[name] = self._fetcher.submit(self._fetch, snapshots, wanted, state)

    def _is_free(self, name: str) -> bool:
        """Return whether no version of a model is being fetched."""
        return name not in self._fetches or self._fetches[name].done()

    def _fetch(self, snapshots: Snapshots, missing: list[int], state: ServingState) -> None:
        """Fetch the versions that are missing, the live one first. Without anywhere to fetch from, the learner makes the next.

        It is a thread of its own: while a version of gigabytes is on its way, this replica goes on saying that it is here.
        """
        if snapshots.fetch is None:
            return
        try:
            for version in missing:
                snapshots.fetch(version)
                mirror(snapshots, state)
            self._fetching.record_success()
        except (NotFound, Unavailable, OSError) as error:
            self._fetching.record_failure(error)

    def _note_stale(self, name: str, snapshots: Snapshots) -> None:
        """Begin again with a store that went back in time, as after a fail-over to a standby that lacks the last commits."""
        self._stale[name] = self._stale.get(name, 0) + 1
        if self._stale[name] >= STALE_LOOKS:
            log_event(log, "the store went back in time", logging.ERROR, model=name)
            snapshots.forget_agreement()
            self._stale.pop(name)


def describe_model(model: ModelRuntime) -> dict[str, JSON]:
    """Return what a replica reports of one model: the version that answers, and whether its learner has diverged."""
    served = model.live.current
    manifest = None if served.loaded is None else served.loaded.manifest
    diverged = read_divergence(model.snapshots.folder.path)
    return {
        "version": served.version,
        "learned_until": served.learned_until,
        "state_sha256": "" if manifest is None else manifest.state_sha256,
        "determinism_domain": "" if manifest is None else manifest.determinism_domain,
        "diverged": None if diverged is None else asdict(diverged),
    }

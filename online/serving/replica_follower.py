"""Keeps the folders of the snapshots as the store says, where other replicas share it, and says that this one is here.

    Postgres --NOTIFY model--> wake the learner and the event feeds of the model
                               what answers has changed? --> mirror it to the folder --missing version--> fetch it
    every second: this replica is here, and what it serves; has anything changed without a notification?

It is a thread of the first worker. Without it, or while the store does not answer, the service goes on with what it has.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Set
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from typing import Any

from sqlalchemy import Connection

from online.errors import NotFound, OnlineError, Unavailable
from online.schemas.json_values import JSON
from online.serving.model_runtime import ModelRuntime
from online.snapshots import Snapshots
from online.snapshots.agreed import mirror, read_revision
from online.snapshots.divergence import read_divergence
from online.store import Store
from online.store.events import CHANNEL
from online.store.publications import load_revisions, load_serving
from online.store.replicas import remove_replica, report_replica
from online.telemetry import OutageLog, log_event

log = logging.getLogger("online.replica")

REPORT_EVERY_S = 1.0
POLL_S = 0.25  # where the driver has no notifications, and for a version that is still missing
GRACE_S = 0.4  # in which the learner of this replica may make a missing version itself
NOBODY: frozenset[str] = frozenset()
STALE_LOOKS = 3  # after which a store with an older state than the folder counts as one that went back in time


class ReplicaFollower:
    """Follows the store for every model of one service."""

    def __init__(
        self,
        store: Store,
        models: Mapping[str, ModelRuntime],
        replica: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """replica: the name of this one. url: where others reach it, which a plugin sets.

        describe_service: returns what is reported beside the models. clock_difference_s: of this machine to the database.
        """
        self.store, self.models, self.replica, self.clock = store, models, replica, clock
        self.url, self.clock_difference_s = "", 0.0
        self.describe_service: Callable[[], Mapping[str, JSON]] = dict
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="replica-follower", daemon=True)
        self._outage = OutageLog(log, "nothing is heard of other replicas")
        self._fetching = OutageLog(log, "a version is not fetched")
        self._missing_since: dict[str, float] = {}
        self._stale: dict[str, int] = {}
        self._reported_at = -1e9

    def start(self) -> None:
        """Follow in a thread until `stop`."""
        self._thread.start()

    def stop(self) -> None:
        """Stop following, and say that this replica is gone."""
        self._stopping.set()
        self._thread.join()
        with suppress(Unavailable):
            self.store.submit(partial(remove_replica, id=self.replica)).result()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                with self.store.separate_connection() as connection:
                    for named in listen(connection):
                        if self._stopping.is_set():
                            return
                        self._wake(named)
                        self.look(named)
            except (OnlineError, OSError) as error:
                self._outage.record_failure(error)
            except Exception as error:  # of the driver: the connection is opened again
                log.debug("following failed", exc_info=error)
                self._outage.record_failure(f"{type(error).__name__}: {error}")
            self._stopping.wait(POLL_S)

    def _wake(self, named: set[str]) -> None:
        for name in named & self.models.keys():
            self.models[name].stream.wakeup.notify()

    def look(self, named: Set[str] = NOBODY) -> None:
        """Bring each folder to what the store says. named: models of which something was heard. Raises Unavailable."""
        if self.clock() - self._reported_at >= REPORT_EVERY_S:
            self._reported_at = self.clock()
            self._report()
        elif not named and not self._missing_since:
            return
        revisions = self.store.read(load_revisions)
        for name in revisions.keys() & self.models.keys():
            self._follow(name, revisions[name])
        self._outage.record_success()

    def _report(self) -> None:
        """Say that this replica is here, and note by how much its clock differs from that of the database."""
        report, before = partial(report_replica, id=self.replica, url=self.url, report=self.describe()), time.time()
        seen_at = self.store.submit(report).result()
        self.clock_difference_s = (before + time.time()) / 2 - seen_at

    def describe(self) -> dict[str, JSON]:
        """Return what this replica says of itself: what its process is like, and the version of each model."""
        described = {name: describe_model(model) for name, model in self.models.items()}
        return {
            **self.describe_service(),
            "clock_difference_s": round(self.clock_difference_s, 3),
            "models": described,
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
        if self.clock() - since >= GRACE_S:
            self._fetch(snapshots, missing)
            if state is not None:
                mirror(snapshots, state)

    def _fetch(self, snapshots: Snapshots, missing: list[int]) -> None:
        """Fetch the versions that are missing, the live one first. Without anywhere to fetch from, the learner makes the next."""
        if snapshots.fetch is None:
            return
        try:
            for version in missing:
                snapshots.fetch(version)
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


def listen(connection: Connection) -> Iterator[set[str]]:
    """Yield the models of which something was heard; every POLL_S at least, then perhaps none."""
    driver: Any = connection.connection.driver_connection
    connection.rollback()
    if not hasattr(driver, "notifies"):
        raise Unavailable("this driver of Postgres has no notifications: install psycopg 3")
    driver.autocommit = True
    driver.execute(f"LISTEN {CHANNEL}")
    yield set()
    while True:
        first = {notice.payload for notice in driver.notifies(timeout=POLL_S, stop_after=1)}
        yield first | {notice.payload for notice in driver.notifies(timeout=0)}

"""Brings versions from other replicas, or from the bucket, when this replica needs them.

    start   the live version, and the newest durable one, before anything is learned here: a replica that joins need not learn the log
    later   a version that the store names and that the learner of this replica did not make: it skipped it, or has diverged
    always  while another replica alone learns a model: its newest durable version, from which this one goes on if that one ends

What is fetched must be what the store has accepted: its state has the hash of the publication.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from functools import partial

from sqlalchemy import Connection

from online.errors import Conflict, NotFound, OnlineError, Unavailable
from online.models import is_exact
from online.plugins.cluster.addresses import find_replica_url
from online.plugins.cluster.copies import copy_version
from online.plugins.cluster.kept_versions import VersionSummary
from online.plugins.cluster.sources import ReplicaSources, Source
from online.plugins.cluster.uploading import BucketUploads
from online.serving.parts import ServicePart, Work
from online.serving.replica_follower import ReplicaFollower
from online.serving.runtime import Runtime
from online.snapshots import Snapshots
from online.snapshots.manifest import Manifest
from online.store.publications import StoredPublications, load_serving
from online.telemetry import OutageLog, log_event

log = logging.getLogger("online.replica")

WORTH_FETCHING = 5_000  # events that a durable version of another replica must be ahead
STANDBY_EVERY_S, REST_RATIO = (
    2.0,
    5,
)  # between two fetches of a standby: so long, or 5 times as long as the last one took


class VersionFetcher(ServicePart):
    """Fetches versions for every model of one service."""

    def __init__(self, runtime: Runtime, clock: Callable[[], float] = time.monotonic) -> None:
        self.runtime, self.workspace, self.clock = runtime, runtime.workspace, clock
        self.store = runtime.workspace.store
        self.sources = ReplicaSources(self.workspace, clock)
        self._uploaded: set[str] = set()
        self._outage = OutageLog(log, "not ready to take over")

    async def start(self) -> None:
        """Let versions be fetched, and fetch what a replica that joins needs. Raises SetupError."""
        await asyncio.to_thread(self.sources.open_bucket)
        for model in self.runtime.models.values():
            model.snapshots.fetch = partial(self.fetch, model.snapshots)
        if self.runtime.follower is not None:
            self.runtime.follower.url = find_replica_url(self.runtime.settings)
            await asyncio.to_thread(self._join)

    def background(self, is_primary: bool) -> Iterable[Work]:
        """Return what keeps this replica ready to learn what another learns at present, and uploads versions to the bucket."""
        if self.runtime.follower is None:
            return
        yield self._keep_ready(self.runtime.follower)
        if self.sources.bucket is not None:
            yield BucketUploads(self.runtime, self.sources.bucket).run()

    async def _keep_ready(self, follower: ReplicaFollower) -> None:
        while True:
            began_at = self.clock()
            try:
                for name in sorted(follower.standing_by):
                    await asyncio.to_thread(self.fetch_durable, self.runtime.models[name].snapshots)
                await asyncio.to_thread(self._upload_encoders)
                self._outage.record_success()
            except (OnlineError, OSError) as error:
                self._outage.record_failure(error)
            await asyncio.sleep(max(STANDBY_EVERY_S, REST_RATIO * (self.clock() - began_at)))

    def fetch_durable(self, snapshots: Snapshots) -> None:
        """Fetch the newest durable version of another replica, and remove old ones, which no learner does here. Raises Unavailable."""
        newest = self._find_durable(snapshots, worth=1)
        if newest is not None:
            self.fetch(snapshots, newest.version)
        snapshots.retention.prune()

    def _upload_encoders(self) -> None:
        """Let the bucket have the tuned encoders that are in use, once. Raises Unavailable."""
        used = {model.live.encoder_config.encoder_name for model in self.runtime.models.values()} - {
            "",
            *self._uploaded,
        }
        for encoder in used if self.sources.bucket is not None else ():
            path = self.workspace.encoders.obtain(encoder)
            assert path is not None and self.sources.bucket is not None, "it has a name, and there is a bucket"
            self.sources.bucket.upload_encoder(encoder, path)
            self._uploaded.add(encoder)

    async def close(self) -> None:
        """Close the connections."""
        self.sources.close()

    def fetch(self, snapshots: Snapshots, version: int) -> None:
        """Bring a version into the folder. Raises NotFound or Unavailable that says what each source answered."""
        check, refusals = partial(self._check, snapshots), list[str]()
        for source in self.sources:
            try:
                copy_version(source, snapshots, version, check)
            except Conflict:  # another version had this number before the store went back in time
                snapshots.aside.displace(version)
                continue
            except (NotFound, Unavailable) as error:
                refusals.append(str(error))
                continue
            log_event(log, "version fetched", model=snapshots.model, version=version, source=source.name)
            return
        raise Unavailable(
            f"version {version} of {snapshots.model} is not on this replica, and was not fetched: "
            + ("; ".join(refusals) or "no other replica is there, and no snapshot_url is set")
        )

    def _check(self, snapshots: Snapshots, manifest: Manifest) -> None:
        """Raise NotFound unless the store has accepted this version with this state, and no erasure has deleted it."""

        def is_wanted(connection: Connection) -> bool:
            found = StoredPublications(connection, snapshots.model).find(manifest.version)
            state = load_serving(connection, snapshots.model)
            is_same = found is not None and found.state_sha256 == manifest.state_sha256
            return is_same and (state is None or manifest.version >= state.first_version)

        if not self.store.read(is_wanted):
            raise NotFound(f"version {manifest.version} of {snapshots.model} is not the one that was published")

    def _join(self) -> None:
        """Fetch what this replica needs to answer, and to learn on from. What fails is learned from the log instead."""
        for model in self.runtime.models.values():
            try:
                worth = WORTH_FETCHING if is_exact(model.spec.kind, model.spec.options) else 1
                self._fetch_first(model.snapshots, worth)
                model.transactions.versions.catch_up(model.live.encoder_config.recipe)
            except (OnlineError, OSError) as error:
                log_event(log, "nothing fetched", logging.WARNING, model=model.spec.name, reason=str(error))

    def _fetch_first(self, snapshots: Snapshots, worth: int) -> None:
        """Fetch the live version of a model, and a durable one that is `worth` events ahead. Raises NotFound or Unavailable."""
        state = self.store.read(partial(load_serving, model=snapshots.model))
        if state is None:
            return
        present = set(snapshots.folder.versions())
        durable = self._find_durable(snapshots, worth)
        wanted = [state.live] if durable is None else [state.live, durable.version]
        for version in dict.fromkeys(wanted):
            if version and (version not in present or (durable is not None and version == durable.version)):
                self.fetch(snapshots, version)

    def _find_durable(self, snapshots: Snapshots, worth: int) -> VersionSummary | None:
        """Return the newest durable version of another replica, if it is `worth` events ahead of those here."""
        own = max((each.learned_until for each in snapshots.folder.manifests() if each.durable), default=0)
        listed = [each for source in self.sources for each in list_safely(source, snapshots.model)]
        ahead = [each for each in listed if each.durable and each.learned_until >= own + worth]
        return max(ahead, key=lambda each: each.learned_until, default=None)


def list_safely(source: Source, model: str) -> list[VersionSummary]:
    """Return the versions of a source; none if it does not answer."""
    try:
        return source.list_versions(model)
    except (NotFound, Unavailable):
        return []

"""Brings versions from other replicas, or from the bucket, when this replica needs them.

    start   the live version, and the newest durable one, before anything is learned here: a replica that joins need not learn the log
    later   a version that the store names and that the learner of this replica did not make: it skipped it, or has diverged

What is fetched must be what the store has accepted: its state has the hash of the publication.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial

import httpx
from sqlalchemy import Connection

from online.errors import Conflict, NotFound, OnlineError, Unavailable
from online.plugins.cluster.addresses import find_replica_url
from online.plugins.cluster.copies import copy_version
from online.plugins.cluster.kept_versions import VersionSummary
from online.plugins.cluster.peer_source import PeerSource
from online.plugins.cluster.settings import ClusterSettings
from online.plugins.cluster.stored_source import StoredSource
from online.plugins.cluster.uploading import BucketUploads
from online.serving.parts import ServicePart, Work
from online.serving.runtime import Runtime
from online.snapshots import Snapshots
from online.snapshots.manifest import Manifest
from online.store.publications import StoredPublications, load_serving
from online.store.replicas import list_replicas
from online.telemetry import log_event

log = logging.getLogger("online.replica")

WORTH_FETCHING = 5_000  # events that a durable version of another replica must be ahead
LISTED_EVERY_S = 1.0  # how long the list of the others is used

Source = PeerSource | StoredSource


class VersionFetcher(ServicePart):
    """Fetches versions for every model of one service."""

    def __init__(self, runtime: Runtime, clock: Callable[[], float] = time.monotonic) -> None:
        self.runtime, self.workspace, self.clock = runtime, runtime.workspace, clock
        self.store, self.keys = runtime.workspace.store, runtime.workspace.keys
        self.client = httpx.Client(timeout=httpx.Timeout(10.0, connect=2.0))
        self.bucket: StoredSource | None = None
        self._peers: list[PeerSource] = []
        self._listed_at = -1e9

    async def start(self) -> None:
        """Let versions be fetched, and fetch what a replica that joins needs. Raises SetupError."""
        url = self.runtime.settings.part(ClusterSettings).snapshot_url
        if url is not None:
            self.bucket = await asyncio.to_thread(StoredSource, url, self.store.instance, self.keys)
        for model in self.runtime.models.values():
            model.snapshots.fetch = partial(self.fetch, model.snapshots)
        if self.runtime.follower is not None:
            self.runtime.follower.url = find_replica_url(self.runtime.settings)
            await asyncio.to_thread(self._join)

    def background(self, is_primary: bool) -> Iterable[Work]:
        """Upload versions to the bucket, if there is one."""
        if is_primary and self.bucket is not None:
            yield BucketUploads(self.runtime, self.bucket).run()

    async def close(self) -> None:
        """Close the connections."""
        self.client.close()

    def fetch(self, snapshots: Snapshots, version: int) -> None:
        """Bring a version into the folder. Raises NotFound or Unavailable that says what each source answered."""
        check, refusals = partial(self._check, snapshots), list[str]()
        for source in self._sources():
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

    def _sources(self) -> Iterator[Source]:
        """Yield the replicas that are present, then the bucket. Raises Unavailable."""
        if self.clock() - self._listed_at >= LISTED_EVERY_S:
            others = [each for each in self.store.read(list_replicas) if each.id != self.workspace.replica]
            self._peers = [
                PeerSource(each.url, self.keys, self.client) for each in others if each.url and each.is_present
            ]
            self._listed_at = self.clock()
        yield from self._peers
        if self.bucket is not None:
            yield self.bucket

    def _join(self) -> None:
        """Fetch what this replica needs to answer, and to learn on from. What fails is learned from the log instead."""
        for model in self.runtime.models.values():
            try:
                self._fetch_first(model.snapshots)
                model.transactions.versions.catch_up(model.live.encoder_config.recipe)
            except (OnlineError, OSError) as error:
                log_event(log, "nothing fetched", logging.WARNING, model=model.spec.name, reason=str(error))

    def _fetch_first(self, snapshots: Snapshots) -> None:
        """Fetch the live version of a model, and a durable one to learn on from. Raises NotFound or Unavailable."""
        state = self.store.read(partial(load_serving, model=snapshots.model))
        if state is None:
            return
        present = set(snapshots.folder.versions())
        durable = self._find_durable(snapshots)
        wanted = [state.live] if durable is None else [state.live, durable.version]
        for version in dict.fromkeys(wanted):
            if version and version not in present:
                self.fetch(snapshots, version)

    def _find_durable(self, snapshots: Snapshots) -> VersionSummary | None:
        """Return the newest durable version of another replica, if learning on from it saves much."""
        own = max((each.learned_until for each in snapshots.folder.manifests() if each.durable), default=0)
        listed = [each for source in self._sources() for each in list_safely(source, snapshots.model)]
        ahead = [each for each in listed if each.durable and each.learned_until >= own + WORTH_FETCHING]
        return max(ahead, key=lambda each: each.learned_until, default=None)


def list_safely(source: Source, model: str) -> list[VersionSummary]:
    """Return the versions of a source; none if it does not answer."""
    try:
        return source.list_versions(model)
    except (NotFound, Unavailable):
        return []

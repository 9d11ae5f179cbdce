"""The places from which a replica fetches what it lacks: the other replicas that are present, then the bucket."""

import time
from collections.abc import Callable, Iterator

import httpx

from online.plugins.cluster.peer_source import PeerSource
from online.plugins.cluster.settings import ClusterSettings
from online.plugins.cluster.stored_source import StoredSource
from online.state.workspace import Workspace
from online.store.replicas import list_replicas

LISTED_EVERY_S = 1.0  # how long the list of the others is used

Source = PeerSource | StoredSource


class ReplicaSources:
    """The sources of one process. For threads: each call may wait for the store."""

    def __init__(self, workspace: Workspace, clock: Callable[[], float] = time.monotonic) -> None:
        self.workspace, self.clock = workspace, clock
        self.client = httpx.Client(timeout=httpx.Timeout(10.0, connect=2.0))
        self.bucket: StoredSource | None = None
        self._peers: list[PeerSource] = []
        self._listed_at = -1e9

    def open_bucket(self) -> None:
        """Use the bucket of the setting `snapshot_url`, if there is one. Raises SetupError."""
        url = self.workspace.settings.part(ClusterSettings).snapshot_url
        if url is not None:
            self.bucket = StoredSource(url, self.workspace.store.instance, self.workspace.keys)

    def __iter__(self) -> Iterator[Source]:
        """Yield the replicas that are present, then the bucket. Raises Unavailable."""
        if self.clock() - self._listed_at >= LISTED_EVERY_S:
            known = self.workspace.store.read(list_replicas)
            others = [each for each in known if each.id != self.workspace.replica and each.url and each.is_present]
            self._peers = [PeerSource(each.url, self.workspace.keys, self.client) for each in others]
            self._listed_at = self.clock()
        yield from self._peers
        if self.bucket is not None:
            yield self.bucket

    def close(self) -> None:
        """Close the connections."""
        self.client.close()

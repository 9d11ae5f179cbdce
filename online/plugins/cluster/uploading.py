"""Uploads durable versions to the bucket (`snapshot_url`), one replica for each model at a time.

    every UPLOAD_EVERY_S: this replica has the lease on the bucket's copies of a model?
        the newest durable version is not there --> upload it; then delete what is older than the newest KEPT

The lease only saves work: two replicas that upload the same version write the same bytes.
"""

import asyncio
import logging
from functools import partial

from online.errors import CorruptSnapshot, NotFound, Unavailable
from online.plugins.cluster.stored_source import StoredSource
from online.serving.runtime import Runtime
from online.snapshots import Snapshots
from online.store.leases import take_lease
from online.telemetry import OutageLog

log = logging.getLogger("online.replica")

UPLOAD_EVERY_S = 10.0
LEASE_S = 3 * UPLOAD_EVERY_S
KEPT = 3  # durable versions of a model in the bucket


class BucketUploads:
    """Keeps the copies of every model in the bucket up to date."""

    def __init__(self, runtime: Runtime, bucket: StoredSource) -> None:
        self.runtime, self.bucket = runtime, bucket
        self._uploaded: dict[str, int] = {}
        self._outage = OutageLog(log, "no copies in the bucket")

    async def run(self) -> None:
        """Upload until cancelled."""
        while True:
            for model in self.runtime.models.values():
                try:
                    await asyncio.to_thread(self.upload, model.snapshots)
                    self._outage.record_success()
                except (Unavailable, NotFound, CorruptSnapshot, OSError) as error:
                    self._outage.record_failure(error)
            await asyncio.sleep(UPLOAD_EVERY_S)

    def upload(self, snapshots: Snapshots) -> None:
        """Upload the newest durable version of a model, if it is this replica's turn. Raises Unavailable."""
        folder, model = snapshots.folder, snapshots.model
        durable = (each for each in folder.manifests() if each.durable and folder.is_on_disk(each.version))
        newest = next((each.version for each in durable if each.learned_until), None)
        if newest is None or self._uploaded.get(model) == newest:
            return
        workspace = self.runtime.workspace
        turn = partial(take_lease, model=f"bucket/{model}", holder=workspace.replica, duration_s=LEASE_S)
        if workspace.store.submit(turn).result() is None:
            return
        self.bucket.upload(snapshots, newest)
        kept = sorted(each.version for each in self.bucket.list_versions(model))[-KEPT:]
        self.bucket.prune(model, kept)
        self._uploaded[model] = newest

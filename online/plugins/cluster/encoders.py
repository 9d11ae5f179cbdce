"""Tuned text encoders that this replica lacks, from the replica that tuned them, from another one, or from the bucket.

encoder of the model (store) --sha256--> GET /v1/peers/encoders/<sha256> --verified--> <state>/encoders/<sha256>.safetensors
"""

import logging
from pathlib import Path

from online.errors import NotFound, Unavailable
from online.plugins.cluster.sources import ReplicaSources
from online.state.workspace import Workspace
from online.telemetry import log_event

log = logging.getLogger("online.replica")


def fetch_encoder(workspace: Workspace, encoder: str, target: Path) -> None:
    """Write a tuned encoder to a file. Raises Unavailable that says what each source answered."""
    sources, refusals = ReplicaSources(workspace), list[str]()
    sources.open_bucket()
    try:
        for source in sources:
            try:
                source.fetch_encoder(encoder, target)
            except (NotFound, Unavailable) as error:
                refusals.append(str(error))
                continue
            log_event(log, "encoder fetched", encoder=encoder[:16], source=source.name)
            return
    finally:
        sources.close()
    raise Unavailable("; ".join(refusals) or "no other replica is there, and no snapshot_url is set")

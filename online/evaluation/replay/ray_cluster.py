"""Connects to a Ray cluster that runs replays: an existing one, or one started on this machine for the run.

Every node must see the logs at the same paths and have the same release of all packages; a worker
computes the job's key itself to check that. Ray pickles only what travels between its own processes.
A cluster started here accepts only clients that have its token.
"""

import logging
import os
import secrets
import socket
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from online.errors import SetupError
from online.evaluation.replay.replay_job import ReplayJob
from online.schemas.json_values import JSONObject

CONNECT_TIMEOUT_S = 10.0  # to reach the head of a cluster


@contextmanager
def connect(address: str) -> Iterator[Any]:
    """Connect to Ray; disconnect at the end of the block. Raises SetupError."""
    with tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as folder:
        options = existing_cluster_options(address) if address else local_cluster_options(folder)
        try:
            import ray
        except ImportError:
            raise SetupError("--engine ray needs Ray, which is not installed: pip install 'online[ray]'") from None
        try:
            ray.init(**options, log_to_driver=False, logging_level=logging.ERROR)
        except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
            raise SetupError(f"Ray cannot be {'reached at ' + address if address else 'started'}: {error}") from None
        try:
            yield ray
        finally:
            ray.shutdown()


def local_cluster_options(folder: str) -> JSONObject:
    """Return options for a cluster on this machine, without usage reports, dashboard or files that remain.

    (Ray queries the link-local address 169.254.169.254 to detect a cloud, and does not report the result.)
    """
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    for name, value in {"RAY_USAGE_STATS_ENABLED": "0", **token}.items():
        os.environ.setdefault(name, value)
    return {"address": "local", "include_dashboard": False, "_temp_dir": folder}


def existing_cluster_options(address: str) -> JSONObject:
    """Return options for an existing cluster.

    Raises SetupError at once if nothing listens at the address; Ray itself would wait for minutes.
    """
    host, _, port = address.rpartition(":")
    try:
        if port.isdigit():
            socket.create_connection((host, int(port)), CONNECT_TIMEOUT_S).close()
    except OSError as error:
        raise SetupError(f"there is no Ray cluster at {address}: {error}") from None
    return {"address": address}


def check_devices(ray: Any, jobs: Sequence[ReplayJob]) -> None:
    """Raise SetupError if a job needs a GPU that the cluster does not have."""
    if any(job.candidate.device != "cpu" for job in jobs) and not ray.cluster_resources().get("GPU"):
        raise SetupError("this Ray cluster has no GPU: replay with --device cpu")

"""Versions of a service that learns, copied into the folder of another replica, which then has learned the same."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from online.io.wakeup import Wakeup
from online.plugins.cluster.copies import copy_version
from online.plugins.cluster.peer_source import PeerSource
from online.snapshots import Snapshots
from online.state.signing_keys import SigningKeys
from online.state.workspace import create_seal
from tests.conftest import config
from tests.plugins.cluster.replicas import accept, read_files
from tests.support import Service, until

MODELS = """
[[models]]
name = "vec"
kind = "classifier"
options = { input = "vector", size = 2, scale = 4.0 }

[[models]]
name = "rv"
kind = "river"
"""
ITEMS: dict[str, list[dict[str, Any]]] = {
    "vec": [{"input": [n % 3, n % 2], "label": f"class {n % 2}"} for n in range(8)],
    "rv": [{"input": {"x": n}, "label": f"class {n % 2}"} for n in range(8)],
}


@pytest.fixture(scope="module", params=[1, pytest.param(2, marks=pytest.mark.long)])
def learned(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service that has learned something, with as many workers; each of them answers other replicas."""
    folder = tmp_path_factory.mktemp("learned")
    running = Service(folder / "state", config(folder, MODELS, workers=request.param, durable_every_s=0.1))
    for model, items in ITEMS.items():
        with running.client(model) as client:
            client.wait_until_learned(client.feedback(items)[-1]["offset"], 60)
    yield running
    running.stop()


@pytest.mark.parametrize("model", ["vec", "rv"])
def test_another_replica_resumes_from_a_copied_version(learned: Service, model: str, tmp_path: Path) -> None:
    shutil.copy(learned.state / "keys.json", tmp_path)  # replicas share their keys
    keys = SigningKeys(tmp_path)
    seal = create_seal(keys) if model == "rv" else None
    snapshots = Snapshots(tmp_path / "snapshots", model, Wakeup(tmp_path / "bell"), seal=seal)
    with httpx.Client(trust_env=False) as client:
        source = PeerSource(learned.url, keys, client)
        newest = until(lambda: find_durable(source, model), what="a durable version of all that is learned")
        manifest = copy_version(source, snapshots, newest, accept)
    assert manifest.learned_until >= len(ITEMS[model])
    own = Snapshots(learned.state / "snapshots" / model, model, Wakeup(tmp_path / "own"), seal=seal)
    assert read_files(snapshots, newest) == read_files(own, newest)
    assert next(snapshots.folder.durable(manifest.recipe)).manifest == manifest


def find_durable(source: PeerSource, model: str) -> int | None:
    """Return the newest durable version; None until it has learned everything."""
    listed = [each for each in source.list_versions(model) if each.durable]
    return listed[0].version if listed and listed[0].learned_until >= len(ITEMS[model]) else None

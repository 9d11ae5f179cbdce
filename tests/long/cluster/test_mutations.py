"""Real replicas with a seeded defect: the checks of `test_chaos` must find it.

The product has no switch for a defect. Its processes find a `sitecustomize` in PYTHONPATH, which replaces one function.
"""

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.cluster.agreement import hash_at, list_entries, read_log, wait_equal
from tests.cluster.clients import RecordingClient
from tests.cluster.history import check_history, check_states
from tests.cluster.local_cluster import LocalCluster
from tests.cluster.servers import OwnPostgres

ROOT = Path(__file__).parent.parent.parent.parent
SOUND = ""
ACKNOWLEDGE_BEFORE_COMMIT = """
import threading
from online.store.database.store import Store

def commit(self, group):
    if group:
        with self.writer.begin() as connection:
            for work in group:
                try:
                    work.done.set_result(work.run(connection))
                except Exception as error:
                    work.done.set_exception(error)
            threading.Event().wait(0.5)
        self._follow_commit()

Store._commit = commit
"""
SKIP_A_LATE_COMMIT = """
from online.learning.learner import Learner

read = Learner._read
Learner._read = lambda *given, **named: [entry for entry in read(*given, **named) if entry.offset != 7]
"""


def run_cluster(
    folder: Path, store: str, monkeypatch: pytest.MonkeyPatch, patch: str, kills: int
) -> tuple[Sequence[str], Sequence[str]]:
    """Give feedback to one replica that is killed after acknowledgements; return the violations of the history and of its state."""
    changed = folder / "changed"
    changed.mkdir()
    (changed / "sitecustomize.py").write_text(patch)
    monkeypatch.setenv("PYTHONPATH", f"{changed}:{ROOT}")
    with LocalCluster(folder / "cluster", store, replicas=1, namespaces=False, durable_every_s=0.2) as cluster:
        [replica] = cluster.replicas
        client = RecordingClient(1, cluster.replicas, seed=1)
        for _ in range(kills):
            client.act()
            replica.kill()
            replica.start().wait_ready()
        while len(client.sent) < 20:
            client.act()
        client.close()
        until = max(offset for each in client.history for offset in each.offsets)
        states, _ = wait_equal([replica], until)
    events = read_log(store)
    return check_history(client.history, list_entries(events)), [*check_states(states, hash_at(events))]


@pytest.mark.long
def test_an_unchanged_replica_shows_no_violation(
    tmp_path: Path, own_postgres: OwnPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run_cluster(tmp_path, own_postgres.url, monkeypatch, SOUND, kills=2) == ([], [])


@pytest.mark.long
def test_a_replica_that_acknowledges_before_the_commit_is_found(
    tmp_path: Path, own_postgres: OwnPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    violations, _ = run_cluster(tmp_path, own_postgres.url, monkeypatch, ACKNOWLEDGE_BEFORE_COMMIT, kills=3)
    assert any("is lost" in each for each in violations), violations


@pytest.mark.long
def test_a_learner_that_skips_a_late_commit_is_found(
    tmp_path: Path, own_postgres: OwnPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    violations, states = run_cluster(tmp_path, own_postgres.url, monkeypatch, SKIP_A_LATE_COMMIT, kills=0)
    assert violations == [] and any("uninterrupted process" in each for each in states), states

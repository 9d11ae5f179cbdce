"""A rolling upgrade across two revisions of the schema, with traffic, and back again.

old 1 ─────────────── migrate ───── restart ─────────── out          in ───────────> old 1
old 2 ─────────────────────────────────────────────────────────────────────────────> old 2
                                             new 3 in ───────────────────── out
"""

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from tests.cluster.agreement import hash_at, list_entries, read_log, wait_equal
from tests.cluster.clients import ClientThreads, RecordingClient
from tests.cluster.history import check_history, check_states
from tests.cluster.local_cluster import LOOPBACK, LocalCluster, Replica, release_variables, wait_for
from tests.cluster.next_release import ORIGIN, write_next_release
from tests.cluster.servers import OwnPostgres

CLIENTS, BATCH, CLIENT_PAUSE_S = 3, 4, 0.1
EVENTS = 150  # of each stage
DRAIN_S = 1.0  # between the moment in which a proxy leaves a replica out and its end


class Upgrade:
    """Clients that go on while replicas come and go, as behind a proxy."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.cluster, self.serving, self.counts = cluster, [*cluster.replicas], dict[str, int]()
        clients = [RecordingClient(number, self.serving, 1, BATCH) for number in range(CLIENTS)]
        wait_equal(self.serving, clients[0].give([clients[0].draw_item()]), 120)  # all learners have started
        self.traffic = ClientThreads(clients, CLIENT_PAUSE_S).start()

    def use(self, stage: str) -> None:
        """Return after some more events, once all replicas that serve have learned those until then, with one hash."""
        before = self.traffic.events
        wait_for(lambda: self.traffic.failures or self.traffic.events >= before + EVENTS, 120, f"{EVENTS} events")
        assert not self.traffic.failures, self.traffic.failures
        wait_equal(self.serving, before)
        self.counts[stage] = self.traffic.events - before

    @contextmanager
    def left_out(self, replica: Replica) -> Iterator[None]:
        """Send no requests to a replica meanwhile."""
        self.leave_out(replica)
        yield
        self.serving.append(replica)

    def leave_out(self, replica: Replica) -> None:
        self.serving.remove(replica)
        threading.Event().wait(DRAIN_S)


def migrate(package: Path, store: str) -> subprocess.CompletedProcess[str]:
    """Run `online migrate` of another release."""
    command = [sys.executable, "-m", "online", "migrate", "--store", store]
    variables = release_variables(package)
    return subprocess.run(command, env=variables, cwd=package, capture_output=True, text=True, timeout=120, check=False)


def count_origins(postgres: OwnPostgres) -> dict[str | None, int]:
    with psycopg.connect(f"host={LOOPBACK} port={postgres.port} user=postgres") as connection:
        return dict(connection.execute("SELECT origin, count(*) FROM feedback GROUP BY origin").fetchall())


@pytest.mark.long
def test_two_releases_serve_and_learn_side_by_side_across_two_revisions(
    tmp_path: Path, own_postgres: OwnPostgres, redis_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    package = write_next_release(tmp_path / "next")
    with LocalCluster(tmp_path / "cluster", own_postgres.url, redis_url) as cluster:
        one, two = cluster.replicas
        upgrade = Upgrade(cluster)
        upgrade.use("old")
        migrated = migrate(package, own_postgres.url)
        assert migrated.returncode == 0 and "4   (before: 2)" in migrated.stdout, migrated.stdout + migrated.stderr
        upgrade.use("old on the new schema")
        with upgrade.left_out(one):
            one.restart()
        upgrade.use("old, opened on the new schema")
        new = cluster.add_replica(package)
        upgrade.serving.append(new)
        upgrade.use("old and new")
        upgrade.leave_out(one)
        assert one.stop() == 0
        upgrade.use("one of each")
        one.start().wait_ready()  # roll back
        upgrade.serving.append(one)
        upgrade.leave_out(new)
        assert new.stop() == 0
        upgrade.use("old again")
        history = upgrade.traffic.stop()
        states, _ = wait_equal([one, two], max(offset for each in history for offset in each.offsets))
        logs = "\n".join(each.output for each in cluster.replicas)
        refused = migrate(write_next_release(tmp_path / "later", contracts=True), own_postgres.url)
    events, origins = read_log(own_postgres.url), count_origins(own_postgres)
    with capsys.disabled():
        print(f"\n{len(history)} requests; events: {upgrade.counts}; feedback by origin: {origins}")
    assert [each for each in history if each.outcome != "acknowledged"] == []
    assert check_history(history, list_entries(events)) == []
    assert [*check_states(states, hash_at(events))] == []
    assert "replica diverged" not in logs and "Traceback" not in logs
    assert origins[ORIGIN] > 0 and origins[None] > 0, "each release has taken feedback"
    assert refused.returncode == 2
    assert "whose release knows them until '2', and '4' is needed; nothing was changed" in refused.stderr

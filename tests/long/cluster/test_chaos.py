"""Three replicas that learn, while their processes are killed and stopped at random and their network is cut.

clients --> replica 1, 2, 3 --> Postgres, Redis       kill, kill one process, stop and continue, reset, delay, half-open, split
   history                         log                                  then heal
      └────────── check_history ────┘        every replica: the state of one uninterrupted process
"""

import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import httpx
import pytest

from tests.cluster.agreement import hash_at, list_entries, read_log, read_state, wait_equal
from tests.cluster.clients import ClientThreads, RecordingClient
from tests.cluster.history import Operation, Outage, check_history, check_states, find_failures, find_percentile
from tests.cluster.local_cluster import LocalCluster, Replica, wait_for
from tests.cluster.servers import OwnPostgres

KILLS = int(os.environ.get("ONLINE_CHAOS_KILLS", "20"))
EVENTS = int(os.environ.get("ONLINE_CHAOS_EVENTS", "3000"))
SPLITS = int(os.environ.get("ONLINE_CHAOS_SPLITS", "1"))
SPLIT_S = float(os.environ.get("ONLINE_CHAOS_SPLIT_S", "10"))
SEED = int(os.environ.get("ONLINE_CHAOS_SEED", "1"))
CLIENTS, BATCH, CLIENT_PAUSE_S = 4, 4, 0.15
UNDISTURBED_S = 10.0
SETTLING_S = 15.0  # after a cut, in which connections that hung are still found out
HUNG_S = 12.0  # a request that hangs is noticed so late


class Chaos:
    """Breaks one cluster at random, and keeps the times in which requests may fail."""

    def __init__(self, cluster: LocalCluster, seed: int) -> None:
        self.cluster, self.draw, self.outages = cluster, random.Random(seed), list[Outage]()
        self.counts: dict[str, int] = {}
        self._waits = threading.Event()

    def wait(self, seconds: float) -> None:
        self._waits.wait(seconds)

    def break_one(self) -> None:
        """Give one random replica one random fault, and let it be whole afterwards."""
        replica = self.draw.choice(self.cluster.replicas)
        faults: list[Callable[[Replica], None]] = [
            self.kill_replica,
            self.kill_web,
            self.kill_child,
            self.kill_child,
            self.stop_process,
            self.stop_process,
            self.stop_replica,
            self.reset_links,
            self.delay_links,
        ]
        fault = self.draw.choice(faults)
        self.counts[fault.__name__] = self.counts.get(fault.__name__, 0) + 1
        fault(replica)

    def kill_replica(self, replica: Replica) -> None:
        with self.outage(replica, "killed"):
            replica.kill()
            self.wait(self.draw.random())
            replica.start().wait_ready()

    def kill_web(self, replica: Replica) -> None:
        """Kill the process that answers; its children end by themselves."""
        with self.outage(replica, "killed"):
            assert replica.process is not None
            children = replica.processes()[1:]
            os.kill(replica.process.pid, signal.SIGKILL)
            replica.process.wait()
            wait_for(
                lambda: not any(is_alive(pid) for pid in children), 60, "the end of the children of a killed server"
            )
            replica.start().wait_ready()

    def kill_child(self, replica: Replica) -> None:
        """Kill the learner, the store process or another child; it is started again."""
        children = replica.processes()[1:]
        if children:
            with suppress(ProcessLookupError):
                os.kill(self.draw.choice(children), signal.SIGKILL)

    def stop_process(self, replica: Replica) -> None:
        """Stop one process of a replica for a moment."""
        pid = self.draw.choice(replica.processes())
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
            self.wait(self.draw.uniform(0.2, 3))
            os.kill(pid, signal.SIGCONT)

    def stop_replica(self, replica: Replica) -> None:
        replica.pause()
        self.wait(self.draw.uniform(0.2, 3))
        replica.resume()

    def reset_links(self, replica: Replica) -> None:
        """Break the connections to Postgres and to Redis; new ones work. A write on one that broke is refused."""
        with self.outage(replica, "cut off", settling_s=2.0):
            replica.store_link.reset()
            if replica.stream_link is not None:
                replica.stream_link.reset()

    def delay_links(self, replica: Replica) -> None:
        replica.store_link.delay(0.02)
        self.wait(1)
        replica.store_link.delay(0)

    def split(self, seconds: float, number: int) -> None:
        """Cut a replica off: in turn from everything, or half-open from Postgres and Redis."""
        replica = self.draw.choice(self.cluster.replicas)
        with self.outage(replica, "cut off", settling_s=SETTLING_S):
            if self.cluster.network is not None and number % 2 == 0:
                self.cluster.isolate(replica)
            else:
                replica.store_link.freeze()
                if replica.stream_link is not None:
                    replica.stream_link.freeze()
            self.wait(seconds)
            self.cluster.heal()

    @contextmanager
    def outage(self, replica: Replica, kind: "str", settling_s: float = 0.5) -> Iterator[None]:
        began = time.monotonic()
        place = len(self.outages)
        self.outages.append(Outage(replica.number, kind, began, float("inf")))  # type: ignore[arg-type]
        yield
        self.outages[place] = Outage(replica.number, kind, began, time.monotonic() + settling_s)  # type: ignore[arg-type]


def wait_learned(replicas: list[Replica]) -> None:
    """Return once each replica answers with something that it has learned."""
    with httpx.Client(trust_env=False, timeout=10) as http:
        for replica in replicas:
            wait_for(partial(has_learned, replica, http), 60, "something that is learned")


def has_learned(replica: Replica, http: httpx.Client) -> bool:
    try:
        return read_state(replica, http).learned_until > 0
    except StopIteration:  # no version yet
        return False


def is_alive(pid: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False


@pytest.mark.long
def test_whatever_is_killed_and_cut_every_replica_learns_what_was_acknowledged_once(
    tmp_path: Path, own_postgres: OwnPostgres, redis_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with LocalCluster(
        tmp_path, own_postgres.url, redis_url, replicas=3, restart_max_s=0.2, durable_every_s=0.5
    ) as cluster:
        chaos = Chaos(cluster, SEED)
        recording = [RecordingClient(number, cluster.replicas, SEED, BATCH) for number in range(CLIENTS)]
        recording[0].give([recording[0].draw_item()])
        wait_learned(cluster.replicas)
        threads = ClientThreads(recording, CLIENT_PAUSE_S).start()
        began = time.monotonic()
        chaos.wait(UNDISTURBED_S)
        disturbed_at = time.monotonic()
        splits_at = {(number + 1) * KILLS // (SPLITS + 1): number for number in range(SPLITS)}
        for number in range(KILLS):
            chaos.break_one()
            if number in splits_at:
                chaos.split(SPLIT_S, splits_at[number])
            chaos.wait(chaos.draw.uniform(0.2, 2))
            assert not threads.failures, threads.failures
        cluster.heal()
        healed_at = time.monotonic()
        wait_for(lambda: threads.failures or threads.events >= EVENTS, 3_600, f"{EVENTS} events")
        chaos.wait(UNDISTURBED_S)
        history = threads.stop()
        stopped_at = time.monotonic()
        until = max(offset for each in history for offset in each.offsets)
        states, equal_s = wait_equal(cluster.replicas, until)
        logs = "\n".join(each.output for each in cluster.replicas)
    events = read_log(own_postgres.url)
    freshness = [each for client in recording for each in client.freshness_s]
    with capsys.disabled():
        print_figures(chaos, history, freshness, (began, disturbed_at, healed_at, stopped_at))
        print(
            f"equal {equal_s:.2f} s after the last acknowledgement, at offset {states[0].learned_until} of {len(events)}"
        )
    failures = find_failures(history, chaos.outages)
    assert failures == [], f"{len(failures)} requests failed and nothing explains it: {failures[:5]}"
    assert check_history(history, list_entries(events)) == []
    assert [*check_states(states, hash_at(events))] == []
    assert "replica diverged" not in logs
    assert equal_s <= 1.0, f"the replicas were equal {equal_s:.1f} s after the last acknowledgement"


def print_figures(
    chaos: Chaos,
    history: list[Operation],
    freshness: list[tuple[float, float]],
    times: tuple[float, float, float, float],
) -> None:
    """Print what was broken, what the clients saw, and how fresh answers were before, meanwhile and after."""
    began, disturbed_at, healed_at, stopped_at = times
    outcomes: dict[str, int] = {}
    for each in history:
        name = each.outcome if each.outcome != "refused" else f"refused with {each.status}"
        outcomes[f"{each.action} {name}"] = outcomes.get(f"{each.action} {name}", 0) + 1
    print(f"\nfaults: {chaos.counts}; outages: {len(chaos.outages)}; {healed_at - disturbed_at:.0f} s of faults")
    print(f"operations: {outcomes}")
    phases = {"before": (began, disturbed_at), "meanwhile": (disturbed_at, healed_at), "after": (healed_at, stopped_at)}
    for phase, (first, last) in phases.items():
        values = [seconds for at, seconds in freshness if first <= at < last]
        p50, p99 = (1000 * find_percentile(values, share) for share in (0.5, 0.99))
        print(f"freshness {phase}: p50 {p50:.0f} ms, p99 {p99:.0f} ms of {len(values)}")

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
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cluster.agreement import hash_at, list_entries, read_head, read_log, wait_equal, wait_reached
from tests.cluster.clients import ClientThreads, RecordingClient
from tests.cluster.history import (
    LearnedState,
    Operation,
    Outage,
    check_history,
    check_states,
    find_failures,
    find_percentile,
)
from tests.cluster.local_cluster import LocalCluster, Replica, wait_for
from tests.cluster.servers import OwnPostgres

KILLS = int(os.environ.get("ONLINE_CHAOS_KILLS", "20"))  # SIGKILL and SIGSTOP; other faults come on top
EVENTS = int(os.environ.get("ONLINE_CHAOS_EVENTS", "3000"))
SPLITS = int(os.environ.get("ONLINE_CHAOS_SPLITS", "1"))
SPLIT_S = float(os.environ.get("ONLINE_CHAOS_SPLIT_S", "10"))
SEED = int(os.environ.get("ONLINE_CHAOS_SEED", "1"))
CLIENTS, BATCH, CLIENT_PAUSE_S = 4, 4, 0.15
UNDISTURBED_S = float(os.environ.get("ONLINE_CHAOS_UNDISTURBED_S", "10"))
SETTLING_S = 15.0  # after a cut, in which connections that hung are still found out
HEALED_S = 1.0  # after which every replica has learned what was in the log when a split ended, or when all ran again
RESTART_S = 5.0  # in which a learner that was killed is started again, and may be slow
SLOWEST = 10  # answers that are printed
OTHER_FAULTS = 0.25  # resets and delays of connections, for each kill or stop


Fault = Callable[[Replica], None]


@dataclass(frozen=True, slots=True)
class Disturbance:
    """A fault of one replica, from which it may need some time to be whole again. began_at, ended_at: seconds, of time.monotonic."""

    name: str
    replica: int
    began_at: float
    ended_at: float


class Chaos:
    """Breaks one cluster at random, and keeps the times in which requests may fail."""

    def __init__(self, cluster: LocalCluster, store: str, seed: int) -> None:
        """store: URL of the database of the cluster, which no fault affects."""
        self.cluster, self.store = cluster, store
        self.draw, self.outages, self.healings = random.Random(seed), list[Outage](), list[Healing]()
        self.counts: dict[str, int] = {}
        self.disturbances: list[Disturbance] = []
        self._waits = threading.Event()

    def wait(self, seconds: float) -> None:
        self._waits.wait(seconds)

    def break_one(self) -> None:
        """Kill or stop processes of one random replica, perhaps disturb its connections first, and let it be whole afterwards."""
        if self.draw.random() < OTHER_FAULTS:
            self.give_fault(self.draw.choice([self.reset_links, self.delay_links]))
        kills: list[Fault] = [self.kill_replica, self.kill_web, self.kill_child, self.kill_child]
        stops: list[Fault] = [self.stop_process, self.stop_process, self.stop_replica]
        self.give_fault(self.draw.choice(kills + stops))

    def give_fault(self, fault: Fault) -> None:
        """Give one random replica a fault, and count it."""
        self.counts[fault.__name__] = self.counts.get(fault.__name__, 0) + 1
        began = time.monotonic()
        replica = self.draw.choice(self.cluster.replicas)
        fault(replica)
        restarts_s = RESTART_S if fault.__name__.startswith("kill") else 0.0
        self.disturbances.append(Disturbance(fault.__name__, replica.number, began, time.monotonic() + restarts_s))

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
        began = time.monotonic()
        with self.outage(replica, "cut off", settling_s=SETTLING_S):
            if self.cluster.network is not None and number % 2 == 0:
                self.cluster.isolate(replica)
            else:
                replica.store_link.freeze()
                if replica.stream_link is not None:
                    replica.stream_link.freeze()
            self.wait(seconds)
            self.cluster.heal()
            self.healings.append(measure_healing(self.cluster.replicas, self.store))
        self.disturbances.append(Disturbance("split", replica.number, began, time.monotonic()))

    def find_disturbances(self, operation: Operation) -> list[Disturbance]:
        """Return the faults of any replica while a request was on its way."""
        return [
            each
            for each in self.disturbances
            if each.began_at <= operation.ended_at and operation.started_at <= each.ended_at
        ]

    def is_disturbed(self, operation: Operation) -> bool:
        """Return whether the replica that was asked had a fault meanwhile."""
        return any(each.replica == operation.replica for each in self.find_disturbances(operation))

    @contextmanager
    def outage(self, replica: Replica, kind: "str", settling_s: float = 0.5) -> Iterator[None]:
        began, place = time.monotonic(), len(self.outages)
        self.outages.append(Outage(replica.number, kind, began, float("inf")))  # type: ignore[arg-type]
        yield
        self.outages[place] = Outage(replica.number, kind, began, time.monotonic() + settling_s)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Healing:
    """What the replicas answered with once each had learned all that was in the log when a fault ended.

    head: that offset. seconds: of each replica, from the end of the fault. states: what each answered with then.
    """

    head: int
    seconds: list[float]
    states: list[LearnedState]


def measure_healing(replicas: list[Replica], store: str) -> Healing:
    """Ask every replica at once until it has learned the log as it is now. Raises TimeoutError."""
    began, head = time.monotonic(), read_head(store)

    def reach(replica: Replica) -> tuple[float, LearnedState]:
        state = wait_reached(replica, head, request_s=0.5)
        return time.monotonic() - began, state

    with ThreadPoolExecutor(len(replicas)) as pool:
        found = [*pool.map(reach, replicas)]
    return Healing(head, [seconds for seconds, _ in found], [state for _, state in found])


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
        chaos = Chaos(cluster, own_postgres.url, SEED)
        recording = [RecordingClient(number, cluster.replicas, SEED, BATCH) for number in range(CLIENTS)]
        recording[0].give([recording[0].draw_item()])
        for replica in cluster.replicas:
            wait_reached(replica, 1)
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
        chaos.wait(RESTART_S)  # the last one that was killed is started again
        chaos.healings.append(measure_healing(cluster.replicas, own_postgres.url))
        wait_for(lambda: threads.failures or threads.events >= EVENTS, 3_600, f"{EVENTS} events")
        chaos.wait(UNDISTURBED_S)
        history = threads.stop()
        stopped_at = time.monotonic()
        until = max(offset for each in history for offset in each.offsets)
        states, equal_s = wait_equal(cluster.replicas, until)
        logs = "\n".join(each.output for each in cluster.replicas)
    events = read_log(own_postgres.url)
    expected = hash_at(events)
    with capsys.disabled():
        print_figures(chaos, history, (began, disturbed_at, healed_at, stopped_at))
        print(
            f"equal {equal_s:.2f} s after the last acknowledgement, at offset {states[0].learned_until} of {len(events)}"
        )
    failures = find_failures(history, chaos.outages)
    assert failures == [], f"{len(failures)} requests failed and nothing explains it: {failures[:5]}"
    assert check_history(history, list_entries(events)) == []
    assert [*check_states(states, expected)] == []
    for healing in chaos.healings:
        assert [*check_states(healing.states, expected)] == []
    assert "replica diverged" not in logs
    assert equal_s <= HEALED_S, f"the replicas were equal {equal_s:.1f} s after the last acknowledgement"
    slow = [healing for healing in chaos.healings if max(healing.seconds) > HEALED_S]
    assert slow == [], f"{len(slow)} of {len(chaos.healings)} times replicas had not learned all within {HEALED_S:g} s"


def print_figures(chaos: Chaos, history: list[Operation], times: tuple[float, float, float, float]) -> None:
    """Print what was broken, what the clients saw, how soon replicas were whole again, and how fresh answers were.

    times: seconds, when clients began, when faults began, when the last fault ended, and when clients ended.
    """
    began, disturbed_at, healed_at, stopped_at = times
    outcomes: dict[str, int] = {}
    for each in history:
        name = each.outcome if each.outcome != "refused" else f"refused with {each.status}"
        outcomes[f"{each.action} {name}"] = outcomes.get(f"{each.action} {name}", 0) + 1
    print(f"\nfaults: {chaos.counts}; outages: {len(chaos.outages)}; {healed_at - disturbed_at:.0f} s of faults")
    print(f"operations: {outcomes}")
    for healing in chaos.healings:
        print(f"healed, offset {healing.head}: {', '.join(f'{seconds:.2f}' for seconds in healing.seconds)} s")
    reads = [each for each in history if each.action == "predict" and each.outcome == "acknowledged"]
    meanwhile = [each for each in reads if disturbed_at <= each.started_at < healed_at]
    phases = {
        "before": [each for each in reads if began <= each.started_at < disturbed_at],
        "meanwhile, at replicas without a fault": [each for each in meanwhile if not chaos.is_disturbed(each)],
        "meanwhile, at all": meanwhile,
        "after": [each for each in reads if healed_at <= each.started_at < stopped_at],
    }
    for phase, found in phases.items():
        values = [each.ended_at - each.started_at for each in found]
        p50, p99 = (1000 * find_percentile(values, share) for share in (0.5, 0.99))
        print(f"freshness {phase}: p50 {p50:.0f} ms, p99 {p99:.0f} ms of {len(values)}")
    whole = phases["meanwhile, at replicas without a fault"]
    for each in sorted(whole, key=lambda each: each.started_at - each.ended_at)[:SLOWEST]:
        others = [(fault.name, fault.replica) for fault in chaos.find_disturbances(each)]
        print(f"  {1000 * (each.ended_at - each.started_at):.0f} ms at replica {each.replica}, meanwhile {others}")

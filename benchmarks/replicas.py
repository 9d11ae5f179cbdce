"""Measures what a second replica brings, and what it costs the first one.

    alone      one replica on a core of its own: answers/s
    beside     a second replica learns the same log on the other core, and answers nobody: answers/s of the first one
    together   both are asked: answers per second of processor time of each, added up
    alone      again, after the second one has ended; what a replica answers alone is the mean of both

A replica has one core, with all its processes. The clients and Postgres have the other one, which the second replica shares with
them on a machine of two cores. So of two replicas the answers are counted for each second of processor time that their processes
used: what each gives on a core that it has for itself. The share of the clients and of Postgres is not counted.

Feedback arrives all the time (--feedback in each second), at all replicas that answer. Every replica learns all of it.

    python -m benchmarks.replicas [--rounds 3] [--seconds 10] [--feedback 20] [--store URL] [--json]

It needs wrk, two cores, and a Postgres in which it may create databases.
"""

import json
import os
import tempfile
import threading
from argparse import Namespace
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean, median

from benchmarks.recovery import POSTGRES, created_database, wait_all_reached
from benchmarks.report import command, create_parser, print_json, progress, table, verdict
from benchmarks.service import BenchmarkError, process_cpu_s
from benchmarks.wrk import Target, require_wrk, run_wrk
from tests.cluster.clients import ClientThreads, RecordingClient
from tests.cluster.local_cluster import LocalCluster, Replica

CONNECTIONS = 8
WARM_UP_S = 4.0
SPEED_UP, COST = 1.8, 0.05  # asked: of two replicas at least, and of adding one at most


@dataclass(frozen=True, slots=True)
class Load:
    """What one replica answered under load. answers_s: each second; cpu_answers_s: each second of its processor time."""

    answers_s: float
    cpu_answers_s: float
    p99_ms: float
    failed: int


@dataclass(frozen=True, slots=True)
class Round:
    """The measurements of one cluster. alone: before the second replica came, and after it has ended."""

    alone: tuple[Load, Load]
    beside: Load
    together: tuple[Load, Load]

    @property
    def speed_up(self) -> float:
        """Answers of two replicas, in times those of one, where each has a core."""
        return sum(each.cpu_answers_s for each in self.together) / mean(each.cpu_answers_s for each in self.alone)

    @property
    def cost(self) -> float:
        """The share of the first one's answers that are lost while there is a second one."""
        return 1 - self.beside.answers_s / mean(each.answers_s for each in self.alone)


@contextmanager
def on_core(number: int) -> Iterator[None]:
    """Let what is started meanwhile run on one core."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {number})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def load(replica: Replica, seconds: float) -> Load:
    """Ask a replica as fast as it answers."""
    target = Target(f"{replica.url}/v1/models/vec:predict", json.dumps({"instances": [[0.5, 1.0, 0.0, 2.0]]}))
    pids = replica.processes()
    before = {pid: process_cpu_s(pid) for pid in pids}
    answers_s, _, p99_ms, failed = run_wrk(target, CONNECTIONS, seconds)
    used_s = sum(process_cpu_s(pid) - before[pid] for pid in pids)
    return Load(answers_s, answers_s * seconds / used_s, p99_ms, failed)


def load_under_feedback(replicas: Sequence[Replica], flags: Namespace) -> list[Load]:
    """Ask replicas at once, while feedback arrives at all of them."""
    client = RecordingClient(1, replicas, seed=len(replicas))
    threads = ClientThreads([client], 1 / flags.feedback).start()
    with ThreadPoolExecutor(len(replicas)) as pool:
        found = [*pool.map(lambda replica: load(replica, flags.seconds), replicas)]
    threads.stop()
    return found


def measure_round(flags: Namespace) -> Round:
    """Start one replica, load it, start another one, load the first one, then both, and the first one alone again."""
    with created_database(flags.store) as store, tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        with on_core(1):  # with the threads of the links
            cluster = LocalCluster(Path(folder), store, replicas=1, namespaces=False)
        try:
            with on_core(0):
                cluster.start()
            with on_core(1):
                first = cluster.replicas[0]
                warm_up(cluster)
                [before] = load_under_feedback([first], flags)
                second = cluster.add_replica()
                warm_up(cluster)
                [beside] = load_under_feedback([first], flags)
                both = load_under_feedback([first, second], flags)
                second.stop()
                [after] = load_under_feedback([first], flags)
        finally:
            cluster.close()
    return Round((before, after), beside, (both[0], both[1]))


def warm_up(cluster: LocalCluster) -> None:
    """Teach every replica, and let each answer for some seconds."""
    client = RecordingClient(0, cluster.replicas, seed=0)
    offset = client.give([client.draw_item()])
    client.close()
    wait_all_reached(cluster, offset)
    for replica in cluster.replicas:
        load(replica, WARM_UP_S)
    threading.Event().wait(1)


def main() -> int:
    parser = create_parser(__doc__ or "")
    parser.add_argument("--rounds", type=int, default=3, help="clusters, one after the other (default 3)")
    parser.add_argument("--seconds", type=float, default=10.0, help="of each measurement (default 10)")
    parser.add_argument("--feedback", type=float, default=20.0, help="actions of the client each second (default 20)")
    parser.add_argument(
        "--store", default=os.environ.get("ONLINE_TEST_POSTGRES", POSTGRES), help=f"server (default {POSTGRES})"
    )
    flags = parser.parse_args()
    require_wrk()
    if len(os.sched_getaffinity(0)) < 2:
        raise BenchmarkError("there is one core only, and a replica needs one for itself")
    rounds = [measure_round(flags) for _ in progress(range(flags.rounds), "rounds")]
    speed_up, cost = median(each.speed_up for each in rounds), median(each.cost for each in rounds)
    if flags.json:
        facts = {"benchmark": "replicas", "speed_up": speed_up, "cost": cost}
        print_json({**facts, "rounds": [asdict(each) for each in rounds]})
        return 0
    rows = [row for number, each in enumerate(rounds, 1) for row in describe(number, each)]
    columns = ("round", "", "answers/s", "answers/s of processor time", "p99 ms", "failed")
    table(f"replicas of one model, {flags.feedback:g} actions of feedback each second", columns, rows)
    print(f"two replicas, each on a core: {speed_up:.2f} times one; asked {verdict(speed_up, SPEED_UP, at_least=True)}")
    print(f"adding a replica costs the first one: {100 * cost:.1f} %; asked {verdict(100 * cost, 100 * COST, ' %')}")
    return 0


def describe(number: int, measured: Round) -> Iterator[tuple[object, ...]]:
    """Yield a row for each load of a round."""
    named = {"alone": measured.alone[0], "beside another one": measured.beside}
    named |= {f"together, replica {place}": each for place, each in enumerate(measured.together, 1)}
    named["alone again"] = measured.alone[1]
    for name, each in named.items():
        yield number, name, each.answers_s, each.cpu_answers_s, each.p99_ms, each.failed


if __name__ == "__main__":
    command(main)

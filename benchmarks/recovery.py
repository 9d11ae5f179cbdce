"""Measures how a cluster recovers: replicas on one Postgres that are killed, that come back, and that join.

    takeover   kill -9 of the replica that publishes most: the longest time without a publication, before and after
    rejoin     the killed replica starts again: until it serves, and until it is equal to the others
    join       a new replica, with --events in the log: until it serves, and until it is equal
    restart    every replica is stopped, --backlog events arrive: until one serves, publishes, and has learned all
    freshness  from the acknowledgement at one replica to an answer of another that has learned it: 1 and 3 replicas

    python -m benchmarks.recovery [--events 100000] [--backlog 100000] [--only takeover join] [--store URL] [--json]

It needs a Postgres in which it may create databases. All replicas, the clients and Postgres share this machine's cores.
"""

import os
import random
import tempfile
import threading
import time
import uuid
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
from sqlalchemy import create_engine, text

from benchmarks.report import command, create_parser, percentile, print_json, say, table, verdict
from online.schemas.events import Event
from online.store import Store
from online.store.events import append_events
from tests.cluster.agreement import wait_equal, wait_reached
from tests.cluster.clients import ClientThreads, RecordingClient
from tests.cluster.local_cluster import LocalCluster, Replica

POSTGRES = "postgresql+psycopg://postgres@127.0.0.1:5432"
SECTIONS = ("takeover", "rejoin", "join", "restart", "freshness")
TARGETS = {
    "takeover: longest time without a publication, more than before the kill": (1.0, "s", False),
    "rejoin: equal": (60.0, "s", False),
    "join: serves": (10.0, "s", False),
    "join: equal": (60.0, "s", False),
    "restart: first publication": (5.0, "s", False),
    "restart: events of the backlog": (30_000.0, "/s", True),
}
WINDOW_S = 8.0  # watched before a kill and after it
PAGE = 5_000  # events of one transaction
CLASSES = 3


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured value. unit: s, ms or /s."""

    name: str
    value: float
    unit: str


@contextmanager
def created_database(base: str) -> Iterator[str]:
    """Create a database for this run; yield its URL, then drop it."""
    name = f"online_recovery_{uuid.uuid4().hex[:8]}"
    admin = create_engine(f"{base}/postgres", isolation_level="AUTOCOMMIT")
    with admin.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
        try:
            yield f"{base}/{name}"
        finally:
            connection.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))
    admin.dispose()


@contextmanager
def running_cluster(base: str, replicas: int) -> Iterator[tuple[LocalCluster, str]]:
    """Run a cluster on a database of its own; yield both."""
    with (
        created_database(base) as store,
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
        LocalCluster(Path(folder), store, replicas=replicas, namespaces=False) as cluster,
    ):
        yield cluster, store


def append(store: str, count: int, name: str) -> int:
    """Append events to the log, without a service; return its head."""
    opened, last = Store(store), 0
    for first in range(0, count, PAGE):
        draw = np.random.default_rng([first, len(name)])
        labels = draw.integers(CLASSES, size=min(PAGE, count - first))
        rows = draw.normal(labels[:, None], 1.0, (len(labels), 4))
        events = [
            Event(f"{name}-{first + n}", "label", row.tobytes(), f"class {label}")
            for n, (row, label) in enumerate(zip(rows, labels.tolist(), strict=True))
        ]
        work = opened.submit(partial(append_events, model="vec", events=events, new=True))
        last = work.result()[-1]
    opened.close()
    return last


def list_published(store: str) -> list[tuple[float, int, str]]:
    """Return (time, learned until, replica) of every publication, the oldest first."""
    engine = create_engine(store)
    with engine.connect() as connection:
        rows = connection.execute(
            text("SELECT created_at, learned_until, replica FROM publication ORDER BY version")
        ).all()
    engine.dispose()
    return [(datetime.fromisoformat(row[0]).timestamp(), row[1], row[2]) for row in rows]


def find_busiest(store: str, cluster: LocalCluster) -> Replica:
    """Return the replica that has published most lately."""
    engine = create_engine(store)
    query = (
        "SELECT replica.url FROM publication JOIN replica ON replica.id = publication.replica "
        "GROUP BY replica.url ORDER BY count(*) DESC LIMIT 1"
    )
    with engine.connect() as connection:
        url = connection.scalar(text(query))
    engine.dispose()
    return next(replica for replica in cluster.replicas if replica.url == url)


def longest_gap(times: list[float], first: float, last: float) -> float:
    """Return the longest time without a publication in an interval."""
    inside = [first, *(each for each in times if first <= each <= last), last]
    return max(after - before for before, after in pairwise(inside))


def measure_takeover(flags: Namespace) -> list[Figure]:
    """Kill the busiest replica while clients give feedback, and start it again."""
    pause = threading.Event()
    with running_cluster(flags.store, 3) as (cluster, store):
        threads = ClientThreads([RecordingClient(n, cluster.replicas, seed=n) for n in range(2)], 0.05).start()
        wait_all_reached(cluster, 1)
        pause.wait(WINDOW_S)
        victim, killed_at = find_busiest(store, cluster), time.time()
        victim.kill()
        pause.wait(WINDOW_S)
        began = time.monotonic()
        victim.start().wait_ready()
        served_s = time.monotonic() - began
        history = threads.stop()
        until = max(offset for each in history for offset in each.offsets)
        wait_equal(cluster.replicas, until)
        equal_s = time.monotonic() - began
        times = [each for each, _, _ in list_published(store)]
    before, after = (
        longest_gap(times, killed_at - WINDOW_S, killed_at),
        longest_gap(times, killed_at, killed_at + WINDOW_S),
    )
    return [
        Figure("takeover: longest time without a publication, before the kill", before, "s"),
        Figure("takeover: longest time without a publication, after the kill", after, "s"),
        Figure(
            "takeover: longest time without a publication, more than before the kill", max(0.0, after - before), "s"
        ),
        Figure("rejoin: serves", served_s, "s"),
        Figure("rejoin: equal", equal_s, "s"),
    ]


def wait_all_reached(cluster: LocalCluster, until: int) -> None:
    """Return once every replica answers with something that has learned an offset."""
    for replica in cluster.replicas:
        wait_reached(replica, until, 900)


def measure_join(flags: Namespace) -> list[Figure]:
    """Let a replica join with many events in the log."""
    with running_cluster(flags.store, 2) as (cluster, store):
        began = time.monotonic()
        head = append(store, flags.events, "history")
        say(f"{head:,} events appended in {time.monotonic() - began:.0f} s")
        wait_equal(cluster.replicas, head, 900)
        began = time.monotonic()
        cluster.add_replica()
        served_s = time.monotonic() - began
        wait_equal(cluster.replicas, head, 900)
        equal_s = time.monotonic() - began
    return [Figure("join: serves", served_s, "s"), Figure("join: equal", equal_s, "s")]


def measure_restart(flags: Namespace) -> list[Figure]:
    """Stop all replicas, let a backlog arrive, and start one."""
    with running_cluster(flags.store, 1) as (cluster, store):
        [replica] = cluster.replicas
        first = append(store, 1_000, "before")
        wait_all_reached(cluster, first)
        replica.stop()
        head = append(store, flags.backlog, "backlog")
        began, started_at = time.monotonic(), time.time()
        replica.start().wait_ready()
        served_s = time.monotonic() - began
        wait_all_reached(cluster, head)
        published = [(at, until) for at, until, _ in list_published(store) if until > first]
    (published_at, learned), (ended_at, _) = published[0], next(each for each in published if each[1] >= head)
    pace = (head - learned) / (ended_at - published_at) if ended_at > published_at else float("nan")
    return [
        Figure("restart: serves", served_s, "s"),
        Figure("restart: first publication", published_at - started_at, "s"),
        Figure("restart: the backlog is learned", ended_at - started_at, "s"),
        Figure("restart: events of the backlog", pace, "/s"),
    ]


def measure_freshness(flags: Namespace) -> list[Figure]:
    """Give feedback at random replicas, and read it at others."""
    figures = list[Figure]()
    for count in (1, 3):
        with running_cluster(flags.store, count) as (cluster, _):
            client, draw, pause = RecordingClient(1, cluster.replicas, seed=1), random.Random(1), threading.Event()
            client.give([client.draw_item()])
            wait_all_reached(cluster, 1)
            for _ in range(flags.reads):
                client.act()
                client.read(max(client.history[-1].offsets, default=client.history[-1].min_offset or 0))
                pause.wait(draw.uniform(0.01, 0.05))
            client.close()
            values = [1000 * seconds for _, seconds in client.freshness_s[5:]]
        for percent in (50, 99):
            figures.append(Figure(f"freshness, {count} replicas: p{percent}", percentile(values, percent), "ms"))
    return figures


def main() -> int:
    parser = create_parser(__doc__ or "")
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=SECTIONS, help="sections (default: all)")
    parser.add_argument("--events", type=int, default=100_000, help="in the log when a replica joins (default 100,000)")
    parser.add_argument("--backlog", type=int, default=100_000, help="events that wait at a restart (default 100,000)")
    parser.add_argument("--reads", type=int, default=300, help="measurements of freshness (default 300)")
    parser.add_argument(
        "--store", default=os.environ.get("ONLINE_TEST_POSTGRES", POSTGRES), help=f"server (default {POSTGRES})"
    )
    flags = parser.parse_args()
    measures = {
        "takeover": measure_takeover,
        "join": measure_join,
        "restart": measure_restart,
        "freshness": measure_freshness,
    }
    chosen = ["takeover" if each == "rejoin" else each for each in flags.only]
    figures = [figure for name, measure in measures.items() if name in chosen for figure in measure(flags)]
    if flags.json:
        print_json({"benchmark": "recovery", "events": flags.events, "figures": [asdict(each) for each in figures]})
    else:
        rows = [(each.name, each.value, each.unit, describe_target(each)) for each in figures]
        table(f"recovery, {flags.events:,} events, {os.cpu_count()} cores", ("", "value", "unit", "target"), rows)
    return 0


def describe_target(figure: Figure) -> str:
    """Return the target of a figure, and whether it is met; "" without one."""
    if figure.name not in TARGETS:
        return ""
    target, unit, at_least = TARGETS[figure.name]
    return f"{'>=' if at_least else '<='} {target:,g} {unit}: {verdict(figure.value, target, f' {unit}', at_least)}"


if __name__ == "__main__":
    command(main)

"""Measures whether slow connections disturb others: 100 good clients predict, with and without 2,000 slow ones beside them.

    quiet | slow | quiet | slow | ... | quiet    rounds of --seconds each

Load: an open loop of --rate recorded predictions a second, over one keep-alive connection of each good client in turn.
Beside them benchmarks/slow_clients.py holds four kinds of slow connections, as many of each: heads that never end, bodies
that arrive a byte a second, idle ones, and ones that never read their answers. What the service closes is opened again. A
round begins once as many are open, and some seconds later.

`held` is the smallest number of slow connections that the service had at any moment of a round, `opened` how many were
opened again. `others` is what all other programs on the machine used: repeat a run in which that is much.
"""

import asyncio
from argparse import Namespace
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection as Pipe
from time import perf_counter
from typing import Any

from benchmarks import inputs
from benchmarks.freshness import teach
from benchmarks.report import command, create_parser, percentile, print_json, say, table, verdict
from benchmarks.service import VEC, Service, running_service
from benchmarks.slow_clients import OPENED_A_S, Held, slow_clients
from benchmarks.wire import Connection, Pool, Response, open_loop, predict
from online.api.http.connections import raise_file_limit

TARGET_RATIO = 2.0
HELD_RATIO = 0.95  # a connection that was closed is missing until it is open again
QUIET, SLOW = KINDS = ("quiet", "slow")
SETTLE_S = 5.0


@dataclass(frozen=True, slots=True)
class Round:
    """One round. cpu: shares of one core. held: of the slow connections; None without them."""

    kind: str
    responses: list[Response]
    cpu: dict[str, float]
    held: Held | None

    @property
    def failed(self) -> int:
        return sum(not response.ok for response in self.responses)

    def percentile_ms(self, percent: float) -> float:
        return percentile([response.elapsed_ms for response in self.responses if response.ok], percent)


@asynccontextmanager
async def beside(service: Service, kind: str, count: int) -> AsyncIterator[Pipe | None]:
    """Hold slow connections in a round of that kind. The pipe tells what is held."""
    if kind == QUIET:
        yield None
        return
    with slow_clients(service.host, service.port, count) as pipe:
        await asyncio.sleep(count / OPENED_A_S)
        yield pipe


async def ask(pipe: Pipe | None) -> Held | None:
    """Return what was held since it was asked for the last time."""
    if pipe is None:
        return None
    pipe.send("held?")
    held: Held = await asyncio.to_thread(pipe.recv)
    return held


async def run_round(service: Service, flags: Namespace, kind: str, seed: int) -> Round:
    points = [point for point, _ in inputs.vectors(int(flags.rate * (flags.seconds + SETTLE_S)), seed)]
    requests = [predict("vec", point) for point in points]
    settling = int(flags.rate * SETTLE_S)
    async with beside(service, kind, flags.slow) as pipe, Pool(service, flags.good) as good:
        await open_loop(good.send, requests[:settling], flags.rate)
        await ask(pipe)
        before, started = service.cpu_s(), perf_counter()
        responses = await open_loop(good.send, requests[settling:], flags.rate)
        after, elapsed = service.cpu_s(), perf_counter() - started
        held = await ask(pipe)
    cpu = {name: (after[name] - before[name]) / elapsed for name in after}
    cpu["slow clients"] = held.cpu_s / elapsed if held else 0.0
    cpu["others"] -= cpu["slow clients"]
    return Round(kind, responses, cpu, held)


async def measure(service: Service, flags: Namespace) -> list[Round]:
    connection = Connection(service.host, service.port)
    await teach(connection, "vec", inputs.vectors(200, 0))
    connection.close()
    rounds, kinds = [], [*KINDS * flags.rounds, QUIET]
    for number, kind in enumerate(kinds):
        say(f"round {number + 1} of {len(kinds)}: {kind} ...")
        rounds.append(await run_round(service, flags, kind, number + 1))
    return rounds


def summarize(rounds: Sequence[Round]) -> dict[str, Any]:
    """p50 and p99: medians over the rounds of a kind. ratios: each slow round to the mean of the quiet ones around it."""
    p99 = [each.percentile_ms(99) for each in rounds]
    medians = {
        f"{kind}_p{percent}_ms": percentile([each.percentile_ms(percent) for each in rounds if each.kind == kind], 50)
        for kind in KINDS
        for percent in (50, 99)
    }
    return {
        "requests": sum(len(each.responses) for each in rounds),
        "failed": sum(each.failed for each in rounds),
        "held": min(each.held.fewest for each in rounds if each.held),
        **medians,
        "p99_ratio": medians["slow_p99_ms"] / medians["quiet_p99_ms"],
        "p99_ratios": [2 * p99[n] / (p99[n - 1] + p99[n + 1]) for n in range(1, len(rounds), 2)],
    }


def row(each: Round) -> list[object]:
    held = [each.held.fewest, each.held.opened] if each.held else ["-", "-"]
    cpu = [f"{each.cpu[name]:.0%}" for name in ("server", "slow clients", "others")]
    times = [each.percentile_ms(50), each.percentile_ms(99), each.percentile_ms(100)]
    return [each.kind, *held, len(each.responses), each.failed, *times, *cpu]


def print_tables(flags: Namespace, rounds: Sequence[Round], summary: dict[str, Any]) -> None:
    columns = [
        "round",
        "held",
        "opened",
        "requests",
        "failed",
        "p50 ms",
        "p99 ms",
        "max ms",
        "server",
        "slow",
        "others",
    ]
    table(
        f"{flags.slow:,} slow connections beside {flags.good} good clients (shares of one core)",
        columns,
        map(row, rounds),
    )
    fewest = HELD_RATIO * flags.slow
    rows = [
        ("failed good requests", summary["failed"], "0", verdict(summary["failed"], 0)),
        ("slow connections held", summary["held"], f"{fewest:,.0f}", verdict(summary["held"], fewest, at_least=True)),
        ("p99 quiet, ms", summary["quiet_p99_ms"], "-", "-"),
        ("p99 with slow connections, ms", summary["slow_p99_ms"], "-", "-"),
        ("p99 slow / quiet", summary["p99_ratio"], "2", verdict(summary["p99_ratio"], TARGET_RATIO)),
        ("the same, each round", " ".join(f"{ratio:.2f}" for ratio in summary["p99_ratios"]), "-", "-"),
    ]
    table("over all rounds (p99: medians over the rounds)", ("figure", "value", "target", "verdict"), rows)


def parse_flags() -> Namespace:
    parser = create_parser(__doc__ or "")
    parser.add_argument("--slow", type=int, default=2_000, help="slow connections (default 2000)")
    parser.add_argument("--good", type=int, default=100, help="good clients (default 100)")
    parser.add_argument(
        "--rate", type=float, default=100, help="predictions a second of all good clients (default 100)"
    )
    parser.add_argument("--seconds", type=float, default=30, help="seconds of a round (default 30)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds with slow connections (default 3)")
    return parser.parse_args()


def main() -> int:
    flags = parse_flags()
    raise_file_limit()
    with running_service(VEC) as service:
        rounds = asyncio.run(measure(service, flags))
        problems = service.log_problems()
    summary = summarize(rounds)
    if flags.json:
        shown = [{"kind": each.kind, "held": each.held and asdict(each.held), "cpu": each.cpu} for each in rounds]
        print_json({"benchmark": "slow_connections", **summary, "rounds": shown, "log_problems": problems})
    else:
        print_tables(flags, rounds, summary)
        print(*problems, sep="\n")
    return int(summary["failed"] > 0)


if __name__ == "__main__":
    command(main)

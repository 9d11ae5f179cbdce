"""Measures the erasure of a user: 1,000 of 50,000 events are un-learned while others go on predicting.

    answered     DELETE is answered: the feedback is retracted, words, name and features are blanked
    un-learned   a live version has learned the last retraction, so no answer depends on the user any more
    done         the log is learned again, older snapshots are gone, the database is clean, the statement is signed

All times are seconds since DELETE was sent. One caller predicts, recorded, all the time: p99 of its requests before the
erasure, until the user is un-learned, and until all is done. `same state` says that the sums from which the user was
subtracted have the hash of those that were learned without the user.
"""

import asyncio
import time
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import httpx
import numpy as np

from benchmarks.report import command, create_parser, percentile, print_json, say, table, verdict
from benchmarks.service import Service, running_service

MODELS = {
    "classifier": '{ input = "vector", size = 30, scale = 4.0 }',
    "regressor": '{ input = "vector", size = 30, scale = 4.0, target_scale = 64.0 }',
}
USER, OTHERS = "erased", 49
BATCH = 200  # items of one request
TARGET_S, TARGET_RATIO = 1.0, 2.0
DONE_S = 600.0


@dataclass(frozen=True, slots=True)
class Result:
    """Seconds since DELETE was sent, and latencies of recorded predictions in ms."""

    kind: str
    events: int
    erased: int
    answered_s: float
    unlearned_s: float
    done_s: float
    quiet_p99_ms: float
    unlearning_p99_ms: float
    whole_p99_ms: float
    longest_ms: float
    failed: int
    is_same: bool


def config(kind: str) -> str:
    return f'[[models]]\nname = "m"\nkind = "{kind}"\noptions = {MODELS[kind]}\n'


def build_items(args: Namespace, kind: str) -> list[dict[str, object]]:
    """Feedback of all users in a random order."""
    rng = np.random.default_rng(args.seed)
    users = [USER] * args.erased + [f"user {n % OTHERS}" for n in range(args.events - args.erased)]
    values = rng.normal(size=(args.events, 30)).round(4)
    labels = [
        str(int(row[:3].argmax())) if kind == "classifier" else str(round(float(row[:3].sum()), 3)) for row in values
    ]
    order = rng.permutation(args.events)
    return [{"input": values[n].tolist(), "label": labels[n], "user": users[n]} for n in order]


class Caller:
    """Predicts one vector after another until stopped. elapsed: (when it was sent, ms)."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self.client, self.elapsed, self.failed = client, list[tuple[float, float]](), 0
        self.stopping = False

    async def run(self) -> None:
        rng = np.random.default_rng(0)
        while not self.stopping:
            body = {"instances": [rng.normal(size=30).round(4).tolist()]}
            sent_at = time.perf_counter()
            response = await self.client.post("/v1/models/m:predict", json=body)
            self.failed += response.status_code != 200
            self.elapsed.append((sent_at, 1000 * (time.perf_counter() - sent_at)))

    def between(self, start: float, end: float) -> Sequence[float]:
        return [ms for sent_at, ms in self.elapsed if start <= sent_at < end]


async def wait_learned(client: httpx.AsyncClient, offset: int) -> None:
    while True:
        response = await client.get("/v1/models/m", params={"min_offset": offset, "timeout_ms": 20_000})
        if response.status_code == 200:
            return


async def erase(client: httpx.AsyncClient) -> tuple[float, float, float, bool]:
    """Erase the user; return when DELETE was answered, when a version had un-learned, when all was done, and the proof."""
    begun = (await client.delete(f"/v1/models/m/users/{USER}", timeout=60)).raise_for_status().json()
    answered = time.perf_counter()
    await wait_learned(client, begun["offset"])
    unlearned = time.perf_counter()
    while (status := (await client.get(f"/v1/erasures/{begun['id']}")).json())["state"] != "done":
        if time.perf_counter() - answered > DONE_S:
            raise TimeoutError(f"the erasure is not done after {DONE_S:.0f} s: {status}")
        await asyncio.sleep(0.05)
    return answered, unlearned, time.perf_counter(), bool(status["statement"]["models"]["m"]["compared"]["is_same"])


async def measure(args: Namespace, kind: str, service: Service) -> Result:
    url = f"http://{service.host}:{service.port}"
    async with (
        httpx.AsyncClient(base_url=url, timeout=60) as client,
        httpx.AsyncClient(base_url=url, timeout=60) as own,
    ):
        items = build_items(args, kind)
        say(f"{kind}: {args.events:,} events ...")
        for start in range(0, len(items), BATCH):
            body = {"feedback": items[start : start + BATCH]}
            (await client.post("/v1/models/m:feedback", json=body)).raise_for_status()
        await wait_learned(client, args.events)
        caller = Caller(own)
        task = asyncio.create_task(caller.run())
        await asyncio.sleep(args.seconds)
        say(f"{kind}: erasing {args.erased:,} of them ...")
        started = time.perf_counter()
        answered, unlearned, done, is_same = await erase(client)
        caller.stopping = True
        await task
    quiet = caller.between(started - args.seconds + 0.5, started)
    return Result(
        kind,
        args.events,
        args.erased,
        answered - started,
        unlearned - started,
        done - started,
        percentile(quiet, 99),
        percentile(caller.between(started, unlearned), 99),
        percentile(caller.between(started, done), 99),
        max(caller.between(started, done), default=float("nan")),
        caller.failed,
        is_same,
    )


def main() -> int:
    parser = create_parser(__doc__ or "")
    parser.add_argument("--kind", choices=MODELS, action="append", help="kind of model (default: all)")
    parser.add_argument("--events", type=int, default=50_000, help="events of all users (default: 50000)")
    parser.add_argument("--erased", type=int, default=1_000, help="events of the erased user (default: 1000)")
    parser.add_argument("--seconds", type=float, default=10.0, help="seconds of predictions before it (default: 10)")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    results = []
    for kind in args.kind or MODELS:
        with running_service(config(kind)) as service:
            results.append(asyncio.run(measure(args, kind, service)))
    if args.json:
        print_json({"results": [asdict(each) for each in results]})
    else:
        show(args, results)
    return int(any(each.failed or not each.is_same for each in results))


def show(args: Namespace, results: Sequence[Result]) -> None:
    columns = ["", "answered s", "un-learned s", "done s", "p99 quiet", "p99 un-learning", "p99 all", "longest ms"]
    rows = [
        [
            each.kind,
            *(each.answered_s, each.unlearned_s, each.done_s),
            *(each.quiet_p99_ms, each.unlearning_p99_ms, each.whole_p99_ms, each.longest_ms),
        ]
        for each in results
    ]
    table(f"{args.erased:,} of {args.events:,} events are erased; latencies in ms", columns, rows)
    for each in results:
        within = verdict(each.unlearned_s, TARGET_S, " s")
        ratio = each.unlearning_p99_ms / each.quiet_p99_ms
        print(f"{each.kind}: un-learned within {TARGET_S:g} s: {within}; ", end="")
        print(f"p99 at most {TARGET_RATIO:g} times that of a quiet service: {verdict(ratio, TARGET_RATIO)}; ", end="")
        print(f"failed requests: {each.failed}; same state: {'yes' if each.is_same else 'NO'}")


if __name__ == "__main__":
    command(main)

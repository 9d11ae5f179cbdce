"""Measures how much feedback a service takes: labels with inputs of 30 numbers, in requests of --size items.

    --connections, each: POST :feedback --202--> the next        --seconds; every 202 means that all its items are durable

Learning is frozen meanwhile, unless --learn is given: the learner would take one of the cores.
"""

import asyncio
import time
from argparse import Namespace

import httpx

from benchmarks import inputs
from benchmarks.freshness import teach
from benchmarks.report import command, create_parser, percentile, print_json, table, verdict
from benchmarks.service import VEC, Service, running_service
from benchmarks.wire import Connection, Pool, Response, post

TARGET_PER_S = 10_000.0
BODIES = 50  # different ones; ids are given by the service, so that each time all items are new


async def load(pool: Pool, bodies: list[bytes], until: float) -> list[Response]:
    """Send requests on one connection until an instant."""
    responses = list[Response]()
    while time.perf_counter() < until:
        responses.append(await pool.send(bodies[len(responses) % len(bodies)]))
    return responses


async def measure(service: Service, flags: Namespace) -> dict[str, float]:
    connection = Connection(service.host, service.port)
    await teach(connection, "vec", inputs.vectors(50, 0))
    connection.close()
    if not flags.learn:
        httpx.post(f"http://{service.host}:{service.port}/v1/models/vec:freeze", json={}).raise_for_status()
    lessons = [{"input": each, "label": label} for each, label in inputs.vectors(BODIES * flags.size, 1)]
    chunks = [lessons[start : start + flags.size] for start in range(0, len(lessons), flags.size)]
    bodies = [post("/v1/models/vec:feedback", {"feedback": chunk}) for chunk in chunks]
    async with Pool(service, flags.connections) as pool:
        await load(pool, bodies, time.perf_counter() + 1.0)
        before, started = service.cpu_s(), time.perf_counter()
        until = started + flags.seconds
        found = await asyncio.gather(*(load(pool, bodies, until) for _ in range(flags.connections)))
        elapsed, after = time.perf_counter() - started, service.cpu_s()
    responses = [response for each in found for response in each]
    stored = flags.size * sum(response.ok for response in responses)
    return {
        "per_s": stored / elapsed,
        "failed": sum(not response.ok for response in responses),
        "p50_ms": percentile([response.elapsed_ms for response in responses], 50),
        "p99_ms": percentile([response.elapsed_ms for response in responses], 99),
        **{
            f"{name}_us": 1e6 * (after[name] - before[name]) / max(stored, 1) for name in ("server", "store", "learner")
        },
        **{f"{name}_cpu": (after[name] - before[name]) / elapsed for name in after},
    }


def main() -> int:
    parser = create_parser(__doc__ or "")
    parser.add_argument("--seconds", type=float, default=8, help="seconds of load (default 8)")
    parser.add_argument("--size", type=int, default=100, help="items of each request (default 100)")
    parser.add_argument("--connections", type=int, default=4, help="connections (default 4)")
    parser.add_argument("--learn", action="store_true", help="let the learner learn meanwhile")
    flags = parser.parse_args()
    with running_service(VEC) as service:
        found = asyncio.run(measure(service, flags))
        problems = service.log_problems()
    if flags.json:
        print_json({"benchmark": "ingest", "target_per_s": TARGET_PER_S, **found, "log_problems": problems})
    else:
        reached = verdict(found["per_s"], TARGET_PER_S, at_least=True)
        rows = [[name, value, reached if name == "per_s" else ""] for name, value in found.items()]
        table("feedback that is durable, per second (processor time per item in us)", ("figure", "value", ""), rows)
        print(*problems, sep="\n")
    return int(found["failed"] > 0)


if __name__ == "__main__":
    command(main)

"""Measures whether hostile peers disturb others: honest callers with keys predict, alone and during each attack.

    quiet | an endless header | quiet | an endless header | ... | quiet | large headers | ... | quiet    rounds of --seconds each

    endless header    one connection, whose header never ends
    large headers     200 connections with 1 MB of headers each
    chunk extensions  4 connections, with a chunk whose extension never ends
    many instances    4 connections of one visitor, with 1,024 rows of 30 numbers in each request
    large bodies      the same, with numbers of 120 digits: 3.9 MB in each request, all of it recorded
    tiny rows         the same, with 970,000 rows of one number, in 3.9 MB
    gzip bomb         4 connections of one visitor, with bodies of 250 kB that are 256 MB decoded

The attackers have no key and are a process of their own on the same machine; they open again what the service closes, and repeat what it
refuses after a pause. Load: an open loop of --rate recorded predictions a second, in which waiting for a connection counts.
A machine that is shared is busy at some times and not at others, so each attack is tried --pairs times beside a quiet round, and
the median is taken of how many times the p99 of the quiet rounds around it that of an attack is. `stored` is by how much the state folder grew, `memory` what the server had at the end of the round, `server` and `others` are shares of
one core: repeat a run in which other programs of the machine used much (the attackers are among them).
"""

import asyncio
import contextlib
import gzip
import multiprocessing
from argparse import Namespace
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from statistics import mean, median
from time import perf_counter

import httpx
import orjson

from benchmarks import inputs
from benchmarks.report import command, create_parser, percentile, print_json, say, table, verdict
from benchmarks.service import VEC, Service, running_service
from benchmarks.wire import HOST, Connection, Pool, Response, open_loop, predict

TARGET_RATIO = 3.0
QUIET = "quiet"
ADMIN_KEY = "an admin key of a benchmark"
CONFIG = f'admin_key = "{ADMIN_KEY}"\npublic_teaching = "off"\n{VEC}'
PAUSE_S = 0.05  # before an attacker tries again
SETTLE_S = 1.0
WIDTH, ROWS = 30, 1_024
BLOCK = b"a" * 65_536
PATH = b"POST /v1/models/vec:predict HTTP/1.1\r\nHost: " + HOST.encode() + b"\r\n"


@dataclass(frozen=True, slots=True)
class Attack:
    """connections: at once. work: what one of them does, until it is cancelled."""

    connections: int
    work: Callable[[str, int, str], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Round:
    kind: str
    responses: list[Response]
    stored_mb: float
    memory_mb: float
    cpu: dict[str, float]

    @property
    def failed(self) -> int:
        return sum(not response.ok for response in self.responses)

    def percentile_ms(self, percent: float) -> float:
        return percentile([response.elapsed_ms for response in self.responses], percent)


# attackers


def endless(start: bytes) -> Callable[[str, int, str], Awaitable[None]]:
    """Send a beginning, and then the same for ever."""

    async def work(host: str, port: int, cookie: str) -> None:
        _, writer = await asyncio.open_connection(host, port)
        with contextlib.closing(writer):
            writer.write(start)
            while True:
                writer.write(BLOCK)
                await writer.drain()

    return work


async def send_large_headers(host: str, port: int, cookie: str) -> None:
    reader, writer = await asyncio.open_connection(host, port)
    with contextlib.closing(writer):
        writer.write(PATH)
        for number in range(100):
            writer.write(b"X-Large-%d: %b\r\n" % (number, BLOCK[:10_000]))
            await writer.drain()
        await reader.read()


def repeat(body: bytes, header: bytes = b"") -> Callable[[str, int, str], Awaitable[None]]:
    """Send the same request of a visitor, and after its answer again."""

    async def work(host: str, port: int, cookie: str) -> None:
        head = PATH + b"Sec-Fetch-Site: same-origin\r\nCookie: %b\r\n%bContent-Length: %d\r\n\r\n"
        connection = Connection(host, port)
        with contextlib.closing(connection):
            while (await connection.send(head % (cookie.encode(), header, len(body)) + body)).ok:
                pass

    return work


def rows_of(number: str, width: int = WIDTH, rows: int = ROWS) -> bytes:
    row = f"[{','.join([number] * width)}]"
    return f'{{"instances":[{",".join([row] * rows)}]}}'.encode()


ATTACKS = {
    "endless header": Attack(1, endless(PATH + b"X-Endless: ")),
    "large headers": Attack(200, send_large_headers),
    "chunk extensions": Attack(4, endless(PATH + b"Transfer-Encoding: chunked\r\n\r\n1;")),
    "many instances": Attack(4, repeat(rows_of("0.5"))),
    "large bodies": Attack(4, repeat(rows_of(f"0.{'5' * 120}"))),
    "tiny rows": Attack(4, repeat(rows_of("1", 1, 970_000))),
    "gzip bomb": Attack(4, repeat(gzip.compress(b" " * 2**28, 6), b"Content-Encoding: gzip\r\n")),
}


async def attack_for_ever(kind: str, host: str, port: int, cookie: str) -> None:
    async def again() -> None:
        while True:
            with contextlib.suppress(OSError, EOFError):
                await ATTACKS[kind].work(host, port, cookie)
            await asyncio.sleep(PAUSE_S)

    await asyncio.gather(*(again() for _ in range(ATTACKS[kind].connections)))


def run_attackers(kind: str, host: str, port: int, cookie: str) -> None:
    asyncio.run(attack_for_ever(kind, host, port, cookie))


@contextlib.contextmanager
def attackers(service: Service, kind: str) -> Iterator[None]:
    if kind == QUIET:
        yield
        return
    arguments = kind, service.host, service.port, new_visitor(service)
    process = multiprocessing.get_context("fork").Process(target=run_attackers, args=arguments, daemon=True)
    process.start()
    try:
        yield
    finally:
        process.kill()
        process.join()


# callers


def new_visitor(service: Service) -> str:
    """The cookie of a visitor."""
    url = f"http://{HOST}:{service.port}/v1/session"
    answer = httpx.get(url, headers={"Sec-Fetch-Site": "same-origin"}, timeout=60).raise_for_status()
    return "; ".join(f"{name}={value}" for name, value in answer.cookies.items())


def new_key(service: Service) -> bytes:
    """The header of a caller with a key."""
    url, asked = f"http://{HOST}:{service.port}/v1/keys", {"name": "honest", "scopes": ["predict"]}
    made = httpx.post(url, json=asked, headers={"X-Admin-Key": ADMIN_KEY}, timeout=60).raise_for_status()
    return f"\r\nAuthorization: Bearer {orjson.loads(made.content)['key']}\r\n\r\n".encode()


def stored_mb(service: Service) -> float:
    files = (service.log.parent / "state").rglob("*")
    return sum(file.stat().st_size for file in files if file.is_file()) / 1e6


async def run_round(service: Service, flags: Namespace, kind: str, key: bytes, seed: int) -> Round:
    points = [point for point, _ in inputs.vectors(int(flags.rate * (flags.seconds + SETTLE_S)), seed)]
    requests = [predict("vec", point).replace(b"\r\n\r\n", key, 1) for point in points]
    settling, before = int(flags.rate * SETTLE_S), stored_mb(service)
    async with Pool(service, flags.good) as good:
        with attackers(service, kind):
            await open_loop(good.send, requests[:settling], flags.rate)
            used, started = service.cpu_s(), perf_counter()
            responses = await open_loop(good.send, requests[settling:], flags.rate)
            elapsed, after = perf_counter() - started, service.cpu_s()
            memory = service.memory_mb()["server"]
    return Round(
        kind,
        responses,
        stored_mb(service) - before,
        memory,
        {name: (after[name] - used[name]) / elapsed for name in after},
    )


async def measure(service: Service, flags: Namespace) -> list[Round]:
    kinds, key = [QUIET], new_key(service)
    for kind in flags.attacks.split(","):
        kinds += [kind, QUIET] * flags.pairs
    rounds = []
    for number, kind in enumerate(kinds):
        say(f"round {number + 1} of {len(kinds)}: {kind} ...")
        rounds.append(await run_round(service, flags, kind, key, number + 1))
    return rounds


def ratios(rounds: list[Round]) -> dict[str, float]:
    """Of each attack, the median of p99 while it runs / the mean of p99 in the quiet rounds around it."""
    p99, found = [each.percentile_ms(99) for each in rounds], dict[str, list[float]]()
    for n in range(1, len(rounds), 2):
        found.setdefault(rounds[n].kind, []).append(p99[n] / mean((p99[n - 1], p99[n + 1])))
    return {kind: median(each) for kind, each in found.items()}


def main() -> int:
    parser = create_parser(__doc__ or "")
    parser.add_argument("--good", type=int, default=20, help="connections of honest callers (default 20)")
    parser.add_argument("--rate", type=float, default=100, help="predictions a second of honest callers (default 100)")
    parser.add_argument("--seconds", type=float, default=5, help="seconds of a round (default 5)")
    parser.add_argument("--pairs", type=int, default=3, help="rounds of each attack (default 3)")
    parser.add_argument("--attacks", default=",".join(ATTACKS), help="the attacks, separated by commas (default all)")
    flags = parser.parse_args()
    with running_service(CONFIG) as service:
        rounds = asyncio.run(measure(service, flags))
    found, failed = ratios(rounds), sum(each.failed for each in rounds)
    worst = max(found.values())
    figures = [
        {
            "kind": each.kind,
            "failed": each.failed,
            "p50_ms": each.percentile_ms(50),
            "p99_ms": each.percentile_ms(99),
            "max_ms": each.percentile_ms(100),
            "p99_ratio": found.get(each.kind),
            "stored_mb": each.stored_mb,
            "memory_mb": each.memory_mb,
            "server": each.cpu["server"],
            "others": each.cpu["others"],
        }
        for each in rounds
    ]
    if flags.json:
        print_json({"benchmark": "hostile_peers", "worst_ratio": worst, "failed": failed, "rounds": figures})
    else:
        table(
            f"{flags.rate:.0f} predictions a second of honest callers beside hostile peers",
            [
                "round",
                "failed",
                "p50 ms",
                "p99 ms",
                "max ms",
                "p99 / quiet",
                "stored MB",
                "memory MB",
                "server",
                "others",
            ],
            [["-" if value is None else value for value in each.values()] for each in figures],
        )
        print(f"p99 during an attack / quiet, at worst {worst:.2f}: {verdict(worst, TARGET_RATIO)}; failed: {failed}")
    return int(worst > TARGET_RATIO or failed > 0)


if __name__ == "__main__":
    command(main)

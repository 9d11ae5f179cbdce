"""How soon does feedback count? From its acknowledgement to the first answer that has learned it.

    POST :feedback --answered, offset--> acknowledged_at                      open loop, --rate a second
    POST :predict  --answered, learned_until--> (answered_at, learned_until)  one prober, answer after answer
    freshness of an event = first answered_at with learned_until >= offset, minus acknowledged_at

Feedback carries its own input, so that each event is one request. The prober is an ordinary caller: it predicts
(recorded) on one connection and asks again when it is answered; what it sees lags the swap by up to one answer.
Where fewer events are taken a second than are sent, or an acknowledgement takes long, the service is overloaded and
its freshness flatters it: what waits to be acknowledged does not count yet.

With --probe waiting it asks with min_offset for the next version instead, and costs the service next to nothing.
"""

import asyncio
import time
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

from benchmarks import inputs
from benchmarks.report import command, parser, percentile, print_json, say, table, verdict
from benchmarks.service import TXT, VEC, Service, running
from benchmarks.wire import Connection, Pool, Reply, get, label, learned, must, open_loop, predict

TARGETS_MS = {"p50": 25.0, "p99": 100.0}
FEEDBACK_CONNECTIONS = 16
LAST_EVENT_S = 10.0  # how long the prober looks for the last event before it counts as never learned

Event = tuple[list[float] | str, str]


@dataclass(frozen=True, slots=True)
class Load:
    """What one model is sent: `events[0]` is what the prober asks, the rest is feedback."""

    model: str
    rate: float
    events: Sequence[Event]

    @property
    def probe(self) -> object:
        return self.events[0][0]


@dataclass(frozen=True, slots=True)
class Result:
    model: str
    beside: str
    rate: float
    events: int
    versions: int
    answers: int
    failed: int
    never_learned: int
    taken_per_s: float  # acknowledged, from the first request to the last acknowledgement
    acknowledged_p50_ms: float
    p50_ms: float
    p99_ms: float
    max_ms: float


@dataclass(slots=True)
class Prober:
    """Asks until told the last offset and has seen it. seen: (answered_at, learned_until), in order."""

    connection: Connection
    load: Load
    waiting: bool
    seen: list[tuple[float, int]] = field(default_factory=list)
    failed: int = 0
    last: int | None = None
    until: float = float("inf")

    async def run(self) -> None:
        plain, known = predict(self.load.model, self.load.probe), -1
        while (self.last is None or known < self.last) and time.perf_counter() < self.until:
            reply = await self.connection.ask(self._next(known) if self.waiting and known >= 0 else plain)
            if reply.ok:
                known = reply.json()["learned_until"]
                self.seen.append((reply.answered_at, known))
            elif reply.status != 504:  # a waiting probe may see its timeout pass when nothing is learned
                self.failed += 1

    def _next(self, known: int) -> bytes:
        return predict(self.load.model, self.load.probe, min_offset=known + 1, timeout_ms=1_000)

    def finish(self, last: int) -> None:
        self.last, self.until = last, time.perf_counter() + LAST_EVENT_S


def freshness_ms(acknowledged: Sequence[tuple[int, float]], seen: Sequence[tuple[float, int]]) -> list[float]:
    """(offset, instant) and (instant, learned_until) -> ms, of the events that were seen learned."""
    found, place = [], 0
    for offset, instant in sorted(acknowledged):
        while place < len(seen) and seen[place][1] < offset:
            place += 1
        if place == len(seen):
            break
        found.append(max(0.0, 1000 * (seen[place][0] - instant)))
    return found


async def measure(service: Service, load: Load, beside: str, waiting: bool) -> Result:
    connection = Connection(service.host, service.port)
    status = get(f"/v1/models/{load.model}")
    before = await version(connection, status)
    requests = [label(load.model, *event) for event in load.events[1:]]
    prober = Prober(connection, load, waiting)
    async with Pool(service, FEEDBACK_CONNECTIONS) as pool:
        probing = asyncio.create_task(prober.run())
        try:
            replies = await open_loop(pool.ask, requests, load.rate)
            prober.finish(max((offset_of(reply) for reply in replies if reply.ok), default=-1))
            await probing
        finally:
            probing.cancel()
    published = await version(connection, status) - before
    connection.close()
    return summed_up(load, beside, replies, prober, published)


async def version(connection: Connection, status: bytes) -> int:
    return int((await must(connection, status))["model_version_status"][0]["version"])


def offset_of(reply: Reply) -> int:
    offset: int = reply.json()["receipts"][0]["offset"]
    return offset


def summed_up(load: Load, beside: str, replies: Sequence[Reply], prober: Prober, published: int) -> Result:
    acknowledged = [(offset_of(reply), reply.answered_at) for reply in replies if reply.ok]
    fresh = freshness_ms(acknowledged, prober.seen)
    return Result(
        model=load.model,
        beside=beside,
        rate=load.rate,
        events=len(replies),
        versions=published,
        answers=len(prober.seen),
        failed=len(replies) - len(acknowledged) + prober.failed,
        never_learned=len(acknowledged) - len(fresh),
        taken_per_s=len(acknowledged) / (max(r.answered_at for r in replies) - min(r.asked_at for r in replies)),
        acknowledged_p50_ms=percentile([reply.elapsed_ms for reply in replies if reply.ok], 50),
        p50_ms=percentile(fresh, 50),
        p99_ms=percentile(fresh, 99),
        max_ms=max(fresh, default=float("nan")),
    )


@dataclass(frozen=True, slots=True)
class Phase:
    """What ran together, and how much of a processor each process took meanwhile."""

    results: list[Result]
    cpu: dict[str, float]


async def phase(service: Service, loads: Sequence[Load], waiting: bool) -> Phase:
    say(f"{' and '.join(f'{load.model} at {load.rate:g}/s' for load in loads)} ...")
    before, started = service.cpu_s(), time.perf_counter()
    beside = [next((other.model for other in loads if other is not load), "alone") for load in loads]
    results = await asyncio.gather(
        *(measure(service, load, other, waiting) for load, other in zip(loads, beside, strict=True))
    )
    elapsed, after = time.perf_counter() - started, service.cpu_s()
    return Phase(results, {name: (after[name] - before[name]) / elapsed for name in after})


def loads_of(flags: Namespace, seed: int) -> dict[str, Load]:
    numbers = inputs.vectors(1 + int(flags.rate * flags.seconds), seed)
    texts = inputs.labelled_sentences(1 + int(flags.text_rate * flags.seconds), 6, seed)
    return {"vec": Load("vec", flags.rate, numbers), "txt": Load("txt", flags.text_rate, texts)}


async def measure_all(service: Service, flags: Namespace) -> list[Phase]:
    """Each model alone, then both at once."""
    await warm_up(service)
    phases = []
    for seed, names in enumerate((["vec"], ["txt"], ["vec", "txt"]), 1):
        loads = loads_of(flags, seed)
        phases.append(await phase(service, [loads[name] for name in names], flags.probe == "waiting"))
    return phases


async def warm_up(service: Service) -> None:
    """The learner is up, and both models know their labels."""
    connection = Connection(service.host, service.port)
    await teach(connection, "vec", inputs.vectors(50, 0))
    await teach(connection, "txt", inputs.labelled_sentences(50, 6, 0))
    connection.close()


async def teach(connection: Connection, model: str, events: Sequence[tuple[list[float] | str, str]]) -> None:
    """Give labels, and return once they are learned and served."""
    for event in events:
        await must(connection, label(model, *event))
    await learned(connection, model, events[0][0])


COLUMNS = "model|beside|events/s|taken/s|events|versions|answers|failed|never learned|ack p50 ms|p50 ms|p99 ms|max ms"


def row(result: Result) -> list[object]:
    counts = [result.events, result.versions, result.answers, result.failed, result.never_learned]
    p50 = f"{result.p50_ms:.1f} ({verdict(result.p50_ms, TARGETS_MS['p50'], ' ms')})"
    p99 = f"{result.p99_ms:.1f} ({verdict(result.p99_ms, TARGETS_MS['p99'], ' ms')})"
    timed = [result.acknowledged_p50_ms, p50, p99, result.max_ms]
    return [result.model, result.beside, f"{result.rate:g}", f"{result.taken_per_s:.0f}", *counts, *timed]


def print_table(phases: Sequence[Phase]) -> None:
    title = "freshness: acknowledged to first answer that has learned it (targets p50 25 ms, p99 100 ms)"
    table(title, COLUMNS.split("|"), [row(result) for each in phases for result in each.results])
    for each in phases:
        used = ", ".join(f"{name} {share:.0%}" for name, share in each.cpu.items())
        print(f"processor while {' and '.join(result.model for result in each.results)}: {used} of one core")


def flags_given() -> Namespace:
    made = parser(__doc__ or "")
    made.add_argument("--rate", type=float, default=200, help="feedback events a second to vec (default 200)")
    made.add_argument("--text-rate", type=float, default=50, help="feedback events a second to txt (default 50)")
    made.add_argument("--seconds", type=float, default=30, help="length of each of the three phases (default 30)")
    made.add_argument("--probe", choices=("closed", "waiting"), default="closed", help="how to look (default closed)")
    return made.parse_args()


def main() -> int:
    flags = flags_given()
    with running(VEC + TXT) as service:
        phases = asyncio.run(measure_all(service, flags))
        complaints = service.complaints()
    if flags.json:
        settings = {"seconds": flags.seconds, "probe": flags.probe, "targets_ms": TARGETS_MS}
        shown = [asdict(each) for each in phases]
        print_json({"benchmark": "freshness", **settings, "phases": shown, "complaints": complaints})
    else:
        print_table(phases)
        print(*complaints, sep="\n")
    return 0


if __name__ == "__main__":
    command(main)

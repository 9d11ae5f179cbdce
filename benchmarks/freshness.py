"""Measures freshness: the time from the acknowledgement of feedback to the first answer that has learned it.

    POST :feedback --answered, offset--> acknowledged_at                      open loop, --rate per second
    POST :predict  --answered, learned_until--> (answered_at, learned_until)  one prober, answer after answer
    freshness of an event = first answered_at with learned_until >= offset, minus acknowledged_at

Feedback carries its own input, so each event is one request. The prober is an ordinary caller: it
sends recorded predictions on one connection, one after another, so it sees a swap up to one answer
late. If the service accepts fewer events per second than are sent, or acknowledges slowly, it is
overloaded and its freshness looks better than it is: unacknowledged events do not count yet.

With --probe waiting, the prober uses min_offset to wait for the next version, at almost no cost.
"""

import asyncio
import time
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

from benchmarks import inputs
from benchmarks.report import command, create_parser, percentile, print_json, say, table, verdict
from benchmarks.service import TXT, VEC, Service, running_service
from benchmarks.wire import Connection, Pool, Response, fetch_json, get, label, open_loop, predict, wait_until_learned

TARGETS_MS = {"p50": 25.0, "p99": 100.0}
FEEDBACK_CONNECTIONS = 16
LAST_EVENT_S = 10.0  # the prober waits this long for the last event before it counts as never learned

Event = tuple[list[float] | str, str]


@dataclass(frozen=True, slots=True)
class Load:
    """The load of one model. `events[0]` is the input of the prober, the others are feedback."""

    model: str
    rate: float
    events: Sequence[Event]

    @property
    def probe(self) -> object:
        return self.events[0][0]


@dataclass(frozen=True, slots=True)
class Result:
    model: str
    other_model: str
    rate: float
    events: int
    versions: int
    answers: int
    failed: int
    never_learned: int
    accepted_per_s: float  # from the first request to the last acknowledgement
    acknowledged_p50_ms: float
    p50_ms: float
    p99_ms: float
    max_ms: float


@dataclass(slots=True)
class Prober:
    """Sends predictions until one has learned the last offset. seen: (answered_at, learned_until), in order."""

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
            response = await self.connection.send(self._next(known) if self.waiting and known >= 0 else plain)
            if response.ok:
                known = response.json()["learned_until"]
                self.seen.append((response.answered_at, known))
            elif response.status != 504:  # 504: the timeout of a waiting probe passed without a new version
                self.failed += 1

    def _next(self, known: int) -> bytes:
        return predict(self.load.model, self.load.probe, min_offset=known + 1, timeout_ms=1_000)

    def finish(self, last: int) -> None:
        self.last, self.until = last, time.perf_counter() + LAST_EVENT_S


def freshness_ms(acknowledged: Sequence[tuple[int, float]], seen: Sequence[tuple[float, int]]) -> list[float]:
    """Return the freshness in ms of each event that an answer had learned."""
    freshness, place = [], 0
    for offset, instant in sorted(acknowledged):
        while place < len(seen) and seen[place][1] < offset:
            place += 1
        if place == len(seen):
            break
        freshness.append(max(0.0, 1000 * (seen[place][0] - instant)))
    return freshness


async def measure(service: Service, load: Load, other_model: str, waiting: bool) -> Result:
    connection = Connection(service.host, service.port)
    status = get(f"/v1/models/{load.model}")
    before = await version(connection, status)
    requests = [label(load.model, *event) for event in load.events[1:]]
    prober = Prober(connection, load, waiting)
    async with Pool(service, FEEDBACK_CONNECTIONS) as pool:
        probing = asyncio.create_task(prober.run())
        try:
            responses = await open_loop(pool.send, requests, load.rate)
            prober.finish(max((offset_of(response) for response in responses if response.ok), default=-1))
            await probing
        finally:
            probing.cancel()
    published = await version(connection, status) - before
    connection.close()
    return summarize(load, other_model, responses, prober, published)


async def version(connection: Connection, status: bytes) -> int:
    return int((await fetch_json(connection, status))["model_version_status"][0]["version"])


def offset_of(response: Response) -> int:
    offset: int = response.json()["receipts"][0]["offset"]
    return offset


def summarize(load: Load, other_model: str, responses: Sequence[Response], prober: Prober, published: int) -> Result:
    acknowledged = [(offset_of(response), response.answered_at) for response in responses if response.ok]
    fresh = freshness_ms(acknowledged, prober.seen)
    return Result(
        model=load.model,
        other_model=other_model,
        rate=load.rate,
        events=len(responses),
        versions=published,
        answers=len(prober.seen),
        failed=len(responses) - len(acknowledged) + prober.failed,
        never_learned=len(acknowledged) - len(fresh),
        accepted_per_s=len(acknowledged) / (max(r.answered_at for r in responses) - min(r.sent_at for r in responses)),
        acknowledged_p50_ms=percentile([response.elapsed_ms for response in responses if response.ok], 50),
        p50_ms=percentile(fresh, 50),
        p99_ms=percentile(fresh, 99),
        max_ms=max(fresh, default=float("nan")),
    )


@dataclass(frozen=True, slots=True)
class Phase:
    """The results of the models that ran together, and the processor share of each process."""

    results: list[Result]
    cpu: dict[str, float]


async def phase(service: Service, loads: Sequence[Load], waiting: bool) -> Phase:
    say(f"{' and '.join(f'{load.model} at {load.rate:g}/s' for load in loads)} ...")
    before, started = service.cpu_s(), time.perf_counter()
    other_model = [next((other.model for other in loads if other is not load), "alone") for load in loads]
    results = await asyncio.gather(
        *(measure(service, load, other, waiting) for load, other in zip(loads, other_model, strict=True))
    )
    elapsed, after = time.perf_counter() - started, service.cpu_s()
    return Phase(results, {name: (after[name] - before[name]) / elapsed for name in after})


def create_loads(flags: Namespace, seed: int) -> dict[str, Load]:
    numbers = inputs.vectors(1 + int(flags.rate * flags.seconds), seed)
    texts = inputs.labelled_sentences(1 + int(flags.text_rate * flags.seconds), 6, seed)
    return {"vec": Load("vec", flags.rate, numbers), "txt": Load("txt", flags.text_rate, texts)}


async def measure_all(service: Service, flags: Namespace) -> list[Phase]:
    """Measure each model alone, then both together."""
    await warm_up(service)
    phases = []
    for seed, names in enumerate((["vec"], ["txt"], ["vec", "txt"]), 1):
        loads = create_loads(flags, seed)
        phases.append(await phase(service, [loads[name] for name in names], flags.probe == "waiting"))
    return phases


async def warm_up(service: Service) -> None:
    """Wait until the learner runs and both models know their classes."""
    connection = Connection(service.host, service.port)
    await teach(connection, "vec", inputs.vectors(50, 0))
    await teach(connection, "txt", inputs.labelled_sentences(50, 6, 0))
    connection.close()


async def teach(connection: Connection, model: str, events: Sequence[tuple[list[float] | str, str]]) -> None:
    """Send labels, and wait until they are learned and served."""
    for event in events:
        await fetch_json(connection, label(model, *event))
    await wait_until_learned(connection, model, events[0][0])


COLUMNS = (
    "model|other model|events/s|accepted/s|events|versions|answers|failed|never learned|ack p50 ms|p50 ms|p99 ms|max ms"
)


def row(result: Result) -> list[object]:
    counts = [result.events, result.versions, result.answers, result.failed, result.never_learned]
    p50 = f"{result.p50_ms:.1f} ({verdict(result.p50_ms, TARGETS_MS['p50'], ' ms')})"
    p99 = f"{result.p99_ms:.1f} ({verdict(result.p99_ms, TARGETS_MS['p99'], ' ms')})"
    timed = [result.acknowledged_p50_ms, p50, p99, result.max_ms]
    return [result.model, result.other_model, f"{result.rate:g}", f"{result.accepted_per_s:.0f}", *counts, *timed]


def print_table(phases: Sequence[Phase]) -> None:
    title = (
        "freshness: from the acknowledgement to the first answer that has learned it (targets p50 25 ms, p99 100 ms)"
    )
    table(title, COLUMNS.split("|"), [row(result) for each in phases for result in each.results])
    for each in phases:
        used = ", ".join(f"{name} {share:.0%}" for name, share in each.cpu.items())
        print(f"processor while {' and '.join(result.model for result in each.results)}: {used} of one core")


def parse_flags() -> Namespace:
    parser = create_parser(__doc__ or "")
    parser.add_argument("--rate", type=float, default=200, help="feedback events a second to vec (default 200)")
    parser.add_argument("--text-rate", type=float, default=50, help="feedback events a second to txt (default 50)")
    parser.add_argument("--seconds", type=float, default=30, help="length of each of the three phases (default 30)")
    parser.add_argument(
        "--probe", choices=("closed", "waiting"), default="closed", help="how the prober waits (default closed)"
    )
    return parser.parse_args()


def main() -> int:
    flags = parse_flags()
    with running_service(VEC + TXT) as service:
        phases = asyncio.run(measure_all(service, flags))
        problems = service.log_problems()
    if flags.json:
        settings = {"seconds": flags.seconds, "probe": flags.probe, "targets_ms": TARGETS_MS}
        shown = [asdict(each) for each in phases]
        print_json({"benchmark": "freshness", **settings, "phases": shown, "log_problems": problems})
    else:
        print_table(phases)
        print(*problems, sep="\n")
    return 0


if __name__ == "__main__":
    command(main)

"""Measures the latency of one caller: one keep-alive connection, one request after another.

    txt     classifier of texts, ten classes                  new sentences of about 12 words, so none is cached
    chat    the default ranker with its starter repertoire    the same
    vec     classifier of 30 numbers, ten classes             new vectors

Recorded and unrecorded requests alternate, so that other load affects both. `encoding alone` is the
text encoder in this process on as many sentences of the same kind: the part of the latency that no
service can avoid.
"""

import asyncio
import time
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from benchmarks import inputs
from benchmarks.freshness import teach
from benchmarks.report import command, create_parser, percentile, print_json, say, table, verdict
from benchmarks.service import CHAT, TXT, VEC, Service, running_service
from benchmarks.wire import Connection, get, predict, wait_until_learned
from online.io.cache import cache_folder
from online.models.encoders.text import TextEncoder

TARGET_P50_MS = 6.0
WORDS = 12
WARM_UP = 30


@dataclass(frozen=True, slots=True)
class Result:
    what: str
    recorded: str
    requests: int
    failed: int
    p50_ms: float
    p99_ms: float
    max_ms: float
    targeted: bool = False


def result(what: str, recorded: str, elapsed_ms: Sequence[float], failed: int = 0, targeted: bool = False) -> Result:
    p50, p99 = percentile(elapsed_ms, 50), percentile(elapsed_ms, 99)
    return Result(what, recorded, len(elapsed_ms), failed, p50, p99, max(elapsed_ms, default=float("nan")), targeted)


async def alternate(connection: Connection, model: str, questions: Sequence[object]) -> list[Result]:
    """Send requests, alternately recorded and unrecorded; the first few are not counted."""
    say(f"{model}: {len(questions)} questions ...")
    responses = [
        (record, await connection.send(predict(model, question, record=record)))
        for question, record in zip(questions, [True, False] * (len(questions) // 2), strict=True)
    ][WARM_UP:]
    return [
        result(
            model,
            "yes" if wanted else "no",
            [response.elapsed_ms for record, response in responses if record == wanted and response.ok],
            sum(record == wanted and not response.ok for record, response in responses),
            targeted=model != "vec",
        )
        for wanted in (True, False)
    ]


async def measure(service: Service, count: int) -> list[Result]:
    connection = Connection(service.host, service.port)
    await teach(connection, "txt", inputs.labelled_sentences(100, WORDS, 0))
    await teach(connection, "vec", inputs.vectors(100, 0))
    await wait_until_learned(connection, "chat", "Are you there?")
    total = 2 * count + WARM_UP
    texts = inputs.sentences(2 * total, WORDS, 1)
    results = await alternate(connection, "txt", texts[:total])
    results += await alternate(connection, "chat", texts[total:])
    results += await alternate(connection, "vec", [point for point, _ in inputs.vectors(total, 1)])
    empty = [await connection.send(get("/healthz")) for _ in range(count)]
    connection.close()
    return [*results, result("GET /healthz", "-", [response.elapsed_ms for response in empty if response.ok])]


def measure_encoding(count: int) -> Result:
    say("encoding alone ...")
    encoder, elapsed = TextEncoder(cache_folder()), []
    for text in inputs.sentences(count + WARM_UP, WORDS, 2):
        started = time.perf_counter()
        encoder.encode([text])
        elapsed.append(1000 * (time.perf_counter() - started))
    return result("encoding alone", "-", elapsed[WARM_UP:])


def row(each: Result) -> list[object]:
    target = verdict(each.p50_ms, TARGET_P50_MS, " ms") if each.targeted else "-"
    return [each.what, each.recorded, each.requests, each.failed, each.p50_ms, each.p99_ms, each.max_ms, target]


def parse_flags() -> Namespace:
    parser = create_parser(__doc__ or "")
    parser.add_argument("--count", type=int, default=300, help="requests of each kind (default 300)")
    return parser.parse_args()


def main() -> int:
    flags = parse_flags()
    with running_service(TXT + CHAT + VEC) as service:
        results = asyncio.run(measure(service, flags.count))
        problems = service.log_problems()
    results.append(measure_encoding(flags.count))
    if flags.json:
        shown = [asdict(each) for each in results]
        print_json({"benchmark": "latency", "target_p50_ms": TARGET_P50_MS, "rows": shown, "log_problems": problems})
    else:
        columns = ("what", "recorded", "requests", "failed", "p50 ms", "p99 ms", "max ms", "p50 target 6 ms")
        table("latency: one connection, one request after another", columns, map(row, results))
        print(*problems, sep="\n")
    return 0


if __name__ == "__main__":
    command(main)

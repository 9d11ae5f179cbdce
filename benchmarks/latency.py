"""How long does one caller wait for one answer? One keep-alive connection, one question after the other.

    txt     classifier on texts, ten labels         new sentences of about 12 words, so that none is in a cache
    chat    the default ranker with its starter     the same
    vec     classifier on 30 numbers, ten labels

Recorded and unrecorded requests alternate, so that a disturbance meets both. `encoding alone` is the text encoder in
this process on as many sentences of the same kind: the part of a text's answer that no service can save.
"""

import asyncio
import time
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from benchmarks import inputs
from benchmarks.freshness import teach
from benchmarks.report import command, parser, percentile, print_json, say, table, verdict
from benchmarks.service import CHAT, TXT, VEC, Service, running
from benchmarks.wire import Connection, get, learned, predict
from online.models.encoder import TextEncoder
from online.workspace import cache_folder

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
    """Half of the questions recorded, half not, in turns; the first few of them are not counted."""
    say(f"{model}: {len(questions)} questions ...")
    replies = [
        (record, await connection.ask(predict(model, question, record=record)))
        for question, record in zip(questions, [True, False] * (len(questions) // 2), strict=True)
    ][WARM_UP:]
    return [
        result(
            model,
            "yes" if wanted else "no",
            [reply.elapsed_ms for record, reply in replies if record == wanted and reply.ok],
            sum(record == wanted and not reply.ok for record, reply in replies),
            targeted=model != "vec",
        )
        for wanted in (True, False)
    ]


async def measure(service: Service, count: int) -> list[Result]:
    connection = Connection(service.host, service.port)
    await teach(connection, "txt", inputs.labelled_sentences(100, WORDS, 0))
    await teach(connection, "vec", inputs.vectors(100, 0))
    await learned(connection, "chat", "Are you there?")
    total = 2 * count + WARM_UP
    texts = inputs.sentences(2 * total, WORDS, 1)
    found = await alternate(connection, "txt", texts[:total])
    found += await alternate(connection, "chat", texts[total:])
    found += await alternate(connection, "vec", [point for point, _ in inputs.vectors(total, 1)])
    empty = [await connection.ask(get("/healthz")) for _ in range(count)]
    connection.close()
    return [*found, result("GET /healthz", "-", [reply.elapsed_ms for reply in empty if reply.ok])]


def encoding(count: int) -> Result:
    say("encoding alone ...")
    encoder, elapsed = TextEncoder(cache_folder()), []
    for text in inputs.sentences(count + WARM_UP, WORDS, 2):
        started = time.perf_counter()
        encoder.encode([text])
        elapsed.append(1000 * (time.perf_counter() - started))
    return result("encoding alone", "-", elapsed[WARM_UP:])


def row(each: Result) -> list[object]:
    judged = verdict(each.p50_ms, TARGET_P50_MS, " ms") if each.targeted else "-"
    return [each.what, each.recorded, each.requests, each.failed, each.p50_ms, each.p99_ms, each.max_ms, judged]


def flags_given() -> Namespace:
    made = parser(__doc__ or "")
    made.add_argument("--count", type=int, default=300, help="questions of each kind (default 300)")
    return made.parse_args()


def main() -> int:
    flags = flags_given()
    with running(TXT + CHAT + VEC) as service:
        found = asyncio.run(measure(service, flags.count))
        complaints = service.complaints()
    found.append(encoding(flags.count))
    if flags.json:
        shown = [asdict(each) for each in found]
        print_json({"benchmark": "latency", "target_p50_ms": TARGET_P50_MS, "rows": shown, "complaints": complaints})
    else:
        columns = ("what", "recorded", "requests", "failed", "p50 ms", "p99 ms", "max ms", "p50 target 6 ms")
        table("latency: one connection, one question after the other", columns, map(row, found))
        print(*complaints, sep="\n")
    return 0


if __name__ == "__main__":
    command(main)

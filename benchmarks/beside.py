"""Measures whether learning slows down predictions: the same requests with an idle and with a busy learner.

    idle | busy | idle | busy | ... | idle        windows of --seconds each, once for each of --nice

Requests go to one model of 30 numbers, in an open loop of --rate requests per second over 4
connections. Every prediction is recorded (unless --dry). A second model of the same service gets
more feedback than its learner can process; its learning is frozen in the idle windows. The rate is
fixed, so a late answer does not delay the next request.

--nice: the priority of the learner, from 0 (as the server) to 19 (the lowest); `own`: the service's
own setting. If the system groups processes by session (autogroup), the value applies to the group.

--quantum: the setting learn_quantum_ms, each in a service of its own; `none`: without one. --device: where both models compute,
such as cuda:0. The requests go to a network then, because an exact model answers on the processor. Both processes use that
one device, and the learner's turns bound how long an answer waits for it.
"""

import asyncio
import os
import time
from argparse import Namespace
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import httpx

from benchmarks import inputs
from benchmarks.freshness import teach
from benchmarks.report import command, create_parser, percentile, print_json, say, table, verdict
from benchmarks.service import VEC, BenchmarkError, Service, running_service
from benchmarks.wire import Connection, Pool, fetch_json, get, open_loop, post, predict

RATIO_TARGET, DELAY_TARGET_MS = 1.25, 5.0
CONNECTIONS = 4
SETTLE_S = 3.0
CHUNK = 500
BUSY_SHARE = 0.5  # a busy learner uses at least this share of a core
OWN = "own"
SLOW_MODEL = """
[[models]]
name = "slow"
kind = "tower"
options = { input = "vector", size = 30, hidden = [256, 256] }
"""


NETWORK = """
[[models]]
name = "vec"
kind = "tower"
options = { input = "vector", size = 30, hidden = [256, 256] }
placement = { serve_on = "%(device)s", learn_on = "cpu" }
"""
NONE = "none"


@dataclass(frozen=True, slots=True)
class Window:
    quantum: str
    nice: str
    busy: bool
    requests: int
    failed: int
    p50_ms: float
    p99_ms: float
    learner: float  # of a core
    server: float


def configure(device: str, quantum: str) -> str:
    """The settings of a service whose two models compute on a device."""
    turns = "" if quantum == NONE else f"learn_quantum_ms = {float(quantum)}\n"
    if device == "cpu":
        return turns + VEC + SLOW_MODEL
    return turns + NETWORK % {"device": device} + SLOW_MODEL + f'placement = {{ learn_on = "{device}" }}\n'


async def run_window(service: Service, pool: Pool, flags: Namespace, quantum: str, nice: str, busy: bool) -> Window:
    await set_learning(service, busy)
    probe = predict("vec", inputs.vectors(1, 0)[0][0], record=not flags.dry)
    await open_loop(pool.send, [probe] * int(flags.rate * SETTLE_S), flags.rate)
    before, started = service.cpu_s(), time.perf_counter()
    responses = await open_loop(pool.send, [probe] * int(flags.rate * flags.seconds), flags.rate)
    elapsed, after = time.perf_counter() - started, service.cpu_s()
    used = {name: (after[name] - before[name]) / elapsed for name in ("learner", "server")}
    if busy and used["learner"] < BUSY_SHARE:
        raise BenchmarkError(
            f"the learner used {used['learner']:.0%} of a core: it had too little to learn (--lessons)"
        )
    took = [response.elapsed_ms for response in responses if response.ok]
    failed = sum(not response.ok for response in responses)
    return Window(quantum, nice, busy, len(responses), failed, percentile(took, 50), percentile(took, 99), **used)


async def set_learning(service: Service, busy: bool) -> None:
    """Freeze or resume learning of the second model."""
    act, content = ("thaw", {}) if busy else ("freeze", {"reason": "idle window"})
    async with httpx.AsyncClient(base_url=f"http://{service.host}:{service.port}") as client:
        (await client.post(f"/v1/models/slow:{act}", json=content)).raise_for_status()


async def measure(service: Service, flags: Namespace, quantum: str) -> list[Window]:
    connection = Connection(service.host, service.port)
    await teach(connection, "vec", inputs.vectors(200, 0))
    await teach(connection, "slow", inputs.vectors(200, 0))
    await set_learning(service, False)
    say(f"{flags.lessons} lessons ...")
    lessons = inputs.vectors(flags.lessons, 1)
    for start in range(0, len(lessons), CHUNK):
        items = [{"input": each, "label": label} for each, label in lessons[start : start + CHUNK]]
        await fetch_json(connection, post("/v1/models/slow:feedback", {"feedback": items}))
    windows = []
    async with Pool(service, CONNECTIONS) as pool:
        for nice in flags.nice:
            set_priority(service, nice)
            for number in range(2 * flags.windows + 1):
                busy = bool(number % 2)
                say(
                    f"quantum {quantum}, nice {nice}, window {number + 1} of {2 * flags.windows + 1}: {'busy' if busy else 'idle'} ..."
                )
                windows.append(await run_window(service, pool, flags, quantum, nice, busy))
        status = await fetch_json(connection, get("/v1/models/slow"))
    connection.close()
    if status["learned_until"] >= status["head"]:
        raise BenchmarkError("all feedback was learned before the end: give more --lessons")
    return windows


def set_priority(service: Service, nice: str) -> None:
    if nice == OWN:
        return
    for pid in service.children("learn"):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            os.setpriority(os.PRIO_PROCESS, int(thread.name), int(nice))
        with suppress(OSError):
            Path(f"/proc/{pid}/autogroup").write_text(nice)


def summarize(windows: list[Window], quantum: str, nice: str) -> list[object]:
    of_these = [w for w in windows if (w.quantum, w.nice) == (quantum, nice)]
    idle, busy = ([w for w in of_these if w.busy == kind] for kind in (False, True))
    at = {
        (kind, name): percentile([getattr(w, name) for w in group], 50)
        for kind, group in (("idle", idle), ("busy", busy))
        for name in ("p50_ms", "p99_ms", "learner")
    }
    ratio, delay = at["busy", "p99_ms"] / at["idle", "p99_ms"], at["busy", "p99_ms"] - at["idle", "p99_ms"]
    verdicts = f"{verdict(ratio, RATIO_TARGET)}; {verdict(delay, DELAY_TARGET_MS, ' ms')}"
    medians = [at["idle", "p50_ms"], at["busy", "p50_ms"], at["idle", "p99_ms"], at["busy", "p99_ms"], ratio, delay]
    return [quantum, nice, f"{at['busy', 'learner']:.0%}", sum(w.failed for w in (*idle, *busy)), *medians, verdicts]


def main() -> int:
    parser = create_parser(__doc__ or "")
    parser.add_argument("--seconds", type=float, default=8, help="seconds of each window (default 8)")
    parser.add_argument("--windows", type=int, default=3, help="busy windows for each --nice (default 3)")
    parser.add_argument("--rate", type=float, default=50, help="requests per second (default 50)")
    parser.add_argument("--dry", action="store_true", help="predict without recording, to leave out the disk")
    parser.add_argument("--lessons", type=int, default=60_000, help="feedback events to learn (default 60,000)")
    parser.add_argument("--nice", nargs="+", default=[OWN], help="priorities of the learner (default own)")
    parser.add_argument("--quantum", nargs="+", default=[NONE], help="learn_quantum_ms, or none (default none)")
    parser.add_argument("--device", default="cpu", help="of both models (default cpu)")
    flags = parser.parse_args()
    windows, problems = list[Window](), list[str]()
    for quantum in flags.quantum:
        with running_service(configure(flags.device, quantum)) as service:
            windows += asyncio.run(measure(service, flags, quantum))
            problems += service.log_problems()
    if flags.json:
        shown = [asdict(each) for each in windows]
        print_json({"benchmark": "beside", "windows": shown, "log_problems": problems})
    else:
        columns = (
            "quantum",
            "nice",
            "learner",
            "failed",
            "idle p50",
            "busy p50",
            "idle p99",
            "busy p99",
            "ratio",
            "delay, ms",
        )
        rows = [summarize(windows, quantum, nice) for quantum in flags.quantum for nice in flags.nice]
        table("medians over the windows, ms", (*columns, "targets: ratio <= 1.25; delay <= 5 ms"), rows)
        print(*problems, sep="\n")
    return int(any(each.failed for each in windows))


if __name__ == "__main__":
    command(main)

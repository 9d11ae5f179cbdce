"""Does learning disturb those who are being answered? The same questions beside a learner that idles and one that is busy.

    idle | busy | idle | busy | ... | idle        windows of --seconds each, once for each of --nice

One model is asked, on 30 numbers: an open loop of --rate questions a second over 4 connections, every answer recorded (but for --dry). Another
model of the same service is taught more than its learner can learn meanwhile; it is frozen while the learner is to idle. A
fixed rate, so that a late answer delays no later question.

--nice: how far the learner steps back (0: as the server; 19: the most), `own`: as the service has it. Where processes are grouped by
session (autogroup) that is said of its group.
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
from benchmarks.report import command, parser, percentile, print_json, say, table, verdict
from benchmarks.service import VEC, Failed, Service, running
from benchmarks.wire import Connection, Pool, get, must, open_loop, post, predict

RATIO_TARGET, LATER_TARGET_MS = 1.25, 5.0
CONNECTIONS = 4
SETTLE_S = 3.0
AT_ONCE = 500
BUSY_SHARE = 0.5  # of a core, that a learner must have used to be called busy
OWN = "own"
SLOW = """
[[models]]
name = "slow"
kind = "tower"
options = { input = "vector", size = 30, hidden = [256, 256] }
"""


@dataclass(frozen=True, slots=True)
class Window:
    nice: str
    busy: bool
    requests: int
    failed: int
    p50_ms: float
    p99_ms: float
    learner: float  # of a core
    server: float


async def window(service: Service, pool: Pool, flags: Namespace, nice: str, busy: bool) -> Window:
    await learns(service, busy)
    probe = predict("vec", inputs.vectors(1, 0)[0][0], record=not flags.dry)
    await open_loop(pool.ask, [probe] * int(flags.rate * SETTLE_S), flags.rate)
    before, started = service.cpu_s(), time.perf_counter()
    replies = await open_loop(pool.ask, [probe] * int(flags.rate * flags.seconds), flags.rate)
    elapsed, after = time.perf_counter() - started, service.cpu_s()
    used = {name: (after[name] - before[name]) / elapsed for name in ("learner", "server")}
    if busy and used["learner"] < BUSY_SHARE:
        raise Failed(f"the learner used {used['learner']:.0%} of a core: it had too little to learn (--lessons)")
    took = [reply.elapsed_ms for reply in replies if reply.ok]
    failed = sum(not reply.ok for reply in replies)
    return Window(nice, busy, len(replies), failed, percentile(took, 50), percentile(took, 99), **used)


async def learns(service: Service, busy: bool) -> None:
    """Have the slow one learn what it was taught, or wait with it."""
    act, content = ("thaw", {}) if busy else ("freeze", {"reason": "it is to idle"})
    async with httpx.AsyncClient(base_url=f"http://{service.host}:{service.port}") as client:
        (await client.post(f"/v1/models/slow:{act}", json=content)).raise_for_status()


async def measure(service: Service, flags: Namespace) -> list[Window]:
    connection = Connection(service.host, service.port)
    await teach(connection, "vec", inputs.vectors(200, 0))
    await teach(connection, "slow", inputs.vectors(200, 0))
    await learns(service, False)
    say(f"{flags.lessons} lessons ...")
    lessons = inputs.vectors(flags.lessons, 1)
    for start in range(0, len(lessons), AT_ONCE):
        items = [{"input": each, "label": label} for each, label in lessons[start : start + AT_ONCE]]
        await must(connection, post("/v1/models/slow:feedback", {"feedback": items}))
    found = []
    async with Pool(service, CONNECTIONS) as pool:
        for nice in flags.nice:
            step_back(service, nice)
            for number in range(2 * flags.windows + 1):
                busy = bool(number % 2)
                say(f"nice {nice}, window {number + 1} of {2 * flags.windows + 1}: {'busy' if busy else 'idle'} ...")
                found.append(await window(service, pool, flags, nice, busy))
        status = await must(connection, get("/v1/models/slow"))
    connection.close()
    if status["learned_until"] >= status["head"]:
        raise Failed("all was learned before the end: give more --lessons")
    return found


def step_back(service: Service, nice: str) -> None:
    if nice == OWN:
        return
    for pid in service.learners():
        for thread in Path(f"/proc/{pid}/task").iterdir():
            os.setpriority(os.PRIO_PROCESS, int(thread.name), int(nice))
        with suppress(OSError):
            Path(f"/proc/{pid}/autogroup").write_text(nice)


def summed_up(windows: list[Window], nice: str) -> list[object]:
    idle, busy = ([w for w in windows if w.nice == nice and w.busy == kind] for kind in (False, True))
    at = {
        (kind, name): percentile([getattr(w, name) for w in group], 50)
        for kind, group in (("idle", idle), ("busy", busy))
        for name in ("p50_ms", "p99_ms", "learner")
    }
    ratio, later = at["busy", "p99_ms"] / at["idle", "p99_ms"], at["busy", "p99_ms"] - at["idle", "p99_ms"]
    judged = f"{verdict(ratio, RATIO_TARGET)}; {verdict(later, LATER_TARGET_MS, ' ms')}"
    told = [at["idle", "p50_ms"], at["busy", "p50_ms"], at["idle", "p99_ms"], at["busy", "p99_ms"], ratio, later]
    return [nice, f"{at['busy', 'learner']:.0%}", sum(w.failed for w in (*idle, *busy)), *told, judged]


def main() -> int:
    made = parser(__doc__ or "")
    made.add_argument("--seconds", type=float, default=8, help="of a window (default 8)")
    made.add_argument("--windows", type=int, default=3, help="busy windows for each --nice (default 3)")
    made.add_argument("--rate", type=float, default=50, help="questions a second (default 50)")
    made.add_argument("--dry", action="store_true", help="predict without recording: the processors without the disk")
    made.add_argument("--lessons", type=int, default=60_000, help="that there are to learn (default 60,000)")
    made.add_argument("--nice", nargs="+", default=[OWN], help="how far the learner steps back (default own)")
    flags = made.parse_args()
    with running(VEC + SLOW) as service:
        windows = asyncio.run(measure(service, flags))
        complaints = service.complaints()
    if flags.json:
        shown = [asdict(each) for each in windows]
        print_json({"benchmark": "beside", "windows": shown, "complaints": complaints})
    else:
        columns = ("nice", "learner", "failed", "idle p50", "busy p50", "idle p99", "busy p99", "ratio", "later, ms")
        rows = [summed_up(windows, nice) for nice in flags.nice]
        table("beside: medians of the windows', ms", (*columns, "targets: ratio <= 1.25; later <= 5 ms"), rows)
        print(*complaints, sep="\n")
    return int(any(each.failed for each in windows))


if __name__ == "__main__":
    command(main)

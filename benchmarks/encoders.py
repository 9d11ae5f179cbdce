"""Does taking up another text encoder disturb those who are being answered? The same load before and meanwhile.

    --events taught and --predictions answered sentences -> quiet for --seconds -> another encoder, from first to last

Load: an open loop of --rate predicts a second over 4 connections, each with a sentence never sent before, and of a
fifth as many labelled sentences. Everything that was ever read is encoded anew meanwhile, by another process of low
priority on the same cores. `held` is how long nobody else could write: the one transaction in which it is put in place.
"""

import asyncio
import os
import re
import sys
import time
from argparse import Namespace
from asyncio.subprocess import PIPE
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import inputs
from benchmarks.report import command, parser, percentile, print_json, say, table, verdict
from benchmarks.service import TXT, Failed, Service, running
from benchmarks.wire import Connection, Pool, Reply, get, label, learned, must, open_loop, post, predict
from online.learning.adopting import adopt
from online.models import minilm
from online.observability import configure
from online.settings import load
from online.workspace import Workspace

CHUNK, WORDS, CONNECTIONS = 250, 10, 4
TURN_S = 2.0  # the load is made for so long at a time, until the other encoder is live
HELD = re.compile(r"held_ms=([\d.]+)")


@dataclass(slots=True)
class Window:
    name: str
    replies: list[Reply] = field(default_factory=list)
    seconds: float = 0.0

    def told(self) -> dict[str, Any]:
        elapsed = [reply.elapsed_ms for reply in self.replies]
        return {
            "window": self.name,
            "seconds": self.seconds,
            "requests": len(elapsed),
            "failed": sum(not reply.ok for reply in self.replies),
            "p50_ms": percentile(elapsed, 50),
            "p99_ms": percentile(elapsed, 99),
            "max_ms": max(elapsed),
        }


async def fill(connection: Connection, flags: Namespace) -> None:
    taught = inputs.labelled_sentences(flags.events, WORDS, 1)
    for start in range(0, flags.events, CHUNK):
        items = [{"input": text, "label": name} for text, name in taught[start : start + CHUNK]]
        await must(connection, post("/v1/models/txt:feedback", {"feedback": items}))
    asked = inputs.sentences(flags.predictions, WORDS, 2)
    for start in range(0, flags.predictions, CHUNK):
        await must(connection, predict("txt", *asked[start : start + CHUNK]))
    await learned(connection, "txt", taught[0][0])


async def turn(pools: Sequence[Pool], window: Window, flags: Namespace, seed: int) -> None:
    asked = inputs.sentences(int(TURN_S * flags.rate), WORDS, seed)
    taught = inputs.labelled_sentences(int(TURN_S * flags.rate / 5), WORDS, seed + 1)
    started = time.perf_counter()
    both = await asyncio.gather(
        open_loop(pools[0].ask, [predict("txt", text) for text in asked], flags.rate),
        open_loop(pools[1].ask, [label("txt", *each) for each in taught], flags.rate / 5),
    )
    window.replies += [*both[0], *both[1]]
    window.seconds += time.perf_counter() - started


async def measure(service: Service, flags: Namespace) -> tuple[list[Window], float]:
    connection = Connection(service.host, service.port)
    say("filling the log ...")
    await fill(connection, flags)
    quiet, meanwhile, seed = Window("quiet"), Window("another encoder is taken up"), 10
    async with Pool(service, CONNECTIONS) as asking, Pool(service, CONNECTIONS) as teaching:
        say("quiet ...")
        while quiet.seconds < flags.seconds:
            await turn([asking, teaching], quiet, flags, seed := seed + 2)
        say("taking up another encoder ...")
        mover = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "benchmarks.encoders", "--take-up", str(service.log.parent), stderr=PIPE
        )
        printed = asyncio.create_task(mover.communicate())
        while not printed.done():
            await turn([asking, teaching], meanwhile, flags, seed := seed + 2)
        await turn([asking, teaching], meanwhile, flags, seed + 2)
    told = (await printed)[1].decode()
    if mover.returncode != 0 or not (await must(connection, get("/v1/models/txt")))["encoder"]:
        raise Failed(f"the encoder was not taken up:\n{told[-2000:]}")
    connection.close()
    return [quiet, meanwhile], float(HELD.findall(told)[-1])


def take_up(folder: Path) -> None:
    """Another encoder, tuned to nothing in particular, in a process of its own."""
    os.nice(10)
    configure()
    workspace = Workspace(load(folder / "online.toml", state=folder / "state"))
    weights = minilm.read_weights(minilm.package_folder())
    name = f"encoder.layer.{minilm.LAYERS - 1}.output.dense.weight"
    tuned = minilm.write_tuned(workspace.encoders, {name: weights[name] * 1.5})
    with closing(workspace.store):
        adopt(workspace, workspace.settings.models[0], tuned, lambda what, done, of: None)


def flags_given() -> Namespace:
    made = parser(__doc__ or "")
    made.add_argument("--events", type=int, default=5_000, help="taught beforehand (default 5000)")
    made.add_argument("--predictions", type=int, default=5_000, help="answered beforehand (default 5000)")
    made.add_argument("--seconds", type=float, default=20, help="seconds of quiet (default 20)")
    made.add_argument("--rate", type=float, default=10, help="predict requests a second (default 10)")
    made.add_argument("--take-up", type=Path, help="(inner) the folder of a service that runs")
    return made.parse_args()


def main() -> int:
    flags = flags_given()
    if flags.take_up:
        take_up(flags.take_up)
        return 0
    with running(TXT) as service:
        windows, held_ms = asyncio.run(measure(service, flags))
        complaints = service.complaints()
    told = [window.told() for window in windows]
    failed = sum(each["failed"] for each in told)
    if flags.json:
        print_json({"benchmark": "encoders", "windows": told, "held_ms": held_ms, "complaints": complaints})
    else:
        table("another encoder beside the load", list(told[0]), [list(each.values()) for each in told])
        print(
            f"failed {failed}: {verdict(failed, 0)}; nobody else could write for {held_ms:.0f} ms",
            *complaints,
            sep="\n",
        )
    return int(failed > 0)


if __name__ == "__main__":
    command(main)

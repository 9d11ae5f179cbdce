"""Measures whether adopting another text encoder disturbs a service: the same load before and during it.

    store --events and --predictions sentences -> load alone for --seconds -> load while another encoder is adopted

Load: an open loop of --rate predictions per second over 4 connections, each with a new sentence, and
a fifth as many labelled sentences. Meanwhile another process of low priority on the same cores
encodes all stored texts again. `held_ms` is how long other writers had to wait for the transaction
that switches the encoder.
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
from benchmarks.report import command, create_parser, percentile, print_json, say, table, verdict
from benchmarks.service import TXT, BenchmarkError, Service, running_service
from benchmarks.wire import (
    Connection,
    Pool,
    Response,
    fetch_json,
    get,
    label,
    open_loop,
    post,
    predict,
    wait_until_learned,
)
from online.models.encoders import minilm
from online.plugins.encoder_tuning.adoption import adopt
from online.settings import load
from online.state.workspace import Workspace
from online.telemetry import configure_logging

CHUNK, WORDS, CONNECTIONS = 250, 10, 4
TURN_S = 2.0  # length of one portion of load; portions are sent until the other encoder is live
HELD = re.compile(r"held_ms=([\d.]+)")


@dataclass(slots=True)
class Window:
    name: str
    responses: list[Response] = field(default_factory=list)
    seconds: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        elapsed = [response.elapsed_ms for response in self.responses]
        return {
            "window": self.name,
            "seconds": self.seconds,
            "requests": len(elapsed),
            "failed": sum(not response.ok for response in self.responses),
            "p50_ms": percentile(elapsed, 50),
            "p99_ms": percentile(elapsed, 99),
            "max_ms": max(elapsed),
        }


async def fill(connection: Connection, flags: Namespace) -> None:
    labelled = inputs.labelled_sentences(flags.events, WORDS, 1)
    for start in range(0, flags.events, CHUNK):
        items = [{"input": text, "label": name} for text, name in labelled[start : start + CHUNK]]
        await fetch_json(connection, post("/v1/models/txt:feedback", {"feedback": items}))
    sentences = inputs.sentences(flags.predictions, WORDS, 2)
    for start in range(0, flags.predictions, CHUNK):
        await fetch_json(connection, predict("txt", *sentences[start : start + CHUNK]))
    await wait_until_learned(connection, "txt", labelled[0][0])


async def send_load(pools: Sequence[Pool], window: Window, flags: Namespace, seed: int) -> None:
    sentences = inputs.sentences(int(TURN_S * flags.rate), WORDS, seed)
    labelled = inputs.labelled_sentences(int(TURN_S * flags.rate / 5), WORDS, seed + 1)
    started = time.perf_counter()
    predictions, feedback = await asyncio.gather(
        open_loop(pools[0].send, [predict("txt", text) for text in sentences], flags.rate),
        open_loop(pools[1].send, [label("txt", *each) for each in labelled], flags.rate / 5),
    )
    window.responses += [*predictions, *feedback]
    window.seconds += time.perf_counter() - started


async def measure(service: Service, flags: Namespace) -> tuple[list[Window], float]:
    connection = Connection(service.host, service.port)
    say("filling the log ...")
    await fill(connection, flags)
    quiet, adopting, seed = Window("load alone"), Window("adopting another encoder"), 10
    async with Pool(service, CONNECTIONS) as predict_pool, Pool(service, CONNECTIONS) as feedback_pool:
        say("load alone ...")
        while quiet.seconds < flags.seconds:
            await send_load([predict_pool, feedback_pool], quiet, flags, seed := seed + 2)
        say("adopting another encoder ...")
        adoption = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "benchmarks.encoders", "--adopt", str(service.log.parent), stderr=PIPE
        )
        adoption_ended = asyncio.create_task(adoption.communicate())
        while not adoption_ended.done():
            await send_load([predict_pool, feedback_pool], adopting, flags, seed := seed + 2)
        await send_load([predict_pool, feedback_pool], adopting, flags, seed + 2)
    output = (await adoption_ended)[1].decode()
    if adoption.returncode != 0 or not (await fetch_json(connection, get("/v1/models/txt")))["encoder"]:
        raise BenchmarkError(f"the encoder was not adopted:\n{output[-2000:]}")
    connection.close()
    return [quiet, adopting], float(HELD.findall(output)[-1])


def adopt_tuned_encoder(folder: Path) -> None:
    """Adopt a slightly tuned encoder, in a separate process."""
    os.nice(10)
    configure_logging()
    workspace = Workspace(load(folder / "online.toml", state=folder / "state"))
    weights = minilm.read_weights(minilm.package_folder())
    name = f"encoder.layer.{minilm.LAYERS - 1}.output.dense.weight"
    tuned = minilm.write_tuned(workspace.encoders.folder, {name: weights[name] * 1.5})
    with closing(workspace.store):
        adopt(workspace, workspace.settings.models[0], tuned, lambda what, done, of: None)


def parse_flags() -> Namespace:
    parser = create_parser(__doc__ or "")
    parser.add_argument("--events", type=int, default=5_000, help="labelled sentences stored beforehand (default 5000)")
    parser.add_argument("--predictions", type=int, default=5_000, help="predictions stored beforehand (default 5000)")
    parser.add_argument("--seconds", type=float, default=20, help="seconds of load alone (default 20)")
    parser.add_argument("--rate", type=float, default=10, help="predict requests a second (default 10)")
    parser.add_argument("--adopt", type=Path, help="(internal) the folder of a running service")
    return parser.parse_args()


def main() -> int:
    flags = parse_flags()
    if flags.adopt:
        adopt_tuned_encoder(flags.adopt)
        return 0
    with running_service(TXT) as service:
        windows, held_ms = asyncio.run(measure(service, flags))
        problems = service.log_problems()
    figures = [window.as_dict() for window in windows]
    failed = sum(each["failed"] for each in figures)
    if flags.json:
        print_json({"benchmark": "encoders", "windows": figures, "held_ms": held_ms, "log_problems": problems})
    else:
        table("adopting another encoder under load", list(figures[0]), [list(each.values()) for each in figures])
        print(
            f"failed {failed}: {verdict(failed, 0)}; other writers waited for {held_ms:.0f} ms",
            *problems,
            sep="\n",
        )
    return int(failed > 0)


if __name__ == "__main__":
    command(main)

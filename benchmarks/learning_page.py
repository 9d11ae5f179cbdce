"""Times what the learning page asks for, of a model with a long history: --events rated answers and --versions versions.

    predictions, feedback, log of --events ratings --> store      snapshots of --versions versions --> a service without a learner

The model is right in 94 % of the answers, and in 3 % of the last thousandth. `first` is the first answer after the start; the others
are after one answer for warm-up. The log is counted once, when somebody first asks; a page shows the progress meanwhile. With
--state the folder is kept, and used again by the next run.
"""

import random
import struct
import tempfile
import time
from argparse import Namespace
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx
from sqlalchemy import Connection

from benchmarks.report import command, create_parser, percentile, print_json, progress, say, table, verdict
from benchmarks.service import address_of, launch, stop
from online.models import Example, create, recipe
from online.schemas.events import Event
from online.settings import ModelSettings, Settings
from online.snapshots.manifest import Manifest
from online.state.workspace import Workspace
from online.store.drift_alarms import add_drift_alarms
from online.store.events import append_events, load_digests
from online.store.feedback import add_feedback
from online.store.predictions import add_predictions

SPEC = ModelSettings(name="vec", kind="classifier", options={"input": "vector", "size": 2, "scale": 4.0})
CONFIG = """
[[models]]
name = "vec"
kind = "classifier"
options = { input = "vector", size = 2, scale = 4.0 }
"""
MODEL = f"/v1/models/{SPEC.name}"
PAGE, DIGESTS = 5_000, 500  # rows in one transaction; in one query
GOOD, BAD, COLLAPSED = 0.94, 0.03, 0.001  # accuracy before and after; share of the log that is after
TARGET_MS = 200
REPEATS = 20
BEGAN_S = 1_767_225_600  # 2026-01-01
REQUESTS = {
    "health": "/health",
    "curve": "/curve",
    "drift": "/drift",
    "newest 50 versions": "/versions?limit=50",
    "50 versions of the middle": "/versions?limit=50&before={middle}",
    "status": "",
    "refused feedback": "/refused",
    "what changed, kept": "/versions/{live}/changes?since={middle}",
}


@dataclass(frozen=True, slots=True)
class Timing:
    """Milliseconds of one request of the page."""

    name: str
    first_ms: float
    median_ms: float
    p95_ms: float
    kilobytes: float


class History:
    """Writes the log of one model, and its versions."""

    def __init__(self, workspace: Workspace, events: int, versions: int) -> None:
        self.workspace, self.events, self.versions = workspace, events, versions
        self.draw = random.Random(1)

    def write(self) -> None:
        for start in progress(range(0, self.events, PAGE), "the log"):
            count = min(PAGE, self.events - start)
            self.workspace.store.submit(partial(self._write_page, start=start, count=count)).result()
        self.workspace.store.submit(self._write_alarms).result()
        self._write_versions()

    def _write_page(self, connection: Connection, start: int, count: int) -> None:
        predictions, events, feedback = [], [], []
        for number in range(start, start + count):
            x, y = self.draw.uniform(-1, 1), self.draw.uniform(-1, 1)
            label = "up" if x > y else "down"
            is_right = self.draw.random() < (GOOD if number < self.events * (1 - COLLAPSED) else BAD)
            choice = label if is_right else {"up": "down", "down": "up"}[label]
            id, at, features = f"{number:020x}", instant(number), struct.pack("<2d", x, y)
            known = max(0, number - self.draw.randrange(1, 50))
            predictions.append(
                {
                    "id": id,
                    "model": SPEC.name,
                    "version": 1,
                    "learned_until": known,
                    "user": None,
                    "input": f"[{x}, {y}]",
                    "features": b"",
                    "choice": choice,
                    "propensity": 1.0,
                    "candidates": "[]",
                    "created_at": at,
                }
            )
            events.append(Event(f"f{number}", "label", features, label, choice=choice))
            row = {"model": SPEC.name, "id": f"f{number}", "content": f'{{"label":"{label}"}}', "prediction_id": id}
            feedback.append({**row, "offset": number + 1, "input": None, "user": None, "created_at": at})
        add_predictions(connection, predictions)
        append_events(connection, SPEC.name, events, new=True)
        add_feedback(connection, [{**row, "status": "learned"} for row in feedback])

    def _write_alarms(self, connection: Connection) -> None:
        since = int(self.events * (1 - COLLAPSED))
        alarm = {"projection": None, "since": since, "before": 0.06, "after": 0.97, "size": 0.91, "window": 40}
        for delay, what, label in ((20, "loss", None), (25, "class", "up"), (31, "class", "down")):
            add_drift_alarms(connection, SPEC.name, [{**alarm, "offset": since + delay, "what": what, "label": label}])

    def _write_versions(self) -> None:
        snapshots, model = self.workspace.snapshots(SPEC.name), create(SPEC.kind, SPEC.options)
        points = [(1.0, -1.0, "up"), (-1.0, 1.0, "down"), (0.5, 0.0, "up"), (0.0, 0.5, "down")]
        model.learn([Example(n, "label", struct.pack("<2d", x, y), label) for n, (x, y, label) in enumerate(points, 1)])
        state = model.state(serving_only=True)
        offsets = [max(1, self.events * number // self.versions) for number in range(1, self.versions + 1)]
        digests: dict[int, str] = {}
        for start in range(0, len(offsets), DIGESTS):
            find = partial(load_digests, model=SPEC.name, offsets=offsets[start : start + DIGESTS])
            digests |= self.workspace.store.read(find)
        for version, offset in progress(list(enumerate(offsets, 1)), "the versions"):
            snapshots.publisher.publish(
                state,
                Manifest(
                    model=SPEC.name,
                    version=version,
                    parent=version - 1 or None,
                    learned_until=offset,
                    created_at=instant(offset),
                    state_sha256=model.fingerprint(),
                    weights_sha256="",
                    feature_epoch=model.feature_epoch(),
                    recipe=recipe(SPEC.kind, SPEC.options),
                    durable=False,
                    metrics={"events": offset, "rated": offset, "right": int(GOOD * offset)},
                    log_digest=digests.get(offset, ""),
                ),
            )


def instant(number: int) -> str:
    """The time of an event: one every two seconds."""
    return time.strftime("%Y-%m-%dT%H:%M:%S.000000+00:00", time.gmtime(BEGAN_S + 2 * number))


@contextmanager
def serve(folder: Path) -> Any:
    process = launch(folder, "--no-learner")
    try:
        host, port = address_of(process, folder / "log")
        with httpx.Client(base_url=f"http://{host}:{port}", timeout=120) as client:
            yield client
    finally:
        stop(process, folder / "state")


def measure_ms(call: Callable[[], httpx.Response]) -> tuple[float, httpx.Response]:
    began = time.perf_counter()
    response = call().raise_for_status()
    return 1000 * (time.perf_counter() - began), response


def count_log(client: httpx.Client) -> float:
    """Return the seconds until the log is counted."""
    began = time.perf_counter()
    while (curve := client.get(f"{MODEL}/curve").json())["counted_until"] < curve["head"]:
        pass  # each answer waits for up to 0.3 s
    return time.perf_counter() - began


def time_request(client: httpx.Client, name: str, path: str) -> Timing:
    first_ms, response = measure_ms(lambda: client.get(MODEL + path))
    client.get(MODEL + path)
    times = [measure_ms(lambda: client.get(MODEL + path))[0] for _ in range(REPEATS)]
    return Timing(name, first_ms, percentile(times, 50), percentile(times, 95), len(response.content) / 1000)


def run() -> int:
    parser = create_parser(__doc__ or "")
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--versions", type=int, default=10_000)
    parser.add_argument("--state", type=Path, help="a folder to keep the state in, and to take it from")
    arguments: Namespace = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="online-benchmark-", ignore_cleanup_errors=True) as temporary:
        folder = arguments.state or Path(temporary)
        prepare(folder, arguments.events, arguments.versions)
        with serve(folder) as client:
            counted_s = count_log(client)
        with serve(folder) as client:
            places = {"middle": arguments.versions // 2, "live": arguments.versions}
            timings = [time_request(client, name, path.format(**places)) for name, path in REQUESTS.items()]
            sentence = client.get(f"{MODEL}/health").json()["sentence"]
    worst = max(timing.p95_ms for timing in timings)
    if arguments.json:
        print_json({"counted_s": counted_s, "timings": [asdict(each) for each in timings], "sentence": sentence})
    else:
        title = f"{arguments.events:,} events, {arguments.versions:,} versions: ms"
        table(title, ["request", "first", "median", "p95", "kB"], [list(asdict(each).values()) for each in timings])
        print(f"counting the whole log once: {counted_s:.0f} s; {sentence}")
        print(f"target {TARGET_MS} ms: {verdict(worst, TARGET_MS, ' ms')}")
    return 0


def prepare(folder: Path, events: int, versions: int) -> None:
    if (folder / "ready").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "online.toml").write_text(CONFIG)
    workspace = Workspace(Settings(state=folder / "state", models=(SPEC,), retain=versions))
    say(f"writing {events:,} events and {versions:,} versions to {folder}")
    try:
        History(workspace, events, versions).write()
    finally:
        workspace.store.close()
    (folder / "ready").touch()


if __name__ == "__main__":
    command(run)

"""What lies do to a model that learns, and how soon the guard sees them: the same attack on it with the guard and without.

    truth, as fast as it is answered | --seconds of --rate labels a second, --lies of them wrong | a person drops what was
                                                                                                   set apart | truth again

scikit-learn's digits: 1,297 rows are asked and labelled, 500 others are what accuracy is measured on, unrecorded. `detectable` is
when the best test there could be (a CUSUM that knows the error rates before and during the attack, at ADWIN's chance of a false
alarm) would have seen it; seen: when the quarantine stands and the older version answers.
"""

import math
import threading
import time
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

import httpx
import numpy as np
from sklearn.datasets import load_digits

from benchmarks.report import command, parser, print_json, say, table, verdict
from benchmarks.service import Service, running
from online.client import Client

KINDS = ("classifier", "knn")
TRUTH, AFTERWARDS, TESTED = 1_000, 300, 500
FALSE_ALARMS = 0.002
SEEN_TARGET_S, LOST_TARGET = 5.0, 2.0


def url_of(service: Service) -> str:
    return f"http://{service.host}:{service.port}"


def config(kind: str, guard: bool) -> str:
    scale = ", scale = 16.0" if kind == "classifier" else ""
    return f"""
[[models]]
name = "digits"
kind = "{kind}"
guard = {str(guard).lower()}
options = {{ input = "vector", size = 64{scale} }}
"""


@dataclass(slots=True)
class Run:
    """Accuracies in %. Seconds are since the first lie; None: it never came to it."""

    kind: str
    guard: bool
    before: float = 0.0
    lowest: float = 100.0
    end: float = 0.0
    after: float = 0.0
    detectable_s: float | None = None
    seen_s: float | None = None
    since: int = 0
    first_lie: int = 0
    released_s: float | None = None
    reason: str = ""
    wrong: list[tuple[float, bool]] = field(default_factory=list)


class Attack:
    def __init__(self, service: Service, client: Client, args: Namespace, run: Run) -> None:
        rows, digits = load_digits(return_X_y=True)
        order = np.random.default_rng(args.seed).permutation(len(rows))
        self.rows, self.digits = rows[order], digits[order].astype(str)
        self.client, self.args, self.run = client, args, run
        self.quarantine = f"{url_of(service)}/v1/models/digits/quarantine"
        self.draw = np.random.default_rng(args.seed + 1)
        self.place = 0

    def accuracy(self) -> float:
        right = 0
        for start in range(0, TESTED, 100):
            asked, truth = self.rows[start : min(start + 100, TESTED)], self.digits[start : min(start + 100, TESTED)]
            answer = self.client.predict(asked.tolist(), record=False)
            right += sum(told["label"] == label for told, label in zip(answer["predictions"], truth, strict=True))
        return 100 * right / TESTED

    def ask_and_tell(self, lies: float = 0.0) -> tuple[bool, int]:
        """Whether what was answered was called wrong, and the offset of that."""
        row = TESTED + self.place % (len(self.rows) - TESTED)
        self.place += 1
        asked = self.client.predict([self.rows[row].tolist()])
        label = self.digits[row]
        if self.draw.random() < lies:
            label = str((int(label) + 1 + self.draw.integers(9)) % 10)
        receipt = self.client.label(asked["prediction_ids"][0], label)
        return asked["predictions"][0]["label"] != label, receipt["offset"]

    def whole(self) -> None:
        run, args = self.run, self.args
        self.client.predict([self.rows[0].tolist()], min_offset=self.ask_and_tell()[1], timeout_ms=60_000)
        said = [self.ask_and_tell() for _ in range(TRUTH)]
        self.client.predict([self.rows[0].tolist()], min_offset=said[-1][1], timeout_ms=60_000)
        run.before, run.first_lie = self.accuracy(), said[-1][1] + 1
        usual = max(sum(wrong for wrong, _ in said[TRUTH // 2 :]) / (TRUTH / 2), 0.005)
        with looking(self.quarantine, run):
            self._lie(time.monotonic())
        run.detectable_s = detectable(run.wrong, usual, args.lies)
        run.end = self.accuracy()
        if run.seen_s is not None:
            began = time.monotonic()
            httpx.post(f"{self.quarantine}:end", json={"outcome": "dropped"}, timeout=60).raise_for_status()
            offset = self.ask_and_tell()[1]
            self.client.predict([self.rows[0].tolist()], min_offset=offset, timeout_ms=60_000)
            run.released_s = time.monotonic() - began
        for _ in range(AFTERWARDS):
            self.ask_and_tell()
        run.after = self.accuracy()

    def _lie(self, began: float) -> None:
        for turn in range(int(self.args.seconds * self.args.rate)):
            time.sleep(max(0.0, began + turn / self.args.rate - time.monotonic()))
            wrong, _ = self.ask_and_tell(self.args.lies)
            self.run.wrong.append((time.monotonic() - began, wrong))
            if turn % (5 * int(self.args.rate)) == 0:
                self.run.lowest = min(self.run.lowest, self.accuracy())


@contextmanager
def looking(quarantine: str, run: Run) -> Iterator[None]:
    """Note when the guard has acted, as anybody sees it from outside."""
    began, stop = time.monotonic(), threading.Event()

    def look() -> None:
        while not stop.wait(0.05):
            found: list[dict[str, Any]] = httpx.get(quarantine, timeout=30).json()["quarantines"]
            if found and run.seen_s is None:
                run.seen_s, run.since, run.reason = time.monotonic() - began, found[0]["since"], found[0]["reason"]

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def detectable(wrong: Sequence[tuple[float, bool]], usual: float, lies: float) -> float | None:
    """When a CUSUM that knows both rates has seen enough."""
    during = lies + (1 - lies) * usual
    gains = {True: math.log(during / usual), False: math.log((1 - during) / (1 - usual))}
    sum_ = 0.0
    for at, was_wrong in wrong:
        sum_ = max(0.0, sum_ + gains[was_wrong])
        if sum_ >= math.log(1 / FALSE_ALARMS):
            return at
    return None


def attacked(args: Namespace, kind: str, guard: bool) -> Run:
    run = Run(kind, guard)
    with running(config(kind, guard)) as service, Client(url_of(service), "digits") as client:
        say(f"{kind}, {'with' if guard else 'without'} the guard: truth, then {args.seconds:g} s of lies")
        Attack(service, client, args, run).whole()
    return run


def broken(run: Run) -> list[str]:
    """Promises, not targets: the guard acted, said why, set apart from about the first lie on, and learning went on."""
    if not run.guard:
        return []
    if run.seen_s is None:
        return [f"{run.kind}: the guard did not act"]
    far = run.first_lie - run.since
    return [f"{run.kind}: set apart from {far} events before the first lie"] if far > TRUTH // 2 else []


def row_of(run: Run) -> list[object]:
    def told(seconds: float | None) -> object:
        return "-" if seconds is None else seconds

    lag = None if run.seen_s is None or run.detectable_s is None else run.seen_s - run.detectable_s
    name = f"{run.kind}, {'guard' if run.guard else 'no guard'}"
    figures = [run.before, run.lowest, run.end, run.after]
    return [name, *figures, *map(told, (run.detectable_s, run.seen_s, lag, run.released_s))]


def main() -> int:
    made = parser(__doc__ or "")
    made.add_argument("--kind", choices=KINDS, action="append", help="what learns (default: each of them)")
    made.add_argument("--seconds", type=float, default=60.0, help="of lies (default: 60)")
    made.add_argument("--rate", type=float, default=25.0, help="labels a second meanwhile (default: 25)")
    made.add_argument("--lies", type=float, default=0.3, help="share of them that is wrong (default: 0.3)")
    made.add_argument("--seed", type=int, default=1)
    args = made.parse_args()
    runs = [attacked(args, kind, guard) for kind in args.kind or KINDS for guard in (False, True)]
    failures = [failure for run in runs for failure in broken(run)]
    if args.json:
        print_json({"runs": [{**asdict(run), "wrong": None} for run in runs], "broken": failures})
        return int(bool(failures))
    columns = ["", "before", "lowest", "end", "after", "detectable s", "seen s", "later by s", "released s"]
    title = f"{100 * args.lies:g} % wrong labels for {args.seconds:g} s: accuracy in %, seconds since the first lie"
    table(title, columns, map(row_of, runs))
    for run in runs:
        if run.seen_s is not None:
            late = float("nan") if run.detectable_s is None else run.seen_s - run.detectable_s
            print(f"{run.kind}: seen within {SEEN_TARGET_S:g} s: {verdict(late, SEEN_TARGET_S, ' s')}; ", end="")
            print(
                f"accuracy within {LOST_TARGET:g} points: {verdict(run.before - run.end, LOST_TARGET)} then, ", end=""
            )
            print(f"{verdict(run.before - run.after, LOST_TARGET)} after the release. {run.reason}")
    for failure in failures:
        print(f"BROKEN: {failure}")
    return int(bool(failures))


if __name__ == "__main__":
    command(main)

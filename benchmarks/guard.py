"""Measures the effect of wrong labels on a model, with and without the guard, and how soon the guard acts.

    true labels | --seconds of labels, --wrong-ratio of them wrong | an operator drops the quarantined events
                | true labels again

Data: scikit-learn's digits. 1,297 rows are predicted and labelled; accuracy is measured on 500 others,
unrecorded. `detectable` is when the best possible test (a CUSUM that knows the error rates before and
during the attack, at ADWIN's false alarm rate) would have detected it; `rolled back` is when the
quarantine is in place and the older version answers.
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

from benchmarks.report import command, create_parser, print_json, say, table, verdict
from benchmarks.service import Service, running_service
from online.client import Client

KINDS = ("classifier", "knn")
LABELS_BEFORE, LABELS_AFTER, TESTED = 1_000, 300, 500
FALSE_ALARMS = 0.002
DELAY_TARGET_S, LOST_TARGET = 5.0, 2.0


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
    """The accuracies of one attack in %. Times are seconds since the first wrong label; None: it did not happen."""

    kind: str
    guard: bool
    before: float = 0.0
    lowest: float = 100.0
    end: float = 0.0
    after: float = 0.0
    detectable_s: float | None = None
    rolled_back_s: float | None = None
    since: int = 0
    first_wrong_offset: int = 0
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
            rows, truth = self.rows[start : min(start + 100, TESTED)], self.digits[start : min(start + 100, TESTED)]
            answer = self.client.predict(rows.tolist(), record=False)
            right += sum(given["label"] == label for given, label in zip(answer["predictions"], truth, strict=True))
        return 100 * right / TESTED

    def predict_and_label(self, wrong_ratio: float = 0.0) -> tuple[bool, int]:
        """Predict and send a label. Return whether the answer differs from the label, and the offset of the label."""
        row = TESTED + self.place % (len(self.rows) - TESTED)
        self.place += 1
        response = self.client.predict([self.rows[row].tolist()])
        label = self.digits[row]
        if self.draw.random() < wrong_ratio:
            label = str((int(label) + 1 + self.draw.integers(9)) % 10)
        receipt = self.client.label(response["prediction_ids"][0], label)
        return response["predictions"][0]["label"] != label, receipt["offset"]

    def execute(self) -> None:
        run, args = self.run, self.args
        self.client.predict([self.rows[0].tolist()], min_offset=self.predict_and_label()[1], timeout_ms=60_000)
        labelled = [self.predict_and_label() for _ in range(LABELS_BEFORE)]
        self.client.predict([self.rows[0].tolist()], min_offset=labelled[-1][1], timeout_ms=60_000)
        run.before, run.first_wrong_offset = self.accuracy(), labelled[-1][1] + 1
        error_rate = max(sum(wrong for wrong, _ in labelled[LABELS_BEFORE // 2 :]) / (LABELS_BEFORE / 2), 0.005)
        with watch_quarantine(self.quarantine, run):
            self._send_wrong_labels(time.monotonic())
        run.detectable_s = detectable(run.wrong, error_rate, args.wrong_ratio)
        run.end = self.accuracy()
        if run.rolled_back_s is not None:
            started = time.monotonic()
            httpx.post(f"{self.quarantine}:end", json={"outcome": "dropped"}, timeout=60).raise_for_status()
            offset = self.predict_and_label()[1]
            self.client.predict([self.rows[0].tolist()], min_offset=offset, timeout_ms=60_000)
            run.released_s = time.monotonic() - started
        for _ in range(LABELS_AFTER):
            self.predict_and_label()
        run.after = self.accuracy()

    def _send_wrong_labels(self, started: float) -> None:
        for turn in range(int(self.args.seconds * self.args.rate)):
            time.sleep(max(0.0, started + turn / self.args.rate - time.monotonic()))
            wrong, _ = self.predict_and_label(self.args.wrong_ratio)
            self.run.wrong.append((time.monotonic() - started, wrong))
            if turn % (5 * int(self.args.rate)) == 0:
                self.run.lowest = min(self.run.lowest, self.accuracy())


@contextmanager
def watch_quarantine(quarantine: str, run: Run) -> Iterator[None]:
    """Record when the API first reports a quarantine."""
    started, stop = time.monotonic(), threading.Event()

    def poll() -> None:
        while not stop.wait(0.05):
            found: list[dict[str, Any]] = httpx.get(quarantine, timeout=30).json()["quarantines"]
            if found and run.rolled_back_s is None:
                run.rolled_back_s = time.monotonic() - started
                run.since, run.reason = found[0]["since"], found[0]["reason"]

    thread = threading.Thread(target=poll)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def detectable(wrong: Sequence[tuple[float, bool]], error_rate: float, wrong_ratio: float) -> float | None:
    """Return when a CUSUM that knows both error rates would raise an alarm."""
    during = wrong_ratio + (1 - wrong_ratio) * error_rate
    gains = {True: math.log(during / error_rate), False: math.log((1 - during) / (1 - error_rate))}
    evidence = 0.0
    for at, was_wrong in wrong:
        evidence = max(0.0, evidence + gains[was_wrong])
        if evidence >= math.log(1 / FALSE_ALARMS):
            return at
    return None


def run_attack(args: Namespace, kind: str, guard: bool) -> Run:
    run = Run(kind, guard)
    with running_service(config(kind, guard)) as service, Client(url_of(service), "digits") as client:
        say(f"{kind}, {'with' if guard else 'without'} the guard: true labels, then {args.seconds:g} s of wrong ones")
        Attack(service, client, args, run).execute()
    return run


def violations(run: Run) -> list[str]:
    """Return the violated guarantees: the guard acted, and quarantined from about the first wrong label on."""
    if not run.guard:
        return []
    if run.rolled_back_s is None:
        return [f"{run.kind}: the guard did not act"]
    distance = run.first_wrong_offset - run.since
    if distance > LABELS_BEFORE // 2:
        return [f"{run.kind}: quarantined from {distance} events before the first wrong label"]
    return []


def row_of(run: Run) -> list[object]:
    def format_seconds(seconds: float | None) -> object:
        return "-" if seconds is None else seconds

    delay = None if run.rolled_back_s is None or run.detectable_s is None else run.rolled_back_s - run.detectable_s
    name = f"{run.kind}, {'guard' if run.guard else 'no guard'}"
    figures = [run.before, run.lowest, run.end, run.after]
    return [name, *figures, *map(format_seconds, (run.detectable_s, run.rolled_back_s, delay, run.released_s))]


def main() -> int:
    parser = create_parser(__doc__ or "")
    parser.add_argument("--kind", choices=KINDS, action="append", help="kind of model (default: all)")
    parser.add_argument("--seconds", type=float, default=60.0, help="seconds of wrong labels (default: 60)")
    parser.add_argument("--rate", type=float, default=25.0, help="labels per second during the attack (default: 25)")
    parser.add_argument("--wrong-ratio", type=float, default=0.3, help="share of wrong labels (default: 0.3)")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    runs = [run_attack(args, kind, guard) for kind in args.kind or KINDS for guard in (False, True)]
    failures = [failure for run in runs for failure in violations(run)]
    if args.json:
        print_json({"runs": [{**asdict(run), "wrong": None} for run in runs], "violations": failures})
        return int(bool(failures))
    columns = ["", "before", "lowest", "end", "after", "detectable s", "rolled back s", "delay s", "released s"]
    wrong = f"{100 * args.wrong_ratio:g} % wrong labels for {args.seconds:g} s"
    title = f"{wrong}: accuracy in %, seconds since the first wrong label"
    table(title, columns, map(row_of, runs))
    for run in runs:
        if run.rolled_back_s is not None:
            delay = float("nan") if run.detectable_s is None else run.rolled_back_s - run.detectable_s
            print(f"{run.kind}: delay at most {DELAY_TARGET_S:g} s: {verdict(delay, DELAY_TARGET_S, ' s')}; ", end="")
            print(
                f"accuracy within {LOST_TARGET:g} points: {verdict(run.before - run.end, LOST_TARGET)} then, ", end=""
            )
            print(f"{verdict(run.before - run.after, LOST_TARGET)} after the release. {run.reason}")
    for failure in failures:
        print(f"VIOLATED: {failure}")
    return int(bool(failures))


if __name__ == "__main__":
    command(main)

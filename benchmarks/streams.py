"""Compares accuracy and speed on streams of tables: best_of with river, VW, torch and CapyMOA.

    stream -> rows x [N, D], classes y [N], the same for all
           -> our models: predict, score, learn, one by one or in micro-batches    (this process)
           -> each peer: the same, in the environment of its library               (benchmarks/stream_peers.py)

Phishing, Bananas and ImageSegments come with river; digits is scikit-learn's, shuffled and presented
five times; SEA, RBF and LED are river's generators of drift; Elec2 is in the folder
ONLINE_SHARED_DATA. The environments are created on the first run. Some peers take many minutes, so
their results are cached by version, stream and rows; the table marks cached results, and --again
measures them again. Compare only rates of one run. A peer that is too slow for all rows gets the
first ones, and is compared with best_of on those.
"""

import gzip
import hashlib
import itertools
import json
import os
import subprocess
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.clinc150 import split
from benchmarks.report import command, create_parser, print_json, run_on_one_thread, say, table, verdict
from benchmarks.service import BenchmarkError
from online.io.cache import cache_folder
from online.models import Example, create

TOLERANCE_POINTS = 0.5  # behind the best peer
AHEAD_RATIO_TARGET = 0.5  # share of the streams on which best_of is ahead of every peer
RIVER_SPEED_TARGET, VW_SPEED_TARGET = 20.0, 2.0
INGEST_TARGET = 100_000  # examples per second and core, with 384 numbers and 150 classes
BATCH = 256
DENSE_ROWS = 3_000
PEERS = {
    "river": ("river==0.26.*",),
    "vw": ("numpy", "vowpalwabbit==9.11.*"),
    "torch": ("numpy", "torch>=2.9,<2.14"),
    "capymoa": ("torch>=2.9,<2.14", "capymoa==0.15.*"),  # torch first, or capymoa would install it with CUDA
}
MODELS = {
    "river": ("lr", "softmax", "hat", "arf10", "srp10", "knn"),
    "vw": ("text", "nn20"),
    "torch": ("mlp100-sgd", "mlp100-adam"),
    "capymoa": ("hat", "knn", "arf10", "srp10"),
}
MAX_ROWS = {("river", "srp10"): 10_000, ("river", "arf10"): 20_000, ("river", "knn"): 20_000}
OURS: dict[str, tuple[str, dict[str, Any], int]] = {  # kind, options, examples answered before they are learned
    "best_of": ("best_of", {}, 1),
    "logistic": ("logistic", {}, 1),
    "logistic drifting": ("logistic", {"drift": 1e-5}, 1),
    "logistic now": ("logistic", {"drift": 1e-3, "prior": 10.0}, 1),
    "logistic curve": ("logistic", {"drift": 1e-5, "waves": 64}, 1),
    "knn": ("knn", {}, 1),
    "knn of 1,000": ("knn", {"window": 1_000, "neighbours": 5}, 1),
    "slda": ("classifier", {}, 1),
    "slda in 16s": ("classifier", {}, 16),
    "slda in 256s": ("classifier", {}, 256),
}

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]
Rows = Iterable[tuple[dict[str, Any], Any]]


# streams


@dataclass(frozen=True, slots=True)
class Stream:
    """x: float64 [N, D]; y: classes 0, 1, ... [N]; path: the file with both."""

    name: str
    x: Floats
    y: Labels
    path: Path


def encode_rows(rows: Rows) -> tuple[Floats, Labels]:
    listed = list(rows)
    names = list(listed[0][0])
    labels = sorted({label for _, label in listed})
    y = [labels.index(label) for _, label in listed]
    return np.array([[float(row[name]) for name in names] for row, _ in listed]), np.array(y, np.int64)


def digits() -> tuple[Floats, Labels]:
    from sklearn.datasets import load_digits

    dataset = load_digits()
    order = np.random.default_rng(0).permutation(len(dataset.data))
    return np.tile(dataset.data[order], (5, 1)), np.tile(dataset.target[order], 5).astype(np.int64)


def sea() -> Rows:
    from river.datasets import synth

    parts = zip((0, 2, 1, 3), (42, 43, 44, 45), strict=True)
    return itertools.chain(*(synth.SEA(variant=v, noise=0.1, seed=seed).take(25_000) for v, seed in parts))


def rbf() -> Rows:
    from river.datasets import synth

    generator = synth.RandomRBFDrift(
        seed_model=42,
        seed_sample=42,
        n_classes=4,
        n_features=10,
        n_centroids=20,
        change_speed=0.001,
        n_drift_centroids=10,
    )
    rows: Rows = generator.take(100_000)
    return rows


def led() -> Rows:
    from river.datasets import synth

    def part(seed: int, drifting: int) -> Rows:
        generator = synth.LEDDrift(seed=seed, noise_percentage=0.1, irrelevant_features=True, n_drift_features=drifting)
        rows: Rows = generator.take(50_000)
        return rows

    return itertools.chain(part(112, 0), part(113, 4))


def elec2() -> Rows:
    path = Path(os.environ.get("ONLINE_SHARED_DATA", "../shared/data")) / "elec2" / "electricity.csv.gz"
    if not path.exists():
        raise BenchmarkError(f"{path} does not exist; set ONLINE_SHARED_DATA to the folder that contains elec2")
    with gzip.open(path, "rt") as file:
        names = file.readline().strip().split(",")
        for line in file:
            *values, label = line.strip().split(",")
            yield dict(zip(names, values, strict=False)), label


def river_dataset(name: str) -> Rows:
    from river import datasets

    rows: Rows = getattr(datasets, name)()
    return rows


STREAMS: dict[str, Callable[[], tuple[Floats, Labels]]] = {
    "phishing": lambda: encode_rows(river_dataset("Phishing")),
    "bananas": lambda: encode_rows(river_dataset("Bananas")),
    "imagesegments": lambda: encode_rows(river_dataset("ImageSegments")),
    "digits5": digits,
    "sea": lambda: encode_rows(sea()),
    "rbf": lambda: encode_rows(rbf()),
    "led": lambda: encode_rows(led()),
    "elec2": lambda: encode_rows(elec2()),
}


def streams_folder() -> Path:
    folder = cache_folder() / "benchmarks" / "streams"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def stream_of(name: str) -> Stream:
    path = streams_folder() / f"{name}.npz"
    if not path.exists():
        say(f"{name}: creating the stream ...")
        save_stream(path, *STREAMS[name]())
    return load_stream(name)


def load_stream(name: str) -> Stream:
    path = streams_folder() / f"{name}.npz"
    cached = np.load(path)
    return Stream(name, cached["x"], cached["y"], path)


def save_stream(path: Path, x: Floats, y: Labels) -> None:
    temporary = path.with_suffix(f".{os.getpid()}.npz")
    np.savez(temporary, x=x, y=y)
    os.replace(temporary, path)


# runs


@dataclass(frozen=True, slots=True)
class Run:
    """The result of one model. right [rows]: whether the answer to a row was right before the row was learned."""

    name: str
    right: NDArray[np.bool_]
    seconds: float
    cached: bool = False

    @property
    def rows(self) -> int:
        return len(self.right)

    @property
    def rate(self) -> float:
        return self.rows / self.seconds

    def percent(self, rows: int) -> float:
        return 100 * float(self.right[:rows].mean())


def run_ours(name: str, stream: Stream, rows: int) -> Run:
    kind, options, batch = OURS[name]
    model = create(kind, {"input": "vector", "size": stream.x.shape[1], **options})
    examples = [
        Example(place, "label", row.tobytes(), str(label))
        for place, (row, label) in enumerate(zip(stream.x[:rows], stream.y[:rows].tolist(), strict=True), 1)
    ]
    right, started = list[bool](), time.process_time()  # of one core: torch has one thread
    for start in range(0, rows, batch):
        block = examples[start : start + batch]
        answers = model.predict([example.features for example in block])
        right += [answer.choice == example.label for answer, example in zip(answers, block, strict=True)]
        model.learn(block)
    return Run(f"ours {name}", np.array(right), time.process_time() - started)


def run_peers(stream: Stream, wanted: Sequence[str], rows: int, again: bool) -> Iterator[Run]:
    for peer in wanted:
        for model in MODELS[peer]:
            yield run_peer(peer, model, stream, min(rows, MAX_ROWS.get((peer, model), rows)), again)


def run_peer(peer: str, model: str, stream: Stream, rows: int, again: bool) -> Run:
    """Return a peer's cached result for these versions, rows and this stream, or a new one."""
    name = json.dumps([PEERS[peer], hashlib.sha256(stream.path.read_bytes()).hexdigest(), rows, "processor time"])
    path = streams_folder() / f"{stream.name}-{peer}-{model}-{hashlib.sha256(name.encode()).hexdigest()[:12]}.json"
    cached = path.exists() and not again
    if not cached:
        say(f"{stream.name}: {peer} {model}, {rows:,} rows ...")
        path.write_text(run_in_environment(environment(peer), peer, model, stream.path, rows))
    summary = json.loads(path.read_text())
    bits = np.unpackbits(np.frombuffer(bytes.fromhex(summary["right"]), np.uint8))[:rows]
    return Run(f"{peer} {summary['version']} {model}", bits.astype(np.bool_), summary["seconds"], cached)


def run_in_environment(python: Path, peer: str, model: str, path: Path, rows: int) -> str:
    script = Path(__file__).parent / "stream_peers.py"
    completed = subprocess.run(
        [str(python), str(script), peer, model, str(path), str(rows)],
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    if completed.returncode:
        raise BenchmarkError(f"{peer} {model} failed on {path.name}: {completed.stderr.strip()[-500:]}")
    return completed.stdout.strip().splitlines()[-1]


def environment(peer: str) -> Path:
    """Return the interpreter of the peer's environment, which is created if it is missing."""
    folder = cache_folder() / "peers" / peer
    made = folder / ".made"
    if not made.exists():
        say(f"{peer}: creating {folder} ...")
        pip = str(folder / "bin" / "pip")
        steps = [[sys.executable, "-m", "venv", str(folder)], *([pip, "install", "-q", what] for what in PEERS[peer])]
        for step in steps:
            if subprocess.run(step, check=False).returncode:
                raise BenchmarkError(f"{' '.join(step)} failed")
        made.touch()
    return folder / "bin" / "python"


# results


def compare(stream: Stream, our_runs: Sequence[Run], peer_runs: Sequence[Run]) -> dict[str, Any]:
    """Compare best_of with every peer on the rows of the peer, and our speed with that of river's best model."""
    best_of = our_runs[0]
    leads = {other.name: best_of.percent(other.rows) - other.percent(other.rows) for other in peer_runs}
    strongest = min(leads, key=leads.__getitem__, default="")
    return {
        "stream": stream.name,
        "rows": best_of.rows,
        "best_of_percent": best_of.percent(best_of.rows),
        "strongest_peer": strongest,
        "lead_points": leads.get(strongest, float("nan")),
        "river_speed_ratio": river_speed_ratio(
            our_runs[1:], [other for other in peer_runs if other.name.startswith("river")]
        ),
        "runs": [
            {"name": r.name, "rows": r.rows, "percent": r.percent(r.rows), "per_second": r.rate, "cached": r.cached}
            for r in (*our_runs, *peer_runs)
        ],
    }


def river_speed_ratio(our_runs: Sequence[Run], river: Sequence[Run]) -> float:
    """Return how many times faster our fastest model of about the same accuracy is than river's most accurate one."""
    if not river:
        return float("nan")
    best = max(river, key=lambda run: run.percent(run.rows))
    similar_rates = [
        run.rate for run in our_runs if run.percent(best.rows) >= best.percent(best.rows) - TOLERANCE_POINTS
    ]
    return max(similar_rates, default=0.0) / best.rate


def print_stream(summary: dict[str, Any]) -> None:
    ranked = sorted(summary["runs"], key=lambda run: -run["percent"])
    rows = [
        (
            run["name"],
            run["percent"],
            f"{run['rows']:,}",
            f"{run['per_second']:,.0f}",
            "cached" if run["cached"] else "",
        )
        for run in ranked
    ]
    table(f"{summary['stream']}: prequential accuracy", ("", "right %", "rows", "examples/s and core", ""), rows)


def print_verdicts(summary: Sequence[dict[str, Any]]) -> None:
    rows = [
        (
            one["stream"],
            one["best_of_percent"],
            one["strongest_peer"],
            f"{one['lead_points']:+.2f}",
            verdict(one["lead_points"], -TOLERANCE_POINTS, " points", at_least=True),
            f"{one['river_speed_ratio']:.1f}x",
        )
        for one in summary
    ]
    columns = ("", "best_of %", "strongest peer", "lead", "within 0.5", "x river's best")
    table("best_of and the best peer of each stream", columns, rows)
    ahead = sum(one["lead_points"] > 0 for one in summary)
    print(
        f"ahead on {ahead} of {len(summary)} streams: {verdict(ahead, AHEAD_RATIO_TARGET * len(summary), at_least=True)}"
    )
    times = float(np.median([one["river_speed_ratio"] for one in summary]))
    print(f"median {times:.1f}x the speed of river's best, at most 0.5 points less accurate: ", end="")
    print(verdict(times, RIVER_SPEED_TARGET, "x", at_least=True))


# dense inputs


def dense(wanted: Sequence[str], again: bool) -> dict[str, float]:
    """Measure CLINC150's int8 features: 384 numbers, 150 classes. Ours learns micro-batches, as the learner does; VW one by one."""
    train = split("train")
    examples = [
        Example(place, "label", row.tobytes(), label)
        for place, (row, label) in enumerate(zip(train.features, train.labels, strict=True), 1)
    ]
    ingest = float(np.median([ingest_rate(examples) for _ in range(5)]))
    answered = predict_and_learn_rate(examples)
    summary = {"ingest_per_second": ingest, "ours_per_second": answered}
    if "vw" in wanted:
        order = np.random.default_rng(0).permutation(len(examples))[:DENSE_ROWS]
        index = {label: place for place, label in enumerate(sorted(set(train.labels)))}
        path = streams_folder() / "clinc150.npz"
        save_stream(path, train.features[order].astype(np.float64), np.array([index[train.labels[at]] for at in order]))
        summary["vw_per_second"] = run_peer("vw", "text", load_stream("clinc150"), DENSE_ROWS, again).rate
    return summary


def ingest_rate(examples: Sequence[Example]) -> float:
    """Return examples per second, adding them to the sums only."""
    model, started = create("classifier", {"input": "text"}), time.perf_counter()
    for start in range(0, len(examples), BATCH):
        model.learn(examples[start : start + BATCH])
    return len(examples) / (time.perf_counter() - started)


def predict_and_learn_rate(examples: Sequence[Example]) -> float:
    """Return examples per second, answering each micro-batch with newly solved weights before it is learned."""
    model, started = create("classifier", {"input": "text"}), time.perf_counter()
    for start in range(0, len(examples), BATCH):
        model.predict([example.features for example in examples[start : start + BATCH]])
        model.learn(examples[start : start + BATCH])
    return len(examples) / (time.perf_counter() - started)


def print_dense(summary: dict[str, float]) -> None:
    ingest, ours_rate, vw_rate = summary["ingest_per_second"], summary["ours_per_second"], summary.get("vw_per_second")
    print(f"384 numbers, 150 classes, one core: exact ingest {ingest:,.0f} examples/s: ", end="")
    print(verdict(ingest, INGEST_TARGET, at_least=True))
    if vw_rate:
        print(f"  answered and learned {ours_rate:,.0f}/s, VW {vw_rate:,.0f}/s, {ours_rate / vw_rate:.1f}x: ", end="")
        print(verdict(ours_rate / vw_rate, VW_SPEED_TARGET, "x", at_least=True))


def parse_flags() -> Namespace:
    parser = create_parser(__doc__ or "")
    parser.add_argument("--streams", default=",".join(STREAMS), help="streams, separated by commas")
    parser.add_argument("--peers", default=",".join(PEERS), help="peers, separated by commas; '' for none")
    parser.add_argument("--ours", default=",".join(OURS), help="our models in addition to best_of, separated by commas")
    parser.add_argument("--rows", type=int, default=0, help="at most this many rows of each stream")
    parser.add_argument("--again", action="store_true", help="measure the peers again instead of using cached results")
    return parser.parse_args()


def main() -> int:
    flags = parse_flags()
    run_on_one_thread()
    wanted = [peer for peer in flags.peers.split(",") if peer]
    unknown = sorted({*flags.streams.split(","), *wanted} - STREAMS.keys() - PEERS.keys())
    if unknown:
        raise BenchmarkError(f"there is no {unknown[0]}; streams are {', '.join(STREAMS)}, peers {', '.join(PEERS)}")
    summary = []
    for name in flags.streams.split(","):
        stream = stream_of(name)
        rows = min(flags.rows or len(stream.y), len(stream.y))
        say(f"{name}: ours, {rows:,} rows ...")
        our_runs = [run_ours(name, stream, rows) for name in OURS if name == "best_of" or name in flags.ours.split(",")]
        summary.append(compare(stream, our_runs, list(run_peers(stream, wanted, rows, flags.again))))
        if not flags.json:
            print_stream(summary[-1])
    speed = dense(wanted, flags.again)
    if flags.json:
        print_json({"benchmark": "streams", "streams": summary, "dense": speed})
    else:
        print_verdicts(summary)
        print_dense(speed)
    return int(any(one["lead_points"] < -TOLERANCE_POINTS for one in summary))


if __name__ == "__main__":
    command(main)

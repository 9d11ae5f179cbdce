"""Who is right more often on a stream of tables, and who is faster: best_of beside river, VW, torch and CapyMOA.

    stream -> rows x [N, D], labels y [N], the same for all
           -> ours: predict, score, learn, one by one or in micro-batches    (this process)
           -> each peer the same, in its library's own environment           (benchmarks/stream_peers.py)

Phishing, Bananas and ImageSegments come with river; digits is scikit-learn's, shuffled and presented five times; SEA,
RBF and LED are river's generators of drift; Elec2 is found through ONLINE_SHARED_DATA. The environments are made on
the first run, and a peer's result is kept with its version, the stream and the rows, because some take many minutes:
the table says which were kept, --again measures them anew. Rates of kept results are those of the day they were
measured on: compare rates of one run only. A peer too slow for all rows sees the first ones, and ours is then compared
on those too.
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
import torch
from numpy.typing import NDArray

from benchmarks.clinc150 import split
from benchmarks.report import command, parser, print_json, say, table, verdict
from benchmarks.service import Failed
from online.models import Example, create
from online.workspace import cache_folder

NEAR, AHEAD = 0.5, 0.5  # points behind the best peer that are borne; the share of streams to be ahead on
FASTER_THAN_RIVER, FASTER_THAN_VW = 20.0, 2.0
INGEST = 100_000  # examples a second and core, at 384 numbers and 150 labels
BATCH = 256
DENSE_ROWS = 3_000
PEERS = {
    "river": ("river==0.26.*",),
    "vw": ("numpy", "vowpalwabbit==9.11.*"),
    "torch": ("numpy", "torch>=2.9,<2.14"),
    "capymoa": ("torch>=2.9,<2.14", "capymoa==0.15.*"),  # torch first: its own choice would bring CUDA
}
MODELS = {
    "river": ("lr", "softmax", "hat", "arf10", "srp10", "knn"),
    "vw": ("text", "nn20"),
    "torch": ("mlp100-sgd", "mlp100-adam"),
    "capymoa": ("hat", "knn", "arf10", "srp10"),
}
MOST_ROWS = {("river", "srp10"): 10_000, ("river", "arf10"): 20_000, ("river", "knn"): 20_000}
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
    """x: float64 [N, D]; y: labels 0, 1, ... [N]; path: where both are kept."""

    name: str
    x: Floats
    y: Labels
    path: Path


def of_rows(rows: Rows) -> tuple[Floats, Labels]:
    listed = list(rows)
    names = list(listed[0][0])
    labels = sorted({label for _, label in listed})
    y = [labels.index(label) for _, label in listed]
    return np.array([[float(row[name]) for name in names] for row, _ in listed]), np.array(y, np.int64)


def digits() -> tuple[Floats, Labels]:
    from sklearn.datasets import load_digits

    given = load_digits()
    order = np.random.default_rng(0).permutation(len(given.data))
    return np.tile(given.data[order], (5, 1)), np.tile(given.target[order], 5).astype(np.int64)


def sea() -> Rows:
    from river.datasets import synth

    parts = zip((0, 2, 1, 3), (42, 43, 44, 45), strict=True)
    return itertools.chain(*(synth.SEA(variant=v, noise=0.1, seed=seed).take(25_000) for v, seed in parts))


def rbf() -> Rows:
    from river.datasets import synth

    made = synth.RandomRBFDrift(
        seed_model=42,
        seed_sample=42,
        n_classes=4,
        n_features=10,
        n_centroids=20,
        change_speed=0.001,
        n_drift_centroids=10,
    )
    rows: Rows = made.take(100_000)
    return rows


def led() -> Rows:
    from river.datasets import synth

    def part(seed: int, drifting: int) -> Rows:
        made = synth.LEDDrift(seed=seed, noise_percentage=0.1, irrelevant_features=True, n_drift_features=drifting)
        rows: Rows = made.take(50_000)
        return rows

    return itertools.chain(part(112, 0), part(113, 4))


def elec2() -> Rows:
    path = Path(os.environ.get("ONLINE_SHARED_DATA", "../shared/data")) / "elec2" / "electricity.csv.gz"
    if not path.exists():
        raise Failed(f"there is no {path}; say where the folder is that holds elec2 with ONLINE_SHARED_DATA")
    with gzip.open(path, "rt") as file:
        names = file.readline().strip().split(",")
        for line in file:
            *values, label = line.strip().split(",")
            yield dict(zip(names, values, strict=False)), label


def of_river(name: str) -> Rows:
    from river import datasets

    rows: Rows = getattr(datasets, name)()
    return rows


STREAMS: dict[str, Callable[[], tuple[Floats, Labels]]] = {
    "phishing": lambda: of_rows(of_river("Phishing")),
    "bananas": lambda: of_rows(of_river("Bananas")),
    "imagesegments": lambda: of_rows(of_river("ImageSegments")),
    "digits5": digits,
    "sea": lambda: of_rows(sea()),
    "rbf": lambda: of_rows(rbf()),
    "led": lambda: of_rows(led()),
    "elec2": lambda: of_rows(elec2()),
}


def kept_folder() -> Path:
    folder = cache_folder() / "benchmarks" / "streams"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def stream_of(name: str) -> Stream:
    path = kept_folder() / f"{name}.npz"
    if not path.exists():
        say(f"{name}: making the stream ...")
        keep(path, *STREAMS[name]())
    return kept_stream(name)


def kept_stream(name: str) -> Stream:
    path = kept_folder() / f"{name}.npz"
    kept = np.load(path)
    return Stream(name, kept["x"], kept["y"], path)


def keep(path: Path, x: Floats, y: Labels) -> None:
    aside = path.with_suffix(f".{os.getpid()}.npz")
    np.savez(aside, x=x, y=y)
    os.replace(aside, path)


# runs


@dataclass(frozen=True, slots=True)
class Run:
    """right [rows]: for each row, whether the answer given before it was learned was right."""

    who: str
    right: NDArray[np.bool_]
    seconds: float
    kept: bool = False

    @property
    def rows(self) -> int:
        return len(self.right)

    @property
    def rate(self) -> float:
        return self.rows / self.seconds

    def percent(self, rows: int) -> float:
        return 100 * float(self.right[:rows].mean())


def ours(who: str, stream: Stream, rows: int) -> Run:
    kind, options, batch = OURS[who]
    model = create(kind, {"input": "vector", "size": stream.x.shape[1], **options})
    examples = [
        Example(place, "label", row.tobytes(), str(label))
        for place, (row, label) in enumerate(zip(stream.x[:rows], stream.y[:rows].tolist(), strict=True), 1)
    ]
    right, started = list[bool](), time.perf_counter()
    for start in range(0, rows, batch):
        block = examples[start : start + batch]
        answers = model.predict([example.features for example in block])
        right += [answer.choice == example.label for answer, example in zip(answers, block, strict=True)]
        model.learn(block)
    return Run(f"ours {who}", np.array(right), time.perf_counter() - started)


def peers(stream: Stream, wanted: Sequence[str], rows: int, again: bool) -> Iterator[Run]:
    for peer in wanted:
        for model in MODELS[peer]:
            yield of_peer(peer, model, stream, min(rows, MOST_ROWS.get((peer, model), rows)), again)


def of_peer(peer: str, model: str, stream: Stream, rows: int, again: bool) -> Run:
    """Its kept result for these versions, rows and this very stream, or a new one."""
    name = json.dumps([PEERS[peer], hashlib.sha256(stream.path.read_bytes()).hexdigest(), rows])
    path = kept_folder() / f"{stream.name}-{peer}-{model}-{hashlib.sha256(name.encode()).hexdigest()[:12]}.json"
    kept = path.exists() and not again
    if not kept:
        say(f"{stream.name}: {peer} {model}, {rows:,} rows ...")
        path.write_text(measured(environment(peer), peer, model, stream.path, rows))
    told = json.loads(path.read_text())
    bits = np.unpackbits(np.frombuffer(bytes.fromhex(told["right"]), np.uint8))[:rows]
    return Run(f"{peer} {told['version']} {model}", bits.astype(np.bool_), told["seconds"], kept)


def measured(python: Path, peer: str, model: str, path: Path, rows: int) -> str:
    script = Path(__file__).parent / "stream_peers.py"
    done = subprocess.run(
        [str(python), str(script), peer, model, str(path), str(rows)],
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise Failed(f"{peer} {model} failed on {path.name}: {done.stderr.strip()[-500:]}")
    return done.stdout.strip().splitlines()[-1]


def environment(peer: str) -> Path:
    """The interpreter of the peer's own environment, made where there is none yet."""
    folder = cache_folder() / "peers" / peer
    made = folder / ".made"
    if not made.exists():
        say(f"{peer}: making {folder} ...")
        pip = str(folder / "bin" / "pip")
        steps = [[sys.executable, "-m", "venv", str(folder)], *([pip, "install", "-q", what] for what in PEERS[peer])]
        for step in steps:
            if subprocess.run(step, check=False).returncode:
                raise Failed(f"{' '.join(step)} failed")
        made.touch()
    return folder / "bin" / "python"


# what it comes to


def compared(stream: Stream, mine: Sequence[Run], others: Sequence[Run]) -> dict[str, Any]:
    """Of best_of against every peer on the rows that peer saw; of our cheapest as good as river's best."""
    best_of = mine[0]
    leads = {other.who: best_of.percent(other.rows) - other.percent(other.rows) for other in others}
    hardest = min(leads, key=leads.__getitem__, default="")
    return {
        "stream": stream.name,
        "rows": best_of.rows,
        "best_of_percent": best_of.percent(best_of.rows),
        "hardest_peer": hardest,
        "lead_points": leads.get(hardest, float("nan")),
        "times_river": times_river(mine[1:], [other for other in others if other.who.startswith("river")]),
        "runs": [
            {"who": r.who, "rows": r.rows, "percent": r.percent(r.rows), "per_second": r.rate, "kept": r.kept}
            for r in (*mine, *others)
        ],
    }


def times_river(mine: Sequence[Run], river: Sequence[Run]) -> float:
    """How many times faster our fastest single model is that errs no more than river's best, half a point apart."""
    if not river:
        return float("nan")
    best = max(river, key=lambda run: run.percent(run.rows))
    as_good = [run.rate for run in mine if run.percent(best.rows) >= best.percent(best.rows) - NEAR]
    return max(as_good, default=0.0) / best.rate


def print_stream(told: dict[str, Any]) -> None:
    ranked = sorted(told["runs"], key=lambda run: -run["percent"])
    rows = [
        (run["who"], run["percent"], f"{run['rows']:,}", f"{run['per_second']:,.0f}", "kept" if run["kept"] else "")
        for run in ranked
    ]
    table(f"{told['stream']}: prequential accuracy", ("", "right %", "rows", "examples/s", ""), rows)


def print_verdicts(told: Sequence[dict[str, Any]]) -> None:
    rows = [
        (
            one["stream"],
            one["best_of_percent"],
            one["hardest_peer"],
            f"{one['lead_points']:+.2f}",
            verdict(one["lead_points"], -NEAR, " points", at_least=True),
            f"{one['times_river']:.1f}x",
        )
        for one in told
    ]
    columns = ("", "best_of %", "hardest peer", "lead", "within 0.5", "x river's best")
    table("best_of beside the best peer of each stream", columns, rows)
    ahead = sum(one["lead_points"] > 0 for one in told)
    print(f"ahead on {ahead} of {len(told)} streams: {verdict(ahead, AHEAD * len(told), at_least=True)}")
    times = float(np.median([one["times_river"] for one in told]))
    print(f"median {times:.1f}x river's best at no more than 0.5 point less: ", end="")
    print(verdict(times, FASTER_THAN_RIVER, "x", at_least=True))


# dense inputs


def dense(wanted: Sequence[str], again: bool) -> dict[str, float]:
    """CLINC150's int8 features: 384 numbers, 150 labels. Ours in micro-batches, as the learner does; VW one by one."""
    train = split("train")
    examples = [
        Example(place, "label", row.tobytes(), label)
        for place, (row, label) in enumerate(zip(train.features, train.labels, strict=True), 1)
    ]
    ingest = float(np.median([ingested(examples) for _ in range(5)]))
    answered = learned_and_answered(examples)
    told = {"ingest_per_second": ingest, "ours_per_second": answered}
    if "vw" in wanted:
        order = np.random.default_rng(0).permutation(len(examples))[:DENSE_ROWS]
        index = {label: place for place, label in enumerate(sorted(set(train.labels)))}
        path = kept_folder() / "clinc150.npz"
        keep(path, train.features[order].astype(np.float64), np.array([index[train.labels[at]] for at in order]))
        told["vw_per_second"] = of_peer("vw", "text", kept_stream("clinc150"), DENSE_ROWS, again).rate
    return told


def ingested(examples: Sequence[Example]) -> float:
    """Examples a second into the sums alone."""
    model, started = create("classifier", {"input": "text"}), time.perf_counter()
    for start in range(0, len(examples), BATCH):
        model.learn(examples[start : start + BATCH])
    return len(examples) / (time.perf_counter() - started)


def learned_and_answered(examples: Sequence[Example]) -> float:
    """Examples a second where each micro-batch is answered, by weights solved anew, before it is learned."""
    model, started = create("classifier", {"input": "text"}), time.perf_counter()
    for start in range(0, len(examples), BATCH):
        model.predict([example.features for example in examples[start : start + BATCH]])
        model.learn(examples[start : start + BATCH])
    return len(examples) / (time.perf_counter() - started)


def print_dense(told: dict[str, float]) -> None:
    ingest, ours_rate, vw_rate = told["ingest_per_second"], told["ours_per_second"], told.get("vw_per_second")
    print(f"384 numbers, 150 labels, one core: exact ingest {ingest:,.0f} examples/s: ", end="")
    print(verdict(ingest, INGEST, at_least=True))
    if vw_rate:
        print(f"  answered and learned {ours_rate:,.0f}/s, VW {vw_rate:,.0f}/s, {ours_rate / vw_rate:.1f}x: ", end="")
        print(verdict(ours_rate / vw_rate, FASTER_THAN_VW, "x", at_least=True))


def flags_given() -> Namespace:
    made = parser(__doc__ or "")
    made.add_argument("--streams", default=",".join(STREAMS), help="which, with commas between")
    made.add_argument("--peers", default=",".join(PEERS), help="which, with commas between; '' for none")
    made.add_argument("--ours", default=",".join(OURS), help="which of ours beside best_of, with commas between")
    made.add_argument("--rows", type=int, default=0, help="only so many of each stream")
    made.add_argument("--again", action="store_true", help="measure peers anew, whatever was kept")
    return made.parse_args()


def main() -> int:
    flags = flags_given()
    torch.set_num_threads(1)
    wanted = [peer for peer in flags.peers.split(",") if peer]
    unknown = sorted({*flags.streams.split(","), *wanted} - STREAMS.keys() - PEERS.keys())
    if unknown:
        raise Failed(f"there is no {unknown[0]}; streams are {', '.join(STREAMS)}, peers {', '.join(PEERS)}")
    told = []
    for name in flags.streams.split(","):
        stream = stream_of(name)
        rows = min(flags.rows or len(stream.y), len(stream.y))
        say(f"{name}: ours, {rows:,} rows ...")
        mine = [ours(who, stream, rows) for who in OURS if who == "best_of" or who in flags.ours.split(",")]
        told.append(compared(stream, mine, list(peers(stream, wanted, rows, flags.again))))
        if not flags.json:
            print_stream(told[-1])
    speed = dense(wanted, flags.again)
    if flags.json:
        print_json({"benchmark": "streams", "streams": told, "dense": speed})
    else:
        print_verdicts(told)
        print_dense(speed)
    return int(any(one["lead_points"] < -NEAR for one in told))


if __name__ == "__main__":
    command(main)

"""Does learning class by class cost accuracy? CLINC150: 150 intents, 15,000 training and 4,500 test questions.

    data_full.json -> TextEncoder -> int8 [N, 384] -> classifier, 15 tasks of 10 labels, one pass    ours
                                                  \\-> scikit-learn LogisticRegression, all at once   the peer

The same examples shuffled and in other batches must give the same state hash: what came first does not matter. The
data is found through ONLINE_SHARED_DATA; encoded features are kept in the user's cache, named by the data's sha256
and the encoder's epoch.
"""

import hashlib
import json
import os
import tempfile
import time
import warnings
from argparse import Namespace
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track

from benchmarks.report import command, parser, print_json, say, table, verdict
from benchmarks.service import Failed
from online.models import Example, Model, create
from online.models.encoder import TEXT_SCALE, TEXT_WIDTH, TextEncoder
from online.workspace import cache_folder

TARGET_PERCENT, PEER_PERCENT = 92.5, 95.5
TASKS = 15
PASSES = 5  # the ingest rate is their median: one pass takes a tenth of a second where nothing disturbs it
BATCH, OTHER_BATCH = 256, 100

Int8s = NDArray[np.int8]


@dataclass(frozen=True, slots=True)
class Split:
    """features: int8 [N, 384]"""

    features: Int8s
    labels: list[str]


def data_file() -> Path:
    path = Path(os.environ.get("ONLINE_SHARED_DATA", "../shared/data")) / "clinc150" / "data_full.json"
    if not path.exists():
        raise Failed(f"there is no {path}; say where the folder is that holds clinc150 with ONLINE_SHARED_DATA")
    return path


def splits() -> tuple[Split, Split]:
    """Train and test, encoded."""
    raw = data_file().read_bytes()
    data: dict[str, list[tuple[str, str]]] = json.loads(raw)
    questions = [*data["train"], *data["test"]]
    kept = cache_folder() / "benchmarks" / f"clinc150-{hashlib.sha256(raw).hexdigest()[:16]}-{TextEncoder.epoch}.npy"
    features = np.load(kept) if kept.exists() else encoded([text for text, _ in questions], kept)
    labels, cut = [label for _, label in questions], len(data["train"])
    return Split(features[:cut], labels[:cut]), Split(features[cut:], labels[cut:])


def encoded(texts: Sequence[str], path: Path) -> Int8s:
    """Encode under a progress bar and keep it at `path`, renamed into place whole."""
    encoder = TextEncoder(cache_folder())
    bar = track(texts, "encoding", console=Console(stderr=True), transient=True)
    features = np.frombuffer(b"".join(encoder.encode([text])[0] for text in bar), np.int8).reshape(-1, TEXT_WIDTH)
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        np.save(Path(folder) / "whole.npy", features)
        os.replace(Path(folder) / "whole.npy", path)
    return features


def examples_of(split: Split) -> list[Example]:
    rows = zip(split.features, split.labels, strict=True)
    return [Example(place, "label", row.tobytes(), label) for place, (row, label) in enumerate(rows, 1)]


def class_by_class(examples: Sequence[Example]) -> list[Example]:
    """15 tasks of 10 labels: no label comes back once its task is over. Within a task, the order of the file."""
    names = sorted({example.label for example in examples})
    size = -(-len(names) // TASKS)
    task = {name: place // size for place, name in enumerate(names)}
    return sorted(examples, key=lambda example: task[example.label])


def cut(examples: Sequence[Example], size: int) -> Iterator[Sequence[Example]]:
    return (examples[start : start + size] for start in range(0, len(examples), size))


def learn(examples: Sequence[Example], batch: int) -> tuple[Model, float]:
    """The model after one pass, and the examples it learned a second (its weights solved once, at the end)."""
    model, started = create("classifier", {"input": "text"}), time.perf_counter()
    for part in cut(examples, batch):
        model.learn(part)
    model.state(serving_only=True)
    return model, len(examples) / (time.perf_counter() - started)


def accuracy_percent(model: Model, test: Split) -> float:
    answers = model.predict([row.tobytes() for row in test.features])
    return 100 * float(np.mean([answer.choice == label for answer, label in zip(answers, test.labels, strict=True)]))


@dataclass(frozen=True, slots=True)
class Joint:
    accuracy_percent: float
    seconds: float
    converged: bool


def logistic_regression(train: Split, test: Split) -> Joint:
    """The peer: all examples at once, as often as it takes, on the same int8 features as unit vectors."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    peer, started = LogisticRegression(C=20, max_iter=1000), time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        peer.fit(train.features / np.float32(TEXT_SCALE), train.labels)
    right = float(peer.score(test.features / np.float32(TEXT_SCALE), test.labels))
    converged = not any(issubclass(warning.category, ConvergenceWarning) for warning in caught)
    return Joint(100 * right, time.perf_counter() - started, converged)


def compare() -> dict[str, Any]:
    train, test = splits()
    examples = examples_of(train)
    say("learning class by class, then shuffled ...")
    passes = [learn(class_by_class(examples), BATCH) for _ in range(PASSES)]
    ours, rates = passes[0][0], [rate for _, rate in passes]
    order = np.random.default_rng(0).permutation(len(examples))
    shuffled, _ = learn([examples[place] for place in order], OTHER_BATCH)
    percent = accuracy_percent(ours, test)
    say("the peer: logistic regression on everything at once ...")
    peer = logistic_regression(train, test)
    return {
        "train": len(examples),
        "test": len(test.labels),
        "labels": len(set(train.labels)),
        "class_by_class_percent": percent,
        "shuffled_percent": accuracy_percent(shuffled, test),
        "peer_percent": peer.accuracy_percent,
        "peer_seconds": peer.seconds,
        "peer_converged": peer.converged,
        "examples_per_second": float(np.median(rates)),
        "slowest_pass_per_second": min(rates),
        "fastest_pass_per_second": max(rates),
        "state_sha256": ours.fingerprint(),
        "shuffled_state_sha256": shuffled.fingerprint(),
        "same_state": ours.fingerprint() == shuffled.fingerprint(),
    }


def print_table(told: dict[str, Any]) -> None:
    ours, peer = told["class_by_class_percent"], told["peer_percent"]
    rows = [
        ("ours, class by class, one pass", ours, "92.5", verdict(ours, TARGET_PERCENT, at_least=True)),
        ("ours, shuffled, other batches", told["shuffled_percent"], "the same", "-"),
        ("logistic regression, joint", peer, "95.5 expected", verdict(peer, PEER_PERCENT, at_least=True)),
    ]
    table(f"CLINC150: {told['train']:,} examples, {told['labels']} labels", ("", "test %", "target", ""), rows)
    print(f"state class by class {told['state_sha256'][:16]}, shuffled {told['shuffled_state_sha256'][:16]}: ", end="")
    print("the same" if told["same_state"] else "DIFFERENT")
    low, high = told["slowest_pass_per_second"], told["fastest_pass_per_second"]
    print(
        f"ours learned {told['examples_per_second']:,.0f} examples a second (median of {PASSES}, {low:,.0f}-{high:,.0f})"
    )
    print(f"the peer took {told['peer_seconds']:.1f} s")
    if not told["peer_converged"]:
        print("the peer did not converge within 1,000 iterations")


def flags_given() -> Namespace:
    return parser(__doc__ or "").parse_args()


def main() -> int:
    flags = flags_given()
    told = compare()
    print_json({"benchmark": "clinc150", **told}) if flags.json else print_table(told)
    return int(not told["same_state"])


if __name__ == "__main__":
    command(main)

"""Small logs, and replays of them."""

import json
import random
from pathlib import Path
from typing import Any

from online.evaluation.replay.candidate_specs import CandidateSpec
from online.evaluation.replay.replay import Replay
from online.evaluation.sources.opening import open_source
from online.evaluation.sources.replay_source import ReadOptions

KNN = CandidateSpec("knn", {}, "knn", every=10)
LINEAR = CandidateSpec("logistic", {}, "linear", every=10)


def write_blobs(folder: Path, count: int = 600, spread: float = 0.5) -> Path:
    """Write points of three classes in the plane, of which the third lies between the others."""
    rng, path = random.Random(0), folder / "blobs.jsonl"
    with open(path, "w") as file:
        for _ in range(count):
            label = rng.randrange(3)
            point = [label + rng.gauss(0, spread), rng.gauss(0, spread)]
            file.write(json.dumps({"input": point, "label": label}) + "\n")
    return path


def run_replay(
    path: Path | str, candidate: CandidateSpec | str = "classifier", reads: ReadOptions | None = None
) -> Replay:
    """Replay a log with a candidate, or with a kind of model."""
    reads = reads or ReadOptions()
    spec = CandidateSpec(candidate) if isinstance(candidate, str) else candidate
    replay = Replay(open_source(str(path), reads), spec, max_bad_ratio=reads.max_bad_ratio)
    replay.run()
    return replay


def ignore_progress(*progress: Any) -> None:
    """Report progress to nothing."""

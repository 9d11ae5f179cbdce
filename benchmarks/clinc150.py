"""Loads CLINC150 with the features that a service would log: 150 intents, 23,700 questions, each as int8 [384].

    data_full.json -> TextEncoder -> int8 [N, 384] in the user's cache, named by the data's sha256 and the encoder's epoch

Splits: train, val and test with 100, 20 and 30 questions per intent; oos_train, oos_val and oos_test
with 100, 100 and 1,000 questions of no known intent (Larson et al. 2019). The data is read from the
folder in ONLINE_SHARED_DATA.
"""

import hashlib
import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.report import progress
from benchmarks.service import BenchmarkError
from online.io.cache import cache_folder
from online.models import Example
from online.models.encoders.text import TEXT_WIDTH, TextEncoder

TASKS = 15

Int8s = NDArray[np.int8]


@dataclass(frozen=True, slots=True)
class Split:
    """features: int8 [N, 384]"""

    features: Int8s
    labels: list[str]


def data_file() -> Path:
    path = Path(os.environ.get("ONLINE_SHARED_DATA", "../shared/data")) / "clinc150" / "data_full.json"
    if not path.exists():
        raise BenchmarkError(f"{path} does not exist; set ONLINE_SHARED_DATA to the folder that contains clinc150")
    return path


def read_questions(name: str) -> list[tuple[str, str]]:
    """The questions of one split with their intents."""
    questions: list[tuple[str, str]] = json.loads(data_file().read_bytes())[name]
    return questions


def split(name: str) -> Split:
    """Read one split and encode its questions."""
    raw, questions = data_file().read_bytes(), read_questions(name)
    file = f"clinc150-{hashlib.sha256(raw).hexdigest()[:16]}-{TextEncoder.epoch}-{name}.npy"
    cached = cache_folder() / "benchmarks" / file
    features = np.load(cached) if cached.exists() else encode_texts([text for text, _ in questions], cached)
    return Split(features, [label for _, label in questions])


def encode_texts(texts: Sequence[str], path: Path) -> Int8s:
    """Encode the texts with a progress bar, and store the result at `path` once it is complete."""
    encoder = TextEncoder(cache_folder())
    rows = [encoder.encode([text])[0] for text in progress(texts, "encoding")]
    features = np.frombuffer(b"".join(rows), np.int8).reshape(-1, TEXT_WIDTH)
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        np.save(Path(folder) / "whole.npy", features)
        os.replace(Path(folder) / "whole.npy", path)
    return features


def examples_of(split: Split, first_offset: int = 1) -> list[Example]:
    rows = zip(split.features, split.labels, strict=True)
    return [Example(offset, "label", row.tobytes(), label) for offset, (row, label) in enumerate(rows, first_offset)]


def tasks_of(examples: Sequence[Example]) -> list[list[Example]]:
    """Return 15 tasks of 10 classes each. Each class occurs in one task; rows keep the order of the file."""
    names = sorted({example.label for example in examples})
    size = -(-len(names) // TASKS)
    place = {name: number // size for number, name in enumerate(names)}
    return [[example for example in examples if place[example.label] == task] for task in range(TASKS)]


def shuffled(examples: Sequence[Example], seed: int = 0) -> list[Example]:
    return [examples[place] for place in np.random.default_rng(seed).permutation(len(examples))]


def batches(examples: Sequence[Example], size: int) -> Iterator[Sequence[Example]]:
    return (examples[start : start + size] for start in range(0, len(examples), size))

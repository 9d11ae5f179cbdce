"""A learner in JavaScript follows the model by deltas that the service has written, to the same sha256."""

import json
import subprocess
from base64 import b64decode, b64encode
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from online.models import Example
from online.models.classifier import Classifier
from online.plugins.export.file_deltas import write_delta
from online.plugins.export.learner_file import LearnerFacts, read_learner_file, write_learner_file

VECTORS = {"input": "vector", "size": 6, "scale": 4.0}
# stdin: {"file": base64, "deltas": [base64]}; stdout: the file after each delta
SCRIPT = """
import { readFileSync } from 'node:fs';
import { applyDelta } from './package/index.js';
const { file, deltas } = JSON.parse(readFileSync(0, 'utf8'));
let present = Buffer.from(file, 'base64');
const files = deltas.map((delta) => {
  present = applyDelta(present, Buffer.from(delta, 'base64'));
  return Buffer.from(present).toString('base64');
});
console.log(JSON.stringify(files));
"""


def draw_examples(options: dict[str, object], first: int, count: int, names: str) -> list[Example]:
    random = np.random.default_rng(first)
    rows = random.normal(size=(count, 6)) if options else random.integers(-127, 128, (count, 384)).astype(np.int8)
    return [
        Example(first + n, "reward", row.tobytes(), names[n % len(names)], reward=float(n % 5 > 0))
        for n, row in enumerate(rows)
    ]


def apply_in_node(node: str, package: Path, file: bytes, deltas: list[bytes]) -> list[bytes]:
    sent = json.dumps({"file": b64encode(file).decode(), "deltas": [b64encode(each).decode() for each in deltas]})
    (package / "deltas.js").write_text(SCRIPT)
    command = [node, str(package / "deltas.js")]
    ran = subprocess.run(command, input=sent, cwd=package, check=True, timeout=60, capture_output=True, text=True)
    return [b64decode(each) for each in json.loads(ran.stdout)]


@pytest.mark.parametrize("options", [VECTORS, {**VECTORS, "head": "ridge"}, {}], ids=["slda", "ridge", "texts"])
def test_the_file_after_each_delta_has_the_fingerprint_of_its_version(
    node: str, package: Path, options: dict[str, object]
) -> None:
    model, files = Classifier(options), list[bytes]()
    batches = ((1, 60, "ab"), (100, 1, "a"), (200, 7, "bcä"), (300, 40, "dcba"))
    for version, batch in enumerate(batches, 1):
        model.learn(draw_examples(options, *batch))
        files.append(write_learner_file(model, LearnerFacts("m", str(version), batch[0])))
    model.unlearn(draw_examples(options, 200, 7, "bcä"))
    files.append(write_learner_file(model, LearnerFacts("m", "5", 400)))
    deltas = [write_delta(old, new) for old, new in pairwise(files)]
    applied = apply_in_node(node, package, files[0], deltas)
    expected = [read_learner_file(each).fingerprint() for each in files[1:]]
    assert [read_learner_file(each).fingerprint() for each in applied] == expected


def test_a_delta_of_another_version_is_refused(node: str, package: Path) -> None:
    model = Classifier(VECTORS)
    files = list[bytes]()
    for first in (1, 50, 90):
        model.learn(draw_examples(VECTORS, first, 20, "ab"))
        files.append(write_learner_file(model, LearnerFacts("m", str(first), first)))
    with pytest.raises(subprocess.CalledProcessError) as failed:
        apply_in_node(node, package, files[0], [write_delta(files[1], files[2])])
    assert "the sums of the file are not those of its fingerprint" in failed.value.stderr

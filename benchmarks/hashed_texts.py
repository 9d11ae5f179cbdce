"""How well hashed text features answer CLINC150's questions, beside those of MiniLM, and how long a text takes.

    questions -> hash_text | TextEncoder -> int8 [N, 384] --train--> slda, ridge, rp_ridge --> accuracy on validation and test questions

Both features have 384 numbers. Time is of one text after the other, without memory of earlier ones, on one core.
"""

import json
import time
from argparse import Namespace
from collections.abc import Sequence

import numpy as np

from benchmarks.clinc150 import Split, data_file, split
from benchmarks.report import command, create_parser, print_json, progress, run_on_one_thread, table
from online.io.cache import cache_folder
from online.models import Example
from online.models.classifier import Classifier
from online.models.encoders.hashed import find_place, hash_text
from online.models.encoders.text import TEXT_WIDTH, TextEncoder

HEADS = ("slda", "ridge", "rp_ridge")
TIMED = 300  # texts


def hash_split(name: str) -> Split:
    questions = json.loads(data_file().read_bytes())[name]
    rows = b"".join(hash_text(text) for text, _ in questions)
    return Split(np.frombuffer(rows, np.int8).reshape(-1, TEXT_WIDTH), [label for _, label in questions])


def learn(train: Split, head: str) -> Classifier:
    model = Classifier({"head": head})
    rows = zip(train.features, train.labels, strict=True)
    model.learn([Example(place, "label", row.tobytes(), label) for place, (row, label) in enumerate(rows)])
    return model


def measure_accuracy(model: Classifier, part: Split) -> float:
    choices = model.choose([row.tobytes() for row in part.features])
    return 100 * float(np.mean([one == other for one, other in zip(choices, part.labels, strict=True)]))


def measure_ms(features: str) -> float:
    texts: Sequence[str] = [text for text, _ in json.loads(data_file().read_bytes())["val"][:TIMED]]
    encoder = None if features == "hashed" else TextEncoder(cache_folder(), threads=1)
    find_place.cache_clear()
    started = time.perf_counter()
    for text in texts:
        if encoder is None:
            hash_text(text)
        else:
            encoder.encode([text])
    return 1_000 * (time.perf_counter() - started) / len(texts)


def main(args: Namespace) -> int:
    run_on_one_thread()
    results = []
    for features, read in (("hashed", hash_split), ("minilm", split)):
        parts = {name: read(name) for name in ("train", "val", "test")}
        for head in progress(HEADS, features):
            model = learn(parts["train"], head)
            scores = {name: measure_accuracy(model, parts[name]) for name in ("val", "test")}
            results.append({"features": features, "head": head, **scores, "ms_per_text": measure_ms(features)})
    if args.json:
        print_json({"results": results})
        return 0
    table("CLINC150, 150 intents", ("features, head", "validation %", "test %", "ms per text"), [
        (f"{each['features']}, {each['head']}", each["val"], each["test"], each["ms_per_text"]) for each in results
    ])  # fmt: skip
    return 0


if __name__ == "__main__":
    command(lambda: main(create_parser(__doc__ or "").parse_args()))

"""Measures what quantisation-aware training is worth: the same towers with and without it, exported to onnx-int8.

    log --learn, option quantisation_aware = off | int8--> tower --serve----> float answers ----\\
                                                             '---export--> int8 answers ------- compared, and both scored

For each seed both towers learn the same log and answer the same inputs, which were not learned. The file answers one input at a
time, as on a device. Figures are medians over the seeds; seconds are core time. Tasks:

digits               handwritten digits, three passes over 1,297 of 1,797; also by a cnn, and by six layers, whose errors add up
elec2                prices of electricity in order, the last fifth held out (ONLINE_SHARED_DATA)
intents              the int8 features of CLINC150 as vectors of 384 numbers: what the layers of the tower cost
clinc150             its questions as texts: the file has the encoder, too, whose int8 weights no tower learns
"""

import csv
import gzip
import os
import time
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.clinc150 import examples_of, read_questions, split
from benchmarks.exports import percent
from benchmarks.report import command, create_parser, print_json, progress, say, table
from benchmarks.service import BenchmarkError
from benchmarks.towers import digits, repeat_examples
from online.io.cache import cache_folder
from online.models import Example, Options, create, encoder_options
from online.models.encoders.factory import create_encoder
from online.plugins.export.exporter import RestoredVersion, build_graph, describe_export, read_encoder, unwrap
from online.plugins.export.formats import FORMATS
from online.plugins.export.golden import ServedModel
from online.plugins.export.graph import ExportGraphBuilder
from online.plugins.export.manifest import ExportSubject

CHOICES = ("off", "int8")  # of the option quantisation_aware
PASSES = 3
BATCH: Options = {"batch": 16, "replay": 16}
LARGER: Options = {"batch": 64, "replay": 64}  # of longer logs
NETWORKS: dict[str, Options] = {
    "digits": {},
    "digits cnn": {"network": "cnn", "image": [1, 8, 8]},
    "digits 6 layers": {"hidden": [128] * 6},
}
FORM = FORMATS["onnx-int8"]


@dataclass(frozen=True, slots=True)
class Task:
    """log: what is learned. instances, labels: what is asked. encode: instances -> what the model reads."""

    name: str
    options: Options
    log: Sequence[Example]
    instances: Sequence[Any]
    labels: Sequence[str]
    encode: Callable[[Sequence[Any]], list[bytes]]


@dataclass(frozen=True, slots=True)
class Result:
    """One tower, or medians. *_percent: right answers; equal choices. differences: of the probabilities of an input."""

    float_percent: float
    int8_percent: float
    agreement_percent: float
    mean_difference: float
    largest_difference: float
    learn_s: float


# the tasks


def encode_vectors(instances: Sequence[Any]) -> list[bytes]:
    return [np.array(each, np.float64).tobytes() for each in instances]


def vector_task(name: str, options: Options, log: Sequence[Example], held_out: Sequence[Example]) -> Task:
    instances = [np.frombuffer(each.features, np.float64).tolist() for each in held_out]
    found = {"input": "vector", "size": len(instances[0]), **BATCH, **options}
    return Task(name, found, log, instances, [each.label for each in held_out], encode_vectors)


def read_digits(name: str) -> Task:
    learned, held_out = digits()
    return vector_task(name, NETWORKS[name], repeat_examples(learned, PASSES * len(learned)), held_out)


def read_prices(name: str) -> Task:
    path = Path(os.environ.get("ONLINE_SHARED_DATA", "../shared/data")) / "elec2" / "electricity.csv.gz"
    if not path.exists():
        raise BenchmarkError(f"{path} does not exist; set ONLINE_SHARED_DATA to the folder that contains elec2")
    with gzip.open(path, "rt") as file:
        rows = [*csv.reader(file)][1:]
    examples = [Example(n, "label", encode_vectors([row[:-1]])[0], row[-1]) for n, row in enumerate(rows, 1)]
    until = len(examples) * 4 // 5
    return vector_task(name, LARGER, examples[:until], examples[until:])


def read_intents(name: str) -> Task:
    learned, held_out = (as_vectors(examples_of(split(part))) for part in ("train", "test"))
    order = np.random.default_rng(0).permutation(len(learned))
    return vector_task(name, LARGER, shuffle(learned, order), held_out)


def as_vectors(examples: Sequence[Example]) -> list[Example]:
    """int8 features as vectors of float64."""
    rows = (np.frombuffer(each.features, np.int8).astype(np.float64).tobytes() for each in examples)
    return [Example(each.offset, each.kind, row, each.label) for each, row in zip(examples, rows, strict=True)]


def shuffle(examples: Sequence[Example], order: NDArray[np.int64]) -> list[Example]:
    """Two passes over the examples in another order, at consecutive offsets."""
    return repeat_examples([examples[place] for place in order], 2 * len(examples))


def read_texts(name: str) -> Task:
    learned, questions = examples_of(split("train")), read_questions("test")
    order = np.random.default_rng(0).permutation(len(learned))
    chosen = np.random.default_rng(0).permutation(len(questions))[:1_000]
    texts, labels = zip(*(questions[place] for place in chosen), strict=True)
    options: Options = {"input": "text", **LARGER}
    encoder = create_encoder(encoder_options("tower", options), cache_folder())
    return Task(name, options, shuffle(learned, order), texts, labels, encoder.encode)


TASKS: dict[str, Callable[[str], Task]] = {
    **dict.fromkeys(NETWORKS, read_digits),
    "elec2": read_prices,
    "intents": read_intents,
    "clinc150": read_texts,
}


# one tower


def measure(task: Task, choice: str, seed: int) -> Result:
    options = {**task.options, "quantisation_aware": choice, "seed": seed}
    model = create("tower", options)
    warmed = create("tower", options)
    warmed.learn(task.log[: 2 * task.options["batch"]])  # imports torchao
    before = time.process_time()
    model.learn(task.log)
    learn_s = time.process_time() - before
    subject = ExportSubject("benchmark", 1, "tower", len(task.log), model.fingerprint(), "", model.feature_epoch())
    version = RestoredVersion(subject, options, ServedModel(model, task.encode))
    classes, found_NC = answer_with_file(version, task.instances)
    scores = [{each.id: each.score for each in answer.candidates} for answer in version.served.answer(task.instances)]
    served_NC = np.array([[each[label] for label in classes] for each in scores])
    chosen, own = ([classes[place] for place in chances_NC.argmax(1)] for chances_NC in (found_NC, served_NC))
    difference_N = np.abs(found_NC - served_NC).max(1)
    accuracies = percent(own, task.labels), percent(chosen, task.labels)
    return Result(*accuracies, percent(chosen, own), float(difference_N.mean()), float(difference_N.max()), learn_s)


def answer_with_file(version: RestoredVersion, instances: Sequence[Any]) -> tuple[tuple[str, ...], NDArray[np.float64]]:
    """The classes, and the chances [N, C] that an onnx-int8 file answers to one instance after the other."""
    spec, model, retired = unwrap(version)
    weights = read_encoder(version) if version.options["input"] == "text" else None
    graph = build_graph(spec, model, ExportGraphBuilder(FORM.wide, weights), retired)
    description = describe_export(version.subject, spec, graph, FORM)
    run = FORM.load(FORM.write(graph, description), description)
    calls = (call for instance in instances for call in graph.inputs.encode([instance]))
    return graph.classes, np.concatenate([run(call)["chances"] for call in calls]).astype(np.float64)


# the command


def run(task: Task, seeds: int) -> Iterator[tuple[str, list[Result]]]:
    """The results of each choice, by seed. Both learn a seed before the next, so that a busy machine slows both."""
    found: dict[str, list[Result]] = {choice: [] for choice in CHOICES}
    for seed in progress(range(seeds), task.name):
        for choice in CHOICES:
            found[choice].append(measure(task, choice, seed))
    yield from found.items()


def take_medians(results: Sequence[Result]) -> Result:
    return Result(*(median(getattr(each, field.name) for each in results) for field in fields(Result)))


def parse_flags() -> Namespace:
    parser = create_parser(__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--task", action="append", choices=[*TASKS], help="default: all; may be repeated")
    return parser.parse_args()


def main() -> int:
    flags = parse_flags()
    torch.set_num_threads(1)
    found = dict[str, dict[str, list[Result]]]()
    for name in flags.task or TASKS:
        say(name)
        found[name] = dict(run(TASKS[name](name), flags.seeds))
    if flags.json:
        rows = {name: {choice: [asdict(x) for x in each] for choice, each in found[name].items()} for name in found}
        print_json({"tasks": rows})
    else:
        show(found, flags.seeds)
    return 0


def show(found: dict[str, dict[str, list[Result]]], seeds: int) -> None:
    columns = (
        "tower",
        "aware",
        "float, %",
        "int8, %",
        "lost",
        "agreed, %",
        "mean diff.",
        "largest",
        "learn, s",
        "ratio",
    )
    cells = []
    for name, by_choice in found.items():
        base = take_medians(by_choice["off"]).learn_s
        for choice, results in by_choice.items():
            row = take_medians(results)
            lost = median(each.float_percent - each.int8_percent for each in results)
            accuracies = row.float_percent, row.int8_percent, lost, row.agreement_percent
            differences = f"{row.mean_difference:.1e}", f"{row.largest_difference:.1e}"
            cells.append((name, choice, *accuracies, *differences, row.learn_s, f"{row.learn_s / base:.1f}"))
    table(f"towers with and without quantisation-aware training, medians of {seeds} seeds", columns, cells)


if __name__ == "__main__":
    command(main)

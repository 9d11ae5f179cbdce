"""Measures exported files on one core and 512 MB: size, time to load, time per answer, and what a format costs in accuracy.

    version --export--> file --child process: one core, 512 MB--> load, answer one input after the other --> the table

Two models: handwritten digits (vectors of 64 numbers), and the 150 intents of CLINC150 (texts, with the encoder in the file). The child
holds only what its format needs. Of texts, each format also computes the int8 features alone: whether an answer is far from the
served one because another runtime rounded a feature the other way. Times are core time. The memory is limited by a cgroup where this user may create one, and otherwise measured only.
Formats whose extra is not installed are left out.
"""

import json
import os
import pickle
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from benchmarks.clinc150 import data_file, examples_of, split
from benchmarks.report import command, create_parser, percentile, print_json, say, table
from benchmarks.service import BenchmarkError
from online.errors import CannotExport
from online.io.cache import cache_folder
from online.models import Example, Options, create, encoder_options
from online.models.encoders.factory import create_encoder
from online.models.encoders.text import TEXT_WIDTH
from online.plugins.export.answers import AnswerGraph
from online.plugins.export.exporter import RestoredVersion, build_graph, describe_export, read_encoder, unwrap
from online.plugins.export.formats import FORMATS, ExportFormat
from online.plugins.export.golden import ServedModel
from online.plugins.export.graph import ExportGraphBuilder, GraphTensor
from online.plugins.export.inputs import read_texts
from online.plugins.export.manifest import ExportDescription, ExportSubject

MEMORY_BYTES = 512 << 20
CGROUPS = (  # version 2, then 1: the root, a file that it has, and the limit of a group
    ("/sys/fs/cgroup", "cgroup.controllers", "memory.max"),
    ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.limit_in_bytes"),
)
MAX_DIFFERENCE = 1e-4  # of ONNX, which promises the served answer
RUNTIMES = {
    "onnx": "onnxruntime",
    "onnx-int8": "onnxruntime",
    "safetensors": "torch",
    "executorch": "executorch.runtime",
    "litert": "ai_edge_litert.interpreter",
}
EXACT = ("onnx", "safetensors", "executorch")  # formats whose text encoder computes in float32
CALLS, CHANCES = "calls.pickle", "chances.npy"


@dataclass(frozen=True, slots=True)
class Task:
    """A model that has learned, and labelled instances that it has not."""

    name: str
    version: RestoredVersion
    instances: Sequence[Any]
    labels: Sequence[str]


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table. peak_mb: of the whole child process, whose runtime and Python are most of it."""

    task: str
    format: str
    megabytes: float
    load_ms: float
    answer_ms: float
    slowest_ms: float
    peak_mb: float
    accuracy_percent: float
    served_percent: float
    agreement_percent: float
    largest_difference: float
    near_percent: float
    rounding: "Rounding | None"


@dataclass(frozen=True, slots=True)
class Rounding:
    """Texts whose int8 features differ from the served ones, and how far answers are from the served ones.

    far_count: answers beyond MAX_DIFFERENCE; explained_count: those of them whose features differ. largest_of_equal: the
    largest difference where all features are equal. feature_count: other features, of all texts.
    """

    text_count: int
    feature_count: int
    far_count: int
    explained_count: int
    largest_of_equal: float


def learn_digits(count: int) -> Task:
    digits = load_digits()
    rows, labels = digits.data.astype(np.float64), [str(target) for target in digits.target]
    options = {"input": "vector", "size": 64, "scale": 16.0}
    examples = [Example(n + 1, "label", rows[n].tobytes(), labels[n]) for n in range(1_200)]
    held_out = slice(1_200, 1_200 + count)
    return Task("digits", restore(options, examples), rows[held_out].tolist(), labels[held_out])


def learn_intents(count: int) -> Task:
    questions = json.loads(data_file().read_bytes())["test"]
    places = np.random.default_rng(0).permutation(len(questions))[:count]
    texts, labels = zip(*(questions[place] for place in places), strict=True)
    return Task("clinc150", restore({"input": "text"}, examples_of(split("train"))), texts, labels)


def restore(options: Options, examples: Sequence[Example]) -> RestoredVersion:
    model = create("classifier", options)
    model.learn(examples)
    encoder = create_encoder(encoder_options("classifier", options), cache_folder())
    subject = ExportSubject("benchmark", 1, "classifier", len(examples), model.fingerprint(), "", model.feature_epoch())
    return RestoredVersion(subject, options, ServedModel(model, encoder.encode))


def measure(task: Task, form: ExportFormat, folder: Path) -> Row:
    """Raises CannotExport."""
    spec, model, retired = unwrap(task.version)
    weights = read_encoder(task.version) if task.version.options["input"] == "text" else None
    graph = build_graph(spec, model, ExportGraphBuilder(form.wide, weights), retired)
    description = describe_export(task.version.subject, spec, graph, form)
    data = form.write(graph, description)
    child, found_NC = answer_in_child(task, form, graph, description, data, folder)
    served = task.version.served.answer(task.instances)
    chosen = [graph.classes[place] for place in found_NC.argmax(1)]
    scores = [{candidate.id: candidate.score for candidate in answer.candidates} for answer in served]
    served_NC = np.array([[each[label] for label in graph.classes] for each in scores])
    differences_N = np.abs(found_NC - served_NC).max(1)
    is_near_N = differences_N <= MAX_DIFFERENCE
    return Row(
        task.name,
        form.name,
        len(data) / 1e6,
        child["load_ms"],
        child["answer_ms"],
        child["slowest_ms"],
        child["peak_mb"],
        percent(chosen, task.labels),
        percent([answer.choice for answer in served], task.labels),
        percent(chosen, [answer.choice for answer in served]),
        float(differences_N.max()),
        100 * float(is_near_N.mean()),
        explain(differences_N, find_other_features(task, form, folder)) if weights and form.name in EXACT else None,
    )


def answer_in_child(
    task: Task, form: ExportFormat, graph: AnswerGraph, description: ExportDescription, data: bytes, folder: Path
) -> tuple[dict[str, float], NDArray[np.float64]]:
    """The figures of a child process that answers each instance, and what it answered [N, C]."""
    (folder / form.file).write_bytes(data)
    calls = [call for instance in task.instances for call in graph.inputs.encode([instance])]
    (folder / CALLS).write_bytes(pickle.dumps((calls, description)))
    return run_child(form.name, folder), np.load(folder / CHANCES).astype(np.float64)


def find_other_features(task: Task, form: ExportFormat, folder: Path) -> NDArray[np.int64]:
    """How many int8 features [N] of each text this format has other than the served ones."""
    graph = ExportGraphBuilder(form.wide, read_encoder(task.version))
    features = read_texts(graph)
    output = GraphTensor("chances", "float32", ("B", TEXT_WIDTH), "The features, in place of an answer.")
    alone = AnswerGraph(
        graph.finish(features.schema.tensors, [(output, features.value)]), features.schema, (output,), ("none",)
    )
    description = describe_export(task.version.subject, unwrap(task.version)[0], alone, form)
    _, found_NF = answer_in_child(task, form, alone, description, form.write(alone, description), folder)
    served = b"".join(task.version.served.encode(task.instances))
    counts_N: NDArray[np.int64] = (found_NF != np.frombuffer(served, np.int8).reshape(found_NF.shape)).sum(1)
    return counts_N


def explain(differences_N: NDArray[np.float64], others_N: NDArray[np.int64]) -> Rounding:
    is_far_N, is_other_N = differences_N > MAX_DIFFERENCE, others_N > 0
    return Rounding(
        text_count=int(is_other_N.sum()),
        feature_count=int(others_N.sum()),
        far_count=int(is_far_N.sum()),
        explained_count=int((is_far_N & is_other_N).sum()),
        largest_of_equal=float(differences_N[~is_other_N].max(initial=0)),
    )


def percent(given: Sequence[Any], right: Sequence[Any]) -> float:
    return 100 * float(np.mean([one == other for one, other in zip(given, right, strict=True)]))


# the child process


def run_child(form: str, folder: Path) -> dict[str, float]:
    """Answer every call of the folder in a process with one core and limited memory."""
    arguments = [sys.executable, "-m", "benchmarks.exports", "--child", form, "--folder", str(folder)]
    with memory_group() as group:
        process = subprocess.run([*arguments, "--cgroup", group], capture_output=True, text=True)
    if process.returncode:
        raise BenchmarkError(f"{form} ended with {process.returncode}: {process.stderr[-500:]}")
    return dict(json.loads(process.stdout.splitlines()[-1]))


@contextmanager
def memory_group() -> Iterator[str]:
    """A cgroup with MEMORY_BYTES; "" where this user cannot create one."""
    for root, mark, limit in CGROUPS:
        folder = Path(root) / f"online-exports-{os.getpid()}"
        if not (Path(root) / mark).exists():
            continue
        try:
            folder.mkdir()
            (folder / limit).write_text(str(MEMORY_BYTES))
        except OSError:  # another version of cgroups, or no permission
            with suppress(OSError):
                folder.rmdir()
            continue
        try:
            yield str(folder)
        finally:
            folder.rmdir()
        return
    say("no cgroup can be created here: the memory is measured, and not limited")
    yield ""


def answer_calls(form: str, folder: Path, group: str) -> int:
    """What the child does: load the file, answer each call, print the times."""
    if group:
        (Path(group) / "cgroup.procs").write_text(str(os.getpid()))
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    calls, description = pickle.loads((folder / CALLS).read_bytes())
    import_module(RUNTIMES[form])  # which is not counted
    load, before = FORMATS[form].load, time.process_time()
    run = load((folder / FORMATS[form].file).read_bytes(), description)
    loaded_s = time.process_time() - before
    run(calls[0])
    times, chances = list[float](), list[NDArray[Any]]()
    for call in calls:
        before = time.process_time()
        outputs = run(call)
        times.append(1_000 * (time.process_time() - before))
        chances.append(outputs["chances"][0])
    np.save(folder / CHANCES, np.stack(chances))
    peak_mb = read_peak_kb() / 1_024
    figures = {"load_ms": 1_000 * loaded_s, "answer_ms": float(np.mean(times)), "slowest_ms": percentile(times, 99)}
    print(json.dumps({**figures, "peak_mb": peak_mb}))
    return 0


def read_peak_kb() -> int:
    """The most memory that this program has had; `getrusage` would count the one that started it."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


# the command


def parse_flags() -> Namespace:
    parser = create_parser(__doc__)
    parser.add_argument("--questions", type=int, default=1_000, help="of CLINC150's test")
    parser.add_argument("--digits", type=int, default=597, help="of the digits that are not learned; 597 at most")
    parser.add_argument("--format", action="append", choices=[*FORMATS], help="default: all; may be repeated")
    parser.add_argument("--child", help="used by the benchmark itself")
    parser.add_argument("--folder", type=Path, help="used by the benchmark itself")
    parser.add_argument("--cgroup", default="", help="used by the benchmark itself")
    return parser.parse_args()


def main() -> int:
    flags = parse_flags()
    if flags.child:
        return answer_calls(flags.child, flags.folder, flags.cgroup)
    rows = list[Row]()
    for learn, count in ((learn_digits, flags.digits), (learn_intents, flags.questions)):
        say(f"{learn.__name__.replace('_', ' ')}")
        task = learn(count)
        for name in flags.format or FORMATS:
            with tempfile.TemporaryDirectory() as folder:
                try:
                    rows.append(measure(task, FORMATS[name], Path(folder)))
                except CannotExport as error:
                    say(f"{task.name}, {name} left out: {error}")
    if flags.json:
        print_json({"rows": [asdict(row) for row in rows]})
    else:
        show(rows)
    return int(any(row.largest_difference > MAX_DIFFERENCE for row in rows if row.format == "onnx"))


def show(rows: Sequence[Row]) -> None:
    columns = (
        "model",
        "format",
        "MB",
        "load, ms",
        "answer, ms",
        "99 %, ms",
        "peak, MB",
        "right, %",
        "as served, %",
        "difference",
        "near, %",
    )
    cells = [
        (
            row.task,
            row.format,
            f"{row.megabytes:.3f}",
            row.load_ms,
            f"{row.answer_ms:.3f}",
            f"{row.slowest_ms:.3f}",
            f"{row.peak_mb:.0f}",
            f"{row.accuracy_percent:.2f} ({row.served_percent:.2f})",
            row.agreement_percent,
            f"{row.largest_difference:.1e}",
            row.near_percent,
        )
        for row in rows
    ]
    title = f"one core, 512 MB; right: of the file (of the served model); near: within {MAX_DIFFERENCE:g} of the served answer"
    table(title, columns, cells)
    for row in rows:
        if row.rounding is not None:
            say(describe_rounding(row, row.rounding))


def describe_rounding(row: Row, found: Rounding) -> str:
    return (
        f"{row.task}, {row.format}: {found.text_count} texts have {found.feature_count} other int8 features; {found.far_count} answers "
        f"are not near, {found.explained_count} of them of these texts; the others differ by {found.largest_of_equal:.1e} at most"
    )


if __name__ == "__main__":
    command(main)

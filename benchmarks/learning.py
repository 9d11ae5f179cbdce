"""Measures what the exact heads learn on CLINC150, each figure with its target and its peer.

    accuracy     class by class in one pass, compared with logistic regression on all examples at once
    forgetting   after each of 15 tasks, compared with the same head that learned the same classes at once
    calibration  whether answers with a probability of 80 % are right 80 % of the time, compared with a softmax
    outside      questions of no class: how many are detected, and at what cost in accuracy
    identity     the same sha256 from the same examples in other orders, batches and workers
    ingest       examples per second and core, compared with the same sums in floats
    solve        time for new weights: factorized again, and updated with one more example

    python -m benchmarks.learning [--only SECTION ...] [--quick] [--seeds 5] [--features 1024 2048 4096]

Everything runs on one thread.
"""

import time
import warnings
from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from benchmarks.clinc150 import Split, batches, examples_of, shuffled, split, tasks_of
from benchmarks.report import command, create_parser, print_json, progress, run_on_one_thread, say, table, verdict
from online.models import Example
from online.models.classifier import TEXT_NAMES, TEXT_OCTAVE, Classifier
from online.models.encoders.text import TEXT_SCALE, TEXT_WIDTH
from online.models.statistics.calibration import softmax
from online.models.statistics.exact import ExactStatistics, gram_product
from online.models.statistics.heads import Head
from online.models.statistics.projection import Projection
from online.models.statistics.ridge import solve_ridge
from online.models.statistics.slda import solve_slda

BEST_PERCENT, SLDA_PERCENT = 95.0, 93.0
ECE_PERCENT, BINS = 3.0, 15
IN_SCOPE_PERCENT = 93.0
MARGIN_PERCENT = 0.3  # because the threshold is chosen and judged on different questions
RECALL_PERCENT, AUROC_PERCENT = 60.0, 93.0
INGEST_RATE = 100_000.0
BATCH = 256
ROWS = 1_024  # in one call of `ingest`
COPIES = 4  # of the training set in one pass of `ingest`
PASSES = 5
SUBSET = 2_000  # examples of the slow runs
WIDTHS = (1_024, 2_048, 4_096)  # all features: the constant, the random ones and the inputs

SLDA = {"head": "slda"}
RIDGE = {"head": "ridge"}


@dataclass(frozen=True, slots=True)
class Section:
    """One table. is_exact: whether the guarantees of exactness hold in it."""

    title: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[object, ...]]
    is_exact: bool = True

    def content(self) -> dict[str, Any]:
        names = ("row", *self.columns[1:])
        return {
            "title": self.title,
            "is_exact": self.is_exact,
            "rows": [dict(zip(names, r, strict=True)) for r in self.rows],
        }


@dataclass(frozen=True, slots=True)
class SplitScores:
    """What a model gives to the N examples of a split.

    chances: calibrated probabilities. raw: probabilities of the same scores without a temperature.
    """

    chances_NC: NDArray[np.float64]
    raw_NC: NDArray[np.float64]
    confidence_N: NDArray[np.float64]
    right_N: NDArray[np.bool_]


questions = cache(split)


def rp_ridge(random_features: int, seed: int = 0) -> dict[str, Any]:
    return {"head": "rp_ridge", "random_features": random_features, "seed": seed}


def name_of(options: dict[str, Any]) -> str:
    return " ".join(f"{value:,}" if isinstance(value, int) else value for value in list(options.values())[:2])


def train_model(options: dict[str, Any], examples: Sequence[Example], batch: int = BATCH) -> Classifier:
    """Return a new model after one pass over the examples."""
    model = Classifier(options)
    for part in progress(list(batches(examples, batch)), name_of(options)):
        model.learn(part)
    return model


def score_split(model: Classifier, split: Split) -> SplitScores:
    """Score the model on a split."""
    solution = model._solved()
    features = model._features([row.tobytes() for row in split.features])
    verdict = solution.judge(features)
    choices = np.array(model.statistics.classes)[verdict.chances.argmax(1)]
    return SplitScores(
        verdict.chances, softmax(solution.scores(features)), verdict.confidence, choices == np.array(split.labels)
    )


def percent(hits: NDArray[Any]) -> float:
    return 100 * float(np.mean(hits))


def at_least(value: float, target: float) -> str:
    return verdict(value, target, at_least=True)


# accuracy


def accuracy(flags: Namespace) -> Section:
    examples = [example for task in tasks_of(examples_of(questions("train"))) for example in task]

    def after_one_pass(*variants: dict[str, Any]) -> tuple[str, float, str]:
        accuracies = []
        for options in variants:
            accuracies.append(percent(score_split(train_model(options, examples), questions("test")).right_N))
            say(f"{name_of(options)}, seed {options.get('seed', 0)}: {accuracies[-1]:.2f} %")
        spread = f"{min(accuracies):.2f}-{max(accuracies):.2f} ({len(accuracies)})" if len(accuracies) > 1 else ""
        return name_of(variants[0]), float(np.median(accuracies)), spread

    slda = after_one_pass(SLDA)
    others = [after_one_pass(RIDGE)]
    others += [after_one_pass(*(rp_ridge(count, seed) for seed in range(flags.seeds))) for count in flags.features]
    others.append(after_one_pass({"head": "best", "random_features": 1_024}))
    best = max(median for _, median, _ in (slda, *others))
    rows = [
        (*slda, "93.0", at_least(slda[1], SLDA_PERCENT)),
        *((*row, "", "") for row in others),
        ("best of them", best, "", "95.0", at_least(best, BEST_PERCENT)),
        ("logistic regression, joint", *logistic_regression(), "", ""),
    ]
    return Section(
        f"accuracy: {len(examples):,} examples class by class, one pass",
        ("head, random features", "test %, median", "range (seeds)", "target", ""),
        rows,
    )


def logistic_regression() -> tuple[float, str]:
    """Fit the peer: all examples at once, in several passes, on the same int8 features as unit vectors."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    say("logistic regression on everything at once ...")
    train, test = questions("train"), questions("test")
    peer, started = LogisticRegression(C=20, max_iter=1000), time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        peer.fit(train.features / np.float32(TEXT_SCALE), train.labels)
    right = float(peer.score(test.features / np.float32(TEXT_SCALE), test.labels))
    stopped = any(issubclass(warning.category, ConvergenceWarning) for warning in caught)
    return 100 * right, f"{time.perf_counter() - started:.0f} s{', not converged' if stopped else ''}"


# forgetting


def forgetting(flags: Namespace) -> Section:
    rows = [row for options in (SLDA, rp_ridge(1_024)) for row in forgetting_of(options)]
    return Section(
        "forgetting: 15 tasks of 10 classes; R(t, k) is the accuracy on task k after task t",
        ("", "final %", "average anytime %", "forgetting %", "sha256"),
        rows,
        is_exact=rows[0][-1] == rows[1][-1] and rows[3][-1] == rows[4][-1],
    )


def forgetting_of(options: dict[str, Any]) -> list[tuple[object, ...]]:
    """Learn task after task; compare each stage with a head that learned the same classes in one shuffled pass."""
    tasks, test_tasks = tasks_of(examples_of(questions("train"))), tasks_of(examples_of(questions("test")))
    model, ours, joint = Classifier(options), [], []
    for stage, seen in enumerate(progress(list(accumulate(tasks)), f"{name_of(options)}, 15 stages")):
        for part in batches(tasks[stage], BATCH):
            model.learn(part)
        ours.append(stage_accuracies(model, test_tasks[: stage + 1]))
        at_once = Classifier(options)
        at_once.learn(shuffled(seen))
        joint.append(stage_accuracies(at_once, test_tasks[: stage + 1]))
    difference = max(
        abs(a - b) for one, other in zip(ours, joint, strict=True) for a, b in zip(one, other, strict=True)
    )
    return [
        (f"{name_of(options)}, task by task", *summarize_accuracies(ours), model.fingerprint()[:16]),
        ("the same classes at once", *summarize_accuracies(joint), at_once.fingerprint()[:16]),
        ("largest difference of any R(t, k)", difference, "", "", "exact: 0" if difference == 0 else ""),
    ]


def stage_accuracies(model: Classifier, test_tasks: Sequence[Sequence[Example]]) -> list[float]:
    """Return the accuracy in percent on each task so far."""
    rows = [example for task in test_tasks for example in task]
    features = np.frombuffer(b"".join(example.features for example in rows), np.int8).reshape(-1, TEXT_WIDTH)
    right_N = score_split(model, Split(features, [example.label for example in rows])).right_N
    ends = list(accumulate(len(task) for task in test_tasks))
    return [percent(part) for part in np.split(right_N, ends[:-1])]


def summarize_accuracies(r: Sequence[Sequence[float]]) -> tuple[float, float, float]:
    """Return the mean of the last row; the mean over stages of the mean over tasks; the mean fall from best to last."""
    final = r[-1]
    anytime = float(np.mean([np.mean(stage) for stage in r]))
    falls = [max(stage[task] for stage in r[task:]) - final[task] for task in range(len(final))]
    return float(np.mean(final)), anytime, float(np.mean(falls))


# calibration


def calibration(flags: Namespace) -> Section:
    examples = examples_of(questions("train"))
    orders = {"shuffled": shuffled(examples), "class by class": [e for task in tasks_of(examples) for e in task]}
    rows: list[tuple[object, ...]] = []
    for options in (SLDA, rp_ridge(1_024)):
        for order, ordered in orders.items():
            of = score_split(train_model(options, ordered), questions("test"))
            calibrated, raw = (ece_percent(chances.max(1), of.right_N) for chances in (of.chances_NC, of.raw_NC))
            confidence = ece_percent(of.confidence_N, of.right_N)
            name = f"{name_of(options)}, {order}"
            rows.append((name, calibrated, confidence, raw, "3.0", verdict(calibrated, ECE_PERCENT)))
    columns = ("", "ECE % of the chance", "of the confidence", "of the raw softmax", "target", "")
    return Section(f"calibration: {BINS} bins, {len(questions('test').labels):,} test questions", columns, rows)


def ece_percent(chance_N: NDArray[np.float64], right_N: NDArray[np.bool_]) -> float:
    """Return the expected calibration error (Naeini et al. 2015) in percent."""
    bin_N = np.minimum((chance_N * BINS).astype(int), BINS - 1)
    gaps = [abs(float((chance_N - right_N)[bin_N == place].sum())) for place in range(BINS)]
    return 100 * sum(gaps) / len(chance_N)


# outside


def outside(flags: Namespace) -> Section:
    rows = [
        outside_of(options, taught)
        for options in (SLDA, *(rp_ridge(count) for count in flags.features if count <= 2_048))
        for taught in (200, 0)
    ]
    columns = ("", "in scope, val %", "in scope, test %", "recall %", "recall >= 60 at 93", "AUROC %", "AUROC >= 93")
    return Section(
        "outside: 1,000 questions of no class; a rejected question of a class counts as wrong", columns, rows
    )


def outside_of(options: dict[str, Any], taught: int) -> tuple[object, ...]:
    """Measure questions of no class. taught: how many others of no class are learned. The threshold is chosen on val."""
    from sklearn.metrics import roc_auc_score

    known = [example for name in ("oos_train", "oos_val") for example in examples_of(questions(name), 10**6)][:taught]
    examples = examples_of(questions("train"))
    taught_examples = shuffled(
        [*examples, *(Example(10**6 + n, "label", e.features, "oos") for n, e in enumerate(known))]
    )
    model = train_model({**options, "outside": "oos"}, taught_examples)
    val, test, none = (score_split(model, questions(name)) for name in ("val", "test", "oos_test"))
    threshold = highest_threshold(val, IN_SCOPE_PERCENT + MARGIN_PERCENT)
    kept_val, kept_test = (percent(of.right_N & (of.confidence_N >= threshold)) for of in (val, test))
    recall = percent(none.confidence_N < threshold)
    known_N = np.repeat([1, 0], [len(test.confidence_N), len(none.confidence_N)])
    auroc = 100 * float(roc_auc_score(known_N, np.concatenate([test.confidence_N, none.confidence_N])))
    met = at_least(recall, RECALL_PERCENT) if kept_test >= IN_SCOPE_PERCENT else "missed: in scope"
    return (
        f"{name_of(options)}, {taught} taught",
        kept_val,
        kept_test,
        recall,
        met,
        auroc,
        at_least(auroc, AUROC_PERCENT),
    )


def highest_threshold(of: SplitScores, target_percent: float) -> float:
    """Return the highest confidence threshold that keeps this many right answers; 0 if none does."""
    confidence_R = np.sort(of.confidence_N[of.right_N])[::-1]
    needed = int(np.ceil(target_percent / 100 * len(of.right_N)))
    return float(confidence_R[needed - 1]) if needed <= len(confidence_R) else 0.0


# identity


def identity(flags: Namespace) -> Section:
    examples = examples_of(questions("train"))
    of_slda = hashes(SLDA, shuffled(examples))
    of_ridge = hashes(rp_ridge(1_024), shuffled(examples)[:SUBSET])
    rows = [(name, of_slda[name][:16], of_ridge[name][:16]) for name in of_slda]
    same = len(set(of_slda.values())) == len(set(of_ridge.values())) == 1
    columns = ("sha256", f"slda, {len(examples):,} examples", f"rp_ridge 1,024, {SUBSET:,}")
    return Section(f"identity: {'the same in every row' if same else 'DIFFERENT'}", columns, rows, is_exact=same)


def hashes(options: dict[str, Any], examples: Sequence[Example]) -> dict[str, str]:
    half = len(examples) // 2
    others = [
        Example(10**6 + n, "label", row.tobytes(), "seen once")
        for n, row in enumerate(questions("val").features[: half // 4])
    ]
    undone = train_model(options, [*examples[:half], *others, *examples[half:]])
    undone.unlearn(others)
    resumed = Classifier(options)
    resumed.restore(train_model(options, examples[:half]).state())
    resumed.learn(examples[half:])
    models = {f"batches of {batch}": train_model(options, examples, batch) for batch in (500, 64, 1)}
    models["another order"] = train_model(options, [e for task in tasks_of(examples) for e in task])
    models |= {f"{workers} workers, merged": merged(options, examples, workers) for workers in (1, 3, 8)}
    models |= {"others unlearned": undone, "resumed from a state": resumed}
    return {name: model.fingerprint() for name, model in models.items()}


def merged(options: dict[str, Any], examples: Sequence[Example], workers: int) -> Classifier:
    first, *others = (train_model(options, examples[worker::workers]) for worker in range(workers))
    for other in others:
        first.statistics.merge(other.statistics)
    return first


# ingest


def ingest(flags: Namespace) -> Section:
    train = questions("train")
    names = sorted(set(train.labels))
    x_ND = np.tile(train.features, (COPIES, 1))
    classes_N = np.tile([names.index(label) for label in train.labels], COPIES)
    examples = examples_of(train)
    ways: list[tuple[str, int, Callable[[], object]]] = [
        ("ExactStatistics.add", len(x_ND), lambda: exact_sums(x_ND, classes_N, len(names), "cpu")),
        ("torch, float32, inexact", len(x_ND), lambda: torch_sums(x_ND, classes_N, len(names))),
        ("numpy, float32, inexact", len(x_ND), lambda: numpy_sums(x_ND, classes_N, len(names))),
        ("classifier.learn, slda", len(examples), lambda: train_model(SLDA, examples, ROWS)),
        ("its first 2,000, rp_ridge 1,024", SUBSET, lambda: train_model(rp_ridge(1_024), examples[:SUBSET], ROWS)),
    ]
    is_exact = True
    if torch.cuda.is_available():
        x_on_device = torch.from_numpy(x_ND).cuda()
        ways.append(("ExactStatistics.add, CUDA", len(x_ND), lambda: exact_sums(x_ND, classes_N, len(names), "cuda")))
        ways.append(("its product, from CUDA's memory", len(x_ND), lambda: gram_product(x_on_device)))
        is_exact = ways[0][2]() == ways[-2][2]()
    rows = [(name, *rates(run, count)) for name, count, run in ways]
    first = (*rows[0], "100,000", at_least(rows[0][1], INGEST_RATE))
    title = f"ingest: {TEXT_WIDTH} features, {len(names)} classes, {ROWS:,} rows a call, one thread; {device_name()}"
    return Section(
        title,
        ("", "examples/s/core", f"slowest-fastest of {PASSES}", "by the clock", "target", ""),
        [first, *((*row, "", "") for row in rows[1:])],
        is_exact,
    )


def device_name() -> str:
    return torch.cuda.get_device_name() if torch.cuda.is_available() else "no CUDA device is available"


def rates(run: Callable[[], object], count: int) -> tuple[float, str, float]:
    """Return examples per second of core time: the median, slowest-fastest, and the median by the clock."""
    passes = timed(run)
    by_core = [count / one.core_s for one in passes]
    by_clock = float(np.median([count / one.clock_s for one in passes]))
    return float(np.median(by_core)), f"{min(by_core):,.0f}-{max(by_core):,.0f}", by_clock


@dataclass(frozen=True, slots=True)
class Seconds:
    """Durations. core_s: processor time of this process, which depends less on other load."""

    core_s: float
    clock_s: float


def timed(run: Callable[[], object], passes: int = PASSES) -> list[Seconds]:
    """Time each pass, after one that is not counted."""

    def once() -> Seconds:
        core, clock = time.process_time(), time.perf_counter()
        run()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        return Seconds(time.process_time() - core, time.perf_counter() - clock)

    return [once() for _ in range(passes + 1)][1:]


def exact_sums(x_ND: NDArray[np.int8], classes_N: NDArray[np.intp], classes: int, device: str) -> bytes:
    """Return the sha256 of the sums."""
    statistics = ExactStatistics(x_ND.shape[1], device)
    for place in range(classes):
        statistics.add_class(str(place))
    for start in range(0, len(x_ND), ROWS):
        statistics.add(x_ND[start : start + ROWS], classes_N[start : start + ROWS].tolist())
    return statistics.digest()


def torch_sums(x_ND: NDArray[np.int8], classes_N: NDArray[np.intp], classes: int) -> tuple[Tensor, Tensor]:
    width = x_ND.shape[1]
    gram_DD, sums_CD = torch.zeros(width, width), torch.zeros(classes, width)
    for start in range(0, len(x_ND), ROWS):
        x_BD = torch.from_numpy(x_ND[start : start + ROWS]).to(torch.float32)
        gram_DD.addmm_(x_BD.T, x_BD)
        sums_CD.index_add_(0, torch.from_numpy(classes_N[start : start + ROWS]), x_BD)
    return gram_DD, sums_CD


def numpy_sums(
    x_ND: NDArray[np.int8], classes_N: NDArray[np.intp], classes: int
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    width = x_ND.shape[1]
    gram_DD, sums_CD = np.zeros((width, width), np.float32), np.zeros((classes, width), np.float32)
    for start in range(0, len(x_ND), ROWS):
        x_BD = x_ND[start : start + ROWS].astype(np.float32)
        gram_DD += x_BD.T @ x_BD
        np.add.at(sums_CD, classes_N[start : start + ROWS], x_BD)
    return gram_DD, sums_CD


# solve


def solve(flags: Namespace) -> Section:
    rows: list[tuple[object, ...]] = [("slda", TEXT_WIDTH, milliseconds(timed(solve_of_slda())), "", "", "")]
    for device in ("cpu", "cuda") if torch.cuda.is_available() else ("cpu",):
        rows += [solve_of_ridge(width, device) for width in progress(WIDTHS, f"solving on {device}")]
    title = f"solve: fresh weights, median ms of one core; {device_name()}"
    columns = ("", "features", "factorised again", "with one more", "with one more after 500", "difference")
    return Section(title, columns, rows)


def milliseconds(passes: Sequence[Seconds], device: str = "cpu") -> float:
    """Return the median, of core time, or by the clock if a device works while the core waits."""
    return 1_000 * float(np.median([one.core_s if device == "cpu" else one.clock_s for one in passes]))


def solve_of_slda() -> Callable[[], object]:
    head = head_of(0, SUBSET, "slda", "cpu")
    return lambda: solve_slda(head.statistics, head.shrinkage, head.priors)


def solve_of_ridge(width: int, device: str) -> tuple[object, ...]:
    """Time the solver, and compare weights updated over 500 rows with factorized ones."""
    head = head_of(width - 1 - TEXT_WIDTH, SUBSET, "rp_ridge", device)
    val = questions("val")
    classes = [head.statistics.add_class(label) for label in val.labels[:500]]
    more_NM = head.features(val.features[:500])

    def solve_again() -> NDArray[np.float32]:
        head.ridge.forget()
        return head.solve().weights.matrix

    def add(rows: slice) -> NDArray[np.float32]:
        head.add(more_NM[rows], classes[rows])
        return head.solve().weights.matrix

    factorised_s = timed(solve_again, 3)
    one_by_one = iter(range(2 * PASSES + 2))
    updated = timed(lambda: add(slice(place := next(one_by_one), place + 1)))
    add(slice(2 * PASSES + 2, None))
    updated_late = timed(lambda: add(slice(place := next(one_by_one), place + 1)))
    exact = solve_ridge(head.statistics, head.decided.ridge_ratio)
    difference = float(np.abs(head.solve().weights.matrix - exact).max() / np.abs(exact).max())
    times = [milliseconds(passes, device) for passes in (factorised_s, updated, updated_late)]
    return f"rp_ridge, {device}", width, *times, f"{difference:.0e}"


def head_of(random_features: int, rows: int, name: str, device: str) -> Head:
    train = questions("train")
    head = Head(name, Projection(random_features, 0, *TEXT_OCTAVE), 0.5, True, device)
    head.name_columns(TEXT_NAMES)
    chosen = np.random.default_rng(0).permutation(len(train.labels))[:rows]
    classes = [head.statistics.add_class(train.labels[place]) for place in chosen]
    head.add(head.features(train.features[chosen]), classes)
    return head


SECTIONS: dict[str, Callable[[Namespace], Section]] = {
    section.__name__: section for section in (accuracy, forgetting, calibration, outside, identity, ingest, solve)
}


def parse_flags() -> Namespace:
    parser = create_parser(__doc__ or "")
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=list(SECTIONS), help="only these sections")
    parser.add_argument("--quick", action="store_true", help="one seed, 1,024 random features")
    parser.add_argument("--seeds", type=int, default=5, help="number of seeds of the random features (default: 5)")
    parser.add_argument(
        "--features", type=int, nargs="+", default=[1_024, 2_048, 4_096], help="numbers of random features"
    )
    flags = parser.parse_args()
    if flags.quick:
        flags.seeds, flags.features = 1, [1_024]
    return flags


def main() -> int:
    flags = parse_flags()
    run_on_one_thread()
    sections = {name: SECTIONS[name](flags) for name in flags.only}
    if flags.json:
        print_json({"benchmark": "learning", **{name: section.content() for name, section in sections.items()}})
    else:
        for section in sections.values():
            table(section.title, section.columns, section.rows)
    return int(not all(section.is_exact for section in sections.values()))


if __name__ == "__main__":
    command(main)

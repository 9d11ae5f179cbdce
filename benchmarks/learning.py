"""What the exact heads learn, on CLINC150, each figure beside its bar and its peer.

    accuracy     class by class in one pass, beside logistic regression that sees all examples at once
    forgetting   after each of 15 tasks, beside the same head that learned the same classes at once
    calibration  is a chance of 80 % right in 80 of 100 answers? Beside the softmax of the raw scores
    outside      questions that belong to no label: are they told apart, and at what cost
    identity     the same examples in another order, other batches, other workers: the same sha256
    ingest       examples a second and core, beside the same sums in floats
    solve        how long fresh weights take: factorised anew, and brought up to date with one more example

    python -m benchmarks.learning [--only SECTION ...] [--quick] [--seeds 5] [--features 1024 2048 4096]

Everything runs on one thread (set OMP_NUM_THREADS=1 for numpy's part).
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

from benchmarks.clinc150 import Split, cut, examples_of, shuffled, split, tasks_of
from benchmarks.report import command, parser, print_json, progress, say, table, verdict
from online.models import Example
from online.models.calibration import softmax
from online.models.classifier import TEXT_NAMES, TEXT_OCTAVE, Classifier
from online.models.encoder import TEXT_SCALE, TEXT_WIDTH
from online.models.exact import ExactStatistics, products, solve_slda
from online.models.heads import Head
from online.models.projection import Projection
from online.models.ridge import factorised, solved_ridge

BEST_PERCENT, SLDA_PERCENT = 95.0, 93.0
ECE_PERCENT, BINS = 3.0, 15
IN_SCOPE_PERCENT, MARGIN_PERCENT = (
    93.0,
    0.3,
)  # the margin: a threshold is chosen on other questions than it is judged on
RECALL_PERCENT, AUROC_PERCENT = 60.0, 93.0
INGEST_RATE = 100_000.0
BATCH = 256
ROWS = 1_024  # a call of the ingest rate
TIMES_OVER = 4  # the training set, so that one pass takes a while
PASSES = 5
SUBSET = 2_000  # examples of the runs that go one by one
WIDE = (1_024, 2_048, 4_096)  # features in all: the constant, the random ones and the inputs

SLDA = {"head": "slda"}
RIDGE = {"head": "ridge"}


@dataclass(frozen=True, slots=True)
class Section:
    """One table. kept: whether what is promised as exact was exact."""

    title: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[object, ...]]
    kept: bool = True

    def content(self) -> dict[str, Any]:
        names = ("row", *self.columns[1:])
        return {"title": self.title, "kept": self.kept, "rows": [dict(zip(names, r, strict=True)) for r in self.rows]}


@dataclass(frozen=True, slots=True)
class Judged:
    """chances: float64 [N, C]; raw: the same scores as probabilities without a temperature; confidence, right: [N]"""

    chances_NC: NDArray[np.float64]
    raw_NC: NDArray[np.float64]
    confidence_N: NDArray[np.float64]
    right_N: NDArray[np.bool_]


questions = cache(split)


def rp_ridge(random_features: int, seed: int = 0) -> dict[str, Any]:
    return {"head": "rp_ridge", "random_features": random_features, "seed": seed}


def named(options: dict[str, Any]) -> str:
    return " ".join(f"{value:,}" if isinstance(value, int) else value for value in list(options.values())[:2])


def learned(options: dict[str, Any], examples: Sequence[Example], batch: int = BATCH) -> Classifier:
    """The model after one pass."""
    model = Classifier(options)
    for part in progress(list(cut(examples, batch)), named(options)):
        model.learn(part)
    return model


def judged(model: Classifier, asked: Split) -> Judged:
    """As it would answer, chance and confidence included."""
    solution = model._solved()
    features = model._features([row.tobytes() for row in asked.features])
    told = solution.judge(features)
    choices = np.array(model.statistics.labels)[told.chances.argmax(1)]
    return Judged(told.chances, softmax(solution.scores(features)), told.confidence, choices == np.array(asked.labels))


def percent(hits: NDArray[Any]) -> float:
    return 100 * float(np.mean(hits))


def at_least(value: float, target: float) -> str:
    return verdict(value, target, at_least=True)


# accuracy


def accuracy(flags: Namespace) -> Section:
    examples = [example for task in tasks_of(examples_of(questions("train"))) for example in task]

    def after_one_pass(*variants: dict[str, Any]) -> tuple[str, float, str]:
        found = []
        for options in variants:
            found.append(percent(judged(learned(options, examples), questions("test")).right_N))
            say(f"{named(options)}, seed {options.get('seed', 0)}: {found[-1]:.2f} %")
        spread = f"{min(found):.2f}-{max(found):.2f} ({len(found)})" if len(found) > 1 else ""
        return named(variants[0]), float(np.median(found)), spread

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
        ("head, random features", "test %, median", "range (seeds)", "bar", ""),
        rows,
    )


def logistic_regression() -> tuple[float, str]:
    """The peer: all examples at once, as often as it takes, on the same int8 features as unit vectors."""
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
        "forgetting: 15 tasks of 10 labels; R(t, k) is the accuracy on task k after task t",
        ("", "final %", "average anytime %", "forgetting %", "sha256"),
        rows,
        kept=rows[0][-1] == rows[1][-1] and rows[3][-1] == rows[4][-1],
    )


def forgetting_of(options: dict[str, Any]) -> list[tuple[object, ...]]:
    """Task after task, and at each stage a head of its own that learned the same classes in one shuffled pass."""
    tasks, asked = tasks_of(examples_of(questions("train"))), tasks_of(examples_of(questions("test")))
    model, ours, joint = Classifier(options), [], []
    for stage, seen in enumerate(progress(list(accumulate(tasks)), f"{named(options)}, 15 stages")):
        for part in cut(tasks[stage], BATCH):
            model.learn(part)
        ours.append(stage_accuracies(model, asked[: stage + 1]))
        at_once = Classifier(options)
        at_once.learn(shuffled(seen))
        joint.append(stage_accuracies(at_once, asked[: stage + 1]))
    apart = max(abs(a - b) for one, other in zip(ours, joint, strict=True) for a, b in zip(one, other, strict=True))
    return [
        (f"{named(options)}, task by task", *figures(ours), model.fingerprint()[:16]),
        ("the same classes at once", *figures(joint), at_once.fingerprint()[:16]),
        ("largest difference of any R(t, k)", apart, "", "", "exact: 0" if apart == 0 else ""),
    ]


def stage_accuracies(model: Classifier, asked: Sequence[Sequence[Example]]) -> list[float]:
    """Percent right on each task so far."""
    rows = [example for task in asked for example in task]
    features = np.frombuffer(b"".join(example.features for example in rows), np.int8).reshape(-1, TEXT_WIDTH)
    right_N = judged(model, Split(features, [example.label for example in rows])).right_N
    ends = list(accumulate(len(task) for task in asked))
    return [percent(part) for part in np.split(right_N, ends[:-1])]


def figures(r: Sequence[Sequence[float]]) -> tuple[float, float, float]:
    """Mean of the last row; mean over stages of the mean over tasks so far; mean fall from a task's best to its last."""
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
        for order, told in orders.items():
            of = judged(learned(options, told), questions("test"))
            calibrated, raw = (ece_percent(chances.max(1), of.right_N) for chances in (of.chances_NC, of.raw_NC))
            confidence = ece_percent(of.confidence_N, of.right_N)
            name = f"{named(options)}, {order}"
            rows.append((name, calibrated, confidence, raw, "3.0", verdict(calibrated, ECE_PERCENT)))
    columns = ("", "ECE % of the chance", "of the confidence", "of the raw softmax", "bar", "")
    return Section(f"calibration: {BINS} bins, {len(questions('test').labels):,} test questions", columns, rows)


def ece_percent(chance_N: NDArray[np.float64], right_N: NDArray[np.bool_]) -> float:
    """Expected calibration error (Naeini et al. 2015): how far chance and share of right ones are apart, by bin."""
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
    return Section("outside: 1,000 questions of no label; a rejected one of a label counts as wrong", columns, rows)


def outside_of(options: dict[str, Any], taught: int) -> tuple[object, ...]:
    """taught: questions of no label among the examples. The threshold is chosen on val, and applied to test."""
    from sklearn.metrics import roc_auc_score

    strange = [example for name in ("oos_train", "oos_val") for example in examples_of(questions(name), 10**6)][:taught]
    examples = examples_of(questions("train"))
    told = shuffled([*examples, *(Example(10**6 + n, "label", e.features, "oos") for n, e in enumerate(strange))])
    model = learned({**options, "outside": "oos"}, told)
    val, test, none = (judged(model, questions(name)) for name in ("val", "test", "oos_test"))
    threshold = highest_threshold(val, IN_SCOPE_PERCENT + MARGIN_PERCENT)
    kept_val, kept_test = (percent(of.right_N & (of.confidence_N >= threshold)) for of in (val, test))
    recall = percent(none.confidence_N < threshold)
    known_N = np.repeat([1, 0], [len(test.confidence_N), len(none.confidence_N)])
    auroc = 100 * float(roc_auc_score(known_N, np.concatenate([test.confidence_N, none.confidence_N])))
    met = at_least(recall, RECALL_PERCENT) if kept_test >= IN_SCOPE_PERCENT else "missed: in scope"
    return (
        f"{named(options)}, {taught} taught",
        kept_val,
        kept_test,
        recall,
        met,
        auroc,
        at_least(auroc, AUROC_PERCENT),
    )


def highest_threshold(of: Judged, target_percent: float) -> float:
    """The highest confidence to ask for that leaves this many right; 0 where there are not as many even so."""
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
    return Section(f"identity: {'the same in every row' if same else 'DIFFERENT'}", columns, rows, kept=same)


def hashes(options: dict[str, Any], examples: Sequence[Example]) -> dict[str, str]:
    half = len(examples) // 2
    strangers = [
        Example(10**6 + n, "label", row.tobytes(), "seen once")
        for n, row in enumerate(questions("val").features[: half // 4])
    ]
    undone = learned(options, [*examples[:half], *strangers, *examples[half:]])
    undone.unlearn(strangers)
    resumed = Classifier(options)
    resumed.restore(learned(options, examples[:half]).state())
    resumed.learn(examples[half:])
    found = {f"batches of {batch}": learned(options, examples, batch) for batch in (500, 64, 1)}
    found["another order"] = learned(options, [e for task in tasks_of(examples) for e in task])
    found |= {f"{workers} workers, merged": merged(options, examples, workers) for workers in (1, 3, 8)}
    found |= {"others unlearned": undone, "resumed from a state": resumed}
    return {name: model.fingerprint() for name, model in found.items()}


def merged(options: dict[str, Any], examples: Sequence[Example], workers: int) -> Classifier:
    first, *others = (learned(options, examples[worker::workers]) for worker in range(workers))
    for other in others:
        first.statistics.merge(other.statistics)
    return first


# ingest


def ingest(flags: Namespace) -> Section:
    train = questions("train")
    names = sorted(set(train.labels))
    x_ND = np.tile(train.features, (TIMES_OVER, 1))
    classes_N = np.tile([names.index(label) for label in train.labels], TIMES_OVER)
    examples = examples_of(train)
    ways: list[tuple[str, int, Callable[[], object]]] = [
        ("ExactStatistics.add", len(x_ND), lambda: exact_sums(x_ND, classes_N, len(names), "cpu")),
        ("torch, float32, inexact", len(x_ND), lambda: torch_sums(x_ND, classes_N, len(names))),
        ("numpy, float32, inexact", len(x_ND), lambda: numpy_sums(x_ND, classes_N, len(names))),
        ("classifier.learn, slda", len(examples), lambda: learned(SLDA, examples, ROWS)),
        ("its first 2,000, rp_ridge 1,024", SUBSET, lambda: learned(rp_ridge(1_024), examples[:SUBSET], ROWS)),
    ]
    kept = True
    if torch.cuda.is_available():
        x_on_device = torch.from_numpy(x_ND).cuda()
        ways.append(("ExactStatistics.add, CUDA", len(x_ND), lambda: exact_sums(x_ND, classes_N, len(names), "cuda")))
        ways.append(("its product, from CUDA's memory", len(x_ND), lambda: products(x_on_device)))
        kept = ways[0][2]() == ways[-2][2]()
    rows = [(name, *rates(run, count)) for name, count, run in ways]
    barred = (*rows[0], "100,000", at_least(rows[0][1], INGEST_RATE))
    title = f"ingest: {TEXT_WIDTH} features, {len(names)} labels, {ROWS:,} rows a call, one thread; {device_said()}"
    return Section(
        title,
        ("", "examples/s/core", f"slowest-fastest of {PASSES}", "by the clock", "bar", ""),
        [barred, *((*row, "", "") for row in rows[1:])],
        kept,
    )


def device_said() -> str:
    return torch.cuda.get_device_name() if torch.cuda.is_available() else "no CUDA device is at hand"


def rates(run: Callable[[], object], count: int) -> tuple[float, str, float]:
    """Examples a second of the core's time: the median, slowest-fastest, and the median by the clock."""
    passes = timed(run)
    by_core = [count / one.core_s for one in passes]
    by_clock = float(np.median([count / one.clock_s for one in passes]))
    return float(np.median(by_core)), f"{min(by_core):,.0f}-{max(by_core):,.0f}", by_clock


@dataclass(frozen=True, slots=True)
class Seconds:
    """core_s: of this process on its one thread, which a crowded machine stretches less."""

    core_s: float
    clock_s: float


def timed(run: Callable[[], object], passes: int = PASSES) -> list[Seconds]:
    """Each pass, after one that is not counted."""

    def once() -> Seconds:
        core, clock = time.process_time(), time.perf_counter()
        run()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        return Seconds(time.process_time() - core, time.perf_counter() - clock)

    return [once() for _ in range(passes + 1)][1:]


def exact_sums(x_ND: NDArray[np.int8], classes_N: NDArray[np.intp], classes: int, device: str) -> bytes:
    """Their sha256."""
    statistics = ExactStatistics(x_ND.shape[1], device)
    for place in range(classes):
        statistics.add_label(str(place))
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
        rows += [solve_of_ridge(width, device) for width in progress(WIDE, f"solving on {device}")]
    title = f"solve: fresh weights, median ms of one core; {device_said()}"
    columns = ("", "features", "factorised anew", "with one more", "with one more after 500", "apart")
    return Section(title, columns, rows)


def milliseconds(passes: Sequence[Seconds], device: str = "cpu") -> float:
    """The median, of the core's time, or by the clock where a device works while the core waits."""
    return 1_000 * float(np.median([one.core_s if device == "cpu" else one.clock_s for one in passes]))


def solve_of_slda() -> Callable[[], object]:
    head = head_of(0, SUBSET, "slda", "cpu")
    return lambda: solve_slda(head.statistics, head.shrinkage, head.priors)


def solve_of_ridge(width: int, device: str) -> tuple[object, ...]:
    """apart: weights brought up to date over 500 rows, and those of a factorisation with the lambda of before."""
    head = head_of(width - 1 - TEXT_WIDTH, SUBSET, "rp_ridge", device)
    val = questions("val")
    classes = [head.statistics.add_label(label) for label in val.labels[:500]]
    more_NM = head.features(val.features[:500])

    def anew() -> NDArray[np.float32]:
        head.solver.forget()
        return head.solve().weights.matrix

    def add(rows: slice) -> NDArray[np.float32]:
        head.add(more_NM[rows], classes[rows])
        return head.solve().weights.matrix

    then, factorised_anew = mean_square(head), timed(anew, 3)
    one_by_one = iter(range(2 * PASSES + 2))
    updated = timed(lambda: add(slice(place := next(one_by_one), place + 1)))
    add(slice(2 * PASSES + 2, None))
    updated_late = timed(lambda: add(slice(place := next(one_by_one), place + 1)))
    ratio = head.decided.ridge_ratio * then / mean_square(head)
    exact = solved_ridge(head.statistics, factorised(head.statistics.gram, ratio)).cpu().numpy()
    apart = float(np.abs(head.solve().weights.matrix - exact).max() / np.abs(exact).max())
    times = [milliseconds(found, device) for found in (factorised_anew, updated, updated_late)]
    return f"rp_ridge, {device}", width, *times, f"{apart:.0e}"


def mean_square(head: Head) -> float:
    """Of a feature, summed over the examples."""
    return float(head.statistics.gram.diagonal().to(torch.float64).mean())


def head_of(random_features: int, rows: int, name: str, device: str) -> Head:
    train = questions("train")
    head = Head(name, Projection(random_features, 0, *TEXT_OCTAVE), 0.5, True, device)
    head.name_columns(TEXT_NAMES)
    chosen = np.random.default_rng(0).permutation(len(train.labels))[:rows]
    classes = [head.statistics.add_label(train.labels[place]) for place in chosen]
    head.add(head.features(train.features[chosen]), classes)
    return head


SECTIONS: dict[str, Callable[[Namespace], Section]] = {
    section.__name__: section for section in (accuracy, forgetting, calibration, outside, identity, ingest, solve)
}


def flags_given() -> Namespace:
    made = parser(__doc__ or "")
    made.add_argument("--only", nargs="+", choices=SECTIONS, default=list(SECTIONS), help="these sections")
    made.add_argument("--quick", action="store_true", help="one seed, 1,024 random features")
    made.add_argument("--seeds", type=int, default=5, help="of the random features (default: 5)")
    made.add_argument("--features", type=int, nargs="+", default=[1_024, 2_048, 4_096], help="how many random ones")
    flags = made.parse_args()
    if flags.quick:
        flags.seeds, flags.features = 1, [1_024]
    return flags


def main() -> int:
    flags = flags_given()
    torch.set_num_threads(1)
    sections = {name: SECTIONS[name](flags) for name in flags.only}
    if flags.json:
        print_json({"benchmark": "learning", **{name: section.content() for name, section in sections.items()}})
    else:
        for section in sections.values():
            table(section.title, section.columns, section.rows)
    return int(not all(section.kept for section in sections.values()))


if __name__ == "__main__":
    command(main)

"""The exact kind beside gradients: what it learns from shares that arrive late and in another order.

shares of the rows --delays--> arrivals --merge, or learn where something is decided--> accuracy, sha256
"""

import math
from dataclasses import dataclass

import numpy as np

from labs.parameter_server.delays import Delays
from labs.parameter_server.simulation import simulate_arrivals
from labs.parameter_server.study.data import DATA_SETS, Data
from online.models import create
from online.models.contract import Model, choose
from online.models.statistics.partial_sums import as_summing

JUDGED_EVERY = 16  # shares, while a target is awaited


@dataclass(frozen=True, slots=True)
class ExactJob:
    """head: of a classifier. rows: of a share. target: the accuracy, in percent, whose instant is asked for."""

    data: str
    head: str
    workers: int
    delays: Delays
    rows: int
    target: float = math.inf


@dataclass(frozen=True, slots=True)
class ExactOutcome:
    """elapsed_s: when the last share had come. reached_s: when the target was reached; NaN if never."""

    accuracy: float
    sha256: str
    elapsed_s: float
    reached_s: float


def run_exact(job: ExactJob) -> ExactOutcome:
    """The rows are those of seed 0 whatever the seed of the delays, which alone differ."""
    data = DATA_SETS[job.data].load(0, False)
    options, examples = DATA_SETS[job.data].options[job.head], data.examples()
    examples = [examples[place] for place in np.random.Generator(np.random.Philox(0)).permutation(len(examples))]
    model, reader = create("classifier", options), as_summing(create("classifier", options))
    shares = [examples[start : start + job.rows] for start in range(0, len(examples), job.rows)]
    reached_s = elapsed_s = math.nan
    for count, (elapsed_s, number) in enumerate(simulate_arrivals(job.delays, job.workers, len(shares)), 1):
        sums = reader.sum_up(shares[number])
        if sums is None or not as_summing(model).merge(sums):
            model.learn(shares[number])
        is_due = job.target < math.inf and math.isnan(reached_s) and count % JUDGED_EVERY == 0
        if is_due and judge(model, data) >= job.target:
            reached_s = elapsed_s
    return ExactOutcome(judge(model, data), model.fingerprint(), elapsed_s, reached_s)


def judge(model: Model, data: Data) -> float:
    """Accuracy in percent."""
    labels = [str(label) for label in data.judged_class_N.tolist()]
    choices = choose(model, data.judged_features)
    return 100 * float(np.mean([choice == label for choice, label in zip(choices, labels, strict=True)]))

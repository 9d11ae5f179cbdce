"""All rounds of secure aggregation for the clients of a task, in groups, beside a model that has learned the rows itself."""

import os
import time
from argparse import Namespace
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from statistics import mean

import numpy as np
from numpy.typing import NDArray

from benchmarks.cohorts.tasks import Rows, Task
from online.models import Example, Options
from online.models.classifier import Classifier
from online.models.statistics.exact import ExactStatistics
from online_federated.secure_aggregation.client import AggregationClient
from online_federated.secure_aggregation.errors import AggregationFailed
from online_federated.secure_aggregation.messages import (
    AggregationGroup,
    PublicKeys,
    SealedShares,
    Unmasking,
    choose_threshold,
)
from online_federated.secure_aggregation.server import recover_sum, route_shares
from online_federated.values import (
    SumLimits,
    check_limits,
    choose_layout,
    flatten_sums,
    unflatten_sums,
)

GAPS = 3  # between the rounds, in which clients drop out: before sharing, before masking, before unmasking


@dataclass(frozen=True, slots=True)
class Model:
    """What the members of a group agree on."""

    options: Options
    classes: list[str]
    limits: SumLimits


@dataclass(frozen=True, slots=True)
class Job:
    """One group. rows: of each client. last: the round (0 to 3) after which each client is gone; 3: it stays."""

    number: int
    rows: Sequence[Rows]
    last: Sequence[int]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the server has of one group. survivors: places of the clients in it. total: None if too few were left."""

    number: int
    survivors: Sequence[int]
    total: NDArray[np.int64] | None
    sent_bytes: Sequence[int]
    seconds: float


@dataclass(frozen=True, slots=True)
class Federated:
    """Exact sums of all groups. worst_case_kb: masked values of a client without limits of the total."""

    clients: int
    groups: int
    survivors: int
    failed_groups: int
    largest_up_kb: float
    mean_up_kb: float
    worst_case_kb: float
    seconds: float
    merged_sha256: str
    central_sha256: str
    accuracy: float
    central_accuracy: float
    accuracy_of_all: float


def run_group(model: Model, width: int, job: Job) -> Outcome:
    """All rounds of one group, every message of which goes through the server."""
    began, count = time.perf_counter(), len(job.rows)
    layout = choose_layout(len(model.classes), width, model.limits)
    group = AggregationGroup(b"group %d" % job.number, choose_threshold(count), layout)
    clients = {place + 1: AggregationClient(os.urandom) for place in range(count)}
    sent = dict.fromkeys(clients, 0)
    keys: dict[int, PublicKeys] = {}
    for number, client in clients.items():
        keys[number] = client.advertise()
        sent[number] += len(keys[number].sealing) + len(keys[number].masking)
    shared: dict[int, SealedShares] = {}
    for number in stay(job, 1):
        shared[number] = clients[number].share(group, number, keys)
        sent[number] += len(shared[number].commitment) + sum(map(len, shared[number].sealed.values()))
    masked: dict[int, bytes] = {}
    for number in stay(job, 2):
        values = sum_rows(model, job.rows[number - 1])
        masked[number] = clients[number].mask(route_shares(shared, number), values)
        sent[number] += len(masked[number])
    revealed: dict[int, Unmasking] = {}
    for number in stay(job, 3):
        revealed[number] = clients[number].unmask(masked.keys())
        sent[number] += sum(map(len, [*revealed[number].masking_keys.values(), *revealed[number].seeds.values()]))
    try:
        total = recover_sum(group, keys, shared, masked, revealed)
        check_limits(unflatten_sums(total, len(model.classes), width), model.limits)
    except AggregationFailed:
        total = None
    return Outcome(job.number, [n - 1 for n in masked], total, [*sent.values()], time.perf_counter() - began)


def stay(job: Job, round: int) -> list[int]:
    """The numbers of the clients that are there in a round."""
    return [place + 1 for place, last in enumerate(job.last) if last >= round]


def sum_rows(model: Model, rows: Rows) -> NDArray[np.int64]:
    """What one client's examples add up to, with all classes of the cohort in their order."""
    device = learn_rows(model.options, rows)
    sums = ExactStatistics(device.statistics.width)
    for label in model.classes:
        sums.add_class(label)
    sums.merge(device.statistics)
    return flatten_sums(sums.tensors())


def learn_rows(options: Options, rows: Rows) -> Classifier:
    model = Classifier(options)
    model.learn([Example(place, "label", features, label) for place, (features, label) in enumerate(rows, 1)])
    return model


def aggregate(task: Task, options: Namespace) -> Federated:
    began, random, dealt = time.perf_counter(), np.random.default_rng(options.seed), task.clients
    last = np.full(len(dealt), GAPS)
    gone = random.permutation(len(dealt))[: round(options.drop * len(dealt))]
    last[gone] = random.integers(0, GAPS, len(gone))
    parts = np.array_split(np.arange(len(dealt)), max(1, round(len(dealt) / options.group)))
    jobs = [Job(n, [dealt[place] for place in part], last[part].tolist()) for n, part in enumerate(parts)]
    model, width = Model(task.options, task.classes, task.limit(max(map(len, parts)))), task.width
    with ProcessPoolExecutor(options.processes) as pool:
        outcomes = list(pool.map(partial(run_group, model, width), jobs))
    merged, survives = Classifier(task.options), np.zeros(len(dealt), np.bool_)
    for outcome in outcomes:
        if outcome.total is not None:
            merged.learn([as_contribution(model, outcome.total, width, outcome.number)])
            survives[parts[outcome.number][outcome.survivors]] = True
    seconds = time.perf_counter() - began
    survivors = [row for rows, alive in zip(dealt, survives, strict=True) if alive for row in rows]
    central = learn_rows(task.options, survivors)
    everybody = learn_rows(task.options, [row for rows in dealt for row in rows])
    sent = [each / 1000 for outcome in outcomes for each in outcome.sent_bytes]
    return Federated(
        clients=len(dealt),
        groups=len(parts),
        survivors=int(survives.sum()),
        failed_groups=sum(outcome.total is None for outcome in outcomes),
        largest_up_kb=round(max(sent), 1),
        mean_up_kb=round(mean(sent), 1),
        worst_case_kb=round(
            choose_layout(len(task.classes), width, SumLimits(model.limits.examples)).byte_count / 1000, 1
        ),
        seconds=round(seconds, 1),
        merged_sha256=merged.fingerprint(),
        central_sha256=central.fingerprint(),
        accuracy=measure_accuracy(merged, task.test),
        central_accuracy=measure_accuracy(central, task.test),
        accuracy_of_all=measure_accuracy(everybody, task.test),
    )


def as_contribution(model: Model, total_L: NDArray[np.int64], width: int, number: int) -> Example:
    """The sum of a group as one example, in the form in which a service takes it."""
    sums = ExactStatistics.from_tensors(model.classes, unflatten_sums(total_L, len(model.classes), width))
    return Example(number + 1, "sums", Classifier(model.options).write_contribution(sums), "")


def measure_accuracy(model: Classifier, test: Rows) -> float:
    choices = model.choose([features for features, _ in test])
    return round(100 * float(np.mean([choice == label for choice, (_, label) in zip(choices, test, strict=True)])), 2)

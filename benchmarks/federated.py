"""A thousand clients of one class each, and a server that sees none of their examples: exact sums beside FedAvg.

    python -m benchmarks.federated [--clients 1000] [--group 100] [--drop 0.2] [--processes 2] [--rounds 100] [--json]

Clients share out the training rows of scikit-learn's digits (70 %, stratified) class by class. Their sums are added by
secure aggregation in groups, each in a process; a share of the clients drops out between the rounds. What is merged is
compared with a model that has learned the rows of the survivors itself: by hash, and by accuracy on the other rows.

FedAvg (McMahan et al. 2017) and FedProx (Li et al. 2020) train a softmax regression on the same features, with the same
clients and drop-outs in each round. Of a few learning rates, each has the one with the best accuracy on the test rows, in its favour.
"""

import os
import time
from argparse import Namespace
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from statistics import mean

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from benchmarks.report import command, create_parser, print_json, say, table
from online.models import Example, Options
from online.models.classifier import Classifier
from online.models.exchange.cohort_values import choose_layout, flatten_sums, unflatten_sums
from online.models.statistics.exact import ExactStatistics
from online.secure_aggregation.client import AggregationClient
from online.secure_aggregation.errors import AggregationFailed
from online.secure_aggregation.messages import Group, PublicKeys, SealedShares, Unmasking, choose_threshold
from online.secure_aggregation.server import recover_sum, route_shares

OPTIONS: Options = {"input": "vector", "size": 64, "scale": 16.0}
CLASSES = [str(digit) for digit in range(10)]
MAX_EXAMPLES = 8  # of one client
GAPS = 3  # between the rounds, in which clients drop out: before sharing, before masking, before unmasking
RATES = (0.3, 1.0, 3.0, 10.0)
LOCAL_STEPS = 5
PROXIMAL = 0.1  # strength of FedProx's pull to the model that was sent
SHOWN = (1, 10, 30, 100)  # rounds whose accuracy is shown
LARGEST_KB = 300.0  # that a client sends

Rows = list[tuple[bytes, str]]


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
    """Exact sums of one cohort."""

    clients: int
    groups: int
    survivors: int
    failed_groups: int
    largest_up_kb: float
    mean_up_kb: float
    seconds: float
    merged_sha256: str
    central_sha256: str
    accuracy: float
    central_accuracy: float
    accuracy_of_all: float


def run_group(width: int, group_size: int, job: Job) -> Outcome:
    """All rounds of one group, every message of which goes through the server."""
    began, count = time.perf_counter(), len(job.rows)
    layout = choose_layout(len(CLASSES), width, group_size * MAX_EXAMPLES)
    group = Group(b"digits %d" % job.number, choose_threshold(count), layout)
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
        values = sum_rows(job.rows[number - 1])
        masked[number] = clients[number].mask(route_shares(shared, number), values)
        sent[number] += len(masked[number])
    revealed: dict[int, Unmasking] = {}
    for number in stay(job, 3):
        revealed[number] = clients[number].unmask(masked.keys())
        sent[number] += sum(map(len, [*revealed[number].masking_keys.values(), *revealed[number].seeds.values()]))
    try:
        total = recover_sum(group, keys, shared, masked, revealed)
    except AggregationFailed:
        total = None
    return Outcome(job.number, [n - 1 for n in masked], total, [*sent.values()], time.perf_counter() - began)


def stay(job: Job, round: int) -> list[int]:
    """The numbers of the clients that are there in a round."""
    return [place + 1 for place, last in enumerate(job.last) if last >= round]


def sum_rows(rows: Rows) -> NDArray[np.int64]:
    """What one client's examples add up to, with all classes of the cohort in their order."""
    device = learn_rows(rows)
    sums = ExactStatistics(device.statistics.width)
    for label in CLASSES:
        sums.add_class(label)
    sums.merge(device.statistics)
    return flatten_sums(sums.tensors())


def learn_rows(rows: Rows) -> Classifier:
    model = Classifier(OPTIONS)
    model.learn([Example(place, "label", features, label) for place, (features, label) in enumerate(rows, 1)])
    return model


def deal_rows(x_ND: NDArray[np.float64], class_N: NDArray[np.int64], clients: int, seed: int) -> list[Rows]:
    """The rows of each client: of one class, and about as many as of any other client."""
    random, dealt = np.random.default_rng(seed), list[Rows]()
    for number, part in enumerate(np.array_split(np.arange(clients), len(CLASSES))):
        own = random.permutation(np.flatnonzero(class_N == number))
        for places in np.array_split(own, len(part)):
            dealt.append([(x_ND[place].tobytes(), str(number)) for place in places.tolist()])
    return [dealt[place] for place in random.permutation(clients).tolist()]


def aggregate(dealt: Sequence[Rows], test: Rows, options: Namespace) -> tuple[Federated, NDArray[np.bool_]]:
    """The figures, and which clients survived."""
    began, random = time.perf_counter(), np.random.default_rng(options.seed)
    last = np.full(len(dealt), GAPS)
    gone = random.permutation(len(dealt))[: round(options.drop * len(dealt))]
    last[gone] = random.integers(0, GAPS, len(gone))
    parts = np.array_split(np.arange(len(dealt)), max(1, round(len(dealt) / options.group)))
    jobs = [Job(n, [dealt[place] for place in part], last[part].tolist()) for n, part in enumerate(parts)]
    width = Classifier(OPTIONS).statistics.width
    with ProcessPoolExecutor(options.processes) as pool:
        outcomes = list(pool.map(partial(run_group, width, max(map(len, parts))), jobs))
    merged, survives = Classifier(OPTIONS), np.zeros(len(dealt), np.bool_)
    for outcome in outcomes:
        if outcome.total is not None:
            merged.learn([as_contribution(outcome.total, width, outcome.number)])
            survives[parts[outcome.number][outcome.survivors]] = True
    seconds = time.perf_counter() - began
    central = learn_rows([row for rows, alive in zip(dealt, survives, strict=True) if alive for row in rows])
    sent = [each / 1000 for outcome in outcomes for each in outcome.sent_bytes]
    hashes = merged.fingerprint(), central.fingerprint()
    everybody = learn_rows([row for rows in dealt for row in rows])
    accuracies = [measure_accuracy(model, test) for model in (merged, central, everybody)]
    failed = sum(outcome.total is None for outcome in outcomes)
    counts = len(dealt), len(parts), int(survives.sum()), failed
    return Federated(
        *counts, round(max(sent), 1), round(mean(sent), 1), round(seconds, 1), *hashes, *accuracies
    ), survives


def as_contribution(total_L: NDArray[np.int64], width: int, number: int) -> Example:
    """The sum of a group as one example, in the form in which a service takes it."""
    sums = ExactStatistics.from_tensors(CLASSES, unflatten_sums(total_L, len(CLASSES), width))
    return Example(number + 1, "sums", Classifier(OPTIONS).write_contribution(sums), "")


def measure_accuracy(model: Classifier, test: Rows) -> float:
    choices = model.choose([features for features, _ in test])
    return round(100 * float(np.mean([choice == label for choice, (_, label) in zip(choices, test, strict=True)])), 2)


# FedAvg and FedProx


def pad_clients(dealt: Sequence[Rows]) -> tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.float32]]:
    """Features [K, E, D] with a constant, classes [K], and weights [K, E]: 1 / examples of the client, 0 beyond them."""
    read, most = Classifier(OPTIONS), max(map(len, dealt))
    features = [read._features([data for data, _ in rows]) / 127 for rows in dealt]
    x_KED = np.zeros((len(dealt), most, features[0].shape[1] + 1), np.float32)
    weight_KE = np.zeros((len(dealt), most), np.float32)
    for place, own in enumerate(features):
        x_KED[place, : len(own), :-1], x_KED[place, : len(own), -1] = own, 1.0
        weight_KE[place, : len(own)] = 1 / len(own)
    return x_KED, np.array([int(rows[0][1]) for rows in dealt]), weight_KE


def train_averaged(dealt: Sequence[Rows], test: Rows, options: Namespace, rate: float, proximal: float) -> list[float]:
    """The accuracy after each round of averaging, weighted by the examples of the clients that stay in it."""
    x_KED, class_K, weight_KE = pad_clients(dealt)
    right_KC, share_K = np.eye(len(CLASSES), dtype=np.float32)[class_K], (weight_KE > 0).sum(1).astype(np.float32)
    x_ND = np.concatenate([Classifier(OPTIONS)._features([data for data, _ in test]) / 127, np.ones((len(test), 1))], 1)
    truth_N = np.array([int(label) for _, label in test])
    random, found = np.random.default_rng(options.seed), list[float]()
    sent_DC = np.zeros((x_KED.shape[2], len(CLASSES)), np.float32)
    for _ in range(options.rounds):
        stays = random.permutation(len(dealt))[round(options.drop * len(dealt)) :]
        x_SED, right_S1C, weight_SE1 = x_KED[stays], right_KC[stays][:, None], weight_KE[stays][:, :, None]
        own_SDC = np.repeat(sent_DC[None], len(stays), 0)
        for _ in range(LOCAL_STEPS):
            scores_SEC = x_SED @ own_SDC
            odds_SEC = np.exp(scores_SEC - scores_SEC.max(2, keepdims=True))
            error_SEC = (odds_SEC / odds_SEC.sum(2, keepdims=True) - right_S1C) * weight_SE1
            if proximal:
                own_SDC -= rate * proximal * (own_SDC - sent_DC)
            own_SDC -= x_SED.transpose(0, 2, 1) @ (rate * error_SEC)
        sent_DC = np.tensordot(share_K[stays] / share_K[stays].sum(), own_SDC, 1)
        found.append(round(100 * float(((x_ND @ sent_DC).argmax(1) == truth_N).mean()), 2))
    return found


@dataclass(frozen=True, slots=True)
class Averaged:
    """Accuracies by round of the best learning rate. up_kb: of one client in one round."""

    name: str
    rate: float
    accuracies: list[float]
    up_kb: float
    seconds: float


def average(name: str, dealt: Sequence[Rows], test: Rows, options: Namespace, proximal: float) -> Averaged:
    began = time.perf_counter()
    runs = {rate: train_averaged(dealt, test, options, rate, proximal) for rate in RATES}
    best = max(runs, key=lambda rate: runs[rate][-1])
    up_kb = 4 * (Classifier(OPTIONS).statistics.width + 1) * len(CLASSES) / 1000
    return Averaged(name, best, runs[best], round(up_kb, 1), round((time.perf_counter() - began) / len(RATES), 1))


def main() -> int:
    parser = create_parser(__doc__)
    parser.add_argument("--clients", type=int, default=1_000)
    parser.add_argument("--group", type=int, default=100, help="clients that mask their sums with each other")
    parser.add_argument("--drop", type=float, default=0.2, help="share of the clients that drop out between the rounds")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=100, help="of FedAvg and FedProx")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    digits = load_digits()
    x_train, x_test, y_train, y_test = train_test_split(
        digits.data.astype(np.float64), digits.target, test_size=0.3, stratify=digits.target, random_state=options.seed
    )
    test = [(row.tobytes(), str(label)) for row, label in zip(x_test, y_test, strict=True)]
    dealt = deal_rows(x_train, y_train, options.clients, options.seed)
    exact, _ = aggregate(dealt, test, options)
    rivals = [
        average("FedAvg", dealt, test, options, 0.0),
        average(f"FedProx, {PROXIMAL:g}", dealt, test, options, PROXIMAL),
    ]
    if options.json:
        print_json({"exact": asdict(exact), "averaged": [asdict(rival) for rival in rivals]})
        return 0 if is_kept(exact) else 1
    say(
        f"{exact.clients:,} clients of one class each, {exact.groups} groups; {exact.survivors:,} sent their sums, "
        f"{exact.failed_groups} groups had too few left"
    )
    shown = [number for number in SHOWN if number <= options.rounds]
    rows: list[list[object]] = [
        ["exact sums", 1, *[f"{exact.accuracy:.2f}"] * len(shown), f"{exact.largest_up_kb:.1f}", f"{exact.seconds:.1f}"]
    ]
    rows += [
        [
            f"{rival.name} (rate {rival.rate:g})",
            options.rounds,
            *(f"{rival.accuracies[number - 1]:.2f}" for number in shown),
            f"{rival.up_kb:.1f} a round",
            f"{rival.seconds:.1f}",
        ]
        for rival in rivals
    ]
    columns = ["", "rounds", *(f"accuracy after {number}" for number in shown), "kB up of a client", "seconds"]
    table("Learning without seeing an example", columns, rows)
    say(
        f"central model of the survivors' rows: {exact.central_accuracy:.2f} %, of all rows: {exact.accuracy_of_all:.2f} %"
    )
    say(f"merged  {exact.merged_sha256}")
    say(f"central {exact.central_sha256}")
    say(f"the same hash, at most {LARGEST_KB:g} kB up, nothing lost: {'kept' if is_kept(exact) else 'NOT KEPT'}")
    return 0 if is_kept(exact) else 1


def is_kept(exact: Federated) -> bool:
    """Whether the guarantees hold: the hash and the accuracy of the central model, within the bytes of a client."""
    is_same = exact.merged_sha256 == exact.central_sha256 and exact.accuracy == exact.central_accuracy
    return is_same and exact.largest_up_kb <= LARGEST_KB and not exact.failed_groups


if __name__ == "__main__":
    command(main)

"""A thousand clients of one class each, and a server that sees none of their examples: exact sums beside FedAvg.

    python -m benchmarks.federated [--task digits] [--clients 1000] [--group 100] [--drop 0.2] [--rounds 100] [--json]
    python -m benchmarks.federated --task texts --group 77 --flower FLOWERS_ENVIRONMENT/bin/python

Clients share out rows class by class: of scikit-learn's digits (70 %, stratified), or five questions each of CLINC150's 150
intents. Their sums are added by secure aggregation in groups, each in a process; a share of the clients drops out between
the rounds. What is merged is compared with a model that has learned the rows of the survivors itself: by hash, and by
accuracy on the other rows.

FedAvg (McMahan et al. 2017) and FedProx (Li et al. 2020) train a softmax regression on the same features, with the same
clients and drop-outs in each round. Of a few learning rates, each has the one with the best accuracy on the test rows, in its favour.
With that rate, FedAvg is run with Flower's strategy too, where flwr is installed: pip install 'flwr>=1.42,<2', in an
environment of its own, because it needs an older protobuf than the service.
"""

import sys
import time
from argparse import Namespace
from dataclasses import asdict, dataclass

from benchmarks.cohorts.averaging import Problem, Schedule, average_directly, train
from benchmarks.cohorts.exact import Federated, aggregate
from benchmarks.cohorts.flower import run_flower
from benchmarks.cohorts.tasks import TASKS, as_problem
from benchmarks.report import command, create_parser, print_json, say, table

RATES = (0.3, 1.0, 3.0, 10.0)
PROXIMAL = 0.1  # strength of FedProx's pull to the model that was sent
SHOWN = (1, 10, 30, 100)  # rounds whose accuracy is shown
LARGEST_KB = 300.0  # that a client sends


@dataclass(frozen=True, slots=True)
class Averaged:
    """Accuracies by round. up_kb: of one client in one round."""

    name: str
    rate: float
    accuracies: list[float]
    up_kb: float
    seconds: float


def average(name: str, problem: Problem, options: Namespace, proximal: float) -> Averaged:
    """With the learning rate that is best in the end."""
    began = time.perf_counter()
    runs = {rate: train(problem, schedule(options, rate, proximal), average_directly) for rate in RATES}
    best = max(runs, key=lambda rate: runs[rate][-1])
    seconds = round((time.perf_counter() - began) / len(RATES), 1)
    return Averaged(name, best, runs[best], measure_up_kb(problem), seconds)


def average_with_flower(problem: Problem, options: Namespace, rate: float) -> Averaged | None:
    """FedAvg by Flower's strategy; None where Flower is not installed."""
    result = run_flower(options.flower, problem, schedule(options, rate, 0.0))
    if result is None:
        return None
    name = f"FedAvg of Flower {result['version']}"
    return Averaged(name, rate, result["accuracies"], measure_up_kb(problem), result["seconds"])


def schedule(options: Namespace, rate: float, proximal: float) -> Schedule:
    return Schedule(options.rounds, options.drop, options.seed, rate, proximal)


def measure_up_kb(problem: Problem) -> float:
    width: int = problem.x_KED.shape[2]
    return round(4 * width * problem.class_count / 1000, 1)


def main() -> int:
    parser = create_parser(__doc__)
    parser.add_argument("--task", choices=[*TASKS], default="digits")
    parser.add_argument("--clients", type=int, default=1_000)
    parser.add_argument("--group", type=int, default=100, help="clients that mask their sums with each other")
    parser.add_argument("--drop", type=float, default=0.2, help="share of the clients that drop out between the rounds")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=100, help="of FedAvg and FedProx")
    parser.add_argument("--flower", default=sys.executable, help="Python of an environment with flwr")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    task = TASKS[options.task](options.clients, options.seed)
    exact, problem = aggregate(task, options), as_problem(task)
    own = average("FedAvg", problem, options, 0.0)
    flower = average_with_flower(problem, options, own.rate)
    rivals = [own, average(f"FedProx, {PROXIMAL:g}", problem, options, PROXIMAL), *([flower] if flower else [])]
    if options.json:
        print_json({"exact": asdict(exact), "averaged": [asdict(rival) for rival in rivals]})
        return 0 if is_kept(exact) else 1
    show(exact, rivals, options)
    if flower is None:
        say("Flower is not installed: name the Python of an environment with flwr with --flower")
    return 0 if is_kept(exact) else 1


def show(exact: Federated, rivals: list[Averaged], options: Namespace) -> None:
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
    say(f"without limits of the total, the masked values of a client would have {exact.worst_case_kb:.1f} kB")
    say(
        f"central model of the survivors' rows: {exact.central_accuracy:.2f} %, of all rows: {exact.accuracy_of_all:.2f} %"
    )
    say(f"merged  {exact.merged_sha256}")
    say(f"central {exact.central_sha256}")
    say(f"the same hash, at most {LARGEST_KB:g} kB up, nothing lost: {'kept' if is_kept(exact) else 'NOT KEPT'}")


def is_kept(exact: Federated) -> bool:
    """Whether the guarantees hold: the hash and the accuracy of the central model, within the bytes of a client."""
    is_same = exact.merged_sha256 == exact.central_sha256 and exact.accuracy == exact.central_accuracy
    return is_same and exact.largest_up_kb <= LARGEST_KB and not exact.failed_groups


if __name__ == "__main__":
    command(main)

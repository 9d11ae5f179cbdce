"""Central parameters as a laboratory: what stale gradients cost, what each remedy gives back, beside the exact kind.

    rates       learning rates, chosen on validation rows without staleness
    staleness   accuracy against staleness, with and without each remedy, at that rate
    tuned       the same, where each remedy has the rate that is best for it at this staleness
    exact       shares of sums that arrive with the same delays: one sha256
    stragglers  time to an accuracy, where one micro-batch in sixteen takes up to a minute longer
    links       servers that share the parameters, and 16-bit numbers, where a message takes a quarter of a second
    processes   the same servers in real processes, beside the simulation

    python -m labs.parameter_server.benchmark [--only SECTION ...] [--data digits ...] [--quick]
                                          [--json PATH] [--pictures FOLDER]

Gradients are computed, the clock is virtual: a worker takes 4 s for a micro-batch, and what is delayed is delayed on
that clock. Every run of a policy gets the same number of micro-batches. Intervals are standard deviations over seeds.
"""

import math
import time
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import torch

from benchmarks.report import command, run_on_one_thread, say, table
from benchmarks.service import BenchmarkError
from labs.parameter_server.delays import Delays
from labs.parameter_server.policies import POLICIES
from labs.parameter_server.processes import run_processes
from labs.parameter_server.simulation import Cluster
from labs.parameter_server.study.data import DATA_SETS
from labs.parameter_server.study.exact import ExactJob, run_exact
from labs.parameter_server.study.pictures import Curve, save_staleness, save_stragglers
from labs.parameter_server.study.runs import Job, Outcome, Pool, Tuner, create_task, is_synchronous, run_job

SECTIONS = ("rates", "staleness", "tuned", "exact", "stragglers", "links", "processes")
WORKERS = 32
LINKS_S = (0.0, 4.0, 15.0, 60.0)  # mean delay of a gradient
FEWER = (1, 4, 8, 16)  # workers, without delay
STRAGGLES_S = (0.0, 5.0, 15.0, 30.0, 60.0)
STRAGGLE_SHARE = 1 / 16
FACTORS = (10.0, 3.0, 1.0, 0.3, 0.1, 0.03, 0.01)  # of the learning rate that is best without staleness
PLAIN = "asynchronous"
REMEDIES = (
    PLAIN,
    "bounded, 1",
    "rate / (1 + staleness)",
    "drop staler than 64",
    "warm-up, 500 updates",
    "one worker first, 200 updates",
    "delay compensation",
)
SYNCHRONOUS = ("synchronous", "4 spare")
STRAGGLING = (*SYNCHRONOUS, PLAIN, "bounded, 1")
BELOW_SINGLE = 3.0  # points below one worker: the accuracy whose time is measured
MESSAGE_S = 0.25  # on a link, of all parameters in float32
REAL_WORKERS, REAL_COMPUTE_S = 8, 0.01

Table = tuple[str, Sequence[str], list[Sequence[object]]]


@dataclass(slots=True)
class Lab:
    """What the sections share. rates: of single micro-batches and of 32 at once, by data set. found: what is printed."""

    pool: Pool
    seeds: int
    passes: int  # 0: those of the data set
    delays_s: Sequence[float]
    straggles_s: Sequence[float]
    pictures: Path | None
    json: Path | None
    tuner: Tuner
    rates: dict[str, tuple[float, float]] = field(default_factory=dict)
    tables: list[Table] = field(default_factory=list)
    found: dict[str, Any] = field(default_factory=dict)

    def job(self, data: str, policy: str, cluster: Cluster) -> Job:
        """A run at the rate that is best without staleness."""
        rate = self.rates[data][is_synchronous(POLICIES[policy])]
        return Job(data, policy, cluster, rate, passes=self.passes)

    def run(self, what: str, jobs: Sequence[Job]) -> list[list[Outcome]]:
        """The outcomes of each job, for every seed."""
        outcomes = iter(self.pool.run(what, run_job, [job.with_seed(n) for job in jobs for n in range(self.seeds)]))
        return [[next(outcomes) for _ in range(self.seeds)] for _ in jobs]

    def add(self, data: str, section: str, title: str, columns: Sequence[str], rows: list[Sequence[object]]) -> None:
        self.tables.append((f"{data}: {title}", columns, rows))
        self.found.setdefault(data, {})[section] = [dict(zip(columns, row, strict=True)) for row in rows]


def cluster_of(workers: int = WORKERS, **delays: float) -> Cluster:
    return Cluster(workers, delays=Delays(**delays))  # type: ignore[arg-type]


def spread(values: Sequence[float], digits: int = 1) -> str:
    """Mean and standard deviation; how many values there are, where some are missing."""
    there = [value for value in values if not math.isnan(value)]
    if not there:
        return "never"
    text = f"{np.mean(there):,.{digits}f} ± {np.std(there):,.{digits}f}"
    return text if len(there) == len(values) else f"{text} ({len(there)} of {len(values)})"


def accuracies(outcomes: Sequence[Outcome]) -> list[float]:
    return [outcome.accuracy for outcome in outcomes]


def choose_rates(lab: Lab, data: str) -> None:
    """The learning rates without staleness: one worker, and 32 in step."""
    data_set = DATA_SETS[data]
    jobs = [
        Job(data, PLAIN, cluster_of(1), 0.0, passes=lab.passes),
        Job(data, "synchronous", cluster_of(), 0.0, passes=lab.passes),
    ]
    several = replace(lab.tuner, seeds=lab.seeds)  # one seed would choose a rate that diverges for another one
    single, together = several.choose(f"{data}: rates", jobs, [data_set.rates, data_set.synchronous_rates])
    lab.rates[data] = single.rate, together.rate


def measure_rates(lab: Lab, data: str) -> None:
    jobs = [lab.job(data, PLAIN, cluster_of(1)), lab.job(data, "synchronous", cluster_of())]
    outcomes = lab.run(f"{data}: without staleness", jobs)
    rows: list[Sequence[object]] = [
        (name, job.rate, spread(accuracies(found)), f"{np.mean([each.elapsed_s for each in found]):,.0f}")
        for name, job, found in zip(("1 worker", "32 workers, synchronous"), jobs, outcomes, strict=True)
    ]
    lab.add(data, "rates", "rates chosen on validation rows", ("workers", "rate", "accuracy %", "virtual s"), rows)


def list_clusters(lab: Lab, with_fewer: bool) -> dict[str, Cluster]:
    fewer = {f"{count} worker{'s' * (count > 1)}": cluster_of(count) for count in FEWER} if with_fewer else {}
    return fewer | {f"{WORKERS}, {delay_s:.0f} s": cluster_of(link_s=delay_s) for delay_s in lab.delays_s}


def measure_staleness(lab: Lab, data: str) -> None:
    """Every remedy on every cluster; the synchronous ones on those of all workers."""
    clusters, slow = list_clusters(lab, True), list_clusters(lab, False)
    pairs = [(name, where) for name in REMEDIES for where in clusters]
    pairs += [(name, where) for name in SYNCHRONOUS for where in slow]
    outcomes = lab.run(f"{data}: staleness", [lab.job(data, name, clusters[where]) for name, where in pairs])
    found = dict(zip(pairs, outcomes, strict=True))
    add_staleness(lab, data, "staleness", "accuracy %, at the rate without staleness", found)


def add_staleness(
    lab: Lab, data: str, section: str, title: str, found: Mapping[tuple[str, str], Sequence[Outcome]]
) -> None:
    """A table of accuracies, and under it what plain asynchronous updates met; the same as curves."""
    names, places = list(dict.fromkeys(name for name, _ in found)), list(dict.fromkeys(place for _, place in found))
    rows: list[Sequence[object]] = [
        (name, *(spread(accuracies(found[name, place])) if (name, place) in found else "" for place in places))
        for name in names
    ]
    for name in (PLAIN, "bounded, 1"):
        staleness = [np.mean([each.staleness for each in found[name, place]]) for place in places]
        rows.append((f"staleness, {name}", *(f"{each:.0f}" for each in staleness)))
        seconds = [np.mean([each.elapsed_s for each in found[name, place]]) for place in places]
        rows.append((f"virtual s, {name}", *(f"{each:,.0f}" for each in seconds)))
    for name in ("synchronous", "4 spare"):
        if (name, places[-1]) in found:
            own = [f"{found[name, at][0].elapsed_s:,.0f}" if (name, at) in found else "" for at in places]
            rows.append((f"virtual s, {name}", *own))
    used = [100 * np.mean([each.used for each in found["drop staler than 64", place]]) for place in places]
    rows.append(("used % by drop staler than 64", *(f"{each:.0f}" for each in used)))
    lab.add(data, section, title, ("policy", *places), rows)
    x = [float(np.mean([each.staleness for each in found[PLAIN, place]])) for place in places]
    lab.found[data][f"{section} curves"] = {
        name: {"x": x, "values": [accuracies(found[name, place]) for place in places]}
        for name in names
        if (name, places[0]) in found and not is_synchronous(POLICIES[name])
    }
    if ("synchronous", places[-1]) in found:
        lab.found[data]["synchronous accuracy"] = float(np.mean(accuracies(found["synchronous", places[-1]])))


def measure_tuned(lab: Lab, data: str) -> None:
    """Every remedy at the rate that is best for it where it is."""
    clusters = list_clusters(lab, False)
    pairs = [(name, place) for name in REMEDIES for place in clusters]
    jobs = lab.tuner.choose_factor(
        f"{data}: a rate for each", [lab.job(data, name, clusters[place]) for name, place in pairs]
    )
    found = dict(zip(pairs, lab.run(f"{data}: tuned", jobs), strict=True))
    add_staleness(lab, data, "tuned", "accuracy %, each at its own rate", found)
    factors = {pair: job.rate / lab.rates[data][0] for pair, job in zip(pairs, jobs, strict=True)}
    rows: list[Sequence[object]] = [(name, *(f"{factors[name, place]:g}" for place in clusters)) for name in REMEDIES]
    lab.add(data, "factors", "chosen fraction of the rate", ("policy", *clusters), rows)


def measure_exact(lab: Lab, data: str) -> None:
    rows: list[Sequence[object]] = []
    for head, size, seeds in (("slda", DATA_SETS[data].rows, lab.seeds), ("rp_ridge", 256, 1)):
        jobs = [
            ExactJob(data, head, WORKERS, Delays(seed, link_s=delay_s), size)
            for delay_s in lab.delays_s
            for seed in range(seeds)
        ]
        outcomes = lab.pool.run(f"{data}: {head}", run_exact, jobs)
        hashes = sorted({outcome.sha256[:16] for outcome in outcomes})
        accuracy = spread([outcome.accuracy for outcome in outcomes], 2)
        rows.append((head, len(jobs), ", ".join(hashes), accuracy, f"{max(each.elapsed_s for each in outcomes):,.0f}"))
    columns = ("head", "runs", "sha256", "accuracy %", "longest, virtual s")
    lab.add(data, "exact", "exact kind, delays of 0 to 60 s", columns, rows)


def measure_stragglers(lab: Lab, data: str) -> None:
    """The time to an accuracy a little below that of one worker, in runs of up to four times as many micro-batches."""
    single = [lab.job(data, PLAIN, cluster_of(1))]
    target = float(np.mean(accuracies(lab.run(f"{data}: one worker", single)[0]))) - BELOW_SINGLE
    clusters = {delay_s: cluster_of(straggle_s=delay_s, straggle_share=STRAGGLE_SHARE) for delay_s in lab.straggles_s}
    pairs = [(name, delay_s) for name in STRAGGLING for delay_s in clusters]
    jobs = [lab.job(data, name, clusters[delay_s]) for name, delay_s in pairs]
    tuned = lab.tuner.choose_factor(f"{data}: rates with stragglers", jobs)
    passes = 4 * (lab.passes or DATA_SETS[data].passes)
    timed = [replace(job, target=target, passes=passes) for job in [*tuned, *single]]
    *outcomes, alone = lab.run(f"{data}: stragglers", timed)
    seconds = {pair: [each.reached_s for each in own] for pair, own in zip(pairs, outcomes, strict=True)}
    exact_jobs = [
        ExactJob(data, "slda", WORKERS, replace(cluster.delays, seed=seed), DATA_SETS[data].rows, target)
        for cluster in clusters.values()
        for seed in range(lab.seeds)
    ]
    exact = iter(lab.pool.run(f"{data}: exact", run_exact, exact_jobs))
    seconds |= {("exact, slda", delay_s): [next(exact).reached_s for _ in range(lab.seeds)] for delay_s in clusters}
    names = (*STRAGGLING, "exact, slda")
    rows: list[Sequence[object]] = [
        (name, *(spread(seconds[name, delay_s], 0) for delay_s in clusters)) for name in names
    ]
    rows.append(("1 worker, no straggler", spread([each.reached_s for each in alone], 0), *[""] * (len(clusters) - 1)))
    columns = ("policy", *(f"{delay_s:.0f} s" for delay_s in clusters))
    lab.add(data, "stragglers", f"virtual seconds to {target:.1f} %", columns, rows)
    if lab.pictures:
        curves = {name: Curve(list(clusters), [seconds[name, delay_s] for delay_s in clusters]) for name in names}
        title = f"{data}: time to {target:.1f} %, {WORKERS} workers, one micro-batch in 16 delayed"
        save_stragglers(lab.pictures / f"{data}-stragglers.svg", title, curves)


def measure_links(lab: Lab, data: str) -> None:
    """Servers and numbers where links are slow; then parts of gradients that travel apart."""
    size = create_task(data, 0, False).first().numel()
    slow = Cluster(WORKERS, bytes_per_s=4 * size / MESSAGE_S)
    pairs = [
        (name, n) for name in ("synchronous", "synchronous, bfloat16", "synchronous, float16") for n in (1, 2, 4, 8)
    ]
    outcomes = lab.run(f"{data}: links", [lab.job(data, name, replace(slow, servers=n)) for name, n in pairs])
    first = {name: own for (name, n), own in zip(pairs, outcomes, strict=True) if n == 1}
    rows: list[Sequence[object]] = [
        (
            name,
            servers,
            f"{np.mean([each.elapsed_s for each in own]):,.0f}",
            f"{np.mean([each.sent_bytes for each in own]) / 1e6:,.0f}",
            spread(accuracies(own)),
            "same" if [each.digest for each in own] == [each.digest for each in first[name]] else "OTHER",
        )
        for (name, servers), own in zip(pairs, outcomes, strict=True)
    ]
    columns = ("numbers", "servers", "virtual s", "MB sent", "accuracy %", "parameters as on 1 server")
    lab.add(data, "links", f"links that carry all parameters in {MESSAGE_S} s", columns, rows)
    measure_apart(lab, data)


def measure_apart(lab: Lab, data: str) -> None:
    """Asynchronous gradients whose parts reach eight servers together, or each after a delay of its own."""
    together = Delays(link_s=4.0)
    clusters = {
        "together": Cluster(WORKERS, 8, together),
        "apart": Cluster(WORKERS, 8, replace(together, per_server=True)),
    }
    names = (PLAIN, "bfloat16", "float16")
    pairs = [(name, where) for name in names for where in clusters if name == PLAIN or where == "together"]
    jobs = lab.tuner.choose_factor(
        f"{data}: rates for shards", [lab.job(data, name, clusters[where]) for name, where in pairs]
    )
    outcomes = lab.run(f"{data}: shards", jobs)
    rows: list[Sequence[object]] = [
        (name, where, spread(accuracies(own)), f"{np.mean([each.staleness for each in own]):.0f}")
        for (name, where), own in zip(pairs, outcomes, strict=True)
    ]
    columns = ("policy", "parts travel", "accuracy %", "staleness")
    lab.add(data, "shards", "asynchronous on 8 servers, delays of 4 s", columns, rows)


def measure_processes(lab: Lab, data: str) -> None:
    """Real processes beside simulations of as many workers, and the synchronous one beside a single process."""
    policies = {"synchronous": 1, "4 spare": 2, PLAIN: 2, "bounded, 1": 2, "rate / (1 + staleness)": 1, "bfloat16": 2}
    rows: list[Sequence[object]] = []
    for name, servers in policies.items():
        delays = Delays(compute_s=REAL_COMPUTE_S, link_s=0.0 if is_synchronous(POLICIES[name]) else 0.02)
        job = lab.job(data, name, Cluster(REAL_WORKERS, servers, delays))
        job = replace(job, rate=job.rate * (0.3 if is_synchronous(POLICIES[name]) else 0.1))
        simulated = lab.run(f"{data}: {name}", [job])[0]
        data_set, task = DATA_SETS[data], create_task(data, 0, False)
        budget = (job.passes or data_set.passes) * task.per_pass
        say(f"{data}: {name} in {REAL_WORKERS + servers} processes")
        create = partial(create_task, data, 0, False)
        real = run_processes(create, POLICIES[name], job.cluster, job.rate, budget)
        judged = data_set.load(0, False)
        accuracy = task.accuracy(real.parameters_P, judged.judged_x_ND, judged.judged_class_N)
        apart = ""
        if name == "synchronous":
            apart = f"{(real.parameters_P - learn_alone(job, budget)).abs().max():.1e}"
        staleness = f"{np.mean([each.staleness for each in simulated]):.1f}"
        rows.append(
            (
                name,
                servers,
                f"{accuracy:.1f}",
                spread(accuracies(simulated)),
                f"{np.mean(real.tally.staleness):.1f}",
                staleness,
                f"{real.elapsed_s:.1f}",
                f"{simulated[0].elapsed_s:.1f}",
                apart,
            )
        )
    columns = (
        "policy",
        "servers",
        "real: accuracy %",
        "simulated",
        "real: staleness",
        "simulated",
        "real: s",
        "simulated",
        "from single process, largest difference",
    )
    unique = [name if name != "simulated" else f"simulated {place}" for place, name in enumerate(columns)]
    lab.add(data, "processes", f"{REAL_WORKERS} workers in real processes", unique, rows)


def learn_alone(job: Job, budget: int) -> torch.Tensor:
    """The parameters of one process that learns the micro-batches of all workers at once."""
    task = create_task(job.data, job.seed, False)
    parameters_P = task.first()
    for start in range(0, budget, REAL_WORKERS):
        numbers = range(start, min(start + REAL_WORKERS, budget))
        gradient_P = torch.stack([task.gradient(parameters_P, number) for number in numbers]).mean(0)
        parameters_P = parameters_P - job.rate * gradient_P
    return parameters_P


def draw_staleness(lab: Lab, data: str) -> None:
    """The curves of the sections `staleness` and `tuned`, with what does not depend on staleness."""
    found = lab.found[data]
    titles = {"staleness": "at the rate that is best without staleness", "tuned": "each at its own rate"}
    panels = {
        title: {name: Curve(each["x"], each["values"]) for name, each in found[f"{section} curves"].items()}
        for section, title in titles.items()
        if f"{section} curves" in found
    }
    levels = {"synchronous": found["synchronous accuracy"]}
    if "exact" in found:
        levels |= {f"exact, {row['head']}": float(row["accuracy %"].split()[0]) for row in found["exact"]}
    assert lab.pictures is not None
    save_staleness(lab.pictures / f"{data}-staleness.svg", f"{data}: accuracy against staleness", panels, levels)


MEASURES: Mapping[str, Callable[[Lab, str], None]] = {
    "rates": measure_rates,
    "staleness": measure_staleness,
    "tuned": measure_tuned,
    "exact": measure_exact,
    "stragglers": measure_stragglers,
    "links": measure_links,
    "processes": measure_processes,
}


def measure(lab: Lab, data: str, sections: Sequence[str]) -> None:
    choose_rates(lab, data)
    for section in sections:
        if section != "processes" or data == "digits":
            started = time.monotonic()
            MEASURES[section](lab, data)
            say(f"{data}: {section} took {time.monotonic() - started:.0f} s")
            if lab.json:  # after each section, so that an interrupted run leaves what it has found
                found = {"benchmark": "parameter_server", **lab.found}
                lab.json.write_bytes(orjson.dumps(found, option=orjson.OPT_INDENT_2))
    if lab.pictures and "staleness" in sections:
        draw_staleness(lab, data)


def parse_flags() -> Namespace:
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=SECTIONS, help="sections (default: all)")
    parser.add_argument("--data", nargs="+", choices=tuple(DATA_SETS), default=tuple(DATA_SETS), help="data sets")
    parser.add_argument("--seeds", type=int, default=5, help="seeds of weights, orders and delays (default 5)")
    parser.add_argument(
        "--quick", action="store_true", help="1 seed, 1 pass, fewer delays: seconds, to see that it runs"
    )
    parser.add_argument("--json", type=Path, metavar="PATH", help="also write all figures to a file")
    parser.add_argument("--pictures", type=Path, metavar="FOLDER", help="also draw the curves into a folder")
    return parser.parse_args()


def main() -> int:
    flags = parse_flags()
    run_on_one_thread()
    pool = Pool()
    if flags.quick:
        lab = Lab(pool, 1, 1, (0.0, 15.0), (0.0, 30.0), flags.pictures, flags.json, Tuner(pool, (1.0, 0.1)))
    else:
        lab = Lab(pool, flags.seeds, 0, LINKS_S, STRAGGLES_S, flags.pictures, flags.json, Tuner(pool, FACTORS))
    try:
        for data in flags.data:
            try:
                DATA_SETS[data].load(0, False)
            except BenchmarkError as error:
                say(f"{data} is skipped: {error}")
                continue
            measure(lab, data, flags.only)
    finally:
        pool.close()
    for each in lab.tables:
        table(*each)
    return int("OTHER" in str(lab.tables) or any(", " in str(row[2]) for row in exact_rows(lab)))


def exact_rows(lab: Lab) -> list[Sequence[object]]:
    """The rows of the exact kind; more than one sha256 in one of them is a broken promise."""
    return [row for title, _, rows in lab.tables if "exact kind" in title for row in rows]


if __name__ == "__main__":
    command(main)

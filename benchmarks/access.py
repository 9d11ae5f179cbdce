"""Measures what a key costs: the serving rate with and without one, of one service that is asked in turn.

    this machine, which needs no key  --wrk, 16 connections--> service --> requests/s
    the same with Authorization: Bearer KEY --------------------^

Each pair of runs is alternating: without and with, then with and without. The figure is the median of the pairs' ratios,
because the rate of a busy machine changes from one minute to the next more than a key costs. `recorded` stores each answer.
"""

import json
from argparse import Namespace
from dataclasses import asdict, dataclass, replace
from statistics import median

import httpx

from benchmarks.report import command, create_parser, print_json, progress, table, verdict
from benchmarks.service import running_service
from benchmarks.serving import CONFIG, NAMES, row_of, teach
from benchmarks.wrk import Target, require_wrk, run_wrk

TARGET = 0.95
WIDTH, CONNECTIONS = 30, 16


@dataclass(frozen=True, slots=True)
class Pair:
    """Requests per second without and with a key."""

    is_recorded: bool
    without: float
    with_key: float
    failed: int

    @property
    def ratio(self) -> float:
        return self.with_key / self.without


def measure(args: Namespace) -> list[Pair]:
    pairs: list[Pair] = []
    with running_service(f'admin = "local"\nkey_requests_per_minute = 100000000\n{CONFIG}') as service:
        url = f"http://{service.host}:{service.port}"
        teach(url)
        made = httpx.post(f"{url}/v1/keys", json={"name": "benchmark", "scopes": ["predict"]}).raise_for_status()
        header = {"Authorization": f"Bearer {made.json()['key']}"}
        for is_recorded in (False, True):
            body = json.dumps({"instances": [row_of(WIDTH)], "record": is_recorded})
            plain = Target(f"{url}/v1/models/{NAMES[WIDTH]}:predict", body)
            keyed = replace(plain, headers=header)
            run_wrk(plain, CONNECTIONS, 1)  # warm-up
            run_wrk(keyed, CONNECTIONS, 1)
            name = "recorded" if is_recorded else "not recorded"
            for number in progress(range(args.pairs), f"{name}, pairs"):
                order = (plain, keyed) if number % 2 else (keyed, plain)
                runs = {id(target): run_wrk(target, CONNECTIONS, args.seconds) for target in order}
                without, with_key = runs[id(plain)], runs[id(keyed)]
                pairs.append(Pair(is_recorded, without[0], with_key[0], without[3] + with_key[3]))
    return pairs


def show(pairs: list[Pair]) -> None:
    rows = []
    for is_recorded in (False, True):
        chosen = [each for each in pairs if each.is_recorded == is_recorded]
        ratios = sorted(each.ratio for each in chosen)
        without, with_key = median(each.without for each in chosen), median(each.with_key for each in chosen)
        name = "recorded" if is_recorded else "not recorded"
        spread = f"{ratios[0]:.2f} to {ratios[-1]:.2f}"
        rows.append([name, without, with_key, median(ratios), spread, verdict(median(ratios), TARGET, at_least=True)])
    columns = ["", "without a key, requests/s", "with", "ratio", "of the pairs", f"target {TARGET}"]
    table(f"{WIDTH} numbers, {CONNECTIONS} connections; medians", columns, rows)


def main() -> int:
    parser = create_parser(__doc__ or "")
    parser.add_argument("--pairs", type=int, default=10, help="pairs of runs of each case (default 10)")
    parser.add_argument("--seconds", type=float, default=2, help="seconds of each run (default 2)")
    args = parser.parse_args()
    require_wrk()
    pairs = measure(args)
    if args.json:
        print_json({"benchmark": "access", "pairs": [{**asdict(each), "ratio": each.ratio} for each in pairs]})
    else:
        show(pairs)
    return int(any(each.failed for each in pairs))


if __name__ == "__main__":
    command(main)

"""Prints what our router earns and spends beside ParetoBandit and the usual controls, all under bandit feedback.

    python -m benchmarks.routing --part graded       budgets, on ParetoBandit's questions and by its protocol
    python -m benchmarks.routing --part drift        a model that grows worse, a price that falls: three phases of 608 questions
    python -m benchmarks.routing --part adoption     a model that is added while it serves
    python -m benchmarks.routing --part preview      another budget, estimated from the log of one and run
    python -m benchmarks.routing --part weak-strong  which questions need the strong model, on MMLU

Every policy sees the answer of the route that it chose and no other, learns while it is scored, and is held to the same budget by
the same pacing, except ParetoBandit, which has its own. Needs `pip install paretobandit==0.1.1`, whose wheel has the questions.

`overshoot`: mean cost over the budget. +-: two standard errors over the seeds.
"""

import os
from argparse import Namespace
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache

import numpy as np

from benchmarks.report import command, create_parser, print_json, progress, run_on_one_thread, table, verdict
from benchmarks.routing.contenders import Contender, Create, OurRouter, list_controls
from benchmarks.routing.peer import Peer, load_peer
from benchmarks.routing.preview import Previewed, preview
from benchmarks.routing.questions import ROUTES, Questions, load_graded, load_weak_and_strong
from benchmarks.routing.trials import Raters, Steps, mix_fixed, run_questions, run_trial

OURS, PEER = "ours", "ParetoBandit 0.1.1"
PHASE = 608
CHEAP = 0.1, 0.1  # US dollars per million tokens of the dear model in the second phase
DRIFT_BUDGETS = (3.0e-4, 6.62e-4, 1.87e-3)  # of the peer's own protocol
TIGHT = 5e-4  # budgets below which methods differ by more than noise
MAX_OVERSHOOT = 0.4  # percent
MAX_ADOPTION = 142  # requests
WINDOW = 50  # requests, in which a new model must have half of its later share
STRONG_SHARE, STRONG_SHARE_FEW = 50.0, 56.0  # percent of calls
STRONG_BUDGETS = (0.2, 0.35, 0.5, 0.65, 0.8)
QUALITY = 0.95  # of the strong model's accuracy
MAX_LOSS = 3.0  # points, by users who lie

Row = list[object]


@cache
def graded() -> tuple[Questions, Questions]:
    """Return the peer's questions, once for each process."""
    return load_graded()


@cache
def peer() -> Peer:
    """Return the peer, once for each process."""
    return load_peer(*graded())


@cache
def controls() -> dict[str, Create]:
    """Return the controls of the peer's questions."""
    return list_controls(graded()[0])


def run_graded(job: tuple[str, float, int]) -> Steps:
    """Run one policy on the peer's questions."""
    name, budget, seed = job
    learned, scored = graded()
    if name == PEER:
        return peer().run(budget, seed)
    contender = OurRouter(learned.routes, budget, seed) if name == OURS else controls()[name](budget, seed)
    return run_trial(contender, learned, scored, seed)


def spread(values: Iterable[float]) -> tuple[float, float]:
    """Return the mean of runs, and two standard errors."""
    found = np.array([*values])
    return float(found.mean()), float(2 * found.std(ddof=1) / np.sqrt(len(found))) if len(found) > 1 else 0.0


def run_all(
    jobs: Sequence[tuple[str, float, int]], run: Callable[[tuple[str, float, int]], Steps], what: str
) -> list[Steps]:
    """Run jobs, one in each core."""
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        return [*progress_of(pool.map(run, jobs), len(jobs), what)]


def progress_of(results: Iterable[Steps], count: int, what: str) -> Iterable[Steps]:
    """Yield results with a progress bar."""
    running = iter(results)
    for _ in progress(range(count), what):
        yield next(running)


def compare_graded(flags: Namespace) -> dict[str, object]:
    """Print the table of budgets."""
    learned, scored = graded()
    pooled = np.concatenate([learned.cost_NK, scored.cost_NK]).mean(0)
    budgets = [*np.geomspace(pooled.min(), pooled.max(), 7).tolist(), 3.0e-4] if not flags.budgets else flags.budgets
    names = [OURS, PEER, *controls()]
    jobs = [(name, budget, seed) for budget in sorted(budgets) for name in names for seed in range(flags.seeds)]
    runs = dict(zip(jobs, run_all(jobs, run_graded, "budgets"), strict=True))
    found = list[dict[str, object]]()
    for budget in sorted(budgets):
        rows, ours = list[Row](), spread(runs[OURS, budget, seed].reward for seed in range(flags.seeds))
        for name in names:
            steps = [runs[name, budget, seed] for seed in range(flags.seeds)]
            reward, error = spread(each.reward for each in steps)
            cost, _ = spread(each.cost for each in steps)
            most = max(each.cost for each in steps)
            shares = " ".join(f"{share:.0%}" for share in np.mean([each.shares(3) for each in steps], 0))
            rows.append(
                [
                    name,
                    f"{reward:.4f} +-{error:.4f}",
                    f"{cost:.2e}",
                    f"{100 * (cost / budget - 1):+.2f} %",
                    f"{100 * (most / budget - 1):+.2f} %",
                    shares,
                ]
            )
            found.append(
                {"budget": budget, "policy": name, "reward": reward, "error": error, "cost": cost, "most": most}
            )
        spent = float(np.mean([runs[OURS, budget, seed].cost for seed in range(flags.seeds)]))
        share_K = np.mean([runs[OURS, budget, seed].shares(3) for seed in range(flags.seeds)], 0)
        zero, random = mix_fixed(scored, spent), float(share_K @ scored.reward_NK.mean(0))
        rows += [
            ["zero router, at our cost", f"{zero:.4f}", f"{spent:.2e}", "", "", ""],
            ["random, at our shares", f"{random:.4f}", "", "", "", ""],
        ]
        affordable = scored.cost_NK.mean(0) <= budget * 1.0001
        best = float(scored.reward_NK.mean(0)[affordable].max()) if affordable.any() else float("nan")
        rows.append(["best fixed route within the budget", f"{best:.4f}", "", "", "", ""])
        table(
            f"${budget:.2e} per request, {flags.seeds} seeds",
            ["policy", "reward", "cost", "overshoot", "worst seed", "shares"],
            rows,
        )
        theirs = spread(runs[PEER, budget, seed].reward for seed in range(flags.seeds))[0]
        print(f"at least the peer's reward: {verdict(ours[0], theirs - ours[1] / 2, at_least=True)}", end="; ")
        print(
            f"overshoot at most {MAX_OVERSHOOT} %: {verdict(100 * (spent / budget - 1), MAX_OVERSHOOT, ' %')}", end=""
        )
        if pooled.min() * 1.5 < budget <= TIGHT:
            print(
                f"; above the zero router by two standard errors: {verdict(ours[0] - ours[1], zero, at_least=True)}",
                end="",
            )
        print("\n")
        found.append({"budget": budget, "zero": zero, "random": random, "best_fixed": best})
    return {"graded": found}


def run_drift(job: tuple[str, float, int]) -> Steps:
    """Run one policy through three phases. The name says whose it is, and what changes in the second."""
    name, budget, seed = job
    whose, _, what = name.partition(", ")
    learned, scored = graded()
    order = np.random.default_rng(seed).permutation(len(scored))
    parts = order[:PHASE], order[PHASE : 2 * PHASE]
    if whose == PEER:
        return peer().run_phases(what, budget, seed, parts)
    contender, rng = OurRouter(learned.routes, budget, seed), np.random.default_rng(seed)
    run_questions(contender, learned, rng.permutation(len(learned)).tolist(), rng)
    phases = [(scored, parts[0]), (change(scored, what), parts[1]), (scored, parts[0])]
    dear = learned.routes[2]
    cheap = {**dear, "price_in": CHEAP[0], "price_out": CHEAP[1]}
    steps = list[Steps]()
    for (phase, places), declared in zip(phases, (None, cheap, dear), strict=True):
        if what == "price" and declared is not None:
            contender.declare(declared)  # as the peer's registry is told
        steps.append(run_questions(contender, phase, rng.permutation(places).tolist(), rng))
    joined = ((each.routes for each in steps), (each.rewards for each in steps), (each.costs for each in steps))
    return Steps(*(np.concatenate([*values]) for values in joined))


def change(questions: Questions, what: str) -> Questions:
    """Return the questions of the second phase: the middle model answers at 0.75, or the dear one costs little."""
    rewards, costs = questions.reward_NK.copy(), questions.cost_NK.copy()
    if what == "quality":
        rewards[:, 1] = 0.75
    else:
        costs[:, 2] *= peer().demo._gemini_cost_scale()
    return questions.replace_answers(rewards, costs)


def compare_drift(flags: Namespace) -> dict[str, object]:
    """Print the tables of the phases."""
    kinds = ("quality", "price")
    names = [f"{whose}, {what}" for what in kinds for whose in (OURS, PEER)]
    jobs = [(name, budget, seed) for name in names for budget in DRIFT_BUDGETS for seed in range(flags.seeds)]
    runs = dict(zip(jobs, run_all(jobs, run_drift, "phases"), strict=True))
    found = list[dict[str, object]]()
    for what in kinds:
        rows = list[Row]()
        for budget in DRIFT_BUDGETS:
            for whose in (OURS, PEER):
                steps = [runs[f"{whose}, {what}", budget, seed] for seed in range(flags.seeds)]
                phases = [
                    np.mean([each.rewards[at * PHASE : (at + 1) * PHASE].mean() for each in steps]) for at in range(3)
                ]
                costs = [
                    np.mean([each.costs[at * PHASE : (at + 1) * PHASE].mean() for each in steps]) for at in range(3)
                ]
                rows.append(
                    [
                        f"${budget:.2e}",
                        whose,
                        *(f"{each:.4f}" for each in phases),
                        *(f"{each / budget:.2f}" for each in costs),
                    ]
                )
                found.append({"what": what, "budget": budget, "policy": whose, "rewards": phases, "costs": costs})
        title = {
            "quality": "the middle model answers at 0.75 in the second phase",
            "price": "the dear model costs little in the second phase",
        }[what]
        table(title, ["budget", "policy", "reward 1", "2", "3", "cost / budget 1", "2", "3"], rows)
    return {"drift": found}


def run_adoption(job: tuple[str, float, int]) -> Steps:
    """Learn with two models, then serve with the middle one added."""
    _, budget, seed = job
    learned, scored = graded()
    two = [learned.routes[0], learned.routes[2]]
    kept = [0, 2, 1]
    contender, rng = OurRouter(two, budget, seed), np.random.default_rng(seed)
    fewer = learned.replace_answers(learned.reward_NK[:, kept], learned.cost_NK[:, kept])
    run_questions(contender, fewer, rng.permutation(len(learned)).tolist(), rng)
    contender.declare(learned.routes[1])
    after = scored.replace_answers(scored.reward_NK[:, kept], scored.cost_NK[:, kept])
    return run_questions(contender, after, rng.permutation(len(scored)).tolist(), rng)


def compare_adoption(flags: Namespace) -> dict[str, object]:
    """Print after how many requests a new model has half of its later share."""
    budget = DRIFT_BUDGETS[1]
    jobs = [(OURS, budget, seed) for seed in range(flags.seeds)]
    taken = list[int]()
    for steps in run_all(jobs, run_adoption, "adoption"):
        is_new = steps.routes == 2
        later = is_new[-PHASE:].mean()
        moving = np.convolve(is_new, np.ones(WINDOW) / WINDOW, "valid")
        taken.append(int(np.argmax(moving >= later / 2)) + WINDOW)
    median = float(np.median(taken))
    rows: list[Row] = [
        [
            f"{ROUTES[1]}, added to {ROUTES[0]} and {ROUTES[2]}",
            median,
            min(taken),
            max(taken),
            verdict(median, MAX_ADOPTION, " requests"),
        ]
    ]
    table(
        "requests until a new model has half of its later share",
        ["model", "median", "least", "most", f"at most {MAX_ADOPTION}"],
        rows,
    )
    return {"adoption": taken}


@cache
def weak_and_strong() -> Questions:
    """Return MMLU's questions, once for each process."""
    return load_weak_and_strong()


@cache
def weak_and_strong_controls() -> dict[str, Create]:
    """Return the controls of MMLU's questions."""
    return list_controls(weak_and_strong())


def run_weak_and_strong(job: tuple[str, float, int]) -> Steps:
    """Run one policy on MMLU: the second half is scored. The name ends with who rates."""
    name, budget, seed = job
    whose, _, who = name.partition(" | ")
    rated, lying = map(float, who.split())
    questions, rng = weak_and_strong(), np.random.default_rng(seed)
    order = rng.permutation(len(questions))
    half = len(order) // 2
    contender: Contender
    if whose == OURS:
        contender = OurRouter(questions.routes, budget, seed)
    elif whose == "full information":
        contender = list_controls(questions.take(order[:half]))[whose](budget, seed)
    else:
        contender = weak_and_strong_controls()[whose](budget, seed)
    raters = Raters(rated, lying)
    run_questions(contender, questions, order[:half].tolist(), rng, raters)
    return run_questions(contender, questions, order[half:].tolist(), rng, raters)


def find_share(shares: Sequence[float], accuracies: Sequence[float], wanted: float) -> float:
    """Return the share of strong calls, in percent, at which the accuracy is reached; NaN if it is nowhere."""
    order = np.argsort(shares)
    curve = np.maximum.accumulate(np.array(accuracies)[order])
    if curve[-1] < wanted:
        return float("nan")
    return float(100 * np.interp(wanted, curve, np.array(shares)[order]))


def compare_weak_and_strong(flags: Namespace) -> dict[str, object]:
    """Print how many strong calls keep 95 % of the strong model's accuracy."""
    wanted = QUALITY * float(weak_and_strong().reward_NK[:, 1].mean())
    whos = {"every answer rated": "1 0", "3 % rated": "0.03 0", "every answer rated, 20 % lie": "1 0.2"}
    names = [f"{whose} | {who}" for who in whos.values() for whose in (OURS, *weak_and_strong_controls())]
    jobs = [(name, budget, seed) for name in names for budget in STRONG_BUDGETS for seed in range(flags.seeds)]
    runs = dict(zip(jobs, run_all(jobs, run_weak_and_strong, "weak and strong"), strict=True))
    rows, found, mean_reward = list[Row](), list[dict[str, object]](), dict[str, float]()
    for title, who in whos.items():
        for whose in (OURS, *weak_and_strong_controls()):
            of_seed = [
                find_share(
                    [float(runs[f"{whose} | {who}", budget, seed].shares(2)[1]) for budget in STRONG_BUDGETS],
                    [runs[f"{whose} | {who}", budget, seed].reward for budget in STRONG_BUDGETS],
                    wanted,
                )
                for seed in range(flags.seeds)
            ]
            share, error = spread(of_seed)
            middle = float(np.mean([runs[f"{whose} | {who}", 0.5, seed].reward for seed in range(flags.seeds)]))
            mean_reward[f"{whose} | {who}"] = middle
            target = {"1 0": STRONG_SHARE, "0.03 0": STRONG_SHARE_FEW}.get(who) if whose == OURS else None
            rows.append(
                [
                    title,
                    whose,
                    f"{share:.1f} +-{error:.1f}",
                    f"{100 * middle:.2f}",
                    "" if target is None else f"at most {target:g}: {verdict(share, target, ' points')}",
                ]
            )
            found.append({"raters": title, "policy": whose, "share": share, "error": error, "accuracy_at_half": middle})
    low, high = weak_and_strong().reward_NK.mean(0)
    rows.append(["", "zero router", f"{100 * (wanted - low) / (high - low):.1f}", f"{100 * (low + high) / 2:.2f}", ""])
    table(
        f"share of strong calls, %, for {QUALITY:.0%} of the strong model's accuracy; accuracy at half",
        ["raters", "policy", "share", "accuracy", "target"],
        rows,
    )
    lost = 100 * (mean_reward[f"{OURS} | 1 0"] - mean_reward[f"{OURS} | 1 0.2"])
    print(f"points lost to users who lie: {lost:.2f} (at most {MAX_LOSS:g}: {verdict(lost, MAX_LOSS, ' points')})")
    return {"weak_and_strong": found}


def run_preview(job: tuple[str, float, int]) -> list[Previewed]:
    """Preview the budgets of the drift protocol from a run at another one."""
    _, budget, seed = job
    return preview(*graded(), seed, budget, DRIFT_BUDGETS)


def compare_preview(flags: Namespace) -> dict[str, object]:
    """Print what budgets would have earned by the log of a run at another budget, beside runs at these budgets."""
    names = [(OURS, budget, seed) for budget in DRIFT_BUDGETS for seed in range(flags.seeds)]
    online = dict(zip(names, run_all(names, run_graded, "online runs"), strict=True))
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        estimates = [*pool.map(run_preview, names)]
    rows, found = list[Row](), list[dict[str, object]]()
    for logged in DRIFT_BUDGETS:
        for place, wanted in enumerate(DRIFT_BUDGETS):
            own = [each[place] for name, each in zip(names, estimates, strict=True) if name[1] == logged]
            runs = [online[OURS, wanted, seed] for seed in range(flags.seeds)]
            reward, cost = (float(np.mean([getattr(each, name) for each in runs])) for name in ("reward", "cost"))
            inside = sum(each.reward[1] <= reward <= each.reward[2] for each in own)
            within = sum(each.cost[1] <= cost <= each.cost[2] for each in own)
            guessed, width = (
                np.mean([each.reward[0] for each in own]),
                np.mean([np.ptp(each.reward) / 2 for each in own]),
            )
            spent = float(np.mean([each.cost[0] for each in own]))
            rows.append(
                [
                    f"${logged:.2e}",
                    f"${wanted:.2e}",
                    f"{guessed:.4f} +-{width:.4f}",
                    f"{reward:.4f}",
                    f"{inside} of {len(own)}",
                    f"{spent:.2e}",
                    f"{cost:.2e}",
                    f"{within} of {len(own)}",
                ]
            )
            found.append({"logged": logged, "budget": wanted, "inside": inside, "runs": len(own)})
    heads = ["log at", "budget", "previewed reward", "online", "within its interval", "cost", "online", "within"]
    table(f"previews of a budget, {flags.seeds} seeds", heads, rows)
    changed = [each for each in found if each["logged"] != each["budget"]]
    inside, runs_made = (sum(int(str(each[name])) for each in changed) for name in ("inside", "runs"))
    print(f"another budget's reward lies within its interval of 95 %: {inside} of {runs_made}")
    return {"preview": found}


PARTS = {
    "graded": compare_graded,
    "drift": compare_drift,
    "adoption": compare_adoption,
    "preview": compare_preview,
    "weak-strong": compare_weak_and_strong,
}


def main() -> int:
    """Run the parts that were asked for."""
    parser = create_parser(__doc__ or "")
    parser.add_argument("--part", choices=[*PARTS], action="append", help="only this part; may be repeated")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--budgets", type=float, nargs="*", help="US dollars per request, for the part graded")
    flags = parser.parse_args()
    run_on_one_thread()  # one process for each core
    found: dict[str, object] = {}
    for part in flags.part or PARTS:
        found |= PARTS[part](flags)
    if flags.json:
        print_json(found)
    return 0


if __name__ == "__main__":
    command(main)

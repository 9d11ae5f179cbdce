"""An off-policy evaluation as two tables of text, or as one JSON object."""

import json
from dataclasses import asdict

from rich.console import Console
from rich.table import Table

from online.plugins.off_policy.policy_evaluation import Evaluation, PolicyResult
from online.scoring.intervals import Interval

NAMES = {
    "ips": "inverse prop.",
    "clipped": "clipped",
    "snips": "self-norm.",
    "dm": "direct",
    "dr": "doubly robust",
    "switch": "switch",
    "replay": "replay",
}


def evaluation_as_json(found: Evaluation) -> str:
    """Return the evaluation as one JSON object."""
    return json.dumps(asdict(found))


def print_evaluation(found: Evaluation) -> None:
    """Print the estimates and the overlap of each policy."""
    console = Console()
    console.print(
        f"{found.decisions:,} decisions among {found.actions:,} actions; the logging policy earned "
        f"{found.mean_reward:.6g} per decision"
    )
    for what, count in found.left_out.items():
        console.print(f"left out: {count:,} {what}; the rest may not be representative")
    for note in found.notes:
        console.print(note, markup=False)
    console.print(build_estimates_table(found))
    if any(each.cost_per_1k for each in found.policies):
        console.print(build_cost_table(found))
    console.print(build_overlap_table(found))
    for each in found.policies:
        for note in [f"no estimate: {each.withheld}"] * bool(each.withheld) + each.warnings:
            console.print(f"{each.policy}: {note}", markup=False, style="yellow")
    if any("dm" in each.estimates for each in found.policies):
        console.print("The interval of the direct method does not include the error of its model.")


def build_estimates_table(found: Evaluation) -> Table:
    """Build the table of estimates with their intervals."""
    level = f"{100 * found.level:.6g} %"
    table = Table("policy", "estimator", "reward")
    for head in (f"bootstrap {level}", f"Bernstein {level}"):
        table.add_column(head, no_wrap=True)
    for each in found.policies:
        for name, estimate in each.estimates.items():
            bernstein = "-" if estimate.bernstein is None else format_interval(estimate.bernstein)
            table.add_row(
                each.policy, NAMES[name], f"{estimate.value:.4f}", format_interval(estimate.bootstrap), bernstein
            )
        table.add_row(
            each.policy,
            "at any time",
            "-" if each.withheld else "",
            format_interval(each.anytime),
            "",
            end_section=True,
        )
    return table


def build_cost_table(found: Evaluation) -> Table:
    """Build the table of what the policies would have cost."""
    table = Table("policy", "US dollars per 1,000", f"bootstrap {100 * found.level:.6g} %")
    for each in found.policies:
        cost = each.cost_per_1k
        table.add_row(
            each.policy, *(("-", "-") if cost is None else (f"{cost.value:.4f}", format_interval(cost.interval)))
        )
    return table


def build_overlap_table(found: Evaluation) -> Table:
    """Build the table of how much the log says about each policy."""
    heads = ("policy", "effective size", "largest weight", "mean weight", "could be logged", "might agree")
    table = Table(*heads)
    for each in found.policies:
        table.add_row(*build_overlap_row(each))
    return table


def build_overlap_row(each: PolicyResult) -> tuple[str, ...]:
    """Return the cells that show how well the log covers a policy."""
    seen = each.overlap
    sizes = f"{seen.ess:,.1f}", f"{seen.largest_weight:,.2f}", f"{seen.mean_weight:.3f}"
    return each.policy, *sizes, f"{seen.covered:.1%}", f"{seen.followed:.1%}"


def format_interval(interval: Interval) -> str:
    """Return an interval as text."""
    return f"{interval[0]:.4f}..{interval[1]:.4f}"

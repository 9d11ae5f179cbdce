"""Prints the results of replays as tables in the terminal."""

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.table import Table

from online.evaluation.replay.replay_report import LogResults, ReplayReport, ReplayResult
from online.evaluation.reports.remarks import describe_left_out, describe_skipped
from online.evaluation.reports.verdict import Verdict, conclude
from online.evaluation.scoring.score import LEARNED_BASELINE
from online.evaluation.sources.log_format import describe_expired
from online.learning.drift import Alarm

Columns = tuple[tuple[str, str, str], ...]

CLASS_COLUMNS: Columns = (
    ("accuracy", "accuracy", "{:.2%}"),
    ("last 1,000", "windowed_accuracy", "{:.2%}"),
    ("fading", "fading_accuracy", "{:.2%}"),
    ("kappa", "kappa", "{:.3f}"),
    ("temporal", "kappa_temporal", "{:.3f}"),
)
PROBABILITY_COLUMNS: Columns = (
    ("log-loss", "log_loss", "{:.3f}"),
    ("Brier score", "brier", "{:.3f}"),
    ("calibration error", "ece", "{:.3f}"),
)
TASK_COLUMNS: Columns = (
    ("average", "average_accuracy", "{:.2%}"),
    ("forgetting", "forgetting", "{:.2%}"),
    ("backward", "backward_transfer", "{:+.2%}"),
    ("forward", "forward_transfer", "{:.2%}"),
    ("anytime", "average_anytime_accuracy", "{:.2%}"),
    ("least", "least_accuracy", "{:.2%}"),
)
NUMBER_COLUMNS: Columns = (
    ("MAE", "mae", "{:.6g}"),
    ("RMSE", "rmse", "{:.6g}"),
    ("R2", "r2", "{:.4f}"),
    ("in interval", "covered", "{:.1%}"),
)
BASELINES = (
    ("as served", "served"),
    ("frozen", "frozen"),
    ("no change", "no_change"),
    ("majority", "majority"),
    (LEARNED_BASELINE, LEARNED_BASELINE),
    ("mean", "mean"),
)


def print_results(played: Sequence[LogResults], console: Console) -> None:
    for each in played:
        if len(played) > 1:
            console.print(f"\n{each.log}", style="bold", markup=False)
        print_log_results(each.results, each.interrupted, console)


def print_log_results(results: Sequence[ReplayResult], interrupted: bool, console: Console) -> None:
    reports = [result.report for result in results if result.report is not None]
    for result in results:
        if result.failure is not None:
            console.print(f"{result.candidate.name}: {result.failure}", style="red", markup=False)
    if not reports:
        return
    numbers = "mae" in reports[0].figures
    title = f"{reports[0].examples:,} examples{', so far (interrupted)' if interrupted else ''}"
    console.print(build_table(reports, NUMBER_COLUMNS if numbers else CLASS_COLUMNS, title, baselines=True))
    if any(report.tasks for report in reports):
        console.print(build_table(reports, TASK_COLUMNS, "tasks, on held-out rows", baselines=False))
    if not numbers:
        console.print(build_table(reports, PROBABILITY_COLUMNS, "probabilities", baselines=False))
    for result in results:
        if result.comparison is not None and result.report is not None:
            console.print(describe_comparison(result, results[0].candidate.name), markup=False)
    for report in reports:
        for line in describe_report(report, named=len(results) > 1):
            console.print(line, markup=False)
    print_verdict(conclude(results, interrupted), console)


def print_verdict(verdict: Verdict, console: Console) -> None:
    console.print()
    for line in verdict.warnings:
        console.print(line, style="yellow", markup=False)
    console.print(verdict.sentence, style="bold", markup=False, highlight=False)
    console.print(verdict.next, markup=False, highlight=False)


def build_table(reports: Sequence[ReplayReport], columns: Columns, title: str, baselines: bool) -> Table:
    table = Table("predictor", title=title, title_justify="left")
    table.columns[0].overflow = "fold"
    for name, _, _ in columns:
        table.add_column(name, justify="right", no_wrap=True)
    for report in reports:
        table.add_row(report.name, *(format_figure(report.figures.get(key), form) for _, key, form in columns))
    table.add_section()
    for _, words, figure in find_baselines(reports, columns) if baselines else ():
        table.add_row(words, figure)
    return table


def find_baselines(reports: Sequence[ReplayReport], columns: Columns) -> Iterator[tuple[str, str, str]]:
    """Yield the name of each baseline, words for it and its first figure.

    Those that do not depend on the model are the first's.
    """
    _, key, form = columns[0]
    for words, name in BASELINES:
        found = next((each for each in reports if each.figures.get(f"{name}_{key}") is not None), None)
        if found is not None:
            pairs = next((lead.pairs for lead in found.leads if lead.baseline == name), 0)
            part = f" (on {pairs:,})" if name == LEARNED_BASELINE and pairs < (found.figures["judged"] or 0) else ""
            yield name, words + part, format_figure(found.figures[f"{name}_{key}"], form)


def format_figure(value: float | None, form: str) -> str:
    return "-" if value is None else form.format(value)


def describe_comparison(result: ReplayResult, champion: str) -> str:
    """Return a sentence on how the candidate compares with the champion."""
    comparison = result.comparison or {}
    if comparison["difference"] is None:
        return f"{result.candidate.name}: nothing to compare with {champion}"
    low, high = (f"{100 * comparison[end]:+.2f}" for end in ("low", "high"))
    since = f", decided after {comparison['decided_at']:,}" if comparison["decided_at"] else ""
    return (
        f"{result.candidate.name} is {comparison['verdict']} against {champion}: {100 * comparison['difference']:+.2f} points "
        f"({low} to {high} 95 % interval, valid at every moment{since})"
    )


def describe_report(report: ReplayReport, named: bool) -> Iterator[str]:
    name = f"{report.name}: " if named else ""
    yield f"{name}{report.events:,} events, {report.examples_per_second:,.0f} examples/s, state {report.state_sha256}"
    if report.same_answers is not None:
        yield f"{name}{report.same_answers:,} of {report.asked:,} answers as they were served"
    if report.bad:
        yield f"{name}{report.bad:,} lines could not be used"
    if report.contents_from:
        yield f"{name}{describe_expired(report.contents_from)}"
    if report.left_out:
        yield f"{name}{describe_left_out(report.left_out)}"
    if report.baseline_skipped:
        yield f"{name}{describe_skipped(report.baseline_skipped)}"
    yield f"{name}{len(report.drift)} drift alarms{':' if report.drift else ''}"
    yield from map(describe_alarm, report.drift)


def describe_alarm(alarm: Alarm) -> str:
    place = alarm.label or ("" if alarm.projection is None else f"direction {alarm.projection}")
    change = f"{alarm.before:.3g} -> {alarm.after:.3g}"
    return f"  at {alarm.offset:,}: {alarm.what} {place} {change} since {alarm.since:,}"


def find_exit_status(played: Sequence[LogResults]) -> int:
    """Return 130 if interrupted, 2 if every replay failed, 1 if some failed, else 0."""
    results = [result for each in played for result in each.results]
    failed = sum(result.report is None for result in results)
    if any(each.interrupted for each in played):
        return 130
    return 2 if failed == len(results) else 1 if failed else 0

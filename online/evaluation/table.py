"""The numbers of a replay as a table for people, as JSON and as CSV."""

import csv
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from online.errors import SetupError
from online.evaluation.race import Played, Result
from online.evaluation.replay import Report
from online.learning.drift import Alarm

Columns = tuple[tuple[str, str, str], ...]

LABEL_COLUMNS: Columns = (
    ("accuracy", "accuracy", "{:.2%}"),
    ("last 1,000", "windowed_accuracy", "{:.2%}"),
    ("fading", "fading_accuracy", "{:.2%}"),
    ("kappa", "kappa", "{:.3f}"),
    ("temporal", "kappa_temporal", "{:.3f}"),
)
CHANCE_COLUMNS: Columns = (
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
    ("mean", "mean"),
)


def show_all(played: Sequence[Played], console: Console) -> None:
    for each in played:
        if len(played) > 1:
            console.print(f"\n{each.log}", style="bold", markup=False)
        show(each.results, each.interrupted, console)


def show(results: Sequence[Result], interrupted: bool, console: Console) -> None:
    reports = [result.report for result in results if result.report is not None]
    for result in results:
        if result.failure is not None:
            console.print(f"{result.contender.name}: {result.failure}", style="red", markup=False)
    if not reports:
        return
    numbers = "mae" in reports[0].figures
    title = f"{reports[0].examples:,} examples{', so far (interrupted)' if interrupted else ''}"
    console.print(table_of(reports, NUMBER_COLUMNS if numbers else LABEL_COLUMNS, title, baselines=True))
    if any(report.tasks for report in reports):
        console.print(table_of(reports, TASK_COLUMNS, "tasks, on what was held out", baselines=False))
    if not numbers:
        console.print(table_of(reports, CHANCE_COLUMNS, "chances", baselines=False))
    for result in results:
        if result.duel is not None and result.report is not None:
            console.print(duel_line(result, results[0].contender.name), markup=False)
    for report in reports:
        for line in lines_of(report, named=len(results) > 1):
            console.print(line, markup=False)


def table_of(reports: Sequence[Report], columns: Columns, title: str, baselines: bool) -> Table:
    table = Table("predictor", title=title, title_justify="left")
    table.columns[0].overflow = "fold"
    for name, _, _ in columns:
        table.add_column(name, justify="right", no_wrap=True)
    for report in reports:
        table.add_row(report.name, *(shown(report.figures.get(key), form) for _, key, form in columns))
    table.add_section()
    for words, name in BASELINES if baselines else ():
        value = reports[0].figures.get(f"{name}_{columns[0][1]}")
        if value is not None:
            table.add_row(words, shown(value, columns[0][2]))
    return table


def shown(value: float | None, form: str) -> str:
    return "-" if value is None else form.format(value)


def duel_line(result: Result, champion: str) -> str:
    duel = result.duel or {}
    if duel["difference"] is None:
        return f"{result.contender.name}: nothing to compare with {champion}"
    low, high = (f"{100 * duel[end]:+.2f}" for end in ("low", "high"))
    since = f", decided after {duel['decided_at']:,}" if duel["decided_at"] else ""
    return (
        f"{result.contender.name} is {duel['verdict']} against {champion}: {100 * duel['difference']:+.2f} points "
        f"({low} to {high} at every moment, 95 %{since})"
    )


def lines_of(report: Report, named: bool) -> Iterator[str]:
    name = f"{report.name}: " if named else ""
    yield f"{name}{report.events:,} events, {report.examples_per_second:,.0f} examples/s, state {report.state_sha256}"
    if report.same_answers is not None:
        yield f"{name}{report.same_answers:,} of {report.asked:,} answers as they were served"
    if report.bad:
        yield f"{name}{report.bad:,} lines could not be used"
    yield f"{name}{len(report.drift)} drift alarms{':' if report.drift else ''}"
    yield from map(alarm_line, report.drift)


def alarm_line(alarm: Alarm) -> str:
    place = alarm.label or ("" if alarm.projection is None else f"direction {alarm.projection}")
    change = f"{alarm.before:.3g} -> {alarm.after:.3g}"
    return f"  at {alarm.offset:,}: {alarm.what} {place} {change} since {alarm.since:,}"


def exit_status(played: Sequence[Played]) -> int:
    """130: interrupted. 2: no replay came to its end; 1: not every one did."""
    results = [result for each in played for result in each.results]
    failed = sum(result.report is None for result in results)
    if any(each.interrupted for each in played):
        return 130
    return 2 if failed == len(results) else 1 if failed else 0


def as_json(played: Sequence[Played]) -> dict[str, Any]:
    """Everything but the curves, which `write_csv` gives."""
    results = [{"log": each.log, **of_one(result)} for each in played for result in each.results]
    return {"interrupted": any(each.interrupted for each in played), "results": results}


def of_one(result: Result) -> dict[str, Any]:
    told: dict[str, Any] = {"name": result.contender.name, "kind": result.contender.kind}
    told |= {"options": {name: value for name, value in result.contender.options.items() if name != "key"}}
    if result.failure is not None:
        return {**told, "failure": result.failure}
    assert result.report is not None, "what did not fail has a report"
    report = asdict(result.report)
    del report["details"]["curve"], report["tasks"]
    if result.report.tasks is not None:
        report["tasks"] = {"names": result.report.tasks.names, "accuracies": result.report.tasks.ends}
    return {**told, **report, "against_champion": result.duel}


def write_csv(played: Sequence[Played], path: Path) -> None:
    """The learning curves: one row a log, model and stretch of examples, the means within the stretch.

    Raises SetupError where the file cannot be written.
    """
    reports = [(each.log, result.report) for each in played for result in each.results if result.report is not None]
    names = sorted({name for _, report in reports for stretch in report.details.curve for name in stretch.sums})
    try:
        with open(path, "w", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(["log", "name", "until", "count", *names])
            for log, report in reports:
                for stretch in report.details.curve:
                    means = ("" if mean is None else f"{mean:.6g}" for mean in map(stretch.mean, names))
                    rows.writerow([log, report.name, stretch.until, stretch.counts.get("model", 0), *means])
    except OSError as error:
        raise SetupError(f"the curve cannot be written to {path}: {error.strerror}") from None

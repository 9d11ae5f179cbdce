"""Prints the results of replays as tables in the terminal."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from online.evaluation.bases import count_judged, find_figure, is_by_construction
from online.evaluation.caveats import warn_of_outside
from online.evaluation.conclusion import VerdictText, conclude
from online.evaluation.remarks import (
    describe_columns,
    describe_known,
    describe_left_out,
    describe_settings,
    describe_skipped,
)
from online.evaluation.replay.replay_report import LogResults, ReplayReport, ReplayResult
from online.evaluation.sources.log_format import describe_expired
from online.evaluation.words import IN_ENGLISH, LanguageWords
from online.scoring.drift_changes import Alarm
from online.scoring.score import LEARNED_BASELINE

Columns = tuple[tuple[str, str], ...]  # a figure, and the format of its numbers

CLASS_COLUMNS: Columns = (
    ("accuracy", ".2%"),
    ("windowed_accuracy", ".2%"),
    ("fading_accuracy", ".2%"),
    ("kappa", ".3f"),
    ("kappa_temporal", ".3f"),
)
PROBABILITY_COLUMNS: Columns = (
    ("log_loss", ".3f"),
    ("brier", ".3f"),
    ("ece", ".3f"),
)
TASK_COLUMNS: Columns = (
    ("average_accuracy", ".2%"),
    ("forgetting", ".2%"),
    ("backward_transfer", "+.2%"),
    ("forward_transfer", ".2%"),
    ("average_anytime_accuracy", ".2%"),
    ("least_accuracy", ".2%"),
)
NUMBER_COLUMNS: Columns = (
    ("mae", ".6g"),
    ("rmse", ".6g"),
    ("r2", ".4f"),
    ("covered", ".1%"),
)
BASELINES = ("served", "frozen", "no_change", "majority", LEARNED_BASELINE, "mean")


def print_results(played: Sequence[LogResults], console: Console) -> None:
    """Print the results of all logs."""
    for each in played:
        if len(played) > 1:
            console.print(f"\n{each.log}", style="bold", markup=False)
        print_log_results(each.results, each.interrupted, console)


def print_log_results(results: Sequence[ReplayResult], interrupted: bool, console: Console) -> None:
    """Print the results of one log: failures, tables, remarks and the verdict."""
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
    if not numbers and not is_by_construction(reports[0]):
        console.print(build_table(reports, PROBABILITY_COLUMNS, "probabilities", baselines=False))
    for result in results:
        if result.comparison is not None and result.report is not None:
            console.print(describe_comparison(result, results[0].candidate.name), markup=False)
    for report in reports:
        for line in describe_report(report, named=len(results) > 1):
            console.print(line, markup=False)
    print_verdict(conclude(results, interrupted), console)


def print_verdict(verdict: VerdictText, console: Console) -> None:
    """Print the warnings, the verdict and the advice."""
    console.print()
    for line in verdict.warnings:
        console.print(line, style="yellow", markup=False)
    console.print(verdict.sentence, style="bold", markup=False, highlight=False)
    console.print(verdict.next, markup=False, highlight=False)


def build_table(reports: Sequence[ReplayReport], columns: Columns, title: str, baselines: bool) -> Table:
    """Build a table of figures, one row a model, and the baselines if wanted."""
    table = Table("predictor", title=title, title_justify="left")
    table.columns[0].overflow = "fold"
    for key, _ in columns:
        table.add_column(IN_ENGLISH(f"column.{key}"), justify="right", no_wrap=True)
    for report in reports:
        table.add_row(report.name, *(IN_ENGLISH.figure(find_figure(report, key), spec) for key, spec in columns))
    table.add_section()
    for each in find_baselines(reports, columns, IN_ENGLISH) if baselines else ():
        table.add_row(f"{each.row} (on {each.count:,})" if each.is_partial else each.row, each.figure)
    return table


@dataclass(frozen=True, slots=True)
class BaselineRow:
    """A baseline in a table. figure: its first one, of `count` answers; is_partial: whether the model has more."""

    name: str
    row: str
    figure: str
    count: int | None
    is_partial: bool


def find_baselines(reports: Sequence[ReplayReport], columns: Columns, words: LanguageWords) -> Iterator[BaselineRow]:
    """Yield a row of each baseline. Those that do not depend on the model are the first's."""
    key, spec = columns[0]
    for name in BASELINES:
        found = next((each for each in reports if each.figures.get(f"{name}_{key}") is not None), None)
        if found is not None:
            count = found.figures.get(f"{name}_judged")
            is_partial = count is not None and count < count_judged(found)
            figure = words.figure(found.figures[f"{name}_{key}"], spec)
            yield BaselineRow(name, words(f"row.{name}"), figure, None if count is None else int(count), is_partial)


def describe_comparison(result: ReplayResult, champion: str, words: LanguageWords = IN_ENGLISH) -> str:
    """Return a sentence on how the candidate compares with the champion."""
    comparison, names = result.comparison or {}, {"name": result.candidate.name, "champion": champion}
    if comparison["difference"] is None:
        return words("compared.nothing", **names)
    is_decided = comparison["decided_at"] and comparison["verdict"] != "undecided"
    decided = {"count": comparison["decided_at"]} if is_decided else {}
    return words(
        "compared.decided" if decided else "compared",
        **names,
        verdict=words(f"compared.{comparison['verdict']}"),
        points=100 * comparison["difference"],
        low=100 * comparison["low"],
        high=100 * comparison["high"],
        **decided,
    )


def describe_report(report: ReplayReport, named: bool) -> Iterator[str]:
    """Yield the remarks on one model."""
    name = f"{report.name}: " if named else ""
    if is_by_construction(report):
        yield f"{name}{IN_ENGLISH('by_construction')}"
    yield from (f"{name}{line}" for line in describe_known(report, IN_ENGLISH))
    yield from (f"{name}{line}" for line in describe_settings([report]))
    events = IN_ENGLISH.number(report.events, "event|events")
    yield f"{name}{events}, {report.examples_per_second:,.0f} examples/s, state {report.state_sha256}"
    if report.same_answers is not None:
        yield f"{name}{report.same_answers:,} of {report.asked:,} answers as they were served"
    if report.bad:
        lines = IN_ENGLISH("unusable", count=report.bad)
        yield f"{name}{lines}: {'; '.join(report.unusable.get('first', ()))}"
    if report.repeated_lines:
        yield f"{name}{IN_ENGLISH('repeated', count=report.repeated_lines)}"
    for reason, count in report.refused.items():
        examples = IN_ENGLISH.number(count, "example was|examples were")
        yield f"{name}{examples} judged and not learned: {reason}"
    if report.errors:
        yield f"{name}the first error:\n{report.errors['first']}"
    yield from (f"{name}{line}" for line in map(IN_ENGLISH.say, warn_of_outside(report)))
    if report.contents_from:
        yield f"{name}{describe_expired(report.contents_from)}"
    if report.left_out:
        yield f"{name}{describe_left_out(report.left_out)}"
    yield from (f"{name}{line}" for line in describe_columns(report.columns))
    if report.baseline_skipped:
        yield f"{name}{describe_skipped(report.baseline_skipped)}"
    alarms = IN_ENGLISH.number(len(report.drift), "drift alarm|drift alarms")
    yield f"{name}{alarms}{':' if report.drift else ''}"
    yield from map(describe_alarm, report.drift)


def describe_alarm(alarm: Alarm) -> str:
    """Return an alarm as one line."""
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

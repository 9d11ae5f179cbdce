"""Renders the results of a replay as one self-contained HTML page: no network, no script, plots as inline SVG."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import jinja2
import matplotlib

from online.errors import SetupError
from online.evaluation.replay.replay_report import ReplayReport, ReplayResult
from online.evaluation.reports.plots import STYLE, build_plots
from online.evaluation.reports.remarks import describe_left_out, describe_skipped, warn
from online.evaluation.reports.replay_table import (
    CLASS_COLUMNS,
    NUMBER_COLUMNS,
    PROBABILITY_COLUMNS,
    TASK_COLUMNS,
    Columns,
    describe_alarm,
    describe_comparison,
    format_figure,
    list_baselines,
)
from online.evaluation.sources.log_format import describe_expired

MAX_CLASS_ROWS = 30  # rows of the table of classes


@dataclass(frozen=True, slots=True)
class PageRow:
    """A row of a table. baseline: whether it is a baseline, shown in a softer colour."""

    cells: list[str]
    baseline: bool = False


@dataclass(frozen=True, slots=True)
class PageTable:
    """A table of the page. notes: paragraphs below it."""

    title: str
    columns: list[str]
    rows: list[PageRow]
    notes: list[str] = field(default_factory=list)


def write_report(results: Sequence[ReplayResult], source: str, interrupted: bool, path: Path) -> None:
    """Write the page. Raises SetupError if the file cannot be written."""
    try:
        path.write_text(render_page(results, source, interrupted))
    except OSError as error:
        raise SetupError(f"the report cannot be written to {path}: {error.strerror}") from None


def render_page(results: Sequence[ReplayResult], source: str, interrupted: bool) -> str:
    """Return the page as HTML. source: the name of what was replayed."""
    reports = [result.report for result in results if result.report is not None]
    template = jinja2.Environment(autoescape=True, trim_blocks=True).from_string(
        Path(__file__).with_name("report.html").read_text()
    )
    with matplotlib.rc_context(STYLE):
        plots = [plot for plot in build_plots(reports) if plot is not None]
    return template.render(
        source=source,
        subtitle=build_subtitle(reports, interrupted),
        warnings=[*warn(reports)],
        tables=[*build_tables(results, reports)],
        plots=plots,
        states=[{"name": report.name, "state": report.state_sha256} for report in reports],
    )


def build_subtitle(reports: Sequence[ReplayReport], interrupted: bool) -> str:
    if not reports:
        return "no model could be replayed"
    first = reports[0]
    words = [f"{first.examples:,} examples and {first.events:,} events, replayed in the order in which they happened"]
    words += ["interrupted: results so far"] if interrupted else []
    words += [f"{first.bad:,} lines could not be used"] if first.bad else []
    words += [describe_expired(first.contents_from)] if first.contents_from else []
    words += [describe_left_out(first.left_out)] if first.left_out else []
    return "; ".join(words)


def build_tables(results: Sequence[ReplayResult], reports: Sequence[ReplayReport]) -> Iterator[PageTable]:
    if not reports:
        return
    numbers = "mae" in reports[0].figures
    yield build_figures_table(
        "Overall", reports, NUMBER_COLUMNS if numbers else CLASS_COLUMNS, True, [*build_notes(results, reports)]
    )
    if not numbers:
        notes = [
            "Log-loss in nats; Brier score over all classes; expected calibration error over 15 bins of equal width."
        ]
        yield build_figures_table("Probabilities", reports, PROBABILITY_COLUMNS, False, notes)
    if any(report.tasks for report in reports):
        notes = [
            "Accuracy on the held-out fifth of each task. average: at the end. forgetting: the loss since its best. "
            "backward: the change since it was learned. forward: before it was learned. anytime: the mean of all tests. "
            "least: the lowest after a later task had begun."
        ]
        yield build_figures_table("Tasks", reports, TASK_COLUMNS, False, notes)
    if reports[0].details.labels:
        yield build_class_table(reports[0])


def build_figures_table(
    title: str, reports: Sequence[ReplayReport], columns: Columns, baselines: bool, notes: list[str]
) -> PageTable:
    rows = [
        PageRow([each.name, *(format_figure(each.figures.get(key), form) for _, key, form in columns)])
        for each in reports
    ]
    for words, figure in list_baselines(reports, columns) if baselines else ():
        rows.append(PageRow([words, figure, *[""] * (len(columns) - 1)], baseline=True))
    return PageTable(title, ["predictor", *(name for name, _, _ in columns)], rows, notes)


def build_notes(results: Sequence[ReplayResult], reports: Sequence[ReplayReport]) -> Iterator[str]:
    champion = results[0].candidate.name
    yield from (
        describe_comparison(result, champion) for result in results if result.comparison is not None and result.report
    )
    yield from (f"{result.candidate.name}: {result.failure}" for result in results if result.failure)
    for report in reports:
        if report.same_answers is not None:
            yield f"{report.name} gave {report.same_answers:,} of {report.asked:,} answers as they were served."
        if report.baseline_skipped:
            yield f"{report.name}: {describe_skipped(report.baseline_skipped)}."
        if report.drift:
            yield f"{report.name}: {len(report.drift)} drift alarms, the first {describe_alarm(report.drift[0]).strip()}."
    users = reports[0].details.users
    if len(users) > 1:
        top = max(users.values())
        yield f"{len(users):,} users gave feedback; the most active gave {top / sum(users.values()):.0%} of it."


def build_class_table(report: ReplayReport) -> PageTable:
    listed = sorted(report.details.labels.items(), key=lambda each: -each[1]["count"])
    rows = [
        PageRow([label, f"{figures['count']:,}", f"{figures['recall']:.1%}", f"{figures['precision']:.1%}"])
        for label, figures in listed[:MAX_CLASS_ROWS]
    ]
    notes = [f"The {MAX_CLASS_ROWS} most frequent of {len(listed):,}."] if len(listed) > MAX_CLASS_ROWS else []
    return PageTable(f"Classes ({report.name})", ["class", "examples", "recall", "precision"], rows, notes)

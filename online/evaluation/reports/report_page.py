"""Renders the results of a replay as one self-contained HTML page: no network, no script, plots as inline SVG.

results --conclude--> Verdict, first
        --sections--> tables, plots, matrices, with an explanation of each figure
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import jinja2
import matplotlib

from online.errors import SetupError
from online.evaluation.replay.replay_report import ReplayReport, ReplayResult
from online.evaluation.reports.glossary import Glossary
from online.evaluation.reports.matrices import Matrix, build_confusion_matrix, build_forgetting_matrix
from online.evaluation.reports.number_plots import plot_predictions, plot_residuals
from online.evaluation.reports.plots import (
    STYLE,
    Plot,
    plot_lateness,
    plot_learning_curve,
    plot_rate,
    plot_reliability,
    plot_versions,
)
from online.evaluation.reports.remarks import describe_left_out, describe_skipped
from online.evaluation.reports.replay_table import (
    CLASS_COLUMNS,
    NUMBER_COLUMNS,
    PROBABILITY_COLUMNS,
    TASK_COLUMNS,
    Columns,
    describe_comparison,
    find_baselines,
    format_figure,
)
from online.evaluation.reports.verdict import (
    conclude,
    describe_guesser,
    find_best,
    find_interval,
    find_strongest,
    is_of_numbers,
)
from online.evaluation.scoring.class_score import WINDOW
from online.evaluation.sources.log_format import describe_expired

MAX_CLASS_ROWS = 30  # rows of the table of classes
MAX_ALARM_ROWS = 30


@dataclass(frozen=True, slots=True)
class PageRow:
    """A row of a table. baseline: whether it is a baseline, shown in a softer colour. term: explains it."""

    cells: list[str]
    baseline: bool = False
    term: str = ""


@dataclass(frozen=True, slots=True)
class PageTable:
    """A table of the page. columns: names, each with the term that explains it, or "". notes: paragraphs below it.

    is_wide: whether it takes the width of the page.
    """

    title: str
    columns: list[tuple[str, str]]
    rows: list[PageRow]
    notes: list[str] = field(default_factory=list)
    term: str = ""
    is_wide: bool = False


@dataclass(frozen=True, slots=True)
class KeyFigure:
    """A figure at the top of the page. note: a line below it."""

    name: str
    value: str
    note: str
    term: str


Section = PageTable | Plot | Matrix


def write_report(
    results: Sequence[ReplayResult], source: str, interrupted: bool, path: Path, title: str | None = None
) -> None:
    """Write the page. Raises SetupError if the file cannot be written."""
    try:
        path.write_text(render_page(results, source, interrupted, title))
    except OSError as error:
        raise SetupError(f"the report cannot be written to {path}: {error.strerror}") from None


def render_page(results: Sequence[ReplayResult], source: str, interrupted: bool, title: str | None = None) -> str:
    """Return the page as HTML. source: the name of what was replayed. title: of the document, if not a replay's."""
    reports = [result.report for result in results if result.report is not None]
    environment = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters["bind"] = lambda text: text.replace(" %", "\u00a0%")  # a number keeps its sign in a line
    template = environment.from_string(Path(__file__).with_name("report.html").read_text())
    with matplotlib.rc_context(STYLE):
        sections = [section for section in build_sections(results, reports) if section is not None]
    glossary = Glossary()
    return template.render(
        title=title or f"Replay of {source}",
        source=source,
        subtitle=build_subtitle(reports, interrupted),
        verdict=conclude(results, interrupted),
        key_figures=[*build_key_figures(reports)],
        sections=[(find_kind(section), section) for section in sections],
        states=[{"name": report.name, "state": report.state_sha256} for report in reports],
        glossary=glossary,
    )


def find_kind(section: Section) -> str:
    return {PageTable: "table", Plot: "plot", Matrix: "matrix"}[type(section)]


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


# the figures at the top


def build_key_figures(reports: Sequence[ReplayReport]) -> Iterator[KeyFigure]:
    judged = [report for report in reports if report.figures.get("judged")]
    if not judged:
        return
    best = find_best(judged)
    figures, lead = best.figures, find_strongest(best.leads)
    form = "{:.6g}" if is_of_numbers(best) else "{:.1%}"
    if is_of_numbers(best):
        yield KeyFigure("Mean error", format_figure(figures["mae"], form), best.name, "mae")
        yield KeyFigure("R²", format_figure(figures["r2"], "{:.3f}"), "1 is perfect", "r2")
    else:
        low, high = find_interval(best)
        yield KeyFigure(
            "Accuracy", format_figure(figures["accuracy"], form), f"{best.name}, {low:.1%} to {high:.1%}", "accuracy"
        )
        if (figures["judged"] or 0) > WINDOW:  # otherwise it is the accuracy of all
            yield KeyFigure(
                f"Last {WINDOW:,}",
                format_figure(figures["windowed_accuracy"], form),
                "how good it is now",
                "windowed_accuracy",
            )
    if lead is not None:
        yield KeyFigure("Best simple guesser", form.format(lead.other), describe_guesser(lead), lead.baseline)
    yield KeyFigure("Judged answers", f"{int(figures['judged'] or 0):,}", f"{best.events:,} events", "judged")


# the sections


def build_sections(results: Sequence[ReplayResult], reports: Sequence[ReplayReport]) -> Iterator[Section | None]:
    if not reports:
        return
    first = reports[0]
    numbers = is_of_numbers(first)
    best = find_best(reports)
    yield plot_learning_curve(reports)
    notes = [*build_notes(results, reports)]
    yield build_figures_table("Overall", reports, NUMBER_COLUMNS if numbers else choose_columns(reports), True, notes)
    if numbers:
        yield plot_predictions(best)
        yield plot_residuals(best)
    shown = [best] if best is first else [best, first]
    yield from map(build_confusion_matrix, shown)
    yield from (build_class_table(report) for report in shown if report.details.labels)
    if not numbers:
        yield plot_reliability(reports)
        yield build_figures_table("Probabilities", reports, PROBABILITY_COLUMNS, False, [])
    if any(report.tasks for report in reports):
        yield build_figures_table(
            "Tasks", reports, TASK_COLUMNS, False, ["Accuracy on the held-out fifth of each task."]
        )
        yield from map(build_forgetting_matrix, reports)
    yield plot_versions(first)
    yield plot_rate(first)
    yield plot_lateness(first)
    yield build_alarm_table(reports)


def choose_columns(reports: Sequence[ReplayReport]) -> Columns:
    """Without the figure of the newest answers where it is the figure of all."""
    is_long = any((report.figures.get("judged") or 0) > WINDOW for report in reports)
    return tuple(column for column in CLASS_COLUMNS if is_long or column[1] != "windowed_accuracy")


def build_figures_table(
    title: str, reports: Sequence[ReplayReport], columns: Columns, baselines: bool, notes: list[str]
) -> PageTable:
    rows = [
        PageRow([each.name, *(format_figure(each.figures.get(key), form) for _, key, form in columns)])
        for each in reports
    ]
    for name, words, figure in find_baselines(reports, columns) if baselines else ():
        rows.append(PageRow([words, figure, *[""] * (len(columns) - 1)], baseline=True, term=name))
    return PageTable(
        title, [("predictor", ""), *((name, key) for name, key, _ in columns)], rows, notes, is_wide=baselines
    )


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
    columns = [("class", ""), ("examples", ""), ("recall", "recall"), ("precision", "precision")]
    return PageTable(f"Classes ({report.name})", columns, rows, notes)


def build_alarm_table(reports: Sequence[ReplayReport]) -> PageTable | None:
    alarms = [(report.name, alarm) for report in reports for alarm in report.drift]
    if not alarms:
        return None
    words = {"loss": "all answers", "class": "answers of one class", "features": "inputs"}
    rows = [
        PageRow(
            [
                name,
                f"{alarm.offset:,}",
                f"{alarm.since:,}",
                words[alarm.what],
                alarm.label or ("" if alarm.projection is None else f"direction {alarm.projection}"),
                f"{alarm.before:.3g} → {alarm.after:.3g}",
            ]
        )
        for name, alarm in alarms[:MAX_ALARM_ROWS]
    ]
    notes = [f"The first {MAX_ALARM_ROWS} of {len(alarms):,}."] if len(alarms) > MAX_ALARM_ROWS else []
    notes.append("The change is that of the mean loss, or for inputs of the mean along a direction.")
    names = ("model", "at event", "since", "what changed", "where", "change")
    return PageTable("Drift alarms", [(name, "") for name in names], rows, notes, "drift", is_wide=True)

"""Renders the results of a replay as one self-contained HTML page: no network, no script, plots as inline SVG.

results --conclude--> Verdict, first
        --sections--> tables, plots, matrices, with an explanation of each figure
"""

import base64
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import jinja2
import matplotlib

from online.errors import SetupError
from online.evaluation.bases import (
    count_judged,
    count_known,
    count_with_probabilities,
    find_figure,
    find_smaller_basis,
    has_known,
    is_by_construction,
    is_partial,
)
from online.evaluation.conclusion import conclude
from online.evaluation.noticed_fall import find_noticed_fall, list_begins
from online.evaluation.remarks import (
    describe_columns,
    describe_known,
    describe_known_basis,
    describe_left_out,
    describe_settings,
    describe_skipped,
)
from online.evaluation.replay.replay_report import LogResults, ReplayReport, ReplayResult
from online.evaluation.replay_table import (
    CLASS_COLUMNS,
    NUMBER_COLUMNS,
    PROBABILITY_COLUMNS,
    TASK_COLUMNS,
    Columns,
    describe_comparison,
    find_baselines,
)
from online.evaluation.verdict import (
    describe_guesser,
    find_best,
    find_interval,
    find_strongest,
    is_of_numbers,
)
from online.evaluation.words import IN_ENGLISH, LanguageWords
from online.plugins.reports.glossary import ReportGlossary
from online.plugins.reports.languages import WORDS
from online.plugins.reports.matrices import MatrixTable, build_confusion_matrix, build_forgetting_matrix
from online.plugins.reports.number_plots import plot_predictions, plot_residuals
from online.plugins.reports.plots import (
    STYLE,
    Plot,
    plot_lateness,
    plot_learning_curve,
    plot_rate,
    plot_reliability,
    plot_versions,
)
from online.schemas.fields import Language
from online.scoring.class_score import WINDOW
from online.scoring.drift_changes import Alarm

MAX_CLASS_ROWS = 30  # rows of the table of classes
MAX_ALARM_ROWS = 30
MAX_SHORT_ROWS = 12  # of a table beside which one section fits
FONT = Path(__file__).parent / "font" / "figtree-latin-wght-normal.woff2"  # the font of the pages


@dataclass(frozen=True, slots=True)
class PageRow:
    """A row of a table. baseline: whether it is a baseline, shown in a softer colour. term: explains it.

    bases: by the place of a cell, which answers it is of, if not those that the row names.
    """

    cells: list[str]
    baseline: bool = False
    term: str = ""
    bases: dict[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PageTable:
    """A table of the page. columns: names, each with the term that explains it, or "". notes: paragraphs below it.

    is_wide: whether it takes the width of the page. basis: which answers it is of. caveats: paragraphs above it.
    """

    title: str
    columns: list[tuple[str, str]]
    rows: list[PageRow]
    notes: list[str] = field(default_factory=list)
    term: str = ""
    is_wide: bool = False
    basis: str = ""
    caveats: list[str] = field(default_factory=list)

    @property
    def is_tall(self) -> bool:
        """Whether the table is long and is folded on the page."""
        return len(self.rows) > MAX_SHORT_ROWS


@dataclass(frozen=True, slots=True)
class KeyFigure:
    """A figure at the top of the page. note: a line below it. basis: which answers it is of."""

    name: str
    value: str
    note: str
    term: str
    basis: str = ""


Section = PageTable | Plot | MatrixTable


def write_replay_page(played: LogResults, path: Path, language: Language) -> None:
    """Write the results of `online replay` on one log. Raises SetupError if the file cannot be written."""
    write_report(played.results, played.log, played.interrupted, path, words=WORDS[language])


def write_report(
    results: Sequence[ReplayResult],
    source: str,
    interrupted: bool,
    path: Path,
    title: str | None = None,
    words: LanguageWords = IN_ENGLISH,
) -> None:
    """Write the page. Raises SetupError if the file cannot be written."""
    try:
        path.write_text(render_page(results, source, interrupted, title, words))
    except OSError as error:
        raise SetupError(f"the report cannot be written to {path}: {error.strerror}") from None


def render_page(
    results: Sequence[ReplayResult],
    source: str,
    interrupted: bool,
    title: str | None = None,
    words: LanguageWords = IN_ENGLISH,
) -> str:
    """Return the page as HTML. source: the name of what was replayed. title: of the document, if not a replay's."""
    reports = [result.report for result in results if result.report is not None]
    environment = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters["bind"] = keep_together
    template = environment.from_string(Path(__file__).with_name("report.html").read_text())
    with matplotlib.rc_context(STYLE):
        sections = [section for section in build_sections(results, reports, words) if section is not None]
    glossary = ReportGlossary(words)
    return template.render(
        words=words,
        font=base64.b64encode(FONT.read_bytes()).decode(),
        language=words.language,
        title=title or words("title", source=source),
        source=source,
        subtitle=build_subtitle(reports, interrupted, words),
        verdict=conclude(results, interrupted, words, names_options=False),
        key_figures=[*build_key_figures(reports, words)],
        sections=[(find_kind(section), section) for section in sections],
        states=[{"name": report.name, "state": report.state_sha256} for report in reports],
        glossary=glossary,
    )


def keep_together(text: str) -> str:
    """Keep a number and its percent sign in one line, with what German joins to them by hyphens."""
    return text.replace(" %", "\u00a0%").replace("-%-", "-\u2060%-\u2060")


def find_kind(section: Section) -> str:
    """Return the kind of a section, which names its template."""
    return {PageTable: "table", Plot: "plot", MatrixTable: "matrix"}[type(section)]


def build_subtitle(reports: Sequence[ReplayReport], interrupted: bool, words: LanguageWords) -> str:
    """Return the line below the title: how many examples and events, and whether it was interrupted."""
    if not reports:
        return words("subtitle.none")
    first = reports[0]
    parts = [words("subtitle", examples=first.examples, events=first.events)]
    parts += [words("subtitle.interrupted")] if interrupted else []
    parts += [words("unusable", count=first.bad)] if first.bad else []
    parts += [words("repeated", count=first.repeated_lines)] if first.repeated_lines else []
    parts += [words("expired", contents_from=first.contents_from)] if first.contents_from else []
    parts += [describe_left_out(first.left_out, words)] if first.left_out else []
    parts += describe_settings(reports, words)
    parts += describe_columns(first.columns, words)
    return "; ".join(parts)


# the figures at the top


def build_key_figures(reports: Sequence[ReplayReport], words: LanguageWords) -> Iterator[KeyFigure]:
    """Yield the figures at the head of the page: those of the best model."""
    judged = [report for report in reports if report.figures.get("judged")]
    if not judged:
        return
    best = find_best(judged)
    figures, lead = best.figures, find_strongest(best.leads)
    spec = ".6g" if is_of_numbers(best) else ".1%"
    basis = words.plural("basis.judged", count_judged(best))
    if is_of_numbers(best):
        yield KeyFigure(words("key.error"), words.figure(figures["mae"], spec), best.name, "mae", basis)
        yield KeyFigure(words("key.r2"), words.figure(figures["r2"], ".3f"), words("key.r2_note"), "r2", basis)
    else:
        low, high = find_interval(best)
        note = words("key.accuracy_note", name=best.name, low=low, high=high)
        yield KeyFigure(words("key.accuracy"), words.figure(figures["accuracy"], spec), note, "accuracy", basis)
        noticed = find_noticed_fall(best)
        if noticed is not None:  # the newest answers since, as the verdict has them: older ones say nothing about now
            now = noticed.past.now
            name, which = words("key.windowed", count=now.count), words("basis.newest", count=now.count)
            yield KeyFigure(name, words.figure(now.mean, spec), words("key.windowed_note"), "accuracy", which)
        elif count_judged(best) > WINDOW:  # otherwise it is the accuracy of all
            newest = words.figure(figures["windowed_accuracy"], spec)
            name, which = words("key.windowed", count=WINDOW), words("basis.newest", count=WINDOW)
            yield KeyFigure(name, newest, words("key.windowed_note"), "windowed_accuracy", which)
    if lead is not None and is_by_construction(best):
        yield KeyFigure(words("key.guesser"), "–", words("key.not_comparable"), lead.baseline)
    elif lead is not None:
        name, other = words("key.guesser"), words.number(lead.other, spec)
        if is_partial(best, lead):
            figure = words.number(lead.model, spec)
            key = "basis.beside_known" if count_known(best) < count_judged(best) else "basis.beside"
            basis = words(key, count=lead.pairs, judged=count_judged(best), name=best.name, figure=figure)
        yield KeyFigure(name, other, words.say(describe_guesser(lead)), lead.baseline, basis)
    count = words.number(count_judged(best), ",")
    yield KeyFigure(words("key.judged"), count, words("key.judged_note", events=best.events), "judged")


# the sections


def build_sections(
    results: Sequence[ReplayResult], reports: Sequence[ReplayReport], words: LanguageWords
) -> Iterator[Section | None]:
    """Yield the plots and tables of the page in order; None where there is nothing to show."""
    if not reports:
        return
    first = reports[0]
    numbers = is_of_numbers(first)
    best = find_best(reports)
    yield plot_learning_curve(reports, words)
    notes = [*build_notes(results, reports, words)]
    columns = NUMBER_COLUMNS if numbers else choose_columns(reports)
    yield build_figures_table("table.overall", reports, columns, True, notes, words, count_judged)
    if numbers:
        yield plot_predictions(best, words)
        yield plot_residuals(best, words)
    shown = [best] if best is first else [best, first]
    shown = [report for report in shown if not is_by_construction(report)]
    yield from (build_confusion_matrix(report, words) for report in shown)
    yield from (build_class_table(report, words) for report in shown if report.details.labels)
    if shown and not numbers:
        yield plot_reliability(reports, words)
        counted = count_with_probabilities
        yield build_figures_table("table.probabilities", reports, PROBABILITY_COLUMNS, False, [], words, counted)
    if any(report.tasks for report in reports):
        yield build_figures_table("table.tasks", reports, TASK_COLUMNS, False, [words("table.tasks_note")], words)
        yield from (build_forgetting_matrix(report, words) for report in reports)
    yield plot_versions(first, words)
    yield plot_rate(first, words)
    yield plot_lateness(first, words)
    yield build_alarm_table(reports, words)


def choose_columns(reports: Sequence[ReplayReport]) -> Columns:
    """Without the figure of the newest answers where it is the figure of all."""
    is_long = any((report.figures.get("judged") or 0) > WINDOW for report in reports)
    return tuple(column for column in CLASS_COLUMNS if is_long or column[0] != "windowed_accuracy")


def build_figures_table(
    title: str,
    reports: Sequence[ReplayReport],
    columns: Columns,
    baselines: bool,
    notes: list[str],
    words: LanguageWords,
    count: Callable[[ReplayReport], int] | None = None,
) -> PageTable:
    """title: the key of its words. count: returns how many answers the figures of a model are of, shown beside them."""
    rows = [build_figures_row(each, columns, words, count) for each in reports]
    for each in find_baselines(reports, columns, words) if baselines else ():
        answers = "" if each.count is None else words.number(each.count, ",")
        cells = [each.row, answers, each.figure, *[""] * (len(columns) - 1)]
        rows.append(PageRow(cells, baseline=True, term=each.name))
    heads = [(words("column.predictor"), ""), *([(words("column.answers"), "judged")] if count else [])]
    heads += [(words(f"column.{key}"), key) for key, _ in columns]
    caveats = [*describe_caveats(reports[0], words)] if baselines else []
    return PageTable(words(title), heads, rows, notes, is_wide=baselines, caveats=caveats)


def describe_caveats(report: ReplayReport, words: LanguageWords) -> Iterator[str]:
    """Yield what a reader must know of the figures that leave out answers, before the first of them."""
    if is_by_construction(report):
        yield words("by_construction")
    yield from describe_known(report, words)


def build_figures_row(
    report: ReplayReport, columns: Columns, words: LanguageWords, count: Callable[[ReplayReport], int] | None
) -> PageRow:
    """Build a row of figures of one model."""
    answers = [words.number(count(report), ",")] if count else []
    cells = [report.name, *answers, *(words.figure(find_figure(report, key), spec) for key, spec in columns)]
    smaller = {place: find_smaller_basis(report, key) for place, (key, _) in enumerate(columns, 1 + len(answers))}
    bases = {place: words("basis.short", count=fewer) for place, fewer in smaller.items() if fewer is not None}
    return PageRow(cells, bases=bases)


def build_notes(
    results: Sequence[ReplayResult], reports: Sequence[ReplayReport], words: LanguageWords
) -> Iterator[str]:
    """Yield the remarks below the figures."""
    champion = results[0].candidate.name
    compared = (result for result in results if result.comparison is not None and result.report)
    yield from (describe_comparison(result, champion, words) for result in compared)
    yield from (f"{result.candidate.name}: {result.failure}" for result in results if result.failure)
    for report in reports:
        if report.same_answers is not None:
            yield words("same_answers", name=report.name, same=report.same_answers, asked=report.asked)
        if report.baseline_skipped:
            yield f"{report.name}: {describe_skipped(report.baseline_skipped, words)}."
    users = reports[0].details.users
    if len(users) > 1:
        yield words("users", count=len(users), share=max(users.values()) / sum(users.values()))


def build_class_table(report: ReplayReport, words: LanguageWords) -> PageTable | None:
    """Return None if the right class is not known of most answers."""
    listed = sorted(report.details.labels.items(), key=lambda each: -each[1]["count"])
    rows = [
        PageRow(
            [
                label,
                words.number(figures["count"], ","),
                words.number(figures["recall"], ".1%"),
                words.number(figures["precision"], ".1%"),
            ]
        )
        for label, figures in listed[:MAX_CLASS_ROWS]
    ]
    is_cut = len(listed) > MAX_CLASS_ROWS
    known = int(sum(figures["count"] for _, figures in listed))
    if not has_known(report, known):
        return None
    notes = [words("table.most_frequent", count=MAX_CLASS_ROWS, total=len(listed))] if is_cut else []
    terms = {"class": "", "examples": "", "recall": "recall", "precision": "precision"}
    columns = [(words(f"column.{name}"), term) for name, term in terms.items()]
    basis = describe_known_basis(known, report, words)
    return PageTable(words("table.classes", name=report.name), columns, rows, notes, basis=basis)


def build_alarm_table(reports: Sequence[ReplayReport], words: LanguageWords) -> PageTable | None:
    """Build the table of drift alarms; None without alarms."""
    alarms = [
        (report, alarm, began)
        for report in reports
        for alarm, began in zip(report.drift, list_begins(report), strict=True)
    ]
    if not alarms:
        return None
    rows = [PageRow(build_alarm_cells(*each, words)) for each in alarms[:MAX_ALARM_ROWS]]
    is_cut = len(alarms) > MAX_ALARM_ROWS
    notes = [words("table.first", count=MAX_ALARM_ROWS, total=len(alarms))] if is_cut else []
    if any(alarm.what == "features" for _, alarm, _ in alarms):
        notes.append(words("table.alarms_note"))
    names = ("model", "at_event", "since", "what", "where", "change")
    columns = [(words(f"column.{name}"), "") for name in names]
    return PageTable(words("table.alarms"), columns, rows, notes, "drift", is_wide=True)


def build_alarm_cells(report: ReplayReport, alarm: Alarm, began: int, words: LanguageWords) -> list[str]:
    """began: the event with which its change began."""
    of_inputs, numbers = alarm.what == "features", is_of_numbers(report)
    what = "alarm.features" if of_inputs else "alarm.far" if numbers else "alarm.wrong"
    spec = ".3g" if of_inputs else ".0%"
    values: dict[str, object] = {"label": alarm.label, "number": alarm.projection}
    return [
        report.name,
        words.number(alarm.offset, ","),
        words.number(began, ","),
        words(what),
        words(f"alarm.in.{alarm.what}", **values),
        f"{words.number(alarm.before, spec)} → {words.number(alarm.after, spec)}",
    ]

"""The numbers of a replay as one page: no network, no script, plots as SVG inside it; for a phone, for paper."""

import io
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import reduce
from pathlib import Path
from typing import Any

import jinja2
import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from online.errors import SetupError
from online.evaluation.race import Result
from online.evaluation.replay import Report
from online.evaluation.scores import LATENESS
from online.evaluation.table import (
    BASELINES,
    CHANCE_COLUMNS,
    LABEL_COLUMNS,
    NUMBER_COLUMNS,
    TASK_COLUMNS,
    Columns,
    alarm_line,
    duel_line,
    shown,
)
from online.prequential import Stretch

POINTS, BASELINE_POINTS = 100, 30  # of a curve at most: more would be noise to the eye, and so would be
EXAMPLES_A_POINT, LEAST_POINTS = 50, 12  # points of few examples, unless there are but few of either
LABELS = 30  # rows of the table of labels
COLOURS = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#E69F00",
    "#56B4E9",
    "#000000",
)  # Okabe & Ito: told apart by all
GREY = "#7a7a7a"
DASHES = {"served": "--", "frozen": "-.", "no_change": ":", "majority": (0, (1, 3)), "mean": (0, (1, 3))}
STYLE: Any = {
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#ececec",
    "axes.axisbelow": True,
}


@dataclass(frozen=True, slots=True)
class Row:
    cells: list[str]
    baseline: bool = False


@dataclass(frozen=True, slots=True)
class Grid:
    title: str
    columns: list[str]
    rows: list[Row]
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Plot:
    """columns, rows: the same numbers in words, for those who cannot see it."""

    title: str
    caption: str
    svg: str
    columns: list[str]
    rows: list[list[str]]


def write_report(results: Sequence[Result], source: str, interrupted: bool, path: Path) -> None:
    """Raises SetupError where the file cannot be written."""
    try:
        path.write_text(page(results, source, interrupted))
    except OSError as error:
        raise SetupError(f"the report cannot be written to {path}: {error.strerror}") from None


def page(results: Sequence[Result], source: str, interrupted: bool) -> str:
    reports = [result.report for result in results if result.report is not None]
    template = jinja2.Environment(autoescape=True, trim_blocks=True).from_string(
        Path(__file__).with_name("report.html").read_text()
    )
    with matplotlib.rc_context(STYLE):
        plots = [plot for plot in plots_of(reports) if plot is not None]
    return template.render(
        source=source,
        subtitle=subtitle(reports, interrupted),
        tables=[*tables_of(results, reports)],
        plots=plots,
        states=[{"name": report.name, "state": report.state_sha256} for report in reports],
    )


def subtitle(reports: Sequence[Report], interrupted: bool) -> str:
    if not reports:
        return "no model could be replayed"
    first = reports[0]
    words = [f"{first.examples:,} examples and {first.events:,} events, replayed in the order in which they happened"]
    words += ["interrupted: what was known so far"] if interrupted else []
    words += [f"{first.bad:,} lines could not be used"] if first.bad else []
    return "; ".join(words)


# tables


def tables_of(results: Sequence[Result], reports: Sequence[Report]) -> Iterator[Grid]:
    if not reports:
        return
    numbers = "mae" in reports[0].figures
    yield figures_grid(
        "In all", reports, NUMBER_COLUMNS if numbers else LABEL_COLUMNS, True, [*notes_of(results, reports)]
    )
    if not numbers:
        notes = [
            "Log-loss in nats, Brier score over all labels, expected calibration error over 15 bins of equal width."
        ]
        yield figures_grid("Chances", reports, CHANCE_COLUMNS, False, notes)
    if any(report.tasks for report in reports):
        notes = [
            "On the fifth of each task that was held out: at the end; how far below its best; how far from when it was learned; "
            "before it was learned; the mean over all tests; the least ever measured once later tasks had begun."
        ]
        yield figures_grid("Tasks", reports, TASK_COLUMNS, False, notes)
    if reports[0].details.labels:
        yield labels_grid(reports[0])


def figures_grid(title: str, reports: Sequence[Report], columns: Columns, baselines: bool, notes: list[str]) -> Grid:
    rows = [Row([each.name, *(shown(each.figures.get(key), form) for _, key, form in columns)]) for each in reports]
    for words, name in BASELINES if baselines else ():
        value = reports[0].figures.get(f"{name}_{columns[0][1]}")
        if value is not None:
            rows.append(Row([words, shown(value, columns[0][2]), *[""] * (len(columns) - 1)], baseline=True))
    return Grid(title, ["predictor", *(name for name, _, _ in columns)], rows, notes)


def notes_of(results: Sequence[Result], reports: Sequence[Report]) -> Iterator[str]:
    champion = results[0].contender.name
    yield from (duel_line(result, champion) for result in results if result.duel is not None and result.report)
    yield from (f"{result.contender.name}: {result.failure}" for result in results if result.failure)
    for report in reports:
        if report.same_answers is not None:
            yield f"{report.name} gave {report.same_answers:,} of {report.asked:,} answers as they were served."
        if report.drift:
            yield f"{report.name}: {len(report.drift)} drift alarms, the first {alarm_line(report.drift[0]).strip()}."
    users = reports[0].details.users
    if len(users) > 1:
        top = max(users.values())
        yield f"{len(users):,} users rated; the busiest gave {top / sum(users.values()):.0%} of all ratings."


def labels_grid(report: Report) -> Grid:
    listed = sorted(report.details.labels.items(), key=lambda each: -each[1]["count"])
    rows = [
        Row([label, f"{told['count']:,}", f"{told['recall']:.1%}", f"{told['precision']:.1%}"])
        for label, told in listed[:LABELS]
    ]
    notes = [f"The {LABELS} most frequent of {len(listed):,}."] if len(listed) > LABELS else []
    return Grid(f"Labels ({report.name})", ["label", "right answer", "recall", "precision"], rows, notes)


# plots


def plots_of(reports: Sequence[Report]) -> Iterator[Plot | None]:
    if not reports:
        return
    yield learning_curve(reports)
    yield from (forgetting_plot(report) for report in reports)
    yield versions_plot(reports[0])
    yield reliability_plot(reports)
    yield rate_plot(reports[0])
    yield lateness_plot(reports[0])


def drawn(draw: Callable[[Axes], None], salt: str, height: float = 3.4) -> str:
    """An SVG whose width follows the page. salt: keeps the names inside it apart from other plots'."""
    with matplotlib.rc_context({"svg.hashsalt": salt}):
        figure = Figure(figsize=(6.8, height), layout="constrained")
        draw(figure.add_subplot())
        file = io.StringIO()
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    svg = file.getvalue()
    return re.sub(r"<metadata>.*?</metadata>", "", svg[svg.index("<svg") :], flags=re.DOTALL)


def learning_curve(reports: Sequence[Report]) -> Plot | None:
    numbers = "mae" in reports[0].figures
    curves = [thinned(report.details.curve) for report in reports]
    if not curves[0]:
        return None

    def draw(axes: Axes) -> None:
        for words, name in BASELINES:
            line(axes, thinned(curves[0], BASELINE_POINTS), name, words, GREY, dashes=DASHES[name])
        for place, (report, curve, colour) in enumerate(zip(reports, curves, colours(), strict=False)):
            line(axes, curve, "model", report.name, colour, band=not numbers)
            alarms = [example_at(curve, alarm.offset) for alarm in report.drift]
            height = [0.015 + 0.03 * place] * len(alarms)  # of the axes: a row of ticks for each model
            axes.plot(alarms, height, "|", color=colour, markersize=7, transform=axes.get_xaxis_transform())
        axes.set_xlabel("examples")
        axes.set_ylabel("mean absolute error" if numbers else "accuracy")
        if not numbers:
            axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
        axes.legend(frameon=False, fontsize=9, loc="upper left", bbox_to_anchor=(0, -0.18), ncols=3)

    names = [name for name in ("model", *DASHES) if any(stretch.counts.get(name) for stretch in curves[0])]
    rows = [[f"{stretch.until:,}", *(number(stretch.mean(name)) for name in names)] for stretch in curves[0]]
    bands = "" if numbers else " Bands are 95 % intervals (Wilson)."
    marks = " Ticks at the foot are drift alarms." if any(report.drift for report in reports) else ""
    caption = f"Each point is the mean over a stretch of {stretch_width(curves[0]):,} examples.{bands}{marks}"
    return Plot("Learning curve", caption, drawn(draw, "learning", 4.2), ["examples", *names], rows)


def colours() -> Iterator[str]:
    while True:
        yield from COLOURS


def thinned(curve: Sequence[Stretch], most: int = POINTS) -> list[Stretch]:
    """In few enough stretches; the last one is joined with the one before where it is too short to say anything."""
    told = curve[-1].until if curve else 0
    most = min(most, max(LEAST_POINTS, told // EXAMPLES_A_POINT))
    together = -(-len(curve) // most)
    found = [reduce(Stretch.joined, curve[place : place + together]) for place in range(0, len(curve), together or 1)]
    if len(found) > 2 and found[-1].until - found[-2].until < stretch_width(found) / 2:
        found[-2:] = [found[-2].joined(found[-1])]
    return found


def stretch_width(curve: Sequence[Stretch]) -> int:
    return curve[0].until


def line(
    axes: Axes, curve: Sequence[Stretch], name: str, words: str, colour: str, dashes: Any = "-", band: bool = False
) -> None:
    known = [stretch for stretch in curve if stretch.counts.get(name)]
    if not known:
        return
    places = [stretch.until for stretch in known]
    means = [stretch.mean(name) or 0.0 for stretch in known]
    axes.plot(places, means, color=colour, linestyle=dashes, linewidth=1.8 if band else 1.3, label=words)
    if band:
        limits = [wilson(stretch.sums[name], stretch.counts[name]) for stretch in known]
        low, high = zip(*limits, strict=True)
        axes.fill_between(places, low, high, color=colour, alpha=0.15, linewidth=0)


def wilson(right: float, count: int) -> tuple[float, float]:
    """The 95 % interval of a share (Wilson 1927)."""
    z = 1.96
    middle = (right + z * z / 2) / (count + z * z)
    reach = z * math.sqrt(right * (count - right) / count + z * z / 4) / (count + z * z)
    return max(0.0, middle - reach), min(1.0, middle + reach)


def example_at(curve: Sequence[Stretch], offset: int) -> float:
    return float(np.interp(offset, [stretch.offset for stretch in curve], [stretch.until for stretch in curve]))


def forgetting_plot(report: Report) -> Plot | None:
    tasks = report.tasks
    if tasks is None or len(tasks.ends) < 2:
        return None
    matrix = tasks.matrix()

    def draw(axes: Axes) -> None:
        image = axes.imshow(matrix, vmin=0, vmax=1, cmap="viridis", aspect="auto")
        axes.set_xticks(range(len(tasks.names)), tasks.names, rotation=45, ha="right")
        axes.set_yticks(range(len(tasks.ends)), tasks.names[: len(tasks.ends)])
        axes.set_xlabel("tested on")
        axes.set_ylabel("after learning")
        axes.grid(visible=False)
        for (row, column), value in np.ndenumerate(matrix) if matrix.size <= 150 else ():
            colour = "black" if value > 0.6 else "white"
            axes.text(column, row, f"{100 * value:.0f}", ha="center", va="center", color=colour, fontsize=8)
        axes.figure.colorbar(image, ax=axes, format=lambda value, _: f"{value:.0%}")

    rows = [[name, *(f"{value:.1%}" for value in row)] for name, row in zip(tasks.names, matrix, strict=False)]
    caption = "A column that darkens downwards is a task that is being forgotten."
    return Plot(
        f"Forgetting ({report.name})", caption, drawn(draw, f"tasks {report.name}", 4.4), ["after", *tasks.names], rows
    )


def versions_plot(report: Report) -> Plot | None:
    """Of what was served when it happened."""
    told = grouped(report.details.versions)
    if len(told) < 2:
        return None

    def draw(axes: Axes) -> None:
        places = [version for version, _, _ in told]
        shares = [right / rated for _, rated, right in told]
        limits = [wilson(right, rated) for _, rated, right in told]
        reach = [[share - low for share, (low, _) in zip(shares, limits, strict=True)]]
        reach.append([high - share for share, (_, high) in zip(shares, limits, strict=True)])
        axes.errorbar(places, shares, reach, fmt="o", markersize=4, color=COLOURS[0], ecolor="#9cc3dd", linewidth=1.2)
        axes.set_xlabel("version")
        axes.set_ylabel("rated right")
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")

    rows = [[f"{version:,}", f"{rated:,}", f"{right / rated:.1%}"] for version, rated, right in told]
    caption = "Answers as they were served, by the version that gave them; neighbouring versions taken together where they are many."
    return Plot("Versions", caption, drawn(draw, "versions"), ["from version", "rated", "right"], rows)


def grouped(versions: dict[int, tuple[int, int]], most: int = 60) -> list[tuple[int, int, int]]:
    """(first version, rated, right), neighbours together so that there are no more than `most`."""
    told = [(version, rated, right) for version, (rated, right) in sorted(versions.items()) if rated]
    size = -(-len(told) // most) if told else 1
    groups = [told[place : place + size] for place in range(0, len(told), size)]
    return [(group[0][0], sum(each[1] for each in group), sum(each[2] for each in group)) for group in groups]


def reliability_plot(reports: Sequence[Report]) -> Plot | None:
    if not any(report.details.reliability for report in reports):
        return None

    def draw(axes: Axes) -> None:
        axes.plot([0, 1], [0, 1], color=GREY, linestyle=":", linewidth=1.2, label="perfect")
        for report, colour in zip(reports, colours(), strict=False):
            chances = [chance for _, chance, _ in report.details.reliability]
            rights = [right for _, _, right in report.details.reliability]
            axes.plot(chances, rights, "o-", markersize=4, color=colour, linewidth=1.5, label=report.name)
        axes.set_xlabel("chance the model gave its best answer")
        axes.set_ylabel("how often it was right")
        axes.set_aspect("equal")
        axes.legend(frameon=False, fontsize=9, loc="upper left", bbox_to_anchor=(1.02, 1))

    rows = [
        [report.name, f"{chance:.1%}", f"{right:.1%}", f"{count:,}"]
        for report in reports
        for count, chance, right in report.details.reliability
    ]
    caption = "On the diagonal, chances mean what they say; below it the model is too sure of itself."
    columns = ["model", "chance", "right", "examples"]
    return Plot("Calibration", caption, drawn(draw, "reliability", 3.8), columns, rows)


def rate_plot(report: Report) -> Plot | None:
    """Feedback an hour, where the log knows when."""
    rates = [(middle, rate) for stretch in thinned(report.details.curve) for middle, rate in rate_of(stretch)]
    if len(rates) < 2:
        return None

    def draw(axes: Axes) -> None:
        axes.plot([when for when, _ in rates], [rate for _, rate in rates], color=COLOURS[2], linewidth=1.5)  # type: ignore[arg-type]
        axes.set_ylabel("ratings an hour")
        axes.set_ylim(bottom=0)
        axes.tick_params(axis="x", labelrotation=20)

    rows = [[f"{when:%Y-%m-%d %H:%M:%S}", f"{rate:,.1f}"] for when, rate in rates]
    return Plot(
        "Feedback", "How often somebody said what they thought.", drawn(draw, "rate", 2.8), ["time", "an hour"], rows
    )


def rate_of(stretch: Stretch) -> Iterator[tuple[datetime, float]]:
    if stretch.began and stretch.ended and stretch.counts:
        began, ended = datetime.fromisoformat(stretch.began), datetime.fromisoformat(stretch.ended)
        hours = (ended - began).total_seconds() / 3600
        if hours > 0:
            yield began + (ended - began) / 2, max(stretch.counts.values()) / hours


def lateness_plot(report: Report) -> Plot | None:
    """Freshness, where the log knows when something was learned."""
    known = [(stretch.until, stretch.mean(LATENESS)) for stretch in thinned(report.details.curve)]
    told = [(until, 1_000 * mean) for until, mean in known if mean is not None]
    if len(told) < 2:
        return None

    def draw(axes: Axes) -> None:
        axes.plot([until for until, _ in told], [mean for _, mean in told], color=COLOURS[1], linewidth=1.5)
        axes.set_xlabel("examples")
        axes.set_ylabel("ms, mean")
        axes.set_ylim(bottom=0)

    rows = [[f"{until:,}", f"{mean:,.1f}"] for until, mean in told]
    caption = "From the acknowledgement of a feedback to the first version that had learned it."
    return Plot("Freshness", caption, drawn(draw, "lateness", 2.8), ["examples", "ms"], rows)


def number(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"

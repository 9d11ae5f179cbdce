"""The plots of a replay's report, as SVG, each with the same numbers as a table."""

import html
import io
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import reduce
from itertools import pairwise
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.dates import AutoDateFormatter, AutoDateLocator
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, ScalarFormatter

from online.evaluation.bases import count_judged, count_with_probabilities
from online.evaluation.remarks import describe_known_basis
from online.evaluation.replay.replay_report import ReplayReport
from online.evaluation.replay_table import BASELINES
from online.evaluation.verdict import find_best
from online.evaluation.words import DURATIONS, LanguageWords
from online.scoring.intervals import wilson_interval
from online.scoring.prequential import CurveSegment
from online.scoring.score import LATENESS, LEARNED_BASELINE

POINTS, SHARED_POINTS = 40, 25  # of a curve at most, alone and beside others; more would be noise
EXAMPLES_PER_POINT, MIN_POINTS = 100, 12  # at least, unless there are fewer examples
WIDE, HALF, NARROW = 9.6, 4.6, 3.5  # inches: the width of the page, a column of two, a phone; their text is of one size
LINE_HEIGHT = 0.062  # of a label, as a share of the height of the learning curve

COLOURS = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#E69F00",
    "#56B4E9",
    "#7B5EA7",
)  # Okabe & Ito: distinguishable with colour blindness
GREY, INK, GRID, PALE = "#7a7a7a", "#1a1a1b", "#ececec", "#9cc3dd"
# Each colour is a variable of the page, which has another value in the dark: matplotlib writes them in lower case.
VARIABLES = {
    **{colour.lower(): f"var(--series-{place})" for place, colour in enumerate(COLOURS, 1)},
    GREY: "var(--soft)",
    INK: "var(--ink)",
    GRID: "var(--grid)",
    PALE: "var(--pale)",
}

DASHES = {
    "served": "--",
    "frozen": "-.",
    "no_change": ":",
    "majority": (0, (1, 3)),
    "mean": (0, (1, 3)),
    LEARNED_BASELINE: (0, (6, 2)),
}


MAX_DATES, MAX_NARROW_DATES = 5, 4  # ticks
MAX_BARS = 60  # of feedback over time
UNITS = {"second": 1, "minute": 60, "hour": 3_600, "day": 86_400, "week": 604_800, "month": 2_592_000}  # in seconds
FLOORED: dict[str, Any] = {
    "second": {},
    "minute": {"second": 0},
    "hour": {"second": 0, "minute": 0},
    "day": {"second": 0, "minute": 0, "hour": 0},
}  # a bar begins where its unit does


STYLE: Any = {
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": GRID,
    "text.color": INK,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "savefig.transparent": True,
    "axes.axisbelow": True,
}


@dataclass(frozen=True, slots=True)
class Plot:
    """A plot. columns, rows: the same numbers as a table, for readers who cannot see it. term: explains it.

    is_wide: whether it takes the width of the page. basis: which answers it is of.
    """

    title: str
    caption: str
    svg: str
    columns: list[str]
    rows: list[list[str]]
    term: str
    is_wide: bool = False
    basis: str = ""


@dataclass(frozen=True, slots=True)
class PlotPoint:
    """A place of a plot where the pointer reads its figures. x: on its axis."""

    x: float
    words: str


def render_svg(
    draw: Callable[[Axes], Sequence[PlotPoint] | None], salt: str, height: float = 2.8, width: float = HALF
) -> str:
    """Return two SVGs whose width follows the page: of class `broad`, and of class `narrow` for phones.

    The page shows one of them, whose text is then large enough to read. salt: makes the ids inside them unique on the
    page. draw: returns where the pointer reads figures, in order, if anywhere.
    """
    broad = render_one(draw, salt, "broad", width, height)
    return broad + render_one(draw, f"{salt} narrow", "narrow", NARROW, min(max(height, 2.8), 3.3))


def render_one(
    draw: Callable[[Axes], Sequence[PlotPoint] | None], salt: str, name: str, width: float, height: float
) -> str:
    """name: its class."""
    with matplotlib.rc_context({"svg.hashsalt": salt}):
        figure = Figure(figsize=(width, height), layout="constrained")
        axes = figure.add_subplot()
        stops = draw(axes)
        file = io.StringIO()
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
        zones = write_zones(axes, stops or () if name == "broad" else ())  # a phone has no pointer
    svg = file.getvalue()
    before, _, rest = svg[svg.index("<svg") :].partition("<metadata>")
    drawing, end, _ = (before + rest.partition("</metadata>")[2]).rpartition("</svg>")
    return use_variables(drawing.replace("<svg ", f'<svg class="{name}" ', 1) + zones + end)


def is_narrow(axes: Axes) -> bool:
    """Return whether a plot is drawn for phones: then the names of its lines stand above it."""
    return bool(axes.figure.bbox.width <= NARROW * axes.figure.dpi)


def list_names(axes: Axes) -> None:
    """List the names of the lines above a plot."""
    axes.figure.legend(loc="outside upper left", ncols=2, frameon=False, fontsize=9, borderaxespad=0)


def write_zones(axes: Axes, stops: Sequence[PlotPoint]) -> str:
    """Return a strip of SVG around each stop, up to the middle between it and the next, which says its figures.

    The browser shows them itself, as a report has no script.
    """
    figure = axes.figure
    width, height = figure.bbox.width / figure.dpi * 72, figure.bbox.height / figure.dpi * 72  # in points
    low, high = axes.get_position().y0, axes.get_position().y1
    top, length = f"{(1 - high) * height:.1f}", f"{(high - low) * height:.1f}"
    shares = figure.transFigure.inverted().transform(
        axes.transData.transform([(stop.x, 0.0) for stop in stops] or [(0, 0)])
    )
    places = [float(x) * width for x, _ in shares]
    middles = [(before + after) / 2 for before, after in pairwise(places)]
    begins, ends = [axes.get_position().x0 * width, *middles], [*middles, places[-1] + 8]
    return "".join(
        f'<g class="stop"><rect x="{begin:.1f}" y="{top}" width="{max(1.0, end - begin):.1f}" height="{length}"/>'
        f'<path d="M {place:.1f} {top} v {length}"/><title>{html.escape(stop.words)}</title></g>'
        for stop, place, begin, end in zip(stops, places, begins, ends, strict=False)
    )


class CommaTicks(ScalarFormatter):
    """Labels the ticks of an axis with numbers that have a decimal comma."""

    def __call__(self, x: float, pos: int | None = None) -> str:
        return super().__call__(x, pos).replace(".", ",")


def use_numbers(words: LanguageWords, *axes: Axis) -> None:
    """Label the ticks of axes with the numbers of a language; in English they are as matplotlib writes them."""
    for each in axes if words.language != "en" else ():
        each.set_major_formatter(CommaTicks())


def use_percents(words: LanguageWords, axis: Axis) -> None:
    """Label an axis with percents."""
    axis.set_major_formatter(lambda value, _: words.number(value, ".0%"))


def use_variables(svg: str) -> str:
    """Replace each colour by the variable of the page that has its role."""
    for colour, variable in VARIABLES.items():
        svg = svg.replace(colour, variable)
    return svg


def plot_learning_curve(reports: Sequence[ReplayReport], words: LanguageWords) -> Plot | None:
    """Plot the learning curves; None without any. Only the best one has a band, so that changes of the others can be seen."""
    numbers = "mae" in reports[0].figures
    most = POINTS if len(reports) == 1 else SHARED_POINTS
    curves = [thin_curve(report.details.curve, most) for report in reports]
    if not curves[0]:
        return None
    best = find_best(reports)
    baselines = [name for name in BASELINES if any(stretch.counts.get(name) for stretch in curves[0])]

    def draw(axes: Axes) -> list[PlotPoint]:
        ends = [draw_line(axes, curves[0], name, words(f"row.{name}"), GREY, dashes=DASHES[name]) for name in baselines]
        for place, (report, curve, colour) in enumerate(zip(reports, curves, cycle_colours(), strict=False)):
            is_best = report is best
            ends.append(draw_line(axes, curve, "model", report.name, colour, is_best and not numbers, is_best))
            alarms = [find_example(curve, alarm.offset) for alarm in report.drift]
            height = [0.015 + 0.03 * place] * len(alarms)  # in axes coordinates: one row of ticks per model
            axes.plot(alarms, height, "|", color=colour, markersize=7, transform=axes.get_xaxis_transform())
        axes.set_xlabel(words("plot.examples"))
        axes.set_ylabel(words("plot.error" if numbers else "plot.accuracy"))
        use_numbers(words, axes.xaxis, axes.yaxis)
        if not numbers:
            use_percents(words, axes.yaxis)
        axes.margins(x=0.01)
        list_names(axes) if is_narrow(axes) else label_ends(axes, [end for end in ends if end is not None])
        return [
            PlotPoint(stretch.until, describe_stretch(stretch, reports, curves, baselines, words))
            for stretch in curves[0]
        ]

    names = [name for name in ("model", *DASHES) if any(stretch.counts.get(name) for stretch in curves[0])]
    rows = [
        [words.number(stretch.until, ","), *(format_number(stretch.mean(name), words) for name in names)]
        for stretch in curves[0]
    ]
    caption = [words("plot.learning_caption", width=stretch_width(curves[0]))]
    if not numbers:
        caption.append(words("plot.bands") if len(reports) == 1 else words("plot.band_of_best", name=best.name))
    caption += [words("plot.ticks")] if any(report.drift for report in reports) else []
    columns = [words("plot.examples"), *(words("plot.model" if name == "model" else f"row.{name}") for name in names)]
    svg, basis = render_svg(draw, "learning", 3.6, WIDE), words.plural("basis.judged", count_judged(reports[0]))
    return Plot(words("plot.learning"), " ".join(caption), svg, columns, rows, "learning", True, basis)


def describe_stretch(
    stretch: CurveSegment,
    reports: Sequence[ReplayReport],
    curves: Sequence[Sequence[CurveSegment]],
    baselines: Sequence[str],
    words: LanguageWords,
) -> str:
    """Return a line for the end of a stretch, and one for each predictor that has a figure there."""
    spec = ".4g" if "mae" in reports[0].figures else ".1%"
    found = [
        (report.name, same.mean("model"))
        for report, curve in zip(reports, curves, strict=True)
        for same in curve
        if same.until == stretch.until
    ]
    found += [(words(f"row.{name}"), stretch.mean(name)) for name in baselines]
    until = words("plot.until", until=stretch.until)
    return "\n".join([until, *(f"{name}: {words.number(value, spec)}" for name, value in found if value is not None)])


def cycle_colours() -> Iterator[str]:
    """Yield the colours of the lines again and again."""
    while True:
        yield from COLOURS


def thin_curve(curve: Sequence[CurveSegment], most: int = POINTS) -> list[CurveSegment]:
    """Join stretches until there are at most `most`; a last one that is too short joins the one before."""
    examples = curve[-1].until if curve else 0
    most = min(most, max(MIN_POINTS, examples // EXAMPLES_PER_POINT))
    size = -(-len(curve) // most)
    thinned = [reduce(CurveSegment.merge, curve[place : place + size]) for place in range(0, len(curve), size or 1)]
    if len(thinned) > 2 and thinned[-1].until - thinned[-2].until < stretch_width(thinned) / 2:
        thinned[-2:] = [thinned[-2].merge(thinned[-1])]
    return thinned


def stretch_width(curve: Sequence[CurveSegment]) -> int:
    """Return the number of examples in a segment of a curve."""
    return curve[0].until


@dataclass(frozen=True, slots=True)
class LineEnd:
    """The end of a line in a plot, with its name and its colour."""

    x: float
    y: float
    name: str
    colour: str


def draw_line(
    axes: Axes,
    curve: Sequence[CurveSegment],
    name: str,
    words: str,
    colour: str,
    band: bool = False,
    strong: bool = False,
    dashes: object = "-",
) -> LineEnd | None:
    """Return where the line ends; None if there is nothing to draw. words: its name. strong: whether it stands out.

    The line has a gap where nothing was judged, so that nobody takes it for a change.
    """
    known = [stretch for stretch in curve if stretch.counts.get(name)]
    if not known:
        return None
    drawn = [stretch for stretch in curve if known[0].until <= stretch.until <= known[-1].until]
    places = [stretch.until for stretch in known]
    means = [(stretch.mean(name) or 0.0) if stretch.counts.get(name) else math.nan for stretch in drawn]
    is_model = dashes == "-"
    marker: Any = {"marker": "o", "markersize": 3.5 if is_model else 2.5}
    marker |= {} if is_model else {"markevery": find_lone(means)}
    width = 2.2 if strong else 1.4
    axes.plot(
        [stretch.until for stretch in drawn],
        means,
        color=colour,
        linestyle=dashes,
        linewidth=width,
        label=words,
        **marker,
    )
    if band:
        limits = [wilson_interval(stretch.sums[name], stretch.counts[name]) for stretch in known]
        low, high = zip(*limits, strict=True)
        axes.fill_between(places, low, high, color=colour, alpha=0.15, linewidth=0)
    return LineEnd(places[-1], means[-1], words, colour)


def find_lone(means: Sequence[float]) -> list[int]:
    """Return the places of values between two gaps, which a line does not show."""
    padded = [math.nan, *means, math.nan]
    return [
        place
        for place, (before, value, after) in enumerate(zip(padded, padded[1:], padded[2:], strict=False))
        if not math.isnan(value) and math.isnan(before) and math.isnan(after)
    ]


def label_ends(axes: Axes, ends: Sequence[LineEnd]) -> None:
    """Write the name of each line at its end, one below the other, with a stroke of its colour that leads there."""
    bottom, top = axes.get_ylim()
    heights = spread([(end.y - bottom) / (top - bottom) for end in ends], LINE_HEIGHT)
    for end, height in zip(ends, heights, strict=True):
        axes.annotate(
            end.name,
            (end.x, end.y),
            (1.035, height),
            textcoords="axes fraction",
            fontsize=9,
            va="center",
            annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": end.colour, "linewidth": 1.2, "shrinkA": 1, "shrinkB": 3},
        )
    axes.set_ylim(bottom, top)


def spread(heights: Sequence[float], gap: float) -> list[float]:
    """Move heights, which are shares of 1, apart until each is `gap` or more from the next; their order stays."""
    order = sorted(range(len(heights)), key=lambda place: heights[place])
    moved, least = list(heights), 0.0
    for place in order:
        moved[place] = max(heights[place], least)
        least = moved[place] + gap
    most = 1.0
    for place in reversed(order):
        moved[place] = min(moved[place], most)
        most = moved[place] - gap
    return moved


def find_example(curve: Sequence[CurveSegment], offset: int) -> float:
    """Return the number of the example at an offset."""
    return float(np.interp(offset, [stretch.offset for stretch in curve], [stretch.until for stretch in curve]))


def plot_versions(report: ReplayReport, words: LanguageWords) -> Plot | None:
    """Plot the accuracy of each version that served."""
    groups = group_versions(report.details.versions)
    if len(groups) < 2:
        return None

    def draw(axes: Axes) -> None:
        places = [version for version, _, _ in groups]
        shares = [right / rated for _, rated, right in groups]
        limits = [wilson_interval(right, rated) for _, rated, right in groups]
        reach = [[share - low for share, (low, _) in zip(shares, limits, strict=True)]]
        reach.append([high - share for share, (_, high) in zip(shares, limits, strict=True)])
        axes.errorbar(places, shares, reach, fmt="o", markersize=4, color=COLOURS[0], ecolor=PALE, linewidth=1.2)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_xlabel(words("plot.version"))
        axes.set_ylabel(words("plot.accuracy"))
        use_numbers(words, axes.xaxis)
        use_percents(words, axes.yaxis)

    rows = [
        [words.number(version, ","), words.number(rated, ","), words.number(right / rated, ".1%")]
        for version, rated, right in groups
    ]
    columns = [words("plot.from_version"), words("plot.rated"), words("plot.accuracy")]
    svg = render_svg(draw, "versions")
    basis = words("basis.served", count=sum(rated for _, rated, _ in groups))
    return Plot(words("plot.versions"), words("plot.versions_caption"), svg, columns, rows, "versions", basis=basis)


def group_versions(versions: dict[int, tuple[int, int]], most: int = 60) -> list[tuple[int, int, int]]:
    """Return (first version, rated, right) of at most `most` groups of neighbouring versions."""
    counts = [(version, rated, right) for version, (rated, right) in sorted(versions.items()) if rated]
    size = -(-len(counts) // most) if counts else 1
    groups = [counts[place : place + size] for place in range(0, len(counts), size)]
    return [(group[0][0], sum(each[1] for each in group), sum(each[2] for each in group)) for group in groups]


def plot_reliability(reports: Sequence[ReplayReport], words: LanguageWords) -> Plot | None:
    """Plot how often answers were right against their probabilities; None without probabilities."""
    if not any(report.details.reliability for report in reports):
        return None

    def draw(axes: Axes) -> None:
        axes.plot([0, 1], [0, 1], color=GREY, linestyle=":", linewidth=1.2, label=words("plot.perfect"))
        for report, colour in zip(reports, cycle_colours(), strict=False):
            chances = [chance for _, chance, _ in report.details.reliability]
            rights = [right for _, _, right in report.details.reliability]
            axes.plot(chances, rights, "o-", markersize=4, color=colour, linewidth=1.5, label=report.name)
        axes.set_xlabel(words("plot.chance"))
        axes.set_ylabel(words("plot.accuracy"))
        use_numbers(words, axes.xaxis, axes.yaxis)
        axes.set_aspect("equal")
        if is_narrow(axes):
            list_names(axes)
        else:
            axes.legend(frameon=False, fontsize=9, loc="upper left", bbox_to_anchor=(1.02, 1))

    rows = [
        [report.name, words.number(chance, ".1%"), words.number(right, ".1%"), words.number(count, ",")]
        for report in reports
        for count, chance, right in report.details.reliability
    ]
    columns = [words(f"plot.{name}") for name in ("model", "probability", "accuracy", "examples")]
    svg = render_svg(draw, "reliability", 3.0)
    title, caption = words("plot.calibration"), words("plot.calibration_caption")
    first = next(report for report in reports if report.details.reliability)
    basis = describe_known_basis(count_with_probabilities(first), first, words)
    return Plot(title, caption, svg, columns, rows, "calibration", basis=basis)


def plot_rate(report: ReplayReport, words: LanguageWords) -> Plot | None:
    """Plot how much feedback came in each stretch of time, if the log has times and they are more than one stretch."""
    counted = count_by_time(report.details.curve)
    if counted is None:
        return None
    unit, starts, counts = words(f"unit.{counted.unit}"), counted.starts, counted.counts

    def draw(axes: Axes) -> None:
        axes.bar(starts, counts, timedelta(seconds=UNITS[counted.unit]), align="edge", color=COLOURS[0])  # type: ignore[arg-type]
        axes.set_ylabel(words("plot.feedback_per", unit=unit))
        use_numbers(words, axes.yaxis)
        use_dates(words, axes.xaxis, MAX_NARROW_DATES if is_narrow(axes) else MAX_DATES)
        if counted.unit in ("second", "minute"):  # then the ticks have no day
            axes.set_xlabel(describe_days(starts, words))

    rows = [[words.moment(start), words.number(count, ",")] for start, count in zip(starts, counts, strict=True)]
    columns = [words("plot.time"), words("plot.received")]
    svg = render_svg(draw, "rate", 2.6)
    return Plot(words("plot.feedback"), words("plot.feedback_caption", unit=unit), svg, columns, rows, "feedback")


@dataclass(frozen=True, slots=True)
class TimeCounts:
    """unit: one of UNITS. starts: of each stretch of that length, without gaps. counts: how much came in it."""

    unit: str
    starts: list[datetime]
    counts: list[int]


def count_by_time(curve: Sequence[CurveSegment]) -> TimeCounts | None:
    """Count in the shortest unit that needs at most MAX_BARS; None without times or with only one stretch.

    What came between the first and the last time of a segment is spread evenly; the counts add up to all.
    """
    known = [each for each in curve if each.began and each.ended and each.counts]
    times, totals, total = list[datetime](), list[int](), 0
    for segment in known:
        times += [datetime.fromisoformat(segment.began or ""), datetime.fromisoformat(segment.ended or "")]
        totals += [total, total := total + max(segment.counts.values())]
    if not times:
        return None
    first, last = min(times), max(times)
    unit = next((name for name, length in UNITS.items() if (last - first).total_seconds() < MAX_BARS * length), "month")
    start = first.replace(microsecond=0, **FLOORED[unit if unit in FLOORED else "day"])
    bars = int((last - start).total_seconds() // UNITS[unit]) + 1
    if bars < 2:
        return None
    seconds = np.maximum.accumulate([(at - start).total_seconds() for at in times])
    reached = np.interp(UNITS[unit] * np.arange(bars + 1), seconds, totals).round().astype(int)
    reached[-1] = total
    starts = [start + timedelta(seconds=UNITS[unit] * place) for place in range(bars)]
    return TimeCounts(unit, starts, np.diff(reached).tolist())


DAY, HOUR, MINUTE, SECOND = 1.0, 1 / 24, 1 / 1_440, 1 / 86_400  # in days
# the unit of the ticks of an axis, in days: the format of their labels, up to that unit
DATE_FORMATS = {
    "en": {365.0: "%Y", 30.0: "%Y-%m", DAY: "%m-%d", HOUR: "%m-%d\n%H:%M", MINUTE: "%H:%M", SECOND: "%H:%M:%S"},
    "de": {365.0: "%Y", 30.0: "%m.%Y", DAY: "%d.%m.", HOUR: "%d.%m.\n%H:%M", MINUTE: "%H:%M", SECOND: "%H:%M:%S"},
}
DAYS = {"en": "%Y-%m-%d", "de": "%d.%m.%Y"}


def use_dates(words: LanguageWords, axis: Axis, most: int | None = None) -> None:
    """Label the ticks of an axis with dates; in English as ISO 8601 has them. A label has no parts of a second.

    most: ticks; None for as many as matplotlib finds fitting.
    """
    locator = AutoDateLocator(minticks=2, maxticks=most)  # type: ignore[no-untyped-call]
    formatter = AutoDateFormatter(locator)  # type: ignore[no-untyped-call]
    formatter.scaled = DATE_FORMATS[words.language]
    axis.set_major_locator(locator)
    axis.set_major_formatter(formatter)


def describe_days(starts: Sequence[datetime], words: LanguageWords) -> str:
    """Return the day of some times, or the first and the last one."""
    return " – ".join(dict.fromkeys(at.strftime(DAYS[words.language]) for at in (starts[0], starts[-1])))


def plot_lateness(report: ReplayReport, words: LanguageWords) -> Plot | None:
    """Plot the freshness, if the log has the times at which events were learned."""
    known = [(stretch.until, stretch.mean(LATENESS)) for stretch in thin_curve(report.details.curve)]
    points = [(until, mean) for until, mean in known if mean is not None]
    if len(points) < 2:
        return None
    unit, length = choose_unit(max(mean for _, mean in points))

    def draw(axes: Axes) -> None:
        means = [mean / length for _, mean in points]
        axes.plot([until for until, _ in points], means, color=COLOURS[1], linewidth=1.5)
        axes.set_xlabel(words("plot.examples"))
        axes.set_ylabel(words("plot.mean_in", unit=unit))
        axes.set_ylim(bottom=0)
        use_numbers(words, axes.xaxis, axes.yaxis)

    rows = [[words.number(until, ","), words.duration(mean)] for until, mean in points]
    columns = [words("plot.examples"), words("plot.mean_time")]
    svg = render_svg(draw, "lateness", 2.6)
    return Plot(words("plot.freshness"), words("plot.freshness_caption"), svg, columns, rows, "freshness")


def choose_unit(longest: float) -> tuple[str, float]:
    """Return the unit of an axis of times, and its length. longest: in seconds, as the unit is."""
    return next(((unit, length) for unit, length in DURATIONS if longest >= length), ("ms", 0.001))


def format_number(value: float | None, words: LanguageWords) -> str:
    """Return a number with four digits; "" for None."""
    return "" if value is None else words.number(value, ".4g")

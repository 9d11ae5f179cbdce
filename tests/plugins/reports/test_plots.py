"""Plots of a report: bars of feedback over time that add up to all that came in, and the learning curves."""

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import numpy as np
import pytest
from matplotlib.figure import Figure

from online.evaluation.replay.replay_report import ReplayReport
from online.evaluation.words import IN_ENGLISH, LanguageWords
from online.plugins.reports.languages import ALL_WORDS
from online.plugins.reports.plots import (
    MAX_BARS,
    count_by_time,
    draw_line,
    plot_learning_curve,
    plot_versions,
    spread,
    use_dates,
)
from online.scoring.prequential import CurveSegment
from online.scoring.score import Figures, ScoreDetails

BEGAN = datetime(2026, 11, 25, 9, 58, 47, 250_000, tzinfo=UTC)


def build_curve(length: timedelta, segments: int = 20, count: int = 28) -> list[CurveSegment]:
    """Segments one after the other, with this many answers each."""
    times = [(BEGAN + length * place / segments).isoformat() for place in range(segments + 1)]
    return [
        CurveSegment(count * place, {"model": count}, {"model": 0.0}, count * place, times[place - 1], times[place])
        for place in range(1, segments + 1)
    ]


@pytest.mark.parametrize(
    ("length", "unit"),
    [
        (timedelta(seconds=13), "second"),
        (timedelta(minutes=20), "minute"),
        (timedelta(hours=20), "hour"),
        (timedelta(days=40), "day"),
        (timedelta(days=300), "week"),
        (timedelta(days=3_000), "month"),
    ],
)
def test_the_bars_fit_the_log_and_add_up(length: timedelta, unit: str) -> None:
    counted = count_by_time(build_curve(length))
    assert counted is not None and counted.unit == unit
    assert sum(counted.counts) == 560 and min(counted.counts) >= 0
    assert len(counted.starts) == len(counted.counts) and (unit == "month" or len(counted.counts) <= MAX_BARS + 1)
    assert counted.starts[0] <= BEGAN and counted.starts[0].microsecond == 0


def test_a_pause_is_a_gap() -> None:
    first, last = build_curve(timedelta(minutes=2), 2), build_curve(timedelta(minutes=22), 22)[-2:]
    counted = count_by_time([*first, *last])
    assert counted is not None and counted.unit == "minute"
    assert counted.counts[4:18] == [0] * 14 and sum(counted.counts) == 4 * 28


def test_one_moment_or_no_time_is_no_plot() -> None:
    assert count_by_time([]) is None
    assert count_by_time([CurveSegment(5, {"model": 5}, {"model": 1.0})]) is None
    assert count_by_time(build_curve(timedelta(milliseconds=20))) is None


@pytest.mark.parametrize("words", ALL_WORDS, ids=lambda words: words.language)
@pytest.mark.parametrize(
    "length", [timedelta(seconds=3), timedelta(minutes=40), timedelta(days=3), timedelta(days=900)]
)
def test_the_labels_of_a_time_axis_have_no_parts_of_a_second(words: LanguageWords, length: timedelta) -> None:
    axes = Figure().add_subplot()
    axes.bar([BEGAN, BEGAN + length], [1, 1], length)  # type: ignore[arg-type]
    use_dates(words, axes.xaxis)
    axes.figure.canvas.draw()
    labels = [label.get_text() for label in axes.get_xticklabels()]
    assert len(labels) >= 2 and not any("000" in label.replace("2000", "") for label in labels)


@pytest.mark.parametrize("words", ALL_WORDS, ids=lambda words: words.language)
@pytest.mark.parametrize(
    "length",
    [timedelta(seconds=2), timedelta(seconds=8), timedelta(seconds=90), timedelta(minutes=9), timedelta(hours=5)]
    + [timedelta(days=days) for days in (1, 3, 30, 400, 2_000)],
    ids=str,
)
def test_no_two_labels_of_a_time_axis_are_the_same(words: LanguageWords, length: timedelta) -> None:
    axes = Figure(figsize=(4.6, 2.6)).add_subplot()
    axes.bar([BEGAN, BEGAN + length], [1, 1], length / 50)  # type: ignore[arg-type]
    use_dates(words, axes.xaxis, 5)
    axes.figure.canvas.draw()
    labels = [label.get_text() for label in axes.get_xticklabels()]
    assert len(labels) == len(set(labels)) >= 2


def test_versions_are_whole_numbers_and_all_plots_have_text_of_one_size() -> None:
    report = report_curve("first", 0.8)
    details = replace(report.details, versions=dict.fromkeys(range(1, 9), (20, 15)))
    versions, learning = (
        plot_versions(replace(report, details=details), IN_ENGLISH),
        plot_learning_curve([report], IN_ENGLISH),
    )
    assert versions is not None and learning is not None
    ticks = re.findall(r"<!-- ([\d.]+) -->", versions.svg)
    assert ticks and not any("." in tick for tick in ticks)
    width, half = (float(re.search(r'viewBox="0 0 ([\d.]+)', plot.svg).group(1)) for plot in (learning, versions))  # type: ignore[union-attr]
    assert half / width == pytest.approx(0.48, abs=0.01)  # as a column of the page to all of it


def report_curve(name: str, right: float, stretches: int = 94) -> ReplayReport:
    counts = {"model": 64, "majority": 64}
    curve = [
        CurveSegment(64 * (place + 1), counts, {"model": 64 * right, "majority": 32.0}, 64 * (place + 1))
        for place in range(stretches)
    ]
    figures: Figures = {"accuracy": right, "judged": 64 * stretches}
    judged = 64 * stretches
    return ReplayReport(name, "knn", judged, judged, judged, None, figures, 1.0, "", [], 0, ScoreDetails(curve, {}, {}))


def test_curves_of_several_models_have_few_points_names_at_their_ends_and_figures_for_the_pointer() -> None:
    plot = plot_learning_curve([report_curve("first", 0.8), report_curve("best", 0.9)], IN_ENGLISH)
    assert plot is not None and 12 <= len(plot.rows) <= 25
    assert plot.svg.count("<title>") == len(plot.rows)
    assert "first: 80.0%\nbest: 90.0%" in plot.svg.replace("\u00a0", "").replace(" %", "%")
    assert "The band around best" in plot.caption


def test_a_plot_has_a_second_drawing_for_phones_whose_names_stand_above_it() -> None:
    plot = plot_learning_curve([report_curve("first", 0.8), report_curve("best", 0.9)], IN_ENGLISH)
    assert plot is not None
    drawings = re.findall(r'<svg class="(\w+)".*?viewBox="0 0 ([\d.]+) .*?</svg>', plot.svg, re.DOTALL)
    assert [name for name, _ in drawings] == ["broad", "narrow"] and float(drawings[1][1]) < 260
    narrow = plot.svg[plot.svg.index('class="narrow"') :]
    assert all(f"<!-- {name} -->" in narrow for name in ("first", "best", "majority"))
    assert "<title>" not in narrow


def test_the_names_of_lines_that_end_together_do_not_cover_each_other() -> None:
    heights = spread([0.5, 0.51, 0.99, 1.0, 0.02], 0.1)
    ordered = sorted(heights)
    assert min(after - before for before, after in pairwise(ordered)) > 0.099
    assert ordered[0] >= 0 and ordered[-1] <= 1.0


def test_a_line_has_a_gap_where_nothing_was_judged_and_a_point_where_it_stands_alone() -> None:
    judged = [0, 10, 10, 0, 10, 0, 10, 10, 0]
    curve = [
        CurveSegment(place, {"served": count}, {"served": count / 2}, place, None, None)
        for place, count in enumerate(judged, 1)
    ]
    axes = Figure().subplots()
    end = draw_line(axes, curve, "served", "as served", "grey", dashes="--")
    (line,) = axes.get_lines()
    x, y = np.asarray(line.get_xdata(), float), np.asarray(line.get_ydata(), float)
    assert [str(value) for value in y.tolist()] == ["0.5", "0.5", "nan", "0.5", "nan", "0.5", "0.5"]
    assert x.tolist() == [2, 3, 4, 5, 6, 7, 8]
    assert line.get_markevery() == [3]
    assert end is not None and (end.x, end.y) == (8, 0.5)

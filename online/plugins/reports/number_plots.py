"""Plots of predicted numbers: against the true ones, and their errors."""

import numpy as np
from matplotlib.axes import Axes

from online.evaluation.replay.replay_report import ReplayReport
from online.evaluation.words import LanguageWords
from online.plugins.reports.plots import COLOURS, GREY, INK, Plot, render_svg, use_numbers

MAX_POINTS = 800  # drawn
BINS = 30
MIDDLE = (0.01, 0.99)  # quantiles of the errors between which the histogram lies; the ends hold what is beyond


def describe_kept(report: ReplayReport, words: LanguageWords) -> str:
    """Return how many of the answers a plot shows."""
    every, kept = report.details.pairs_every, len(report.details.pairs)
    return words("plot.kept_some", every=every, count=kept) if every > 1 else words("plot.kept_all", count=kept)


def plot_predictions(report: ReplayReport, words: LanguageWords) -> Plot | None:
    """Plot predicted against true numbers; None with fewer than two."""
    pairs = report.details.pairs
    if len(pairs) < 2:
        return None
    shown_NP = np.array(pairs[:: -(-len(pairs) // MAX_POINTS)])

    def draw(axes: Axes) -> None:
        low, high = float(shown_NP.min()), float(shown_NP.max())
        axes.plot([low, high], [low, high], color=INK, linestyle=":", linewidth=1.2)
        axes.plot(shown_NP[:, 0], shown_NP[:, 1], "o", markersize=3.5, color=COLOURS[0], alpha=0.45, markeredgewidth=0)
        axes.set_xlabel(words("plot.true"))
        axes.set_ylabel(words("plot.predicted_number"))
        use_numbers(words, axes.xaxis, axes.yaxis)

    true_N, predicted_N = np.array(pairs).T
    rows = []
    for part in np.array_split(np.argsort(true_N, kind="stable"), min(10, len(pairs))):
        low, high = true_N[part[0]], true_N[part[-1]]
        means = (words.number(float(each[part].mean()), ".4g") for each in (true_N, predicted_N))
        rows.append([words("plot.range", low=low, high=high), *means])
    caption = words("plot.predicted_caption", kept=describe_kept(report, words))
    columns = [words("plot.true"), words("plot.mean_true"), words("plot.mean_predicted")]
    title = words("plot.predicted", name=report.name)
    return Plot(title, caption, render_svg(draw, f"predicted {report.name}", 3.2), columns, rows, "predicted")


def plot_residuals(report: ReplayReport, words: LanguageWords) -> Plot | None:
    """Plot errors against predicted numbers; None with fewer than two."""
    if len(report.details.pairs) < 2:
        return None
    true_N, predicted_N = np.array(report.details.pairs).T
    errors_N = predicted_N - true_N
    low, high = (float(end) for end in np.quantile(errors_N, MIDDLE))
    low, high = (low, high) if low < high else (low - 0.5, high + 0.5)
    edges = np.linspace(low, high, BINS + 1)
    counts, _ = np.histogram(errors_N.clip(low, high), edges)

    def draw(axes: Axes) -> None:
        axes.bar(edges[:-1], counts, np.diff(edges), align="edge", color=COLOURS[0], alpha=0.75)
        axes.axvline(0, color=INK, linestyle=":", linewidth=1.2)
        axes.axvline(float(np.median(errors_N)), color=GREY, linestyle="--", linewidth=1.2)
        axes.set_xlabel(words("plot.error_column"))
        axes.set_ylabel(words("plot.answers"))
        use_numbers(words, axes.xaxis, axes.yaxis)

    caption = words(
        "plot.errors_caption",
        kept=describe_kept(report, words),
        median=np.median(errors_N),
        largest=np.abs(errors_N).max(),
    )
    rows = [
        [words("plot.range", low=start, high=stop), words.number(count, ",")]
        for start, stop, count in zip(edges[:-1], edges[1:], counts, strict=True)
    ]
    columns = [words("plot.error_column"), words("plot.answers")]
    svg = render_svg(draw, f"errors {report.name}")
    return Plot(words("plot.errors", name=report.name), caption, svg, columns, rows, "residuals")

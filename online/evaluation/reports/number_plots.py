"""Plots of predicted numbers: against the true ones, and their errors."""

import numpy as np
from matplotlib.axes import Axes

from online.evaluation.replay.replay_report import ReplayReport
from online.evaluation.reports.plots import COLOURS, GREY, INK, Plot, render_svg

MAX_POINTS = 800  # drawn
BINS = 30
MIDDLE = (0.01, 0.99)  # quantiles of the errors between which the histogram lies; the ends hold what is beyond


def describe_kept(report: ReplayReport) -> str:
    every, kept = report.details.pairs_every, len(report.details.pairs)
    return f"one of every {every:,} answers, {kept:,} in all" if every > 1 else f"all {kept:,} answers"


def plot_predictions(report: ReplayReport) -> Plot | None:
    pairs = report.details.pairs
    if len(pairs) < 2:
        return None
    shown_NP = np.array(pairs[:: -(-len(pairs) // MAX_POINTS)])

    def draw(axes: Axes) -> None:
        low, high = float(shown_NP.min()), float(shown_NP.max())
        axes.plot([low, high], [low, high], color=INK, linestyle=":", linewidth=1.2)
        axes.plot(shown_NP[:, 0], shown_NP[:, 1], "o", markersize=3.5, color=COLOURS[0], alpha=0.45, markeredgewidth=0)
        axes.set_xlabel("true number")
        axes.set_ylabel("predicted number")

    true_N, predicted_N = np.array(pairs).T
    rows = []
    for part in np.array_split(np.argsort(true_N, kind="stable"), min(10, len(pairs))):
        low, high = true_N[part[0]], true_N[part[-1]]
        rows.append([f"{low:.4g} to {high:.4g}", f"{true_N[part].mean():.4g}", f"{predicted_N[part].mean():.4g}"])
    caption = f"Each point is an answer ({describe_kept(report)}); on the dotted line a prediction equals the truth."
    columns = ["true number", "mean true", "mean predicted"]
    title = f"Predicted against true ({report.name})"
    return Plot(title, caption, render_svg(draw, f"predicted {report.name}", 4.2), columns, rows, "predicted")


def plot_residuals(report: ReplayReport) -> Plot | None:
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
        axes.set_xlabel("predicted minus true")
        axes.set_ylabel("answers")

    caption = (
        f"Errors of {describe_kept(report)}. Dotted: 0. Dashed: the median, {np.median(errors_N):.3g}. "
        f"The outer bars also hold the 1 % of larger errors on each side; the largest is {np.abs(errors_N).max():.4g}."
    )
    rows = [
        [f"{start:.4g} to {stop:.4g}", f"{count:,}"]
        for start, stop, count in zip(edges[:-1], edges[1:], counts, strict=True)
    ]
    columns = ["predicted minus true", "answers"]
    return Plot(
        f"Errors ({report.name})", caption, render_svg(draw, f"errors {report.name}"), columns, rows, "residuals"
    )

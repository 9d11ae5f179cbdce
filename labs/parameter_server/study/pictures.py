"""The curves of `labs.parameter_server.benchmark` as SVG files, whose bytes depend on the figures alone."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

COLOURS = ("#1a1a1b", "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7B5EA7")  # Okabe & Ito
MARKERS = "osv^DPX*"
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
class Curve:
    """values: of every seed, at each x; NaN where there is none."""

    x: Sequence[float]
    values: Sequence[Sequence[float]]

    def means(self) -> list[float]:
        return [float(np.mean(each)) for each in self.values]

    def deviations(self) -> list[float]:
        return [float(np.std(each)) for each in self.values]


def save_staleness(
    path: Path, title: str, panels: Mapping[str, Mapping[str, Curve]], levels: Mapping[str, float]
) -> None:
    """Accuracy against staleness. panels: curves by name, by the panel's title. levels: flat lines by name."""
    names = list(dict.fromkeys(name for curves in panels.values() for name in curves))
    styles = {name: (COLOURS[place], MARKERS[place]) for place, name in enumerate(names)}
    ticks = next(iter(next(iter(panels.values())).values())).x

    def draw(curves: Mapping[str, Curve], axes: Axes) -> None:
        for (name, level), dash in zip(levels.items(), ("--", ":", "-."), strict=False):
            axes.axhline(level, color="#7a7a7a", linestyle=dash, label=name)
        for name, curve in curves.items():
            draw_curve(axes, name, curve, *styles[name])
        axes.set_xscale("symlog", linthresh=1, base=2)
        axes.set_xticks(ticks, [f"{each:.0f}" for each in ticks])
        axes.minorticks_off()
        axes.set_ylim(0, 102)
        axes.set_xlabel("mean staleness of asynchronous gradients, updates")
        axes.set_ylabel("accuracy, %")

    save(path, title, {name: partial(draw, curves) for name, curves in panels.items()})


def save_stragglers(path: Path, title: str, curves: Mapping[str, Curve]) -> None:
    """Time to an accuracy against the delay of stragglers."""

    def draw(axes: Axes) -> None:
        for place, (name, curve) in enumerate(curves.items()):
            draw_curve(axes, name, curve, COLOURS[place], MARKERS[place])
        axes.set_yscale("log")
        axes.set_xlabel("delay of a straggler, s")
        axes.set_ylabel("virtual time to the accuracy, s")

    save(path, title, {"": draw})


def draw_curve(axes: Axes, name: str, curve: Curve, colour: str, marker: str) -> None:
    axes.errorbar(
        curve.x, curve.means(), curve.deviations(), color=colour, marker=marker, markersize=4, linewidth=1.3, label=name
    )


def save(path: Path, title: str, panels: Mapping[str, Callable[[Axes], None]]) -> None:
    """Draw panels side by side, with one legend below them."""
    with matplotlib.rc_context({**STYLE, "svg.hashsalt": path.stem}):
        figure = Figure(figsize=(5.2 * len(panels) if len(panels) > 1 else 6.8, 4.6), layout="constrained")
        figure.suptitle(title, fontsize=11)
        lines: dict[str, Any] = {}
        for axes, (name, draw) in zip(np.ravel(figure.subplots(1, len(panels))), panels.items(), strict=True):
            draw(axes)
            axes.set_title(name, fontsize=10)
            lines |= {label: line for line, label in zip(*axes.get_legend_handles_labels(), strict=True)}
        figure.legend(lines.values(), lines.keys(), loc="outside lower center", ncols=3, frameon=False, fontsize=9)
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, format="svg", facecolor="white", metadata={"Date": None, "Creator": None})

"""Figures as one page: percentiles, a verdict beside every target, a table for people or one JSON object."""

import signal
import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import orjson
from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks.service import Failed

T = TypeVar("T")


def percentile(values: Sequence[float], percent: float) -> float:
    """NaN when there is nothing to take it of."""
    return float(np.percentile(values, percent)) if len(values) else float("nan")


def verdict(value: float, target: float, unit: str = "", at_least: bool = False) -> str:
    """`met`, or by how much it was missed."""
    short = target - value if at_least else value - target
    if short <= 0:
        return "met"
    return f"missed by {short:.2f}{unit}" if short > 0 else "not measured"


def parser(description: str) -> ArgumentParser:
    """A command's flags; every benchmark has --json."""
    made = ArgumentParser(description=description, formatter_class=RawDescriptionHelpFormatter)
    made.add_argument("--json", action="store_true", help="print one JSON object instead of the table")
    return made


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    drawn = Table(title=title, title_justify="left")
    for place, column in enumerate(columns):
        drawn.add_column(column, justify="right" if place else "left", no_wrap=not place)
    for row in rows:
        drawn.add_row(*(f"{cell:,.2f}" if isinstance(cell, float) else str(cell) for cell in row))
    Console(width=None if sys.stdout.isatty() else 150).print(drawn)


def print_json(content: Mapping[str, Any]) -> None:
    print(orjson.dumps(content).decode())


def say(text: str) -> None:
    """Progress, on standard error."""
    print(text, file=sys.stderr, flush=True)


def progress(items: Sequence[T], what: str) -> Iterable[T]:
    """The items, with a bar on standard error while there are more to come."""
    return track(items, what, console=Console(stderr=True), transient=True)


def command(run: Callable[[], int]) -> None:
    """Run a benchmark to its exit status: 0, 1 a promise was broken, 2 it cannot be run, 130 Ctrl-C."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    try:
        raise SystemExit(run())
    except Failed as error:
        say(f"benchmark: {error}")
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        say("benchmark: interrupted")
        raise SystemExit(130) from None

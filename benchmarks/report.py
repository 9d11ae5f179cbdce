"""What the benchmarks share: flags, progress, percentiles, verdicts on targets, and tables or JSON."""

import os
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

from benchmarks.service import BenchmarkError

T = TypeVar("T")


def percentile(values: Sequence[float], percent: float) -> float:
    """Return a percentile; NaN if there are no values."""
    return float(np.percentile(values, percent)) if len(values) else float("nan")


def verdict(value: float, target: float, unit: str = "", at_least: bool = False) -> str:
    """Return `met`, or by how much the target was missed."""
    short = target - value if at_least else value - target
    if short <= 0:
        return "met"
    return f"missed by {short:.2f}{unit}" if short > 0 else "not measured"


def create_parser(description: str) -> ArgumentParser:
    """Return a command's argument parser; every benchmark has --json."""
    parser = ArgumentParser(description=description, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of the table")
    return parser


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    rendered = Table(title=title, title_justify="left")
    for place, column in enumerate(columns):
        rendered.add_column(column, justify="right" if place else "left", no_wrap=not place)
    for row in rows:
        rendered.add_row(*(f"{cell:,.2f}" if isinstance(cell, float) else str(cell) for cell in row))
    Console(width=None if sys.stdout.isatty() else 150).print(rendered)


def print_json(content: Mapping[str, Any]) -> None:
    print(orjson.dumps(content).decode())


def run_on_one_thread() -> None:
    """Start this program again if the libraries it has imported compute on several threads: they were told too late."""
    if os.environ.get("OMP_NUM_THREADS") != "1":
        sys.stdout.flush()
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], {**os.environ, "OMP_NUM_THREADS": "1"})


def say(text: str) -> None:
    """Print progress to standard error."""
    print(text, file=sys.stderr, flush=True)


def progress(items: Sequence[T], what: str) -> Iterable[T]:
    """Yield the items, with a progress bar on standard error."""
    return track(items, what, console=Console(stderr=True), transient=True)


def command(run: Callable[[], int]) -> None:
    """Run a benchmark and exit with 0, with 1 if a guarantee does not hold, 2 if it cannot run, 130 after Ctrl-C."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    try:
        raise SystemExit(run())
    except BenchmarkError as error:
        say(f"benchmark: {error}")
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        say("benchmark: interrupted")
        raise SystemExit(130) from None

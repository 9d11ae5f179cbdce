"""Report the progress of long work: as a bar, as lines of JSON, or not at all.

Each takes `work`, calls it with a function `tick(what, done, total)`, and returns what it returns.
"""

import json
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import typer

if TYPE_CHECKING:
    from online.io.progress import Progress

T = TypeVar("T")
LINE_EVERY_S = 20.0  # from one line of progress to the next
SAID_EVERY_S = 0.5  # from one JSON object to the next, while work goes on


def show_bar(work: Callable[["Progress"], T]) -> T:
    """Show a progress bar on standard error, or a line now and then if that is no terminal. Ctrl-C ends the work with exit status 130."""
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import Progress

    console, said_at = Console(stderr=True), time.monotonic()
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("")

        def tick(what: str, done: int, total: int) -> None:
            nonlocal said_at
            progress.update(task, description=escape(what), completed=done, total=total)
            if not console.is_terminal and time.monotonic() - said_at >= LINE_EVERY_S:  # a bar cannot be shown
                said_at = time.monotonic()
                print(f"{what} ({100 * done // max(total, 1)} %)", file=sys.stderr, flush=True)

        try:
            return work(tick)
        except KeyboardInterrupt:
            raise typer.Exit(130) from None


def print_percents(work: Callable[["Progress"], T]) -> T:
    """Print JSON objects on standard output, one for each percent and at least every SAID_EVERY_S seconds."""
    last, said_at = ("", -1), 0.0

    def tick(what: str, done: int, total: int) -> None:
        nonlocal last, said_at
        current, at = (what, 100 * done // max(total, 1)), time.monotonic()
        if current != last or at - said_at >= SAID_EVERY_S:
            print(json.dumps({"what": what, "percent": current[1], "done": done, "total": total}), flush=True)
            last, said_at = current, at

    return work(tick)


def run_silently(work: Callable[["Progress"], T]) -> T:
    """Report nothing."""
    return work(lambda what, done, total: None)

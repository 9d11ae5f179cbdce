"""Tunes Python's cyclic garbage collector for a long-running process."""

import gc

THRESHOLDS = 50_000, 20, 1_000  # objects, and collections of a generation, before the next one is collected


def collect_seldom() -> None:
    """Let the collector leave out what exists now, and run seldom: for a process that makes many objects and no cycles."""
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)

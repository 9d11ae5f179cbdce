"""The result of one check."""

from typing import Literal, NamedTuple

Level = Literal["ok", "warning", "problem"]


class Finding(NamedTuple):
    """One thing that was checked. text: what is so, and what it means. remedy: what to do; "" where nothing is to be done."""

    level: Level
    subject: str
    text: str
    remedy: str = ""


def ok(subject: str, text: str) -> Finding:
    """Return a finding that needs nothing."""
    return Finding("ok", subject, text)


def warning(subject: str, text: str, remedy: str) -> Finding:
    """Return a finding that may be intended, or that will be a problem later."""
    return Finding("warning", subject, text, remedy)


def problem(subject: str, text: str, remedy: str) -> Finding:
    """Return a finding that keeps something from working now."""
    return Finding("problem", subject, text, remedy)

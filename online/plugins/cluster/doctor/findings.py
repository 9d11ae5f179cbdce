"""The result of one check."""

from typing import Literal, NamedTuple

Level = Literal["ok", "warning", "problem"]


class CheckFinding(NamedTuple):
    """One thing that was checked. text: what is so, and what it means. remedy: what to do; "" where nothing is to be done."""

    level: Level
    subject: str
    text: str
    remedy: str = ""


def ok(subject: str, text: str) -> CheckFinding:
    """Return a finding that needs nothing."""
    return CheckFinding("ok", subject, text)


def warning(subject: str, text: str, remedy: str) -> CheckFinding:
    """Return a finding that may be intended, or that will be a problem later."""
    return CheckFinding("warning", subject, text, remedy)


def problem(subject: str, text: str, remedy: str) -> CheckFinding:
    """Return a finding that keeps something from working now."""
    return CheckFinding("problem", subject, text, remedy)

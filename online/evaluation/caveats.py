"""Warnings about a replay's results, as reasons: a log that lacks events, examples that were not learned, baselines far ahead.

Reports say them in words; a remark is of reasons that are said together.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

from online.evaluation.replay.replay_report import ReplayReport
from online.evaluation.sources.bad_lines import LogGaps
from online.scoring.baseline_lead import Lead
from online.scoring.verdict import Figures, Reason

Remark = tuple[Reason, ...]

MIN_JUDGED = 100  # answers; with fewer, an interval may be wider than 20 points
MAX_REFUSED = 0.01  # share of examples that were not learned from which it is said
LEAST_ANSWERED = 0.5  # share of answers below which it is said
LIMIT = re.compile(r"\(option (\w+)\)")  # names a limit in the reason of a refusal
MAX_OUTSIDE = 0.01  # share of answers outside the ranges seen from which it is said


def warning(code: str, **figures: float | int | str | Reason | None) -> Reason:
    """Return a reason that needs attention."""
    return Reason(code, "attention", figures)


def advice(code: str, **figures: float | int | str | Reason | None) -> Reason:
    """Return a reason that is advice."""
    return Reason(code, "notice", figures)


def name_baseline(lead: Lead) -> str:
    """Return the name by which the words call a baseline."""
    return "no_change_number" if lead.numbers and lead.baseline == "no_change" else lead.baseline


def warn_of_leads(reports: Sequence[ReplayReport], names_options: bool = True) -> Iterator[Remark]:
    """Yield a remark on each model that a baseline is far ahead of. names_options: with the settings that help."""
    for report in reports:
        far = sorted((lead for lead in report.leads if lead.is_far), key=lambda lead: -lead.size)
        if far:
            remedies = report.remedies if names_options else []
            yield (*(describe_lead(report.name, lead) for lead in far), *list_remedies(remedies))


def warn_of_log(reports: Sequence[ReplayReport]) -> Iterator[Reason]:
    """Yield what a log of ours lacks, and how many of its events were not learned: the log is the same for all models."""
    if count := max((report.events_without_prediction for report in reports), default=0):
        yield warning("warn.orphans", count=count)
    if reports:
        first = reports[0]
        yield from warn_of_gaps(LogGaps(0, first.missing_events, first.first_missing, first.missing_predictions))


def warn_of_gaps(gaps: LogGaps) -> Iterator[Reason]:
    """Yield what a log lacks."""
    if gaps.events:
        yield warning("warn.missing", count=gaps.events, first=gaps.first)
    if gaps.predictions:
        yield warning("warn.missing_predictions", count=gaps.predictions)


def warn_of_errors(reports: Sequence[ReplayReport]) -> Iterator[Reason]:
    """Yield that the code of a model raised errors, with the last line of the first."""
    for report in reports:
        if found := report.errors:
            counts = {"answers": found["answers"], "examples": found["examples"]}
            yield warning("warn.errors", name=report.name, first=found["first"].splitlines()[-1], **counts)


def warn_of_unused(report: ReplayReport) -> Iterator[Reason]:
    """Yield how much a model did not learn, where it was more than a few examples, and that it mostly gave no answer."""
    count = count_refused(report)
    if count > MAX_REFUSED * report.events:
        reason = max(report.refused, key=lambda reason: report.refused[reason])
        share = 100 * count / report.events
        yield warning("warn.refused", name=report.name, count=count, share=share, reason=reason)
    answered = report.figures.get("answered")
    if answered is not None and answered < LEAST_ANSWERED and (report.figures["judged"] or 0) >= MIN_JUDGED:
        yield warning("warn.unanswered", name=report.name, share=100 * (1 - answered))


def count_refused(report: ReplayReport) -> int:
    """Return the number of refused examples."""
    return sum(report.refused.values())


def advise_on_unused(report: ReplayReport, names_options: bool) -> Iterator[Reason]:
    """Yield what to do about errors, and about examples that were not learned."""
    if report.errors:
        yield advice("next.errors")
    elif count_refused(report) > MAX_REFUSED * report.events:
        named = [found[1] for reason in report.refused if (found := LIMIT.search(reason))]
        is_named = named and names_options
        yield advice("next.limit", option=named[0], name=report.name) if is_named else advice("next.refused")


def warn_of_outside(report: ReplayReport) -> Iterator[Reason]:
    """Yield how much lay outside the ranges that a model had seen, where it was more than a few."""
    for code, count, total in (
        ("warn.outside", report.outside, report.asked),
        ("warn.targets_outside", report.targets_outside, report.events),
    ):
        if count > MAX_OUTSIDE * total:
            yield warning(code, model=report.name, count=count, share=100 * count / total)


def advise_on_outside(report: ReplayReport, names_options: bool) -> Iterator[Remark]:
    """Yield what `warn_of_outside` says with what helps. names_options: whether the advice may name options."""
    if said := [*warn_of_outside(report)]:
        yield (*said, find_outside_remedy(report) if names_options else advice("next.outside"))


def find_outside_remedy(report: ReplayReport) -> Reason:
    """Return what to do about numbers outside their declared range."""
    options: Mapping[str, object] = report.settings.get("options", {})
    if declared := [f"`{name}`" for name in ("scale", "target_scale") if options.get(name)]:
        return advice("next.outside_declared", names=" / ".join(declared))
    return advice("next.outside_numbers" if "mae" in report.figures else "next.outside_classes")


def describe_lead(model: str, lead: Lead) -> Reason:
    """Return the warning that a baseline is better."""
    named: Figures = {"model": model, "baseline": warning(f"baseline.{name_baseline(lead)}")}
    if lead.numbers:
        return Reason("warn.far_error", "attention", {**named, "error": lead.model, "other": lead.other})
    points = {"points": 100 * lead.size, "share": 100 * lead.model, "other": 100 * lead.other}
    interval = {"pairs": lead.pairs, "low": 100 * lead.low, "high": 100 * lead.high}
    return Reason("warn.behind", "attention", {**named, **points, **interval})


def list_remedies(remedies: Sequence[str]) -> Iterator[Reason]:
    """Yield the advice to try other options, if any are named."""
    if remedies:
        *others, last = remedies
        yield advice("remedy.many", others=", ".join(others), last=last) if others else advice("remedy.one", last=last)

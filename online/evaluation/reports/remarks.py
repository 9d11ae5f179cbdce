"""What a reader of a replay's results must not miss: columns that were left out, and baselines far ahead of a model."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from online.evaluation.replay.baseline import NO_TEXTS, TOO_LARGE
from online.evaluation.replay.replay_report import ReplayReport
from online.evaluation.reports.bases import count_judged, count_known, is_by_construction
from online.evaluation.reports.words.language import IN_ENGLISH, Words
from online.evaluation.sources.bad_lines import LogGaps
from online.evaluation.sources.column_choice import MAX_NAMED
from online.evaluation.sources.column_profile import ColumnProfile
from online.scoring.baseline_lead import Lead

# how numbers are written, where that is said
AS_WRITTEN = ("leading_zero", "decimal_commas", "grouped_digits", "units")
MIN_JUDGED = 100  # answers; with fewer, an interval may be wider than 20 points
MAX_REFUSED = 0.01  # share of examples that were not learned from which it is said
LEAST_ANSWERED = 0.5  # share of answers below which it is said
LIMIT = re.compile(r"\(option (\w+)\)")  # names a limit in the reason of a refusal
MAX_OUTSIDE = 0.01  # share of answers outside the ranges seen from which it is said
SKIPPED = {NO_TEXTS: "skipped.texts", TOO_LARGE: "skipped.too_large"}


def describe_left_out(columns: Sequence[str], words: Words = IN_ENGLISH) -> str:
    names, more = ", ".join(columns[:MAX_NAMED]), len(columns) - MAX_NAMED
    return words.plural(
        "left_out", len(columns), names=words("and_more", names=names, count=more) if more > 0 else names
    )


def describe_settings(reports: Sequence[ReplayReport], words: Words = IN_ENGLISH) -> Iterator[str]:
    """Yield with which settings models were replayed: in one sentence where all have the same."""
    by_settings = dict[str, list[str]]()
    for report in reports:
        by_settings.setdefault(format_settings(report.settings), []).append(report.name)
    for settings, names in by_settings.items():
        if len(by_settings) > 1:
            yield words("settings.of", names=", ".join(names), settings=settings)
        elif settings:
            yield words("settings", settings=settings)
    if column := next((report.settings.get("sorted_by") for report in reports), None):
        yield words("sorted", column=column)


def format_settings(settings: Mapping[str, Any]) -> str:
    """Return settings as a configuration file has them: `drift = "act", every = 256`."""
    return ", ".join(f"{name} = {format_setting(value)}" for name, value in settings.items())


def format_setting(value: Any) -> str:
    return (
        f"{{ {format_settings(value)} }}"
        if isinstance(value, dict)
        else json.dumps(value, ensure_ascii=False, default=str)
    )


def describe_columns(columns: Iterable[ColumnProfile], words: Words = IN_ENGLISH) -> Iterator[str]:
    """Yield a sentence on each column that is not read as it is."""
    for column in columns:
        if key := find_column_words(column):
            beside = "_beside" if column.kind == "text" and column.treatment == "left_out" else ""
            yield words(key, name=column.name, reason=words(f"reason.{column.reason}{beside}", name=column.name))


def find_column_words(column: ColumnProfile) -> str:
    """Return the key of the sentence on a column; "" if there is nothing to say."""
    if column.treatment == "read":
        return "column.as_written" if column.reason in AS_WRITTEN else ""
    kind = f".{'vector' if column.kind in ('vector', 'number') else 'text'}" if column.treatment == "input" else ""
    return f"column.{column.treatment}{kind}"


def describe_skipped(reason: str, words: Words = IN_ENGLISH) -> str:
    """reason: one of SKIPPED, or the message of an error."""
    return words("skipped", reason=words(SKIPPED[reason]) if reason in SKIPPED else reason)


def name_baseline(lead: Lead) -> str:
    """Return the name by which the words call a baseline."""
    return "no_change_number" if lead.numbers and lead.baseline == "no_change" else lead.baseline


def warn(reports: Sequence[ReplayReport], words: Words = IN_ENGLISH, names_options: bool = True) -> Iterator[str]:
    """Yield a sentence on each model that a baseline is far ahead of. names_options: with the settings that help."""
    for report in reports:
        far = sorted((lead for lead in report.leads if lead.is_far), key=lambda lead: -lead.size)
        if far:
            leads = (describe_lead(report.name, lead, words) for lead in far)
            remedies = report.remedies if names_options else []
            yield " ".join([*leads, *describe_remedies(remedies, words)])


def warn_of_log(reports: Sequence[ReplayReport], words: Words = IN_ENGLISH) -> Iterator[str]:
    """Yield what a log of ours lacks, and how many of its events were not learned: the log is the same for all models."""
    if count := max((report.events_without_prediction for report in reports), default=0):
        yield words.plural("warn.orphans", count)
    if reports:
        first = reports[0]
        yield from warn_of_gaps(LogGaps(0, first.missing_events, first.first_missing, first.missing_predictions), words)


def warn_of_gaps(gaps: LogGaps, words: Words) -> Iterator[str]:
    """Yield what a log lacks."""
    if gaps.events:
        yield words.plural("warn.missing", gaps.events, first=gaps.first)
    if gaps.predictions:
        yield words("warn.missing_predictions", count=gaps.predictions)


def describe_gaps(gaps: LogGaps, words: Words) -> Iterator[str]:
    """Yield what a log has twice, and what it lacks."""
    if gaps.repeated:
        yield words("repeated", count=gaps.repeated)
    yield from warn_of_gaps(gaps, words)


def warn_of_errors(reports: Sequence[ReplayReport], words: Words = IN_ENGLISH) -> Iterator[str]:
    """Yield that the code of a model raised errors, with the last line of the first."""
    for report in reports:
        if found := report.errors:
            counts = {"answers": found["answers"], "examples": found["examples"]}
            yield words("warn.errors", name=report.name, first=found["first"].splitlines()[-1], **counts)


def warn_of_unused(report: ReplayReport, words: Words = IN_ENGLISH) -> Iterator[str]:
    """Yield how much a model did not learn, where it was more than a few examples, and that it mostly gave no answer."""
    count = count_refused(report)
    if count > MAX_REFUSED * report.events:
        reason = max(report.refused, key=lambda reason: report.refused[reason])
        yield words("warn.refused", name=report.name, count=count, share=100 * count / report.events, reason=reason)
    answered = report.figures.get("answered")
    if answered is not None and answered < LEAST_ANSWERED and (report.figures["judged"] or 0) >= MIN_JUDGED:
        yield words("warn.unanswered", name=report.name, share=100 * (1 - answered))


def count_refused(report: ReplayReport) -> int:
    return sum(report.refused.values())


def advise_on_unused(report: ReplayReport, words: Words, names_options: bool) -> Iterator[str]:
    """Yield what to do about errors, and about examples that were not learned."""
    if report.errors:
        yield words("next.errors")
    elif count_refused(report) > MAX_REFUSED * report.events:
        named = [found[1] for reason in report.refused if (found := LIMIT.search(reason))]
        yield (
            words("next.limit", option=named[0], name=report.name) if named and names_options else words("next.refused")
        )


def warn_of_outside(report: ReplayReport, words: Words = IN_ENGLISH) -> Iterator[str]:
    """Yield how much lay outside the ranges that a model had seen, where it was more than a few."""
    for key, count, total in (
        ("warn.outside", report.outside, report.asked),
        ("warn.targets_outside", report.targets_outside, report.events),
    ):
        if count > MAX_OUTSIDE * total:
            yield words(key, model=report.name, count=count, share=100 * count / total)


def advise_on_outside(report: ReplayReport, words: Words, names_options: bool) -> Iterator[str]:
    """Yield what `warn_of_outside` says with what helps. names_options: whether the advice may name options."""
    if said := [*warn_of_outside(report, words)]:
        yield " ".join([*said, describe_outside_remedy(report, words) if names_options else words("next.outside")])


def describe_outside_remedy(report: ReplayReport, words: Words) -> str:
    options = report.settings.get("options", {})
    if declared := [f"`{name}`" for name in ("scale", "target_scale") if options.get(name)]:
        return words("next.outside_declared", names=" / ".join(declared))
    return words("next.outside_numbers" if "mae" in report.figures else "next.outside_classes")


def describe_lead(model: str, lead: Lead, words: Words) -> str:
    baseline = words(f"baseline.{name_baseline(lead)}")
    if lead.numbers:
        return words("warn.far_error", model=model, baseline=baseline, error=lead.model, other=lead.other)
    return words(
        "warn.behind",
        model=model,
        baseline=baseline,
        points=100 * lead.size,
        share=100 * lead.model,
        other=100 * lead.other,
        pairs=lead.pairs,
        low=100 * lead.low,
        high=100 * lead.high,
    )


def describe_remedies(remedies: Sequence[str], words: Words) -> Iterator[str]:
    if remedies:
        *others, last = remedies
        values = {"others": ", ".join(others)} if others else {}
        yield words("remedy.many" if others else "remedy.one", last=last, **values)


def has_known(report: ReplayReport, count: int) -> bool:
    """Whether the right answer is known for enough of the judged answers to show figures of those alone.

    count: those that are known. With fewer, the rest are answers that were wrong, and the known ones look too good.
    """
    return 2 * count >= count_judged(report)


def describe_known(report: ReplayReport, words: Words) -> Iterator[str]:
    """Yield that some figures leave out answers that were wrong, where they do and are shown."""
    judged, known = count_judged(report), count_known(report)
    if known < judged and not is_by_construction(report):
        yield words("known_only", judged=judged, missing=judged - known)

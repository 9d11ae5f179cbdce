"""Remarks of a report on its log and its settings: columns that were left out, and the answers on which a figure is based."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence

from online.evaluation.bases import count_judged, count_known, is_by_construction
from online.evaluation.caveats import warn_of_gaps
from online.evaluation.replay.baseline import NO_TEXTS, TOO_LARGE
from online.evaluation.replay.replay_report import ReplayReport
from online.evaluation.sources.bad_lines import LogGaps
from online.evaluation.sources.column_choice import MAX_NAMED
from online.evaluation.sources.column_profile import ColumnProfile
from online.evaluation.words import IN_ENGLISH, LanguageWords

# how numbers are written, where that is said
AS_WRITTEN = ("leading_zero", "decimal_commas", "grouped_digits", "units")
SKIPPED = {NO_TEXTS: "skipped.texts", TOO_LARGE: "skipped.too_large"}


def describe_left_out(columns: Sequence[str], words: LanguageWords = IN_ENGLISH) -> str:
    """Return the sentence that names the columns that were left out."""
    names, more = ", ".join(columns[:MAX_NAMED]), len(columns) - MAX_NAMED
    return words.plural(
        "left_out", len(columns), names=words("and_more", names=names, count=more) if more > 0 else names
    )


def describe_settings(reports: Sequence[ReplayReport], words: LanguageWords = IN_ENGLISH) -> Iterator[str]:
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


def format_settings(settings: Mapping[str, object]) -> str:
    """Return settings as a configuration file has them: `drift = "act", every = 256`."""
    return ", ".join(f"{name} = {format_setting(value)}" for name, value in settings.items())


def format_setting(value: object) -> str:
    """Return a setting's value as TOML."""
    return (
        f"{{ {format_settings(value)} }}"
        if isinstance(value, dict)
        else json.dumps(value, ensure_ascii=False, default=str)
    )


def describe_columns(columns: Iterable[ColumnProfile], words: LanguageWords = IN_ENGLISH) -> Iterator[str]:
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


def describe_skipped(reason: str, words: LanguageWords = IN_ENGLISH) -> str:
    """reason: one of SKIPPED, or the message of an error."""
    return words("skipped", reason=words(SKIPPED[reason]) if reason in SKIPPED else reason)


def describe_gaps(gaps: LogGaps, words: LanguageWords) -> Iterator[str]:
    """Yield what a log has twice, and what it lacks."""
    if gaps.repeated:
        yield words("repeated", count=gaps.repeated)
    yield from map(words.say, warn_of_gaps(gaps))


def describe_basis(count: int, judged: int, words: LanguageWords) -> str:
    """Return a line such as "of 185 judged answers" or "of 167 of the 185 judged answers"."""
    if count >= judged:
        return words.plural("basis.judged", judged)
    return words("basis.some", count=count, judged=judged)


def describe_known_basis(count: int, report: ReplayReport, words: LanguageWords) -> str:
    """Return the line of a figure of those answers alone of which the right one is known. count: how many it is of."""
    judged = count_judged(report)
    if count_known(report) < judged:
        return words("basis.known", count=count, judged=judged)
    return describe_basis(count, judged, words)


def describe_known(report: ReplayReport, words: LanguageWords) -> Iterator[str]:
    """Yield that some figures leave out answers that were wrong, where they do and are shown."""
    judged, known = count_judged(report), count_known(report)
    if known < judged and not is_by_construction(report):
        yield words("known_only", judged=judged, missing=judged - known)

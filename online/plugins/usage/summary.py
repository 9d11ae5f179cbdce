"""The counts of quarters of an hour, summed up to hours, days, weeks or months."""

import math
from datetime import UTC, datetime
from functools import reduce
from itertools import pairwise
from typing import NamedTuple
from zoneinfo import ZoneInfo

from sqlalchemy import Connection

from online.plugins.usage.calendar import Unit, list_starts, quarter_number
from online.plugins.usage.questions import find_oldest_prediction
from online.plugins.usage.schemas import Usage, UsageAnswer, UsageSpan
from online.store.usage.counts import UsageCounts, find_first_quarter, load_counts, time_of
from online.store.usage.ratings import load_progress

Z_95 = 1.959963984540054


class UsageRange(NamedTuple):
    """A span of time in a time zone."""

    since: datetime
    until: datetime
    zone: ZoneInfo


def summarize_usage(connection: Connection, model: str, span: UsageRange, unit: Unit) -> UsageAnswer:
    """Return the usage of a range. Raises BadInput for a range that is empty, or has too many spans."""
    starts = list_starts(span.since, span.until, unit, span.zone)
    places = [quarter_number(start) for start in starts]
    spans = [*pairwise([*places, quarter_number(span.until)])]
    sums = [UsageCounts()] * len(spans)
    for place, counts in load_counts(connection, model, spans):
        sums[place] = counts
    total = reduce(UsageCounts.plus, sums)
    ends = [*starts[1:], span.until]
    counted = find_first_quarter(connection, model)
    return UsageAnswer(
        since=write_local(span.since, span.zone),
        until=write_local(span.until, span.zone),
        by=unit,
        timezone=span.zone.key,
        total=describe(total),
        spans=[
            UsageSpan(since=write_local(start, span.zone), until=write_local(end, span.zone), **dict(describe(counts)))
            for start, end, counts in zip(starts, ends, sums, strict=True)
        ],
        counted_since=None if counted is None else write_local(time_of(counted), span.zone),
        kept_since=find_oldest_prediction(connection, model),
        is_complete=load_progress(connection, model).is_complete,
    )


def write_local(at: datetime, zone: ZoneInfo) -> str:
    """Return an instant with the offset of a time zone."""
    return at.astimezone(UTC).astimezone(zone).isoformat()


def describe(counts: UsageCounts) -> Usage:
    """Return counts as the API shows them, with an interval for the satisfaction."""
    judged = counts.good + counts.bad
    low, high = wilson_interval(counts.good, judged)
    alone = counts.answered - counts.helped
    return Usage(
        asked=counts.asked,
        answered=counts.answered,
        rated=counts.rated,
        good=counts.good,
        bad=counts.bad,
        corrected=counts.corrected,
        satisfaction=counts.good / judged if judged else None,
        satisfaction_low=low,
        satisfaction_high=high,
        answered_alone=alone,
        answered_alone_share=alone / counts.asked if counts.asked else None,
    )


def wilson_interval(successes: int, trials: int) -> tuple[float | None, float | None]:
    """Return the 95 % score interval of a proportion (Wilson 1927); (None, None) without trials."""
    if not trials:
        return None, None
    share, weight = successes / trials, Z_95**2 / trials
    centre = (share + weight / 2) / (1 + weight)
    reach = Z_95 * math.sqrt(share * (1 - share) / trials + weight / (4 * trials)) / (1 + weight)
    return max(centre - reach, 0.0), min(centre + reach, 1.0)

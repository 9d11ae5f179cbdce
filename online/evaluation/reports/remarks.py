"""What a reader of a replay's results must not miss: columns that were left out, and baselines far ahead of a model."""

from collections.abc import Iterator, Sequence

from online.evaluation.replay.replay_report import ReplayReport
from online.evaluation.scoring.baseline_lead import Lead
from online.evaluation.scoring.score import LEARNED_BASELINE
from online.evaluation.sources.column_choice import list_names

WORDS = {
    LEARNED_BASELINE: f"a {LEARNED_BASELINE} model with default options that learned beside it",
    "no_change": "a baseline that repeats the last class",
    "majority": "a baseline that always answers the most frequent class",
    "mean": "a baseline that answers the mean so far",
}
LAST_NUMBER = "a baseline that repeats the last number"


def describe_left_out(columns: Sequence[str]) -> str:
    return f"without the column{'s' if len(columns) > 1 else ''} {list_names(columns)}"


def describe_skipped(reason: str) -> str:
    return f"no {LEARNED_BASELINE} model ran beside it as a baseline: {reason}"


def warn(reports: Sequence[ReplayReport]) -> Iterator[str]:
    """Yield a sentence on each model that a baseline is far ahead of, with what helps."""
    for report in reports:
        far = sorted((lead for lead in report.leads if lead.is_far), key=lambda lead: -lead.size)
        if far:
            yield " ".join([*(describe_lead(report.name, lead) for lead in far), *describe_remedies(report.remedies)])


def describe_lead(model: str, lead: Lead) -> str:
    if lead.numbers:
        words = LAST_NUMBER if lead.baseline == "no_change" else WORDS[lead.baseline]
        return f"{model} is far behind {words}: mean absolute error {lead.model:.4g} against {lead.other:.4g}."
    return (
        f"{model} is {100 * lead.size:.1f} points behind {WORDS[lead.baseline]}: {100 * lead.model:.1f} "
        f"against {100 * lead.other:.1f} % of {lead.pairs:,} examples ({100 * lead.low:.1f} to {100 * lead.high:.1f} points, 95 % interval)."
    )


def describe_remedies(remedies: Sequence[str]) -> Iterator[str]:
    if remedies:
        *others, last = remedies
        yield f"What has helped on such data: {', '.join(others)}{', or ' if others else ''}{last}."

"""The fall of a model's accuracy that a report names, with one begin for it and the drift alarms of the same change."""

from online.evaluation.replay.replay_report import ReplayReport
from online.scoring.drift_changes import NoticedFall, notice_fall


def find_noticed_fall(report: ReplayReport) -> NoticedFall | None:
    """Return the fall of a model's accuracy; None for numbers, and if there is none that matters."""
    observed = "model" if report.same_answers is None else "served"  # whose answers the detectors observe
    return None if "mae" in report.figures else notice_fall(report.details.curve, report.drift, observed)


def count_served(report: ReplayReport, offset: int) -> int | None:
    """Count the judged answers of a service up to an event, that one included, as its learning page counts them.

    None if that is not known: of another model or a part of a log, and where the curve does not say which events in between
    judged one.
    """
    if report.same_answers is None or report.contents_from:
        return None
    total = before = 0
    for segment in report.details.curve:
        count = segment.counts.get("served", 0)
        if segment.offset >= offset:
            is_each = count == segment.offset - before
            return total + offset - before if is_each else None
        total, before = total + count, segment.offset
    return None


def list_begins(report: ReplayReport) -> list[int]:
    """Return the event with which the change of each alarm began, as the verdict says it."""
    found = find_noticed_fall(report)
    return [alarm.since for alarm in report.drift] if found is None else [*found.begins]

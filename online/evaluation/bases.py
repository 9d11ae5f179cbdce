"""Names the answers on which a figure of a report is based, so that figures of different answers are not read as a contradiction.

judged     all answers that feedback says something about: the accuracy
known      those of which the right answer is known: the confusion matrix, kappa, probabilities
compared   those by which a model and a baseline can both be judged: the figure of the baseline
"""

from online.evaluation.replay.replay_report import ReplayReport
from online.scoring.baseline_lead import Lead

OF_KNOWN = ("kappa", "kappa_temporal", "log_loss", "brier", "ece")  # figures of the answers whose right one is known
MOSTLY_AFFIRMED = (
    0.5  # of the known right answers; with more, figures of those say more about the ratings than the model
)


def count_judged(report: ReplayReport) -> int:
    """Return the number of judged answers."""
    return int(report.figures.get("judged") or 0)


def count_known(report: ReplayReport) -> int:
    """Count the judged answers of which the right one is known; all of them where no classes are predicted."""
    confusion = report.details.confusion
    return count_judged(report) if confusion is None else sum(map(sum, confusion.rows))


def is_by_construction(report: ReplayReport) -> bool:
    """Return whether most known right answers are what was served and got a thumb up: then they are right by construction."""
    known = count_known(report)
    return bool(known) and report.details.affirmed > MOSTLY_AFFIRMED * known


def find_figure(report: ReplayReport, name: str) -> float | None:
    """Return a figure of a model; None for one that says nothing, as it is of answers that are right by construction."""
    return None if name in OF_KNOWN and is_by_construction(report) else report.figures.get(name)


def count_with_probabilities(report: ReplayReport) -> int:
    """Return the number of answers that had a probability."""
    return sum(count for count, _, _ in report.details.reliability)


def is_partial(report: ReplayReport, lead: Lead) -> bool:
    """Return whether a baseline is compared on some of the judged answers only."""
    return lead.pairs < count_judged(report)


def find_smaller_basis(report: ReplayReport, figure: str) -> int | None:
    """Return how many answers a figure of a model is of, if that is fewer than its accuracy is of."""
    if find_figure(report, figure) is None:
        return None
    compared = {lead.baseline: lead.pairs for lead in report.leads}
    count = {"kappa": count_known(report), "kappa_temporal": compared.get("no_change")}.get(figure)
    return count if count is not None and count < count_judged(report) else None


def has_known(report: ReplayReport, count: int) -> bool:
    """Return whether the right answer is known for enough of the judged answers to show figures of those alone.

    count: those that are known. With fewer, the rest are answers that were wrong, and the known ones look too good.
    """
    return 2 * count >= count_judged(report)

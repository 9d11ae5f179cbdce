"""The verdict on a replay, as reasons: the result, warnings, and advice.

results --judge_results--> ReplayVerdict   codes and figures: the reports say it in words

Each claim is computed from the figures. A difference is called real only where a confidence interval excludes that chance
explains it; with several challengers each interval is widened, so that looking at many does not make one stand out.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from online.evaluation.bases import count_judged, count_known, is_by_construction, is_partial
from online.evaluation.caveats import (
    MIN_JUDGED,
    Remark,
    advice,
    advise_on_outside,
    advise_on_unused,
    describe_lead,
    list_remedies,
    name_baseline,
    warn_of_errors,
    warn_of_leads,
    warn_of_log,
    warn_of_unused,
    warning,
)
from online.evaluation.noticed_fall import count_served, find_noticed_fall
from online.evaluation.replay.replay_report import ReplayReport, ReplayResult
from online.schemas.json_values import JSONObject
from online.scoring.baseline_lead import Lead
from online.scoring.confusion import ConfusedPair
from online.scoring.drift_changes import NoticedFall
from online.scoring.intervals import wilson_interval
from online.scoring.score import LEARNED_BASELINE
from online.scoring.verdict import Reason

MAX_BAD = 0.01  # share of unusable lines
MOSTLY_ONE_CLASS = 0.9  # share of the most frequent class from which accuracy says little
OVERCONFIDENT = 0.1  # expected calibration error
FREQUENT_CONFUSION = 0.1  # share of a class that goes to one wrong answer

MOST_FREQUENT = ("majority",)  # the baseline that always answers the most frequent class, which can be named
BLIND_GUESSERS = (*MOST_FREQUENT, "no_change", "mean")  # they do not look at the inputs
GUESSERS = (*BLIND_GUESSERS, LEARNED_BASELINE)

Level = Literal["good", "attention", "unclear"]


@dataclass(frozen=True, slots=True)
class ReplayVerdict:
    """The verdict on a replay.

    level: attention where something is off, unclear where there is too little to tell. figure: how good the best model is,
    or why nothing is known of it; rival, guesser: how it compares with another model and with the strongest baseline.
    warnings: the most urgent first. next: what to do now. failures: of models that could not be replayed.
    """

    level: Level
    figure: Reason
    warnings: list[Remark]
    next: list[Remark]
    failures: list[Reason]
    rival: Reason | None = None
    guesser: Reason | None = None


def judge_results(
    results: Sequence[ReplayResult], interrupted: bool = False, names_options: bool = True
) -> ReplayVerdict:
    """Judge a replay. names_options: whether the advice may name options of the command line."""
    reports = [result.report for result in results if result.report is not None]
    failures = [
        warning("failed", name=result.candidate.name, failure=result.failure) for result in results if result.failure
    ]
    of_log: list[Remark] = [(reason,) for reason in warn_of_log(reports)]
    judged = [report for report in reports if report.figures.get("judged")]
    if not judged:
        nothing = advice("nothing_judged" if reports else "nothing_replayed")
        return ReplayVerdict(
            "attention" if of_log else "unclear", nothing, of_log, [(advice("nothing.next"),)], failures
        )
    best = find_best(judged)
    fall = find_noticed_fall(best)
    unused = [(reason,) for reason in (*warn_of_errors(reports), *warn_of_unused(best))]
    off: list[Remark] = [*unused, *of_log, *warn_of_result(results, best, fall, names_options)]
    few = [(reason,) for reason in warn_of_few(best, interrupted)]
    next = advise(results, best, fall, names_options) or [(advice("next.mend" if off else "next.nothing"),)]
    return ReplayVerdict(
        "attention" if failures or off else "unclear" if few else "good",
        describe_figure(best, len(judged)),
        [*off, *few],
        next,
        failures,
        compare_with_rival(results, best),
        compare_with_guesser(best),
    )


def is_of_numbers(report: ReplayReport) -> bool:
    """Return whether a model predicts numbers."""
    return "mae" in report.figures


def find_best(reports: Sequence[ReplayReport]) -> ReplayReport:
    """Return the report with the smallest error or the highest accuracy."""
    if is_of_numbers(reports[0]):
        return min(reports, key=lambda report: report.figures["mae"] or 0.0)
    return max(reports, key=lambda report: report.figures["accuracy"] or 0.0)


# the sentence


def describe_figure(report: ReplayReport, among: int) -> Reason:
    """among: the number of models of which it is the best."""
    figures = report.figures
    name = advice("best_of", name=report.name, count=among) if among > 2 else report.name
    answers = advice("answers", count=int(figures["judged"] or 0))
    if is_of_numbers(report):
        return advice("is_off", name=name, error=figures["mae"], answers=answers)
    low, high = find_interval(report)
    share = percent(figures["accuracy"])
    return advice("is_right", name=name, share=share, answers=answers, low=100 * low, high=100 * high)


def find_interval(report: ReplayReport) -> tuple[float, float]:
    """Return the 95 % interval of the accuracy."""
    return wilson_interval(report.figures["right"] or 0, int(report.figures["judged"] or 0))


def percent(share: float | None) -> float:
    """Return a share in percent."""
    return 100 * (share or 0.0)


def compare_with_rival(results: Sequence[ReplayResult], best: ReplayReport) -> Reason | None:
    """Return how the best model compares with the champion, or the champion with the best of the others."""
    found = find_rival(results, best)
    if found is None:
        return None
    rival, comparison, gain = found
    surely = comparison["stands_among_all"]
    if is_of_numbers(best):
        return describe_error(rival.name, rival.figures["mae"], surely and gain > 0, surely and gain < 0)
    share = percent(rival.figures["accuracy"])
    if round(100 * gain, 1) > 0:
        return advice("better" if surely else "perhaps_better", points=100 * gain, name=rival.name, share=share)
    return advice("as_good", name=rival.name, share=share)


def describe_error(name: str | Reason, error: float | None, is_farther: bool, is_nearer: bool) -> Reason:
    """is_farther, is_nearer: whether it is surely so on more examples than not."""
    return advice("farther" if is_farther else "nearer" if is_nearer else "as_near", name=name, error=error)


def find_rival(results: Sequence[ReplayResult], best: ReplayReport) -> tuple[ReplayReport, JSONObject, float] | None:
    """Return the model to compare with, the comparison with the champion that concerns both, and the gain of the best."""
    champion = results[0].report
    compared = [each for each in results[1:] if each.report is not None and each.comparison is not None]
    compared = [each for each in compared if (each.comparison or {}).get("difference") is not None]
    if champion is None or not compared:
        return None
    own = next((each for each in compared if each.report is best), None)
    if own is not None and own.comparison is not None:
        return champion, own.comparison, own.comparison["difference"]
    sign = 1 if is_of_numbers(best) else -1
    figure = "mae" if is_of_numbers(best) else "accuracy"
    second = min(compared, key=lambda each: sign * ((each.report and each.report.figures[figure]) or 0.0))
    if second.report is None or second.comparison is None:
        return None
    return second.report, second.comparison, -second.comparison["difference"]


def compare_with_guesser(report: ReplayReport) -> Reason | None:
    """Return how the model compares with the strongest baseline, or why it cannot be compared."""
    lead = find_strongest(report.leads)
    if lead is None:
        return None
    if is_by_construction(report):
        return advice("not_comparable")
    if lead.numbers:
        return describe_error(describe_guesser(lead), lead.other, lead.high < 0, lead.low > 0)
    which = "ahead" if lead.high < 0 else "behind" if lead.low > 0 else "indistinguishable"
    compared = {"before": "", "basis": "", **find_basis(report, lead)}
    shares = {"share": percent(lead.model), "other": percent(lead.other)}
    points, guesser = abs(100 * (lead.model - lead.other)), advice(f"than_guesser.{name_baseline(lead)}")
    return advice(which, points=points, guesser=guesser, **shares, **compared)


def find_basis(report: ReplayReport, lead: Lead) -> dict[str, str | Reason]:
    """Return what stands before a comparison with a baseline, or after its two figures; {} where it is on all of the answers."""
    if not is_partial(report, lead):
        return {}
    if count_known(report) < count_judged(report):
        return {"before": advice("compared_on.known", count=lead.pairs)}
    return {"basis": advice("compared_on.same", count=lead.pairs)}


def find_strongest(leads: Sequence[Lead]) -> Lead | None:
    """Return the baseline with the best figure, of those that answered more than a few times.

    One that ran on a sample has its figure on other answers than the rest, so all are compared on the sample. A
    baseline that is surely ahead of the model comes first, on whichever answers that is.
    """
    known = list_guessers(leads)
    compared = [(lead.shared, lead) for lead in known if lead.shared is not None]
    if len(compared) < len(known) or any(lead.low > 0 for lead in known):
        return find_closest(known)
    return max(compared, key=lambda pair: (pair[0], pair[1].other - pair[1].model))[1] if compared else None


def find_closest(leads: Sequence[Lead]) -> Lead | None:
    """Return the baseline that is least behind the model, or most ahead of it, each on its own answers."""
    known = list_guessers(leads)
    return min(
        known, key=lambda lead: lead.other - lead.model if lead.numbers else lead.model - lead.other, default=None
    )


def list_guessers(leads: Sequence[Lead]) -> list[Lead]:
    """Return the baselines that answered more than a few times."""
    return [lead for lead in leads if lead.baseline in GUESSERS and lead.pairs >= 2]


def describe_guesser(lead: Lead) -> Reason:
    """Return the reason that names a baseline."""
    return advice(f"guesser.{name_baseline(lead)}")


# what to be careful about


def warn_of_few(report: ReplayReport, interrupted: bool) -> Iterator[Reason]:
    """Yield a warning if the replay was interrupted or judged few answers."""
    judged = int(report.figures["judged"] or 0)
    if interrupted:
        yield Reason("warn.interrupted", "unknown")
    if judged < MIN_JUDGED:
        yield Reason("warn.few", "unknown", {"count": judged, "enough": MIN_JUDGED})


def warn_of_result(
    results: Sequence[ReplayResult], best: ReplayReport, fall: NoticedFall | None, names_options: bool
) -> Iterator[Remark]:
    """Yield the most urgent first. Of several models only the best counts: a worse one need not be used."""
    reports = [result.report for result in results if result.report is not None]
    lead, unbeaten = find_strongest(best.leads), find_unbeaten(reports, best)
    if unbeaten is not None:
        yield (describe_unbeaten(len(reports), best, unbeaten),)
    else:
        yield from warn_of_leads([best], names_options)
        if lead is not None and lead.low > 0 and not lead.is_far:
            yield (describe_lead(best.name, lead),)
    if fall is not None:
        yield describe_fall(best.name, fall)
    bad, lines = reports[0].bad, reports[0].events + reports[0].bad
    if bad > MAX_BAD * lines:
        yield (warning("warn.unusable", count=bad, share=percent(bad / lines)),)


def find_unbeaten(reports: Sequence[ReplayReport], best: ReplayReport) -> Lead | None:
    """Return the guesser, blind to the inputs, that none of several models is surely ahead of; None if one is.

    None also where too few answers were judged: then nothing is surely ahead.
    """
    if int(best.figures["judged"] or 0) < MIN_JUDGED:
        return None
    if len(reports) < 2 or not all(any(lead.high >= 0 for lead in list_blind(report)) for report in reports):
        return None
    return find_closest(list_blind(best))


def list_blind(report: ReplayReport) -> list[Lead]:
    """Return the baselines that do not look at the inputs, of those that answered more than a few times."""
    return [lead for lead in report.leads if lead.baseline in BLIND_GUESSERS and lead.pairs >= 2]


def describe_unbeaten(count: int, best: ReplayReport, lead: Lead) -> Reason:
    """Return the warning that no model beats a baseline."""
    guesser = advice(f"than_guesser.{name_baseline(lead)}")
    if lead.numbers:
        return warning("warn.none_nearer", count=count, guesser=guesser, error=lead.other)
    labels = best.details.labels
    if lead.baseline in MOST_FREQUENT and labels:
        most = max(labels, key=lambda label: labels[label]["count"])
        guesser = advice("than_guesser.majority_named", label=most)
    return warning("warn.none_better", count=count, guesser=guesser, share=percent(lead.other))


def describe_fall(name: str, noticed: NoticedFall) -> Remark:
    """Return the remark on a fall of accuracy, and whether it has recovered."""
    past, fall = noticed.past, noticed.past.fall
    shares = {"before": percent(fall.before.mean), "after": percent(fall.after.mean)}
    now = percent(past.now.mean)
    if past.has_recovered and past.until is not None:
        came_back = warning("warn.came_back", name=name, now=now, **shares, first=fall.begin, last=past.until)
        few = [warning("warn.few_since", count=past.now.count)] if past.has_hardly_recovered else []
        return (came_back, *few)
    if abs(past.now.mean - fall.after.mean) > 0.01:
        return (warning("warn.fell_now", name=name, now=now, **shares, event=fall.begin),)
    return (warning("warn.fell", name=name, **shares, event=fall.begin),)


# what to do next


def advise(
    results: Sequence[ReplayResult], best: ReplayReport, fall: NoticedFall | None, names_options: bool
) -> list[Remark]:
    """Return the most urgent first, at most three remarks; none where there is nothing to advise."""
    has_fallen = fall is not None  # then what it confused over the whole log says little
    reports = [result.report for result in results if result.report is not None]
    is_unbeaten = find_unbeaten(reports, best) is not None
    details = [] if has_fallen else [*advise_on_details(find_advised(results, best))]
    choice = [] if is_unbeaten else [*advise_on_choice(results, best)]  # none is worth its keep
    remarks: list[Remark] = [
        *((reason,) for reason in (*advise_on_unused(best, names_options), *advise_to_collect(best))),
        *((reason,) for reason in advise_on_guesser(best, is_unbeaten, names_options)),
        *advise_on_outside(best, names_options),
        *advise_on_fall(best, fall),
        *((reason,) for reason in (*choice, *details)),
    ]
    return remarks[:3]


def find_advised(results: Sequence[ReplayResult], best: ReplayReport) -> ReplayReport:
    """Return the model that the advice is to use: the champion, unless the best is surely better."""
    champion, found = results[0].report, find_rival(results, best)
    if champion is None or found is None:
        return best
    _, comparison, gain = found
    return best if comparison["stands_among_all"] and gain > 0 else champion


def advise_to_collect(best: ReplayReport) -> Iterator[Reason]:
    """Yield the advice to collect more feedback."""
    judged = int(best.figures["judged"] or 0)
    if judged < MIN_JUDGED:
        yield advice("next.collect", count=MIN_JUDGED - judged)


def advise_on_guesser(best: ReplayReport, is_unbeaten: bool, names_options: bool) -> Iterator[Reason]:
    """Yield the advice for a model that does not beat a baseline."""
    if best.remedies and names_options:
        yield from list_remedies(best.remedies)
    elif best.remedies or is_unbeaten:
        yield advice("next.other_model")


def advise_on_fall(best: ReplayReport, noticed: NoticedFall | None) -> Iterator[Remark]:
    """Yield the advice for a model whose answers became worse."""
    if noticed is None:
        return
    past, begin = noticed.past, noticed.past.fall.begin
    number = count_served(best, begin)
    served = "" if number in (None, begin) else advice("next.served_answer", answer=number)
    if past.has_recovered and past.until is not None:
        look = advice("next.look_back", first=begin, last=past.until)
    else:
        look = advice("next.look", event=begin, served=served)
    alarms = advice("next.alarms" if noticed.is_noticed else "next.other_alarms")
    yield (look, alarms) if best.drift else (look,)


def advise_on_choice(results: Sequence[ReplayResult], best: ReplayReport) -> Iterator[Reason]:
    """Yield the advice to use a rival, if one is better than the champion."""
    found = find_rival(results, best)
    if found is None:
        return
    champion, (rival, comparison, gain) = results[0].report, found
    if champion is not best and comparison["stands_among_all"] and gain > 0:
        yield advice("next.use", name=best.name, other=rival.name)
    elif comparison["stands_among_all"]:
        yield advice("next.keep", name=best.name)
    elif (needed := count_needed(comparison, gain)) is not None:
        yield advice("next.keep_until", name=results[0].candidate.name, examples=needed)
    else:
        yield advice("next.keep_for_now", name=results[0].candidate.name)


def count_needed(comparison: JSONObject, gain: float) -> int | None:
    """Return about how many examples it would take to tell the two apart, if the difference stays as it is.

    None for a difference that is too small to be worth it.
    """
    half = (comparison["high"] - comparison["low"]) / 2
    if abs(gain) < 0.001 or not comparison["pairs"]:
        return None
    needed = comparison["pairs"] * (half / abs(gain)) ** 2
    return int(float(f"{needed:.1g}")) if needed < 1e7 else None


def advise_on_details(best: ReplayReport) -> Iterator[Reason]:
    """Yield advice from the details: classes that are confused, thresholds, calibration."""
    figures, confusion = best.figures, best.details.confusion
    majority = figures.get("majority_accuracy")
    if is_by_construction(best):
        return  # what these figures would advise on is right by construction
    if majority is not None and majority > MOSTLY_ONE_CLASS:
        yield advice("next.one_class", share=percent(majority), balanced=percent(figures["balanced_accuracy"]))
    if confusion is not None and confusion.pairs and is_frequent(confusion.pairs[0]):
        pair = confusion.pairs[0]
        is_of_two = confusion.class_count <= 2  # one name for both would leave nothing to predict
        code = "next.no_answer" if pair.answered is None else "next.mistake_of_two" if is_of_two else "next.mistake"
        yield advice(code, mistake=describe_pair(pair))
    if (figures.get("ece") or 0.0) > OVERCONFIDENT:
        yield advice("next.overconfident")


def is_frequent(pair: ConfusedPair) -> bool:
    """Return whether a confusion is frequent enough to be named."""
    return pair.count >= 5 and pair.count >= FREQUENT_CONFUSION * pair.of


def describe_pair(pair: ConfusedPair) -> Reason:
    """Return that a class was answered as another so often, which is a share of it."""
    share = 100 * pair.count / pair.of
    if pair.answered is None:
        return advice("unanswered", count=pair.count, right=pair.right, share=share)
    return advice("confused", count=pair.count, right=pair.right, answered=pair.answered, share=share)

"""What the results of a replay mean, in sentences: the verdict, what to be careful about, and what to do next.

Each claim is computed from the figures. A difference is called real only where a confidence interval excludes that chance
explains it; with several challengers each interval is widened, so that looking at many does not make one stand out.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from online.evaluation.intervals import wilson_interval
from online.evaluation.replay.replay_report import ReplayReport, ReplayResult
from online.evaluation.reports.remarks import describe_lead, describe_remedies, warn
from online.evaluation.scoring.accuracy_falls import Fall, find_fall
from online.evaluation.scoring.baseline_lead import Lead
from online.evaluation.scoring.confusion import ConfusedPair
from online.evaluation.scoring.score import LEARNED_BASELINE

MIN_JUDGED = 100  # answers; with fewer, an interval may be wider than 20 points
MAX_BAD = 0.01  # share of unusable lines
MOSTLY_ONE_CLASS = 0.9  # share of the most frequent class from which accuracy says little
OVERCONFIDENT = 0.1  # expected calibration error
FREQUENT_CONFUSION = 0.1  # share of a class that goes to one wrong answer

GUESSERS = {
    "majority": "always answering the most frequent class",
    "no_change": "repeating the last class",
    "mean": "always answering the mean so far",
    LEARNED_BASELINE: f"a simple {LEARNED_BASELINE} model",
}

Level = Literal["good", "attention", "unclear"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """level: attention where something is off, unclear where there is too little to tell. next: what to do now.

    failures: of models that could not be replayed. headline: what to read first, the most urgent warning or the sentence.
    """

    level: Level
    sentence: str
    warnings: list[str]
    next: str
    failures: list[str]

    @property
    def headline(self) -> str:
        return self.warnings[0] if self.warnings else self.sentence

    @property
    def rest(self) -> list[str]:
        """What follows the headline."""
        return [each for each in (*self.warnings, self.sentence, *self.failures) if each != self.headline]


def conclude(results: Sequence[ReplayResult], interrupted: bool = False) -> Verdict:
    reports = [result.report for result in results if result.report is not None]
    failures = [
        f"{result.candidate.name} could not be replayed: {result.failure}." for result in results if result.failure
    ]
    judged = [report for report in reports if report.figures.get("judged")]
    if not judged:
        reason = "No answer could be judged: the log holds no feedback that says what is right."
        nothing = reason if reports else "No model could be replayed."
        return Verdict("unclear", nothing, [], "Check that the log holds labels, corrections or ratings.", failures)
    best = find_best(judged)
    fall = find_fall(best.details.curve) if not is_of_numbers(best) else None
    off = [*warn_of_result(results, best, fall)]
    few = [*warn_of_few(best, interrupted)]
    level: Level = "attention" if failures or off else "unclear" if few else "good"
    sentence, next = describe_result(results, judged, best), advise(results, best, fall)
    return Verdict(level, sentence, [*off, *few], next, failures)


def is_of_numbers(report: ReplayReport) -> bool:
    return "mae" in report.figures


def find_best(reports: Sequence[ReplayReport]) -> ReplayReport:
    if is_of_numbers(reports[0]):
        return min(reports, key=lambda report: report.figures["mae"] or 0.0)
    return max(reports, key=lambda report: report.figures["accuracy"] or 0.0)


# the sentence


def describe_result(results: Sequence[ReplayResult], judged: Sequence[ReplayReport], best: ReplayReport) -> str:
    name = f"{best.name}, the best of {len(judged)} models," if len(judged) > 2 else best.name
    figure, rivals, guessers = describe_figure(best), compare_with_rival(results, best), compare_with_guesser(best)
    if is_of_numbers(best):
        return f"{'; '.join([f'{name} {figure}', *rivals, *guessers])}."
    return f"{'; '.join([', '.join([f'{name} {figure}', *rivals]), *guessers])}."


def describe_figure(report: ReplayReport) -> str:
    figures = report.figures
    count = f"{int(figures['judged'] or 0):,} answer{'s' if figures['judged'] != 1 else ''}"
    if is_of_numbers(report):
        return f"is off by {figures['mae']:.4g} on average in {count}"
    low, high = find_interval(report)
    return f"is right in {percent(figures['accuracy'])} of {count} (95 % interval {100 * low:.1f} to {percent(high)})"


def find_interval(report: ReplayReport) -> tuple[float, float]:
    """Return the 95 % interval of the accuracy."""
    return wilson_interval(report.figures["right"] or 0, int(report.figures["judged"] or 0))


def percent(share: float | None) -> str:
    return f"{100 * (share or 0.0):.1f} %"


def compare_with_rival(results: Sequence[ReplayResult], best: ReplayReport) -> Iterator[str]:
    """Yield how the best model compares with the champion, or the champion with the best of the others."""
    found = find_rival(results, best)
    if found is None:
        return
    rival, comparison, gain = found
    surely = comparison["stands_among_all"]
    if is_of_numbers(best):
        yield describe_error(rival.name, rival.figures["mae"], surely and gain > 0, surely and gain < 0)
        return
    explained = f"a difference that chance {'does not' if surely else 'could'} explain"
    other = f"{rival.name} ({percent(rival.figures['accuracy'])})"
    better = round(100 * gain, 1) > 0
    yield f"{100 * gain:.1f} points better than {other}, {explained}" if better else f"as good as {other}"


def describe_error(name: str, error: float | None, is_farther: bool, is_nearer: bool) -> str:
    """is_farther, is_nearer: whether it is surely so on more examples than not."""
    if is_farther:
        return f"{name} is off by {error:.4g} and is farther from the truth more often than chance explains"
    if is_nearer:
        return f"{name} is off by {error:.4g} but is nearer to the truth more often than chance explains"
    return f"{name} is off by {error:.4g}, a difference that chance could explain"


def find_rival(
    results: Sequence[ReplayResult], best: ReplayReport
) -> tuple[ReplayReport, dict[str, Any], float] | None:
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


def compare_with_guesser(report: ReplayReport) -> Iterator[str]:
    """Yield how the model compares with the strongest baseline."""
    lead = find_strongest(report.leads)
    if lead is None:
        return
    guesser = describe_guesser(lead)
    if lead.numbers:
        yield describe_error(guesser, lead.other, lead.high < 0, lead.low > 0)
        return
    size = f"{abs(100 * (lead.model - lead.other)):.1f} points"
    if lead.high < 0:
        yield f"it is {size} ahead of {guesser}"
    elif lead.low > 0:
        yield f"it is {size} behind {guesser}"
    else:
        yield f"it cannot be told from {guesser} ({percent(lead.other)})"


def find_strongest(leads: Sequence[Lead]) -> Lead | None:
    """Return the baseline with the best figure, of those that answered more than a few times."""
    known = [lead for lead in leads if lead.baseline in GUESSERS and lead.pairs >= 2]
    if not known:
        return None
    return min(known, key=lambda lead: lead.other - lead.model if lead.numbers else lead.model - lead.other)


def describe_guesser(lead: Lead) -> str:
    return "repeating the last number" if lead.numbers and lead.baseline == "no_change" else GUESSERS[lead.baseline]


# what to be careful about


def warn_of_few(report: ReplayReport, interrupted: bool) -> Iterator[str]:
    judged = int(report.figures["judged"] or 0)
    if interrupted:
        yield "The replay was interrupted: these are the results so far."
    if judged < MIN_JUDGED:
        yield f"Only {judged:,} answers could be judged, which is too few to rely on: use at least {MIN_JUDGED}."


def warn_of_result(results: Sequence[ReplayResult], best: ReplayReport, fall: Fall | None) -> Iterator[str]:
    reports = [result.report for result in results if result.report is not None]
    yield from warn(reports)
    lead = find_strongest(best.leads)
    if lead is not None and lead.low > 0 and not lead.is_far:
        yield describe_lead(best.name, lead)
    if fall is not None and not fall.has_recovered:
        yield describe_fall(best.name, fall)
    bad, lines = reports[0].bad, reports[0].events + reports[0].bad
    if bad > MAX_BAD * lines:
        yield f"{bad:,} lines could not be used, {percent(bad / lines)} of the log: what they held is not in these figures."


def describe_fall(name: str, fall: Fall) -> str:
    now = f" and is {percent(fall.now)} now" if abs(fall.now - fall.after) > 0.01 else ""
    return f"The accuracy of {name} fell from {percent(fall.before)} to {percent(fall.after)} after event {fall.offset:,}{now}."


# what to do next


def advise(results: Sequence[ReplayResult], best: ReplayReport, fall: Fall | None) -> str:
    """Return a short paragraph: the most urgent first, at most three sentences."""
    has_fallen = fall is not None and not fall.has_recovered  # then what it confused before says little
    details = [] if has_fallen else [*advise_on_details(best)]
    sentences = [*advise_on_trouble(best, fall), *advise_on_choice(results, best), *details]
    return (
        " ".join(sentences[:3]) or "Nothing needs to be done: go on collecting feedback, and look at the report again."
    )


def advise_on_trouble(best: ReplayReport, fall: Fall | None) -> Iterator[str]:
    judged = int(best.figures["judged"] or 0)
    if judged < MIN_JUDGED:
        yield f"Collect about {MIN_JUDGED - judged:,} more judged answers before you decide anything."
    if best.remedies:
        yield from describe_remedies(best.remedies)
    if fall is not None and not fall.has_recovered:
        alarms = " The drift alarms below say what changed." if best.drift else ""
        yield f"Look at what changed around event {fall.offset:,}: new questions, another labelling, or wrong feedback.{alarms}"


def advise_on_choice(results: Sequence[ReplayResult], best: ReplayReport) -> Iterator[str]:
    found = find_rival(results, best)
    if found is None:
        return
    champion, (rival, comparison, gain) = results[0].report, found
    if champion is not best and comparison["stands_among_all"] and gain > 0:
        yield f"Use {best.name} instead of {rival.name}."
    elif not comparison["stands_among_all"]:
        yield f"Keep {results[0].candidate.name}: no other model is better beyond chance{describe_needed(comparison, gain)}."
    else:
        yield f"Keep {best.name}."


def describe_needed(comparison: dict[str, Any], gain: float) -> str:
    """Say how many examples it would take to tell the two apart, if the difference stays as it is."""
    half = (comparison["high"] - comparison["low"]) / 2
    if abs(gain) < 0.001 or not comparison["pairs"]:
        return ""
    needed = comparison["pairs"] * (half / abs(gain)) ** 2
    rounded = int(float(f"{needed:.1g}"))
    return f" yet; a difference of this size takes about {rounded:,} examples to prove" if needed < 1e7 else ""


def advise_on_details(best: ReplayReport) -> Iterator[str]:
    figures, confusion = best.figures, best.details.confusion
    majority = figures.get("majority_accuracy")
    if majority is not None and majority > MOSTLY_ONE_CLASS:
        yield (
            f"{percent(majority)} of the answers are one class, so accuracy says little: look at the recall of each class "
            f"(balanced accuracy {percent(figures['balanced_accuracy'])})."
        )
    if confusion is not None and confusion.pairs and is_frequent(confusion.pairs[0]):
        helps = "More examples of both help, or one name for both."
        helps = helps if confusion.pairs[0].answered is not None else "More examples of it help."
        yield f"The most frequent mistake: {describe_pair(confusion.pairs[0])}. {helps}"
    if (figures.get("ece") or 0.0) > OVERCONFIDENT:
        yield "Do not rely on its probabilities: they are far from how often it is right (see Calibration)."


def is_frequent(pair: ConfusedPair) -> bool:
    return pair.count >= 5 and pair.count >= FREQUENT_CONFUSION * pair.of


def describe_pair(pair: ConfusedPair) -> str:
    """'refund' was answered as 'cancel' 42 times, 18 % of it."""
    times = f"{pair.count:,} time{'s' if pair.count != 1 else ''}, {100 * pair.count / pair.of:.0f} % of it"
    if pair.answered is None:
        return f"“{pair.right}” got no answer {times}"
    return f"“{pair.right}” was answered as “{pair.answered}” {times}"

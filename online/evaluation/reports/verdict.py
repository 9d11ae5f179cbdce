"""What the results of a replay mean, in sentences: the verdict, what to be careful about, and what to do next.

Each claim is computed from the figures. A difference is called real only where a confidence interval excludes that chance
explains it; with several challengers each interval is widened, so that looking at many does not make one stand out.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from online.evaluation.replay.replay_report import ReplayReport, ReplayResult
from online.evaluation.reports.bases import count_judged, count_known, is_by_construction, is_partial
from online.evaluation.reports.noticed_fall import count_served, find_noticed_fall
from online.evaluation.reports.remarks import (
    MIN_JUDGED,
    advise_on_outside,
    advise_on_unused,
    describe_lead,
    describe_remedies,
    name_baseline,
    warn,
    warn_of_errors,
    warn_of_log,
    warn_of_unused,
)
from online.evaluation.reports.words.language import IN_ENGLISH, Words
from online.scoring.baseline_lead import Lead
from online.scoring.confusion import ConfusedPair
from online.scoring.drift_changes import NoticedFall
from online.scoring.intervals import wilson_interval
from online.scoring.score import LEARNED_BASELINE

MAX_BAD = 0.01  # share of unusable lines
MOSTLY_ONE_CLASS = 0.9  # share of the most frequent class from which accuracy says little
OVERCONFIDENT = 0.1  # expected calibration error
FREQUENT_CONFUSION = 0.1  # share of a class that goes to one wrong answer

MOST_FREQUENT = ("majority",)  # the baseline that always answers the most frequent class, which can be named
BLIND_GUESSERS = (*MOST_FREQUENT, "no_change", "mean")  # they do not look at the inputs
GUESSERS = (*BLIND_GUESSERS, LEARNED_BASELINE)

Level = Literal["good", "attention", "unclear"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a replay shows.

    level: attention where something is off, unclear where there is too little to tell. next: what to do now.
    failures: of models that could not be replayed. headline: what to read first, the most urgent warning or
    the sentence.
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


def conclude(
    results: Sequence[ReplayResult], interrupted: bool = False, words: Words = IN_ENGLISH, names_options: bool = True
) -> Verdict:
    """Conclude from a replay. names_options: whether the advice may name options of the command line."""
    reports = [result.report for result in results if result.report is not None]
    failures = [
        words("failed", name=result.candidate.name, failure=result.failure) for result in results if result.failure
    ]
    of_log = [*warn_of_log(reports, words)]
    judged = [report for report in reports if report.figures.get("judged")]
    if not judged:
        nothing = words("nothing_judged" if reports else "nothing_replayed")
        return Verdict("attention" if of_log else "unclear", nothing, of_log, words("nothing.next"), failures)
    best = find_best(judged)
    fall = find_noticed_fall(best)
    unused = [*warn_of_errors(reports, words), *warn_of_unused(best, words)]
    off = [*unused, *of_log, *warn_of_result(results, best, fall, words, names_options)]
    few = [*warn_of_few(best, interrupted, words)]
    level: Level = "attention" if failures or off else "unclear" if few else "good"
    sentence, next = describe_result(results, judged, best, words), advise(results, best, fall, words, names_options)
    next = next or words("next.mend" if off else "next.nothing")
    return Verdict(level, sentence, [*off, *few], next, failures)


def is_of_numbers(report: ReplayReport) -> bool:
    return "mae" in report.figures


def find_best(reports: Sequence[ReplayReport]) -> ReplayReport:
    if is_of_numbers(reports[0]):
        return min(reports, key=lambda report: report.figures["mae"] or 0.0)
    return max(reports, key=lambda report: report.figures["accuracy"] or 0.0)


# the sentence


def describe_result(
    results: Sequence[ReplayResult], judged: Sequence[ReplayReport], best: ReplayReport, words: Words
) -> str:
    figure = describe_figure(best, len(judged), words)
    rivals, guessers = compare_with_rival(results, best, words), compare_with_guesser(best, words)
    if is_of_numbers(best):
        return f"{'; '.join([figure, *rivals, *guessers])}."
    return f"{'; '.join([', '.join([figure, *rivals]), *guessers])}."


def describe_figure(report: ReplayReport, among: int, words: Words) -> str:
    """among: the number of models of which it is the best."""
    figures = report.figures
    name = words("best_of", name=report.name, count=among) if among > 2 else report.name
    answers = words.plural("answers", int(figures["judged"] or 0))
    if is_of_numbers(report):
        return words("is_off", name=name, error=figures["mae"], answers=answers)
    low, high = find_interval(report)
    share = percent(figures["accuracy"])
    return words("is_right", name=name, share=share, answers=answers, low=100 * low, high=100 * high)


def find_interval(report: ReplayReport) -> tuple[float, float]:
    """Return the 95 % interval of the accuracy."""
    return wilson_interval(report.figures["right"] or 0, int(report.figures["judged"] or 0))


def percent(share: float | None) -> float:
    return 100 * (share or 0.0)


def compare_with_rival(results: Sequence[ReplayResult], best: ReplayReport, words: Words) -> Iterator[str]:
    """Yield how the best model compares with the champion, or the champion with the best of the others."""
    found = find_rival(results, best)
    if found is None:
        return
    rival, comparison, gain = found
    surely = comparison["stands_among_all"]
    if is_of_numbers(best):
        yield describe_error(rival.name, rival.figures["mae"], surely and gain > 0, surely and gain < 0, words)
        return
    other = {"name": rival.name, "share": percent(rival.figures["accuracy"])}
    if round(100 * gain, 1) > 0:
        yield words("better" if surely else "perhaps_better", points=100 * gain, **other)
    else:
        yield words("as_good", **other)


def describe_error(name: str, error: float | None, is_farther: bool, is_nearer: bool, words: Words) -> str:
    """is_farther, is_nearer: whether it is surely so on more examples than not."""
    return words("farther" if is_farther else "nearer" if is_nearer else "as_near", name=name, error=error)


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


def compare_with_guesser(report: ReplayReport, words: Words) -> Iterator[str]:
    """Yield how the model compares with the strongest baseline, or why it cannot be compared."""
    lead = find_strongest(report.leads)
    if lead is None:
        return
    if is_by_construction(report):
        yield words("not_comparable")
        return
    if lead.numbers:
        yield describe_error(describe_guesser(lead, words), lead.other, lead.high < 0, lead.low > 0, words)
        return
    guesser, points = words(f"than_guesser.{name_baseline(lead)}"), abs(100 * (lead.model - lead.other))
    which = "ahead" if lead.high < 0 else "behind" if lead.low > 0 else "cannot_be_told"
    shares = {"share": percent(lead.model), "other": percent(lead.other)}
    before, after = describe_compared(report, lead, words)
    yield f"{before}{words(which, points=points, guesser=guesser, basis=after, **shares)}"


def describe_compared(report: ReplayReport, lead: Lead, words: Words) -> tuple[str, str]:
    """Return what stands before a comparison with a baseline, and after its two figures.

    Both are "" where it is on all of the answers.
    """
    if not is_partial(report, lead):
        return "", ""
    if count_known(report) < count_judged(report):
        return words("compared_on.known", count=lead.pairs), ""
    return "", words("compared_on.same", count=lead.pairs)


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


def describe_guesser(lead: Lead, words: Words) -> str:
    return words(f"guesser.{name_baseline(lead)}")


# what to be careful about


def warn_of_few(report: ReplayReport, interrupted: bool, words: Words) -> Iterator[str]:
    judged = int(report.figures["judged"] or 0)
    if interrupted:
        yield words("warn.interrupted")
    if judged < MIN_JUDGED:
        yield words("warn.few", count=judged, enough=MIN_JUDGED)


def warn_of_result(
    results: Sequence[ReplayResult], best: ReplayReport, fall: NoticedFall | None, words: Words, names_options: bool
) -> Iterator[str]:
    """Yield the most urgent first. Of several models only the best counts: a worse one need not be used."""
    reports = [result.report for result in results if result.report is not None]
    lead, unbeaten = find_strongest(best.leads), find_unbeaten(reports, best)
    if unbeaten is not None:
        yield describe_unbeaten(len(reports), best, unbeaten, words)
    else:
        yield from warn([best], words, names_options)
        if lead is not None and lead.low > 0 and not lead.is_far:
            yield describe_lead(best.name, lead, words)
    if fall is not None:
        yield describe_fall(best.name, fall, words)
    bad, lines = reports[0].bad, reports[0].events + reports[0].bad
    if bad > MAX_BAD * lines:
        yield words("warn.unusable", count=bad, share=percent(bad / lines))


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


def describe_unbeaten(count: int, best: ReplayReport, lead: Lead, words: Words) -> str:
    if lead.numbers:
        guesser = words(f"than_guesser.{name_baseline(lead)}")
        return words("warn.none_nearer", count=count, guesser=guesser, error=lead.other)
    labels = best.details.labels
    if lead.baseline in MOST_FREQUENT and labels:
        guesser = words("than_guesser.majority_named", label=max(labels, key=lambda label: labels[label]["count"]))
    else:
        guesser = words(f"than_guesser.{name_baseline(lead)}")
    return words("warn.none_better", count=count, guesser=guesser, share=percent(lead.other))


def describe_fall(name: str, noticed: NoticedFall, words: Words) -> str:
    past, fall = noticed.past, noticed.past.fall
    values = {"before": percent(fall.before.mean), "after": percent(fall.after.mean), "event": fall.begin}
    if past.has_recovered and past.until is not None:
        span = {"first": values.pop("event"), "last": past.until}
        came_back = words("warn.came_back", name=name, now=percent(past.now.mean), **values, **span)
        few = [words("warn.few_since", count=past.now.count)] if past.has_hardly_recovered else []
        return " ".join([came_back, *few])
    if abs(past.now.mean - fall.after.mean) > 0.01:
        return words("warn.fell_now", name=name, now=percent(past.now.mean), **values)
    return words("warn.fell", name=name, **values)


# what to do next


def advise(
    results: Sequence[ReplayResult], best: ReplayReport, fall: NoticedFall | None, words: Words, names_options: bool
) -> str:
    """Return a short paragraph: the most urgent first, at most three sentences. "" where there is nothing to advise."""
    has_fallen = fall is not None  # then what it confused over the whole log says little
    details = [] if has_fallen else [*advise_on_details(find_advised(results, best), words)]
    reports = [result.report for result in results if result.report is not None]
    is_unbeaten = find_unbeaten(reports, best) is not None
    choice = [] if is_unbeaten else [*advise_on_choice(results, best, words)]  # none is worth its keep
    remedies = [
        *advise_on_guesser(best, is_unbeaten, words, names_options),
        *advise_on_outside(best, words, names_options),
    ]
    unused = advise_on_unused(best, words, names_options)
    sentences = [
        *unused,
        *advise_to_collect(best, words),
        *remedies,
        *advise_on_fall(best, fall, words),
        *choice,
        *details,
    ]
    return " ".join(sentences[:3])


def find_advised(results: Sequence[ReplayResult], best: ReplayReport) -> ReplayReport:
    """Return the model that the advice is to use: the champion, unless the best is surely better."""
    champion, found = results[0].report, find_rival(results, best)
    if champion is None or found is None:
        return best
    _, comparison, gain = found
    return best if comparison["stands_among_all"] and gain > 0 else champion


def advise_to_collect(best: ReplayReport, words: Words) -> Iterator[str]:
    judged = int(best.figures["judged"] or 0)
    if judged < MIN_JUDGED:
        yield words("next.collect", count=MIN_JUDGED - judged)


def advise_on_guesser(best: ReplayReport, is_unbeaten: bool, words: Words, names_options: bool) -> Iterator[str]:
    if best.remedies and names_options:
        yield from describe_remedies(best.remedies, words)
    elif best.remedies or is_unbeaten:
        yield words("next.other_model")


def advise_on_fall(best: ReplayReport, noticed: NoticedFall | None, words: Words) -> Iterator[str]:
    if noticed is None:
        return
    past, begin = noticed.past, noticed.past.fall.begin
    number = count_served(best, begin)
    served = "" if number in (None, begin) else words("next.served_answer", answer=number)
    is_over = past.has_recovered and past.until is not None
    span = {"first": begin, "last": past.until}
    look = words("next.look_back", **span) if is_over else words("next.look", event=begin, served=served)
    alarms = words("next.alarms" if noticed.is_noticed else "next.other_alarms")
    yield f"{look} {alarms}" if best.drift else look


def advise_on_choice(results: Sequence[ReplayResult], best: ReplayReport, words: Words) -> Iterator[str]:
    found = find_rival(results, best)
    if found is None:
        return
    champion, (rival, comparison, gain) = results[0].report, found
    if champion is not best and comparison["stands_among_all"] and gain > 0:
        yield words("next.use", name=best.name, other=rival.name)
    elif comparison["stands_among_all"]:
        yield words("next.keep", name=best.name)
    elif (needed := count_needed(comparison, gain)) is not None:
        yield words("next.keep_until", name=results[0].candidate.name, examples=needed)
    else:
        yield words("next.keep_for_now", name=results[0].candidate.name)


def count_needed(comparison: dict[str, Any], gain: float) -> int | None:
    """Return about how many examples it would take to tell the two apart, if the difference stays as it is.

    None for a difference that is too small to be worth it.
    """
    half = (comparison["high"] - comparison["low"]) / 2
    if abs(gain) < 0.001 or not comparison["pairs"]:
        return None
    needed = comparison["pairs"] * (half / abs(gain)) ** 2
    return int(float(f"{needed:.1g}")) if needed < 1e7 else None


def advise_on_details(best: ReplayReport, words: Words) -> Iterator[str]:
    figures, confusion = best.figures, best.details.confusion
    majority = figures.get("majority_accuracy")
    if is_by_construction(best):
        return  # what these figures would advise on is right by construction
    if majority is not None and majority > MOSTLY_ONE_CLASS:
        yield words("next.one_class", share=percent(majority), balanced=percent(figures["balanced_accuracy"]))
    if confusion is not None and confusion.pairs and is_frequent(confusion.pairs[0]):
        pair = confusion.pairs[0]
        is_of_two = confusion.class_count <= 2  # one name for both would leave nothing to predict
        key = "next.no_answer" if pair.answered is None else "next.mistake_of_two" if is_of_two else "next.mistake"
        yield words(key, mistake=describe_pair(pair, words))
    if (figures.get("ece") or 0.0) > OVERCONFIDENT:
        yield words("next.overconfident")


def is_frequent(pair: ConfusedPair) -> bool:
    return pair.count >= 5 and pair.count >= FREQUENT_CONFUSION * pair.of


def describe_pair(pair: ConfusedPair, words: Words) -> str:
    """'refund' was answered as 'cancel' 42 times, 18 % of it."""
    share = 100 * pair.count / pair.of
    if pair.answered is None:
        return words.plural("unanswered", pair.count, right=pair.right, share=share)
    return words.plural("confused", pair.count, right=pair.right, answered=pair.answered, share=share)

"""The verdict of a report: what it claims follows from the figures, and what is off comes first."""

import random
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from online.evaluation.conclusion import VerdictText, conclude
from online.evaluation.replay.candidate_specs import CandidateSpec
from online.evaluation.replay.replay_report import ReplayReport, ReplayResult
from online.evaluation.replay_table import describe_comparison
from online.evaluation.words import LanguageWords
from online.models import Answer
from online.plugins.reports.languages import ALL_WORDS, WORDS
from online.plugins.reports.report_page import build_key_figures
from online.schemas.events import Event, EventKind
from online.schemas.fields import Language
from online.scoring.class_score import ClassScore
from online.scoring.number_score import NumberScore
from online.scoring.paired_comparison import PairedComparison
from online.scoring.score import LEARNED_BASELINE, JudgedOutcomes, Loss, PendingOutcome, Score

Answers = Sequence[tuple[str, str | None]]  # the right answer, and the one given


def score_answers(score: Score, answers: Answers, kind: EventKind = "label") -> list[Loss]:
    losses = list[Loss]()
    for offset, (right, answered) in enumerate(answers, 1):
        judged, outcome = JudgedOutcomes(), PendingOutcome(Answer(answered, ()), 1, score.guesses())
        judged.append(Event("", kind, label=right), outcome, offset)
        losses.append((offset, score.add_all(judged)[0]))
        score.observe(right)
    return losses


def compare(models: dict[str, Answers], language: Language = "en", **more: Any) -> VerdictText:
    """Conclude from the answers of some models, of which the first is the champion. more: fields of every report.

    rated_wrong: how many more answers had a thumb down alone, which does not say what is right.
    """
    numbers, rated_wrong = more.pop("numbers", False), more.pop("rated_wrong", 0)
    names_options, kind = more.pop("names_options", True), more.pop("kind", "label")
    results, losses = list[ReplayResult](), list[list[Loss]]()
    for name, answers in models.items():
        score: Score = NumberScore() if numbers else ClassScore()
        losses.append(score_answers(score, answers, kind))
        fields = {"bad": 0, "remedies": [], **more}
        figures = score.figures()
        figures["judged"] = (figures["judged"] or 0) + rated_wrong
        report = ReplayReport(
            name, "knn", len(answers), len(answers), len(answers), None, figures, 1.0, "", [],
            details=score.details(), leads=score.leads(), **fields,
        )  # fmt: skip
        comparison = None
        if results:
            pair = PairedComparison(numbers)
            pair.add(losses[0], losses[-1])
            comparison = pair.as_dict(len(models) - 1)
        results.append(ReplayResult(CandidateSpec("knn", name=name), report, None, comparison))
    return conclude(results, words=WORDS[language], names_options=names_options)


def answer(count: int, share: float, seed: int = 0) -> list[tuple[str, str | None]]:
    """Answers of three classes, of which this share is right."""
    rng, truths = random.Random(seed), random.Random("truths")
    return [
        (right, right if rng.random() < share else rng.choice([each for each in "abc" if each != right]))
        for right in truths.choices("abc", (5, 3, 2), k=count)
    ]


def test_a_good_model_is_right_so_often_and_ahead_of_the_best_guesser() -> None:
    verdict = compare({"ridge": answer(2_000, 0.93)})
    assert verdict.level == "good" and verdict.warnings == [] and verdict.headline == verdict.sentence
    assert verdict.sentence.startswith("ridge is right in 92.6 %")
    assert "of 2,000 answers (95 % interval 91.4 to 93.7 %)" in verdict.sentence
    assert "points ahead of always answering the most frequent class" in verdict.sentence
    assert verdict.next.startswith("Nothing needs to be done")


@pytest.mark.few(4)
@pytest.mark.parametrize(
    "more",
    [
        {"refused": {"no reason": 300}},
        {"errors": {"answers": 1, "examples": 0, "first": "KeyError: 'x'"}},
        {"bad": 900},
        {"events_without_prediction": 3},
        {"missing_events": 5, "first_missing": 7},
        {"missing_predictions": 5},
    ],
    ids=str,
)
@pytest.mark.parametrize("language", ["en", "de"])
def test_a_replay_that_did_not_use_its_log_is_never_said_to_be_fine(more: dict[str, Any], language: Language) -> None:
    verdict = compare({"ridge": answer(2_000, 0.93)}, language, **more)
    assert verdict.level == "attention" and verdict.warnings
    assert verdict.next != WORDS[language]("next.nothing")


def test_a_model_that_mostly_gives_no_answer_is_not_said_to_be_fine() -> None:
    silent = [(right, right if place % 4 == 0 else None) for place, (right, _) in enumerate(answer(2_000, 0.93))]
    assert "ridge gave no answer 75.0 % of the time." in compare({"ridge": silent}).warnings


def test_a_lead_on_some_of_the_answers_says_which() -> None:
    """A thumb down says that an answer is wrong, and not whether a guesser would have been right."""
    answers = answer(200, 0.99)
    assert (
        "on 200 answers, without most of those with a thumb down, it is"
        in compare({"a": answers}, rated_wrong=800).sentence
    )
    german = compare({"a": answers}, "de", rated_wrong=800).sentence
    assert (
        "auf 200 Antworten, ohne die meisten mit einem Daumen nach unten: " in german
        and " Punkte Vorsprung vor der" in german
    )
    assert "thumb down" not in compare({"a": answers}).sentence


def test_answers_that_are_right_because_of_their_thumb_up_are_no_lead_over_a_baseline() -> None:
    liked = [(right, right) for right, _ in answer(160, 1.0)]
    verdict = compare({"chat": liked}, rated_wrong=20, kind="reward")
    assert "not comparable" in verdict.sentence and "by construction" in verdict.sentence
    assert "points ahead" not in verdict.sentence
    german = compare({"chat": liked}, "de", rated_wrong=20, kind="reward").sentence
    assert "von vornherein richtig" in german and "Vorsprung" not in german
    assert "points ahead" in compare({"chat": liked}, rated_wrong=20).sentence


def test_a_lead_on_some_of_the_answers_has_both_figures_of_those() -> None:
    """The figure of the baseline may be above the accuracy of all answers, although the model is ahead of it."""
    for language in ("en", "de"):
        sentence = compare({"a": answer(200, 0.99)}, language, rated_wrong=800).sentence
        share, other = map(read_number, re.search(r"\(([\d.,]+) (?:against|gegen) ([\d.,]+) %\)", sentence).groups())  # type: ignore[union-attr]
        points = read_number(re.search(r"([\d.,]+) (?:points ahead|Punkte Vorsprung)", sentence).group(1))  # type: ignore[union-attr]
        assert share > 95 and points == pytest.approx(share - other, abs=0.11)


def read_number(text: str) -> float:
    return float(text.replace(",", "."))


def judge(score: ClassScore, right: str, answered: str | None, guesses: Mapping[str, str | None], offset: int) -> None:
    """Let the right answer judge what was answered and guessed."""
    judged = JudgedOutcomes()
    judged.append(Event("", "label", label=right), PendingOutcome(Answer(answered, ()), 1, guesses), offset)
    score.add_all(judged)
    score.observe(right)


def report_on(score: ClassScore) -> ReplayReport:
    return ReplayReport(
        "ridge", "knn", 1_000, 1_000, 1_000, None, score.figures(), 1.0, "", [], 0, score.details(), leads=score.leads()
    )  # fmt: skip


def test_a_logistic_model_that_ran_on_some_of_the_answers_is_not_called_a_matter_of_feedback() -> None:
    score = ClassScore()
    for offset, (right, answered) in enumerate(answer(1_000, 0.9), 1):
        guesses = {**score.guesses(), **({LEARNED_BASELINE: right if offset % 4 else "c"} if offset <= 400 else {})}
        judge(score, right, answered, guesses, offset)
    report = report_on(score)
    sentence = conclude([ReplayResult(CandidateSpec("knn", name="ridge"), report, None, None)]).sentence
    assert " % of the same 400 answers)" in sentence and "is known" not in sentence


@pytest.mark.parametrize("words", ALL_WORDS, ids=lambda words: words.language)
def test_the_strongest_baseline_is_the_one_that_is_best_on_the_sample_that_it_ran_on(words: LanguageWords) -> None:
    """The rest of the log is easy for a guesser, so each on its own answers, the guesser would look stronger."""
    score, rng = ClassScore(), random.Random(0)
    for offset in range(1, 1_001):
        is_sample = offset <= 400
        right = rng.choice("aab") if is_sample else "a"
        answered = right if not is_sample or offset % 20 else "z"
        guesses = {**score.guesses(), **({LEARNED_BASELINE: right if offset % 4 else "z"} if is_sample else {})}
        judge(score, right, answered, guesses, offset)
    report = report_on(score)
    gaps = {lead.baseline: lead.model - lead.other for lead in report.leads}
    assert max(gaps["majority"], gaps["no_change"]) < gaps["logistic"]
    sentence = conclude([ReplayResult(CandidateSpec("knn", name="ridge"), report, None, None)], words=words).sentence
    assert words("than_guesser.logistic") in sentence and words("compared_on.same", count=400) in sentence
    (tile,) = (each for each in build_key_figures([report], words) if each.name == words("key.guesser"))
    assert tile.value == words.number(0.75, ".1%")
    figure = words.number(0.95, ".1%")
    assert tile.basis == words("basis.beside", count=400, judged=1_000, name="ridge", figure=figure)


def test_an_undecided_comparison_was_not_decided() -> None:
    pair = PairedComparison(numbers=False)
    pair.add(*zip(*[((n, 1.0), (n, 0.0)) for n in range(200)], strict=True))
    assert pair.decided_at is not None
    pair.add(*zip(*[((n, 0.0), (n, 1.0)) for n in range(200, 400)], strict=True))
    result = ReplayResult(CandidateSpec("knn", name="knn"), None, None, pair.as_dict())
    sentence = describe_comparison(result, "slda")
    assert "knn is undecided against slda" in sentence and "decided after" not in sentence


def test_a_better_model_is_named_with_a_difference_that_chance_does_not_explain() -> None:
    verdict = compare({"slda": answer(3_000, 0.8, 1), "ridge": answer(3_000, 0.93, 2)})
    assert verdict.sentence.startswith("ridge is right in 9")
    assert "points better than slda (" in verdict.sentence
    assert "a difference that chance does not explain" in verdict.sentence
    assert verdict.next.startswith("Use ridge instead of slda.")


def test_a_difference_that_chance_could_explain_is_called_that() -> None:
    verdict = compare({"slda": answer(400, 0.89, 1), "ridge": answer(400, 0.91, 4)})
    assert "a difference that chance could explain" in verdict.sentence or "as good as" in verdict.sentence
    assert verdict.next.startswith("Keep slda: no other model is better beyond chance")


def test_a_champion_that_is_best_is_compared_with_the_best_of_the_others() -> None:
    verdict = compare({"one": answer(2_000, 0.95, 1), "two": answer(2_000, 0.6, 2), "three": answer(2_000, 0.8, 3)})
    assert verdict.sentence.startswith("one, the best of 3 models, is right in")
    assert "points better than three (" in verdict.sentence and verdict.next.startswith("Keep one.")


def test_many_challengers_need_more_than_one_that_stands_out_by_chance() -> None:
    pair = PairedComparison(numbers=False)
    pair.add(*zip(*[((n, float(n % 4 == 0)), (n, 0.0)) for n in range(140)], strict=True))
    stands = [pair.as_dict(among)["stands_among_all"] for among in (1, 10, 10_000)]
    assert stands == sorted(stands, reverse=True) and not stands[-1]


def test_too_few_answers_are_said_first() -> None:
    verdict = compare({"ridge": answer(42, 0.9)})
    assert verdict.level == "unclear"
    assert verdict.headline == "Only 42 answers could be judged, which is too few to rely on: use at least 100."
    assert verdict.next.startswith("Collect about 58 more judged answers")


def test_a_model_behind_a_guesser_needs_attention_and_gets_a_remedy() -> None:
    verdict = compare({"ridge": answer(2_000, 0.3)}, remedies=['kind = "best_of"'])
    assert verdict.level == "attention" and "points behind a baseline that" in verdict.headline
    assert "points behind" in verdict.sentence and 'What has helped on such data: kind = "best_of".' in verdict.next


def test_a_fall_of_the_accuracy_is_said_first_with_its_event() -> None:
    verdict = compare({"ridge": [*answer(900, 0.94), *answer(100, 0.03)]})
    assert verdict.level == "attention"
    assert (
        verdict.headline.startswith("The accuracy of ridge fell from 9") and "beginning at event 9" in verdict.headline
    )
    assert verdict.rest[-1] == verdict.sentence and verdict.next.startswith("Look at what changed around event 9")


def test_a_collapse_that_is_over_is_not_nothing_to_do() -> None:
    collapsed = [*answer(800, 0.96), *answer(150, 0.01), *answer(30, 1.0)]
    verdict = compare({"ridge": collapsed})
    assert verdict.level == "attention"
    found = re.match(
        r"The accuracy of ridge fell from 9\d\.\d % to (\d\.\d) % between events (\d+) and (\d+) and", verdict.headline
    )
    assert found is not None and float(found.group(1)) < 3
    assert abs(int(found.group(2)) - 801) <= 4 and abs(int(found.group(3)) - 950) <= 4
    assert "came back: 100.0 % since. That rests on only " in verdict.headline
    assert verdict.next.startswith("Look at what happened between events ") and "Nothing" not in verdict.next
    german = compare({"ridge": collapsed}, "de")
    assert "fiel zwischen den Ereignissen " in german.headline and "Das beruht auf nur" in german.headline
    assert german.next.startswith("Sehen Sie nach, was zwischen den Ereignissen ")
    later = compare({"ridge": [*collapsed, *answer(600, 0.96)]})
    assert later.level == "attention" and "came back: 9" in later.headline and "rests on only" not in later.headline


def test_many_lines_that_could_not_be_used_are_said() -> None:
    verdict = compare({"ridge": answer(1_000, 0.9)}, bad=250)
    assert verdict.headline.startswith("250 lines could not be used, 20.0 % of the log")
    assert compare({"ridge": answer(1_000, 0.9)}, bad=5).warnings == []


def test_one_class_that_is_nearly_all_makes_accuracy_say_little() -> None:
    rng = random.Random(0)
    verdict = compare({"ridge": [("a" if rng.random() < 0.96 else "b", "a") for _ in range(1_000)]})
    assert "of the answers are one class, so accuracy says little" in verdict.next


def test_the_most_frequent_mistake_is_named() -> None:
    wrong = [("refund", "cancel")] * 42 + [("refund", "refund")] * 191 + [("cancel", "cancel")] * 200
    random.Random(0).shuffle(wrong)
    verdict = compare({"ridge": wrong})
    assert "“refund” was answered as “cancel” 42 times, 18 % of it" in verdict.next


def test_two_classes_are_never_advised_one_name_for_both() -> None:
    wrong = [("late", "paid")] * 42 + [("late", "late")] * 191 + [("paid", "paid")] * 200
    random.Random(0).shuffle(wrong)
    for language in ("en", "de"):
        advice = compare({"ridge": wrong}, language).next
        assert "42" in advice and "one name" not in advice and "gemeinsamer Name" not in advice
    wider = [*wrong, *[("fees", "fees")] * 100]
    random.Random(0).shuffle(wider)
    assert "one name for both" in compare({"ridge": wider}).next


def test_the_mistake_told_is_that_of_the_model_advised() -> None:
    truths = [*["refund"] * 200, *["cancel"] * 200, *["fees"] * 200]
    kept = [(right, "fees" if place < 42 else right) for place, right in enumerate(truths)]
    best = [(right, "cancel" if place < 41 else right) for place, right in enumerate(truths)]
    order = random.Random(0).sample(range(600), 600)
    advice = compare({"kept": [kept[n] for n in order], "best": [best[n] for n in order]}).next
    assert advice.startswith("Keep kept") and "“refund” was answered as “fees” 42 times" in advice


def test_a_model_of_numbers_is_off_by_so_much() -> None:
    rng = random.Random(0)
    truths = [rng.gauss(10, 2) for _ in range(1_000)]

    def near(spread: float) -> Answers:
        return [(str(truth), str(truth + rng.gauss(0, spread))) for truth in truths]

    verdict = compare({"far": near(1.0), "near": near(0.2)}, numbers=True)
    assert verdict.level == "good" and verdict.sentence.startswith("near is off by 0.1")
    assert "far is off by 0.8" in verdict.sentence and "farther from the truth more often" in verdict.sentence
    assert "always answering the mean so far is off by" in verdict.sentence
    assert verdict.next.startswith("Use near instead of far.")


@pytest.mark.parametrize(
    "create", [list, lambda: [ReplayResult(CandidateSpec("x", name="x"), None, "it is odd", None)]]
)
def test_nothing_replayed_is_said(create: Callable[[], list[ReplayResult]]) -> None:
    verdict = conclude(create())
    assert verdict.level == "unclear" and verdict.sentence == "No model could be replayed."
    assert len(verdict.failures) == len(create())


def test_a_log_without_judgements_is_said() -> None:
    verdict = compare({"ridge": []})
    assert verdict.level == "unclear" and "the log holds no feedback that says what is right" in verdict.sentence


def test_the_verdict_in_german_claims_the_same() -> None:
    verdict = compare({"slda": answer(3_000, 0.8, 1), "ridge": answer(3_000, 0.93, 2)}, "de")
    assert verdict.level == "good" and verdict.next.startswith("Verwenden Sie ridge statt slda.")
    assert (
        verdict.sentence.startswith("ridge liegt bei 9") and " von 3.000 Antworten richtig (95-%-" in verdict.sentence
    )
    assert " Punkte besser als slda (" in verdict.sentence and "den der Zufall nicht erklärt; " in verdict.sentence
    assert "Punkte Vorsprung vor der einfachen Regel „immer die häufigste Klasse“ (" in verdict.sentence


@pytest.mark.parametrize("numbers", [False, True])
def test_every_warning_and_advice_exists_in_german(numbers: bool) -> None:
    rng = random.Random(0)
    if numbers:
        verdict = compare({"ridge": [(str(n % 7), str(rng.gauss(90, 9))) for n in range(500)]}, "de", numbers=True)
        assert "liegt weit hinter" in verdict.headline and "zum Vergleich die einfache Regel" in verdict.sentence
    else:
        worse = [*answer(900, 0.94), *answer(100, 0.03)]
        verdict = compare({"ridge": worse}, "de", bad=250, remedies=["a", "b"])
        assert verdict.warnings[0].startswith("Die Trefferquote von ridge fiel von 9")
        assert "250 Zeilen waren unbrauchbar, 20,0 % des Logs" in verdict.warnings[1]
        assert verdict.next.startswith("Was bei solchen Daten geholfen hat: a oder b. Sehen Sie nach")


def guess_badly(count: int, seed: int) -> Answers:
    """A model that learns nothing: half of the right answers are `hours`."""
    rng, truths = random.Random(seed), random.Random("truths")
    rights = truths.choices(["hours", "parking", "fees"], (5, 3, 2), k=count)
    return [(right, rng.choice(["hours", "parking", "fees"])) for right in rights]


def test_where_no_model_beats_a_guesser_that_is_the_headline() -> None:
    models = {f"m{seed}": guess_badly(1_000, seed) for seed in range(3)}
    verdict = compare(models, remedies=['kind = "best_of" (--model best_of)'])
    assert verdict.level == "attention"
    assert verdict.headline.startswith("None of the 3 models is better beyond chance than always answering “hours” (")
    assert sum("baseline" in line for line in verdict.warnings) == 0 and "Keep " not in verdict.next
    german = compare(models, "de")
    assert german.headline.startswith("Gegenüber der einfachen Regel „immer: hours“ (")
    assert german.next.startswith("Versuchen Sie es mit einer anderen Art von Modell")


def test_few_answers_do_not_show_that_no_model_beats_a_guesser() -> None:
    verdict = compare({f"m{seed}": guess_badly(90, seed) for seed in range(2)})
    assert not any("None of the" in line for line in verdict.warnings)
    assert any(line.startswith("Only 90 answers could be judged") for line in verdict.warnings)


def test_a_model_that_lost_is_not_the_headline() -> None:
    verdict = compare({"bad": guess_badly(1_000, 1), "good": [(right, right) for right, _ in guess_badly(1_000, 1)]})
    assert verdict.level == "good" and verdict.headline == verdict.sentence
    assert verdict.headline.startswith("good is right in") and verdict.next.startswith("Use good instead of bad.")


def test_a_page_names_no_option_of_the_command_line() -> None:
    report = compare({"ridge": answer(2_000, 0.3)}, remedies=["--model best_of"])
    page = compare({"ridge": answer(2_000, 0.3)}, remedies=["--model best_of"], names_options=False)
    assert "--model" in report.headline and "--model" in report.next
    assert "--" not in " ".join([*page.warnings, page.sentence, page.next])
    assert page.next.startswith("Try another kind of model")

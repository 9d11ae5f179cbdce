"""The verdict on a model in English: each reason has a sentence with its figures."""

from dataclasses import replace

import pytest

from online.plugins.monitoring.verdict_words import word_reason, word_verdict
from online.scoring.falls import Decline, Fall, GuesserLead
from online.scoring.recent_outcomes import OutcomeSpan
from online.scoring.verdict import DriftSummary, VerdictInputs, assess
from tests.scoring.test_verdict import DECLINE, FALL, SOUND

ROLLED_BACK = replace(SOUND, newest=12, previous=11, held_until=950)
SINCE = OutcomeSpan(30, 29 / 30, 980)


@pytest.mark.parametrize(
    ("facts", "sentence"),
    [
        (SOUND, "Good: 94 % of the last 100 judged answers were right."),
        (
            replace(SOUND, fall=FALL, older=7),
            "Needs attention: accuracy of the last 100 answers fell from 94 % to 3 % after event 900.",
        ),
        (
            replace(SOUND, numbers=True, fall=Fall(40, OutcomeSpan(100, 0.25), OutcomeSpan(50, 3.75))),
            "Needs attention: the mean error of the last 50 answers rose from 0.25 to 3.75 after event 40.",
        ),
        (
            replace(SOUND, decline=DECLINE),
            "Good, but falling: 82 % of the last 100 judged answers were right, 91 % of the 500 before.",
        ),
        (
            replace(SOUND, numbers=True, decline=Decline(OutcomeSpan(200, 1.25), OutcomeSpan(100, 2.5))),
            "Good, but with growing errors: the mean error of the last 100 answers is 2.5, of the 200 before 1.25.",
        ),
        (ROLLED_BACK, "Good: 94 % of the last 100 judged answers of version 9 and older ones were right."),
        (
            replace(SOUND, fall=FALL, recovery=SINCE),
            "Recovering: 29 of the 30 answers judged since the roll back were right.",
        ),
        (
            replace(SOUND, decline=DECLINE, recovery=SINCE),
            "Recovering: 29 of the 30 answers judged since the roll back were right.",
        ),
        (
            replace(SOUND, numbers=True, recovery=OutcomeSpan(30, 0.25)),
            "Recovering: the mean error of the 30 answers judged since the roll back is 0.25.",
        ),
        (replace(SOUND, rated=3, recent=None, learner="stopped"), "Not learning: the learner does not run."),
        (
            VerdictInputs(),
            "Cannot judge yet: a verdict needs 30 judged answers to requests, and there are 0 so far.",
        ),
    ],
)
def test_the_verdict_says_its_status_and_the_reason_that_decides(facts: VerdictInputs, sentence: str) -> None:
    assert word_verdict(assess(facts), facts) == sentence


@pytest.mark.parametrize("numbers", [False, True])
def test_every_reason_has_a_sentence(numbers: bool) -> None:
    drift = DriftSummary(700, 750, "loss", 3)
    worst = VerdictInputs(
        numbers=numbers,
        recent=OutcomeSpan(100, 0.94, 900),
        rated=12,
        fall=FALL,
        lead=GuesserLead("no_change", 200, 0.4, 0.7),
        learner="restarting",
        live=9,
        newest=12,
        head=1_400,
        learned_until=900,
        waiting_s=900.0,
        quarantine_since=700,
        rejected=3,
        rejected_since=880,
        rejected_reason="worse",
        refused=90,
        refused_of=900,
        drift=drift,
        unservable=True,
        damaged=(4, 5),
        learning_again="another log",
        missing_until=100,
    )
    milder = replace(worst, learner="stopped", quarantine_since=None, frozen_since="2026-01-01", refused=80)
    over = DriftSummary(8_700, 8_750, "loss", 3, is_over=True)
    others = replace(milder, fall=None, decline=DECLINE, drift=over, counted_until=0, head=9_000)
    recovering = replace(worst, recovery=SINCE, since_held=SINCE, drift=replace(drift, what="features"))
    for facts in (worst, milder, others, recovering):
        for sentence in (word_reason(reason, facts) for reason in assess(facts).reasons):
            assert sentence and "None" not in sentence and "{" not in sentence


def test_a_roll_back_says_how_good_the_answers_since_are() -> None:
    (reason,) = assess(facts := replace(ROLLED_BACK, since_held=SINCE)).reasons
    assert word_reason(reason, facts).endswith("; 29 of the 30 answers judged since were right")
    (reason,) = assess(facts := replace(ROLLED_BACK, numbers=True, since_held=OutcomeSpan(30, 0.25, 980))).reasons
    assert word_reason(reason, facts).endswith("; the mean error of the 30 answers judged since is 0.25")

"""The verdict on a model: its status, and its reasons in order."""

from dataclasses import replace

import pytest

from online.schemas.fields import Cause
from online.scoring.falls import Decline, Fall, GuesserLead
from online.scoring.recent_outcomes import OutcomeSpan
from online.scoring.verdict import DriftSummary, VerdictInputs, assess

SOUND = VerdictInputs(
    recent=OutcomeSpan(100, 0.94, 900), rated=900, live=9, newest=9, head=900, learned_until=900, refused_of=900
)
DECLINE = Decline(OutcomeSpan(500, 0.91), OutcomeSpan(100, 0.82))
FALL = Fall(900, OutcomeSpan(500, 0.94, 880), OutcomeSpan(100, 0.03, 1_000))


def test_a_model_without_a_reason_is_good() -> None:
    verdict = assess(SOUND)
    assert (verdict.status, verdict.codes) == ("good", ())


def test_a_collapse_has_its_figures_and_the_version_to_roll_back_to() -> None:
    verdict = assess(replace(SOUND, fall=FALL, older=7))
    assert verdict.status == "needs_attention"
    assert verdict.reasons[0].figures == {
        "before": 0.94,
        "before_count": 500,
        "after": 0.03,
        "count": 100,
        "since": 900,
        "since_at": None,
        "roll_back_to": "7",
    }


def test_the_errors_of_numbers_rise() -> None:
    fall = Fall(40, OutcomeSpan(100, 0.25), OutcomeSpan(50, 3.75))
    assert assess(replace(SOUND, numbers=True, fall=fall)).codes == ("error_rose",)


@pytest.mark.parametrize(
    ("changes", "status", "codes"),
    [
        ({"rated": 12, "recent": OutcomeSpan(12, 0.5)}, "too_little_feedback", ("too_few_ratings",)),
        (
            {"counted_until": 20_000, "head": 90_000, "learned_until": 90_000},
            "too_little_feedback",
            ("still_counting",),
        ),
        ({"lead": GuesserLead("no_change", 200, 0.4, 0.7)}, "needs_attention", ("below_baseline",)),
        ({"unservable": True}, "needs_attention", ("unservable",)),
        (
            {"rejected": 3, "rejected_since": 880, "rejected_reason": "worse"},
            "needs_attention",
            ("snapshots_rejected",),
        ),
        ({"refused": 90}, "needs_attention", ("much_refused",)),
        ({"refused": 89}, "good", ("some_refused",)),
        ({"learner": "stopped"}, "not_learning", ("learner_stopped",)),
        ({"learner": "restarting"}, "not_learning", ("learner_restarting",)),
        ({"learner": "external"}, "good", ()),
        ({"head": 5_900, "waiting_s": 31.0}, "not_learning", ("behind",)),
        ({"head": 5_900, "waiting_s": 29.0}, "good", ()),
        ({"frozen_since": "2026-01-01", "frozen_reason": "odd"}, "not_learning", ("frozen",)),
        ({"frozen_since": "2026-01-01", "head": 5_900, "waiting_s": 900.0}, "not_learning", ("frozen",)),
        ({"frozen_since": "2026-01-01", "quarantine_since": 700}, "needs_attention", ("quarantine_open",)),
        ({"learning_again": "another log"}, "not_learning", ("learning_again",)),
        ({"decline": DECLINE}, "good", ("declining",)),
        ({"newest": 12}, "good", ("rolled_back",)),
        ({"drift": DriftSummary(700, 750, "loss", 3)}, "good", ("drift",)),
        ({"drift": DriftSummary(700, 750, "loss", 3), "head": 1_750, "learned_until": 1_750}, "good", ()),
        ({"drift": DriftSummary(700, 750, "loss", 3, is_over=True)}, "good", ("drift_over",)),
        ({"damaged": (4, 5)}, "good", ("version_damaged",)),
        ({"missing_until": 100}, "good", ("events_expired",)),
    ],
)
def test_each_fact_gives_its_status_and_its_reason(
    changes: dict[str, object], status: str, codes: tuple[str, ...]
) -> None:
    verdict = assess(replace(SOUND, **changes))  # type: ignore[arg-type]
    assert (verdict.status, verdict.codes) == (status, codes)


def test_a_roll_back_names_its_versions_and_how_good_the_answers_since_are() -> None:
    rolled_back = replace(SOUND, newest=12, previous=11, held_until=950)
    figures = {"version": "9", "newest": "12", "since": 950, "previous": "11"}
    assert assess(rolled_back).reasons[0].figures == figures
    assert "previous" not in assess(replace(rolled_back, previous=0)).reasons[0].figures
    reason = assess(replace(rolled_back, since_held=OutcomeSpan(30, 29 / 30, 980))).reasons[0]
    assert (reason.figures["count"], reason.figures["after"]) == (30, 0.966667)


def test_good_answers_since_a_roll_back_come_before_what_the_last_100_still_contain() -> None:
    facts = replace(SOUND, fall=FALL, older=7, recovery=OutcomeSpan(30, 29 / 30, 980))
    verdict = assess(facts)
    assert (verdict.status, verdict.codes) == ("good", ("recovering", "accuracy_fell"))
    assert verdict.reasons[0].figures == {"count": 30, "after": 0.966667}
    assert {reason.level for reason in verdict.reasons} == {"notice"}
    assert assess(replace(facts, learner="stopped")).status == "not_learning"


def test_the_worst_reason_comes_first_and_decides() -> None:
    drift = DriftSummary(900, 950, "loss", 9)
    facts = replace(SOUND, fall=FALL, learner="stopped", newest=12, drift=drift, head=1_000, learned_until=1_000)
    verdict = assess(facts)
    assert verdict.status == "needs_attention"
    assert verdict.codes == ("accuracy_fell", "learner_stopped", "rolled_back", "drift")


def test_too_little_feedback_does_not_hide_that_nothing_is_learned() -> None:
    assert assess(replace(SOUND, rated=3, recent=None, learner="stopped")).status == "not_learning"


def test_the_figures_name_the_cause_of_a_learner_that_restarts_and_of_a_log_that_is_learned_again() -> None:
    ended = Cause(code="process_ended", figures={"status": 1, "pause_s": 2.0})
    restarting = assess(replace(SOUND, learner="restarting", learner_reason="it ended", learner_cause=ended))
    assert restarting.reasons[0].figures == {
        "reason": "it ended",
        "cause": "process_ended",
        "status": 1,
        "pause_s": 2.0,
    }
    early = Cause(code="log_ends_early", figures={"head": 9, "learned_until": 12})
    again = assess(replace(SOUND, learning_again="another log", learning_again_cause=early))
    assert again.reasons[0].figures == {
        "reason": "another log",
        "cause": "log_ends_early",
        "head": 9,
        "learned_until": 12,
    }


def test_a_fall_says_what_a_decline_would() -> None:
    assert assess(replace(SOUND, decline=DECLINE, fall=FALL)).codes == ("accuracy_fell",)


def test_a_freeze_of_the_guard_names_its_cause_beside_its_own_beginning() -> None:
    guard = Cause(code="guard", figures={"since": 700})
    frozen = assess(replace(SOUND, frozen_since="2026-01-01", frozen_reason="the guard: worse", frozen_cause=guard))
    assert frozen.reasons[0].figures == {
        "since": "2026-01-01",
        "reason": "the guard: worse",
        "cause": "guard",
        "cause_since": 700,
    }

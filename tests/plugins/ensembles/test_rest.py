"""best_of's members that rest: who is put to rest, what it still learns, and what wakes it."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from online.models import Example
from online.plugins.ensembles.best_of import VOTE, BestOf
from online.plugins.ensembles.rest import GRACE, PERIOD, PROBE, MemberSchedule
from tests.plugins.ensembles.test_best_of import best_of, stream
from tests.support import first_of

RING = stream(1_600, ring=True)


def train(examples: Sequence[Example] = RING, **options: Any) -> BestOf:
    model = best_of(patience=100, **options)
    model.learn(examples)
    return model


def flipped(examples: Sequence[Example]) -> list[Example]:
    return [Example(e.offset, "label", e.features, str(e.label != "True")) for e in examples]


@pytest.mark.parametrize("vote", [True, False])
def test_a_member_that_is_worse_and_hardly_counts_in_the_vote_rests(vote: bool) -> None:
    """No line separates what lies within a circle from what does not."""
    model = train(vote=vote)
    assert model.roster.resting == {"logistic"}
    assert model.served == (VOTE if vote else "knn")
    facts = model.facts()
    assert (facts["logistic_rests"], facts["knn_rests"]) == (1.0, 0.0)


@pytest.mark.long
def test_no_member_rests_among_equals_or_before_it_had_time_to_learn() -> None:
    equals = {"first": {"kind": "knn"}, "second": {"kind": "knn", "neighbours": 9}}
    model = best_of(equals, patience=100)
    model.learn(RING)
    assert not model.roster.resting
    assert not train(RING[: GRACE - 1]).roster.resting


def test_no_member_rests_if_the_option_is_off() -> None:
    model = train(rest=False)
    assert not model.roster.resting
    assert model.records["logistic"].seen == len(RING)


def test_a_member_that_is_put_to_rest_by_luck_is_rare() -> None:
    """Of members as good as the served one, at most one in `patience` scored examples has enough evidence against it."""
    rng, rested = np.random.default_rng(0), 0
    for _ in range(200):
        roster = MemberSchedule(["a", "b"], 1_000)
        for one, other in rng.random((250, 2)) < 0.5:
            roster.scored += 1
            roster.note({"a": bool(other), "b": bool(one)}, bool(other))
            rested += len(roster.rest([name for name in roster.find_hopeless() if name == "b"]))
    assert rested <= 200 * 250 / 1_000


def test_a_resting_member_answers_and_learns_one_probe_in_a_period() -> None:
    model = train()
    before, seen = model.models["logistic"].fingerprint(), model.records["logistic"].seen
    start = PROBE * PERIOD * 2 - len(RING)  # where the next probe begins
    later = stream(start + PROBE, ring=True, seed=1, start=len(RING) + 1)
    model.learn(later[: start - 1])
    assert (model.models["logistic"].fingerprint(), model.records["logistic"].seen) == (before, seen)
    model.learn(later[start - 1 :])
    assert model.records["logistic"].seen == seen + PROBE
    assert model.models["logistic"].fingerprint() != before


def test_an_exact_member_learns_everything_while_it_rests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("online.plugins.ensembles.best_of.GRACE", 100)
    coarse = {"kind": "knn", "window": 3}
    model, alone = best_of({"coarse": coarse, "near": {"kind": "knn"}}, patience=100), best_of({"coarse": coarse})
    for each in (model, alone):
        each.learn(RING[:600])
    assert model.roster.resting == {"coarse"}
    assert model.models["coarse"].fingerprint() == alone.models["coarse"].fingerprint()


def test_a_resting_member_whose_vote_counts_again_is_woken() -> None:
    model = best_of(
        {"knn": {"kind": "knn", "window": 2_000}, "logistic": {"kind": "logistic", "drift": 0.01}}, patience=100
    )
    model.learn(RING)
    assert model.roster.resting == {"logistic"}
    count = PROBE * PERIOD + PROBE
    model.learn(flipped(stream(count, ring=False, seed=2, start=len(RING) + 1)))  # what knn remembers is wrong now
    assert "logistic" not in model.roster.resting


@pytest.mark.parametrize("label", [None, "True"])
def test_drift_wakes_all_members(label: str | None) -> None:
    model = train()
    model.drifted(label, len(RING))
    assert model.roster.awake == ["logistic", "knn"]
    assert model.trial is None or model.trial.of == "knn"


def test_the_original_of_a_challenger_does_not_rest() -> None:
    model = train(RING[: GRACE - 10])
    model.drifted(None, GRACE - 10)
    assert model.trial is not None
    model.trial.of = "logistic"
    model.learn(RING[GRACE - 10 : GRACE + 60])
    assert model.trial is None or "logistic" not in model.roster.resting


def test_a_member_is_put_to_rest_where_a_stretch_begins_and_does_not_vote_from_then_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("online.plugins.ensembles.best_of.GRACE", 0)
    monkeypatch.setattr("online.plugins.ensembles.best_of.REST_SHARE", 1.0)
    members = {"near": {"kind": "knn"}, "smooth": {"kind": "knn", "neighbours": 30}}
    asked, not_asked = best_of(members), best_of(members)
    for model in (asked, not_asked):
        model.learn(RING[: PROBE - 2])
        model.roster.doubts["smooth"].wealth = [1e6] * 4
        model.learn(RING[PROBE - 2 : PROBE - 1])
        assert not model.roster.resting
        if model is asked:
            model.predict([RING[PROBE - 1].features])  # by all who vote until then
        model.learn(RING[PROBE - 1 : PROBE])
        assert model.roster.resting == {"smooth"}
    assert asked.fingerprint() == not_asked.fingerprint()
    assert asked.records == not_asked.records


@pytest.mark.parametrize("every", first_of([3, 1]))
def test_who_rests_depends_on_neither_batches_nor_interruptions(every: int) -> None:
    examples = stream(4_000 if every > 1 else 1_600, ring=True)
    at_once = train(examples, score_every=every)
    assert at_once.roster.resting == {"logistic"}
    in_batches = best_of(patience=100, score_every=every)
    for start in range(0, len(examples), 331):
        in_batches.learn(examples[start : start + 331])
        resumed = best_of(patience=100, score_every=every)
        resumed.restore(in_batches.state())
        in_batches = resumed
    assert in_batches.fingerprint() == at_once.fingerprint()


def test_resting_members_are_not_among_the_serving_parts() -> None:
    model, restored = train(), best_of(patience=100)
    serving = model.state(serving_only=True)
    assert {name.partition(".")[0] for name in serving} == {"table", "knn"}
    restored.restore(serving)
    inputs = [example.features for example in stream(20, ring=True, seed=3)]
    assert restored.predict(inputs) == model.predict(inputs)
    assert [restored.predict([each])[0] for each in inputs] == model.predict(inputs)

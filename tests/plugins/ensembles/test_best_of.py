"""best_of: which contender or vote is served, its scores, and the challenger that a drift alarm starts."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from online.models import Example, create
from online.plugins.ensembles.best_of import CHALLENGER, VOTE, BestOf, ContenderRecord
from online.plugins.ensembles.bets import STAKES
from online.plugins.ensembles.challenger import ChampionChallenger
from tests.models.synthetic import row, tables

LOGISTIC_AND_KNN = {"logistic": {"kind": "logistic"}, "knn": {"kind": "knn"}}


def best_of(contenders: dict[str, Any] = LOGISTIC_AND_KNN, **options: Any) -> BestOf:
    return BestOf({"input": "vector", "size": 2, "contenders": contenders, **options})


def stream(count: int, ring: bool, seed: int = 0, start: int = 1) -> list[Example]:
    """Points labelled by whether they lie within a circle, which no line separates, or on which side of a line."""
    x = np.random.default_rng(seed).uniform(-1, 1, (count, 2))
    labels = np.hypot(*x.T) < 0.75 if ring else x.sum(1) > 0
    rows = enumerate(zip(x, labels.tolist(), strict=True), start)
    return [Example(offset, "label", point.tobytes(), str(label)) for offset, (point, label) in rows]


def served_at(model: BestOf | ChampionChallenger, examples: Sequence[Example]) -> list[str]:
    served = []
    for example in examples:
        model.learn([example])
        served.append(model.served)
    return served


def test_the_better_contender_takes_over_once() -> None:
    served = served_at(best_of(vote=False, patience=100), stream(600, ring=True))
    assert (served[0], served[-1]) == ("logistic", "knn")
    assert sum(one != other for one, other in pairwise(served)) == 1


def test_the_served_contender_does_not_change_between_equals() -> None:
    equals = {"first": {"kind": "knn"}, "second": {"kind": "knn", "neighbours": 9}}
    assert set(served_at(best_of(equals, vote=False), stream(500, ring=False))) == {"first"}


def test_a_bet_on_a_fair_coin_is_seldom_won() -> None:
    """At most once in `patience` examples: here 400 bets, each on 250 fair throws."""
    rng = np.random.default_rng(0)
    won = 0
    for _ in range(400):
        standing = ContenderRecord()
        won += any(standing.bet(int(gain)) >= 1_000 for gain in rng.choice([-1, 1], 250))
    assert won <= 400 * 250 / 1_000


def test_the_vote_is_served_first_and_weights_contenders_by_their_accuracy() -> None:
    model = best_of()
    model.learn(stream(300, ring=True))
    assert model.served == VOTE
    later = stream(200, ring=True, seed=1)
    answers = model.predict([example.features for example in later])
    assert np.mean([answer.choice == example.label for answer, example in zip(answers, later, strict=True)]) > 0.9


def test_only_the_served_contender_is_among_the_serving_parts() -> None:
    model = best_of(vote=False)
    model.learn(stream(50, ring=False))
    assert {name.partition(".")[0] for name in model.state(serving_only=True)} == {"table", "logistic"}
    assert {name.partition(".")[0] for name, part in model.state().items() if not part.serving} == {
        "logistic",
        "knn",
        "memory",
    }


def test_rewards_are_learned_but_not_scored() -> None:
    model = best_of()
    model.learn([Example(n, "reward", np.full(2, n / 9).tobytes(), "a") for n in range(1, 9)])
    assert {record.seen for record in model.records.values()} == {0}
    assert model.predict([np.zeros(2).tobytes()])[0].choice == "a"


@pytest.mark.parametrize("every", [1, 4])
def test_which_examples_are_scored_depends_on_offsets_alone(every: int) -> None:
    examples = stream(200, ring=True)
    at_once, in_batches = best_of(score_every=every), best_of(score_every=every)
    at_once.learn(examples)
    for start in range(0, len(examples), 7):
        in_batches.learn(examples[start : start + 7])
    assert at_once.fingerprint() == in_batches.fingerprint()
    assert at_once.records["knn"].seen == len(examples) // every


def test_a_contender_skips_an_example_that_it_cannot_learn() -> None:
    model = best_of({"narrow": {"kind": "logistic", "max_labels": 2}, "knn": {"kind": "knn"}})
    model.learn([Example(n, "label", np.full(2, n / 30).tobytes(), "abc"[n % 3]) for n in range(1, 31)])
    assert model.models["knn"].predict([np.full(2, 0.9).tobytes()])[0].choice is not None
    answer = model.models["narrow"].predict([np.zeros(2).tobytes()])[0]
    assert {candidate.id for candidate in answer.candidates} < {"a", "b", "c"}


STUBBORN = {"slda": {"kind": "classifier", "recent": 0, "scale": 4.0}}  # does not adapt by itself


def test_drift_starts_a_challenger_that_replaces_the_served_contender() -> None:
    model = best_of(STUBBORN, patience=50)
    model.learn(stream(300, ring=False))
    model.drifted(None, 300)
    swapped = [
        Example(e.offset, "label", e.features, str(e.label != "True"))
        for e in stream(300, ring=False, seed=2, start=301)
    ]
    original = model.models["slda"]
    model.learn(swapped[:20])
    assert model.trial is not None
    assert any(name.startswith(CHALLENGER) for name in model.state())
    resumed = best_of(STUBBORN, patience=50)
    resumed.restore(model.state())
    for each in (model, resumed):
        each.learn(swapped[20:])
    assert model.trial is None
    assert model.models["slda"] is not original
    assert resumed.fingerprint() == model.fingerprint()


def test_a_challenger_that_is_not_better_is_removed() -> None:
    model = best_of({"knn": {"kind": "knn"}}, patience=50)
    examples = stream(1_500, ring=True)
    model.learn(examples[:900])
    original = model.models["knn"]
    model.drifted(None, 900)
    model.learn(examples[900:])
    assert model.trial is None
    assert model.models["knn"] is original


def test_drift_of_one_class_starts_no_challenger() -> None:
    model = best_of()
    model.drifted("a", 1)
    assert model.trial is None


def test_the_facts_show_who_is_served_and_how_accurate_each_is() -> None:
    model = best_of()
    model.learn(stream(40, ring=False))
    facts = model.facts()
    assert [name for name in facts if name.endswith("_served") and facts[name]] == [f"{VOTE}_served"]
    assert facts["knn_percent"] == pytest.approx(100 * model.records["knn"].right / 40)


def test_a_river_contender_is_signed_with_the_key() -> None:
    contenders = {"forest": {"kind": "river", "estimator": "forest.ARFClassifier", "params": {"n_models": 3}}}
    one, other = (BestOf({"input": "table", "contenders": contenders, "key": key}) for key in ("ab" * 32, "cd" * 32))
    one.learn([example for example in tables(60) if example.reward >= 0.5])
    with pytest.raises(ValueError, match="signature does not match"):
        other.restore(one.state())


@pytest.mark.parametrize(
    ("contenders", "message"),
    [
        ({"Vote!": {"kind": "knn"}}, "cannot be called 'Vote!'"),
        ({VOTE: {"kind": "knn"}}, "cannot be called 'vote'"),
        ({"a": {"window": 5}}, "'a' needs the 'kind'"),
        ({"a": {"kind": "best_of"}}, "not 'best_of'"),
        ({"a": {"kind": "knn", "speed": 1}}, "unknown option 'speed'"),
        ({"a": {"kind": "river"}}, "reads tables"),
        ({"a": {"kind": "classifier", "head": "rp_ridge"}}, "can take part only with head 'slda'"),
    ],
)
def test_invalid_contenders_are_refused_by_name(contenders: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        best_of(contenders)


@pytest.mark.parametrize("input", ["text", "vector", "table"])
def test_every_input_has_default_contenders(input: str) -> None:
    size = {"size": 2} if input == "vector" else {}
    model = create("best_of", {"input": input, **size})
    assert model.predict([row({}) if input == "table" else bytes(16 if input == "vector" else 384)])[0].choice is None
    assert len(STAKES) == 4


@pytest.mark.long
def test_on_noise_the_default_members_are_not_worse_than_the_majority() -> None:
    """Four of five labels are the same, whatever the input."""
    rng = np.random.default_rng(3)
    examples = [
        Example(n, "label", point.tobytes(), "ab"[int(rng.random() < 0.2)])
        for n, point in enumerate(rng.normal(size=(400, 2)), 1)
    ]
    model, right = create("best_of", {"input": "vector", "size": 2}), list[bool]()
    for example in examples:
        right.append(model.predict([example.features])[0].choice == example.label)
        model.learn([example])
    majority = sum(example.label == "a" for example in examples)
    assert sum(right) >= majority - 0.005 * len(examples) - 1  # the first answer is none


def test_a_member_that_is_often_wrong_early_counts_less_at_first() -> None:
    model = BestOf({"input": "vector", "size": 2})
    model.learn(stream(2, ring=False))
    facts = model.facts()
    assert facts["line-now_vote_percent"] < facts["near_vote_percent"] < facts["majority_vote_percent"]
    assert sum(facts[f"{name}_vote_percent"] for name in model.models) == pytest.approx(100)


def test_the_facts_tell_recent_accuracy_beside_that_of_the_whole_log() -> None:
    model = best_of({"knn": {"kind": "knn", "window": 5_000}}, vote=False)
    model.learn(stream(300, ring=False))
    learned = model.facts()["knn_recent_percent"]
    model.learn(
        [Example(e.offset, "label", e.features, str(e.label != "True")) for e in stream(100, False, 2, start=301)]
    )
    facts = model.facts()
    assert learned > 90 > facts["knn_percent"] > facts["knn_recent_percent"]


@pytest.mark.parametrize("vote", [True, False])
def test_predicting_an_input_before_learning_it_changes_nothing(vote: bool) -> None:
    with_predictions, without, changed = best_of(vote=vote), best_of(vote=vote), 0
    for example in stream(120, ring=False):
        before = with_predictions.predict([example.features])
        assert with_predictions.predict([example.features]) == before
        assert with_predictions.predict([example.features] * 2)[1].choice == before[0].choice
        for model in (with_predictions, without):
            model.learn([example])
        after = with_predictions.predict([example.features])
        assert after == without.predict([example.features])
        changed += after != before
    assert changed > 100
    assert with_predictions.fingerprint() == without.fingerprint()


def test_a_log_leaves_the_same_state_in_any_batches_while_a_challenger_takes_over() -> None:
    """In a batch one member learns after the other, and the challenger replaces its original in the middle of one."""
    swapped = [
        Example(e.offset, "label", e.features, str(e.label != "True"))
        for e in stream(300, ring=False, seed=2, start=301)
    ]
    members = {**STUBBORN, "majority": {"kind": "majority"}}
    one_by_one, in_batches = (best_of(members, patience=50) for _ in range(2))
    for model, size in ((one_by_one, 1), (in_batches, 300)):
        model.learn(stream(300, ring=False))
        model.drifted(None, 300)
        original = dict(model.models)
        for start in range(0, len(swapped), size):
            model.learn(swapped[start : start + size])
        assert model.models != original and model.trial is None
    assert in_batches.fingerprint() == one_by_one.fingerprint()


def test_members_learn_a_batch_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """If they took turns at every row, each would find the processor's caches full of the others."""
    model, taught = best_of(), list[str]()
    for name, member in model.models.items():
        monkeypatch.setattr(member, "learn", lambda _, name=name: taught.append(name))
    model.learn(stream(40, ring=False))
    assert taught == ["logistic"] * 40 + ["knn"] * 40


def test_cached_answers_are_dropped_after_a_restore_and_a_drift_alarm() -> None:
    point, model, other = stream(1, ring=False)[0].features, best_of(), best_of()
    model.learn(stream(50, ring=False))
    other.learn(stream(60, ring=True, seed=1))
    before = model.predict([point])
    model.restore(other.state())
    assert model.predict([point]) == other.predict([point]) != before
    for each in (model, other):
        each.drifted("True", 30)
        each.learn(stream(1, ring=True, seed=2, start=61))
    assert model.predict([point]) == other.predict([point])

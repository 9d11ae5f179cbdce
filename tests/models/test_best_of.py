"""The choice between learners: by evidence, without flapping, and with a challenger when the world changes."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from online.models import Example, create
from online.models.best_of import CHALLENGER, STAKES, VOTE, BestOf, Standing
from online.models.contest import Contest
from tests.models.synthetic import row, tables

LINE_AND_NEAR = {"line": {"kind": "logistic"}, "near": {"kind": "knn"}}


def best_of(contenders: dict[str, Any] = LINE_AND_NEAR, **options: Any) -> BestOf:
    return BestOf({"input": "vector", "size": 2, "contenders": contenders, **options})


def stream(count: int, ring: bool, seed: int = 0, start: int = 1) -> list[Example]:
    """Points inside a ring or not, which no line separates; or on one side of a line or the other."""
    x = np.random.default_rng(seed).uniform(-1, 1, (count, 2))
    labels = np.hypot(*x.T) < 0.75 if ring else x.sum(1) > 0
    rows = enumerate(zip(x, labels.tolist(), strict=True), start)
    return [Example(offset, "label", point.tobytes(), str(label)) for offset, (point, label) in rows]


def served_at(model: BestOf | Contest, examples: Sequence[Example]) -> list[str]:
    served = []
    for example in examples:
        model.learn([example])
        served.append(model.served)
    return served


def test_the_better_one_takes_over_and_stays() -> None:
    served = served_at(best_of(vote=False, patience=100), stream(600, ring=True))
    assert (served[0], served[-1]) == ("line", "near")
    assert sum(one != other for one, other in pairwise(served)) == 1


def test_equals_do_not_flap() -> None:
    twins = {"one": {"kind": "knn"}, "other": {"kind": "knn", "neighbours": 9}}
    assert set(served_at(best_of(twins, vote=False), stream(500, ring=False))) == {"one"}


def test_a_bet_on_a_coin_is_seldom_won() -> None:
    """No more often than once in `patience` examples: here 400 players, each at 250 fair throws."""
    rng = np.random.default_rng(0)
    won = 0
    for _ in range(400):
        standing = Standing()
        won += any(standing.bet(int(gain)) >= 1_000 for gain in rng.choice([-1, 1], 250))
    assert won <= 400 * 250 / 1_000


def test_the_vote_comes_first_and_takes_everybodys_word_for_what_it_was_worth() -> None:
    model = best_of()
    model.learn(stream(300, ring=True))
    assert model.served == VOTE
    later = stream(200, ring=True, seed=1)
    answers = model.predict([example.features for example in later])
    assert np.mean([answer.choice == example.label for answer, example in zip(answers, later, strict=True)]) > 0.9


def test_only_what_is_served_is_published_for_serving() -> None:
    model = best_of(vote=False)
    model.learn(stream(50, ring=False))
    assert {name.partition(".")[0] for name in model.state(serving_only=True)} == {"table", "line"}
    assert {name.partition(".")[0] for name, part in model.state().items() if not part.serving} == {
        "line",
        "near",
        "memory",
    }


def test_rewards_are_learned_and_no_evidence() -> None:
    model = best_of()
    model.learn([Example(n, "reward", np.full(2, n / 9).tobytes(), "a") for n in range(1, 9)])
    assert {standing.seen for standing in model.standings.values()} == {0}
    assert model.predict([np.zeros(2).tobytes()])[0].choice == "a"


@pytest.mark.parametrize("every", [1, 4])
def test_what_it_scores_hangs_on_offsets_alone(every: int) -> None:
    examples = stream(200, ring=True)
    whole, cut = best_of(score_every=every), best_of(score_every=every)
    whole.learn(examples)
    for start in range(0, len(examples), 7):
        cut.learn(examples[start : start + 7])
    assert whole.fingerprint() == cut.fingerprint()
    assert whole.standings["near"].seen == len(examples) // every


def test_a_contender_that_cannot_learn_an_example_goes_on_without_it() -> None:
    few = {"few": {"kind": "logistic", "max_labels": 2}, "near": {"kind": "knn"}}
    model = best_of(few)
    model.learn([Example(n, "label", np.full(2, n / 30).tobytes(), "abc"[n % 3]) for n in range(1, 31)])
    assert model.models["near"].predict([np.full(2, 0.9).tobytes()])[0].choice is not None
    assert {c.id for c in model.models["few"].predict([np.zeros(2).tobytes()])[0].candidates} < {"a", "b", "c"}


def test_a_drift_opens_a_challenger_that_takes_its_originals_place() -> None:
    model = best_of({"near": {"kind": "knn"}}, patience=50)
    model.learn(stream(300, ring=False))
    model.drifted(None, 300)
    turned = [
        Example(e.offset, "label", e.features, str(e.label != "True"))
        for e in stream(300, ring=False, seed=2, start=301)
    ]
    original = model.models["near"]
    model.learn(turned[:20])
    assert model.trial is not None
    assert any(name.startswith(CHALLENGER) for name in model.state())
    resumed = best_of({"near": {"kind": "knn"}}, patience=50)
    resumed.restore(model.state())
    for one in (model, resumed):
        one.learn(turned[20:])
    assert model.trial is None
    assert model.models["near"] is not original
    assert resumed.fingerprint() == model.fingerprint()


def test_a_challenger_without_a_case_is_closed() -> None:
    model = best_of({"near": {"kind": "knn"}}, patience=50)
    examples = stream(1_500, ring=True)
    model.learn(examples[:900])
    original = model.models["near"]
    model.drifted(None, 900)
    model.learn(examples[900:])
    assert model.trial is None
    assert model.models["near"] is original


def test_a_drift_of_one_label_opens_none() -> None:
    model = best_of()
    model.drifted("a", 1)
    assert model.trial is None


def test_its_facts_are_its_table() -> None:
    model = best_of()
    model.learn(stream(40, ring=False))
    facts = model.facts()
    assert [name for name in facts if name.endswith("_served") and facts[name]] == [f"{VOTE}_served"]
    assert facts["near_percent"] == pytest.approx(100 * model.standings["near"].right / 40)


def test_river_takes_part_in_tables_and_signs_with_the_key() -> None:
    told = {"forest": {"kind": "river", "estimator": "forest.ARFClassifier", "params": {"n_models": 3}}}
    one, other = (BestOf({"input": "table", "contenders": told, "key": key}) for key in ("ab" * 32, "cd" * 32))
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
        ({"a": {"kind": "classifier", "head": "rp_ridge"}}, "of a classifier only 'slda'"),
    ],
)
def test_contenders_that_cannot_take_part_are_refused_by_name(contenders: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        best_of(contenders)


@pytest.mark.parametrize("input", ["text", "vector", "table"])
def test_there_are_contenders_for_every_input(input: str) -> None:
    size = {"size": 2} if input == "vector" else {}
    model = create("best_of", {"input": input, **size})
    assert model.predict([row({}) if input == "table" else bytes(16 if input == "vector" else 384)])[0].choice is None
    assert len(STAKES) == 4


@pytest.mark.parametrize("vote", [True, False])
def test_asking_what_is_learned_next_changes_nothing_but_is_answered_anew_afterwards(vote: bool) -> None:
    asking, unasked, moved = best_of(vote=vote), best_of(vote=vote), 0
    for example in stream(120, ring=False):
        before = asking.predict([example.features])
        assert asking.predict([example.features]) == before
        assert asking.predict([example.features] * 2)[1].choice == before[0].choice
        for model in (asking, unasked):
            model.learn([example])
        after = asking.predict([example.features])
        assert after == unasked.predict([example.features])
        moved += after != before
    assert moved > 100
    assert asking.fingerprint() == unasked.fingerprint()


def test_what_was_asked_is_answered_anew_by_a_state_that_was_taken_over_and_where_the_world_has_changed() -> None:
    asked, model, other = stream(1, ring=False)[0].features, best_of(), best_of()
    model.learn(stream(50, ring=False))
    other.learn(stream(60, ring=True, seed=1))
    before = model.predict([asked])
    model.restore(other.state())
    assert model.predict([asked]) == other.predict([asked]) != before
    for each in (model, other):
        each.drifted("True", 30)
        each.learn(stream(1, ring=True, seed=2, start=61))
    assert model.predict([asked]) == other.predict([asked])

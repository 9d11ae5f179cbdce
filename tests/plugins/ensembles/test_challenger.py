"""A champion and its challenger: which is served, how they are compared, and which pairs are allowed."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from msgspec import structs

from online.errors import BadInput
from online.models import BadExample, Example, Model, Options, can_tune_encoder, create, recipe
from online.models.retirement import RetirableModel
from online.models.wrappers import find_answering
from online.plugins.ensembles.challenger import (
    CHALLENGER,
    CHAMPION,
    ChampionChallenger,
    describe_records,
)
from online.plugins.neighbours.knn import Knn
from online.plugins.off_policy.scorers import list_every_candidate
from online.plugins.reports.uploaded_log import check_options
from tests.models.synthetic import TOPICS, labels_only, numbers, replies, tables, text, texts, vectors
from tests.plugins.ensembles.test_best_of import served_at, stream

KEY = "5e" * 32
RELUCTANT: Options = {"abstain_margin": 1e6, "abstain_below": 2.0}  # a ranker that answers only corrected questions


def create_contest(kind: str, options: Options, /, **challenger: Any) -> ChampionChallenger:
    model = create(kind, {**options, "challenger": challenger})
    assert isinstance(model, ChampionChallenger)
    return model


def logistic_and_knn(**more: Any) -> ChampionChallenger:
    return create_contest("logistic", {"input": "vector", "size": 2}, kind="knn", **more)


def corrections(count: int) -> list[Example]:
    labels = [example for example in texts(2 * count, 1) if example.kind == "label"]
    return [structs.replace(example, offset=100 + index, kind="correction") for index, example in enumerate(labels)]


def test_the_better_model_takes_over_once() -> None:
    model = logistic_and_knn(patience=100)
    served = served_at(model, stream(600, ring=True))
    assert (served[0], served[-1]) == (CHAMPION, CHALLENGER)
    assert sum(one != other for one, other in pairwise(served)) == 1
    facts = model.facts()
    assert facts["challenger_served"] == 1.0 and "challenger_missed" not in facts
    assert facts["challenger_percent"] > facts["champion_percent"] + 10
    assert facts["contested"] == 600
    assert describe_records(facts).endswith(f"challenger {facts['challenger_percent']:.1f} % (served)")


def test_the_answers_are_those_of_the_served_model() -> None:
    model, examples = logistic_and_knn(patience=100), stream(600, ring=True)
    alone = create("knn", {"input": "vector", "size": 2})
    for each in (model, alone):
        each.learn(examples)
    inputs = [example.features for example in stream(50, ring=True, seed=1)]
    assert model.predict(inputs) == alone.predict(inputs)


def test_the_served_model_does_not_change_between_equals() -> None:
    equals = create_contest("knn", {"input": "vector", "size": 2}, options={"neighbours": 9})
    assert set(served_at(equals, stream(500, ring=False))) == {CHAMPION}


def test_the_champion_may_be_served_again() -> None:
    """A logistic model is worse than knn within a circle, and better than it where a quarter of the labels are wrong."""
    model = logistic_and_knn(patience=20, options={"window": 300, "neighbours": 1})
    wrong = np.random.default_rng(0).random(1_500) < 0.25
    noisy = [
        structs.replace(example, label=str(example.label != "True")) if is_wrong else example
        for example, is_wrong in zip(stream(1_500, ring=False, start=401), wrong, strict=True)
    ]
    served = served_at(model, [*stream(400, ring=True), *noisy])
    assert (served[399], served[-1]) == (CHALLENGER, CHAMPION)


def test_two_rankers_are_compared_by_corrections() -> None:
    model = create_contest("ranker", RELUCTANT, patience=20)
    model.learn(replies())
    served = served_at(model, corrections(60))
    assert (served[0], served[-1]) == (CHAMPION, CHALLENGER)
    answer = model.predict([text(0, 9_999)])[0]
    assert answer.choice == TOPICS[0] and answer.candidates[0].text is not None
    assert find_answering("ranker", {"challenger": {}}, model) == ("ranker", model.models[CHALLENGER])


def test_rewards_are_not_scored() -> None:
    model = create_contest("ranker", RELUCTANT, patience=2)
    model.learn([*replies(), *(structs.replace(example, kind="reward") for example in corrections(60))])
    assert model.facts()["contested"] == 0 and model.served == CHAMPION


def test_a_model_without_a_challenger_has_no_standings() -> None:
    assert describe_records(create("knn", {}).facts()) == ""
    assert describe_records(create_contest("knn", {}).facts()) == "champion 0.0 % (served), challenger 0.0 %"


def test_only_one_in_score_every_examples_is_scored() -> None:
    model = logistic_and_knn(score_every=4)
    model.learn(stream(400, ring=True))
    assert model.facts()["contested"] == 100


@pytest.mark.long
def test_regressors_are_compared_by_their_errors() -> None:
    """The champion rounds all targets to the same number."""
    model = create_contest("regressor", {"input": "vector", "size": 6, "target_scale": 1e9}, options={}, patience=20)
    examples = numbers(vectors(400))
    served = served_at(model, examples)
    assert served[-1] == CHALLENGER
    facts = model.facts()
    assert facts["challenger_error"] < 0.5 * facts["champion_error"]
    assert describe_records(facts) == f"champion off by {facts['champion_error']:.4g}, challenger off by " + (
        f"{facts['challenger_error']:.4g} (served)"
    )


def test_a_regressor_without_answers_has_no_error() -> None:
    model = create_contest("regressor", {"input": "vector", "size": 6})
    model.learn(numbers(vectors(20))[:1])
    assert model.facts()["champion_error"] == 0.0


def test_the_challenger_skips_an_example_that_only_it_cannot_learn() -> None:
    model = create_contest("classifier", {"input": "text"}, options={"max_labels": 2})
    model.learn(texts(60))
    facts = model.facts()
    assert facts["challenger_missed"] > 0 and not model.subtracts
    assert facts["champion_percent"] > facts["challenger_percent"]


def test_an_example_that_the_champion_cannot_learn_is_not_learned_by_the_challenger() -> None:
    model = create_contest("classifier", {"input": "text", "max_labels": 2}, options={})
    before = model.fingerprint()
    with pytest.raises(BadExample, match="more than 2 classes"):
        model.learn(texts(60))
    assert (model.fingerprint(), model.facts()["contested"]) == (before, 0)


def test_the_serving_parts_are_those_of_the_served_model() -> None:
    model = logistic_and_knn(patience=100)
    model.learn(stream(600, ring=True))
    serving = model.state(serving_only=True)
    assert {name.partition(".")[0] for name in serving} == {"contest", CHALLENGER}
    restored = logistic_and_knn(patience=100)
    restored.restore(serving)
    inputs = [example.features for example in stream(20, ring=True, seed=2)]
    assert restored.predict(inputs) == model.predict(inputs)


def test_both_models_receive_drift_alarms_and_retirements() -> None:
    model = create_contest("knn", {"input": "text"}, options={"neighbours": 3})
    model.learn([*texts(100), Example(500, "retire", b"", TOPICS[0])])
    model.drifted(None, 90)
    for each in model.models.values():
        assert isinstance(each, RetirableModel) and each.retired == {TOPICS[0]}
    assert {answer.choice for answer in model.predict([text(0, 7)])} & {TOPICS[0]} == set()


@pytest.mark.parametrize(
    ("kind", "options", "challenger", "message"),
    [
        (
            "ranker",
            {},
            {"kind": "classifier"},
            "'classifier' cannot be the challenger of a ranker: it must learn replies too",
        ),
        (
            "classifier",
            {},
            {"kind": "regressor"},
            "'regressor' cannot be the challenger of a classifier: it must learn classes",
        ),
        ("regressor", {}, {"kind": "knn"}, "'knn' cannot be the challenger of a regressor: it must learn numbers"),
        ("knn", {}, {"kind": "oracle"}, "'oracle' cannot be the challenger of a knn: it must learn classes"),
        ("knn", {}, {"kind": 7}, "option 'kind' must be str, not 7"),
        (
            "knn",
            {},
            {"options": {"input": "table"}},
            "option 'input' cannot be set for a challenger, which uses its champion's",
        ),
        ("knn", {}, {"options": {"challenger": {}}}, "option 'challenger' cannot be set for a challenger"),
        ("knn", {}, {"options": {"speed": 3}}, "unknown option 'speed'"),
        ("knn", {}, {"speed": 3}, "unknown option 'speed'"),
        ("knn", {}, {"patience": 0}, "option 'patience' must be at least 1, not 0"),
        ("knn", {}, {"score_every": 0}, "option 'score_every' must be at least 1, not 0"),
        (
            "knn",
            {},
            {"kind": "river"},
            "a river model reads tables, so it cannot be the challenger of a model with input = 'text'",
        ),
        ("knn", {}, "knn", "option 'challenger' must be a table"),
        (
            "classifier",
            {"encoder": "ab"},
            {"kind": "knn"},
            "a knn cannot be the challenger of a model with a tuned encoder",
        ),
    ],
)
def test_a_challenger_that_does_not_fit_its_champion_is_refused(
    kind: str, options: Options, challenger: Any, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        create(kind, {**options, "challenger": challenger})


def unwrap(model: Model) -> Model:
    return model.model if isinstance(model, RetirableModel) else model


def test_the_challenger_reads_the_same_features_as_its_champion() -> None:
    table = create_contest("river", {"estimator": "softmax", "key": KEY}, kind="knn")
    assert table.feature_epoch() == table.models[CHALLENGER].feature_epoch() == "table"
    vector = create_contest("knn", {"input": "vector", "size": 6}, kind="tower")
    assert vector.feature_epoch() == "vector+vector-as-it-came"
    tuned = create_contest("classifier", {"encoder": "ab" * 32})
    assert tuned.feature_epoch() == tuned.models[CHALLENGER].feature_epoch()
    assert isinstance(unwrap(table.models[CHALLENGER]), Knn)


def test_an_encoder_is_tuned_only_if_both_models_can_follow() -> None:
    assert can_tune_encoder("ranker", {"challenger": {}}) and can_tune_encoder(
        "classifier", {"challenger": {"options": {}}}
    )
    assert not can_tune_encoder("classifier", {"challenger": {"kind": "knn"}})


def test_the_key_is_passed_to_the_challenger_and_is_not_part_of_the_recipe() -> None:
    options: Options = {"input": "table", "challenger": {"kind": "river"}}
    model = create("knn", {**options, "key": KEY})
    model.learn(labels_only(tables(40)))
    restored = create("knn", {**options, "key": KEY})
    restored.restore(model.state())
    assert restored.fingerprint() == model.fingerprint()
    with pytest.raises(Exception, match="sign"):
        create("knn", {**options, "key": "77" * 32}).restore(model.state())
    assert recipe("knn", options) == recipe("knn", {**options, "key": KEY})
    assert recipe("knn", options) != recipe("knn", {"input": "table"})


def test_uploaded_options_cannot_name_code_for_a_challenger() -> None:
    check_options("river", {"challenger": {"options": {"estimator": "softmax"}}})
    for challenger in (
        {"kind": "tower", "options": {"network": "evil:Net"}},
        {"options": {"estimator": "os.system"}},
        7,
    ):
        with pytest.raises(BadInput):
            check_options("river", {"challenger": challenger})


def test_a_scorer_gets_every_candidate_of_both_models() -> None:
    options = list_every_candidate("ranker", {"challenger": {"options": {"shrinkage": 1.0}}})
    assert options["candidates"] == options["challenger"]["options"]["candidates"] == 1_000_000
    assert options["challenger"]["options"]["shrinkage"] == 1.0


def test_a_resumed_contest_ends_in_the_same_state_as_an_uninterrupted_one() -> None:
    examples = stream(600, ring=True)
    uninterrupted, first, second = (logistic_and_knn(patience=100) for _ in range(3))
    uninterrupted.learn(examples)
    first.learn(examples[:250])
    second.restore(first.state())
    second.learn(examples[250:])
    assert second.fingerprint() == uninterrupted.fingerprint()
    standings = [model.state()["contest"].tensors["table"].tobytes() for model in (uninterrupted, second)]
    assert standings[0] == standings[1]

"""River's classifiers under our contract: built by name, deterministic, and unchanged by predicting."""

import pytest

from online.models import BadExample, Example
from online.plugins.libraries.river import NAMED, River
from tests.models.own_estimators import NoNumber
from tests.models.synthetic import labels_only, row, tables
from tests.support import first_of

ESTIMATORS = [
    *NAMED,
    "linear_model.PAClassifier",
    "naive_bayes.GaussianNB",
    "tree.HoeffdingTreeClassifier",
    "tree.ExtremelyFastDecisionTreeClassifier",
    "tree.SGTClassifier",
    "forest.AMFClassifier",
    "dummy.PriorClassifier",
]
TAUGHT = labels_only(tables(150))
ASKED = [example.features for example in tables(30, seed=5)]


@pytest.fixture(params=first_of(ESTIMATORS, 3))
def model(request: pytest.FixtureRequest) -> River:
    return River({"estimator": request.param})


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (
            "forest.Nothing",
            "river has no 'forest.Nothing'; use a short name .*, a place inside river such as 'forest.ARFClassifier', or 'package.module:factory'",
        ),
        ("nowhere.ARFClassifier", "river has no 'nowhere.ARFClassifier'"),
        ("ARFClassifier", "river has no 'ARFClassifier'"),
        ("", "river has no ''"),
        ("..os.system", r"river has no '\.\.os\.system'"),
        ("linear_model.LinearRegression", "river's linear_model.LinearRegression is not a classifier"),
        ("tree.HoeffdingTreeRegressor", "is not a classifier"),
        ("rules.AMRules", "is not a classifier"),
        ("preprocessing.StandardScaler", "is not a classifier"),
        ("linear_model.base", "is not a classifier"),
        ("optim.FTRLProximal", "river's optim.FTRLProximal is not a classifier"),
        ("ensemble.BaggingClassifier", "does not take these params: .*'model'"),
    ],
)
def test_an_unusable_estimator_is_refused_with_the_reason(estimator: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        River({"estimator": estimator})


def test_an_unknown_parameter_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"tree.HoeffdingTreeClassifier does not take these params: .*'depth'"):
        River({"estimator": "tree.HoeffdingTreeClassifier", "params": {"depth": 3}})


def test_parameters_reach_the_part_that_takes_them() -> None:
    knn = River({"estimator": "knn", "params": {"window_size": 7, "n_neighbors": 3}, "scale": False}).estimator
    assert (knn.engine.window_size, knn.n_neighbors) == (7, 3)
    ftrl = River({"estimator": "ftrl", "params": {"beta": 2.0, "intercept_lr": 0.5}, "scale": False}).estimator
    assert (ftrl.classifier.optimizer.beta, ftrl.classifier.optimizer.alpha) == (2.0, 0.1)
    assert ftrl.classifier.intercept_lr.learning_rate == 0.5


def test_a_parameter_that_no_part_takes_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"neighbors.KNNClassifier does not take these params: .*'window'"):
        River({"estimator": "knn", "params": {"window": 7}})


def test_predict_changes_nothing_from_the_first_call_on(model: River) -> None:
    for example in TAUGHT[:40]:
        before = model.fingerprint()
        model.predict(ASKED[:3])
        assert model.fingerprint() == before
        model.learn([example])


def test_predicting_unknown_names_and_empty_rows_changes_nothing(model: River) -> None:
    model.learn(TAUGHT)
    before = model.fingerprint()
    model.predict([row({"never": 1.0, "heard": "of"}), row({})])
    assert model.fingerprint() == before


def test_the_same_log_leaves_the_same_state(model: River) -> None:
    twin = River(model.options)
    for learner in (model, twin):
        learner.learn(TAUGHT)
    assert twin.fingerprint() == model.fingerprint()
    assert twin.predict(ASKED) == model.predict(ASKED)


def test_every_example_changes_the_fingerprint(model: River) -> None:
    seen = {model.fingerprint()}
    for example in TAUGHT[:20]:
        model.learn([example])
        seen.add(model.fingerprint())
    assert len(seen) >= 20


def test_a_restored_model_answers_and_learns_like_the_original(model: River) -> None:
    model.learn(TAUGHT[:100])
    twin = River(model.options)
    twin.restore(model.state())
    assert (twin.fingerprint(), twin.probes()) == (model.fingerprint(), model.probes())
    assert twin.predict(ASKED) == model.predict(ASKED)
    for learner in (model, twin):
        learner.learn(TAUGHT[100:])
    assert twin.fingerprint() == model.fingerprint()


def test_more_than_two_classes_are_learned(model: River) -> None:
    model.learn(TAUGHT)
    assert len({candidate.id for candidate in model.predict(ASKED[:1])[0].candidates}) == 4


def test_the_seed_of_a_forest_can_be_chosen() -> None:
    one, other = (River({"estimator": "forest.ARFClassifier", "params": {"seed": seed}}) for seed in (1, 2))
    for forest in (one, other):
        forest.learn(TAUGHT)
    assert one.fingerprint() != other.fingerprint()


def test_without_a_scaler_numbers_are_learned_unscaled() -> None:
    model = River({"estimator": "tree.HoeffdingTreeClassifier", "scale": False})
    model.learn(TAUGHT)
    assert "StandardScaler" not in type(model.estimator).__name__
    assert model.predict(ASKED[:1])[0].choice is not None


def test_a_number_that_would_overflow_a_running_variance_is_refused_by_name() -> None:
    model = River({})
    before = model.fingerprint()
    with pytest.raises(BadExample, match=r"width is 1e\+200"):
        model.learn([Example(1, "label", row({"width": 1e200}), "a")])
    assert model.fingerprint() == before


def test_numbers_outside_an_estimators_range_get_no_answer_and_affect_no_other_row() -> None:
    counts = River({"estimator": "naive_bayes.MultinomialNB", "scale": False})
    counts.learn([Example(n, "label", row({"apples": float(n % 2), "pears": 1.0}), "ab"[n % 2]) for n in range(20)])
    counts.learn([Example(20, "label", row({"debts": -5.0}), "a")])
    refused, answered = counts.predict([row({"debts": 1.0}), row({"apples": 3.0})])
    assert (refused.choice, refused.abstained) == (None, True)
    assert answered.choice == "b"


def test_a_key_that_is_not_hexadecimal_is_refused() -> None:
    with pytest.raises(ValueError, match="hex"):
        River({"key": "not hex"})


def test_no_state_contains_the_key() -> None:
    model = River({"key": "c0ffee" * 8})
    model.learn(TAUGHT[:20])
    files = b"".join(tensor.tobytes() for part in model.state().values() for tensor in part.tensors.values())
    assert b"c0ffee" not in files
    assert bytes.fromhex("c0ffee" * 8) not in files


def test_an_estimator_whose_chances_are_not_numbers_abstains() -> None:
    model = River({})
    model.learn(labels_only(tables(10)))
    model.estimator = NoNumber()
    answer = model.predict([row({"width": 1.0})])[0]
    assert answer.abstained
    assert answer.candidates == ()

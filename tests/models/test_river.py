"""River's classifiers under our contract: built by name, asked without being changed, and the same every time."""

import pytest

from online.models import BadExample, Example
from online.models.river import NAMED, River
from tests.models.synthetic import labels_only, row, tables

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


@pytest.fixture(params=ESTIMATORS)
def model(request: pytest.FixtureRequest) -> River:
    return River({"estimator": request.param})


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (
            "forest.Nothing",
            "river has no 'forest.Nothing'; give a name .* or a place inside river such as 'forest.ARFClassifier'",
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
def test_an_estimator_that_cannot_be_had_is_refused_with_the_reason(estimator: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        River({"estimator": estimator})


def test_a_param_that_an_estimator_does_not_take_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"tree.HoeffdingTreeClassifier does not take these params: .*'depth'"):
        River({"estimator": "tree.HoeffdingTreeClassifier", "params": {"depth": 3}})


def test_params_go_to_the_part_that_takes_them() -> None:
    knn = River({"estimator": "knn", "params": {"window_size": 7, "n_neighbors": 3}, "scale": False}).estimator
    assert (knn.engine.window_size, knn.n_neighbors) == (7, 3)
    ftrl = River({"estimator": "ftrl", "params": {"beta": 2.0, "intercept_lr": 0.5}, "scale": False}).estimator
    assert (ftrl.classifier.optimizer.beta, ftrl.classifier.optimizer.alpha) == (2.0, 0.1)
    assert ftrl.classifier.intercept_lr.learning_rate == 0.5


def test_a_param_that_neither_a_named_estimator_nor_its_part_takes_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"neighbors.KNNClassifier does not take these params: .*'window'"):
        River({"estimator": "knn", "params": {"window": 7}})


def test_predict_changes_nothing_from_the_first_question_on(model: River) -> None:
    for example in TAUGHT[:40]:
        before = model.fingerprint()
        model.predict(ASKED[:3])
        assert model.fingerprint() == before
        model.learn([example])


def test_unknown_names_and_empty_rows_change_nothing_either(model: River) -> None:
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


def test_every_lesson_shows_in_the_fingerprint(model: River) -> None:
    seen = {model.fingerprint()}
    for example in TAUGHT[:20]:
        model.learn([example])
        seen.add(model.fingerprint())
    assert len(seen) >= 20


def test_a_restored_model_answers_and_learns_on_like_the_first(model: River) -> None:
    model.learn(TAUGHT[:100])
    twin = River(model.options)
    twin.restore(model.state())
    assert (twin.fingerprint(), twin.probes()) == (model.fingerprint(), model.probes())
    assert twin.predict(ASKED) == model.predict(ASKED)
    for learner in (model, twin):
        learner.learn(TAUGHT[100:])
    assert twin.fingerprint() == model.fingerprint()


def test_more_than_two_labels_are_no_problem(model: River) -> None:
    model.learn(TAUGHT)
    assert len({candidate.id for candidate in model.predict(ASKED[:1])[0].candidates}) == 4


def test_a_forest_may_have_another_seed() -> None:
    one, other = (River({"estimator": "forest.ARFClassifier", "params": {"seed": seed}}) for seed in (1, 2))
    for forest in (one, other):
        forest.learn(TAUGHT)
    assert one.fingerprint() != other.fingerprint()


def test_without_a_scaler_the_numbers_are_learned_as_they_are() -> None:
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


def test_numbers_that_an_estimators_formulas_do_not_hold_for_get_no_answer_and_harm_no_other() -> None:
    counts = River({"estimator": "naive_bayes.MultinomialNB", "scale": False})
    counts.learn([Example(n, "label", row({"apples": float(n % 2), "pears": 1.0}), "ab"[n % 2]) for n in range(20)])
    counts.learn([Example(20, "label", row({"debts": -5.0}), "a")])
    refused, answered = counts.predict([row({"debts": 1.0}), row({"apples": 3.0})])
    assert (refused.choice, refused.abstained) == (None, True)
    assert answered.choice == "b"


def test_a_key_that_is_no_hex_is_refused() -> None:
    with pytest.raises(ValueError, match="hex"):
        River({"key": "not hex"})


def test_the_key_is_in_no_state() -> None:
    model = River({"key": "c0ffee" * 8})
    model.learn(TAUGHT[:20])
    files = b"".join(tensor.tobytes() for part in model.state().values() for tensor in part.tensors.values())
    assert b"c0ffee" not in files
    assert bytes.fromhex("c0ffee" * 8) not in files

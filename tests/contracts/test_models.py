"""One suite over every kind of model, with the options that users choose."""

import copy
import json
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Any

import numpy as np
import pytest
import torch
from msgspec import structs

from online.models import (
    KINDS,
    Answer,
    BadExample,
    Example,
    Model,
    Options,
    State,
    StatePart,
    admit,
    checks,
    choose,
    create,
    input_options,
    spec_of,
    state_is_signed,
    unpack_json,
)
from online.models.checks import Subject, to_bytes, write_and_read
from online.models.wrappers import find_answering
from online.plugins.libraries.river import NAMED
from online.plugins.regression.tracking.tracker import ROOM
from tests.models.synthetic import (
    KNOWN,
    NEWCOMER,
    TOPICS,
    labels_only,
    numbers,
    ranker_log,
    replies,
    reply,
    routed,
    row,
    tables,
    text,
    texts,
    vectors,
)

COUNT = 260  # past the classifier's warm-up of 200
KEY = "5e" * 32


Log = Callable[[int, int, range], list[Example]]


@dataclass(frozen=True, eq=False)
class Case:
    """One model kind with its options and data.

    log: (count, seed, topics) -> a log. bad: examples that the model refuses. exact: any order of the examples gives
    the same state, and unlearning subtracts. warms_up: the first 200 examples decide the scales; the order within
    them does not matter, nor that of the later examples. reads_inputs: the answer depends on the input.
    """

    name: str
    kind: str
    options: Options
    log: Callable[[int, int, range], list[Example]]
    bad: Sequence[Example]
    exact: bool = True
    warms_up: bool = False
    reads_inputs: bool = True

    def examples(self, count: int, seed: int = 0, among: range = KNOWN) -> list[Example]:
        return list(self._examples(count, seed, among))

    @lru_cache(maxsize=64)  # noqa: B019 (the cases exist as long as the suite)
    def _examples(self, count: int, seed: int, among: range) -> tuple[Example, ...]:
        return tuple(self.log(count, seed, among))

    @cache  # noqa: B019 (the cases exist as long as the suite)
    def subject(self, count: int = COUNT) -> Subject:
        """What the checks for users take: the model with its first examples."""
        inputs, first = unseen_inputs(self), len(self.introduction())
        return Subject(self.kind, self.options, self.examples(count), inputs, self.bad, first, self.exact)

    def introduction(self) -> list[Example]:
        """The examples that must be learned before all others."""
        return replies() if self.kind == "ranker" else []

    def model(self) -> Model:
        return create(self.kind, self.options)

    def train(self, examples: Sequence[Example]) -> Model:
        """Return a new model that has learned the examples in one batch.

        Most tests need one that has learned the usual examples. They get copies of a single one.
        """
        if examples == self.examples(COUNT):
            return copy.deepcopy(self._usual_model())
        model = self.model()
        model.learn(examples)
        return model

    @cache  # noqa: B019 (the cases exist as long as the suite)
    def _usual_model(self) -> Model:
        model = self.model()
        model.learn(self.examples(COUNT))
        return model


NO_LABEL = Example(9_000, "reward", b"", "")
BAD_TEXTS = [
    Example(9_001, "label", b"short", TOPICS[0]),
    Example(9_002, "correction", text(0, 1), TOPICS[0]),
    structs.replace(NO_LABEL, features=text(0, 1)),
]
BAD_VECTORS = [
    Example(9_001, "label", np.zeros(5).tobytes(), TOPICS[0]),
    Example(9_002, "correction", np.zeros(6).tobytes(), TOPICS[0]),
    Example(9_003, "retire", b"", ""),
    structs.replace(NO_LABEL, features=np.zeros(6).tobytes()),
]
BAD_TABLES = [
    Example(9_001, "label", b"\xff\x00 no JSON", TOPICS[0]),
    Example(9_002, "label", b"[1.0]", TOPICS[0]),
    Example(9_003, "reply", b"{}", TOPICS[0]),
    structs.replace(NO_LABEL, features=b"{}"),
]
BAD_ROWS = [*BAD_TABLES, Example(9_004, "label", b'{"width":[1.0]}', TOPICS[0])]
BAD_FOR_RANKERS = [
    Example(9_001, "label", b"short", TOPICS[0]),
    Example(9_002, "correction", text(0, 1), "an unknown reply"),
    Example(9_003, "retire", b"", "an unknown reply"),
    Example(9_004, "reply", b"short", "new", "A reply that was not encoded."),
]
BAD_NUMBERS = [
    Example(9_001, "label", b"{}", "mango"),
    Example(9_002, "label", b"{}", "nan"),
    Example(9_003, "label", b"{}", "-inf"),
    Example(9_004, "label", b"{}", ""),
    Example(9_005, "label", b"{}", "1e301"),
    Example(9_006, "reward", b"{}", "1.0", reward=1.0),
    Example(9_007, "correction", b"{}", "1.0"),
    Example(9_008, "label", b"short", "1.0"),
]
BAD_FOR_ROUTERS = [
    *BAD_TEXTS,
    Example(9_010, "outcome", text(0, 1), TOPICS[0], "{}"),
    Example(9_011, "outcome", text(0, 1), TOPICS[0], '{"cost": -1.0}'),
    Example(9_012, "outcome", text(0, 1), TOPICS[0], "[]"),
    Example(9_013, "reward", text(0, 1) + b"x", TOPICS[0]),
    Example(9_014, "declare", b"", "", '{"speed": 1}'),
    Example(9_015, "declare", b"", TOPICS[0], '{"price_in": "much"}'),
    Example(9_016, "declare", b"", TOPICS[0], "no JSON"),
    Example(9_017, "reply", text(0, 1), TOPICS[0], "A reply."),
]
BAD_FOR_RIVER = [*BAD_TABLES, Example(9_005, "reward", b"{}", TOPICS[0], reward=0.0)]


OWN = "tests.models.own_estimators"
NEAREST_MEAN = "tests.models.nearest_mean:NearestMean"
NEGATIVE_TEXT = Example(9_005, "reward", text(0, 1), TOPICS[0], reward=0.0)
admit(NEAREST_MEAN)


def river_case(name: str, estimator: str, **params: int) -> Case:
    options = {"estimator": estimator, "params": params, "key": KEY}
    return Case(name, "river", options, lambda *log: labels_only(tables(*log)), BAD_FOR_RIVER, exact=False)


def own_river_case(name: str, factory: str, **options: Any) -> Case:
    path = {"estimator": f"tests.models.own_estimators:{factory}", "key": KEY}
    return Case(name, "river", {**path, **options}, lambda *log: labels_only(tables(*log)), BAD_FOR_RIVER, exact=False)


def sklearn_case(name: str, options: Options, log: Log, bad: Sequence[Example]) -> Case:
    keyed = {"key": KEY, **options}
    return Case(name, "sklearn", keyed, lambda *each: labels_only(log(*each)), bad, exact=False)


def wrapped_number_case(name: str, kind: str, options: Options, log: Log) -> Case:
    return replace(number_case(name, {"key": KEY, **options}, log, False), kind=kind, exact=False)


def number_case(name: str, options: Options, log: Callable[[int, int, range], list[Example]], warms_up: bool) -> Case:
    def targets(count: int, seed: int, among: range) -> list[Example]:
        return numbers(log(count * 5 // 4 + 1, seed, among))[:count]  # a fifth of a log's lines are thumbs

    return Case(name, "regressor", options, targets, BAD_NUMBERS, warms_up=warms_up)


SMALL = {"hat": {"grace_period": 30}, "arf": {"n_models": 3, "grace_period": 30}, "srp": {"n_models": 3}}
VECTOR: Options = {"input": "vector", "size": 6}
TABLE: Options = {"input": "table"}
TWO = {"tree": {"kind": "river", "estimator": "tree.HoeffdingTreeClassifier"}, "near": {"kind": "knn"}}
LINE: Options = {"kind": "logistic", "options": {"waves": 8}, "patience": 20}
TREE: Options = {"kind": "river", "options": {"estimator": "tree.HoeffdingTreeClassifier"}, "score_every": 2}
ROUGH: Options = {"options": {"target_scale": 64.0}, "score_every": 16}
SOFTER: Options = {"options": {"shrinkage": 10.0}, "score_every": 16}
NEAR: Options = {"kind": "knn", "score_every": 16}
NARROW: Options = {"hidden": [32], "buffer": 100}
ACE_IN_EIGHTS: Options = {"strategy": "er_ace", "batch": 8}
RP: Options = {"head": "rp_ridge", "random_features": 64}
BEST: Options = {"scale": 4.0, "head": "best", "random_features": 64}
THREE = {"near": {"kind": "knn"}, "curve": {"kind": "logistic", "waves": 8}, "slda": {"kind": "classifier"}}
EXACT_PAIR = [{"kind": "classifier", "scale": 4.0}, {"kind": "majority"}]
MIXED = {"members": [TWO["tree"], TWO["near"], {"kind": "tower", "hidden": [32], "buffer": 100}]}
CASES = [
    Case("ranker", "ranker", {}, ranker_log, BAD_FOR_RANKERS),
    Case("ranker-lin_ts", "ranker", {"policy": "lin_ts"}, ranker_log, BAD_FOR_RANKERS),
    Case("text", "classifier", {"input": "text"}, texts, BAD_TEXTS),
    Case("text-windowed", "classifier", {"input": "text", "window": 20, "drift_window": 16}, texts, BAD_TEXTS),
    Case("text-aged", "classifier", {"input": "text", "max_age": 128, "window": 20}, texts, BAD_TEXTS),
    Case("vector", "classifier", VECTOR, vectors, BAD_VECTORS, warms_up=True),
    Case("vector-scaled", "classifier", {**VECTOR, "scale": 4.0}, vectors, BAD_VECTORS),
    Case("table", "classifier", TABLE, tables, BAD_ROWS, warms_up=True),
    Case("table-windowed", "classifier", {**TABLE, "window": 20}, tables, BAD_ROWS, warms_up=True),
    Case("table-aged", "classifier", {**TABLE, "max_age": 128}, tables, BAD_ROWS, warms_up=True),
    Case("table-scaled", "classifier", {**TABLE, "scale": 16.0}, tables, BAD_ROWS),
    Case("rp-text", "classifier", RP, texts, BAD_TEXTS),
    Case("ridge-table", "classifier", {**TABLE, "head": "ridge"}, tables, BAD_ROWS, warms_up=True),
    Case("rp-table", "classifier", {**TABLE, "scale": 16.0, **RP}, tables, BAD_ROWS),
    Case("best-vector", "classifier", {**VECTOR, **BEST}, vectors, BAD_VECTORS),
    Case("rp-vector-aged", "classifier", {**VECTOR, "scale": 4.0, **RP, "max_age": 128}, vectors, BAD_VECTORS),
    Case("knn-text", "knn", {"input": "text"}, texts, BAD_TEXTS),
    Case("knn-vector", "knn", VECTOR, vectors, BAD_VECTORS),
    Case("knn-table", "knn", TABLE, tables, BAD_ROWS),
    Case("knn-full", "knn", {**TABLE, "window": 100}, tables, BAD_ROWS, exact=False),
    Case("router-labels", "router", {}, texts, BAD_TEXTS),
    Case("router", "router", {}, routed, BAD_FOR_ROUTERS),
    Case("majority", "majority", TABLE, tables, BAD_ROWS, reads_inputs=False),
    Case("logistic-vector", "logistic", VECTOR, vectors, BAD_VECTORS, exact=False),
    Case("logistic-table", "logistic", {**TABLE, "waves": 8}, tables, BAD_ROWS, exact=False),
    Case("best-of-three", "best_of", {**VECTOR, "contenders": THREE}, vectors, BAD_VECTORS, exact=False),
    Case(
        "best-of-two", "best_of", {**TABLE, "vote": False, "contenders": TWO, "key": KEY}, tables, BAD_ROWS, exact=False
    ),
    Case("ensemble-average", "ensemble", {**VECTOR, "members": EXACT_PAIR}, vectors, BAD_VECTORS),
    Case("ensemble-vote", "ensemble", {**TABLE, "combine": "vote", **MIXED, "key": KEY}, tables, BAD_ROWS, exact=False),
    number_case("number-text", {"input": "text"}, texts, warms_up=True),
    number_case("number-text-scaled", {"input": "text", "target_scale": 64.0}, texts, warms_up=False),
    number_case("number-vector", VECTOR, vectors, warms_up=True),
    number_case("number-table", {**TABLE, "target_scale": 64.0}, tables, warms_up=True),
    number_case("number-table-scaled", {**TABLE, "scale": 16.0, "target_scale": 64.0}, tables, warms_up=False),
    Case("ranker-challenged", "ranker", {"challenger": SOFTER}, ranker_log, BAD_FOR_RANKERS),
    Case("text-challenged", "classifier", {"input": "text", "challenger": NEAR}, texts, BAD_TEXTS),
    Case("challenged-by-line", "knn", {**TABLE, "challenger": LINE}, tables, BAD_ROWS, exact=False),
    Case("challenged-by-tree", "classifier", {**TABLE, "challenger": TREE, "key": KEY}, tables, BAD_ROWS, exact=False),
    number_case("number-challenged", {**VECTOR, "challenger": ROUGH}, vectors, warms_up=True),
    Case("tower-text", "tower", {"input": "text", **NARROW, "batch": 4}, texts, BAD_TEXTS, exact=False),
    Case("tower-vector", "tower", {**VECTOR, **NARROW, **ACE_IN_EIGHTS}, vectors, BAD_VECTORS, exact=False),
    Case("tower-table", "tower", {**TABLE, **NARROW, "strategy": "derpp", "batch": 2}, tables, BAD_ROWS, exact=False),
    *(river_case(name, name, **SMALL.get(name, {})) for name in NAMED),
    river_case("bayes", "naive_bayes.GaussianNB"),
    own_river_case("river-pipeline", "pipeline", params={"l2": 0.001}),
    own_river_case("river-own-bayes", "bayes"),
    wrapped_number_case("river-regressor", "river_regressor", {}, tables),
    wrapped_number_case("river-tree", "river_regressor", {"estimator": "tree.HoeffdingTreeRegressor"}, tables),
    wrapped_number_case("river-own-regressor", "river_regressor", {"estimator": f"{OWN}:regressor"}, tables),
    wrapped_number_case("river-forecaster", "river_regressor", {"estimator": f"{OWN}:forecaster"}, tables),
    sklearn_case("sklearn-text", {}, texts, [*BAD_TEXTS, NEGATIVE_TEXT]),
    sklearn_case("sklearn-vector", {**VECTOR, "estimator": f"{OWN}:sgd", "buffer": 100}, vectors, BAD_VECTORS),
    sklearn_case("sklearn-table", {**TABLE, "estimator": "perceptron"}, tables, BAD_FOR_RIVER),
    sklearn_case("sklearn-bells", {**TABLE, "estimator": "naive_bayes.GaussianNB"}, tables, BAD_FOR_RIVER),
    sklearn_case("sklearn-counts", {**TABLE, "estimator": "naive_bayes.BernoulliNB"}, tables, BAD_FOR_RIVER),
    sklearn_case("sklearn-declared", {**VECTOR, "classes": [*TOPICS, NEWCOMER]}, vectors, BAD_VECTORS),
    wrapped_number_case("sklearn-number-table", "sklearn_regressor", TABLE, tables),
    wrapped_number_case("sklearn-number-own", "sklearn_regressor", {**VECTOR, "estimator": f"{OWN}:mlp"}, vectors),
    Case("own-class", NEAREST_MEAN, {}, lambda *log: labels_only(tables(*log)), BAD_FOR_RIVER),
]
EXACT = [case for case in CASES if case.exact]
CHOOSERS = [
    case for case in CASES if not spec_of(case.kind).predicts_numbers
]  # they answer with one of the classes or replies that they know
REGRESSORS = [case for case in CASES if spec_of(case.kind).predicts_numbers]
SUITES = {
    "case": CASES,
    "exact": EXACT,
    "chooser": CHOOSERS,
    "exact_chooser": [case for case in CHOOSERS if case.exact],
    "regressor": REGRESSORS,
    "wrapped": [case for case in CASES if state_is_signed(case.kind) and not spec_of(case.kind).is_ensemble],
    "warming": [case for case in CASES if case.warms_up],
}
# cases that differ little from others: run by `make test-all`
RARE = {
    *(
        "sklearn-declared",
        "sklearn-vector",
        "sklearn-number-own",
        "river-own-bayes",
        "river-own-regressor",
        "tower-table",
    ),
    *("challenged-by-tree", "text-aged", "table-aged", "number-text", "softmax"),
}
# one case for each way in which a model stores its state; the other cases differ from these only in options
MECHANISMS = {
    *(
        "ranker",
        "text",
        "vector",
        "table-windowed",
        "rp-vector-aged",
        "knn-table",
        "knn-full",
        "logistic-vector",
        "majority",
    ),
    *(
        "best-of-two",
        "ensemble-average",
        "number-table-scaled",
        "number-vector",
        "text-challenged",
        "tower-vector",
        "hat",
        "ftrl",
    ),
}


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """Use one thread: these matrices are small, and on a busy machine a second thread costs ten times what it saves."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test marked `every_case` for every case, and any other test for one case of each mechanism.

    every_case("long"): the cases of the same mechanism run with --all.
    """
    every = metafunc.definition.get_closest_marker("every_case")
    rare = {case.name for case in CASES if every and every.args and case.name not in MECHANISMS} | RARE
    for name in SUITES.keys() & set(metafunc.fixturenames):
        cases = [case for case in SUITES[name] if every or case.name in MECHANISMS]
        marks = {True: [pytest.mark.long], False: []}
        params = [pytest.param(case, id=case.name, marks=marks[case.name in rare]) for case in cases]
        metafunc.parametrize(name, params)


def unseen_inputs(case: Case) -> list[bytes]:
    """Return 20 inputs that are not in the training examples."""
    return [example.features for example in case.examples(COUNT, 7)[-40:] if example.features][:20]


def restore(case: Case, state: State) -> Model:
    model = case.model()
    model.restore(write_and_read(state))
    return model


def train_one_by_one(case: Case, examples: Sequence[Example], without: set[int]) -> Model:
    """Return a model that has learned one example at a time, as the learner does, without those offsets.

    Examples that the model refuses are left out.
    """
    model = case.model()
    for example in examples:
        if example.offset not in without:
            try:
                model.learn([example])
            except BadExample:
                continue
    return model


def shuffle(examples: Sequence[Example], seed: int) -> list[Example]:
    return [examples[int(place)] for place in np.random.default_rng(seed).permutation(len(examples))]


def repeat(examples: Sequence[Example], times: int) -> list[Example]:
    return [structs.replace(e, offset=e.offset + 10_000 * again) for again in range(1, times + 1) for e in examples]


def test_every_registered_kind_is_in_this_suite() -> None:
    assert {case.kind for case in CASES} == {*KINDS, NEAREST_MEAN}


def test_an_unknown_kind_is_refused_with_a_list_of_the_kinds() -> None:
    with pytest.raises(ValueError, match="unknown model kind 'oracle'; use one of ranker, classifier"):
        create("oracle", {})


@pytest.mark.every_case("long")
def test_an_unknown_option_is_refused_by_name(case: Case) -> None:
    with pytest.raises(ValueError, match="unknown option 'speed'"):
        create(case.kind, {**case.options, "speed": 3})


def test_an_option_of_the_wrong_type_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="option 'size' must be int, not '6'"):
        create("classifier", {"input": "vector", "size": "6"})


# predict


@pytest.mark.every_case("long")
def test_predict_changes_nothing(case: Case) -> None:
    checks.check_predict_changes_nothing(case.subject())


def test_predict_changes_nothing_during_a_warm_up(warming: Case) -> None:
    checks.check_predict_changes_nothing(warming.subject(30))


def test_predicting_between_examples_does_not_change_what_is_learned(case: Case) -> None:
    checks.check_predicting_between_examples(case.subject())


def test_an_untrained_model_answers_without_a_choice(case: Case) -> None:
    checks.check_untrained(case.subject())


@pytest.mark.every_case("long")
def test_answers_are_the_same_alone_and_in_a_batch(case: Case) -> None:
    checks.check_answers_in_batches(case.subject())


@pytest.mark.every_case("long")
def test_the_choices_alone_are_those_of_the_answers(case: Case) -> None:
    for model in (case.model(), case.train(case.examples(COUNT))):
        for inputs in ([], unseen_inputs(case)):
            assert choose(model, inputs) == [answer.choice for answer in model.predict(inputs)]


@pytest.mark.every_case("long")
def test_nine_of_ten_unseen_inputs_are_answered_correctly(chooser: Case) -> None:
    if not chooser.reads_inputs:
        pytest.skip("it answers every input with the most frequent class")
    model, later = chooser.train(chooser.examples(COUNT)), chooser.examples(COUNT, 1)
    labelled = [e for e in later if e.kind in ("label", "correction") and e.label in TOPICS]
    answers = model.predict([example.features for example in labelled])
    correct = sum(answer.choice == example.label for answer, example in zip(answers, labelled, strict=True))
    assert correct >= 0.9 * len(labelled)


@pytest.mark.every_case("long")
def test_the_error_is_half_that_of_the_median_or_less(regressor: Case) -> None:
    model, later = regressor.train(regressor.examples(COUNT)), regressor.examples(COUNT, 1)
    targets = np.array([float(example.label) for example in later])
    answers = model.predict([example.features for example in later])
    error = np.abs([float(answer.choice or "nan") for answer in answers] - targets)
    assert error.mean() < 0.5 * np.abs(targets - np.median(targets)).mean()
    for answer in answers:
        assert answer.interval is not None and answer.candidates == ()
        assert answer.interval[0] < float(answer.choice or "nan") < answer.interval[1]


def test_candidates_are_sorted_by_score_and_scores_are_probabilities(case: Case) -> None:
    checks.check_candidates(case.subject())


@pytest.mark.every_case
def test_every_probe_gets_the_expected_answer(case: Case) -> None:
    checks.check_probes(case.subject())


# learn


@pytest.mark.every_case
def test_one_by_one_equals_batches(case: Case) -> None:
    check_batches(case, (7, 8, 90, 199, 230))


@pytest.mark.parametrize("cuts", [(), (1,), (200,), (201,), (150, 210)], ids=str)
def test_batches_may_be_cut_anywhere_in_a_warm_up(warming: Case, cuts: tuple[int, ...]) -> None:
    check_batches(warming, cuts)


def test_one_batch_may_hold_everything(case: Case) -> None:
    check_batches(case, ())


def check_batches(case: Case, cuts: tuple[int, ...]) -> None:
    examples = case.examples(COUNT)
    one_by_one, batched = train_one_by_one(case, examples, set()), case.model()
    for start, end in zip((0, *cuts), (*cuts, len(examples)), strict=True):
        batched.learn(examples[start:end])
    assert batched.fingerprint() == one_by_one.fingerprint()
    if case.exact:
        assert to_bytes(batched.state()) == to_bytes(one_by_one.state())


@pytest.mark.every_case
def test_an_exact_model_learns_the_same_in_any_order(exact: Case) -> None:
    seed = 1
    examples = exact.examples(COUNT)
    first = 200 if exact.warms_up else len(exact.introduction())
    start = shuffle(examples[:first], seed) if exact.warms_up else examples[:first]
    another = exact.train([*start, *shuffle(examples[first:], seed)])
    assert another.fingerprint() == exact.train(examples).fingerprint()


def test_the_order_of_a_warm_up_does_not_matter(exact: Case) -> None:
    examples = exact.examples(150)
    first = len(exact.introduction())
    another = exact.train([*examples[:first], *shuffle(examples[first:], 3)])
    assert another.fingerprint() == exact.train(examples).fingerprint()


@pytest.mark.parametrize("count", [50, COUNT])
def test_equal_examples_leave_equal_fingerprints_and_others_another(case: Case, count: int) -> None:
    checks.check_fingerprint(case.subject(count))


def test_learning_and_predicting_do_not_modify_their_arguments(case: Case) -> None:
    checks.check_arguments(case.subject())


# retire, restore


def retirements(*names: str, start: int = 20_000) -> list[Example]:
    """Return events that retire these classes or replies, in this order; "-mango" restores mango."""
    return [
        Example(offset, "restore" if name.startswith("-") else "retire", b"", name.removeprefix("-"))
        for offset, name in enumerate(names, start)
    ]


def chosen_or_listed(answers: Sequence[Answer]) -> set[str]:
    """Return the classes that are an answer's choice or among its candidates."""
    return {candidate.id for answer in answers for candidate in answer.candidates} | {
        a.choice for a in answers if a.choice
    }


@pytest.mark.every_case("long")
def test_a_retired_class_is_neither_chosen_nor_listed(chooser: Case) -> None:
    model = chooser.train(chooser.examples(COUNT))
    assert set(TOPICS) <= chosen_or_listed(model.predict(unseen_inputs(chooser)))
    model.learn(retirements("mango", "olive", "-mango", "mango"))
    for each in (model, restore(chooser, model.state()), restore(chooser, model.state(serving_only=True))):
        answers = each.predict(unseen_inputs(chooser))
        assert {"melon", "nut"} <= chosen_or_listed(answers) and not {"mango", "olive"} & chosen_or_listed(answers)
        for answer in answers:
            assert answer.abstained or answer.choice == answer.candidates[0].id
        assert choose(each, unseen_inputs(chooser)) == [answer.choice for answer in answers]


def test_nothing_is_chosen_when_every_class_is_retired(chooser: Case) -> None:
    model = chooser.train(chooser.examples(COUNT))
    model.learn(retirements(*TOPICS, "other"))
    for answer in model.predict(unseen_inputs(chooser)):
        assert (answer.choice, answer.candidates) == (None, ())


def test_a_restored_class_is_chosen_as_if_it_had_never_been_retired(chooser: Case) -> None:
    before, meanwhile = chooser.examples(230), repeat(chooser.examples(COUNT, 3)[-40:], 1)
    model, never = chooser.train(before), chooser.train([*before, *meanwhile])
    model.learn(retirements("mango", "nut"))
    model.learn(meanwhile)
    assert not {"mango", "nut"} & chosen_or_listed(model.predict(unseen_inputs(chooser)))
    model.learn(retirements("-nut", "-mango", start=30_000))
    assert model.predict(unseen_inputs(chooser)) == never.predict(unseen_inputs(chooser))


def test_the_order_in_which_retirements_are_learned_does_not_matter(chooser: Case) -> None:
    seed = 1
    events = retirements("mango", "nut", "-mango", "olive", "-nut", "nut", "-olive")
    one, other = (chooser.train([*chooser.examples(30), *order]) for order in (events, shuffle(events, seed)))
    assert one.fingerprint() == other.fingerprint()
    assert one.predict(unseen_inputs(chooser)) == other.predict(unseen_inputs(chooser))


def test_unlearning_a_retirement_leaves_the_state_without_it(chooser: Case) -> None:
    events = retirements("mango", "nut", "-mango", "mango")
    model, never = (chooser.train([*chooser.examples(60), *some]) for some in (events, events[:1]))
    assert model.fingerprint() != never.fingerprint()
    model.unlearn(events[1:])
    assert model.fingerprint() == never.fingerprint()
    assert model.predict(unseen_inputs(chooser)) == never.predict(unseen_inputs(chooser))
    model.unlearn(events[:1])
    assert model.fingerprint() == chooser.train(chooser.examples(60)).fingerprint()


def test_a_retirement_does_not_change_what_else_is_learned(chooser: Case) -> None:
    model = chooser.train(chooser.examples(230))
    model.learn(retirements("mango"))
    model = restore(chooser, model.state())
    model.learn(repeat(chooser.examples(COUNT, 3)[-30:], 1))
    model.unlearn(retirements("mango"))
    never = chooser.train([*chooser.examples(230), *repeat(chooser.examples(COUNT, 3)[-30:], 1)])
    assert model.fingerprint() == never.fingerprint()


def new_class_examples(case: Case) -> list[Example]:
    """Return examples of a class that sorts before all others."""
    start = len(case.introduction())
    learned = [e for e in case.examples(start + 60, 9, range(4, 5))[start:] if e.label == NEWCOMER]
    return [*([reply(4, 0, NEWCOMER)] if start else []), *learned]


def test_a_new_class_is_learned_late(chooser: Case) -> None:
    if not chooser.reads_inputs:
        pytest.skip("it answers every input with the most frequent class")
    model = chooser.train(chooser.examples(COUNT))
    model.learn(repeat(new_class_examples(chooser), 1))
    later = [e.features for e in chooser.examples(COUNT, 4, range(4, 5)) if e.label == NEWCOMER][-40:]
    answers = model.predict(later)
    assert sum(answer.choice == NEWCOMER for answer in answers) >= 0.9 * len(later)


def test_a_new_class_does_not_change_the_answers_for_the_old_ones(exact_chooser: Case) -> None:
    if "max_age" in exact_chooser.options:
        pytest.skip("the old classes have expired when the new one arrives")
    model = exact_chooser.train(exact_chooser.examples(COUNT))
    inputs = [e.features for e in exact_chooser.examples(COUNT, 1) if e.label in TOPICS and len(e.features)]
    before = [answer.choice for answer in model.predict(inputs)]
    model.learn(repeat(new_class_examples(exact_chooser), 1))
    after = [answer.choice for answer in model.predict(inputs)]
    assert sum(b == a for b, a in zip(before, after, strict=True)) >= 0.95 * len(inputs)


def test_the_index_of_a_class_never_changes(exact_chooser: Case) -> None:
    if exact_chooser.kind in ("knn", "majority", "ensemble", NEAREST_MEAN):
        pytest.skip("it has no indices of its own: the class is stored by its name, or by its members")
    model, before = exact_chooser.model(), list[str]()
    examples = [*exact_chooser.examples(COUNT), *repeat(new_class_examples(exact_chooser), 1)]
    if exact_chooser.kind == "classifier":  # the first event about a class may be that it is wrong
        examples.insert(0, structs.replace(examples[0], offset=0, label="zebra", reward=0.0))
    for start in range(0, len(examples), 3):
        model.learn(examples[start : start + 3])
        classes = indexed_classes(exact_chooser, model)
        assert classes[: len(before)] == before
        before = classes
    assert {*TOPICS, NEWCOMER} <= set(before)


def indexed_classes(case: Case, model: Model) -> list[str]:
    _, answering = find_answering(case.kind, case.options, model)
    meta = unpack_json(answering.state(serving_only=True)["weights"].tensors["meta"])
    return [str(name) for name in meta["labels"]] if isinstance(meta, dict) else [str(id) for id, _ in meta]


@pytest.mark.every_case("long")
def test_a_bad_example_in_the_middle_of_a_batch_changes_nothing(case: Case) -> None:
    check_bad_examples(case, COUNT)


def test_a_bad_example_in_the_middle_of_a_warm_up_changes_nothing(warming: Case) -> None:
    check_bad_examples(warming, 30)


def check_bad_examples(case: Case, learned: int) -> None:
    examples, more = case.examples(learned), repeat(case.examples(20, 3)[-6:], 1)
    model = case.train(examples)
    before = model.fingerprint(), to_bytes(model.state())
    for bad in case.bad:
        with pytest.raises(BadExample):
            model.learn([*more[:3], bad, *more[3:]])
        assert (model.fingerprint(), to_bytes(model.state())) == before
    model.learn(more)
    assert model.fingerprint() == case.train([*examples, *more]).fingerprint()


@pytest.mark.few(5)
@pytest.mark.every_case("long")
def test_learning_the_same_examples_repeatedly_does_not_grow_the_state(exact: Case) -> None:
    bounds = {
        "ranker": {"max_exemplars": 100},
        "knn": {"window": 100},
    }  # the other kinds are bounded without an option
    exact = replace(exact, options=bounded(exact.kind, exact.options, bounds))
    examples = exact.examples(COUNT)
    model = exact.train(examples)
    thumbs = [example for example in examples if example.kind in ("label", "reward", "correction")]
    model.learn(repeat(thumbs, 3 + ROOM // len(thumbs)))  # a regressor stores so many of its newest rows
    before = state_bytes(model)
    model.learn(repeat(repeat(thumbs, 1), 110)[-3 * len(thumbs) :])
    assert state_bytes(model) <= 1.05 * before


def bounded(kind: str, options: Options, bounds: Mapping[str, Options]) -> Options:
    """Return the options with the bounds of this kind, also inside a challenger."""
    added = {**options, **bounds.get(kind, {})}
    if challenger := added.get("challenger"):
        inner = bounded(challenger.get("kind", kind), challenger.get("options", {}), bounds)
        added["challenger"] = {**challenger, "options": inner}
    return added


def state_bytes(model: Model) -> int:
    tensors = (tensor for part in model.state().values() for tensor in part.tensors.values())
    return sum(tensor.nbytes for tensor in tensors)


# state


@pytest.mark.every_case("long")
def test_a_state_survives_files_and_its_serving_parts_predict_the_same(case: Case) -> None:
    checks.check_state(case.subject())


@pytest.mark.parametrize("count", [1, 30])
def test_the_state_of_few_examples_survives_files(case: Case, count: int) -> None:
    checks.check_state(case.subject(count))


def test_the_state_at_the_end_of_a_warm_up_survives_files(warming: Case) -> None:
    checks.check_state(warming.subject(200))


@pytest.mark.every_case("long")
def test_learning_resumes_where_it_was_interrupted(case: Case) -> None:
    check_learning_resumes(case, 230)


def test_learning_resumes_after_few_examples(case: Case) -> None:
    check_learning_resumes(case, 30)


@pytest.mark.parametrize("count", [1, 199])
def test_learning_resumes_in_a_warm_up(warming: Case, count: int) -> None:
    check_learning_resumes(warming, count)


def check_learning_resumes(case: Case, count: int) -> None:
    examples = case.examples(COUNT)
    resumed = restore(case, case.train(examples[:count]).state())
    resumed.learn(examples[count:])
    uninterrupted = case.train(examples)
    assert resumed.fingerprint() == uninterrupted.fingerprint()
    assert resumed.predict(unseen_inputs(case)) == uninterrupted.predict(unseen_inputs(case))
    if case.exact:
        assert to_bytes(resumed.state()) == to_bytes(uninterrupted.state())


def test_restoring_a_state_replaces_everything_learned_before(case: Case) -> None:
    first, second = case.train(case.examples(COUNT)), case.train(case.examples(230, 1))
    second.restore(write_and_read(first.state()))
    assert second.fingerprint() == first.fingerprint()
    assert second.predict(unseen_inputs(case)) == first.predict(unseen_inputs(case))


@pytest.mark.parametrize("count", [30, COUNT])
def test_learning_does_not_modify_a_state_returned_earlier(case: Case, count: int) -> None:
    examples = case.examples(COUNT + 40)
    model = case.train(examples[:count])
    state = model.state()
    before = to_bytes(state)
    model.learn(examples[count:])
    assert to_bytes(state) == before


def test_a_restored_model_does_not_modify_the_state_it_was_restored_from(case: Case) -> None:
    examples = case.examples(COUNT)
    state = write_and_read(case.train(examples[:230]).state())
    before, model = to_bytes(state), case.model()
    model.restore(state)
    model.learn(examples[230:])
    model.predict(unseen_inputs(case))
    assert to_bytes(state) == before


def test_equal_revisions_of_a_part_mean_equal_tensors(case: Case) -> None:
    examples, written = case.examples(60), dict[tuple[str, int], bytes]()
    for skipped in (6, 7):  # two models in one process, as after a retraction that needs a replay
        model = case.train([*case.introduction(), *examples[skipped:40]])
        for example in examples[40:]:
            model.learn([example])
            state = model.state()
            for name, data in to_bytes(state).items():
                if (revision := state[name].revision) is not None:
                    assert written.setdefault((name, revision), data) == data


@pytest.fixture(scope="module")
def other_process() -> dict[str, list[str]]:
    """The fingerprints of every case, computed by another process with another hash seed."""
    code = (
        "import json; from tests.contracts.test_models import CASES, fingerprints;"
        "print(json.dumps({case.name: fingerprints(case) for case in CASES}))"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "4711"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    computed: dict[str, list[str]] = json.loads(done.stdout)
    return computed


def fingerprints(case: Case) -> list[str]:
    """Fingerprints of one model after 0, 30 and COUNT examples."""
    model, found, learned = case.model(), list[str](), 0
    for count in (0, 30, COUNT):
        model.learn(case.examples(COUNT)[learned:count])
        found.append(model.fingerprint())
        learned = count
    return found


@pytest.mark.every_case("long")
def test_the_same_log_leaves_the_same_state_in_another_process(case: Case, other_process: dict[str, list[str]]) -> None:
    assert fingerprints(case) == other_process[case.name]


# unlearn


@pytest.mark.every_case("long")
@pytest.mark.parametrize("count", [150, COUNT])
def test_a_model_says_whether_it_can_subtract(case: Case, count: int) -> None:
    frozen = case.warms_up and count >= 200
    assert case.train(case.examples(count)).subtracts == (case.exact and not frozen)


@pytest.mark.every_case
def test_unlearning_leaves_the_state_without_the_example(exact: Case) -> None:
    check_unlearning(exact, 0.4)


@pytest.mark.parametrize("share", [0.05, 1.0])
def test_unlearning_little_or_everything_leaves_the_state_without_it(exact: Case, share: float) -> None:
    check_unlearning(exact, share)


def check_unlearning(exact: Case, share: float) -> None:
    examples = exact.examples(150 if exact.warms_up else COUNT)
    model = exact.train(examples)
    rng = np.random.default_rng(5)
    gone = [example for example in examples if rng.random() < share]
    for example in gone:
        model.unlearn([example])
    alternative = train_one_by_one(exact, examples, {example.offset for example in gone})
    assert model.fingerprint() == alternative.fingerprint()
    assert choices(model, exact) == choices(alternative, exact)


LEARNED_EVENTS = {
    "classifier": ("label", "reward", "retire", "restore"),
    "knn": ("label", "reward", "retire", "restore"),
    "majority": ("label", "reward", "retire", "restore"),
    "ensemble": ("label", "reward", "retire", "restore"),
    "regressor": ("label",),
    "ranker": ("label", "reward", "correction", "retire", "restore", "reply"),
    NEAREST_MEAN: ("label", "reward", "retire", "restore"),
}


@pytest.mark.few(20)
@pytest.mark.parametrize(
    ("each", "kind"),
    [
        pytest.param(c, kind, id=f"{c.name}-{kind}")
        for c in EXACT
        if c.name in MECHANISMS
        for kind in LEARNED_EVENTS[c.kind]
    ],
)
def test_each_kind_of_event_can_be_unlearned(each: Case, kind: str) -> None:
    examples = [*each.examples(150), *retirements("mango", "melon", "-mango", "nut", "-nut", "nut")]
    examples = [example for example in examples if example.kind in LEARNED_EVENTS[each.kind]]
    gone = [example for example in examples if example.kind == kind]
    for unlearned in (gone[:1], gone[-1:], gone):
        model = each.train(examples)
        model.unlearn(unlearned)
        alternative = train_one_by_one(each, examples, {example.offset for example in unlearned})
        assert model.fingerprint() == alternative.fingerprint()
        model.learn(again := [*repeat(each.introduction(), 2), *repeat(unlearned, 3)])
        alternative.learn(again)
        assert model.fingerprint() == alternative.fingerprint()


def test_a_restored_model_can_unlearn(exact: Case) -> None:
    examples = exact.examples(150)
    model = restore(exact, exact.train(examples).state())
    model.unlearn(examples[60:90])
    gone = {example.offset for example in examples[60:90]}
    assert model.fingerprint() == train_one_by_one(exact, examples, gone).fingerprint()


@pytest.mark.every_case("long")
def test_nothing_unlearned_remains_in_the_files(exact: Case) -> None:
    examples = exact.examples(150)
    secret = secret_example(exact)
    model = exact.train([*examples, *secret])
    model.unlearn(secret)
    files = b"".join(to_bytes(model.state()).values())
    for example in secret:
        assert example.features not in files
        assert example.features.hex().encode() not in files
        assert not example.text or example.text.encode() not in files


def secret_example(case: Case) -> list[Example]:
    inputs = {"text": text(0, 9_999), "vector": np.full(6, 0.123456).tobytes(), "table": row({"width": 0.123456})}
    features = inputs[input_options(case.kind, case.options)["input"]]
    if case.kind == "ranker":
        return [
            Example(900, "correction", features, TOPICS[0]),
            Example(901, "reply", text(1, 9_999), "secret", "A secret sentence."),
        ]
    return [Example(900, "label", features, "1.0" if case.kind == "regressor" else TOPICS[0])]


def choices(model: Model, case: Case) -> list[str | None]:
    return [answer.choice for answer in model.predict(unseen_inputs(case))]


# models around an estimator of another library


def test_a_wrapped_model_refuses_to_unlearn_and_is_unchanged(wrapped: Case) -> None:
    examples = wrapped.examples(60)
    model = wrapped.train(examples)
    with pytest.raises(NotImplementedError, match="cannot subtract"):
        model.unlearn(examples[:1])
    assert model.fingerprint() == wrapped.train(examples).fingerprint()


@pytest.mark.every_case("long")
def test_predicting_in_any_order_changes_neither_a_wrapped_model_nor_its_answers(wrapped: Case) -> None:
    examples, inputs = wrapped.examples(COUNT), unseen_inputs(wrapped)
    one, other = wrapped.train(examples[:200]), wrapped.train(examples[:200])
    forwards = one.predict(inputs)
    assert [other.predict([each])[0] for each in reversed(inputs)][::-1] == forwards
    assert one.fingerprint() == other.fingerprint() == wrapped.train(examples[:200]).fingerprint()
    for model in (one, other):
        model.learn(examples[200:])
    assert one.fingerprint() == other.fingerprint()
    assert one.predict(inputs) == other.predict(inputs)


def test_a_wrapped_model_restored_repeatedly_equals_one_that_was_not(wrapped: Case) -> None:
    examples = wrapped.examples(COUNT)
    model = wrapped.model()
    for start in range(0, COUNT, 40):
        model = restore(wrapped, model.state())
        model.learn(examples[start : start + 40])
        model.predict(unseen_inputs(wrapped))
    assert model.fingerprint() == wrapped.train(examples).fingerprint()


class Trap:
    """An object that shows when it is unpickled."""

    sprung = False

    def __reduce__(self) -> tuple[Callable[[], None], tuple[()]]:
        return spring, ()


def spring() -> None:
    Trap.sprung = True


@pytest.mark.every_case("long")
def test_a_wrapped_state_with_a_wrong_signature_is_refused_before_it_is_unpickled(wrapped: Case) -> None:
    state = write_and_read(wrapped.train(wrapped.examples(60)).state())
    poisoned = {**state["estimator"].tensors, "estimator": np.frombuffer(pickle.dumps(Trap()), np.uint8)}
    model = wrapped.model()
    before = model.fingerprint()
    with pytest.raises(ValueError, match="signature does not match"):
        model.restore({"estimator": StatePart(poisoned, serving=True)})
    assert not Trap.sprung
    assert model.fingerprint() == before


def test_a_wrapped_state_signed_by_another_installation_is_refused_before_it_is_unpickled(
    wrapped: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = wrapped.train(wrapped.examples(60)).state()
    other = create(wrapped.kind, {**wrapped.options, "key": "ab" * 32})
    monkeypatch.setattr(pickle, "loads", lambda data: pytest.fail("another installation's bytes were unpickled"))
    with pytest.raises(ValueError, match="signature does not match"):
        other.restore(write_and_read(state))

"""One suite over every kind of model, with the options that people choose."""

import json
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from safetensors.numpy import load, save

from online.models import KINDS, Answer, BadExample, Example, Model, Options, Part, State, create, unpacked
from online.models.contest import answering
from online.models.river import NAMED
from tests.models.synthetic import (
    KNOWN,
    NEWCOMER,
    TOPICS,
    labels_only,
    numbers,
    ranker_log,
    replies,
    reply,
    row,
    tables,
    text,
    texts,
    vectors,
)

COUNT = 260  # past the classifier's warm-up of 200
KEY = "5e" * 32


@dataclass(frozen=True)
class Case:
    """log: (count, seed, topics) -> a log. exact: any order gives the same state, and events are subtracted.

    warms_up: its first 200 examples decide scales; their order does not matter, nor that of the later ones.
    """

    name: str
    kind: str
    options: Options
    log: Callable[[int, int, range], list[Example]]
    bad: Sequence[Example]
    exact: bool = True
    warms_up: bool = False

    def examples(self, count: int, seed: int = 0, among: range = KNOWN) -> list[Example]:
        return self.log(count, seed, among)

    def introduction(self) -> list[Example]:
        """What must be learned before anything else can be."""
        return replies() if self.kind == "ranker" else []

    def model(self) -> Model:
        return create(self.kind, self.options)

    def taught(self, examples: Sequence[Example]) -> Model:
        model = self.model()
        model.learn(examples)
        return model


NO_LABEL = Example(9_000, "reward", b"", "")
BAD_TEXTS = [
    Example(9_001, "label", b"short", TOPICS[0]),
    Example(9_002, "correction", text(0, 1), TOPICS[0]),
    replace(NO_LABEL, features=text(0, 1)),
]
BAD_VECTORS = [
    Example(9_001, "label", np.zeros(5).tobytes(), TOPICS[0]),
    Example(9_002, "correction", np.zeros(6).tobytes(), TOPICS[0]),
    Example(9_003, "retire", b"", ""),
    replace(NO_LABEL, features=np.zeros(6).tobytes()),
]
BAD_TABLES = [
    Example(9_001, "label", b"\xff\x00 no JSON", TOPICS[0]),
    Example(9_002, "label", b"[1.0]", TOPICS[0]),
    Example(9_003, "reply", b"{}", TOPICS[0]),
    replace(NO_LABEL, features=b"{}"),
]
BAD_ROWS = [*BAD_TABLES, Example(9_004, "label", b'{"width":[1.0]}', TOPICS[0])]
BAD_FOR_RANKERS = [
    Example(9_001, "label", b"short", TOPICS[0]),
    Example(9_002, "correction", text(0, 1), "a reply nobody wrote"),
    Example(9_003, "retire", b"", "a reply nobody wrote"),
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
BAD_FOR_RIVER = [*BAD_TABLES, Example(9_005, "reward", b"{}", TOPICS[0], reward=0.0)]


def river_case(name: str, estimator: str, **params: int) -> Case:
    options = {"estimator": estimator, "params": params, "key": KEY}
    return Case(name, "river", options, lambda *log: labels_only(tables(*log)), BAD_FOR_RIVER, exact=False)


def number_case(name: str, options: Options, log: Callable[[int, int, range], list[Example]], warms_up: bool) -> Case:
    def some(count: int, seed: int, among: range) -> list[Example]:
        return numbers(log(count * 5 // 4 + 1, seed, among))[:count]  # a fifth of a log's lines are thumbs

    return Case(name, "regressor", options, some, BAD_NUMBERS, warms_up=warms_up)


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
    Case("logistic-vector", "logistic", VECTOR, vectors, BAD_VECTORS, exact=False),
    Case("logistic-table", "logistic", {**TABLE, "waves": 8}, tables, BAD_ROWS, exact=False),
    Case("best-of-three", "best_of", {**VECTOR, "contenders": THREE}, vectors, BAD_VECTORS, exact=False),
    Case(
        "best-of-two", "best_of", {**TABLE, "vote": False, "contenders": TWO, "key": KEY}, tables, BAD_ROWS, exact=False
    ),
    number_case("number-text", {"input": "text"}, texts, warms_up=True),
    number_case("number-text-scaled", {"input": "text", "target_scale": 64.0}, texts, warms_up=False),
    number_case("number-vector", VECTOR, vectors, warms_up=True),
    number_case("number-table", {**TABLE, "target_scale": 64.0}, tables, warms_up=True),
    number_case("number-table-scaled", {**TABLE, "scale": 16.0, "target_scale": 64.0}, tables, warms_up=False),
    Case("ranker-challenged", "ranker", {"challenger": SOFTER}, ranker_log, BAD_FOR_RANKERS),
    Case("text-challenged", "classifier", {"input": "text", "challenger": NEAR}, texts, BAD_TEXTS),
    Case("challenged-by-line", "knn", {**TABLE, "challenger": LINE}, tables, BAD_ROWS, exact=False),
    Case("challenged-by-tree", "classifier", {**TABLE, "challenger": TREE, "key": KEY}, tables, BAD_ROWS, exact=False),
    number_case("number-challenged", {"input": "text", "challenger": ROUGH}, texts, warms_up=True),
    Case("tower-text", "tower", {"input": "text", **NARROW, "batch": 4}, texts, BAD_TEXTS, exact=False),
    Case("tower-vector", "tower", {**VECTOR, **NARROW, **ACE_IN_EIGHTS}, vectors, BAD_VECTORS, exact=False),
    Case("tower-table", "tower", {**TABLE, **NARROW, "strategy": "derpp"}, tables, BAD_ROWS, exact=False),
    *(river_case(name, name, **SMALL.get(name, {})) for name in NAMED),
    river_case("bayes", "naive_bayes.GaussianNB"),
]
EXACT = [case for case in CASES if case.exact]
CHOOSERS = [case for case in CASES if case.kind != "regressor"]  # they answer with one of the labels they know
REGRESSORS = [case for case in CASES if case.kind == "regressor"]


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """These matrices are small: on a busy machine a second thread costs ten times what it brings."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(params=CASES, ids=lambda case: case.name)
def case(request: pytest.FixtureRequest) -> Case:
    found: Case = request.param
    return found


@pytest.fixture(params=EXACT, ids=lambda case: case.name)
def exact(request: pytest.FixtureRequest) -> Case:
    found: Case = request.param
    return found


@pytest.fixture(params=CHOOSERS, ids=lambda case: case.name)
def chooser(request: pytest.FixtureRequest) -> Case:
    found: Case = request.param
    return found


@pytest.fixture(params=[case for case in CHOOSERS if case.exact], ids=lambda case: case.name)
def exact_chooser(request: pytest.FixtureRequest) -> Case:
    found: Case = request.param
    return found


@pytest.fixture(params=REGRESSORS, ids=lambda case: case.name)
def regressor(request: pytest.FixtureRequest) -> Case:
    found: Case = request.param
    return found


def questions(case: Case) -> list[bytes]:
    """Twenty inputs that were not learned."""
    return [example.features for example in case.examples(COUNT, 7)[-40:] if example.features][:20]


def in_bytes(state: State) -> dict[str, bytes]:
    return {
        name: save({key: np.ascontiguousarray(t) for key, t in part.tensors.items()}) for name, part in state.items()
    }


def through_files(state: State) -> State:
    """As snapshots write it and read it back."""
    return {name: Part(load(data), state[name].serving) for name, data in in_bytes(state).items()}


def restored(case: Case, state: State) -> Model:
    model = case.model()
    model.restore(through_files(state))
    return model


def serving_parts(state: State) -> State:
    return {name: part for name, part in state.items() if part.serving}


def never_saw(case: Case, examples: Sequence[Example], gone: set[int]) -> Model:
    """A model driven as the learner drives it, by a log in which those offsets do not occur."""
    model = case.model()
    for example in examples:
        if example.offset not in gone:
            try:
                model.learn([example])
            except BadExample:
                continue
    return model


def shuffled(examples: Sequence[Example], seed: int) -> list[Example]:
    return [examples[int(place)] for place in np.random.default_rng(seed).permutation(len(examples))]


def repeated(examples: Sequence[Example], times: int) -> list[Example]:
    return [replace(e, offset=e.offset + 10_000 * again) for again in range(1, times + 1) for e in examples]


def test_every_registered_kind_is_in_this_suite() -> None:
    assert {case.kind for case in CASES} == set(KINDS)


def test_an_unknown_kind_is_refused_with_the_kinds_there_are() -> None:
    with pytest.raises(ValueError, match="unknown model kind 'oracle'; one of ranker, classifier"):
        create("oracle", {})


def test_an_unknown_option_is_refused_by_name(case: Case) -> None:
    with pytest.raises(ValueError, match="unknown option 'speed'"):
        create(case.kind, {**case.options, "speed": 3})


def test_an_option_of_the_wrong_type_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="option 'size' must be int, not '6'"):
        create("classifier", {"input": "vector", "size": "6"})


# predict


@pytest.mark.parametrize("count", [30, COUNT])
def test_predict_changes_nothing(case: Case, count: int) -> None:
    model = case.taught(case.examples(count))
    before = model.fingerprint(), in_bytes(model.state())
    model.predict(questions(case))
    model.predict(questions(case))
    assert (model.fingerprint(), in_bytes(model.state())) == before


def test_predicting_between_two_lessons_changes_nothing_of_what_is_learned(case: Case) -> None:
    asked, unasked = case.model(), case.model()
    for example in case.examples(14):
        asked.predict([questions(case)[0]])
        asked.learn([example])
        unasked.learn([example])
    assert asked.fingerprint() == unasked.fingerprint()


def test_before_any_lesson_there_is_an_answer_without_a_choice(case: Case) -> None:
    answers = case.model().predict(questions(case))
    assert [(answer.choice, answer.candidates) for answer in answers] == [(None, ())] * len(answers)


def test_no_questions_get_no_answers(case: Case) -> None:
    assert case.model().predict([]) == []
    assert case.taught(case.examples(COUNT)).predict([]) == []


def test_answers_are_the_same_alone_and_in_a_batch(case: Case) -> None:
    model, asked = case.taught(case.examples(COUNT)), questions(case)
    alone = [model.predict([question])[0] for question in asked]
    together = model.predict(asked)
    assert [answer.choice for answer in together] == [answer.choice for answer in alone]
    assert [answer.score for answer in together] == pytest.approx([answer.score for answer in alone], abs=1e-4)


def test_it_learns(chooser: Case) -> None:
    model, later = chooser.taught(chooser.examples(COUNT)), chooser.examples(COUNT, 1)
    asked = [e for e in later if e.kind in ("label", "correction") and e.label in TOPICS]
    answers = model.predict([example.features for example in asked])
    right = sum(answer.choice == example.label for answer, example in zip(answers, asked, strict=True))
    assert right >= 0.9 * len(asked)


def test_it_learns_numbers(regressor: Case) -> None:
    model, later = regressor.taught(regressor.examples(COUNT)), regressor.examples(COUNT, 1)
    right = np.array([float(example.label) for example in later])
    answers = model.predict([example.features for example in later])
    error = np.abs([float(answer.choice or "nan") for answer in answers] - right)
    assert error.mean() < 0.5 * np.abs(right - np.median(right)).mean()
    for answer in answers:
        assert answer.interval is not None and answer.candidates == ()
        assert answer.interval[0] < float(answer.choice or "nan") < answer.interval[1]


def test_candidates_come_best_first_and_their_scores_are_chances(chooser: Case) -> None:
    def check(answer: Answer) -> None:
        scores = [candidate.score for candidate in answer.candidates]
        assert scores == sorted(scores, reverse=True)
        assert min(scores) >= 0 and sum(scores) <= 1 + 1e-6
        assert answer.choice in (None, answer.candidates[0].id)

    for answer in chooser.taught(chooser.examples(COUNT)).predict(questions(chooser)):
        check(answer)


def test_every_probe_is_answered_as_it_must_be(case: Case) -> None:
    model = case.taught(case.examples(COUNT))
    probes = model.probes()
    served = restored(case, model.state(serving_only=True))
    assert 0 < len(probes) <= 32
    for answer, (_, must) in zip(served.predict([features for features, _ in probes]), probes, strict=True):
        assert answer.choice is not None
        assert must in (None, answer.choice)


# learn


@pytest.mark.parametrize("cuts", [(), (1,), (199,), (200,), (201,), (150, 210), (7, 8, 90, 199, 230)], ids=str)
def test_one_by_one_equals_batches_wherever_they_are_cut(case: Case, cuts: tuple[int, ...]) -> None:
    examples = case.examples(COUNT)
    one_by_one, batched = never_saw(case, examples, set()), case.model()
    for start, end in zip((0, *cuts), (*cuts, len(examples)), strict=True):
        batched.learn(examples[start:end])
    assert batched.fingerprint() == one_by_one.fingerprint()
    if case.exact:
        assert in_bytes(batched.state()) == in_bytes(one_by_one.state())


@pytest.mark.parametrize("seed", [1, 2])
def test_the_order_of_what_an_exact_head_learns_does_not_matter(exact: Case, seed: int) -> None:
    examples = exact.examples(COUNT)
    first = 200 if exact.warms_up else len(exact.introduction())
    start = shuffled(examples[:first], seed) if exact.warms_up else examples[:first]
    another = exact.taught([*start, *shuffled(examples[first:], seed)])
    assert another.fingerprint() == exact.taught(examples).fingerprint()


def test_the_order_of_a_warm_up_does_not_matter(exact: Case) -> None:
    examples = exact.examples(150)
    first = len(exact.introduction())
    another = exact.taught([*examples[:first], *shuffled(examples[first:], 3)])
    assert another.fingerprint() == exact.taught(examples).fingerprint()


def test_different_examples_leave_different_fingerprints(case: Case) -> None:
    examples = case.examples(COUNT)
    assert case.taught(examples).fingerprint() != case.taught(examples[:-1]).fingerprint()
    assert case.taught(examples[:50]).fingerprint() != case.taught(examples[:49]).fingerprint()


def test_what_was_handed_in_stays_as_it_was(case: Case) -> None:
    examples = case.examples(COUNT)
    given, asked = list(examples), questions(case)
    case.taught(given).predict(asked)
    assert (given, asked) == (case.examples(COUNT), questions(case))


# retire, restore


def changes(*told: str, start: int = 20_000) -> list[Example]:
    """Retirements of labels, or of replies, in this order; "-mango" restores one."""
    return [
        Example(offset, "restore" if name.startswith("-") else "retire", b"", name.removeprefix("-"))
        for offset, name in enumerate(told, start)
    ]


def named(answers: Sequence[Answer]) -> set[str]:
    """Every label that is given or listed."""
    return {candidate.id for answer in answers for candidate in answer.candidates} | {
        a.choice for a in answers if a.choice
    }


def test_a_label_that_was_retired_is_neither_given_nor_listed(chooser: Case) -> None:
    model = chooser.taught(chooser.examples(COUNT))
    assert set(TOPICS) <= named(model.predict(questions(chooser)))
    model.learn(changes("mango", "olive", "-mango", "mango"))
    for each in (model, restored(chooser, model.state()), restored(chooser, model.state(serving_only=True))):
        answers = each.predict(questions(chooser))
        assert {"melon", "nut"} <= named(answers) and not {"mango", "olive"} & named(answers)
        for answer in answers:
            assert answer.abstained or answer.choice == answer.candidates[0].id


def test_where_every_label_is_retired_there_is_no_answer(chooser: Case) -> None:
    model = chooser.taught(chooser.examples(COUNT))
    model.learn(changes(*TOPICS, "other"))
    for answer in model.predict(questions(chooser)):
        assert (answer.choice, answer.candidates) == (None, ())


def test_a_restored_label_answers_as_if_it_had_never_been_away(chooser: Case) -> None:
    before, meanwhile = chooser.examples(230), repeated(chooser.examples(COUNT, 3)[-40:], 1)
    model, never = chooser.taught(before), chooser.taught([*before, *meanwhile])
    model.learn(changes("mango", "nut"))
    model.learn(meanwhile)
    assert not {"mango", "nut"} & named(model.predict(questions(chooser)))
    model.learn(changes("-nut", "-mango", start=30_000))
    assert model.predict(questions(chooser)) == never.predict(questions(chooser))


@pytest.mark.parametrize("seed", [1, 2])
def test_the_order_in_which_retirements_are_learned_does_not_matter(chooser: Case, seed: int) -> None:
    told = changes("mango", "nut", "-mango", "olive", "-nut", "nut", "-olive")
    one, other = (chooser.taught([*chooser.examples(30), *order]) for order in (told, shuffled(told, seed)))
    assert one.fingerprint() == other.fingerprint()
    assert one.predict(questions(chooser)) == other.predict(questions(chooser))


def test_a_retirement_that_is_taken_back_leaves_the_state_of_never_having_been(chooser: Case) -> None:
    told = changes("mango", "nut", "-mango", "mango")
    model, never = (chooser.taught([*chooser.examples(60), *some]) for some in (told, told[:1]))
    assert model.fingerprint() != never.fingerprint()
    model.unlearn(told[1:])
    assert model.fingerprint() == never.fingerprint()
    assert model.predict(questions(chooser)) == never.predict(questions(chooser))
    model.unlearn(told[:1])
    assert model.fingerprint() == chooser.taught(chooser.examples(60)).fingerprint()


def test_what_is_retired_decides_nothing_of_what_is_learned(chooser: Case) -> None:
    model = chooser.taught(chooser.examples(230))
    model.learn(changes("mango"))
    model = restored(chooser, model.state())
    model.learn(repeated(chooser.examples(COUNT, 3)[-30:], 1))
    model.unlearn(changes("mango"))
    never = chooser.taught([*chooser.examples(230), *repeated(chooser.examples(COUNT, 3)[-30:], 1)])
    assert model.fingerprint() == never.fingerprint()


def newcomers(case: Case) -> list[Example]:
    """A label that sorts before all others, and what belongs to it."""
    start = len(case.introduction())
    learned = [e for e in case.examples(start + 60, 9, range(4, 5))[start:] if e.label == NEWCOMER]
    return [*([reply(4, 0, NEWCOMER)] if start else []), *learned]


def test_a_new_label_is_welcome(chooser: Case) -> None:
    model = chooser.taught(chooser.examples(COUNT))
    model.learn(repeated(newcomers(chooser), 1))
    later = [e.features for e in chooser.examples(COUNT, 4, range(4, 5)) if e.label == NEWCOMER][-40:]
    answers = model.predict(later)
    assert sum(answer.choice == NEWCOMER for answer in answers) >= 0.9 * len(later)


def test_a_new_label_moves_no_old_one(exact_chooser: Case) -> None:
    if "max_age" in exact_chooser.options:
        pytest.skip("the newcomers come so much later that the old ones are forgotten by then")
    model = exact_chooser.taught(exact_chooser.examples(COUNT))
    asked = [e.features for e in exact_chooser.examples(COUNT, 1) if e.label in TOPICS and len(e.features)]
    before = [answer.choice for answer in model.predict(asked)]
    model.learn(repeated(newcomers(exact_chooser), 1))
    after = [answer.choice for answer in model.predict(asked)]
    assert sum(b == a for b, a in zip(before, after, strict=True)) >= 0.95 * len(asked)


def test_an_index_never_changes_its_meaning(exact_chooser: Case) -> None:
    if exact_chooser.kind == "knn":
        pytest.skip("it has no indices: a label is written with each example")
    model, before = exact_chooser.model(), list[str]()
    examples = [*exact_chooser.examples(COUNT), *repeated(newcomers(exact_chooser), 1)]
    if exact_chooser.kind == "classifier":  # the first that is ever heard of a label may be that it is wrong
        examples.insert(0, replace(examples[0], offset=0, label="zebra", reward=0.0))
    for start in range(0, len(examples), 3):
        model.learn(examples[start : start + 3])
        labels = indexed_labels(model)
        assert labels[: len(before)] == before
        before = labels
    assert {*TOPICS, NEWCOMER} <= set(before)


def indexed_labels(model: Model) -> list[str]:
    meta = unpacked(answering(model).state(serving_only=True)["weights"].tensors["meta"])
    return [str(name) for name in meta["labels"]] if isinstance(meta, dict) else [str(id) for id, _ in meta]


@pytest.mark.parametrize("learned", [30, COUNT])
def test_a_bad_example_in_the_middle_of_a_batch_changes_nothing(case: Case, learned: int) -> None:
    examples, more = case.examples(learned), repeated(case.examples(20, 3)[-6:], 1)
    model = case.taught(examples)
    before = model.fingerprint(), in_bytes(model.state())
    for bad in case.bad:
        with pytest.raises(BadExample):
            model.learn([*more[:3], bad, *more[3:]])
        assert (model.fingerprint(), in_bytes(model.state())) == before
    model.learn(more)
    assert model.fingerprint() == case.taught([*examples, *more]).fingerprint()


def test_learning_the_same_again_and_again_takes_no_more_room(exact: Case) -> None:
    bounds = {
        "ranker": {"max_exemplars": 100},
        "knn": {"window": 100},
    }  # of all else there is a bound that needs no option
    exact = replace(exact, options=bounded(exact.kind, exact.options, bounds))
    examples = exact.examples(COUNT)
    model = exact.taught(examples)
    thumbs = [example for example in examples if example.kind in ("label", "reward", "correction")]
    model.learn(repeated(thumbs, 10))
    before = room(model)
    model.learn(repeated(repeated(thumbs, 1), 110)[-10 * len(thumbs) :])
    assert room(model) <= 1.05 * before


def bounded(kind: str, options: Options, bounds: Mapping[str, Options]) -> Options:
    """A challenger too."""
    told = {**options, **bounds.get(kind, {})}
    if challenger := told.get("challenger"):
        own = bounded(challenger.get("kind", kind), challenger.get("options", {}), bounds)
        told["challenger"] = {**challenger, "options": own}
    return told


def room(model: Model) -> int:
    tensors = (tensor for part in model.state().values() for tensor in part.tensors.values())
    return sum(tensor.nbytes for tensor in tensors)


# state


@pytest.mark.parametrize("count", [0, 1, 30, 200, COUNT])
def test_a_state_survives_files(case: Case, count: int) -> None:
    model = case.taught(case.examples(COUNT)[:count])
    again = restored(case, model.state())
    assert again.fingerprint() == model.fingerprint()
    assert again.feature_epoch() == model.feature_epoch()
    assert again.subtracts == model.subtracts
    assert again.probes() == model.probes()
    assert again.predict(questions(case)) == model.predict(questions(case))


@pytest.mark.parametrize("count", [1, 30, 199, 230])
def test_learning_resumes_where_it_was_interrupted(case: Case, count: int) -> None:
    examples = case.examples(COUNT)
    resumed = restored(case, case.taught(examples[:count]).state())
    resumed.learn(examples[count:])
    uninterrupted = case.taught(examples)
    assert resumed.fingerprint() == uninterrupted.fingerprint()
    assert resumed.predict(questions(case)) == uninterrupted.predict(questions(case))
    if case.exact:
        assert in_bytes(resumed.state()) == in_bytes(uninterrupted.state())


@pytest.mark.parametrize("count", [0, 30, COUNT])
def test_the_serving_parts_alone_predict_the_same(case: Case, count: int) -> None:
    model = case.taught(case.examples(COUNT)[:count])
    served = restored(case, serving_parts(model.state()))
    assert served.predict(questions(case)) == model.predict(questions(case))


def test_a_serving_state_is_the_serving_parts_of_the_whole(case: Case) -> None:
    model = case.taught(case.examples(COUNT))
    assert in_bytes(model.state(serving_only=True)) == in_bytes(serving_parts(model.state()))


def test_a_restored_state_replaces_all_that_was_learned_before(case: Case) -> None:
    first, second = case.taught(case.examples(COUNT)), case.taught(case.examples(230, 1))
    second.restore(through_files(first.state()))
    assert second.fingerprint() == first.fingerprint()
    assert second.predict(questions(case)) == first.predict(questions(case))


@pytest.mark.parametrize("count", [30, COUNT])
def test_a_state_that_was_given_out_stays_as_it_was(case: Case, count: int) -> None:
    examples = case.examples(COUNT + 40)
    model = case.taught(examples[:count])
    state = model.state()
    before = in_bytes(state)
    model.learn(examples[count:])
    assert in_bytes(state) == before


def test_a_state_that_was_taken_over_stays_as_it_was(case: Case) -> None:
    examples = case.examples(COUNT)
    state = through_files(case.taught(examples[:230]).state())
    before, model = in_bytes(state), case.model()
    model.restore(state)
    model.learn(examples[230:])
    model.predict(questions(case))
    assert in_bytes(state) == before


def test_equal_revisions_of_a_part_mean_equal_tensors(case: Case) -> None:
    examples, written = case.examples(60), dict[tuple[str, int], bytes]()
    for skipped in (6, 7):  # two models of one process, as after a retraction that needs a replay
        model = case.taught([*case.introduction(), *examples[skipped:40]])
        for example in examples[40:]:
            model.learn([example])
            state = model.state()
            for name, data in in_bytes(state).items():
                if (revision := state[name].revision) is not None:
                    assert written.setdefault((name, revision), data) == data


@pytest.fixture(scope="module")
def elsewhere() -> dict[str, list[str]]:
    """The fingerprints of every case, made by another process whose strings hash differently."""
    code = (
        "import json; from tests.contracts.test_models import CASES, fingerprints;"
        "print(json.dumps({case.name: fingerprints(case) for case in CASES}))"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "4711"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    made: dict[str, list[str]] = json.loads(done.stdout)
    return made


def fingerprints(case: Case) -> list[str]:
    return [case.taught(case.examples(count)).fingerprint() for count in (0, 30, COUNT)]


def test_the_same_log_leaves_the_same_state_in_another_process(case: Case, elsewhere: dict[str, list[str]]) -> None:
    assert fingerprints(case) == elsewhere[case.name]


# unlearn


@pytest.mark.parametrize("count", [150, COUNT])
def test_only_what_no_longer_subtracts_says_so(case: Case, count: int) -> None:
    frozen = case.warms_up and count >= 200
    assert case.taught(case.examples(count)).subtracts == (case.exact and not frozen)


@pytest.mark.parametrize("share", [0.05, 0.4, 1.0])
def test_unlearning_leaves_the_state_of_never_having_seen_it(exact: Case, share: float) -> None:
    examples = exact.examples(150 if exact.warms_up else COUNT)
    model = exact.taught(examples)
    rng = np.random.default_rng(5)
    gone = [example for example in examples if rng.random() < share]
    for example in gone:
        model.unlearn([example])
    alternative = never_saw(exact, examples, {example.offset for example in gone})
    assert model.fingerprint() == alternative.fingerprint()
    assert choices(model, exact) == choices(alternative, exact)


LEARNS = {
    "classifier": ("label", "reward", "retire", "restore"),
    "knn": ("label", "reward", "retire", "restore"),
    "regressor": ("label",),
    "ranker": ("label", "reward", "correction", "retire", "restore", "reply"),
}


@pytest.mark.parametrize(
    ("exact", "kind"), [pytest.param(c, kind, id=f"{c.name}-{kind}") for c in EXACT for kind in LEARNS[c.kind]]
)
def test_each_kind_of_event_can_be_taken_back(exact: Case, kind: str) -> None:
    examples = [*exact.examples(150), *changes("mango", "melon", "-mango", "nut", "-nut", "nut")]
    examples = [example for example in examples if example.kind in LEARNS[exact.kind]]
    gone = [example for example in examples if example.kind == kind]
    for taken in (gone[:1], gone[-1:], gone):
        model = exact.taught(examples)
        model.unlearn(taken)
        alternative = never_saw(exact, examples, {example.offset for example in taken})
        assert model.fingerprint() == alternative.fingerprint()
        model.learn(again := [*repeated(exact.introduction(), 2), *repeated(taken, 3)])
        alternative.learn(again)
        assert model.fingerprint() == alternative.fingerprint()


def test_unlearning_reaches_a_resumed_model(exact: Case) -> None:
    examples = exact.examples(150)
    model = restored(exact, exact.taught(examples).state())
    model.unlearn(examples[60:90])
    gone = {example.offset for example in examples[60:90]}
    assert model.fingerprint() == never_saw(exact, examples, gone).fingerprint()


def test_nothing_of_what_was_taken_back_remains_in_the_files(exact: Case) -> None:
    examples = exact.examples(150)
    secret = secret_example(exact)
    model = exact.taught([*examples, *secret])
    model.unlearn(secret)
    files = b"".join(in_bytes(model.state()).values())
    for example in secret:
        assert example.features not in files
        assert example.features.hex().encode() not in files
        assert not example.text or example.text.encode() not in files


def secret_example(case: Case) -> list[Example]:
    made = {"text": text(0, 9_999), "vector": np.full(6, 0.123456).tobytes(), "table": row({"width": 0.123456})}
    features = made[str(case.options.get("input", "text"))]
    if case.kind == "ranker":
        return [
            Example(900, "correction", features, TOPICS[0]),
            Example(901, "reply", text(1, 9_999), "secret", "What nobody must know."),
        ]
    return [Example(900, "label", features, "1.0" if case.kind == "regressor" else TOPICS[0])]


def choices(model: Model, case: Case) -> list[str | None]:
    return [answer.choice for answer in model.predict(questions(case))]


# river's own


RIVER = [case for case in CASES if case.kind == "river"]


@pytest.fixture(params=RIVER, ids=lambda case: case.name)
def river(request: pytest.FixtureRequest) -> Case:
    found: Case = request.param
    return found


def test_river_refuses_to_unlearn_and_stays_as_it_was(river: Case) -> None:
    examples = river.examples(60)
    model = river.taught(examples)
    with pytest.raises(NotImplementedError, match="cannot subtract"):
        model.unlearn(examples[:1])
    assert model.fingerprint() == river.taught(examples).fingerprint()


def test_neither_questions_nor_their_order_change_what_a_river_model_says_or_becomes(river: Case) -> None:
    examples, asked = river.examples(COUNT), questions(river)
    one, other = river.taught(examples[:200]), river.taught(examples[:200])
    forwards = one.predict(asked)
    assert [other.predict([question])[0] for question in reversed(asked)][::-1] == forwards
    assert one.fingerprint() == other.fingerprint() == river.taught(examples[:200]).fingerprint()
    for model in (one, other):
        model.learn(examples[200:])
    assert one.fingerprint() == other.fingerprint()
    assert one.predict(asked) == other.predict(asked)


def test_a_river_model_that_is_restored_again_and_again_ends_as_the_one_that_never_was(river: Case) -> None:
    examples = river.examples(COUNT)
    killed = river.model()
    for start in range(0, COUNT, 40):
        killed = restored(river, killed.state())
        killed.learn(examples[start : start + 40])
        killed.predict(questions(river))
    assert killed.fingerprint() == river.taught(examples).fingerprint()


class Trap:
    """What unpickling must never reach."""

    sprung = False

    def __reduce__(self) -> tuple[Callable[[], None], tuple[()]]:
        return spring, ()


def spring() -> None:
    Trap.sprung = True


def test_a_river_state_with_a_wrong_signature_is_refused_before_it_is_unpickled(river: Case) -> None:
    state = through_files(river.taught(river.examples(60)).state())
    poisoned = {**state["estimator"].tensors, "estimator": np.frombuffer(pickle.dumps(Trap()), np.uint8)}
    model = river.model()
    before = model.fingerprint()
    with pytest.raises(ValueError, match="signature does not match"):
        model.restore({"estimator": Part(poisoned, serving=True)})
    assert not Trap.sprung
    assert model.fingerprint() == before


def test_a_river_state_signed_by_another_installation_is_refused_before_it_is_unpickled(
    river: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = river.taught(river.examples(60)).state()
    stranger = create("river", {**river.options, "key": "ab" * 32})
    monkeypatch.setattr(pickle, "loads", lambda data: pytest.fail("a stranger's bytes were unpickled"))
    with pytest.raises(ValueError, match="signature does not match"):
        stranger.restore(through_files(state))

"""Forgetting by age: exactly, by the log alone. What holds for every model is in tests/contracts."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from online.models import Example, Options, create
from online.models.ages import BUCKETS, Ages
from online.models.classifier import Classifier
from tests.models.synthetic import TOPICS, text, texts, vectors

AGED: Options = {"input": "text", "max_age": 80}
NUMBERS: Options = {"input": "vector", "size": 6, "scale": 4.0}


def taught(examples: Sequence[Example], **options: object) -> Classifier:
    model = Classifier({**AGED, **options})
    model.learn(examples)
    return model


def offsets(ages: Ages) -> list[int]:
    return [example.offset for example in ages.examples()]


@pytest.mark.parametrize("newest", [79, 80, 89, 199, 200])
def test_what_counts_is_less_than_max_age_old_and_at_most_a_bucket_younger(newest: int) -> None:
    ages = Ages(80)
    ages.add(texts(newest))
    assert offsets(ages) == list(range(max(1, newest // 10 * 10 - 70), newest + 1))


@pytest.mark.parametrize("seed", [1, 2])
def test_what_counts_is_a_function_of_what_was_learned_not_of_when(seed: int) -> None:
    ages, gone, examples = Ages(80), list[Example](), texts(300)
    for place in np.random.default_rng(seed).permutation(300):
        gone += ages.add([examples[place]])
    assert offsets(ages) == list(range(230, 301))
    assert sorted(example.offset for example in gone) == list(range(1, 230))


@pytest.mark.parametrize("head", ["slda", "ridge", "rp_ridge", "best"])
def test_a_model_that_forgot_equals_one_that_never_knew(head: str) -> None:
    options = {**NUMBERS, "head": head, "max_age": 80, "random_features": 32}
    examples = vectors(300)
    forgot, never_knew = create("classifier", options), create("classifier", options)
    forgot.learn(examples)
    never_knew.learn(examples[229:])
    assert forgot.fingerprint() == never_knew.fingerprint()
    forgetless = create("classifier", {**options, "max_age": 0})
    forgetless.learn(examples)
    assert forgot.fingerprint() != forgetless.fingerprint()


def test_nothing_of_what_is_forgotten_remains_in_the_files() -> None:
    secret = Example(1, "label", text(0, 4_321), TOPICS[0])
    model = taught([secret, *texts(300)[1:]], outside="none")
    tensors = [tensor.tobytes() for part in model.state().values() for tensor in part.tensors.values()]
    assert not any(secret.features in data or secret.features.hex().encode() in data for data in tensors)


def test_a_label_of_which_everything_is_forgotten_is_not_given_until_it_comes_again() -> None:
    model = taught(texts(100))
    model.learn([example for example in texts(400)[200:] if example.label != TOPICS[0]])
    assert TOPICS[0] not in [candidate.id for candidate in model.predict([text(0)])[0].candidates]
    model.learn([Example(401, "label", text(0, 9), TOPICS[0])])
    assert model.predict([text(0)])[0].choice == TOPICS[0]


def test_a_world_that_moved_is_followed() -> None:
    moved = [replace(example, label=f"new {example.label}", reward=1.0) for example in texts(400)[200:]]
    aged, ageless = taught([*texts(200), *moved]), taught([*texts(200), *moved], max_age=0)
    assert aged.predict([text(1)])[0].choice == f"new {TOPICS[1]}"
    assert {candidate.id for candidate in aged.predict([text(1)])[0].candidates} == {f"new {name}" for name in TOPICS}
    assert set(TOPICS) <= {candidate.id for candidate in ageless.predict([text(1)])[0].candidates}


def test_what_belongs_to_no_label_is_forgotten_too() -> None:
    strange = [replace(example, label="none", reward=1.0, kind="label") for example in texts(60)]
    with_strange = taught([*strange, *texts(400)[200:]], outside="none")
    assert with_strange.fingerprint() == taught(texts(400)[200:], outside="none").fingerprint()


def test_what_held_out_feedback_decides_is_decided_anew_as_examples_go() -> None:
    model, decided = Classifier({**NUMBERS, "max_age": 400}), list[int]()
    for example in vectors(2_000):
        model.learn([example])
        if model.head.decided.at_count == model.head.count > 0:
            decided.append(example.offset)
    assert min(decided) < 200 and max(decided) > 1_500
    assert {e.offset for e in model.held_out.examples()} <= {e.offset for e in model.ages.examples()}


@pytest.mark.parametrize("batch", [7, 64, 900])
def test_where_a_log_is_cut_does_not_decide_when_examples_go_nor_what_they_decide(batch: int) -> None:
    options: Options = {**NUMBERS, "head": "best", "random_features": 32, "max_age": 400}
    one_by_one, batched, examples = Classifier(options), Classifier(options), vectors(900)
    for example in examples:
        one_by_one.learn([example])
    for start in range(0, 900, batch):
        batched.learn(examples[start : start + batch])
    assert batched.fingerprint() == one_by_one.fingerprint()
    assert batched.head.decided == one_by_one.head.decided
    assert batched.held_out.examples() == one_by_one.held_out.examples()
    asked = [example.features for example in examples[:50]]
    assert batched.predict(asked) == one_by_one.predict(asked)


def test_the_newest_example_is_taken_back_by_subtraction_unless_it_is_alone_in_its_bucket() -> None:
    examples = texts(301)
    model = taught(examples)
    assert model.subtracts
    model.unlearn(examples[-1:])
    assert model.fingerprint() == taught(examples[:-1]).fingerprint()
    assert not model.subtracts


def test_taking_back_what_is_forgotten_already_changes_nothing() -> None:
    examples = texts(300)
    model = taught(examples)
    model.unlearn(examples[:100])
    assert model.fingerprint() == taught(examples).fingerprint()


@pytest.mark.parametrize("max_age", [-1, 1, BUCKETS - 1])
def test_an_age_that_is_less_than_an_event_a_bucket_is_refused(max_age: int) -> None:
    with pytest.raises(ValueError, match="max_age"):
        Classifier({"input": "text", "max_age": max_age})

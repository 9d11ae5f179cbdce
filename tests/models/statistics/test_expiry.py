"""Option max_age: which examples expire, exactly and by offset alone."""

from collections.abc import Sequence

import numpy as np
import pytest
from msgspec import structs

from online.models import Example, Options, create
from online.models.classifier import Classifier
from online.models.statistics.expiry import BUCKETS, ExpiryBuckets
from tests.models.synthetic import TOPICS, text, texts, vectors
from tests.support import first_of

WITH_MAX_AGE: Options = {"input": "text", "max_age": 80}
NUMBERS: Options = {"input": "vector", "size": 6, "scale": 4.0}


def train(examples: Sequence[Example], **options: object) -> Classifier:
    model = Classifier({**WITH_MAX_AGE, **options})
    model.learn(examples)
    return model


def offsets(buckets: ExpiryBuckets) -> list[int]:
    return [example.offset for example in buckets.examples()]


@pytest.mark.parametrize("newest", [79, 80, 89, 199, 200])
def test_examples_expire_at_max_age_or_up_to_a_bucket_earlier(newest: int) -> None:
    buckets = ExpiryBuckets(80)
    buckets.add(texts(newest))
    assert offsets(buckets) == list(range(max(1, newest // 10 * 10 - 70), newest + 1))


@pytest.mark.parametrize("seed", first_of([1, 2]))
def test_which_examples_expire_does_not_depend_on_the_order_of_learning(seed: int) -> None:
    buckets, expired, examples = ExpiryBuckets(80), list[Example](), texts(300)
    for index in np.random.default_rng(seed).permutation(300):
        expired += buckets.add([examples[index]])
    assert offsets(buckets) == list(range(230, 301))
    assert sorted(example.offset for example in expired) == list(range(1, 230))


@pytest.mark.parametrize("head", ["slda", "ridge", "rp_ridge", "best"])
def test_a_model_equals_one_that_never_learned_its_expired_examples(head: str) -> None:
    options = {**NUMBERS, "head": head, "max_age": 80, "random_features": 32}
    examples = vectors(300)
    with_expiry, newest_only = create("classifier", options), create("classifier", options)
    with_expiry.learn(examples)
    newest_only.learn(examples[229:])
    assert with_expiry.fingerprint() == newest_only.fingerprint()
    without_expiry = create("classifier", {**options, "max_age": 0})
    without_expiry.learn(examples)
    assert with_expiry.fingerprint() != without_expiry.fingerprint()


def test_nothing_of_an_expired_example_remains_in_the_files() -> None:
    secret = Example(1, "label", text(0, 4_321), TOPICS[0])
    model = train([secret, *texts(300)[1:]], outside="none")
    tensors = [tensor.tobytes() for part in model.state().values() for tensor in part.tensors.values()]
    assert not any(secret.features in data or secret.features.hex().encode() in data for data in tensors)


def test_a_class_without_remaining_examples_is_not_predicted_until_it_returns() -> None:
    model = train(texts(100))
    model.learn([example for example in texts(400)[200:] if example.label != TOPICS[0]])
    assert TOPICS[0] not in [candidate.id for candidate in model.predict([text(0)])[0].candidates]
    model.learn([Example(401, "label", text(0, 9), TOPICS[0])])
    assert model.predict([text(0)])[0].choice == TOPICS[0]


def test_predictions_follow_a_stream_that_changes() -> None:
    relabelled = [structs.replace(example, label=f"new {example.label}", reward=1.0) for example in texts(400)[200:]]
    with_expiry, without_expiry = train([*texts(200), *relabelled]), train([*texts(200), *relabelled], max_age=0)
    assert with_expiry.predict([text(1)])[0].choice == f"new {TOPICS[1]}"
    assert {candidate.id for candidate in with_expiry.predict([text(1)])[0].candidates} == {
        f"new {name}" for name in TOPICS
    }
    assert set(TOPICS) <= {candidate.id for candidate in without_expiry.predict([text(1)])[0].candidates}


def test_examples_of_the_outside_class_expire_too() -> None:
    outside = [structs.replace(example, label="none", reward=1.0, kind="label") for example in texts(60)]
    with_outside = train([*outside, *texts(400)[200:]], outside="none")
    assert with_outside.fingerprint() == train(texts(400)[200:], outside="none").fingerprint()


def test_decisions_from_held_out_feedback_are_repeated_as_examples_expire() -> None:
    model, decided = Classifier({**NUMBERS, "max_age": 400}), list[int]()
    for example in vectors(2_000):
        model.learn([example])
        if model.head.decided.at_count == model.head.count > 0:
            decided.append(example.offset)
    assert min(decided) < 200 and max(decided) > 1_500
    assert {e.offset for e in model.held_out.examples()} <= {e.offset for e in model.expiry.examples()}


@pytest.mark.parametrize("batch", [7, 64, 900])
def test_expiry_and_decisions_do_not_depend_on_batches(batch: int) -> None:
    options: Options = {**NUMBERS, "head": "best", "random_features": 32, "max_age": 400}
    one_by_one, batched, examples = Classifier(options), Classifier(options), vectors(900)
    for example in examples:
        one_by_one.learn([example])
    for start in range(0, 900, batch):
        batched.learn(examples[start : start + batch])
    assert batched.fingerprint() == one_by_one.fingerprint()
    assert batched.head.decided == one_by_one.head.decided
    assert batched.held_out.examples() == one_by_one.held_out.examples()
    inputs = [example.features for example in examples[:50]]
    assert batched.predict(inputs) == one_by_one.predict(inputs)


def test_the_newest_example_is_subtracted_unless_it_is_alone_in_its_bucket() -> None:
    examples = texts(301)
    model = train(examples)
    assert model.subtracts
    model.unlearn(examples[-1:])
    assert model.fingerprint() == train(examples[:-1]).fingerprint()
    assert not model.subtracts


def test_unlearning_an_expired_example_changes_nothing() -> None:
    examples = texts(300)
    model = train(examples)
    model.unlearn(examples[:100])
    assert model.fingerprint() == train(examples).fingerprint()


@pytest.mark.parametrize("max_age", [-1, 1, BUCKETS - 1])
def test_a_max_age_below_one_event_per_bucket_is_refused(max_age: int) -> None:
    with pytest.raises(ValueError, match="max_age"):
        Classifier({"input": "text", "max_age": max_age})

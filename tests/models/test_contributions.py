"""Sums of devices: merged, they leave the state of having learned the examples; what no examples can have is refused."""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from online.models import KINDS, BadExample, Example, Model, Options, create
from online.models.classifier import Classifier
from online.models.contributions import find_merging_obstacle, read_contribution
from online.models.exchange.sums_file import read_sums, write_sums
from online.models.statistics.exact import ExactStatistics
from tests.models.synthetic import NAMES, texts, vectors

VECTOR: Options = {"input": "vector", "size": 6, "scale": 4.0}
TEXT: Options = {"input": "text"}
SMALL: Options = {**VECTOR, "head": "rp_ridge", "random_features": 16}
CASES = [
    pytest.param(VECTOR, vectors, id="vector"),
    pytest.param(TEXT, texts, id="text"),
    pytest.param(SMALL, vectors, id="random features"),
    pytest.param({**VECTOR, "head": "best", "random_features": 16}, vectors, id="best"),
]
Draw = Callable[..., list[Example]]


def device_file(options: Options, examples: list[Example]) -> bytes:
    """What a device sends that has learned these examples, and nothing else."""
    device = Classifier(options)
    device.learn(examples)
    return device.write_contribution()


def as_example(data: bytes, offset: int = 1_000) -> Example:
    return Example(offset, "sums", data, "")


def changed(data: bytes, change: Callable[[ExactStatistics], None], **meta: Any) -> bytes:
    file = read_sums(data)
    change(file.statistics)
    return write_sums(file.statistics, {**file.meta, **meta})


@pytest.mark.parametrize(("options", "draw"), CASES)
def test_merged_sums_leave_the_state_of_learning_their_examples(options: Options, draw: Draw) -> None:
    examples = draw(90)
    central, merged = create("classifier", options), create("classifier", options)
    central.learn(examples)
    merged.learn(examples[:30])
    merged.learn([as_example(device_file(options, examples[30:70])), as_example(device_file(options, examples[70:]))])
    assert merged.fingerprint() == central.fingerprint()
    assert merged.choose([each.features for each in examples]) == central.choose(  # type: ignore[attr-defined]
        [each.features for each in examples]
    )


@pytest.mark.parametrize(("options", "draw"), CASES)
def test_subtracted_sums_leave_the_state_of_never_having_seen_them(options: Options, draw: Draw) -> None:
    examples = draw(60)
    own, model = create("classifier", options), create("classifier", options)
    own.learn(examples[:20])
    contribution = as_example(device_file(options, examples[20:]))
    model.learn([*examples[:10], contribution, *examples[10:20]])
    assert model.fingerprint() != own.fingerprint()
    assert model.subtracts
    model.unlearn([contribution])
    assert model.fingerprint() == own.fingerprint()


def test_the_order_of_sums_and_examples_does_not_matter() -> None:
    examples = vectors(40)
    contribution = as_example(device_file(VECTOR, examples[20:]))
    first, last = create("classifier", VECTOR), create("classifier", VECTOR)
    first.learn([contribution, *examples[:20]])
    for example in [*examples[:20], contribution]:
        last.learn([example])
    assert first.fingerprint() == last.fingerprint()


def test_a_restored_model_goes_on_as_one_that_was_never_stored() -> None:
    examples = vectors(400)
    model, restored = create("classifier", VECTOR), create("classifier", VECTOR)
    contribution = as_example(device_file(VECTOR, examples[:150]))
    model.learn([*examples[150:200], contribution])
    restored.restore(model.state())
    for each in (model, restored):
        each.learn(examples[200:])
    assert restored.fingerprint() == model.fingerprint()
    assert restored.facts() == model.facts()
    restored.unlearn([contribution])
    own = create("classifier", VECTOR)
    own.learn(examples[150:])
    assert restored.fingerprint() == own.fingerprint()


@pytest.mark.parametrize("head", ["slda", "ridge", "best"])
def test_a_model_of_sums_alone_answers_with_finite_chances(head: str) -> None:
    options: Options = {**VECTOR, "head": head, "random_features": 16}
    examples = vectors(300)
    model = create("classifier", options)
    model.learn([as_example(device_file(options, examples))])
    answers = model.predict([each.features for each in examples[:20]])
    assert all(np.isfinite(candidate.score) for answer in answers for candidate in answer.candidates)
    assert np.mean([answer.choice == each.label for answer, each in zip(answers, examples, strict=False)]) > 0.8


def test_sums_decide_nothing_because_none_of_their_examples_is_held_out() -> None:
    examples = vectors(1_000)
    model, own = create("classifier", VECTOR), create("classifier", VECTOR)
    own.learn(examples[:200])
    model.learn([as_example(device_file(VECTOR, examples[200:])), *examples[:100]])
    assert model.facts()["held_out_loss"] == 0.0, "its own examples are too few to decide"
    model.learn(examples[100:200])
    assert model.facts()["held_out"] == own.facts()["held_out"]
    assert model.facts()["held_out_loss"] > 0.0


def test_retracting_every_example_before_a_decision_leaves_a_model_that_answers() -> None:
    examples = vectors(300)
    model = create("classifier", VECTOR)
    model.learn([as_example(device_file(VECTOR, examples[130:])), *examples[:119]])
    model.unlearn(examples[:119])
    model.learn(examples[119:130])
    assert np.isfinite(model.predict([examples[0].features])[0].score)


def test_sums_after_a_change_count_as_recent_and_are_subtracted_from_that_too() -> None:
    examples = [Example(n + 1, "label", each.features, each.label) for n, each in enumerate(vectors(300))]
    model = create("classifier", VECTOR)
    model.learn(examples[:200])
    swapped = [Example(n, "label", each.features, f"new {each.label}") for n, each in enumerate(examples[200:], 201)]
    model.learn(swapped[:40])
    model.drifted(None, 201)
    before = model.fingerprint()
    contribution = as_example(device_file(VECTOR, [Example(0, "label", e.features, e.label) for e in swapped]), 241)
    model.learn([contribution])
    restored = create("classifier", VECTOR)
    restored.restore(model.state())
    for each in (model, restored):
        each.unlearn([contribution])
        assert each.fingerprint() == before
        each.learn(swapped[40:])
    assert model.fingerprint() == restored.fingerprint()
    inputs = [each.features for each in examples[:20]]
    assert model.choose(inputs) == restored.choose(inputs)  # type: ignore[attr-defined]


def test_workers_leave_a_range_with_sums_to_the_learner() -> None:
    examples = vectors(10)
    assert Classifier(VECTOR).sum_up([*examples, as_example(device_file(VECTOR, examples))]) is None


# which models take sums


@pytest.mark.parametrize(
    ("kind", "options", "reason"),
    [
        ("ranker", {}, "keeps no sums"),
        ("knn", TEXT, "keeps no sums"),
        ("regressor", VECTOR, "keeps no sums"),
        ("classifier", {"input": "vector", "size": 6}, "declare the option 'scale'"),
        ("classifier", {"input": "table", "scale": 1.0}, "columns of a table"),
        ("classifier", {**TEXT, "window": 20}, "'window'"),
        ("classifier", {**TEXT, "max_age": 20}, "'max_age'"),
        ("classifier", {**TEXT, "challenger": {"kind": "knn"}}, "challenger"),
    ],
)
def test_a_model_that_cannot_take_sums_says_why(kind: str, options: Options, reason: str) -> None:
    obstacle = find_merging_obstacle(kind, options)
    assert obstacle is not None and reason in obstacle


def test_every_kind_refuses_sums_or_takes_them() -> None:
    data = device_file(TEXT, texts(5))
    for kind, spec in KINDS.items():
        if spec.merges_sums or spec.is_ensemble or kind in ("sklearn", "sklearn_regressor", "river", "river_regressor"):
            continue
        options: Options = {} if spec.inputs == ("text",) else {**VECTOR}
        if kind == "logistic":
            options = {"input": "vector", "size": 6}
        if kind in ("tower", "knn", "majority"):
            options = {"input": "vector", "size": 6}
        model: Model = create(kind, options)
        with pytest.raises(BadExample):
            model.learn([as_example(data)])


# what no examples can have


def subtract_counts(sums: ExactStatistics) -> None:
    sums.counts[0, 0] = -1


def exaggerate_counts(sums: ExactStatistics) -> None:
    sums.counts[0, 0] = 2**62


def exaggerate_sums(sums: ExactStatistics) -> None:
    sums.sums[0, 0, 3] = 127 * sums.counts[0, 0] + 1


def exaggerate_negative_sums(sums: ExactStatistics) -> None:
    sums.sums[1, 0, 0] = -(2**63)


def exaggerate_gram(sums: ExactStatistics) -> None:
    gram = sums.gram
    gram[2, 3] = gram[3, 2] = 127**2 * sums.counts[0].sum() + 1
    set_gram(sums, gram)


def shrink_squares(sums: ExactStatistics) -> None:
    gram = sums.gram
    gram[0, 0] -= 2 * (gram[0, 0] // 4 + 8)
    set_gram(sums, gram)


def break_parity(sums: ExactStatistics) -> None:
    gram = sums.gram
    gram[1, 1] += 1
    set_gram(sums, gram)


def break_cauchy_schwarz(sums: ExactStatistics) -> None:
    gram = sums.gram
    gram[0, 1] = gram[1, 0] = int(np.sqrt(float(gram[0, 0]) * float(gram[1, 1]))) + 10
    set_gram(sums, gram)


def break_definiteness(sums: ExactStatistics) -> None:
    """Three features, each of which is the opposite of both others, as no vectors are."""
    gram = sums.gram
    least = int(min(np.diagonal(gram)[:3])) - 1
    for a, b in ((0, 1), (0, 2), (1, 2)):
        gram[a, b] = gram[b, a] = -least
    set_gram(sums, gram)


def shrink_squares_below_the_sum(sums: ExactStatistics) -> None:
    """Many examples whose feature is 0 or 1 have as many squares as ones, however small the square of the sum over n is."""
    gram = sums.gram
    sums.sums[:, :, 3] = 0
    sums.sums[0, 0, 3], gram[3], gram[:, 3] = 5, 0, 0
    gram[3, 3] = 3
    set_gram(sums, gram)


def set_gram(sums: ExactStatistics, gram: np.ndarray) -> None:
    sums._gram = gram


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (subtract_counts, "negative number of examples"),
        (exaggerate_counts, "more than"),
        (exaggerate_sums, "larger sums than its examples"),
        (exaggerate_negative_sums, "larger sums than its examples"),
        (exaggerate_gram, "larger sums than the positive examples"),
        (shrink_squares, "smaller sum of squares"),
        (shrink_squares_below_the_sum, "smaller sum of squares"),
        (break_parity, "odd where the sum is even"),
        (break_cauchy_schwarz, "negative eigenvalue"),
        (break_definiteness, "negative eigenvalue"),
    ],
)
def test_sums_that_no_examples_have_are_refused(change: Callable[[ExactStatistics], None], problem: str) -> None:
    data = changed(device_file(VECTOR, vectors(40)), change)
    model = create("classifier", VECTOR)
    model.learn(vectors(10))
    before = model.fingerprint()
    with pytest.raises(BadExample, match=problem):
        model.learn([as_example(data)])
    assert model.fingerprint() == before


def test_single_examples_have_the_gram_matrix_that_follows_from_them() -> None:
    def add_squares(sums: ExactStatistics) -> None:
        set_gram(sums, sums.gram + 2 * np.eye(sums.width, dtype=np.int64))

    single = [next(each for each in vectors(40) if each.label == label and each.reward == 1.0) for label in NAMES[:2]]
    data = device_file(VECTOR, single)
    assert read_contribution(data).count == 2
    with pytest.raises(BadExample, match="not that of these examples"):
        read_contribution(changed(data, add_squares))


@pytest.mark.parametrize(
    ("meta", "problem"),
    [
        ({"reads": "vector-other"}, "'reads' differs"),
        ({"octave": 1.5}, "'octave' differs"),
        ({"columns": []}, "'columns' differs"),
    ],
)
def test_sums_of_other_features_are_refused(meta: dict[str, Any], problem: str) -> None:
    data = changed(device_file(VECTOR, vectors(10)), lambda sums: None, **meta)
    with pytest.raises(BadExample, match=problem):
        create("classifier", VECTOR).check([as_example(data)])


def test_sums_of_other_random_features_are_refused() -> None:
    data = device_file({**SMALL, "seed": 7}, vectors(10))
    with pytest.raises(BadExample, match="'seed' differs"):
        create("classifier", SMALL).check([as_example(data)])


def test_sums_of_another_width_are_refused() -> None:
    file = read_sums(device_file(VECTOR, vectors(10)))
    narrow = write_sums(file.statistics.block(0, 3), file.meta)
    with pytest.raises(BadExample, match="of 3 features, where the model has 24"):
        create("classifier", VECTOR).check([as_example(narrow)])


def test_sums_whose_intercept_is_not_constant_are_refused() -> None:
    def shift(sums: ExactStatistics) -> None:
        sums.sums[1, 0, 0] -= 2

    wrong = [Example(n, "reward", each.features, each.label, reward=0.0) for n, each in enumerate(vectors(10))]
    data = changed(device_file(SMALL, [*vectors(10), *wrong]), shift)
    with pytest.raises(BadExample, match="constant"):
        create("classifier", SMALL).check([as_example(data)])


def test_sums_of_more_classes_than_the_model_takes_are_refused() -> None:
    options: Options = {**VECTOR, "max_labels": 3}
    model = create("classifier", options)
    model.learn(vectors(10, among=range(2)))
    with pytest.raises(BadExample, match="more than 3 classes"):
        model.check([as_example(device_file(options, vectors(10, among=range(2, 4))))])


def draw_rightly_named(seed: int, among: range) -> list[Example]:
    return [example for example in vectors(40, seed, among) if example.reward == 1.0]


def test_classes_whose_examples_were_all_subtracted_do_not_count() -> None:
    """As after sums that were refused or retracted: the model takes what one takes that has never seen them."""
    options: Options = {**VECTOR, "max_labels": 3}
    model, own = create("classifier", options), create("classifier", options)
    kept, further = draw_rightly_named(0, range(1)), draw_rightly_named(2, range(2, 4))
    gone = as_example(device_file(options, draw_rightly_named(1, range(1, 3))), 900)
    model.learn([gone, *kept])
    model.unlearn([gone])
    restored = create("classifier", options)
    restored.restore(model.state())
    for each in (model, restored, own):
        each.learn([as_example(device_file(options, further)), *(kept if each is own else [])])
    assert model.fingerprint() == restored.fingerprint() == own.fingerprint()
    inputs = [example.features for example in [*kept, *further]]
    for each in (model, restored):
        for answer, expected in zip(each.predict(inputs), own.predict(inputs), strict=True):
            assert answer.choice == expected.choice
            assert [c.score for c in answer.candidates] == pytest.approx([c.score for c in expected.candidates])


def test_retracted_labels_do_not_count_either() -> None:
    model = create("classifier", {**VECTOR, "max_labels": 3})
    for topic in range(5):
        examples = draw_rightly_named(0, range(topic, topic + 1))
        model.learn(examples)
        model.unlearn(examples)
    model.learn(draw_rightly_named(0, range(2, 5)))


def test_sums_of_the_class_that_is_none_are_refused() -> None:
    options: Options = {**VECTOR, "outside": "mango"}
    with pytest.raises(BadExample, match="which is no class"):
        create("classifier", options).check([as_example(device_file(VECTOR, vectors(20)))])


@pytest.mark.parametrize("name", ["", " \n", "a\0b", "\ud800"])
def test_sums_of_a_class_whose_name_no_label_can_be_are_refused(name: str) -> None:
    def rename(sums: ExactStatistics) -> None:
        sums.classes[0] = name

    model = create("classifier", VECTOR)
    with pytest.raises(BadExample, match="a class cannot have the name"):
        model.learn([as_example(changed(device_file(VECTOR, vectors(10)), rename))])
    model.fingerprint().encode()


@pytest.mark.parametrize("data", [b"", b"no file", json.dumps({"counts": []}).encode()])
def test_what_is_no_file_of_sums_is_refused(data: bytes) -> None:
    with pytest.raises(BadExample, match="safetensors"):
        create("classifier", VECTOR).check([as_example(data)])


def test_sums_of_no_example_are_refused() -> None:
    with pytest.raises(BadExample, match="of no example"):
        read_contribution(Classifier(VECTOR).write_contribution())


def test_classes_without_examples_are_left_out() -> None:
    def add(sums: ExactStatistics) -> None:
        sums.add_class("nothing of this")

    contribution = read_contribution(changed(device_file(VECTOR, vectors(10)), add))
    assert "nothing of this" not in contribution.statistics.classes
    assert contribution.count == 10

"""Numbers that leave the scale of the first examples: every kind goes on learning from them."""

from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray

from online.models import Example, Model, create
from online.models.classifier import Classifier
from online.models.encoders.columns import Column, Columns
from online.models.encoders.ranges import RangeWatch
from tests.models.synthetic import row
from tests.support import first_of

Floats = NDArray[np.float64]
RNG_SEED = 3


def label_halves(sizes: Floats, middle: float) -> list[tuple[float, str]]:
    return [(float(size), "upper" if size > middle else "lower") for size in sizes]


def grow() -> list[tuple[float, str]]:
    rng = np.random.default_rng(RNG_SEED)
    return label_halves(rng.uniform(0, 10, 300), 5) + label_halves(rng.uniform(0, 1_000, 2_000), 500)


def shrink() -> list[tuple[float, str]]:
    rng = np.random.default_rng(RNG_SEED)
    return label_halves(rng.uniform(8e5, 12e5, 300), 1e6) + label_halves(rng.uniform(0, 1, 2_000), 0.5)


def stand_still_first() -> list[tuple[float, str]]:
    rng = np.random.default_rng(RNG_SEED)
    return label_halves(np.full(300, 1_000.0), 1_000) + label_halves(rng.uniform(1_000, 1_001, 2_000), 1_000.5)


def encode(size: float, kind: str) -> bytes:
    return np.array([size]).tobytes() if kind == "vector" else row({"size": size})


def make_examples(pairs: list[tuple[float, str]], kind: str = "table") -> list[Example]:
    return [Example(n, "label", encode(size, kind), label) for n, (size, label) in enumerate(pairs, 1)]


def create_model(name: str, kind: str) -> Model:
    return create(name, {"input": kind, **({"size": 1} if kind == "vector" else {})})


def learn_in(model: Model, examples: list[Example], batch: int) -> Model:
    for start in range(0, len(examples), batch):
        model.learn(examples[start : start + batch])
    return model


def judge(model: Model, examples: list[Example]) -> list[float]:
    """The errors of the answers before each example was learned."""
    errors = []
    for example in examples:
        choice = model.predict([example.features])[0].choice
        errors.append(abs(float(choice) - float(example.label)) if choice else 0.0)
        model.learn([example])
    return errors


@pytest.mark.parametrize("kind", ["table", "vector"])
@pytest.mark.parametrize(
    "pairs", first_of([grow(), shrink(), stand_still_first()]), ids=["grow", "shrink", "stand still first"]
)
@pytest.mark.parametrize("name", ["classifier", "logistic"])
def test_a_classifier_follows_numbers_to_another_range(name: str, pairs: list[tuple[float, str]], kind: str) -> None:
    model, right = create_model(name, kind), 0
    examples = make_examples(pairs, kind)
    for start in range(0, len(examples), 10):
        batch = examples[start : start + 10]
        answers = model.predict([each.features for each in batch])
        right += sum(answer.choice == each.label for answer, each in zip(answers, batch, strict=True))
        model.learn(batch)
    assert right / len(examples) >= 0.94


@pytest.mark.parametrize("kind", first_of(["vector", "table"]))
def test_a_regressor_that_starts_with_small_numbers_answers_about_large_ones(kind: str) -> None:
    rng = np.random.default_rng(1)
    sizes = np.concatenate([rng.uniform(8, 12, 250), rng.uniform(800, 1_200, 400)])
    model = create_model("regressor", kind)
    errors = judge(model, make_examples([(float(size), repr(float(size))) for size in sizes], kind))
    assert np.mean(errors[300:]) < 10


@pytest.mark.long
def test_a_regressor_follows_a_growing_series_about_as_well_as_no_change() -> None:
    rng = np.random.default_rng(1)
    prices = 10 * np.exp(np.arange(1_500) / 300) * (1 + rng.normal(0, 0.01, 1_500))
    pairs = [(float(before), repr(float(now))) for before, now in pairwise(prices)]
    errors = judge(create_model("regressor", "table"), make_examples(pairs))
    assert np.mean(errors[1_000:]) < 1.15 * np.abs(np.diff(prices))[1_000:].mean()


def test_an_interval_is_wide_where_a_number_is_beyond_everything_learned() -> None:
    rng = np.random.default_rng(1)
    sizes = rng.uniform(8, 12, 250)
    model = create_model("regressor", "table")
    model.learn(make_examples([(float(size), repr(float(size))) for size in sizes]))
    interval = model.predict([row({"size": 1_000.0})])[0].interval
    assert interval is not None
    assert interval[1] > 1_000


@pytest.mark.few(2)
@pytest.mark.parametrize("name", ["classifier", "regressor", "logistic"])
@pytest.mark.parametrize("kind", ["table", "vector"])
def test_no_batch_changes_what_is_learned_from_a_range_that_moves(name: str, kind: str) -> None:
    pairs = [(size, repr(size) if name == "regressor" else label) for size, label in grow()[:700]]
    examples = make_examples(pairs, kind)
    fingerprints = {learn_in(create_model(name, kind), examples, batch).fingerprint() for batch in (1, 7, 700)}
    assert len(fingerprints) == 1


@pytest.mark.parametrize("name", ["classifier", "regressor", "logistic"])
def test_a_restored_model_goes_on_where_the_range_moves(name: str) -> None:
    pairs = [(size, repr(size) if name == "regressor" else label) for size, label in grow()[:700]]
    examples = make_examples(pairs)
    model = learn_in(create_model(name, "table"), examples[:310], 310)
    restored = create_model(name, "table")
    restored.restore(model.state())
    restored.learn(examples[310:])
    model.learn(examples[310:])
    assert restored.fingerprint() == model.fingerprint()
    assert restored.predict([examples[-1].features]) == model.predict([examples[-1].features])


@pytest.mark.parametrize("kind", ["table", "vector"])
@pytest.mark.parametrize(
    "pairs", first_of([grow(), shrink(), stand_still_first()]), ids=["grow", "shrink", "stand still first"]
)
def test_expired_examples_leave_the_sums_as_they_were_added(pairs: list[tuple[float, str]], kind: str) -> None:
    """A later band reads them in another way, and subtracting that would leave sums of nothing."""
    model, examples = (
        Classifier({"input": kind, "size": int(kind == "vector"), "max_age": 400}),
        make_examples(pairs, kind),
    )
    for start in range(0, len(examples), 7):
        model.learn(examples[start : start + 7])
        if model.inputs.warm is None:
            x_BD = model.inputs.features_as_counted(model.expiry.examples()).astype(np.int64)
            assert np.array_equal(model.statistics.device_gram(), x_BD.T @ x_BD)


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("pairs", [grow(), stand_still_first()], ids=["grow", "stand still first"])
def test_held_out_examples_are_left_out_as_they_were_added(pairs: list[tuple[float, str]]) -> None:
    """Otherwise the sums of the others are those of no rows, and their weights overflow."""
    model = create("classifier", {"input": "table", "head": "rp_ridge", "random_features": 256})
    learn_in(model, make_examples(pairs), 50)
    assert float(model.facts()["held_out_loss"]) < 0.2


def test_a_single_outlier_costs_a_column_nothing() -> None:
    columns, watch = Columns(False, 10, [Column.fit("size", [0.0, 5.0, 10.0])]), RangeWatch()
    numbers = np.full((1_000, 1), 5.0)
    numbers[[3, 500]] = 1e12
    assert watch.observe(columns, range(1_000), numbers) == (1_000, [])


def test_growth_needs_few_bands() -> None:
    columns, watch = Columns(False, 10, [Column.fit("size", [0.0, 5.0, 10.0])]), RangeWatch()
    numbers, start = np.arange(20_000.0)[:, None], 0
    while start < len(numbers):
        count, bands = watch.observe(columns, range(start, len(numbers)), numbers[start:])
        columns.extend(bands)
        start += count
    assert 4 <= len(columns.bands["size"]) <= 7

"""The regressor: its error, its intervals, and the labels that it refuses."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from online.models import BadExample, Example
from online.plugins.regression.evidence import AT_ONCE, ROUNDING, TERMS, solve
from online.plugins.regression.regressor import EXACT_ROWS, Regressor
from online.plugins.regression.tracking.tracker import ROOM, SCAN_STEP
from online.plugins.regression.wide_targets import TARGET_LIMIT
from tests.models.synthetic import row
from tests.support import first_of

Floats = NDArray[np.float64]


def line(count: int, seed: int, size: int = 4, noise: float = 1.0) -> tuple[Floats, Floats]:
    """x [N, size], y [N]: a linear rule with an offset, and normal noise."""
    rng = np.random.default_rng(seed)
    rule = np.random.default_rng(0).normal(0, 3, size)
    x = rng.normal(size=(count, size))
    return x, 20 + x @ rule + rng.normal(0, noise, count)


def make_examples(x: Floats, y: Floats, start: int = 1) -> list[Example]:
    return [Example(start + n, "label", x[n].tobytes(), repr(float(y[n]))) for n in range(len(y))]


def vector_model(size: int = 4, **options: float) -> Regressor:
    return Regressor({"input": "vector", "size": size, **options})


def predict(model: Regressor, x: Floats) -> tuple[Floats, Floats]:
    """Numbers [B], intervals [B, 2]."""
    answers = model.predict([each.tobytes() for each in x])
    return np.array([float(a.choice or "nan") for a in answers]), np.array([a.interval for a in answers])


def test_it_learns_a_linear_rule() -> None:
    model = vector_model()
    model.learn(make_examples(*line(600, 1, noise=0.2)))
    x, y = line(300, 2, noise=0.0)
    assert np.abs(predict(model, x)[0] - y).mean() < 0.1


def test_bumps_let_it_learn_a_nonlinear_rule() -> None:
    x = np.random.default_rng(0).uniform(-2, 2, (800, 1))
    model = vector_model(1)
    model.learn(make_examples(x[:600], x[:600, 0] ** 2))
    errors = np.abs(predict(model, x[600:])[0] - x[600:, 0] ** 2)
    assert errors.mean() < 0.25 * np.std(x[:, 0] ** 2)


@pytest.mark.parametrize("level", first_of([0.9, 0.5]))
@pytest.mark.parametrize(("count", "size"), first_of([(30, 20), (5, 4), (12, 4), (250, 20), (1_000, 4)]))
def test_an_interval_contains_the_number_as_often_as_its_level(level: float, count: int, size: int) -> None:
    contained = []
    for seed in range(30):
        model = vector_model(size, level=level)
        x, y = line(count + 100, seed, size)
        model.learn(make_examples(x[:count], y[:count]))
        _, interval = predict(model, x[count:])
        contained += ((interval[:, 0] <= y[count:]) & (y[count:] <= interval[:, 1])).tolist()
    few = count < 4 * size  # fewer examples than features (with their bumps): an interval is a little too narrow
    assert np.mean(contained) == pytest.approx(level, abs=0.12 if few else 0.04)


def test_an_interval_is_wider_far_from_the_examples() -> None:
    model = vector_model(1, scale=8.0)
    model.learn(make_examples(*line(60, 0, 1)))
    _, interval = predict(model, np.array([[0.0], [7.5]]))
    widths = interval[:, 1] - interval[:, 0]
    assert widths[1] > 1.2 * widths[0]


def test_after_one_example_there_is_an_answer_without_an_interval() -> None:
    model = Regressor({"input": "table"})
    model.learn([Example(1, "label", row({"x": 1.0}), "12.5")])
    answer = model.predict([row({"x": 3.0})])[0]
    assert (answer.choice, answer.interval) == ("12.5", None)


def test_without_features_the_answer_is_the_mean() -> None:
    model = Regressor({"input": "table"})
    model.learn([Example(n, "label", row({}), text) for n, text in enumerate(["1", "2", "6"])])
    assert float(model.predict([row({})])[0].choice or "nan") == pytest.approx(3.0, abs=1e-3)


def test_a_constant_target_is_predicted_exactly() -> None:
    model = vector_model(2)
    x = np.random.default_rng(0).normal(size=(300, 2))
    model.learn(make_examples(x, np.full(300, -7.25)))
    numbers, interval = predict(model, x[:5])
    assert numbers.tolist() == [-7.25] * 5
    assert (interval[:, 1] - interval[:, 0] < 0.01).all()


def test_moments_equal_the_sums_of_products() -> None:
    model = vector_model(3, scale=4.0, target_scale=64.0)
    x, y = line(EXACT_ROWS + 50, 0, 3)
    model.learn(make_examples(x, y))
    features = model.inputs.features([each.tobytes() for each in x]).astype(np.int64)
    quanta = np.rint(np.ldexp(y, model.target.exponent)).astype(np.int64)
    z = np.column_stack([np.ones(len(y), np.int64), quanta, features])
    np.testing.assert_array_equal(model.moments, z.T @ z)


def test_targets_at_the_limit_are_summed_exactly() -> None:
    model = vector_model(1, scale=1.0, target_scale=1.0)
    count = EXACT_ROWS + 1
    model.learn(make_examples(np.ones((count, 1)), np.full(count, 1e9)))
    assert int(model.moments[1, 1]) == count * TARGET_LIMIT**2


@pytest.mark.parametrize("shift", [0.0, -40.0, 1e6])
@pytest.mark.parametrize("width", [1e-3, 1.0, 1e4])
def test_a_fitted_target_scale_has_a_small_quantum_and_a_wide_range(shift: float, width: float) -> None:
    model = vector_model(1)
    y = shift + width * np.random.default_rng(0).normal(size=250)
    model.learn(make_examples(np.zeros((250, 1)), y))
    quantum = 2.0**-model.target.exponent
    assert quantum < width / 1_000
    assert quantum * TARGET_LIMIT > 100 * width


EXTREMES = ["1e300", "-1e300", "5e-324", "0", "-0.0", "1"]


@pytest.mark.parametrize("first", EXTREMES)
@pytest.mark.parametrize("second", EXTREMES)
@pytest.mark.filterwarnings("ignore:overflow")
def test_a_model_with_extreme_targets_gives_finite_answers(first: str, second: str) -> None:
    model = vector_model(1)
    examples = [Example(n, "label", np.array([float(n)]).tobytes(), text) for n, text in enumerate([first, second])]
    model.learn(examples * 120)
    for answer in model.predict([np.array([x]).tobytes() for x in (0.0, 1.0, 1e300)]):
        assert answer.interval is not None
        assert all(map(math.isfinite, (float(answer.choice or "nan"), *answer.interval)))


@pytest.mark.parametrize("label", ["mango", "", "nan", "inf", "-inf", "1e301", "1e999", "12,5", "0x10"])
def test_a_label_that_is_not_a_finite_number_is_refused(label: str) -> None:
    model = vector_model(1)
    with pytest.raises(BadExample, match=r"the label .* (is not a number|must be finite)"):
        model.learn([Example(1, "label", np.zeros(1).tobytes(), label)])


def test_a_reward_is_refused() -> None:
    with pytest.raises(BadExample, match="learns from the right numbers, not from rewards"):
        vector_model(1).learn([Example(1, "reward", np.zeros(1).tobytes(), "1.0")])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"level": 0.0}, "option 'level' must be above 0 and below 1, not"),
        ({"level": 1}, "option 'level' must be above 0 and below 1, not"),
        ({"target_scale": "wide"}, "option 'target_scale' must be float"),
        ({"priors": True}, "unknown option 'priors'"),
    ],
)
def test_an_invalid_option_is_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Regressor(options)


def test_facts_report_the_noise_in_the_unit_of_the_target() -> None:
    model = vector_model(2)
    model.learn(make_examples(*line(1_000, 3, 2, noise=2.5)))
    assert model.facts()["noise"] == pytest.approx(2.5, rel=0.1)


# the solve


def leave_out(model: Regressor) -> list[str | tuple[float, float] | None]:
    """What a model answers that was solved from the same moments alone."""
    inputs = [x.tobytes() for x in line(20, seed=9)[0]]
    return [value for answer in model.predict(inputs) for value in (answer.choice, answer.interval)]


@pytest.mark.parametrize("batch", first_of([3, 1, AT_ONCE, AT_ONCE + 1]))
def test_answers_after_every_lesson_equal_those_solved_from_the_moments(batch: int) -> None:
    model, examples = vector_model(scale=8.0, target_scale=100.0), make_examples(*line(8 * TERMS, 4, noise=3.0))
    model.answers_by_updates = True
    for start in range(0, len(examples), batch):
        model.learn(examples[start : start + batch])
        updated, again = leave_out(model), vector_model(scale=8.0, target_scale=100.0)
        again.learn(examples[: start + batch])
        assert updated == leave_out(again)


def test_an_unlearned_example_leaves_no_trace_in_the_answers() -> None:
    model, examples = vector_model(scale=8.0, target_scale=100.0), make_examples(*line(60, 5))
    model.answers_by_updates = True
    never = vector_model(scale=8.0, target_scale=100.0)
    never.learn(examples[:-1])
    for example in examples:
        model.learn([example])
        leave_out(model)
    model.unlearn(examples[-1:])
    assert leave_out(model) == leave_out(never)


def moments_of(x: Floats, y: Floats) -> NDArray[np.int64]:
    z = np.column_stack([np.ones(len(y)), y, x]).astype(np.int64)
    return (z.T @ z).astype(np.int64)


def integer_line(count: int, size: int, seed: int) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(seed)
    x = rng.integers(-60, 60, (count, size)).astype(np.float64)
    return x, np.rint(x @ rng.normal(0, 5, size) + rng.normal(0, 200, count))


@pytest.mark.parametrize(("count", "size"), [(6, 10), (40, 10), (400, 10)])
def test_the_solve_is_ridge_regression_with_a_free_intercept(count: int, size: int) -> None:
    x, y = integer_line(count, size, count)
    ridge = solve(moments_of(x, y))
    centred, strength = x - x.mean(0), ridge.scalars[3]
    inverse = np.linalg.inv(centred.T @ centred + strength * np.eye(size))
    np.testing.assert_allclose(ridge.weights, inverse @ centred.T @ (y - y.mean()), rtol=1e-8)
    np.testing.assert_allclose(ridge.spread @ ridge.spread.T, inverse, rtol=1e-4, atol=1e-9)
    left = (y - y.mean()) @ (y - y.mean() - centred @ ridge.weights)
    assert ridge.scalars[2] == pytest.approx(left / (count - 1), rel=1e-8)


def test_the_strength_maximises_the_evidence() -> None:
    x, y = integer_line(40, 10, 1)

    def evidence(strength: float) -> float:
        """Log density of y under its multivariate t, computed from the N x N covariance, unlike in `solve`."""
        centre = np.eye(40) - 1 / 40
        basis = np.linalg.svd(centre)[0][:, :39]
        y_N, x_ND = basis.T @ y, basis.T @ x
        covariance = np.eye(39) + x_ND @ x_ND.T / strength
        return float(-0.5 * np.linalg.slogdet(covariance)[1] - 39 / 2 * np.log(y_N @ np.linalg.solve(covariance, y_N)))

    best = float(solve(moments_of(x, y)).scalars[3])
    assert all(evidence(best) >= evidence(best * factor) for factor in (0.1, 0.7, 1.4, 10.0))


def test_noise_is_at_least_that_of_rounding() -> None:
    x = np.random.default_rng(0).integers(-60, 60, (100, 3)).astype(np.float64)
    assert solve(moments_of(x, x @ np.array([3.0, -2.0, 7.0]))).scalars[2] >= ROUNDING


@pytest.mark.parametrize("make", [lambda: vector_model(4), lambda: vector_model(4, scale=4.0, target_scale=32.0)])
def test_the_state_does_not_depend_on_the_order_of_examples(make: Callable[[], Regressor]) -> None:
    examples = make_examples(*line(150, 5))
    one, other = make(), make()
    one.learn(examples)
    other.learn(examples[::-1])
    assert one.fingerprint() == other.fingerprint()


@pytest.mark.parametrize("scale", [-1.0, math.nan, math.inf])
def test_a_scale_out_of_range_is_refused_by_name(scale: float) -> None:
    with pytest.raises(ValueError, match="option 'target_scale' must lie in"):
        Regressor({"target_scale": scale})


# a moving world


def scaled_model(**options: float) -> Regressor:
    return vector_model(4, scale=8.0, target_scale=100.0, **options)


def moving(count: int, seed: int = 0, turns: int = 3) -> list[Example]:
    """A linear rule that turns into another one a few times."""
    draw = np.random.default_rng(seed)
    rules = np.repeat(draw.normal(0, 3, (turns, 4)), -(-count // turns), axis=0)[:count]
    x = draw.normal(size=(count, 4))
    return make_examples(x, 20 + (x * rules).sum(1) + draw.normal(0, 0.5, count))


def judge(model: Regressor, examples: list[Example]) -> tuple[Floats, Floats]:
    """Errors, and whether the interval contained the number, of each example before it is learned."""
    errors, inside = [], []
    for example in examples:
        (answer,), number = model.predict([example.features]), float(example.label)
        errors.append(abs(float(answer.choice or "nan") - number))
        inside.append(answer.interval is not None and answer.interval[0] <= number <= answer.interval[1])
        model.learn([example])
    return np.array(errors), np.array(inside)


def test_after_a_change_it_answers_by_the_new_rule() -> None:
    errors = {follow: judge(scaled_model(follow=follow), moving(1_500))[0][1_150:] for follow in (True, False)}
    assert errors[True].mean() < 0.8  # the noise alone makes 0.4
    assert errors[True].mean() < 0.4 * errors[False].mean()


@pytest.mark.parametrize(("level", "turns"), first_of([(0.9, 3), (0.5, 1), (0.5, 3), (0.9, 1), (0.99, 1)]))
def test_an_interval_keeps_its_level_in_a_moving_world(level: float, turns: int) -> None:
    inside = judge(scaled_model(level=level), moving(1_500, 1, turns))[1]
    assert inside[20:].mean() == pytest.approx(level, abs=0.04)


def test_a_world_that_stands_still_costs_little() -> None:
    examples = make_examples(*line(1_200, 3))
    errors = {follow: judge(scaled_model(follow=follow), examples)[0][100:].mean() for follow in (True, False)}
    assert errors[True] < 1.02 * errors[False]


def learned(examples: list[Example], batch: int = 1_000, **options: float) -> Regressor:
    model = scaled_model(**options)
    for start in range(0, len(examples), batch):
        model.learn(examples[start : start + batch])
    return model


def restored(model: Regressor, serving_only: bool = False) -> Regressor:
    again = scaled_model()
    again.restore(model.state(serving_only))
    return again


@pytest.mark.parametrize("count", [40, 800, ROOM + 300])
@pytest.mark.parametrize("batch", [7, 10_000])
def test_the_same_examples_give_the_same_answers_in_any_batches_and_order(count: int, batch: int) -> None:
    examples = moving(count)
    shuffled = [examples[place] for place in np.random.default_rng(1).permutation(count)]
    assert leave_out(learned(examples, batch)) == leave_out(learned(examples))
    assert leave_out(learned(shuffled, count)) == leave_out(learned(examples))


def test_answers_in_between_do_not_change_later_ones() -> None:
    examples, asked = moving(900), scaled_model()
    for start in range(0, 900, 30):
        asked.learn(examples[start : start + 30])
        leave_out(asked)
    assert leave_out(asked) == leave_out(learned(examples))


@pytest.mark.parametrize("count", [300, ROOM + 300])
@pytest.mark.parametrize("newest", [True, False])
def test_unlearned_examples_leave_no_trace_in_what_follows_the_world(count: int, newest: bool) -> None:
    examples = moving(count)
    gone = examples[-200::2] if newest else examples[:200:2]
    model = learned(examples)
    leave_out(model)
    model.unlearn(gone)
    assert leave_out(model) == leave_out(learned([example for example in examples if example not in gone]))


def test_it_says_when_more_cannot_be_subtracted() -> None:
    examples = moving(ROOM + 600)
    model, left = learned(examples), list(examples)
    while model.subtracts:
        model.unlearn([left.pop()])
    assert SCAN_STEP <= len(examples) - len(left) < len(examples) - 1
    assert leave_out(model) == leave_out(learned(left))


@pytest.mark.parametrize("count", [50, 800])
def test_a_restored_model_answers_and_goes_on_as_the_one_that_was_stored(count: int) -> None:
    examples = moving(count + 300)
    model = learned(examples[:count])
    again, serving = restored(model), restored(model, serving_only=True)
    assert leave_out(model) == leave_out(again) == leave_out(serving)
    for each in (model, again):
        each.learn(examples[count:])
    assert leave_out(model) == leave_out(again)


def test_a_state_of_a_model_that_did_not_follow_answers_as_before_and_follows_from_then_on() -> None:
    examples = moving(1_800)
    earlier = learned(examples[:600], follow=False)
    model = restored(earlier)
    assert leave_out(model) == leave_out(earlier)
    assert model.fingerprint() == earlier.fingerprint()
    errors = judge(model, examples[600:])[0]
    assert errors[750:].mean() < 0.8


def test_following_does_not_change_the_state_hash() -> None:
    examples = moving(700)
    assert learned(examples).fingerprint() == learned(examples, follow=False).fingerprint()

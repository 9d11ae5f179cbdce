"""Sums of examples travel masked, and their total is the one of all examples."""

import numpy as np
import pytest

from online_federated.secure_aggregation.errors import AggregationFailed
from online_federated.values import SumLimits, check_limits, choose_layout, flatten_sums, unflatten_sums
from tests.packages.online_federated.secure_aggregation.scene import Aggregation

CLASSES, WIDTH, EXAMPLES = 3, 5, 8


def draw_sums(seed: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    rows, classes = random.integers(-127, 128, (EXAMPLES, WIDTH)), random.integers(0, CLASSES, EXAMPLES)
    counts, sums = np.zeros((2, CLASSES), np.int64), np.zeros((2, CLASSES, WIDTH), np.int64)
    np.add.at(counts[0], classes, 1)
    np.add.at(sums[0], classes, rows)
    return {"counts": counts, "sums": sums, "gram": rows.T @ rows}


def test_the_total_of_masked_sums_is_that_of_all_examples() -> None:
    members = range(1, 5)
    scene = Aggregation(len(members), layout=choose_layout(CLASSES, WIDTH, SumLimits(EXAMPLES * len(members))))
    own = {number: draw_sums(number) for number in members}
    scene.values = {number: flatten_sums(sums) for number, sums in own.items()}
    total = unflatten_sums(scene.run(members, members, members), CLASSES, WIDTH)
    for name in ("counts", "sums", "gram"):
        assert (total[name] == sum(sums[name] for sums in own.values())).all()


def test_the_largest_sums_of_a_whole_cohort_do_not_wrap_around() -> None:
    members = range(1, 4)
    scene = Aggregation(len(members), layout=choose_layout(1, 1, SumLimits(EXAMPLES * len(members))))
    extreme = {"counts": [[EXAMPLES], [0]], "sums": [[[-127 * EXAMPLES]], [[0]]], "gram": [[127**2 * EXAMPLES]]}
    tensors = {name: np.array(values) for name, values in extreme.items()}
    scene.values = dict.fromkeys(members, flatten_sums(tensors))
    total = unflatten_sums(scene.run(members, members, members), 1, 1)
    assert total["sums"].tolist() == [[[-127 * EXAMPLES * 3]], [[0]]] and total["gram"].tolist() == [
        [127**2 * EXAMPLES * 3]
    ]


def test_a_client_with_more_than_its_bits_is_refused() -> None:
    layout = choose_layout(1, 1, SumLimits(EXAMPLES))
    too_much = {"counts": np.array([[10 * EXAMPLES], [0]]), "sums": np.zeros((2, 1, 1)), "gram": np.zeros((1, 1))}
    with pytest.raises(AggregationFailed, match="needs more than"):
        layout.encode(flatten_sums(too_much))


def test_a_cohort_with_limits_needs_fewer_bits_for_the_same_total() -> None:
    members = range(1, 5)
    limits = SumLimits(EXAMPLES * len(members), class_examples=16, negative_examples=0, mean_square=8_000)
    layout = choose_layout(CLASSES, WIDTH, limits)
    assert [segment.bits for segment in layout.segments] == [7, 12, 0, 20, 19]
    scene = Aggregation(len(members), layout=layout)
    own = {number: draw_sums(number) for number in members}
    scene.values = {number: flatten_sums(sums) for number, sums in own.items()}
    total = unflatten_sums(scene.run(members, members, members), CLASSES, WIDTH)
    check_limits(total, limits)
    for name in ("counts", "sums", "gram"):
        assert (total[name] == sum(sums[name] for sums in own.values())).all()


@pytest.mark.parametrize(
    ("limits", "name"),
    [
        (SumLimits(100, class_examples=4), "max_class_examples"),
        (SumLimits(100, negative_examples=1), "max_negative_examples"),
        (SumLimits(8, mean_square=5_000), "max_mean_square"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_total_beyond_its_limits_is_refused(limits: SumLimits, name: str) -> None:
    counts = np.array([[5, 1, 0], [0, 0, 2]])
    sums = {"counts": counts, "sums": np.zeros((2, 3, 1), np.int64), "gram": np.array([[40_001]])}
    check_limits(sums, SumLimits(8))
    with pytest.raises(AggregationFailed, match=name):
        check_limits(sums, limits)

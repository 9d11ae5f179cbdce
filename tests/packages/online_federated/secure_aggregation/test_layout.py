"""Integers travel in as few bits as their sum needs, and come back as they were."""

import numpy as np
import pytest

from online_federated.secure_aggregation.errors import AggregationFailed
from online_federated.secure_aggregation.layout import IntegerSegment, SumLayout, fit_segment


@pytest.mark.parametrize("bits", [1, 2, 7, 8, 9, 31, 33, 62])
def test_values_come_back_as_they_were(bits: int) -> None:
    layout = SumLayout((IntegerSegment(5, bits), IntegerSegment(0, 8), IntegerSegment(3, 12)))
    half = 2 ** (bits - 1)
    values = np.array([0, -1, half - 1, -half, min(1, half - 1), 5, -7, 0], np.int64)
    packed = layout.pack(layout.encode(values))
    assert len(packed) == layout.byte_count == -(-5 * bits // 8) + 5
    assert layout.decode(layout.unpack(packed)).tolist() == values.tolist()


def test_a_segment_holds_the_largest_sum_and_no_more() -> None:
    for largest in (1, 127, 128, 127**2 * 1_000 * 100):
        layout = SumLayout((fit_segment(2, largest),))
        values = np.array([largest, -largest])
        assert layout.decode(layout.encode(values)).tolist() == values.tolist()
    assert fit_segment(1, 127).bits == 8 and fit_segment(1, 128).bits == 9


def test_values_that_are_all_zero_need_no_bits() -> None:
    layout = SumLayout((fit_segment(3, 0), fit_segment(1, 1)))
    values = np.array([0, 0, 0, -1])
    packed = layout.pack(layout.encode(values))
    assert len(packed) == 1 and layout.decode(layout.unpack(packed)).tolist() == values.tolist()
    with pytest.raises(AggregationFailed, match="more than 0 bits"):
        layout.encode(np.array([0, 1, 0, 0]))


def test_sums_that_need_too_many_bits_are_refused() -> None:
    with pytest.raises(AggregationFailed, match="more than 62 bits"):
        fit_segment(1, 2**62)


@pytest.mark.parametrize("value", [2**11, -(2**11) - 1, -(2**63)])
def test_a_value_that_does_not_fit_is_refused(value: int) -> None:
    with pytest.raises(AggregationFailed, match="more than 12 bits"):
        SumLayout((IntegerSegment(1, 12),)).encode(np.array([value]))


def test_values_of_another_number_are_refused() -> None:
    layout = SumLayout((IntegerSegment(3, 12),))
    with pytest.raises(AggregationFailed, match="the layout has 3"):
        layout.encode(np.zeros(4, np.int64))
    with pytest.raises(AggregationFailed, match="the layout has 5"):
        layout.unpack(bytes(4))

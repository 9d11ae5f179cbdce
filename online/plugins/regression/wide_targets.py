"""Numbers to predict that lie far outside the scale of the first ones, or are finer than its quanta: as exact sums.

    number = sum of LIMBS * 2^WEIGHTS + q      q, and each limb, at most 2^20: every product fits into integers

The sums of a regression are over z = (1, q, x), with q in quanta of the scale. A number that needs more is cut into
limbs, as a large integer is into digits, and the sums of their products are kept beside those of z. All are integers,
so examples are still added, subtracted and merged exactly; while no number needs a limb there are none.

Shapes: B examples, E = 2 + D, L limbs.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from online.models.contract import AnyArray, Tensors
from online.models.encoders.columns import Column

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

BITS = 20
TARGET_LIMIT = 2**BITS  # quanta; squares reach 2^40, so int64 holds 8 million examples at the limit
WEIGHTS = (-2 * BITS, -BITS, BITS, 2 * BITS)  # of the limbs, as powers of two
FINE_BITS = -WEIGHTS[0]
FARTHEST = 2**59  # quanta that the limbs hold
BEYOND_BANDS = 16  # times as far as its bands reach, a number still counts as what it is
SCALES_L = np.exp2(np.array(WEIGHTS, np.float64))
GRID_BITS = 15  # of a quantum that answers are rounded to where numbers are finer than quanta


def find_limit(target: Column, bands: Sequence[Column]) -> int:
    """Return the quanta from the centre beyond which a number counts as this, so that one that is wrong does little harm.

    bands: further scales, as features read them, in which newer numbers were found.
    """
    ends = [math.ldexp(band.centre + side, -band.exponent) for band in bands for side in (-127, 127)]
    farthest = max((abs(target.steps(end)) for end in ends), default=0)
    return int(min(max(TARGET_LIMIT, BEYOND_BANDS * farthest), FARTHEST))


def cut_into_limbs(number: float, target: Column, limit: int, is_fine: bool) -> tuple[int, list[int]]:
    """q and the limbs [L] of a number. limit: in quanta. is_fine: whether parts of a quantum count."""
    quanta = target.steps(number)
    if not is_fine or abs(quanta) >= limit:
        quanta = max(-limit, min(limit, quanta))
        rest = quanta << FINE_BITS
    else:
        rest = round(math.ldexp(number, target.exponent + FINE_BITS)) - (target.centre << FINE_BITS)
    if not is_fine:
        return quanta, [0] * len(WEIGHTS)
    digits = []
    for _ in range(len(WEIGHTS)):
        digit = (rest + TARGET_LIMIT // 2) % TARGET_LIMIT - TARGET_LIMIT // 2
        digits.append(digit)
        rest = (rest - digit) >> BITS
    return digits[2], [*digits[:2], digits[3], rest]


@dataclass(slots=True)
class WideSums:
    """by_example [L, E]: the sums of limb * z. by_limb [L, L]: those of limb * limb. Both None while all limbs are zero."""

    by_example: Integers | None = None
    by_limb: Integers = field(default_factory=lambda: np.zeros((len(WEIGHTS), len(WEIGHTS)), np.int64))

    @property
    def is_needed(self) -> bool:
        """Whether any number lies outside what int64 sums of one limb can hold."""
        return self.by_example is not None and bool(self.by_example.any())

    def add(self, limbs_BL: Integers, z_BE: Floats, times: int) -> None:
        """Add at most `regressor.EXACT_ROWS` examples; times=-1 subtracts them."""
        if limbs_BL.any():
            limbs = limbs_BL.astype(np.float64)
            self.add_sums((limbs.T @ z_BE).astype(np.int64), (limbs.T @ limbs).astype(np.int64), times)

    def add_sums(self, by_example: Integers, by_limb: Integers, times: int = 1) -> None:
        """Add sums, padded to the width of the inputs. times: -1 subtracts."""
        width = by_example.shape[1]
        known = np.zeros((len(WEIGHTS), width), np.int64) if self.by_example is None else self.by_example
        known = np.pad(known, ((0, 0), (0, max(width - known.shape[1], 0))))
        known[:, :width] += times * by_example
        self.by_example, self.by_limb = known, self.by_limb + times * by_limb

    def join(self, moments: Integers) -> Integers | Floats:
        """Return the moments of z with the whole numbers in place of q: in float64 if any number needs a limb."""
        if self.by_example is None or not self.is_needed:
            return moments
        joined = moments.astype(np.float64)
        more_E = np.zeros(len(moments))
        more_E[: self.by_example.shape[1]] = SCALES_L @ self.by_example
        joined[1] += more_E
        joined[:, 1] += more_E
        joined[1, 1] += SCALES_L @ self.by_limb @ SCALES_L
        return joined

    def tensors(self) -> Tensors:
        """Empty while all limbs are zero."""
        if self.by_example is None or not self.is_needed:
            return {}
        return {"wide": self.by_example.copy(), "wide_squares": self.by_limb.copy()}

    @classmethod
    def from_tensors(cls, tensors: Tensors) -> "WideSums":
        """Return the sums of a state; empty ones if it has none."""
        if "wide" not in tensors:
            return cls()
        return cls(tensors["wide"].copy(), tensors["wide_squares"].copy())


def join_numbers(q_B: Floats, limbs_BL: Integers) -> AnyArray:
    """Return the numbers of examples in quanta: integers if none of them needs a limb."""
    return q_B + limbs_BL @ SCALES_L if limbs_BL.any() else q_B.astype(np.int64)

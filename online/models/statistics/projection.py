"""Random Fourier features in integers, which let a linear head follow curved boundaries.

    x int8 [B, D] @ W [D, M]  ->  + phase  ->  steps of 1/256 turn  ->  table of cosines -> int8 [B, M]

Every step is exact: the weights are integers, their sums stay exact in the float type they are
computed in, and cosines come from a table. So the features are equal on every machine and in every
batch, and their sums can be hashed, merged and subtracted like any others (Rahimi & Recht 2007; ridge
on random features: McDonnell et al. 2023, RanPAC).

A row of W belongs to the name of a column, not to its index, so columns may appear in any order.
"""

import zlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

SPREAD = 32  # standard deviation of the integer weights
TURN = 256  # steps of a full turn
COSINES = np.rint(127 * np.cos(2 * np.pi * np.arange(TURN) / TURN)).astype(np.int8)
FLOAT32_COLUMNS = 600  # 127 * 186 * columns < 2^24: exact in float32 up to here; wider inputs use float64


class Projection:
    """M random features over named columns, from a seed.

    octave: log2 of the distance, in quanta of x, over which a feature turns by about one radian. The
    bandwidths of the features spread over `octaves` around it, so that it need not fit exactly.
    """

    def __init__(self, width: int, seed: int, octave: float, octaves: float = 0.0) -> None:
        self.width, self.seed, self.octave = width, seed, octave
        around = octaves * (np.arange(width) / max(width, 1) - 0.5)
        per_step_M = np.maximum(np.rint(SPREAD * 2 * np.pi / TURN * np.exp2(octave + around)), 1)
        self.steps_M = (1 / per_step_M).astype(np.float32)  # one product, one rounding: the same on every machine
        self.phase_M = np.asarray(draw_bytes(seed, 0, width) * per_step_M, np.float32)
        self.weights_DM = np.zeros((0, width), np.float32)

    def name_columns(self, names: Sequence[str]) -> None:
        """Append the weights of new columns. `names` begins with the names that are already known."""
        known = len(self.weights_DM)
        if not self.width:
            self.weights_DM = np.zeros((len(names), 0), np.float32)
        elif len(names) > known:
            self.weights_DM = np.concatenate([self.weights_DM, *(self._row(name)[None] for name in names[known:])])

    def _row(self, name: str) -> NDArray[np.float32]:
        """Return weights [M] that are close to normal: sums of twelve five-bit numbers, standard deviation 32."""
        drawn = draw_bytes(self.seed, 1 + zlib.crc32(name.encode()), 12 * self.width).reshape(self.width, 12) & 31
        return np.asarray(drawn.sum(1, dtype=np.int64) - 186, np.float32)

    def features(self, x_BD: NDArray[np.int8]) -> NDArray[np.int8]:
        """Return int8 [B, D] -> int8 [B, M]. D may be less than the number of known columns, never more."""
        exact = np.float32 if x_BD.shape[1] <= FLOAT32_COLUMNS else np.float64
        sums_BM = x_BD.astype(exact) @ self.weights_DM[: x_BD.shape[1]].astype(exact, copy=False)
        sums_BM = sums_BM.astype(np.float32, copy=False)  # a later column must not change how this row is rounded
        sums_BM += self.phase_M
        sums_BM *= self.steps_M
        turned: NDArray[np.int8] = COSINES[np.floor(sums_BM).astype(np.int32) & (TURN - 1)]
        return turned


def draw_bytes(seed: int, stream: int, count: int) -> NDArray[np.uint8]:
    """Raw Philox bytes, which are the same in every release of NumPy, unlike its distributions."""
    words = np.random.Philox(key=[seed, stream]).random_raw(-(-count // 8))
    return words.astype("<u8").view(np.uint8)[:count]

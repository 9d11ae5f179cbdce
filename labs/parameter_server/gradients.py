"""What workers compute: the gradient of a small network on one micro-batch of classified rows.

    number of a micro-batch --seed--> rows of this pass over the data --network at parameters_P--> gradient_P

Shapes: N rows, B rows of a micro-batch, D inputs, C classes, P parameters.
"""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from online.plugins.towers.closed_form import ForwardPass, MlpPass
from online.plugins.towers.layout import ParameterLayout
from online.plugins.towers.networks import Mlp


class GradientTask:
    """A perceptron with one hidden layer, and the rows that it learns.

    x_ND: float32. class_N: int64. rows: of a micro-batch. seed: of the initial weights and of the order of rows, which is
    another one in each pass; the rows that do not fill a micro-batch are left out of the pass.
    """

    def __init__(self, x_ND: Tensor, class_N: Tensor, *, hidden: int, rows: int, seed: int) -> None:
        if len(x_ND) < rows:
            raise ValueError(f"{len(x_ND)} rows do not fill one micro-batch of {rows}")
        self.x_ND, self.class_N, self.rows, self.seed = x_ND, class_N, rows, seed
        self.per_pass = len(x_ND) // rows
        self.layout = ParameterLayout(Mlp(x_ND.shape[1], (hidden,)), int(class_N.max()) + 1)
        self._parameters_LP = self.first()[None].clone()  # what the passes read
        self._network = MlpPass(self.layout, self._parameters_LP)
        self._order = lru_cache(maxsize=8)(self._draw_order)

    def first(self) -> Tensor:
        """The initial parameters [P]."""
        return self.layout.first(self.seed)

    def gradient(self, parameters_P: Tensor, number: int) -> Tensor:
        """The gradient [P] of the mean cross-entropy of one micro-batch."""
        place_B = self.places([number])
        self._parameters_LP[0] = parameters_P
        slope_LBC = self._network.logits(self.x_ND[place_B]).softmax(2)
        slope_LBC[0, torch.arange(len(place_B)), self.class_N[place_B]] -= 1
        return self._network.differentiate(slope_LBC / len(place_B))[0].clone()

    def places(self, numbers: Sequence[int]) -> Tensor:
        """The places [B] of the rows of micro-batches among all rows."""
        found = [self._find_places(number) for number in numbers]
        return torch.from_numpy(np.concatenate(found))

    def _find_places(self, number: int) -> NDArray[np.int64]:
        done, place = divmod(number, self.per_pass)
        return self._order(done)[place * self.rows : (place + 1) * self.rows]

    def _draw_order(self, done: int) -> NDArray[np.int64]:
        """The order [N] of rows in a pass. done: how many passes came before."""
        bits = np.random.Philox(key=np.array([self.seed, done], np.uint64))
        return np.random.Generator(bits).permutation(len(self.x_ND))

    def accuracy(self, parameters_P: Tensor, x_ND: Tensor, class_N: Tensor) -> float:
        """The share of rows, in percent, that the network classifies right."""
        logits_LBC = ForwardPass(self.layout, parameters_P[None]).logits(x_ND)
        return 100 * float((logits_LBC[0].argmax(1) == class_N).double().mean())

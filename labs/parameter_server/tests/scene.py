"""A small network that learns separable points, for tests of central parameters."""

import numpy as np
import torch

from labs.parameter_server.gradients import GradientTask


def create_task(seed: int = 0) -> GradientTask:
    """96 rows of 6 numbers around 3 centres, in micro-batches of 4."""
    draw = np.random.default_rng(0)
    class_N = np.arange(96) % 3
    x_ND = draw.normal(size=(3, 6))[class_N] + draw.normal(0, 0.3, (96, 6))
    return GradientTask(torch.from_numpy(x_ND).float(), torch.from_numpy(class_N), hidden=8, rows=4, seed=seed)

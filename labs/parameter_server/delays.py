"""How long workers compute and how long gradients travel: injected delays that a seed determines.

Each delay is drawn from the seed and the number of the micro-batch (counter-based Philox), so it does not matter in
which order, where or how often they are drawn.
"""

import math
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Delays:
    """All in seconds.

    compute_s: mean time of a worker for one micro-batch; each takes 0.75 to 1.25 of it. link_s: mean of the exponential
    delay of a gradient on its way, while its worker goes on. straggle_s: how much longer a worker takes for one
    micro-batch with probability `straggle_share`. per_server: whether the parts of a gradient travel apart.
    """

    seed: int = 0
    compute_s: float = 4.0
    link_s: float = 0.0
    straggle_s: float = 0.0
    straggle_share: float = 0.0
    per_server: bool = False

    def draw_compute(self, number: int) -> float:
        """Seconds until the gradient of a micro-batch is computed."""
        spread, luck = self._draw(number, 0)
        return self.compute_s * (0.75 + spread / 2) + (self.straggle_s if luck < self.straggle_share else 0.0)

    def draw_link(self, number: int, server: int) -> float:
        """Seconds that the gradient of a micro-batch travels to a server."""
        if not self.link_s:
            return 0.0
        return -self.link_s * math.log1p(-self._draw(number, 1 + server * self.per_server)[0])

    def _draw(self, number: int, purpose: int) -> tuple[float, float]:
        """Two uniform numbers in [0, 1)."""
        bits = np.random.Philox(key=np.array([self.seed, purpose], np.uint64), counter=number)
        first, second = np.random.Generator(bits).random(2)
        return float(first), float(second)

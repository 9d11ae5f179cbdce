"""The choice of the next token from its logits."""

import torch
from torch import Tensor

COLDEST = 1e-4  # below it the most probable token is chosen


class TokenSampler:
    """A choice of tokens by temperature and top_p. The same seed chooses the same tokens from the same logits."""

    def __init__(self, temperature: float = 0.0, top_p: float = 1.0, seed: int | None = None) -> None:
        """temperature: 0 chooses the most probable token. top_p: the share of the probability that is kept, of the largest."""
        self.temperature, self.top_p = temperature, top_p
        self._random = torch.Generator()
        if seed is None:
            self._random.seed()
        else:
            self._random.manual_seed(seed)

    def choose(self, logits_V: Tensor) -> int:
        """Return a token."""
        if self.temperature < COLDEST:
            return int(logits_V.argmax())
        probabilities_V, order_V = torch.softmax(logits_V.float().cpu() / self.temperature, -1).sort(descending=True)
        before_V = probabilities_V.cumsum(-1) - probabilities_V
        probabilities_V[1:][before_V[1:] >= self.top_p] = 0.0  # the most probable one always stays
        return int(order_V[torch.multinomial(probabilities_V, 1, generator=self._random)])

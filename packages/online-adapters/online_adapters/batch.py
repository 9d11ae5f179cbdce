"""Answers of one adapter that grow together, one token each per step.

prompts, padded on the left --> cache [B, S] --step--> one token for each row --> rows that have ended leave
                                      ^--join-- a batch that began later
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from online_adapters.adapted_model import AdaptedModel
from online_adapters.answer_text import AnswerText
from online_adapters.sampling import TokenSampler


class AnswerPiece(NamedTuple):
    """A piece of an answer. finish: "stop" or "length" in the last one. tokens_out: so far. error: why it ended without an answer."""

    text: str
    finish: str | None = None
    tokens_out: int = 0
    error: Exception | None = None


@dataclass(eq=False)
class GenerationJob:
    """An answer that is wanted.

    emit: is called with each piece, by the thread that generates. is_cancelled: is set where the caller has left.
    """

    prompt: list[int]
    max_tokens: int
    text: AnswerText
    sampler: TokenSampler
    emit: Callable[[AnswerPiece], object]
    adapter: str = ""
    is_cancelled: bool = False
    tokens_out: int = 0
    last: int = 0
    ended: bool = field(default=False, init=False)

    def take(self, logits_V: Tensor, ends: set[int]) -> None:
        """Choose the next token, and emit what the text has become."""
        self.last = self.sampler.choose(logits_V)
        self.tokens_out += 1
        if self.last in ends:
            self._end(self.text.finish(), "stop")
        elif new := self.text.add(self.last):
            if self.text.is_stopped:
                self._end(new, "stop")
            elif self.tokens_out < self.max_tokens:
                self.emit(AnswerPiece(new, None, self.tokens_out))
            else:
                self._end(new + self.text.finish(), "length")
        elif self.text.is_stopped:
            self._end("", "stop")
        elif self.tokens_out >= self.max_tokens:
            self._end(self.text.finish(), "length")

    def fail(self, error: Exception) -> None:
        """End without an answer."""
        self.ended = True
        self.emit(AnswerPiece("", None, self.tokens_out, error))

    def _end(self, text: str, finish: str) -> None:
        self.ended = True
        self.emit(AnswerPiece(text, finish, self.tokens_out))


class AnswerBatch:
    """A batch of jobs that have the same adapter. jobs: those that have not ended."""

    def __init__(self, model: AdaptedModel, jobs: list[GenerationJob]) -> None:
        """Read the prompts, and choose the first token of each answer."""
        self.adapter, self.jobs, self._model = jobs[0].adapter, jobs, model
        width = max(len(job.prompt) for job in jobs)
        gaps = [width - len(job.prompt) for job in jobs]
        rows = [[0] * gap + job.prompt for gap, job in zip(gaps, jobs, strict=True)]
        masks = [[0] * gap + [1] * len(job.prompt) for gap, job in zip(gaps, jobs, strict=True)]
        self._mask_BS = torch.tensor(masks, device=model.device)
        self._cache: Any = None
        self._feed(torch.tensor(rows, device=model.device))

    def step(self) -> None:
        """Choose the next token of each answer."""
        self._drop_ended()  # callers who have left
        if self.jobs:
            self._mask_BS = pad(self._mask_BS, (0, 1), value=1)
            self._feed(torch.tensor([[job.last] for job in self.jobs], device=self._model.device))

    def can_join(self, other: "AnswerBatch") -> bool:
        """Return whether both have the same adapter, and caches that can be padded."""
        from transformers.cache_utils import DynamicLayer

        layers = [layer for batch in (self, other) for layer in batch._cache.layers]
        return self.adapter == other.adapter and all(type(layer) is DynamicLayer for layer in layers)

    def join(self, other: "AnswerBatch") -> None:
        """Take over the jobs of another batch. Both caches are padded on the left to the same length."""
        width = max(self._mask_BS.shape[1], other._mask_BS.shape[1])
        masks = [pad(batch._mask_BS, (width - batch._mask_BS.shape[1], 0)) for batch in (self, other)]
        for mine, its in zip(self._cache.layers, other._cache.layers, strict=True):
            for name in ("keys", "values"):
                parts = [getattr(layer, name) for layer in (mine, its)]
                setattr(mine, name, torch.cat([pad(part, (0, 0, width - part.shape[2], 0)) for part in parts]))
        self._mask_BS = torch.cat(masks)
        self.jobs += other.jobs

    def _feed(self, ids_BT: Tensor) -> None:
        logits_B1V, self._cache = self._model.forward(self.adapter, ids_BT, self._mask_BS, self._cache, keep=1)
        for job, logits_V in zip(self.jobs, logits_B1V[:, -1], strict=True):
            if not job.is_cancelled:
                job.take(logits_V, self._model.ends)
        self._drop_ended()

    def _drop_ended(self) -> None:
        rows = [row for row, job in enumerate(self.jobs) if not (job.ended or job.is_cancelled)]
        if 0 < len(rows) < len(self.jobs):
            kept = torch.tensor(rows, device=self._model.device)
            self._cache.batch_select_indices(kept)
            self._mask_BS = self._mask_BS[kept]
        self.jobs = [self.jobs[row] for row in rows]

"""Sufficient statistics in integers, the whole memory of an exact head.

A head stores sums over its examples' int8 features, per class and by sign:

    counts n_c        sums  S_c = sum x        gram  G = sum x x^T        (int64, positives)
    negative counts and sums per class         (what an answer was punished for)

Integer addition commutes, so order, batch size, device and crashes cannot change the state;
un-learning subtracts; workers merge by adding. Weights are solved from the sums by linear
discriminant analysis with a shared covariance.

Shapes: B examples, C classes, D features.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch
    from torch import Tensor
else:
    from online.models.lazy_torch import torch

log = logging.getLogger("online.models")

INT32_ROWS = 2**17  # 127^2 * rows < 2^31: up to here, int8 products summed in int32 are exact
FLOAT32_ROWS = 1_040  # 127^2 * rows < 2^24: up to here, they are exact in float32
FOLD_AT = 1_024  # examples that wait before they are multiplied into the Gram matrix, which is the expensive part
NEGATIVE_PULL = 0.25  # share by which a mean moves away from its negative examples (Rocchio 1971)
PRIOR_WEIGHT = 1.0  # a text that describes a class counts as one example of it
FLOOR_RATIO = 0.6  # of the mean second moment: the smallest variance that the covariance is shrunk toward


@dataclass(slots=True)
class Sums:
    """counts [2, C] and sums [2, C, D], positive and negative; gram [D, D]. int64."""

    counts: Tensor
    sums: Tensor
    gram: Tensor


class ExactStatistics:
    """Integer sums over int8 examples on one device.

    classes: append-only, so that an index never changes its meaning.
    """

    def __init__(self, width: int, device: str = "cpu") -> None:
        self.place, self.width = device, width
        self.classes: list[str] = []
        self._index: dict[str, int] = {}
        self._sums: Sums | None = None  # created at the first access
        self._waiting: list[tuple[Tensor, int]] = []  # int8 [B, D] and its sign, not yet in the Gram matrix
        self._waiting_count = 0  # rows of all of them

    @property
    def device(self) -> torch.device:
        return torch.device(self.place)

    @property
    def _all(self) -> Sums:
        if self._sums is None:
            classes, width = len(self.classes), self.width
            self._sums = Sums(self._zeros(2, classes), self._zeros(2, classes, width), self._zeros(width, width))
        return self._sums

    @property
    def counts(self) -> Tensor:
        """int64 [2, C]: positive, negative."""
        return self._all.counts

    @property
    def sums(self) -> Tensor:
        """int64 [2, C, D]: positive, negative."""
        return self._all.sums

    @property
    def gram(self) -> Tensor:
        """int64 [D, D], positives only."""
        self._fold_waiting()
        return self._all.gram

    def index(self, label: str) -> int | None:
        return self._index.get(label)

    def add_class(self, label: str) -> int:
        """The index of a class, which is appended if it is new."""
        if label not in self._index:
            self._index[label] = len(self.classes)
            self.classes.append(label)
            if self._sums is not None:
                self._sums.counts = torch.cat([self._sums.counts, self._zeros(2, 1)], 1)
                self._sums.sums = torch.cat([self._sums.sums, self._zeros(2, 1, self.width)], 1)
        return self._index[label]

    def widen(self, width: int) -> None:
        """Append features that were zero in all examples so far."""
        more = width - self.width
        if more > 0:
            self._fold_waiting()
            self.width = width
            if self._sums is not None:
                self._sums.sums = torch.nn.functional.pad(self._sums.sums, (0, more))
                self._sums.gram = torch.nn.functional.pad(self._sums.gram, (0, more, 0, more))

    def add(self, features: NDArray[np.int8], classes: Sequence[int], negative: bool = False, times: int = 1) -> None:
        """Add B examples (int8 [B, D]) to their classes; times=-1 subtracts them."""
        members_B = torch.as_tensor(classes, dtype=torch.int64).to(self.device)
        x_BD = self._on_device(features)
        side = int(negative)
        self.counts[side].index_add_(0, members_B, torch.ones_like(members_B), alpha=times)
        for start in range(0, len(x_BD), INT32_ROWS):
            rows = slice(start, start + INT32_ROWS)
            self.sums[side].index_add_(0, members_B[rows], x_BD[rows].to(torch.int64), alpha=times)
        if not negative:
            self._waiting.append((x_BD, times))
            self._waiting_count += len(x_BD)
            if self._waiting_count >= FOLD_AT:
                self._fold_waiting()

    def _on_device(self, features: NDArray[np.int8]) -> Tensor:
        x_BD = torch.from_numpy(np.array(features))
        return x_BD if self.device.type == "cpu" else x_BD.pin_memory().to(self.device, non_blocking=True)

    def _fold_waiting(self) -> None:
        """Multiply the waiting rows into the Gram matrix.

        Without enough device memory, the sums move to the CPU with a warning.
        """
        waiting, self._waiting, self._waiting_count = self._waiting, [], 0
        for times in (1, -1):
            chunks = [x_BD for x_BD, sign in waiting if sign == times]
            if chunks:
                self._add_products(torch.cat(chunks), times)

    def _add_products(self, x_BD: Tensor, times: int) -> None:
        rows = INT32_ROWS
        done = 0
        while done < len(x_BD):
            try:
                self._all.gram.add_(gram_product(x_BD[done : done + rows]), alpha=times)
                done += rows
            except torch.OutOfMemoryError:
                if rows > FLOAT32_ROWS:
                    rows //= 2
                else:
                    log.warning("the accelerator is out of memory: moving the statistics to the CPU")
                    self._move("cpu")
                    x_BD = x_BD.cpu()

    def _move(self, device: str) -> None:
        every, self.place = self._all, device
        self._sums = Sums(every.counts.to(device), every.sums.to(device), every.gram.to(device))

    def merge(self, other: ExactStatistics) -> None:
        """Add another worker's sums. The state is the same as if its examples had been added here."""
        self.widen(other.width)
        places = [self.add_class(label) for label in other.classes]
        self.counts[:, places] += other.counts.to(self.device)
        self.sums[:, places, : other.width] += other.sums.to(self.device)
        self.gram[: other.width, : other.width].add_(other.gram.to(self.device))

    def block(self, start: int, stop: int | None = None) -> ExactStatistics:
        """The same sums over the features from `start` to `stop`, as a view."""
        gram = self.gram[start:stop, start:stop]
        part = ExactStatistics(len(gram), self.place)
        part.classes, part._index = self.classes, self._index
        part._sums = Sums(self.counts, self.sums[:, :, start:stop], gram)
        return part

    def copy(self) -> ExactStatistics:
        """Independent sums with the same values."""
        other = self.block(0)
        every = other._all
        other._sums = Sums(every.counts.clone(), every.sums.clone(), every.gram.clone())
        return other

    def tensors(self) -> dict[str, NDArray[np.int64]]:
        """Copies of the sums, which later learning does not change."""
        return {name: getattr(self, name).cpu().numpy().copy() for name in ("counts", "sums", "gram")}

    @classmethod
    def from_tensors(
        cls, classes: Sequence[str], tensors: Mapping[str, NDArray[np.int64]], device: str = "cpu"
    ) -> ExactStatistics:
        statistics = cls(tensors["gram"].shape[0], device)
        statistics.classes = list(classes)
        statistics._index = {name: place for place, name in enumerate(classes)}
        counts, sums, gram = (torch.from_numpy(tensors[name].copy()).to(device) for name in ("counts", "sums", "gram"))
        statistics._sums = Sums(counts, sums, gram)
        return statistics

    def digest(self, columns: Sequence[str] | None = None) -> bytes:
        """sha256 over the sums, in the order of the names of classes and columns.

        Classes and columns without any example are left out, so that retracting the last example
        of a class leaves the digest of a model that never saw it.
        """
        counts, sums, gram = self.tensors().values()
        used = (
            [c for c in np.argsort(np.array(self.classes, dtype=object)) if counts[:, c].any()] if self.classes else []
        )
        seen = hashlib.sha256()
        if columns is not None:
            order = sorted(
                (name, place) for place, name in enumerate(columns) if gram[place].any() or sums[:, :, place].any()
            )
            places = np.array([place for _, place in order], dtype=np.intp)
            sums, gram = sums[:, :, places], gram[np.ix_(places, places)]
            seen.update("\0".join(name for name, _ in order).encode())
        seen.update("\0".join(self.classes[c] for c in used).encode())
        for tensor in (counts[:, used], sums[:, used], gram):
            seen.update(np.ascontiguousarray(tensor).data)
        return seen.digest()

    def _zeros(self, *shape: int) -> Tensor:
        return torch.zeros(shape, dtype=torch.int64, device=self.device)


def gram_product(x_BD: Tensor) -> Tensor:
    """x^T x of at most INT32_ROWS int8 rows, exactly: int64 [D, D]."""
    more = -x_BD.shape[1] % 8  # the integer kernel takes multiples of eight columns and more than sixteen rows
    padded = torch.nn.functional.pad(x_BD, (0, more, 0, -len(x_BD) % 8 + 16))
    try:
        product_DD = torch._int_mm(padded.T.contiguous(), padded)
    except (RuntimeError, NotImplementedError) as error:  # a build or a device without the kernel
        if isinstance(error, torch.OutOfMemoryError):
            raise
        return float_gram_product(x_BD)
    width = x_BD.shape[1]
    return product_DD[:width, :width].to(torch.int64)


def float_gram_product(x_BD: Tensor) -> Tensor:
    """The same in float32, in chunks that are small enough to be exact; TF32, with ten bits, is not."""
    torch.backends.cuda.matmul.allow_tf32 = False
    total = torch.zeros(x_BD.shape[1], x_BD.shape[1], dtype=torch.int64, device=x_BD.device)
    for start in range(0, len(x_BD), FLOAT32_ROWS):
        chunk = x_BD[start : start + FLOAT32_ROWS].to(torch.float32)
        total += (chunk.T @ chunk).to(torch.int64)
    return total


@dataclass(frozen=True, slots=True)
class LinearWeights:
    """Solved weights: scores = features @ matrix + bias. active: whether a class may be chosen."""

    matrix: NDArray[np.float32]  # [D, C]
    bias: NDArray[np.float32]  # [C]
    active: NDArray[np.bool_]  # [C]
    doubt: NDArray[np.float32] | None = None  # [C] standard deviation of a score, if texts describe the classes


def solve_slda(
    statistics: ExactStatistics,
    shrinkage: float,
    priors: bool,
    described: NDArray[np.int8] | None = None,
    mean_sums: tuple[Tensor, Tensor] | None = None,
) -> LinearWeights:
    """Linear discriminant analysis with one covariance (Hayes & Kanan 2020), by Cholesky in float64.

    The covariance is shrunk toward its own diagonal by a / (a + n) with a = shrinkage * D: with few
    examples this is the nearest mean, later it is full LDA.

    described: int8 [C, D], a text per class that counts as one example; the scores then allow for
    how little is known about a class (`_predictive`). priors: whether frequent classes are
    preferred. mean_sums: counts [C] and sums [C, D] that the means are computed from, instead of
    all (`windows`); the covariance and the priors always use everything.
    """
    counts_C, negative_C = statistics.counts.to(torch.float64)
    sums_CD, negative_CD = statistics.sums.to(torch.float64)
    means_CD = sums_CD / counts_C.clamp(min=1)[:, None]
    covariance_DD = _shrunk_covariance(statistics, means_CD, counts_C, shrinkage)
    weight_C = counts_C
    if mean_sums is not None:
        weight_C, sums_CD = mean_sums[0].to(torch.float64), mean_sums[1].to(torch.float64)
        means_CD = sums_CD / weight_C.clamp(min=1)[:, None]
    if described is not None:
        text_CD = torch.from_numpy(described.astype(np.float64)).to(statistics.device)
        present_C = (text_CD != 0).any(1) * PRIOR_WEIGHT
        weight_C = weight_C + present_C
        means_CD = (sums_CD + present_C[:, None] * text_CD) / weight_C.clamp(min=PRIOR_WEIGHT)[:, None]
    pull_C = NEGATIVE_PULL * negative_C / (negative_C + weight_C).clamp(min=1)
    away_CD = negative_CD / negative_C.clamp(min=1)[:, None] - means_CD
    means_CD = means_CD - pull_C[:, None] * away_CD
    factor_DD, _ = torch.linalg.cholesky_ex(covariance_DD)
    matrix_DC = torch.cholesky_solve(means_CD.T, factor_DD)
    bias_C = -0.5 * (means_CD.T * matrix_DC).sum(0)
    if priors:
        bias_C = bias_C + torch.log((counts_C + 1) / (counts_C + 1).sum())
    doubt_C = None
    if described is not None:
        matrix_DC, bias_C, doubt_C = _predictive(matrix_DC, bias_C, weight_C.clamp(min=PRIOR_WEIGHT))
    return LinearWeights(_float32(matrix_DC), _float32(bias_C), (weight_C > 0).cpu().numpy(), doubt_C)


def _predictive(matrix_DC: Tensor, bias_C: Tensor, weight_C: Tensor) -> tuple[Tensor, Tensor, NDArray[np.float32]]:
    """Correct the scores for means known from few examples, and return each score's deviation.

    The mean of n examples has covariance S / n around the true one, so the next example of the
    class has S (1 + 1/n): its distance is scaled by l = n / (n + 1), and its log density gains
    D/2 log l (Geisser 1964). Without this, a class that only its text describes is hardly ever
    chosen, so it is never confirmed. The input's own length x S^-1 x, which no longer cancels, is
    replaced by its expectation D + mean of m S^-1 m, so that the scores stay linear.
    """
    width = len(matrix_DC)
    length = width - 2 * (weight_C * bias_C).sum() / weight_C.sum()
    known_C = weight_C / (weight_C + 1)
    bias_C = known_C * bias_C + (1 - known_C) * length / 2 + width / 2 * torch.log(known_C)
    return known_C * matrix_DC, bias_C, _float32(torch.sqrt(length / weight_C))


def _float32(tensor: Tensor) -> NDArray[np.float32]:
    return tensor.to(torch.float32).cpu().numpy()


def _shrunk_covariance(statistics: ExactStatistics, means_CD: Tensor, counts_C: Tensor, shrinkage: float) -> Tensor:
    """Within-class covariance [D, D], positive definite from the first example on."""
    total = counts_C.sum().clamp(min=1)
    gram_DD = statistics.gram.to(torch.float64)
    within_DD = (gram_DD - (means_CD * counts_C[:, None]).T @ means_CD) / total
    floor = FLOOR_RATIO * gram_DD.diagonal().mean() / total + 1.0  # 1.0: one quantum, so that nothing divides by zero
    target_D = within_DD.diagonal().clamp(min=float(floor))
    share = shrinkage * statistics.width / (shrinkage * statistics.width + total)
    ridge = 1e-4 * target_D.mean()
    return (1 - share) * within_DD + torch.diag(share * target_D + ridge)

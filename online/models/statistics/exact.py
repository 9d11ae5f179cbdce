"""Sufficient statistics in integers, the whole memory of an exact head.

A head stores sums over its examples' int8 features, per class and by sign:

    counts n_c        sums  S_c = sum x        gram  G = sum x x^T        (int64, positives)
    negative counts and sums per class         (what an answer was punished for)

Integer addition commutes, so order, batch size, device and crashes cannot change the state;
un-learning subtracts; workers merge by adding. Weights are solved from the sums: see `slda` and `ridge`.

Counts and sums are arrays of NumPy. The Gram matrix, which costs most, lies on the device.
Shapes: B examples, C classes, D features.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, reduce
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from online.models.contract import AnyArray
from online.models.devices.fallback import PieceSize, SmallestBatchTooLarge, note_fallback, run_in_pieces
from online.models.devices.prefetch import prefetch

if TYPE_CHECKING:
    import torch
    from torch import Tensor
else:
    from online.models.lazy_torch import torch

INT32_ROWS = 2**17  # 127^2 * rows < 2^31: up to here, int8 products summed in int32 are exact
FLOAT32_ROWS = 1_040  # 127^2 * rows < 2^24: up to here, they are exact in float32
DEVICE_ROWS = 4_096  # rows from which an accelerator sums them by class sooner than the CPU, the transfer included
SENT_ROWS = 16_384  # rows that travel to a device together, while it multiplies those before them
FOLD_AT = 1_024  # examples that wait before they are multiplied into the Gram matrix, which is the expensive part
FLOAT_WIDTH = 512  # features up to which products in float32 are fast enough that torch need not be imported
NEGATIVE_PULL = 0.25  # share by which a mean moves away from its negative examples (Rocchio 1971)


class ExactStatistics:
    """Integer sums over int8 examples.

    classes: append-only, so that an index never changes its meaning, until `keep_classes` drops those without examples.
    """

    def __init__(self, width: int, device: str = "cpu") -> None:
        self.place, self.width = device, width
        self.classes: list[str] = []
        self._index: dict[str, int] = {}
        self._counts = np.zeros((2, 0), np.int64)  # with room for classes to come
        self._sums = np.zeros((2, 0, width), np.int64)
        self._gram: NDArray[np.int64] | Tensor | None = None  # created at the first access
        self._waiting: list[tuple[NDArray[np.int8], int]] = []  # rows and their sign, not yet in the Gram matrix
        self._waiting_count = 0  # rows of all of them
        self._piece = PieceSize(INT32_ROWS)  # rows that the device multiplies at once

    @property
    def counts(self) -> NDArray[np.int64]:
        """int64 [2, C]: positive, negative. A view, which `add_class` and `widen` may replace."""
        self._reserve()
        return self._counts[:, : len(self.classes)]

    @property
    def sums(self) -> NDArray[np.int64]:
        """int64 [2, C, D]: positive, negative. A view, which `add_class` and `widen` may replace."""
        self._reserve()
        return self._sums[:, : len(self.classes)]

    @property
    def gram(self) -> NDArray[np.int64]:
        """int64 [D, D], positives only."""
        every = self.device_gram()
        return every if isinstance(every, np.ndarray) else every.cpu().numpy()

    def device_gram(self) -> NDArray[np.int64] | Tensor:
        """Return the Gram matrix on its device: a tensor, or an array on the CPU."""
        self._fold_waiting()
        return self._present_gram()

    def _present_gram(self) -> NDArray[np.int64] | Tensor:
        if self._gram is None:
            zeros = np.zeros((self.width, self.width), np.int64)
            self._gram = zeros if self.place == "cpu" else torch.from_numpy(zeros).to(self.place)
        return self._gram

    def index(self, label: str) -> int | None:
        """Return the index of a class; None if it is unknown."""
        return self._index.get(label)

    def add_class(self, label: str) -> int:
        """Return the index of a class, which is appended if it is new."""
        place = self._index.get(label)
        if place is None:
            place = self._index[label] = len(self.classes)
            self.classes.append(label)
        return place

    @property
    def used(self) -> NDArray[np.bool_]:
        """[C] whether a class has examples, positive or negative."""
        return np.asarray(self.counts.any(0), np.bool_)

    def keep_classes(self, places: Sequence[int]) -> None:
        """Keep these classes only. The others have no examples; no index of before may be used afterwards."""
        self._counts, self._sums = self.counts[:, places], self.sums[:, places]
        self.classes = [self.classes[place] for place in places]
        self._index = {label: place for place, label in enumerate(self.classes)}

    def _reserve(self) -> None:
        """Make room for all classes, at least twice as much as before."""
        classes, room = len(self.classes), self._counts.shape[1]
        if classes > room:
            more = max(classes, 2 * room) - room
            self._counts = np.pad(self._counts, ((0, 0), (0, more)))
            self._sums = np.pad(self._sums, ((0, 0), (0, more), (0, 0)))

    def widen(self, width: int) -> None:
        """Append features that were zero in all examples so far."""
        more = width - self.width
        if more > 0:
            self._fold_waiting()
            self.width = width
            self._sums = np.pad(self._sums, ((0, 0), (0, 0), (0, more)))
            if isinstance(self._gram, np.ndarray):
                self._gram = np.pad(self._gram, (0, more))
            elif self._gram is not None:
                self._gram = torch.nn.functional.pad(self._gram, (0, more, 0, more))

    def add(self, features: NDArray[np.int8], classes: Sequence[int], negative: bool = False, times: int = 1) -> None:
        """Add B examples (int8 [B, D]) to their classes; times=-1 subtracts them."""
        rows_BD = np.array(features)
        if len(classes) == 1:
            self.counts[int(negative), classes[0]] += times
            total_D = self.sums[int(negative), classes[0]]
            (np.add if times > 0 else np.subtract)(total_D, rows_BD[0], out=total_D)
        elif len(classes) >= DEVICE_ROWS and self.place != "cpu":
            self._add_by_class_on_device(rows_BD, np.asarray(classes), int(negative), times)
        elif len(classes):
            self._add_by_class(rows_BD, np.asarray(classes), int(negative), times)
        if not negative and len(classes):
            self._waiting.append((rows_BD, times))
            self._waiting_count += len(rows_BD)
            if self._waiting_count >= FOLD_AT:
                self._fold_waiting()

    def _add_by_class(self, x_BD: NDArray[np.int8], classes_B: NDArray[np.intp], side: int, times: int) -> None:
        order = np.argsort(classes_B, kind="stable")
        places, starts, counts = np.unique(classes_B[order], return_index=True, return_counts=True)
        self.counts[side, places] += times * counts
        self.sums[side, places] += times * np.add.reduceat(x_BD[order], starts, axis=0, dtype=np.int64)

    def _add_by_class_on_device(
        self, x_BD: NDArray[np.int8], classes_B: NDArray[np.intp], side: int, times: int
    ) -> None:
        """Add by class on an accelerator: one core would take seconds for a million rows of 384."""
        try:
            total = np.zeros_like(self.sums[side])
            for start in range(0, len(x_BD), INT32_ROWS):
                rows = to_device(x_BD[start : start + INT32_ROWS], self.place)
                places = to_device(classes_B[start : start + INT32_ROWS], self.place)
                total += class_sums(rows, places, len(self.classes)).cpu().numpy()
        except torch.OutOfMemoryError:
            self._add_by_class(x_BD, classes_B, side, times)
            return
        self.counts[side] += times * np.bincount(classes_B, minlength=len(self.classes))
        self.sums[side] += times * total

    def _fold_waiting(self) -> None:
        """Multiply the waiting rows into the Gram matrix. Without enough device memory, it moves to the CPU."""
        waiting, self._waiting, self._waiting_count = self._waiting, [], 0
        for times in (1, -1):
            chunks = [x_BD for x_BD, sign in waiting if sign == times]
            if chunks:
                self._add_products(np.concatenate(chunks) if len(chunks) > 1 else chunks[0], times)

    def _add_products(self, x_BD: NDArray[np.int8], times: int) -> None:
        """Multiply rows into the Gram matrix: on the device as far as its memory goes, then on the CPU."""
        done = 0
        if self.place != "cpu":
            done = self._add_on_device(x_BD, times)
        for start in range(done, len(x_BD), INT32_ROWS):
            self._add_on_cpu(x_BD[start : start + INT32_ROWS], times)

    def _add_on_device(self, x_BD: NDArray[np.int8], times: int) -> int:
        """Return the rows that are done. If that is not all, the statistics have moved to the CPU."""

        def add(start: int, stop: int) -> None:
            gram = self._present_gram()
            assert not isinstance(gram, np.ndarray), "it lies on a device"
            blocks = (x_BD[at : min(at + SENT_ROWS, stop)] for at in range(start, stop, SENT_ROWS))
            products = (gram_product(rows) for rows in prefetch(blocks, self.place))
            gram.add_(reduce(torch.Tensor.add_, products), alpha=times)  # once: nothing is added if any does not fit

        try:
            return run_in_pieces(add, len(x_BD), self._piece, "statistics", self.place)
        except SmallestBatchTooLarge as error:
            note_fallback("statistics", self.place, "on the CPU", error)
            self._move_to_cpu()
            return error.done

    def _move_to_cpu(self) -> None:
        if isinstance(self._gram, np.ndarray) or self._gram is None:
            self.place = "cpu"
        else:
            self._gram, self.place = self._gram.cpu().numpy(), "cpu"

    def _add_on_cpu(self, x_BD: NDArray[np.int8], times: int) -> None:
        gram = self._present_gram()
        assert isinstance(gram, np.ndarray), "it lies on the CPU"
        if self.width <= FLOAT_WIDTH:
            (np.add if times > 0 else np.subtract)(gram, narrow_gram_product(x_BD), out=gram)
        else:
            torch.from_numpy(gram).add_(gram_product(torch.from_numpy(x_BD)), alpha=times)

    def merge(self, other: ExactStatistics, times: int = 1) -> None:
        """Add other sums (times=-1: subtract them). The state is the same as if their examples had been added here."""
        self.widen(other.width)
        places = [self.add_class(label) for label in other.classes]
        self.counts[:, places] += times * other.counts
        self.sums[:, places, : other.width] += times * other.sums
        block = self.device_gram()[: other.width, : other.width]
        if isinstance(block, np.ndarray):
            block += times * other.gram
        else:
            block.add_(torch.from_numpy(other.gram).to(self.place), alpha=times)

    def block(self, start: int, stop: int | None = None) -> ExactStatistics:
        """Return the same sums over the features from `start` to `stop`, as a view."""
        gram = self.device_gram()[start:stop, start:stop]
        part = ExactStatistics(len(gram), self.place)
        part.classes, part._index = self.classes, self._index
        part._counts, part._sums, part._gram = self.counts, self.sums[:, :, start:stop], gram
        return part

    def copy(self) -> ExactStatistics:
        """Return independent sums with the same values."""
        other = self.block(0)
        gram = self.device_gram()
        other._counts, other._sums = self.counts.copy(), self.sums.copy()
        other._gram = gram.copy() if isinstance(gram, np.ndarray) else gram.clone()
        return other

    def translated(self, places: Sequence[int]) -> ExactStatistics:
        """Return the same examples in other classes. places: for each class, the index of the class that it becomes."""
        other = self.copy()
        other._counts, other._sums = np.zeros_like(self.counts), np.zeros_like(self.sums)
        for old, new in enumerate(places):
            other._counts[:, new] += self.counts[:, old]
            other._sums[:, new] += self.sums[:, old]
        return other

    def tensors(self) -> dict[str, NDArray[np.int64]]:
        """Return copies of the sums, which later learning does not change."""
        return {name: getattr(self, name).copy() for name in ("counts", "sums", "gram")}

    @classmethod
    def from_tensors(
        cls, classes: Sequence[str], tensors: Mapping[str, NDArray[np.int64]], device: str = "cpu"
    ) -> ExactStatistics:
        """Return the statistics that tensors hold, on a device."""
        statistics = cls(tensors["gram"].shape[0], device)
        statistics.classes = list(classes)
        statistics._index = {name: place for place, name in enumerate(classes)}
        statistics._counts, statistics._sums = tensors["counts"].copy(), tensors["sums"].copy()
        gram = tensors["gram"].copy()
        statistics._gram = gram if device == "cpu" else torch.from_numpy(gram).to(device)
        return statistics

    def digest(self, columns: Sequence[str] | None = None) -> bytes:
        """Return sha256 over the sums, in the order of the names of classes and columns.

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


def to_device(array: AnyArray, place: str) -> Tensor:
    """Return an array on a device; by way of pinned memory to a GPU, so that the copy runs while this process goes on."""
    tensor = torch.from_numpy(array)
    return tensor.pin_memory().to(place, non_blocking=True) if place.startswith("cuda") else tensor.to(place)


def class_sums(x_BD: Tensor, classes_B: Tensor, count: int) -> Tensor:
    """Return sums of at most INT32_ROWS int8 rows by class: int32 [C, D], exact in any order of the additions."""
    total_CD = torch.zeros((count, x_BD.shape[1]), dtype=torch.int32, device=x_BD.device)
    return total_CD.index_add_(0, classes_B, x_BD.to(torch.int32))


def narrow_gram_product(x_BD: NDArray[np.int8]) -> NDArray[np.int64]:
    """x^T x of int8 rows, exactly, by NumPy: int64 [D, D]."""
    if len(x_BD) == 1:
        row_D = x_BD[0].astype(np.int64)
        single_DD: NDArray[np.int64] = np.multiply.outer(row_D, row_D)
        return single_DD
    total = np.zeros((x_BD.shape[1], x_BD.shape[1]), np.int64)
    for start in range(0, len(x_BD), FLOAT32_ROWS):
        chunk = x_BD[start : start + FLOAT32_ROWS].astype(np.float32)
        total += (chunk.T @ chunk).astype(np.int64)
    return total


def gram_product(x_BD: Tensor) -> Tensor:
    """x^T x of at most INT32_ROWS int8 rows, exactly: int64 [D, D]; by integers or floats, whichever is faster."""
    if x_BD.device.type == "cpu" and not multiplies_integers_fast():
        return float_gram_product(x_BD)
    return integer_gram_product(x_BD)


@cache
def multiplies_integers_fast() -> bool:
    """Return whether this processor multiplies int8 faster than float32, measured once, on a small product.

    With AVX-512 VNNI it is several times as fast, without it a hundred times as slow. Both are exact, so the choice
    never changes a sum.
    """
    sample_BD = torch.ones((128, 128), dtype=torch.int8)
    seconds = []
    for product in (integer_gram_product, float_gram_product):
        product(sample_BD)  # the first call also loads kernels
        started = time.perf_counter()
        product(sample_BD)
        seconds.append(time.perf_counter() - started)
    return seconds[0] < seconds[1]


def integer_gram_product(x_BD: Tensor) -> Tensor:
    """x^T x of at most INT32_ROWS int8 rows in int32, which the rows cannot overflow."""
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
    """Return the same in float32, in chunks that are small enough to be exact; TF32, with ten bits, is not."""
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

"""Rows, vectors or texts -> a number and an interval, by exact statistics and Bayesian ridge regression.

    bytes -> features int8 [B, D] -> sums (learn) -> solved ridge (publish) -> number, (low, high) (predict)

A target is quantised once, like a feature: q = clip(rint(y * 2^exponent) - centre, -2^20, 2^20). The
scale is declared (`target_scale`) or fitted to the first 200 examples: 95 % of their targets lie
within 2^12..2^13 of their median, so a quantum is at most 1/4096 of that spread, and targets 128
times as far away still fit.

The whole memory is one integer matrix, the moments M = sum z z^T over z = (1, q, x_1 .. x_D), in
int64. It contains the count, the sums, sum q^2, sum x q and the Gram matrix; it does not depend on
order or batches, and examples are subtracted from it.

Shapes: B examples, D features, E = D + 1, R candidate ridges.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from online.models import inputs
from online.models.contract import (
    LARGEST_NUMBER,
    Answer,
    BadExample,
    Example,
    Options,
    Part,
    State,
    pack_json,
    parse_number,
    unpack_json,
)
from online.models.encoders.columns import Column, make_number_column
from online.models.example_checks import check_features
from online.models.options import Option, resolve

if TYPE_CHECKING:
    import torch
    from torch import Tensor
else:
    from online.models.lazy_torch import torch

FINER_BITS = 7  # by which a target is quantised more finely than a feature
TARGET_LIMIT = 2**20  # quanta; squares reach 2^40, so int64 holds 8 million examples at the limit
EXACT_ROWS = 4_096  # 2^40 * rows < 2^53: exact in float64 up to here
RIDGES = np.logspace(4, -8, 97)  # shares of the mean eigenvalue, tried from the strongest down
ROUNDING = 1 / 12  # variance that quantisation adds to a target, in quanta^2: no model explains it

OPTIONS = (
    *inputs.OPTIONS,
    Option(
        "target_scale",
        0.0,
        "Targets lie in [-target_scale, target_scale]; 0: fitted to the first 200 examples. "
        "Declare it if you know it, for the same reasons as scale.",
        low=0.0,
        high=LARGEST_NUMBER,
    ),
    Option(
        "level",
        0.9,
        "How often the right number should lie within the interval. Raise it for wider, safer intervals.",
        unit="probability",
        above=0.0,
        below=1.0,
    ),
)


@dataclass(frozen=True, slots=True)
class Ridge:
    """A solved regression, in quanta: number = intercept + (x - mean) @ weights.

    Its variance is noise * (1 + 1 / count + |(x - mean) @ spread|^2), with count - 1 degrees of freedom.
    """

    mean: NDArray[np.float64]  # [D]
    weights: NDArray[np.float64]  # [D]
    spread: NDArray[np.float32]  # [D, D]: spread @ spread.T = (S + ridge I)^-1
    scalars: NDArray[np.float64]  # count, intercept, noise, ridge

    @property
    def count(self) -> int:
        return int(self.scalars[0])

    def predict(self, x_BD: NDArray[np.int8]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Means and standard deviations, [B]. Features newer than the weights are left out."""
        count, intercept, noise, _ = self.scalars
        away_BD = x_BD[:, : len(self.mean)] - self.mean
        leverage_B = ((away_BD @ self.spread) ** 2).sum(1)
        return intercept + away_BD @ self.weights, np.sqrt(noise * (1 + 1 / count + leverage_B))


class Regressor:
    """A regression model on exact statistics. Implements `contract.Model`."""

    def __init__(self, options: Options, device: str = "cpu") -> None:
        self.options = resolve(options, OPTIONS)
        self.device = device
        self.inputs = inputs.Inputs(self.options, warms_up=not self.options["target_scale"])
        self.target = self._fit_target([])
        self._moments: Tensor | None = None  # created at the first access
        self._ridge: Ridge | None = None

    @property
    def subtracts(self) -> bool:
        fitted = self.inputs.warm is None and not self.options["target_scale"]
        return self.inputs.subtracts and not fitted

    def feature_epoch(self) -> str:
        return self.inputs.epoch()

    # predict

    def predict(self, inputs: Sequence[bytes], keys: Sequence[int | None] = ()) -> list[Answer]:
        is_empty = self._ridge is None and self._moments is None and not self.inputs.warm
        ridge = None if is_empty else self._solved()
        if ridge is None or not ridge.count:
            return [Answer(None, ()) for _ in inputs]
        mean_B, deviation_B = ridge.predict(self.inputs.features(inputs))
        return [self._answer(ridge, mean, deviation) for mean, deviation in zip(mean_B, deviation_B, strict=True)]

    def _answer(self, ridge: Ridge, mean: float, deviation: float) -> Answer:
        if ridge.count < 2:  # one target says nothing about the spread
            return Answer(repr(self._number(mean)), ())
        reach = student_t(self.options["level"], ridge.count - 1) * deviation
        return Answer(repr(self._number(mean)), (), interval=(self._number(mean - reach), self._number(mean + reach)))

    def _quanta(self, label: str) -> int:
        scaled = np.rint(np.ldexp(parse_number(label), self.target.exponent)) - float(self.target.centre)
        return int(np.clip(scaled, -TARGET_LIMIT, TARGET_LIMIT))

    def _number(self, quanta: float) -> float:
        """The number on the grid of the targets.

        The last digits of a sum over features depend on the batch, so they are not reported.
        """
        whole = round(max(-16 * TARGET_LIMIT, min(16 * TARGET_LIMIT, quanta)))
        return math.ldexp(whole + self.target.centre, -self.target.exponent)

    def _solved(self) -> Ridge:
        if self._ridge is None:
            if self.inputs.warm is not None:
                self._recount(self.inputs.refit_columns())
            self._ridge = solve(self.moments)
        return self._ridge

    # learn

    def learn(self, examples: Sequence[Example]) -> None:
        self.check(examples)
        self._ridge = None
        warming = self.inputs.warm is not None
        fixed = self.inputs.take(examples)
        if warming:
            self._recount(fixed)
        else:
            self._count(fixed, times=1)

    def unlearn(self, examples: Sequence[Example]) -> None:
        self._ridge = None
        self._count(self.inputs.drop(examples), times=-1)

    def check(self, examples: Sequence[Example]) -> None:
        for example in examples:
            self._check(example)

    def _check(self, example: Example) -> None:
        if example.kind == "reward":
            raise BadExample("a regressor learns from the right numbers, not from rewards; send a label")
        if example.kind != "label":
            raise BadExample(f"a regressor learns labels, not a {example.kind}")
        try:
            parse_number(example.label)
        except ValueError as error:
            raise BadExample(str(error)) from None
        check_features(example.features, self.inputs.kind, self.inputs.size)

    def _recount(self, examples: Sequence[Example]) -> None:
        self.target = self._fit_target(examples[: inputs.WARM_UP])
        self._moments = None
        self._count(examples, times=1)

    def _fit_target(self, examples: Sequence[Example]) -> Column:
        scale = self.options["target_scale"] or None
        numbers = [parse_number(example.label) for example in examples] or [0.0]
        column = make_number_column("target", numbers, scale)
        return Column("target", True, column.exponent + FINER_BITS, column.centre << FINER_BITS)

    @property
    def moments(self) -> Tensor:
        if self._moments is None:
            side = 2 + self.inputs.width
            self._moments = torch.zeros((side, side), dtype=torch.int64, device=self.device)
        return self._moments

    def _count(self, examples: Sequence[Example], times: int) -> None:
        more = 2 + self.inputs.width - len(self.moments)
        if more > 0:  # new features, which were zero in all examples so far
            self._moments = torch.nn.functional.pad(self.moments, (0, more, 0, more))
        for start in range(0, len(examples), EXACT_ROWS):
            chunk = examples[start : start + EXACT_ROWS]
            x_BD = self.inputs.features([example.features for example in chunk])
            q_B = [self._quanta(example.label) for example in chunk]
            z_BE = np.column_stack([np.ones(len(chunk)), q_B, x_BD]).astype(np.float64)
            z = torch.from_numpy(z_BE).to(self.device)
            self.moments.add_(times * (z.T @ z).to(torch.int64))

    # state

    def fingerprint(self) -> str:
        return self.inputs.fingerprint(self._digest)

    def _digest(self, names: Sequence[str] | None) -> bytes:
        """sha256 over the target's scale and the moments, in the order of column names, without zeros."""
        moments = self.moments.cpu().numpy()
        seen = hashlib.sha256(f"{self.target.exponent} {self.target.centre}".encode())
        if names is not None:
            order = sorted((name, place) for place, name in enumerate(names, 2) if moments[place].any())
            places = np.array([0, 1, *(place for _, place in order)], dtype=np.intp)
            moments = moments[np.ix_(places, places)]
            seen.update("\0".join(name for name, _ in order).encode())
        seen.update(np.ascontiguousarray(moments).data)
        return seen.digest()

    def drifted(self, label: str | None, since: int) -> None:
        """Do nothing: a regressor has no windows."""

    def facts(self) -> Mapping[str, float]:
        """noise: standard deviation of targets around predictions, in the target's own unit."""
        noise = float(self._solved().scalars[2])
        return {"noise": math.ldexp(math.sqrt(noise), -self.target.exponent)}

    def probes(self) -> list[tuple[bytes, str | None]]:
        return [(features, None) for features in self.inputs.recent]

    def state(self, serving_only: bool = False) -> State:
        ridge = self._solved()
        meta = pack_json({"target": [self.target.exponent, self.target.centre], **self.inputs.mapping()})
        solved = {field.name: getattr(ridge, field.name) for field in fields(Ridge)}
        parts = {"weights": Part({**solved, "meta": meta}, serving=True)}
        if not serving_only:
            sums = {"moments": self.moments.cpu().numpy().copy(), "memory": pack_json(self.inputs.memory())}
            parts["statistics"] = Part(sums, serving=False)
        return parts

    def restore(self, state: State) -> None:
        solved = state["weights"].tensors
        meta = unpack_json(solved["meta"])
        self.target = Column("target", True, *meta["target"])
        self._ridge = Ridge(*(solved[field.name] for field in fields(Ridge)))
        tensors = state["statistics"].tensors if "statistics" in state else None
        if tensors is not None:
            self._moments = torch.from_numpy(tensors["moments"].copy()).to(self.device)
        self.inputs.restore(meta, None if tensors is None else unpack_json(tensors["memory"]))


def solve(moments: Tensor) -> Ridge:
    """Solve ridge regression on centred features; maximum evidence chooses the ridge (MacKay 1992).

    With the eigenvalues s of the scatter matrix S and c = sum (x - mean) (q - mean q), for every
    candidate ridge r the prior N(0, noise / r) gives

        R(r) = sum (q - mean q)^2 - c^T (S + r I)^-1 c        -2 log evidence = (n - 1) log R + sum log(1 + s / r)

    and noise = R / (n - 1). Everything comes from the sums: one eigendecomposition in float64, O(D^3).
    """
    m = moments.to(torch.float64)
    count = float(m[0, 0])
    per_example = m[0] / max(count, 1.0)
    scatter_EE = m[1:, 1:] - count * torch.outer(per_example[1:], per_example[1:])
    s_D, turn_DD = torch.linalg.eigh(scatter_EE[1:, 1:])
    s_D = s_D.clamp(min=0.0)
    c_D = turn_DD.T @ scatter_EE[1:, 0]
    used = int((m.diagonal()[2:] > 0).sum())  # columns whose examples were all retracted must not count
    ridges_R = torch.from_numpy(RIDGES).to(m.device) * max(float(s_D.sum()) / max(used, 1), 1.0)
    left_R = scatter_EE[0, 0] - (c_D**2 / (s_D + ridges_R[:, None])).sum(1)
    left_R = left_R.clamp(min=max(count, 1.0) * ROUNDING)
    cost_R = (count - 1) * left_R.log() + torch.log1p(s_D / ridges_R[:, None]).sum(1)
    best = int(cost_R.argmin())
    damped_D = s_D + ridges_R[best]
    scalars = [count, per_example[1], left_R[best] / max(count - 1, 1.0), ridges_R[best]]
    return Ridge(
        per_example[2:].cpu().numpy(),
        (turn_DD @ (c_D / damped_D)).cpu().numpy(),
        (turn_DD / damped_D.sqrt()).to(torch.float32).cpu().numpy(),
        np.array([float(scalar) for scalar in scalars]),
    )


def student_t(level: float, freedom: int) -> float:
    """The t with P(|T| < t) = level: exact for one and two degrees of freedom, then Fisher's expansion.

    Abramowitz & Stegun 26.7.5; at a level of 0.9 within 0.3 % from three degrees on.
    """
    if freedom == 1:
        return math.tan(math.pi * level / 2)
    if freedom == 2:
        return level * math.sqrt(2 / (1 - level**2))
    z, v = NormalDist().inv_cdf((1 + level) / 2), float(freedom)
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / v + second / v**2 + third / v**3

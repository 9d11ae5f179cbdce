"""Rows, vectors or texts -> a number and an interval, by exact statistics and Bayesian ridge regression.

    bytes -> features int8 [B, D] -> sums (learn) -> solved ridge (publish) -> number, (low, high) (predict)

A target is quantised once, like a feature: q = clip(rint(y * 2^exponent) - centre, -2^20, 2^20). The
scale is declared (`target_scale`) or fitted to the first 200 examples: 95 % of their targets lie
within 2^12..2^13 of their median, so a quantum is at most 1/4096 of that spread, and targets 128
times as far away still fit.

What is learned is one integer matrix, the moments M = sum z z^T over z = (1, q, x_1 .. x_D), in
int64. It contains the count, the sums, sum q^2, sum x q and the Gram matrix; it does not depend on
order or batches, and examples are subtracted from it.

With `follow`, the newest rows are stored as well, and correct the answers where the world moves
(`tracking`). The correction is a function of the moments and of these rows. The digest
is that of the moments, whose examples determine both.

The scale of the targets, too, is fitted to the first examples. Where the newest ones have left it, or lie too near each
other for it, later ones count as they are: far beyond the scale, and with parts of a quantum (`wide_targets`).

Shapes: B examples, D features, E = D + 1, R candidate ridges.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import fields

import numpy as np
from numpy.typing import NDArray

from online.models import inputs
from online.models.contract import (
    LARGEST_NUMBER,
    Answer,
    AnyArray,
    BadExample,
    Example,
    Options,
    State,
    StatePart,
    Tensors,
    pack_json,
    parse_number,
    unpack_json,
)
from online.models.encoders.columns import KNOTS, Column, Columns, make_number_column
from online.models.encoders.ranges import RangeWatch
from online.models.example_checks import check_features
from online.models.options import Option, resolve
from online.plugins.regression.evidence import AT_ONCE, Moments, Ridge, Row, UpdatedRidge, solve
from online.plugins.regression.tracking.reach import student_t
from online.plugins.regression.tracking.recent_world import RecentWorld
from online.plugins.regression.tracking.tracker import Correction
from online.plugins.regression.wide_targets import (
    GRID_BITS,
    WideSums,
    cut_into_limbs,
    find_limit,
    join_numbers,
)
from online.schemas.json_values import JSONArray

FINER_BITS = 7  # by which a target is quantised more finely than a feature
BUMP_SLOPE = 127 / 96  # of a bump, per quantum of its number
EXACT_ROWS = 4_096  # 2^40 * rows < 2^53: exact in float64 up to here

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
    Option(
        "follow",
        True,
        "Follow a moving world: the newest examples correct the answers and the intervals as far as that has predicted "
        "better. false: all examples count equally, however old, which is about twice as fast.",
    ),
)


class Regressor:
    """A regression model on exact statistics. Implements `contract.Model`."""

    def __init__(self, options: Options, device: str = "cpu") -> None:
        self.options = resolve(options, OPTIONS)
        self.device = device
        self.inputs = inputs.Inputs(self.options, warms_up=not self.options["target_scale"])
        self.target = self._fit_target([])
        self._watch = self._new_watch()
        self._set_target_bands([])
        self._wide = WideSums()
        self._moments: NDArray[np.int64] | None = None  # created at the first access
        self._recent = RecentWorld(self.options["level"]) if self.options["follow"] else None
        self.answers_by_updates = False  # see `updates`
        self._ridge: Ridge | UpdatedRidge | None = None  # what answers; None after the moments have changed
        self._published: Ridge | None = None  # the same, solved from the moments alone
        self._updated: UpdatedRidge | None = None  # what the examples in `_rows` are to be added to
        self._rows: list[Row] = []

    @property
    def subtracts(self) -> bool:
        """Whether retracted examples can be subtracted: scales are fixed, and what adapts still has the rows that it needs."""
        fitted = self.inputs.warm is None and not self.options["target_scale"]
        exhausted = self._recent is not None and self._recent.is_exhausted(int(self.moments[0, 0]))
        return self.inputs.subtracts and not fitted and not (exhausted and self.inputs.warm is None)

    def feature_epoch(self) -> str:
        """Return the name of the features that the model reads."""
        return self.inputs.epoch()

    # predict

    def predict(self, inputs: Sequence[bytes], keys: Sequence[int | None] = ()) -> list[Answer]:
        """Answer each input; the model does not change."""
        is_empty = self._ridge is None and self._moments is None and not self.inputs.warm
        ridge = None if is_empty else self._solved()
        if ridge is None or not ridge.count:
            return [Answer(None, ()) for _ in inputs]
        x_BD = self.inputs.features(inputs)
        mean_B, deviation_B = ridge.predict(x_BD)
        correction = self._correction()
        if correction is not None:
            mean_B, deviation_B = correction.apply(mean_B, x_BD), correction.reach * deviation_B
        unread_B = self._measure_unread(ridge, inputs)
        return [self._answer(ridge, *each) for each in zip(mean_B, deviation_B, unread_B, strict=True)]

    def _measure_unread(self, ridge: Ridge | UpdatedRidge, inputs: Sequence[bytes]) -> Sequence[float]:
        """Return how much the answers could change with what the features do not show: numbers beyond all their ranges."""
        beyond_BN = self.inputs.measure_beyond(inputs)
        if beyond_BN is None:
            return [0.0] * len(inputs)
        unread_B: list[float] = (beyond_BN @ self.find_slopes(ridge.weights)).tolist()
        return unread_B

    def find_slopes(self, weights_D: NDArray[np.float64]) -> NDArray[np.float64]:
        """[N]: by how much a quantum more of a number can change the answer, by its value and its bumps."""
        places, sizes_D = (
            self.inputs.number_places(),
            np.pad(np.abs(weights_D), (0, self.inputs.width - len(weights_D))),
        )
        bumps = range(1, 1 + len(KNOTS)) if self.inputs.columns.bumps else ()
        return np.array([sizes_D[place] + BUMP_SLOPE * sum(sizes_D[place + at] for at in bumps) for place in places])

    def _answer(self, ridge: Ridge | UpdatedRidge, mean: float, deviation: float, unread: float) -> Answer:
        if ridge.count < 2:  # one target says nothing about the spread
            return Answer(repr(self._number(mean)), ())
        reach = max(student_t(self.options["level"], ridge.count - 1) * deviation + unread, self.least_reach)
        return Answer(repr(self._number(mean)), (), interval=(self._number(mean - reach), self._number(mean + reach)))

    def _correction(self) -> Correction | None:
        """Return what the newest examples change about the solution on all of them. Valid after `_solved`."""
        if self._recent is None:
            return None
        if not self._recent.is_current:
            self._recent.update(
                self._wide.join(self.moments), self.inputs.number_places(), self.inputs.warm is not None
            )
        return self._recent.correction

    def _number(self, quanta: float) -> float:
        """Return the number on the grid of the targets.

        The last digits of a sum over features depend on the batch, so they are not reported.
        """
        bits = GRID_BITS if self.is_fine else 0
        quanta = max(-self.farthest, min(self.farthest, quanta))
        whole = round(math.ldexp(quanta, bits)) + (self.target.centre << bits)
        try:
            return math.ldexp(whole, -self.target.exponent - bits)
        except OverflowError:
            return math.copysign(LARGEST_NUMBER, whole)

    @property
    def least_reach(self) -> float:
        """The half-width below which no interval is: one step of the grid, so that none is empty."""
        return 2.0**-GRID_BITS if self.is_fine else 1.0

    @property
    def farthest(self) -> int:
        """The number of quanta beyond which no answer lies."""
        return 16 * self._target_limit

    def _solved(self) -> Ridge | UpdatedRidge:
        if not self.answers_by_updates:
            return self._ridge or self._solved_from_moments()
        if self._ridge is None:
            self._refit_warm_up()
            rows, self._rows = self._rows, []
            moments: Moments = self._wide.join(self.moments)
            if self._updated is None or not self._updated.add(moments, rows):
                self._updated = UpdatedRidge(moments, self.device)
            self._ridge = self._updated
        return self._ridge

    def _solved_from_moments(self) -> Ridge:
        """Return what is published. It answers from now on, too, so that this process answers like a server."""
        if self._published is None:
            self._refit_warm_up()
            self._published = self._ridge = solve(self._wide.join(self.moments), self.device)
            self._updated, self._rows = None, []
        return self._published

    def _refit_warm_up(self) -> None:
        if self.inputs.warm is not None:
            self._recount(self.inputs.refit_columns())

    # learn

    def learn(self, examples: Sequence[Example]) -> None:
        """Learn the examples in order, all or none of them. Raises BadExample."""
        self.check(examples)
        self._ridge = self._published = None
        if self.inputs.warm is not None:
            room = inputs.WARM_UP - len(self.inputs.warm)
            self._recount([example for part in self.inputs.take(examples[:room]) for example in part])
            examples = examples[room:]
        for part in self.inputs.take(examples):
            for alike in self._split_where_finer(part):
                self._count(alike, times=1)

    def _split_where_finer(self, examples: Sequence[Example]) -> Iterator[Sequence[Example]]:
        """Split examples where the newest targets show that their scale is not that of the first ones."""
        while self._watch is not None and examples:
            count, bands = self._watch.observe(self._target_scales, *list_targets(examples))
            yield examples[:count]
            examples = examples[count:]
            if bands:
                self._set_target_bands([*self._target_bands, *bands])
        yield examples

    def _new_watch(self) -> RangeWatch | None:
        """Return what notices that targets leave their scale; None where that is declared."""
        return None if self.options["target_scale"] else RangeWatch()

    def _set_target_bands(self, bands: Sequence[Column]) -> None:
        """Count targets as far as these bands reach. They read a 128th of what the target's own scale reads."""
        scale = self.target.exponent - FINER_BITS, self.target.centre >> FINER_BITS
        self._target_bands = [*bands]
        self._target_scales = Columns(False, 1, [Column("target", True, *scale), *bands])
        self._target_limit = find_limit(self.target, bands)

    @property
    def is_fine(self) -> bool:
        """Whether parts of a quantum of the target count."""
        return bool(self._target_bands)

    @property
    def is_summing(self) -> bool:
        """Whether learning only adds to sums, so that others may sum."""
        return self.inputs.warm is None

    def sum_up(self, examples: Sequence[Example]) -> Tensors | None:
        """Return the sums of the examples, without learning them; None during the warm-up."""
        if not self.is_summing:
            return None
        self.check(examples)
        share = Regressor(self.options, self.device)
        share.inputs, share.target, share._watch = self.inputs.create_reader(), self.target, None
        share._set_target_bands(self._target_bands)
        for part in share.inputs.take(examples):
            share._count(part, times=1)
        noted = self.inputs.summarise(share.inputs, examples), self._summarise_targets(examples)
        if None in noted:
            return None
        meta = {
            "noted": noted,
            "reads": self._reading(),
            **share.inputs.mapping(),
            "recent": [each.hex() for each in share.inputs.recent],
        }
        rows = {} if share._recent is None else share._recent.rows.tensors(share.inputs.width)
        return {"meta": pack_json(meta), "moments": share.moments, **share._wide.tensors(), **rows}

    def _summarise_targets(self, examples: Sequence[Example]) -> list[object] | None:
        if self._watch is None:
            return []
        return RangeWatch().summarise(self._target_scales, *list_targets(examples))

    def _reading(self) -> JSONArray:
        """Return what identifies how examples are read: sums of examples that were read in another way cannot be added."""
        return [
            self.feature_epoch(),
            self.target.exponent,
            self.target.centre,
            [band.entry for band in self._target_bands],
        ]

    def merge(self, sums: Tensors) -> bool:
        """Add sums that another process computed; return False if they do not fit this state."""
        meta = unpack_json(sums["meta"])
        if not self.is_summing or meta["reads"] != self._reading():
            return False
        of_inputs, of_targets = meta["noted"]
        watch = deepcopy(self._watch)
        if watch is not None and not watch.absorb(self._target_scales, of_targets):
            return False
        if not self.inputs.absorb(of_inputs, meta):
            return False
        self._watch = watch
        self.inputs.extend(meta, [bytes.fromhex(features) for features in meta["recent"]])
        more = len(sums["moments"]) - len(self.moments)
        self._moments = np.pad(self.moments, (0, more)) + sums["moments"]
        if "wide" in sums:
            self._wide.add_sums(sums["wide"], sums["wide_squares"])
        self._ridge = self._published = self._updated = None
        self._rows = []
        if self._recent is not None:
            self._recent.count(sums["offsets"].tolist(), sums["rows"], sums["quanta"], times=1)
        return True

    def unlearn(self, examples: Sequence[Example]) -> None:
        """Remove the examples from the state."""
        self._ridge = self._published = None
        self._count(self.inputs.drop(examples), times=-1)

    def check(self, examples: Sequence[Example]) -> None:
        """Raise BadExample for an example that this kind cannot learn."""
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
        self._watch = self._new_watch()
        self._set_target_bands([])
        self._moments, self._updated, self._rows = None, None, []
        self._wide = WideSums()
        if self._recent is not None:
            self._recent.clear()
        self._count(examples, times=1)

    def _fit_target(self, examples: Sequence[Example]) -> Column:
        scale = self.options["target_scale"] or None
        numbers = [parse_number(example.label) for example in examples] or [0.0]
        column = make_number_column("target", numbers, scale)
        return Column("target", True, column.exponent + FINER_BITS, column.centre << FINER_BITS)

    @property
    def moments(self) -> NDArray[np.int64]:
        """The moments [2 + D, 2 + D] of (1, inputs, target), in integers."""
        if self._moments is None:
            side = 2 + self.inputs.width
            self._moments = np.zeros((side, side), np.int64)
        return self._moments

    def _count(self, examples: Sequence[Example], times: int) -> None:
        more = 2 + self.inputs.width - len(self.moments)
        if more > 0:  # new features, which were zero in all examples so far
            self._moments = np.pad(self.moments, (0, more))
        for start in range(0, len(examples), EXACT_ROWS):
            chunk = examples[start : start + EXACT_ROWS]
            cut = [self._cut(example.label) for example in chunk]
            limbs_BL = np.array([limbs for _, limbs in cut], np.int64)
            z_BE = np.empty((len(chunk), len(self.moments)))
            z_BE[:, 0], z_BE[:, 1] = 1.0, [q for q, _ in cut]
            z_BE[:, 2:] = self.inputs.features([example.features for example in chunk])
            self._moments = self.moments + times * (z_BE.T @ z_BE).astype(np.int64)
            self._wide.add(limbs_BL, z_BE, times)
            q_B = join_numbers(z_BE[:, 1], limbs_BL)
            self._note_rows(z_BE[:, 2:], q_B, times)
            if self._recent is not None:
                offsets = [example.offset for example in chunk]
                self._recent.count(offsets, z_BE[:, 2:].astype(np.int8), q_B, times)

    def _cut(self, label: str) -> tuple[int, list[int]]:
        return cut_into_limbs(parse_number(label), self.target, self._target_limit, self.is_fine)

    def _note_rows(self, x_BD: NDArray[np.float64], q_B: AnyArray, times: int) -> None:
        """Let few examples be added to the last solution, and anything else be solved from the moments."""
        if self._updated is None or times < 0 or len(self._rows) + len(x_BD) > AT_ONCE:
            self._updated, self._rows = None, []
        else:
            self._rows += [(x_D, float(q)) for x_D, q in zip(x_BD, q_B, strict=True)]

    # state

    def fingerprint(self) -> str:
        """Return a hash of everything that was learned; equal states have equal hashes."""
        return self.inputs.fingerprint(self._digest)

    def _digest(self, names: Sequence[str] | None) -> bytes:
        """Return sha256 over the target's scale and the moments, in the order of column names, without zeros."""
        moments = self.moments
        seen = hashlib.sha256(f"{self.target.exponent} {self.target.centre}".encode())
        if names is not None:
            order = sorted((name, place) for place, name in enumerate(names, 2) if moments[place].any())
            places = np.array([0, 1, *(place for _, place in order)], dtype=np.intp)
            moments = moments[np.ix_(places, places)]
            seen.update("\0".join(name for name, _ in order).encode())
        seen.update(np.ascontiguousarray(moments).data)
        if self._wide.by_example is not None and self._wide.is_needed:
            wide = np.pad(self._wide.by_example, ((0, 0), (0, len(self.moments) - self._wide.by_example.shape[1])))
            seen.update(np.ascontiguousarray(wide if names is None else wide[:, places]).data)
            seen.update(self._wide.by_limb.data)
        return seen.digest()

    def drifted(self, label: str | None, since: int) -> None:
        """Do nothing: a regressor has no windows."""

    def count_outside(self, inputs: Sequence[bytes]) -> int:
        """Return how many inputs have numbers outside the scales."""
        return self.inputs.count_outside(inputs)

    def count_targets_outside(self, labels: Sequence[str]) -> int:
        """Return how many targets lie outside the scale."""
        if self.inputs.warm is not None:
            return 0
        return sum(abs(self.target.steps(parse_number(label))) > self._target_limit for label in labels)

    def facts(self) -> Mapping[str, float]:
        """noise: standard deviation of targets around predictions, in the target's own unit."""
        noise = float(self._solved_from_moments().scalars[2])
        return {"noise": math.ldexp(math.sqrt(noise), -self.target.exponent)}

    def probes(self) -> list[tuple[bytes, str | None]]:
        """Return inputs that the gate predicts before a version goes live, each with the expected choice or None."""
        return [(features, None) for features in self.inputs.recent]

    def state(self, serving_only: bool = False) -> State:
        """Return the state in parts; with serving_only those that prediction needs."""
        ridge = self._solved_from_moments()
        self._correction()
        moved = {"target_bands": [band.entry for band in self._target_bands]} if self._target_bands else {}
        meta = pack_json({"target": [self.target.exponent, self.target.centre], **moved, **self.inputs.mapping()})
        solved: dict[str, AnyArray] = {field.name: getattr(ridge, field.name) for field in fields(Ridge)}
        solved["meta"] = meta
        if self._recent is not None:
            solved |= self._recent.serving_tensors()
        parts = {"weights": StatePart(solved, serving=True)}
        if not serving_only:
            watched = {} if self._watch is None else self._watch.memory()
            memory = {**self.inputs.memory(), **({"target_ranges": watched} if watched else {})}
            sums: dict[str, AnyArray] = {"moments": self.moments.copy(), "memory": pack_json(memory)}
            sums |= self._wide.tensors()
            parts["statistics"] = StatePart(sums, serving=False)
            if self._recent is not None:
                parts["recent"] = StatePart(self._recent.rows.tensors(self.inputs.width), serving=False)
        return parts

    def restore(self, state: State) -> None:
        """Adopt a state that `state` returned."""
        solved = state["weights"].tensors
        meta = unpack_json(solved["meta"])
        self.target, self._watch = Column("target", True, *meta["target"]), self._new_watch()
        self._set_target_bands([Column(*entry) for entry in meta.get("target_bands", ())])
        self._ridge = self._published = Ridge(*(solved[field.name] for field in fields(Ridge)))
        tensors = state["statistics"].tensors if "statistics" in state else None
        if tensors is not None:
            self._updated, self._rows = None, []
            self._moments, self._wide = tensors["moments"].copy(), WideSums.from_tensors(tensors)
        memory = None if tensors is None else unpack_json(tensors["memory"])
        self.inputs.restore(meta, memory)
        if self._watch is not None and memory is not None:
            self._watch.restore(memory.get("target_ranges", {}))
        if self._recent is not None:
            self._recent.restore(solved, state["recent"].tensors if "recent" in state else None)


def list_targets(examples: Sequence[Example]) -> tuple[list[int], NDArray[np.float64]]:
    """Return the offsets of examples, and their targets as one column."""
    return [example.offset for example in examples], np.array([[parse_number(each.label)] for each in examples])

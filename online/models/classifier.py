"""Rows, vectors or texts -> a class, by exact statistics and a head that is solved from them.

    bytes -> Inputs -> int8 [B, D] -> Head.features -> int8 [B, M] -> sums (learn) -> weights (publish)
                                                                       weights -> chances (predict)

head = "slda" | "ridge" | "rp_ridge" | "best": see `heads`. The option `outside` declares a class that
means "none of these": it is never answered, and it teaches the model which inputs to abstain from.
Shapes: B examples, A active classes, D inputs, M features.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from online.models import example_checks as rows
from online.models import inputs
from online.models.classifier_options import OPTIONS
from online.models.contract import (
    Answer,
    BadExample,
    Example,
    Options,
    State,
    StatePart,
    Tensors,
    build_candidates,
    join_parts,
    pack_json,
    split_parts,
    unpack_json,
)
from online.models.contributions import Contribution, check_constant, find_merging_obstacle, read_contribution
from online.models.encoders.text import TEXT_WIDTH
from online.models.exchange.sums_file import write_sums
from online.models.options import resolve
from online.models.statistics.adaptation import LEAST_ROOM, Adaptation
from online.models.statistics.calibration import Holdout
from online.models.statistics.exact import ExactStatistics, LinearWeights
from online.models.statistics.expiry import ExpiryBuckets
from online.models.statistics.heads import ONE, Head, HeadDecision, Judgement, SolvedHead
from online.models.statistics.projection import Projection
from online.models.statistics.slda import MeanSums
from online.models.statistics.windows import Windows
from online.schemas.events import is_positive

OUTSIDE_KEPT = 256  # examples of inputs that belong to no class
TEXT_OCTAVE = 10.35, 0.0  # octave and range for texts, chosen on CLINC150's validation questions: one bandwidth
TEXT_NAMES = [str(place) for place in range(TEXT_WIDTH)]
OTHER_OCTAVES = 2.0
UNKNOWN_COLUMNS = 8  # assumed for a table with a declared scale before it has columns


class Classifier:
    """A classifier on exact statistics. Implements `contract.Model`."""

    def __init__(self, options: Options, device: str = "cpu") -> None:
        self.options = resolve(options, OPTIONS)
        check_windows(self.options)
        self.device = device
        self.inputs = inputs.Inputs(self.options)
        self.head = self._new_head()
        self.windows = Windows(self.options["window"], self.options["drift_window"])
        self.adaptation = Adaptation(self.options["recent"])
        self.expiry = ExpiryBuckets(self.options["max_age"])
        self.held_out, self.outside = Holdout(), Holdout(OUTSIDE_KEPT)
        self.outside_digest = 0  # multiset hash of all outside examples: the sum of their hashes modulo 2^256
        self.answers_by_updates = False  # see `updates`
        self._solution: SolvedHead | None = None  # what answers; None after the sums have changed
        self._published: SolvedHead | None = None  # the same, solved from the sums alone

    @property
    def subtracts(self) -> bool:
        """Whether examples can be subtracted.

        False once examples decide how others are read, and while an expired or dropped example may
        be needed again.
        """
        return self.inputs.subtracts and not self.windows.exhausted(self.statistics) and not self.expiry.exhausted

    @property
    def statistics(self) -> ExactStatistics:
        """All sums, whichever are served."""
        return self.head.statistics

    def _mean_sums(self) -> MeanSums | None:
        return self.windows.compute_mean_sums(self.statistics)

    def feature_epoch(self) -> str:
        """Return the name of the features that the model reads."""
        return self.inputs.epoch()

    def _new_head(self, octave: float | None = None) -> Head:
        """octave: of the random features, taken from another head; None: from the present columns."""
        options = self.options
        random_features = options["random_features"] if options["head"] in ("rp_ridge", "best") else 0
        typical, octaves = TEXT_OCTAVE if self.inputs.kind == "text" else (self._octave(), OTHER_OCTAVES)
        projection = Projection(random_features, options["seed"], typical if octave is None else octave, octaves)
        head = Head(options["head"], projection, options["shrinkage"], options["priors"], self.device)
        head.name_columns(self._names())
        return head

    def _octave(self) -> float:
        """log2 of a typical distance: numbers lie within 64 quanta of their median, and squares add up."""
        numbers = self.inputs.size or len(self.inputs.columns.columns) or UNKNOWN_COLUMNS
        return float(np.log2(32 * np.sqrt(2 * numbers)))

    def _names(self) -> list[str]:
        return TEXT_NAMES if self.inputs.kind == "text" else self.inputs.columns.names

    def _features(self, examples: Sequence[bytes]) -> NDArray[np.int8]:
        return self.head.features(self.inputs.features(examples))

    # predict

    def predict(self, inputs: Sequence[bytes], keys: Sequence[int | None] = ()) -> list[Answer]:
        """Answer each input; the model does not change."""
        solution = self._solved() if self._knows_anything else None
        if solution is None or not solution.weights.active.any():
            return [Answer(None, ()) for _ in inputs]
        judged, last_BC = self._judge(solution, inputs)
        order_BA = np.argsort(last_BC, axis=1, kind="stable")[:, : np.count_nonzero(solution.weights.active)]
        chances_BA = judged.chances[np.arange(len(order_BA))[:, None], order_BA]
        ranked = zip(order_BA.tolist(), chances_BA.tolist(), judged.confidence.tolist(), strict=True)
        return [self._answer(*each) for each in ranked]

    def choose(self, inputs: Sequence[bytes]) -> list[str | None]:
        """Return the choices of `predict`."""
        solution = self._solved() if self._knows_anything else None
        if solution is None or not solution.weights.active.any():
            return [None for _ in inputs]
        judged, last_BC = self._judge(solution, inputs)
        abstains_B, labels = judged.confidence < self.options["abstain_below"], self.statistics.classes
        best = zip(last_BC.argmin(1).tolist(), abstains_B.tolist(), strict=True)
        return [None if abstains else labels[place] for place, abstains in best]

    def _judge(self, solution: SolvedHead, inputs: Sequence[bytes]) -> tuple[Judgement, NDArray[np.float64]]:
        """Return the judgement, and sort keys [B, C]: the likelier an active class, the lower its key; others come last."""
        abstains, active_C = self.options["abstain_below"] > 0, solution.weights.active
        judged = solution.judge(self._features(inputs), with_confidence=abstains)
        return judged, -judged.chances if active_C.all() else np.where(active_C, -judged.chances, 1.0)

    def _answer(self, order: list[int], chances: list[float], confidence: float) -> Answer:
        """order: indices of the classes, the likeliest first; chances: in that order."""
        labels = self.statistics.classes
        candidates = build_candidates([labels[place] for place in order], chances)
        if confidence < self.options["abstain_below"]:
            return Answer(None, candidates, candidates[0].score, abstained=True)
        return Answer(candidates[0].id, candidates, candidates[0].score)

    @property
    def _knows_anything(self) -> bool:
        """Whether there is anything to solve. If not, a server answers without importing torch."""
        return self._solution is not None or bool(self.statistics.classes or self.inputs.warm)

    def _solved(self) -> SolvedHead:
        if not self.answers_by_updates:
            return self._solution or self._solved_from_sums()
        if self._solution is None:
            self._refit_warm_up()
            recent = self.adaptation.recent
            self._solution = self.head.solve(self._mean_sums()) if recent is None else recent.solve()
        return self._solution

    def _solved_from_sums(self) -> SolvedHead:
        """Return what is published. It answers from now on, too, so that this process answers like a server."""
        if self._published is None:
            self._refit_warm_up()
            recent = self.adaptation.recent
            self._published = (
                self.head.solve_from_sums(self._mean_sums()) if recent is None else recent.solve_from_sums()
            )
            self._solution = self._published
        return self._published

    def _refit_warm_up(self) -> None:
        if self.inputs.warm is not None:
            self._recount(self.inputs.refit_columns())

    def _forget_solution(self) -> None:
        self._solution = self._published = None

    # learn

    def learn(self, examples: Sequence[Example]) -> None:
        """Learn the examples in order, all or none of them. Raises BadExample."""
        self.check(examples)
        self._forget_solution()
        for is_contribution, run in groupby(examples, lambda example: example.kind == "sums"):
            if is_contribution:
                self._merge_contributions(list(run), times=1)
            else:
                self._learn_each(list(run))

    def _learn_each(self, examples: Sequence[Example]) -> None:
        waiting = list(examples)
        while waiting:
            examples_now, waiting = self._split_at_decision(waiting)
            gone = self.expiry.add(examples_now)
            self._learn(examples_now, gone)
            if self.inputs.warm is None:
                self._decide()
                self.adaptation.judge(self.head, self._mean_sums())

    def _split_at_decision(self, examples: list[Example]) -> tuple[list[Example], list[Example]]:
        """Split where the warm-up ends, a decision is due or examples expire, whichever comes first.

        None of these may depend on how a log is split into batches.
        """
        examples, later = examples[: (turn := self.expiry.count_until_new_bucket(examples))], examples[turn:]
        inside = [place for place, example in enumerate(examples) if not self._is_outside(example)]
        missing = inputs.WARM_UP - len(self.inputs.warm or ())
        if self.inputs.warm is None:
            inside = [place for place in inside if is_positive(examples[place].reward)]
            missing = min(max(1, self.head.decides_at - self.head.count), self.adaptation.count_missing())
        cut = len(examples) if len(inside) < missing else inside[missing - 1] + 1
        return examples[:cut], [*examples[cut:], *later]

    def _learn(self, examples: Sequence[Example], gone: Sequence[Example]) -> None:
        """Learn examples. gone: those of them, and of earlier ones, that expire now."""
        outside, inside = self._split_outside(examples)
        self.outside.add(outside)
        self._sum_digest(outside, 1)
        self.held_out.add(example for example in inside if is_positive(example.reward))
        warming = self.inputs.warm is not None
        parts = self.inputs.take(inside)
        if warming:
            self._recount([example for part in parts for example in part])
        else:
            for part in parts:
                self._count(part, times=1)
            self._count(self._split_outside(gone)[1], times=-1)
        if gone:
            self._expire(gone)

    # sums of devices

    def _merge_contributions(self, contributions: Sequence[Example], times: int) -> None:
        """Add the sums of devices, or (times=-1) subtract them. Held-out examples decide nothing meanwhile."""
        for example in contributions:
            sums = self._read_contribution(example.features).statistics
            self.head.merge(sums, times)
            self.adaptation.merge(sums, example.offset, self.head, times)

    def write_contribution(self, sums: ExactStatistics | None = None) -> bytes:
        """Return the file of all sums, which a model with the same options takes as an example of the kind `sums`.

        sums: others of the same features, in place of its own.
        """
        return write_sums(self.statistics if sums is None else sums, self.describe_features())

    def describe_features(self) -> dict[str, object]:
        """Return how inputs become features: equal for models whose sums may be added."""
        projection, is_vector = self.head.projection, self.inputs.kind == "vector"
        columns = {"columns": self.inputs.mapping()["columns"]} if is_vector else {}
        drawn = {"seed": self.options["seed"]} if projection.width else {}
        return {"reads": self.feature_epoch(), "octave": projection.octave, **columns, **drawn}

    def _read_contribution(self, data: bytes) -> Contribution:
        """Return the sums of an example. Raises BadExample for sums that are not of such features, or cannot be sums."""
        obstacle = find_merging_obstacle("classifier", self.options)
        if obstacle is not None:
            raise BadExample(f"the model takes no sums: {obstacle}")
        contribution = read_contribution(data, self.statistics.width, self.describe_features())
        sums = contribution.statistics
        if self.head.start:
            check_constant(sums, ONE)
        for label in sums.classes:
            if label == self.options["outside"] and sums.counts[0, sums.index(label)]:
                raise BadExample(f"the sums have positive examples of {label!r}, which is no class")
        return contribution

    # sums of shares

    @property
    def is_summing(self) -> bool:
        """Whether learning only adds to sums, so that others may sum: scales are fixed, and nothing expires or is compared."""
        fixed = self.inputs.warm is None and not self.windows.room and not self.expiry.max_age
        return fixed and self.adaptation.recent is None and self.adaptation.contest is None

    def sum_up(self, examples: Sequence[Example]) -> Tensors | None:
        """Return the sums of the examples, without learning them; None while the model does more than add."""
        if not self.is_summing or any(example.kind == "sums" for example in examples):
            return None
        self.check(examples)
        share = Classifier(self.options, self.device)
        share.inputs = self.inputs.create_reader()
        share.head = share._new_head(self.head.projection.octave)
        share._learn(examples, ())
        inside = self._split_outside(examples)[1]
        noted = self.inputs.summarise(share.inputs, inside)
        return None if noted is None else share._pack_sums(self.feature_epoch(), noted)

    def _pack_sums(self, reads: str, noted: Sequence[object]) -> Tensors:
        """Return what `merge` needs. reads: the epoch of the model that read the examples. noted: `Inputs.summarise` of them."""
        meta = {
            "noted": noted,
            "reads": reads,
            "octave": self.head.projection.octave,
            "labels": self.statistics.classes,
            "outside_digest": self.outside_digest,
            "recent": [features.hex() for features in self.inputs.recent],
            **self.inputs.mapping(),
        }
        samples = {"held_out": self.held_out.part(), "outside": self.outside.part()} | self.adaptation.rows.parts()
        sampled = join_parts({name: part.tensors for name, part in samples.items()})
        return {"meta": pack_json(meta), **self.statistics.tensors(), **sampled}

    def merge(self, sums: Tensors) -> bool:
        """Add sums that another process computed; return False if they do not fit this state."""
        meta = unpack_json(sums["meta"])
        if not self._can_merge(meta, int(sums["counts"][0].sum())) or not self.inputs.absorb(meta["noted"], meta):
            return False
        self._forget_solution()
        self.inputs.extend(meta, [bytes.fromhex(features) for features in meta["recent"]])
        self.head.name_columns(self._names())
        self.statistics.merge(ExactStatistics.from_tensors(meta["labels"], sums))
        self.head.forget_solutions()
        self.outside_digest = (self.outside_digest + meta["outside_digest"]) % 2**256
        samples = split_parts(sums)
        self.held_out.restore(StatePart(samples.pop("held_out"), serving=False))
        self.outside.restore(StatePart(samples.pop("outside"), serving=False))
        self.adaptation.rows.extend(samples.values())
        return True

    def _can_merge(self, meta: Mapping[str, Any], count: int) -> bool:
        """Return whether adding the sums of `count` positive examples leaves what learning them would have left."""
        labels = {*self.statistics.classes, *meta["labels"]}
        is_read_alike = meta["reads"] == self.feature_epoch() and meta["octave"] == self.head.projection.octave
        decides = self.head.count + count >= self.head.decides_at
        return self.is_summing and is_read_alike and not decides and len(labels) <= self.options["max_labels"]

    def _expire(self, gone: Sequence[Example]) -> None:
        """Forget expired examples everywhere but in the sums: the others fill the held-out sets again."""
        outside, inside = self._split_outside(gone)
        self._sum_digest(outside, -1)
        self.head.note_expired(sum(is_positive(example.reward) for example in inside))
        self.held_out, self.outside = Holdout(), Holdout(OUTSIDE_KEPT)
        outside, inside = self._split_outside(self.expiry.examples())
        self.outside.add(outside)
        self.held_out.add(example for example in inside if is_positive(example.reward))

    def _decide(self) -> None:
        """Let held-out examples decide the head's temperature, strength and confidence, if that is due."""
        due = self.head.count >= self.head.decides_at
        if not due and not self.adaptation.decides:
            return
        strange_NM = self._features([example.features for example in self.outside.examples()])
        self.adaptation.decide(self.head, strange_NM)
        if due:
            held_out = self.held_out.lowest(self.head.held_out_count)
            self.head.decide(
                self.head.features(self.inputs.features_as_counted(held_out)),
                np.array([self.statistics.add_class(example.label) for example in held_out]),
                strange_NM,
            )

    def unlearn(self, examples: Sequence[Example]) -> None:
        """Remove the examples from the state."""
        self._forget_solution()
        contributions = [example for example in examples if example.kind == "sums"]
        self._merge_contributions(contributions, times=-1)
        examples = [example for example in examples if example.kind != "sums"]
        outside, inside = self._split_outside(self.expiry.remove(examples))
        self.outside.remove(outside)
        self._sum_digest(outside, -1)
        self.held_out.remove(inside)
        self.inputs.drop(self._split_outside(examples)[1])
        if self.inputs.warm is None:
            self._count(inside, times=-1)
            self.adaptation.drop_unused_classes(self.head)

    def _split_outside(self, examples: Sequence[Example]) -> tuple[list[Example], list[Example]]:
        """Return the examples that belong to no class, and the others."""
        if not self.options["outside"]:
            return [], list(examples)
        outside = [example for example in examples if self._is_outside(example)]
        return outside, [example for example in examples if not self._is_outside(example)]

    def _is_outside(self, example: Example) -> bool:
        return (
            bool(self.options["outside"]) and example.label == self.options["outside"] and is_positive(example.reward)
        )

    def _sum_digest(self, outside: Sequence[Example], times: int) -> None:
        for example in outside:
            own = hashlib.sha256(example.offset.to_bytes(8, "little", signed=True) + example.features).digest()
            self.outside_digest = (self.outside_digest + times * int.from_bytes(own, "little")) % 2**256

    def _recount(self, examples: Sequence[Example]) -> None:
        self.head, self.windows = self._new_head(), self.windows.without_examples()
        self.adaptation = Adaptation(self.options["recent"])
        self._count(examples, times=1)
        self._count(self.expiry.select_expired(examples), times=-1)

    def _count(self, examples: Sequence[Example], times: int) -> None:
        if not examples:
            return
        self.head.name_columns(self._names())
        for example in examples:  # in this order, wherever a batch ends
            self.statistics.add_class(example.label)
        for negative in (False, True):
            chosen = [example for example in examples if is_positive(example.reward) != negative]
            if chosen:
                classes = [self.statistics.add_class(example.label) for example in chosen]
                labels, offsets = [e.label for e in chosen], [e.offset for e in chosen]
                x_BD = self.inputs.features_as_counted(chosen)
                features = self.head.features(x_BD)
                self.head.add(features, classes, negative, times)
                self.adaptation.add(x_BD, features, labels, offsets, self.head, negative, times)
                if not negative:
                    self.windows.add(features, labels, offsets, times)

    def check(self, examples: Sequence[Example]) -> None:
        """Raise BadExample for an example that this kind cannot learn."""
        contributions = [example for example in examples if example.kind == "sums"]
        labelled = [example for example in examples if example.kind != "sums"] if contributions else examples
        rows.check_all(labelled, "classifier", self.inputs.kind, self.inputs.size)
        labels = {example.label for example in labelled}
        for example in contributions:
            labels.update(self._read_contribution(example.features).statistics.classes)
        warm = self.inputs.warm
        if warm is None:
            count = len(self.statistics.classes) + sum(self.statistics.index(label) is None for label in labels)
        else:
            count = len(labels.union(example.label for example in warm))
        if count > self.options["max_labels"]:
            raise BadExample(f"more than {self.options['max_labels']} classes (option max_labels)")

    # state

    def fingerprint(self) -> str:
        """Return a hash of everything that was learned; equal states have equal hashes."""
        counted = self.inputs.fingerprint(self._digest)
        uncounted = [self.outside_digest, *self.expiry.counts()]
        if not any(uncounted):
            return counted
        return hashlib.sha256(" ".join(map(str, [counted, *uncounted])).encode()).hexdigest()

    def _digest(self, columns: Sequence[str] | None) -> bytes:
        before = [f"#{place}" for place in range(self.head.start)]  # the features before the inputs
        return self.statistics.digest(None if columns is None else [*before, *columns])

    def drifted(self, label: str | None, since: int) -> None:
        """Compare all sums with recent ones from now on (`adaptation`); let the means of slda use only later examples."""
        self._refit_warm_up()
        self.windows.cut(label, since, self.statistics)
        if self.inputs.warm is None:
            self.adaptation.begin(since, label is None, self.head, self._mean_sums())
        self.head.forget_solutions()
        self._forget_solution()

    def count_outside(self, inputs: Sequence[bytes]) -> int:
        """Return how many inputs have numbers outside the scales."""
        return self.inputs.count_outside(inputs)

    def facts(self) -> Mapping[str, float]:
        """Return the figures of the state that versions show."""
        decided = self.head.decided
        facts = {"temperature": decided.temperature, "held_out": len(self.held_out), "held_out_loss": decided.loss}
        if self.adaptation.since:
            facts["recent_since"] = self.adaptation.since
        return {**facts, "shortened_labels": self.windows.count_cuts()} if self.options["drift_window"] else facts

    def probes(self) -> list[tuple[bytes, str | None]]:
        """Return inputs that the gate predicts before a version goes live, each with the expected choice or None."""
        return [(features, None) for features in self.inputs.recent]

    def state(self, serving_only: bool = False) -> State:
        """Return the state in parts; with serving_only those that prediction needs."""
        solution = self._solved_from_sums()
        weights = solution.weights
        meta = {
            "labels": self.statistics.classes,
            "decided": asdict(solution.decided),
            "octave": self.head.projection.octave,
            **self.inputs.mapping(),
        }
        solved = {
            "matrix": np.ascontiguousarray(weights.matrix),
            "bias": weights.bias,
            "active": weights.active,
            "meta": pack_json(meta),
        }
        parts = {"weights": StatePart(solved, serving=True)}
        if not serving_only:
            extra = {"outside_digest": self.outside_digest, "forgot": self.expiry.forgot}
            if self.head.merged_count:
                extra["merged_count"] = self.head.merged_count
            memory = pack_json({**self.inputs.memory(), **extra})
            parts["statistics"] = StatePart({**self.statistics.tensors(), "memory": memory}, serving=False)
            if self.windows.room:
                parts["windows"] = StatePart(self.windows.tensors(self.statistics.width), serving=False)
            parts |= self.expiry.parts() | self.adaptation.parts(self.head)
            parts["held_out"], parts["outside"] = self.held_out.part(), self.outside.part()
        return parts

    def restore(self, state: State) -> None:
        """Adopt a state that `state` returned."""
        solved = state["weights"].tensors
        meta = unpack_json(solved["meta"])
        memory = unpack_json(state["statistics"].tensors["memory"]) if "statistics" in state else None
        self.inputs.restore(meta, memory)
        self.head = self._new_head(meta["octave"])
        self.head.decided = HeadDecision.from_json(meta["decided"])
        weights = LinearWeights(solved["matrix"], solved["bias"], solved["active"])
        self._solution = self._published = self.head.solved(weights)
        for label in meta["labels"]:
            self.statistics.add_class(label)
        if memory is not None:
            sums = {name: tensor for name, tensor in state["statistics"].tensors.items() if name != "memory"}
            self.head.statistics = ExactStatistics.from_tensors(meta["labels"], sums, self.device)
            self.outside_digest = memory["outside_digest"]
            self.head.merged_count = memory.get("merged_count", 0)
            self.expiry.restore(state, memory.get("forgot", False))
            self.held_out.restore(state["held_out"])
            self.outside.restore(state["outside"])
            self.adaptation.restore(state, self.head)
            if "windows" in state:
                self.windows.restore(state["windows"].tensors)

    @property
    def has_sums(self) -> bool:
        """Whether the sums are loaded. Without them, it predicts what they were solved to."""
        active = self._published is not None and self._published.weights.active.any()
        return bool(self.statistics.counts.any()) or not active

    def restore_sums(
        self, mapping: dict[str, Any], octave: float, decided: HeadDecision, statistics: ExactStatistics
    ) -> None:
        """Continue from sums alone: no example is held out, and none is kept as a row.

        mapping: from `Inputs.mapping`. Raises ValueError if the sums have another width than its features.
        """
        self.inputs.restore(mapping, None)
        self.head = self._new_head(octave)
        if statistics.width != self.statistics.width:
            raise ValueError(f"the sums have {statistics.width} features, and the inputs {self.statistics.width}")
        self.head.restore_sums(statistics, decided)
        self._forget_solution()


def check_windows(options: Options) -> None:
    """Raise ValueError for a window with a head that has no means, and for too few recent examples."""
    if options["head"] != "slda" and (options["window"] or options["drift_window"]):
        raise ValueError(f"options 'window' and 'drift_window' need head 'slda', not {options['head']!r}")
    if 0 < options["recent"] < LEAST_ROOM:
        raise ValueError(f"option 'recent' must be 0 or at least {LEAST_ROOM}, not {options['recent']}")

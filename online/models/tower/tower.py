"""A network trained by SGD on the stream, for inputs whose fixed features are poor.

    bytes -> Standard (rows) -> Stack (copies of a network, one per learning rate) -> logits
    fresh rows + rows of the Buffer -> Strategy (gradient) -> Stack.descend -> the average is published

Copies at three learning rates learn from the same micro-batches; the copy with the best recent
prequential loss is served. A micro-batch is the examples with the same `offset // batch`, so the
state is a function of the log, wherever calls to `learn` end. With batch 1 each example takes effect
at once; with more, examples wait, as part of the state, until their micro-batch ends.

Shapes: B rows, F fresh rows, R replayed rows, D columns, C classes, L copies, K = 2 L served choices.
"""

import hashlib
import logging
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from online.models import example_checks as rows
from online.models.contract import (
    Answer,
    BadExample,
    Example,
    Options,
    Part,
    State,
    Tensors,
    pack_json,
    unpack_json,
)
from online.models.devices.fallback import note_fallback
from online.models.encoders.text import TextEncoder
from online.models.options import require_size, resolve
from online.models.tower.buffer import Buffer
from online.models.tower.closed_form import LOWEST, log_probabilities, loss_gradient, select_labels
from online.models.tower.layout import Layout
from online.models.tower.networks import Network, create_network
from online.models.tower.options import OPTIONS, check_hidden
from online.models.tower.parallel.pair_sums import fits
from online.models.tower.parallel.peers import PeerLost, Peers
from online.models.tower.parallel.together import Together
from online.models.tower.parts import Alone, Engine, PartResult, PartSum
from online.models.tower.published import FlatCopy, PublishedCopy, make_answer
from online.models.tower.stack import Stack, to_array
from online.models.tower.standard import Standard
from online.models.tower.step_rows import FreshRows, StepRows
from online.models.tower.strategies import Step, compute_losses, create_strategy
from online.schemas.events import is_positive

log = logging.getLogger("online.models")

PROBES = 8
SPREAD = (1 / 3, 1.0, 3.0)  # multiples of the option `rate`
LATELY = 32  # examples within which a class counts as recent
FIRST_ROOM, FIRST_COLUMNS = 4, 16  # initial capacity for classes, and for a table's columns
LARGEST_LOSS = 5.0  # of one example in the choice of the copy
PRECISIONS = {"float32": None, "bfloat16": torch.bfloat16, "float16": torch.float16}  # option gradients
FADING = 0.99  # of the loss that decides which copy is served


def check_untrusted(options: Options) -> None:
    """Raise ValueError for a network that would be imported."""
    if options.get("network", "mlp") not in ("mlp", "cnn"):
        raise ValueError("option 'network' of an uploaded tower must be mlp or cnn")


class Tower:
    """A network that learns online. Implements `contract.Model`."""

    subtracts = False

    def __init__(self, options: Options, device: str = "cpu") -> None:
        self.options = resolve(options, OPTIONS)
        require_size(self.options)
        check_hidden(self.options)
        self.device = torch.device(device)
        self.standard = Standard(self.options["input"], self.options["size"], self.options["max_features"])
        self.strategy = create_strategy(self.options["strategy"], self.options["strength"])
        self.buffer = Buffer(self.options["buffer"], self.options["seed"], self.standard.width, self.standard.dtype)
        self.labels: list[str] = []
        self.known_C = np.zeros(FIRST_ROOM, np.bool_)  # right at least once; over the labels there is room for
        self.met_C = np.full(FIRST_ROOM, -LATELY, np.int64)  # the count of examples when a label was met last
        self.count = 0
        self.loss_K = np.zeros(2 * len(SPREAD))  # fading, of the averages and then of the copies themselves
        self.pending: list[Example] = []
        self.recent: list[bytes] = []
        self.layout = Layout(self._network(), FIRST_ROOM)
        self.stack: Stack | None = None  # None until the first lesson
        self.parts = self.options["accumulate"]  # into which a step is cut
        self.summing: PartSum = Alone(PRECISIONS[self.options["gradients"]])
        self._served: PublishedCopy | None = None

    def _network(self) -> Network:
        width = self.standard.width
        if self.options["input"] == "table":
            own = self.options["network"] == "mlp"  # an mlp grows; other networks start with full capacity
            width = power_of_two(width, FIRST_COLUMNS) if own else self.options["max_features"]
        return create_network(self.options["network"], width, self.options["hidden"], self.options["image"])

    def feature_epoch(self) -> str:
        return TextEncoder.epoch if self.options["input"] == "text" else f"{self.options['input']}-as-it-came"

    # predict

    def predict(self, inputs: Sequence[bytes], keys: Sequence[int | None] = ()) -> list[Answer]:
        served = self._published()
        if served is None or not inputs:
            return [Answer(None, ()) for _ in inputs]
        x_BD = self.standard.scaled(self.standard.raw(inputs), self.layout.network.inputs)
        names = [label for label, known in zip(self.labels, served.known_C.tolist(), strict=False) if known]
        chances_BK = served.chances(x_BD)
        order_BK = np.argsort(-chances_BK, axis=1, kind="stable")
        ranked_BK = chances_BK[np.arange(len(order_BK))[:, None], order_BK]
        return [make_answer(names, *each) for each in zip(order_BK.tolist(), ranked_BK.tolist(), strict=True)]

    def _published(self) -> PublishedCopy | None:
        if self._served is None and self.stack is not None and self.known_C.any():
            self._served = PublishedCopy(self.stack.rows[self._best()], self.known_C)  # until the next step
        return self._served

    def _best(self) -> int:
        return int(self.loss_K.argmin())

    # learn

    def learn(self, examples: Sequence[Example]) -> None:
        self.check(examples)
        for example in examples:
            group = example.offset // self.options["batch"]
            if self.pending and self.pending[-1].offset // self.options["batch"] != group:
                self._step()
            self.pending.append(example)
            if (example.offset + 1) % self.options["batch"] == 0 or len(self.pending) == self.options["batch"]:
                self._step()

    def unlearn(self, examples: Sequence[Example]) -> None:
        raise NotImplementedError("a tower cannot subtract; replay the log instead (subtracts is False)")

    def _step(self) -> None:
        """Learn the waiting micro-batch."""
        examples, self.pending, self._served = self.pending, [], None
        values = [self.standard.observe(example.features) for example in examples]
        fresh = FreshRows(
            examples[-1].offset,
            np.stack([pad_columns(values_D, self.standard.width) for values_D in values]),
            np.array([self._class(example) for example in examples], np.int64),
            np.array([is_positive(example.reward) for example in examples], np.bool_),
        )
        self.stack = self._grow_stack()
        step = self._take_step(fresh, 0)
        for round in range(1, self.options["steps"]):
            self._take_step(fresh, round)
        self.strategy.learned(self.stack, len(examples))
        for place, example in enumerate(examples):
            row = fresh.values_FD[place], int(fresh.label_F[place]), bool(fresh.liked_F[place])
            slot = self.buffer.put(example.offset, *row)
            if slot is not None and step.logits_LFC is not None:
                self.buffer.extra_N[slot] = to_array(step.logits_LFC[:, place])
        self.recent = [*self.recent, *(example.features for example in examples)][-PROBES:]

    def _take_step(self, fresh: FreshRows, round: int) -> PartResult:
        """Take the round-th step on a micro-batch; without enough memory, in smaller parts, then on the CPU."""
        assert self.stack is not None
        rows = self._draw_rows(fresh, round)
        try:
            step = self._sum_parts(self.stack, rows)
        except torch.OutOfMemoryError as error:
            if not self._save_memory(len(rows.label_B), error):
                raise
            return self._take_step(fresh, round)
        if round == 0:
            self._fade_losses(step.loss_K)
        self.stack.descend(self.strategy.join_gradients(step.gradients, self.stack))
        return step

    def _sum_parts(self, stack: Stack, rows: StepRows) -> PartResult:
        """Differentiate the parts of a step. Nothing has changed when a peer is lost: the tower then learns alone."""
        is_simple = self.strategy.is_plain and stack.has_closed_form and bool(rows.liked_B.all())

        def learn(part: int, engine: Engine) -> PartResult:
            own = rows.cut(part, self.parts)
            return self._learn_simple(stack, own) if is_simple else self._learn_part(stack, engine, own)

        can_overlap = self.strategy.loss_count == 1 and not is_simple
        try:
            return self.summing.sum_parts(stack, self.parts, learn, can_overlap)
        except PeerLost as error:
            log.warning("a process that learns a tower with this one is lost (%s): it continues alone", error)
        self.learn_alone()  # not above: the error keeps the connections of the group open
        return self.summing.sum_parts(stack, self.parts, learn, can_overlap)

    def learn_with(self, peers: Peers) -> None:
        """Share the parts of each step with other processes, which hold the same tower and learn the same examples.

        The bits of what is learned stay the same. Raises ValueError for a number of processes with which they would not.
        """
        if not fits(self.parts, peers.size):
            raise ValueError(f"{peers.size} processes cannot share {self.parts} parts (option accumulate)")
        self.summing = Together(peers, PRECISIONS[self.options["gradients"]])

    @property
    def is_alone(self) -> bool:
        return not isinstance(self.summing, Together)

    def learn_alone(self) -> None:
        if isinstance(self.summing, Together):
            self.summing.leave()
        self.summing = Alone(PRECISIONS[self.options["gradients"]])

    def _learn_simple(self, stack: Stack, rows: StepRows) -> PartResult:
        """A part of a plain step on right classes, in closed form: the same bits as autograd's."""
        x, fresh, unknown = torch.from_numpy(rows.x_BD), rows.fresh, torch.from_numpy(~self.known_C)
        logp_LBC = log_probabilities(stack.copies.logits(x), unknown)
        loss_K = torch.zeros(2 * len(SPREAD))
        if rows.is_first:
            averages = log_probabilities(stack.averages.logits(x[:fresh]), unknown)
            logp_KB = np.concatenate([select_labels(each, rows.label_B[:fresh]) for each in (averages, logp_LBC)])
            losses_KB = np.minimum(-np.maximum(logp_KB, np.float32(LOWEST)), np.float32(LARGEST_LOSS))
            loss_K = torch.from_numpy(losses_KB * rows.share_B[:fresh]).sum(1)
        slope_LBC = loss_gradient(logp_LBC, unknown, rows.label_B, rows.share_B)
        gradient_LP = stack.copies.differentiate(slope_LBC)  # overwritten by the next part
        return PartResult([gradient_LP if self.parts == 1 else gradient_LP.clone()], loss_K)

    def _learn_part(self, stack: Stack, engine: Engine, rows: StepRows) -> PartResult:
        step = self._prepare_step(stack, engine, rows)
        gradients = engine.differentiate(self.strategy.loss_terms(step))
        if not rows.is_first:
            return PartResult(gradients, torch.zeros(2 * len(SPREAD), device=self.device))
        kept = None
        if self.strategy.keeps_logits:
            kept = step.logits_LBC[:, : step.fresh].detach().masked_fill(~step.known_C, torch.nan)
        return PartResult(gradients, self._find_losses(step), kept)

    def _save_memory(self, rows: int, error: torch.OutOfMemoryError) -> bool:
        """Cut steps into twice as many parts or, once a part is a row, move to the CPU. Whether that was possible."""
        self.learn_alone()
        if self.parts < rows:
            self.parts *= 2
            note_fallback("a tower", str(self.device), f"with steps in {self.parts} parts", error)
            return True
        self.parts = self.options["accumulate"]
        if self.device.type == "cpu":
            return False
        note_fallback("a tower", str(self.device), "on the CPU", error)
        self._move(torch.device("cpu"))
        return True

    def _move(self, device: torch.device) -> None:
        assert self.stack is not None
        tensors, self.device = self.stack.tensors(), device
        self.stack = self._new_stack()
        self.stack.restore(tensors)
        self.strategy.restore(self.strategy.tensors(), device)

    def _class(self, example: Example) -> int:
        """The index of an example's class, which now counts as recent."""
        if example.label not in self.labels:
            self.labels.append(example.label)
            missing = power_of_two(len(self.labels), FIRST_ROOM) - len(self.known_C)
            self.known_C = np.pad(self.known_C, (0, missing))
            self.met_C = np.pad(self.met_C, (0, missing), constant_values=-LATELY)
        label = self.labels.index(example.label)
        self.count += 1
        self.met_C[label] = self.count
        self.known_C[label] |= is_positive(example.reward)
        return label

    def _grow_stack(self) -> Stack:
        """The stack, grown if needed to an input per column and an output per class, in powers of two."""
        if self.layout.labels < len(self.known_C) or self.layout.network.inputs < self.standard.width:
            self.layout = Layout(self._network(), len(self.known_C))
        if self.stack is None:
            self.stack = self._new_stack()
        elif self.stack.layout is not self.layout:
            before, self.stack = self.stack, self.stack.grown(self.layout)
            self.strategy.grown(before, self.stack)
        if self.strategy.keeps_logits and self.buffer.extra_N.shape[2:] != self.known_C.shape:
            self.buffer.extra_N = self._grow_logits(self.buffer.extra_N)
        return self.stack

    def _new_stack(self) -> Stack:
        rates = [self.options["rate"] * factor for factor in SPREAD]
        how = self.options["decay"], self.options["average"], self.options["seed"]
        return Stack(self.layout, rates, *how, self.device)

    def _grow_logits(self, kept: NDArray[Any]) -> NDArray[Any]:
        """Stored logits [N, L, C] with capacity for the present classes; NaN for those unknown then."""
        more = np.full((self.buffer.size, len(SPREAD), len(self.known_C)), np.nan, np.float32)
        if kept.ndim == 3:
            more[:, :, : kept.shape[2]] = kept
        return more

    def _draw_rows(self, fresh: FreshRows, round: int) -> StepRows:
        """The rows of the next step, in a fixed shape: fresh rows up to a batch, then `draws` sets to replay."""
        batch, replay = self.options["batch"], self.options["replay"] * self.strategy.draws
        fill = np.arange(batch) % len(fresh.label_F)
        slots = self.buffer.draw(fresh.offset, round, replay)
        old_RD = pad_columns(self.buffer.values_ND[slots], self.standard.width)
        share_B = np.zeros(batch + replay, np.float32)
        share_B[: len(fresh.label_F)] = 1 / len(fresh.label_F)
        share_B[batch:] = bool(self.buffer.filled) / self.options["replay"]
        return StepRows(
            self.standard.scaled(np.concatenate([fresh.values_FD[fill], old_RD]), self.layout.network.inputs),
            np.concatenate([fresh.label_F[fill], self.buffer.label_N[slots]]),
            np.concatenate([fresh.liked_F[fill], self.buffer.liked_N[slots]]),
            share_B,
            slots,
            [batch, *[self.options["replay"]] * self.strategy.draws],
            is_first=round == 0,
        )

    def _prepare_step(self, stack: Stack, engine: Engine, rows: StepRows) -> Step:
        x = self._tensor(rows.x_BD)
        return Step(
            stack,
            engine.logits(x),
            rows.fresh,
            self._tensor(rows.label_B),
            self._tensor(rows.liked_B),
            self._tensor(rows.share_B),
            self._tensor(self.known_C),
            self._tensor(self.met_C > self.count - LATELY),
            x,
            self._tensor(self.buffer.extra_N[rows.slots]) if self.strategy.keeps_logits else None,
        )

    def _tensor(self, array: NDArray[Any]) -> Tensor:
        return torch.from_numpy(array).to(self.device)

    @torch.no_grad()
    def _find_losses(self, step: Step) -> Tensor:
        """The losses [K] of all averages and copies for the fresh rows, before they are learned."""
        fresh = slice(step.fresh)
        layout, average_LP = step.stack.layout, step.stack.average_LP
        averages_LBC = layout.logits(layout.views(average_LP), step.x_BD[fresh])
        logits = torch.cat([averages_LBC, step.logits_LBC[:, fresh]])
        losses_KB = compute_losses(logits, step.label_B[fresh], step.liked_B[fresh], step.known_C).clamp_max(
            LARGEST_LOSS
        )
        return (losses_KB * step.share_B[fresh]).sum(1)

    def _fade_losses(self, loss_K: Tensor) -> None:
        self.loss_K = FADING * self.loss_K + (1 - FADING) * loss_K.cpu().numpy().astype(np.float64)

    def check(self, examples: Sequence[Example]) -> None:
        for example in examples:
            rows.check(example, "tower", self.standard.input, self.standard.size)
        labels = {*self.labels, *(example.label for example in (*self.pending, *examples))}
        if len(labels) > self.options["max_labels"]:
            raise BadExample(f"more than {self.options['max_labels']} classes (option max_labels)")

    # state

    def drifted(self, label: str | None, since: int) -> None:
        """Stop replaying what precedes the drift."""
        if label is None or label in self.labels:
            self.buffer.forget(None if label is None else self.labels.index(label), since)

    def facts(self) -> Mapping[str, float]:
        best = self._best()
        facts = {"learning_rate": self.options["rate"] * SPREAD[best % len(SPREAD)]}
        names = [f"loss_{what}{place}" for what in ("average", "copy") for place in range(len(SPREAD))]
        return facts | dict(zip(names, self.loss_K.tolist(), strict=True))

    def fingerprint(self) -> str:
        """Covers every number but the buffer's rows, which their offsets identify."""
        seen = hashlib.sha256(pack_json([self.labels, self._memory()]).tobytes())
        learned = {} if self.stack is None else self.stack.tensors()
        kept = self.buffer.offset_N[: self.buffer.filled]
        counted = {"known": self.known_C, "met": self.met_C, "loss": self.loss_K, "kept": kept}
        for tensors in (counted, self.standard.tensors(), self.strategy.tensors(), learned):
            for name in sorted(tensors):
                seen.update(name.encode() + np.ascontiguousarray(tensors[name]).tobytes())
        return seen.hexdigest()

    def probes(self) -> list[tuple[bytes, str | None]]:
        return [(features, None) for features in self.recent]

    def state(self, serving_only: bool = False) -> State:
        served = self._published()
        meta = {"labels": self.labels, "inputs": self.layout.network.inputs, "room": len(self.known_C)}
        row_P = to_array(served.copy.row_1P[0]) if served else np.zeros(0, np.float32)
        solved = {"row": row_P, "known": self.known_C.copy(), "meta": pack_json(meta), **self.standard.tensors()}
        parts = {"weights": Part(solved, serving=True)}
        if not serving_only:
            memory: Tensors = {"memory": pack_json(self._memory()), "met": self.met_C.copy(), "loss": self.loss_K}
            parts["memory"] = Part(memory, serving=False)
            parts["strategy"] = Part(self.strategy.tensors(), serving=False)
            parts["buffer"] = Part(self.buffer.tensors(), serving=False)
            parts |= {} if self.stack is None else {"stack": Part(self.stack.tensors(), serving=False)}
        return parts

    def _memory(self) -> dict[str, Any]:
        pending = [[e.offset, e.kind, e.features.hex(), e.label, e.reward] for e in self.pending]
        return {"pending": pending, "recent": [features.hex() for features in self.recent], "count": self.count}

    def restore(self, state: State) -> None:
        solved = state["weights"].tensors
        meta = unpack_json(solved["meta"])
        self.standard.restore(solved)
        self.labels, self.known_C = meta["labels"], solved["known"].copy()
        self.layout = Layout(self._network(), meta["room"])
        row_1P = torch.tensor(solved["row"], device=self.device).unsqueeze(0)
        self.stack = None
        self._served = PublishedCopy(FlatCopy(self.layout, row_1P), self.known_C) if self.known_C.any() else None
        if "memory" in state:
            self._recall(state)

    def _recall(self, state: State) -> None:
        own = state["memory"].tensors
        memory = unpack_json(own["memory"])
        self.met_C, self.loss_K, self.count = own["met"].copy(), own["loss"], memory["count"]
        self.recent = [bytes.fromhex(features) for features in memory["recent"]]
        self.pending = [Example(o, k, bytes.fromhex(f), label, reward=r) for o, k, f, label, r in memory["pending"]]
        self.buffer.restore(state["buffer"].tensors)
        self.strategy.restore(state["strategy"].tensors, self.device)
        if "stack" in state:
            self.stack = self._new_stack()
            self.stack.restore(state["stack"].tensors)


def power_of_two(needed: int, least: int) -> int:
    """The smallest power of two that is at least both numbers."""
    return max(least, 1 << (needed - 1).bit_length() if needed else 0)


def pad_columns(values: NDArray[Any], width: int) -> NDArray[Any]:
    """Rows [..., D] extended by later columns, which are missing (NaN) in them."""
    missing = width - values.shape[-1]
    if not missing:
        return values
    return np.pad(values, [(0, 0)] * (values.ndim - 1) + [(0, missing)], constant_values=np.nan)

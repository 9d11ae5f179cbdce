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
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from online.models import example_checks as rows
from online.models.contract import (
    Answer,
    AnyArray,
    BadExample,
    Example,
    Options,
    State,
    StatePart,
    Tensors,
    pack_json,
    unpack_json,
)
from online.models.devices.placement import split_devices
from online.models.encoders.text import TextEncoder
from online.models.options import require_size, resolve
from online.plugins.towers.buffer import Buffer
from online.plugins.towers.fake_quantisation import FakeQuantiser
from online.plugins.towers.layout import ParameterLayout
from online.plugins.towers.networks import Network, create_network
from online.plugins.towers.options import BUILT_IN, OPTIONS, check_hidden, check_parallel, check_quantisation
from online.plugins.towers.parallel.split_copy import SplitCopy
from online.plugins.towers.published import FlatCopy, PublishedCopy, make_answer
from online.plugins.towers.stack import to_array
from online.plugins.towers.standard import InputScales
from online.plugins.towers.step_rows import FreshRows, StepRows
from online.plugins.towers.trainer import CHOICES, SPREAD, ClassMasks, Trainer
from online.schemas.events import is_positive

PROBES = 8
LATELY = 32  # examples within which a class counts as recent
FIRST_ROOM, FIRST_COLUMNS = 4, 16  # initial capacity for classes, and for a table's columns
FADING = 0.99  # of the loss that decides which copy is served


def check_untrusted(options: Options) -> None:
    """Raise ValueError for a network that would be imported."""
    if options.get("network", "mlp") not in BUILT_IN:
        raise ValueError("option 'network' of an uploaded tower must be mlp or cnn")


class Tower:
    """A network that learns online. Implements `contract.Model`."""

    subtracts = False

    def __init__(self, options: Options, device: str = "cpu") -> None:
        """device: that it learns and answers on; several, joined by commas, answer with some of its layers each."""
        self.options = resolve(options, OPTIONS)
        require_size(self.options)
        check_hidden(self.options)
        check_parallel(self.options)
        check_quantisation(self.options)
        self._quantiser = FakeQuantiser() if self.options["quantisation_aware"] == "int8" else None
        self.devices = [torch.device(name) for name in split_devices(device)]
        self.standard = InputScales(self.options["input"], self.options["size"], self.options["max_features"])
        self.buffer = Buffer(self.options["buffer"], self.options["seed"], self.standard.width, self.standard.dtype)
        self.trainer = Trainer(self.options, self.buffer, self.devices[0])
        self.labels: list[str] = []
        self.known_C = np.zeros(FIRST_ROOM, np.bool_)  # right at least once; over the labels there is room for
        self.met_C = np.full(FIRST_ROOM, -LATELY, np.int64)  # the count of examples when a label was met last
        self.count = 0
        self.loss_K = np.zeros(CHOICES)  # fading, of the averages and then of the copies themselves
        self.pending: list[Example] = []
        self.recent: list[bytes] = []
        self.layout = self._layout_for(FIRST_ROOM)
        self._served: PublishedCopy | None = None

    def _layout_for(self, room: int) -> ParameterLayout:
        """Return the layout with capacity for `room` classes."""
        return ParameterLayout(self._network(), room, self._quantiser)

    def _network(self) -> Network:
        width = self.standard.width
        if self.options["input"] == "table":
            own = self.options["network"] == "mlp"  # an mlp grows; other networks start with full capacity
            width = power_of_two(width, FIRST_COLUMNS) if own else self.options["max_features"]
        return create_network(self.options["network"], width, self.options["hidden"], self.options["image"])

    def feature_epoch(self) -> str:
        """Return the name of the features that the model reads."""
        return TextEncoder.epoch if self.options["input"] == "text" else f"{self.options['input']}-as-it-came"

    # predict

    def predict(self, inputs: Sequence[bytes], keys: Sequence[int | None] = ()) -> list[Answer]:
        """Answer by the best copy's average."""
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
        if self._served is None and (self.trainer.stack is not None or self.trainer.is_lost) and self.known_C.any():
            self._served = PublishedCopy(self.trainer.pick_copy(self._best()), self.known_C)  # until the next step
        return self._served

    def _best(self) -> int:
        return int(self.loss_K.argmin())

    # learn

    def learn(self, examples: Sequence[Example]) -> None:
        """Learn in micro-batches whose bounds follow from offsets; the rest waits."""
        self.check(examples)
        for example in examples:
            group = example.offset // self.options["batch"]
            if self.pending and self.pending[-1].offset // self.options["batch"] != group:
                self._step()
            self.pending.append(example)
            if (example.offset + 1) % self.options["batch"] == 0 or len(self.pending) == self.options["batch"]:
                self._step()

    def unlearn(self, examples: Sequence[Example]) -> None:
        """Raise NotImplementedError: a network cannot subtract."""
        raise NotImplementedError("a tower cannot subtract; replay the log instead (subtracts is False)")

    def _step(self) -> None:
        """Learn the waiting micro-batch."""
        examples, self.pending, self._served = self.pending, [], None
        values = [self.standard.observe(example.features, example.offset) for example in examples]
        fresh = FreshRows(
            examples[-1].offset,
            np.stack([pad_columns(values_D, self.standard.width) for values_D in values]),
            np.array([self._class(example) for example in examples], np.int64),
            np.array([is_positive(example.reward) for example in examples], np.bool_),
        )
        self._grow()
        classes = self._classes()
        step = self.trainer.take_step(self._draw_rows(fresh, 0), classes)
        self._fade_losses(step.loss_K)
        for round in range(1, self.options["steps"]):
            self.trainer.take_step(self._draw_rows(fresh, round), classes)
        self.trainer.learned(len(examples))
        for place, example in enumerate(examples):
            row = fresh.values_FD[place], int(fresh.label_F[place]), bool(fresh.liked_F[place])
            slot = self.buffer.put(example.offset, *row)
            if slot is not None and step.logits_LFC is not None:
                self.buffer.extra_N[slot] = to_array(step.logits_LFC[:, place])
        self.recent = [*self.recent, *(example.features for example in examples)][-PROBES:]

    def _class(self, example: Example) -> int:
        """Return the index of an example's class, which now counts as recent."""
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

    def _classes(self) -> ClassMasks:
        return ClassMasks(self.known_C, self.met_C > self.count - LATELY)

    def _grow(self) -> None:
        """Have an input for each column and an output for each class, in powers of two."""
        if self.layout.labels < len(self.known_C) or self.layout.network.inputs < self.standard.width:
            self.layout = self._layout_for(len(self.known_C))
        self.trainer.grow(self.layout)
        if self.trainer.strategy.keeps_logits and self.buffer.extra_N.shape[2:] != self.known_C.shape:
            self.buffer.extra_N = self._grow_logits(self.buffer.extra_N)

    def _grow_logits(self, kept: AnyArray) -> AnyArray:
        """Return stored logits [N, L, C] with capacity for the present classes; NaN for those unknown then."""
        more = np.full((self.buffer.size, len(SPREAD), len(self.known_C)), np.nan, np.float32)
        if kept.ndim == 3:
            more[:, :, : kept.shape[2]] = kept
        return more

    def _draw_rows(self, fresh: FreshRows, round: int) -> StepRows:
        """Return the rows of the next step, in a fixed shape: fresh rows up to a batch, then `draws` sets to replay."""
        batch, replay = self.options["batch"], self.options["replay"] * self.trainer.strategy.draws
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
            [batch, *[self.options["replay"]] * self.trainer.strategy.draws],
            is_first=round == 0,
        )

    def _fade_losses(self, loss_K: Tensor) -> None:
        self.loss_K = FADING * self.loss_K + (1 - FADING) * loss_K.cpu().numpy().astype(np.float64)

    def check(self, examples: Sequence[Example]) -> None:
        """Raise BadExample for an example that this kind cannot learn."""
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
        """Return the learning rate that is best now, and the losses of all."""
        best = self._best()
        facts = {"learning_rate": self.options["rate"] * SPREAD[best % len(SPREAD)]}
        names = [f"loss_{what}{place}" for what in ("average", "copy") for place in range(len(SPREAD))]
        return facts | dict(zip(names, self.loss_K.tolist(), strict=True))

    def fingerprint(self) -> str:
        """Covers every number but the buffer's rows, which their offsets identify."""
        seen = hashlib.sha256(pack_json([self.labels, self._memory()]).tobytes())
        kept = self.buffer.offset_N[: self.buffer.filled]
        counted = {"known": self.known_C, "met": self.met_C, "loss": self.loss_K, "kept": kept}
        for tensors in (counted, self.standard.tensors(), self.trainer.strategy.tensors(), self.trainer.tensors()):
            for name in sorted(tensors):
                seen.update(name.encode() + np.ascontiguousarray(tensors[name]).tobytes())
        return seen.hexdigest()

    def probes(self) -> list[tuple[bytes, str | None]]:
        """Return inputs that the gate predicts before a version goes live, each with the expected choice or None."""
        return [(features, None) for features in self.recent]

    def state(self, serving_only: bool = False) -> State:
        """Return the state in parts; with serving_only those that prediction needs."""
        served = self._published()
        meta = {"labels": self.labels, "inputs": self.layout.network.inputs, "room": len(self.known_C)}
        row_P = to_array(served.copy.row_1P[0]) if served else np.zeros(0, np.float32)
        solved = {"row": row_P, "known": self.known_C.copy(), "meta": pack_json(meta), **self.standard.tensors()}
        parts = {"weights": StatePart(solved, serving=True)}
        if not serving_only:
            ranges = self.standard.memory()
            own = {**self._memory(), **({"ranges": ranges} if ranges else {})}
            memory: Tensors = {"memory": pack_json(own), "met": self.met_C.copy(), "loss": self.loss_K}
            parts["memory"] = StatePart(memory, serving=False)
            parts["strategy"] = StatePart(self.trainer.strategy.tensors(), serving=False)
            parts["buffer"] = StatePart(self.buffer.tensors(), serving=False)
            learned = self.trainer.tensors()
            parts |= {"stack": StatePart(learned, serving=False)} if learned else {}
        return parts

    def _memory(self) -> dict[str, object]:
        pending = [[e.offset, e.kind, e.features.hex(), e.label, e.reward] for e in self.pending]
        return {"pending": pending, "recent": [features.hex() for features in self.recent], "count": self.count}

    def restore(self, state: State) -> None:
        """Adopt a state that `state` returned."""
        solved = state["weights"].tensors
        meta = unpack_json(solved["meta"])
        self.standard.restore(solved)
        self.labels, self.known_C = meta["labels"], solved["known"].copy()
        self.layout = self._layout_for(meta["room"])
        self.trainer.forget()
        self._served = (
            PublishedCopy(self._place(torch.tensor(solved["row"])[None]), self.known_C) if self.known_C.any() else None
        )
        if "memory" in state:
            self._recall(state)

    def _place(self, row_1P: Tensor) -> FlatCopy | SplitCopy:
        """Return a copy of the network that answers, on the devices of this tower."""
        if len(self.devices) > 1:
            return SplitCopy(self.layout, row_1P, self.devices)
        return FlatCopy(self.layout, row_1P.to(self.trainer.device) if self.trainer.ranks.holds_all else row_1P)

    def _recall(self, state: State) -> None:
        own = state["memory"].tensors
        memory = unpack_json(own["memory"])
        self.met_C, self.loss_K, self.count = own["met"].copy(), own["loss"], memory["count"]
        self.standard.recall(memory.get("ranges", {}))
        self.recent = [bytes.fromhex(features) for features in memory["recent"]]
        self.pending = [Example(o, k, bytes.fromhex(f), label, reward=r) for o, k, f, label, r in memory["pending"]]
        self.buffer.restore(state["buffer"].tensors)
        if "stack" in state:
            self.trainer.restore(self.layout, state["stack"].tensors)
        self.trainer.strategy.restore(state["strategy"].tensors, self.trainer.device)


def power_of_two(needed: int, least: int) -> int:
    """Return the smallest power of two that is at least both numbers."""
    return max(least, 1 << (needed - 1).bit_length() if needed else 0)


def pad_columns(values: AnyArray, width: int) -> AnyArray:
    """Return rows [..., D] extended by later columns, which are missing (NaN) in them."""
    missing = width - values.shape[-1]
    if not missing:
        return values
    return np.pad(values, [(0, 0)] * (values.ndim - 1) + [(0, missing)], constant_values=np.nan)

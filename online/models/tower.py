"""A network trained by SGD on the stream: for inputs whose frozen features are poor.

    bytes -> Standard (rows) -> Stack (copies of a network, one per learning rate) -> logits
    fresh rows + rows of the Buffer -> Strategy (gradient) -> Stack.descend -> the average is published

Three learning rates learn from the same micro-batches; the one whose published answers were best lately, each asked
before its lesson, is served. A micro-batch is the examples of `offset // batch`: the state is a function of the log,
wherever the calls to `learn` were cut. With batch 1 each example has its effect at once; with more, examples wait,
as part of the state, until their micro-batch ends.
"""

import hashlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from online.models import (
    Answer,
    BadExample,
    Example,
    Options,
    Part,
    State,
    Tensors,
    candidates_of,
    check_limits,
    packed,
    rows,
    take,
    unpacked,
)
from online.models.buffer import Buffer
from online.models.encoder import TextEncoder
from online.models.networks import Network, network
from online.models.stack import Layout, Stack, as_array
from online.models.standard import Standard
from online.models.strategies import Step, strategy, surprise

log = logging.getLogger("online.models.tower")

PROBES = 8
SPREAD = (1 / 3, 1.0, 3.0)  # learning rates around the one that was asked for
LATELY = 32  # examples in which a label counts as met lately
FIRST_ROOM, FIRST_COLUMNS = 4, 16  # for labels, and for a table's columns
LARGEST_LOSS = 5.0  # that one example adds to what decides
FADING = 0.99  # of the loss that decides what is served

OPTIONS: dict[str, Any] = {
    "input": "text",  # text, vector or table
    "size": 0,  # numbers in a vector
    "network": "mlp",  # mlp, cnn, or package.module:attribute of your own: how many numbers it reads -> a torch module
    "hidden": [128, 128],  # widths of the mlp's layers; the last one is the cnn's representation
    "image": [],  # of a cnn: channels, height, width
    "strategy": "er",  # how it does not forget: naive, er, er_ace, derpp, ewc, lwf, agem
    "strength": 0.0,  # of what the strategy punishes; 0: its own
    "rate": 0.003,  # learning rate; a third and three times of it are tried beside it
    "decay": 0.01,  # of weights, AdamW's
    "average": 0.95,  # how much of the published average a step leaves
    "batch": 1,  # examples in a micro-batch
    "steps": 1,  # that a micro-batch gets, each with other rows replayed
    "replay": 15,  # rows replayed in a step
    "buffer": 1_000,  # examples kept to be replayed
    "seed": 0,
    "max_labels": 1_000,
    "max_features": 1_024,  # columns of a table; names past it share a few
}
LIMITS = {
    "strength": (0.0, 1e6),
    "rate": (1e-9, 1.0),
    "decay": (0.0, 100.0),
    "average": (0.0, 1 - 1e-9),
    "seed": (0, 2**63 - 1),
    "max_labels": (1, 1e6),
    "max_features": (1, 1e6),
}


@dataclass(frozen=True, slots=True)
class Served:
    """What predicting needs. row_1P: of the published copy; known_C: labels that may be answered."""

    layout: Layout
    row_1P: Tensor
    known_C: NDArray[np.bool_]
    parameters: dict[str, Tensor] = field(init=False)  # views of the row

    def __post_init__(self) -> None:
        object.__setattr__(self, "parameters", self.layout.views(self.row_1P))

    @torch.no_grad()
    def chances(self, x_BD: NDArray[np.float32]) -> NDArray[np.float64]:
        """[B, K] over the known labels, in the order of their indices."""
        x = torch.from_numpy(x_BD).to(self.row_1P.device)
        logits_BK = self.layout.logits(self.parameters, x)[0].cpu().numpy()[:, self.known_C].astype(np.float64)
        odds_BK = np.exp(logits_BK - logits_BK.max(1, keepdims=True))
        chances: NDArray[np.float64] = odds_BK / odds_BK.sum(1, keepdims=True)
        return chances


@dataclass(frozen=True, slots=True)
class Fresh:
    """The F examples of a micro-batch, the last of which is at `offset`."""

    offset: int
    values_FD: NDArray[Any]
    label_F: NDArray[np.int64]
    liked_F: NDArray[np.bool_]


class Tower:
    subtracts = False

    def __init__(self, options: Options, device: str = "cpu") -> None:
        self.options = take(options, OPTIONS)
        check_options(self.options)
        self.device = torch.device(device)
        self.standard = Standard(self.options["input"], self.options["size"], self.options["max_features"])
        self.strategy = strategy(self.options["strategy"], self.options["strength"])
        self.buffer = Buffer(self.options["buffer"], self.options["seed"], self.standard.width, self.standard.dtype)
        self.labels: list[str] = []
        self.known_C = np.zeros(FIRST_ROOM, np.bool_)  # right at least once; over the labels there is room for
        self.met_C = np.full(FIRST_ROOM, -LATELY, np.int64)  # the count of examples when a label was met last
        self.count = 0
        self.loss_K = np.zeros(2 * len(SPREAD))  # fading, of the averages and then of the copies themselves
        self.pending: list[Example] = []
        self.recent: list[bytes] = []
        self.layout = Layout(self._network(), FIRST_ROOM)
        self.stack: Stack | None = None  # until there is something to learn
        self._served: Served | None = None

    def _network(self) -> Network:
        width = self.standard.width
        if self.options["input"] == "table":
            own = self.options["network"] == "mlp"  # which can grow; another one has room for all from the start
            width = power_of_two(width, FIRST_COLUMNS) if own else self.options["max_features"]
        return network(self.options["network"], width, self.options["hidden"], self.options["image"])

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
        ranked_BK = np.take_along_axis(chances_BK, order_BK, axis=1)
        return [answer(names, *each) for each in zip(order_BK.tolist(), ranked_BK.tolist(), strict=True)]

    def _published(self) -> Served | None:
        if self._served is None and self.stack is not None and self.known_C.any():
            best = self._best()
            flat_LP = self.stack.average_LP if best < len(SPREAD) else self.stack.parameters_LP
            row_1P = flat_LP[best % len(SPREAD)].unsqueeze(0).clone()
            self._served = Served(self.layout, row_1P, self.known_C.copy())
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
        raise NotImplementedError("a tower cannot subtract: subtracts is False")

    def _step(self) -> None:
        """Learn the micro-batch that waits."""
        examples, self.pending, self._served = self.pending, [], None
        values = [self.standard.see(example.features) for example in examples]
        fresh = Fresh(
            examples[-1].offset,
            np.stack([padded(values_D, self.standard.width) for values_D in values]),
            np.array([self._class(example) for example in examples], np.int64),
            np.array([example.reward >= 0.5 for example in examples], np.bool_),
        )
        self.stack = self._with_room()
        step = self._descended(fresh, 0)
        for round in range(1, self.options["steps"]):
            self._descended(fresh, round)
        self.strategy.learned(step.stack, len(examples))
        for place, example in enumerate(examples):
            row = fresh.values_FD[place], int(fresh.label_F[place]), bool(fresh.liked_F[place])
            slot = self.buffer.put(example.offset, *row)
            if slot is not None and self.strategy.keeps_logits:
                self.buffer.extra_N[slot] = as_array(step.logits_LBC[:, place].masked_fill(~step.known_C, torch.nan))
        self.recent = [*self.recent, *(example.features for example in examples)][-PROBES:]

    def _descended(self, fresh: Fresh, round: int) -> Step:
        """The round-th step on a micro-batch, taken; where a GPU has no room for it, on the CPU from here on."""
        assert self.stack is not None
        try:
            step = self._prepared(self.stack, fresh, round)
            gradient_LP = self.strategy.gradient(step)
            if round == 0:
                self._judge(step)
        except torch.OutOfMemoryError as error:
            if self.device.type == "cpu":
                raise
            log.warning("the %s has no room for a step (%s): learning goes on on the CPU", self.device, error)
            self._move(torch.device("cpu"))
            return self._descended(fresh, round)
        self.stack.descend(gradient_LP)
        return step

    def _move(self, device: torch.device) -> None:
        assert self.stack is not None
        tensors, self.device = self.stack.tensors(), device
        self.stack = self._new_stack()
        self.stack.restore(tensors)
        self.strategy.restore(self.strategy.tensors(), device)

    def _class(self, example: Example) -> int:
        """The index of its label, which now has been met."""
        if example.label not in self.labels:
            self.labels.append(example.label)
            missing = power_of_two(len(self.labels), FIRST_ROOM) - len(self.known_C)
            self.known_C = np.pad(self.known_C, (0, missing))
            self.met_C = np.pad(self.met_C, (0, missing), constant_values=-LATELY)
        label = self.labels.index(example.label)
        self.count += 1
        self.met_C[label] = self.count
        self.known_C[label] |= example.reward >= 0.5
        return label

    def _with_room(self) -> Stack:
        """The stack, with an input for each column and an output for each label: sizes are powers of two."""
        if self.layout.labels < len(self.known_C) or self.layout.network.inputs < self.standard.width:
            self.layout = Layout(self._network(), len(self.known_C))
        if self.stack is None:
            self.stack = self._new_stack()
        elif self.stack.layout is not self.layout:
            before, self.stack = self.stack, self.stack.grown(self.layout)
            self.strategy.grown(before, self.stack)
        if self.strategy.keeps_logits and self.buffer.extra_N.shape[2:] != self.known_C.shape:
            self.buffer.extra_N = self._roomier(self.buffer.extra_N)
        return self.stack

    def _new_stack(self) -> Stack:
        rates = [self.options["rate"] * factor for factor in SPREAD]
        how = self.options["decay"], self.options["average"], self.options["seed"]
        return Stack(self.layout, rates, *how, self.device)

    def _roomier(self, kept: NDArray[Any]) -> NDArray[Any]:
        """Kept logits [N, L, C] with room for the labels there now are; NaN for those not known then."""
        more = np.full((self.buffer.size, len(SPREAD), len(self.known_C)), np.nan, np.float32)
        if kept.ndim == 3:
            more[:, :, : kept.shape[2]] = kept
        return more

    def _prepared(self, stack: Stack, fresh: Fresh, round: int) -> Step:
        """The step that is due, in its fixed shape: fresh rows up to a batch, then `draws` times rows to replay."""
        batch, replay = self.options["batch"], self.options["replay"] * self.strategy.draws
        fill = np.arange(batch) % len(fresh.label_F)
        slots = self.buffer.draw(fresh.offset, round, replay)
        old_RD = padded(self.buffer.values_ND[slots], self.standard.width)
        x_BD = self.standard.scaled(np.concatenate([fresh.values_FD[fill], old_RD]), self.layout.network.inputs)
        share_B = np.zeros(batch + replay, np.float32)
        share_B[: len(fresh.label_F)] = 1 / len(fresh.label_F)
        share_B[batch:] = bool(self.buffer.filled) / self.options["replay"]
        x = self._tensor(x_BD)
        return Step(
            stack,
            stack.logits(x),
            batch,
            self._tensor(np.concatenate([fresh.label_F[fill], self.buffer.label_N[slots]])),
            self._tensor(np.concatenate([fresh.liked_F[fill], self.buffer.liked_N[slots]])),
            self._tensor(share_B),
            self._tensor(self.known_C),
            self._tensor(self.met_C > self.count - LATELY),
            x,
            self._tensor(self.buffer.extra_N[slots]) if self.strategy.keeps_logits else None,
        )

    def _tensor(self, array: NDArray[Any]) -> Tensor:
        return torch.from_numpy(array).to(self.device)

    @torch.no_grad()
    def _judge(self, step: Step) -> None:
        """Test, then learn: the fresh rows' losses before the step, of what could be served."""
        fresh = slice(step.fresh)
        layout, average_LP = step.stack.layout, step.stack.average_LP
        averages_LBC = layout.logits(layout.views(average_LP), step.x_BD[fresh])
        logits = torch.cat([averages_LBC, step.logits_LBC[:, fresh]])
        losses_KB = surprise(logits, step.label_B[fresh], step.liked_B[fresh], step.known_C).clamp_max(LARGEST_LOSS)
        loss_K = (losses_KB * step.share_B[fresh]).sum(1).cpu().numpy().astype(np.float64)
        self.loss_K = FADING * self.loss_K + (1 - FADING) * loss_K

    def check(self, examples: Sequence[Example]) -> None:
        for example in examples:
            rows.check(example, "tower", self.standard.input, self.standard.size)
        labels = {*self.labels, *(example.label for example in (*self.pending, *examples))}
        if len(labels) > self.options["max_labels"]:
            raise BadExample(f"more than {self.options['max_labels']} labels (option max_labels)")

    # state

    def drifted(self, label: str | None, since: int) -> None:
        """What came before is replayed no more."""
        if label is None or label in self.labels:
            self.buffer.forget(None if label is None else self.labels.index(label), since)

    def facts(self) -> Mapping[str, float]:
        best = self._best()
        told = {"learning_rate": self.options["rate"] * SPREAD[best % len(SPREAD)]}
        names = [f"loss_{what}{place}" for what in ("average", "copy") for place in range(len(SPREAD))]
        return told | dict(zip(names, self.loss_K.tolist(), strict=True))

    def fingerprint(self) -> str:
        """Of every number but the buffer's rows: their offsets name them."""
        seen = hashlib.sha256(packed([self.labels, self._memory()]).tobytes())
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
        row_P = as_array(served.row_1P[0]) if served else np.zeros(0, np.float32)
        solved = {"row": row_P, "known": self.known_C.copy(), "meta": packed(meta), **self.standard.tensors()}
        parts = {"weights": Part(solved, serving=True)}
        if not serving_only:
            memory: Tensors = {"memory": packed(self._memory()), "met": self.met_C.copy(), "loss": self.loss_K}
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
        meta = unpacked(solved["meta"])
        self.standard.restore(solved)
        self.labels, self.known_C = meta["labels"], solved["known"].copy()
        self.layout = Layout(self._network(), meta["room"])
        row_1P = torch.tensor(solved["row"], device=self.device).unsqueeze(0)
        self.stack = None
        self._served = Served(self.layout, row_1P, self.known_C) if self.known_C.any() else None
        if "memory" in state:
            self._recall(state)

    def _recall(self, state: State) -> None:
        own = state["memory"].tensors
        memory = unpacked(own["memory"])
        self.met_C, self.loss_K, self.count = own["met"].copy(), own["loss"], memory["count"]
        self.recent = [bytes.fromhex(features) for features in memory["recent"]]
        self.pending = [Example(o, k, bytes.fromhex(f), label, reward=r) for o, k, f, label, r in memory["pending"]]
        self.buffer.restore(state["buffer"].tensors)
        self.strategy.restore(state["strategy"].tensors, self.device)
        if "stack" in state:
            self.stack = self._new_stack()
            self.stack.restore(state["stack"].tensors)


def check_options(options: Options) -> None:
    """Raises ValueError that says what does not fit."""
    if options["input"] not in ("text", "vector", "table"):
        raise ValueError(f"option 'input' must be text, vector or table, not {options['input']!r}")
    if options["input"] == "vector" and options["size"] < 1:
        raise ValueError("a vector tower needs option 'size': how many numbers an instance has")
    for name in ("batch", "steps", "replay", "buffer"):
        if options[name] < 1:
            raise ValueError(f"option {name!r} must be at least 1, not {options[name]}")
    check_limits(options, LIMITS)
    if not options["hidden"] or not all(type(width) is int and width > 0 for width in options["hidden"]):
        raise ValueError(f"option 'hidden' must be the widths of one layer or more, not {options['hidden']}")


def answer(labels: Sequence[str], order: Sequence[int], chances: Sequence[float]) -> Answer:
    """order: places of the labels, the likeliest first; chances: in that order."""
    candidates = candidates_of([labels[place] for place in order], chances)
    return Answer(candidates[0].id, candidates, candidates[0].score)


def power_of_two(needed: int, least: int) -> int:
    return max(least, 1 << (needed - 1).bit_length() if needed else 0)


def padded(values: NDArray[Any], width: int) -> NDArray[Any]:
    """Rows [..., D] with the columns that came later, which are missing in them."""
    missing = width - values.shape[-1]
    if not missing:
        return values
    return np.pad(values, [(0, 0)] * (values.ndim - 1) + [(0, missing)], constant_values=np.nan)

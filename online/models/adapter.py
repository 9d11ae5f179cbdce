"""Tunes the text encoder's last layers on what was taught: texts of one label nearer together, others further apart.

    texts -> frozen layers, once per text -> kept [T, 384] -> last layers + LoRA -> unit vectors
                                                                                      |  contrast: labels, punishments
                                                                                      |  distillation: the frozen vectors

One network reads both texts of a pair (Bromley et al. 1993); the loss is supervised contrastive (Khosla et al. 2020)
over a batch of drawn pairs; the change is of low rank (Hu et al. 2021) and is merged into the weights, so that what is
tuned runs as the same ONNX graph. Draws are Philox of seed and epoch, on one thread: equal lessons give equal bytes.

Shapes: B texts of a batch, T tokens of the longest, N tokens of all, D = 384 features, H heads.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from online.models.minilm import HEADS, LAYERS, WIDTH

NEUTRAL_COSINE = 0.3  # what a text punished for a label, and taught none, should not come nearer than
LINEAR = (
    "attention.self.query",
    "attention.self.key",
    "attention.self.value",
    "attention.output.dense",
    "intermediate.dense",
    "output.dense",
)

Weights = Mapping[str, Tensor]


@dataclass(frozen=True, slots=True)
class Lesson:
    """A text with the label it belongs to, and the labels it was punished for. With neither it is only kept in place."""

    text: str
    label: str | None = None
    wrong: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Tuning:
    """How to tune. rank 0: all weights of the last `layers` instead of LoRA. distil: weight of staying where it was."""

    layers: int = 1
    rank: int = 8
    epochs: int = 6
    pairs: int = 64
    rate: float = 1e-3
    temperature: float = 0.05
    distil: float = 0.3
    seed: int = 0


# the network


@contextmanager
def one_thread() -> Iterator[None]:
    """Sums in one order, whatever the machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def tensors_of(weights: Mapping[str, NDArray[np.float32]]) -> dict[str, Tensor]:
    return {name: torch.from_numpy(tensor.copy()) for name, tensor in weights.items()}


def embed(weights: Weights, ids_BT: Tensor) -> Tensor:
    words = weights["embeddings.word_embeddings.weight"][ids_BT]
    places = weights["embeddings.position_embeddings.weight"][: ids_BT.shape[1]]
    return normed(
        weights, "embeddings.LayerNorm", words + places + weights["embeddings.token_type_embeddings.weight"][0]
    )


def layer(weights: Weights, index: int, x_ND: Tensor, seen_BT: Tensor) -> Tensor:
    """One BERT layer over N tokens, which are the places of B texts that `seen` marks: only attention sees padding."""
    at = f"encoder.layer.{index}"
    parts = (linear(weights, f"{at}.attention.self.{part}", x_ND) for part in ("query", "key", "value"))
    query, key, value = (heads(spread(part_ND, seen_BT)) for part_ND in parts)
    mixed = functional.scaled_dot_product_attention(query, key, value, attn_mask=seen_BT[:, None, None, :])
    mixed_ND = mixed.transpose(1, 2).flatten(2)[seen_BT]
    x_ND = normed(
        weights, f"{at}.attention.output.LayerNorm", linear(weights, f"{at}.attention.output.dense", mixed_ND) + x_ND
    )
    wide = functional.gelu(linear(weights, f"{at}.intermediate.dense", x_ND))
    return normed(weights, f"{at}.output.LayerNorm", linear(weights, f"{at}.output.dense", wide) + x_ND)


def spread(x_ND: Tensor, seen_BT: Tensor) -> Tensor:
    """Tokens to their places [B, T, D]; zero elsewhere."""
    x_BTD = x_ND.new_zeros(*seen_BT.shape, x_ND.shape[1])
    x_BTD[seen_BT] = x_ND
    return x_BTD


def heads(x_BTD: Tensor) -> Tensor:
    """[B, T, D] -> [B, H, T, D / H]"""
    return x_BTD.view(*x_BTD.shape[:2], HEADS, WIDTH // HEADS).transpose(1, 2)


def linear(weights: Weights, name: str, x: Tensor) -> Tensor:
    return functional.linear(x, weights[f"{name}.weight"], weights[f"{name}.bias"])


def normed(weights: Weights, name: str, x: Tensor) -> Tensor:
    return functional.layer_norm(x, (WIDTH,), weights[f"{name}.weight"], weights[f"{name}.bias"], 1e-12)


def pooled(x_ND: Tensor, seen_BT: Tensor) -> Tensor:
    """Unit vectors [B, D]: the mean over each text's tokens."""
    return functional.normalize(spread(x_ND, seen_BT).sum(1) / seen_BT.sum(1, keepdim=True), dim=1)


class Lower:
    """What the frozen layers make of each text, computed once: [T, D] per text, 1.5 kB a token."""

    @one_thread()
    def __init__(self, weights: Weights, layers: int, ids: Sequence[Sequence[int]]) -> None:
        """layers: how many of the last ones are left to run. ids: each text's tokens."""
        self.first = LAYERS - layers
        self.kept: list[Tensor] = [torch.empty(0)] * len(ids)
        for places in by_length(ids):
            ids_BT = torch.tensor([ids[place] for place in places])
            with torch.no_grad():
                x_ND, seen_BT = embed(weights, ids_BT).flatten(0, 1), torch.ones_like(ids_BT, dtype=torch.bool)
                for index in range(self.first):
                    x_ND = layer(weights, index, x_ND, seen_BT)
            for place, x_TD in zip(places, x_ND.view(*ids_BT.shape, WIDTH), strict=True):
                self.kept[place] = x_TD.clone()

    def of(self, places: Sequence[int]) -> "Lower":
        """That of some of the texts."""
        part = copy(self)
        part.kept = [self.kept[place] for place in places]
        return part

    def upper(self, weights: Weights, places: Sequence[int]) -> Tensor:
        """The unit vectors [B, D] of these texts, with the last layers of `weights`."""
        chosen = [self.kept[place] for place in places]
        lengths_B = torch.tensor([len(x_TD) for x_TD in chosen])
        seen_BT = torch.arange(int(lengths_B.max())) < lengths_B[:, None]
        x_ND = torch.cat(chosen)
        for index in range(self.first, LAYERS):
            x_ND = layer(weights, index, x_ND, seen_BT)
        return pooled(x_ND, seen_BT)

    @one_thread()
    def vectors(self, weights: Weights) -> Tensor:
        """The unit vectors [N, D] of all texts."""
        found = torch.empty(len(self.kept), WIDTH)
        with torch.no_grad():
            for places in by_length(self.kept):
                found[places] = self.upper(weights, places)
        return found


def by_length(sequences: Sequence[Sequence[int]] | Sequence[Tensor], most: int = 64) -> Iterator[list[int]]:
    """Places of sequences of one length, at most `most` together: no padding."""
    order = sorted(range(len(sequences)), key=lambda place: (len(sequences[place]), place))
    start = 0
    for end in range(1, len(order) + 1):
        ended = end == len(order) or len(sequences[order[end]]) != len(sequences[order[start]])
        if ended or end - start == most:
            yield order[start:end]
            start = end


# what is trained


class Change:
    """The trained difference to the last layers: LoRA factors of their matrices, or (rank 0) all of their tensors."""

    def __init__(self, weights: Weights, tuning: Tuning) -> None:
        self.weights = weights
        names = [f"encoder.layer.{index}" for index in range(LAYERS - tuning.layers, LAYERS)]
        self.down: dict[str, Tensor] = {}  # [rank, in]
        self.up: dict[str, Tensor] = {}  # [out, rank], zero at first: nothing is changed yet
        self.whole: dict[str, Tensor] = {}
        if not tuning.rank:
            chosen = [name for name in weights if name.startswith(tuple(f"{at}." for at in names))]
            self.whole = {name: weights[name].clone().requires_grad_() for name in chosen}
            return
        draw = generator(tuning.seed, 0)
        for name in [f"{at}.{part}.weight" for at in names for part in LINEAR]:
            out, width = weights[name].shape
            start = draw.standard_normal((tuning.rank, width), np.float32) / np.sqrt(width, dtype=np.float32)
            self.down[name] = torch.from_numpy(start).requires_grad_()
            self.up[name] = torch.zeros(out, tuning.rank).requires_grad_()

    def trained(self) -> list[Tensor]:
        return [*self.down.values(), *self.up.values(), *self.whole.values()]

    def changed(self) -> dict[str, Tensor]:
        """The tuned tensors, merged."""
        low = {name: self.weights[name] + self.up[name] @ self.down[name] for name in self.down}
        return {**low, **self.whole}


@one_thread()
def tune(
    weights: Weights,
    lower: Lower,
    lessons: Sequence[Lesson],
    tuning: Tuning,
    tick: Callable[[int, int, float], None] = lambda step, steps, loss: None,
) -> dict[str, NDArray[np.float32]]:
    """The tensors of the last layers that differ from `weights` afterwards; the lessons' texts are those of `lower`.

    tick(step, steps, loss) is called after each step; what it raises ends the tuning.
    """
    frozen_ND = lower.vectors(weights)
    change = Change(weights, tuning)
    optimiser = torch.optim.AdamW(change.trained(), lr=tuning.rate, weight_decay=0.01)
    steps = tuning.epochs * -(-len(lessons) // tuning.pairs)
    for step, places in enumerate(batches(lessons, tuning), 1):
        for group in optimiser.param_groups:
            group["lr"] = tuning.rate * min(1.0, step / (0.1 * steps)) * (1 - (step - 1) / steps)
        unit_BD = lower.upper({**weights, **change.changed()}, places)
        kept_in_place = (1 - (unit_BD * frozen_ND[places]).sum(1)).mean()
        loss = contrast(unit_BD, [lessons[place] for place in places], tuning.temperature)
        loss = loss + tuning.distil * kept_in_place
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        tick(step, steps, float(loss.detach()))
    return {name: tensor.detach().numpy().copy() for name, tensor in change.changed().items()}


def batches(lessons: Sequence[Lesson], tuning: Tuning) -> Iterator[list[int]]:
    """Places of lessons: in each epoch every one once, with a partner of its label and one of a label it is not."""
    members: dict[str, list[int]] = {}
    for place, lesson in enumerate(lessons):
        if lesson.label is not None:
            members.setdefault(lesson.label, []).append(place)
    for epoch in range(1, tuning.epochs + 1):
        draw = generator(tuning.seed, epoch)
        order = draw.permutation(len(lessons)).tolist()
        for start in range(0, len(order), tuning.pairs):
            chosen = dict.fromkeys(order[start : start + tuning.pairs])
            for place in list(chosen):
                labels = [lessons[place].label, *sorted(lessons[place].wrong)]
                for company in (members.get(label or "", []) for label in labels):
                    if company:
                        chosen[company[int(draw.integers(len(company)))]] = None
            yield list(chosen)


def contrast(unit_BD: Tensor, lessons: Sequence[Lesson], temperature: float) -> Tensor:
    """Mean over texts and their partners of -log(e^s+ / (e^s+ + sum e^s-)), s = cosine / temperature.

    A text without a partner that was punished for a label is held against NEUTRAL_COSINE instead.
    """
    same_BB, apart_BB = relations(lessons)
    scores_BB = unit_BD @ unit_BD.T / temperature
    against_B = torch.logsumexp(scores_BB.masked_fill(~apart_BB, -1e9), 1)  # no other: e^-1e9 = 0
    near_BB = functional.softplus(against_B[:, None] - scores_BB)
    lone_B = apart_BB.any(1) & ~same_BB.any(1)
    lone = functional.softplus(against_B - NEUTRAL_COSINE / temperature)[lone_B].sum()
    counts_B = same_BB.sum(1)
    paired = ((near_BB * same_BB).sum(1) / counts_B.clamp(min=1)).sum()
    return (paired + lone) / ((counts_B > 0) | lone_B).sum().clamp(min=1)


def relations(lessons: Sequence[Lesson]) -> tuple[Tensor, Tensor]:
    """bool [B, B] twice: texts known to belong together, and texts known not to."""
    labels = sorted({lesson.label for lesson in lessons if lesson.label is not None})
    number = {label: place for place, label in enumerate(labels)}
    label_B = torch.tensor([number.get(lesson.label or "", -1) for lesson in lessons])
    known_BB = (label_B[:, None] >= 0) & (label_B >= 0)
    same_BB = known_BB & (label_B[:, None] == label_B)
    apart_BB = known_BB & ~same_BB
    for place, lesson in enumerate(lessons):
        if lesson.label is None:
            apart_BB[place] = torch.tensor([other.label in lesson.wrong for other in lessons])
    return same_BB.fill_diagonal_(False), apart_BB


def generator(seed: int, counter: int) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(key=seed, counter=counter << 64))

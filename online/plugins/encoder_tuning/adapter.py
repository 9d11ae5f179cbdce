"""Tunes the text encoder's last layers on taught texts: same class closer, different classes further.

    texts -> frozen layers, once per text -> stored [T, 384] -> last layers + LoRA -> unit vectors
                                                                                        |  contrast: classes, rejections
                                                                                        |  distillation: the frozen vectors

One network reads both texts of a pair (Bromley et al. 1993); the loss is supervised contrastive (Khosla
et al. 2020) over a batch of drawn pairs; the change has low rank (Hu et al. 2021) and is merged into
the weights, so the tuned encoder runs as the same ONNX graph. Draws are Philox of seed and epoch, on
one thread: equal lessons give equal bytes.

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

from online.models.encoders.minilm import HEADS, LAYERS, WIDTH

NEUTRAL_COSINE = 0.3  # upper bound aimed at for a text that was rejected for a class and taught none
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
class TuningExample:
    """A text with its class, if known, and the classes it was rejected for.

    Without either, the text is only held in place.
    """

    text: str
    label: str | None = None
    wrong: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class TuningOptions:
    """The options of tuning.

    rank 0: all weights of the last `layers` instead of LoRA. distil: weight of the distillation loss,
    which holds vectors in place.
    """

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
    """Run torch on one thread, so that sums have one order on every machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def to_tensors(weights: Mapping[str, NDArray[np.float32]]) -> dict[str, Tensor]:
    """Return the weights as tensors that share no memory with them."""
    return {name: torch.from_numpy(tensor.copy()) for name, tensor in weights.items()}


def embed_tokens(weights: Weights, ids_BT: Tensor) -> Tensor:
    """Return the embeddings [B, T, W] of tokens at their positions, normalised."""
    words = weights["embeddings.word_embeddings.weight"][ids_BT]
    places = weights["embeddings.position_embeddings.weight"][: ids_BT.shape[1]]
    return layer_norm(
        weights, "embeddings.LayerNorm", words + places + weights["embeddings.token_type_embeddings.weight"][0]
    )


def apply_layer(weights: Weights, index: int, x_ND: Tensor, seen_BT: Tensor) -> Tensor:
    """Return one BERT layer over N tokens at the positions of B texts that `seen_BT` marks.

    Only attention uses padding.
    """
    at = f"encoder.layer.{index}"
    parts = (apply_linear(weights, f"{at}.attention.self.{part}", x_ND) for part in ("query", "key", "value"))
    query, key, value = (split_heads(scatter_tokens(part_ND, seen_BT)) for part_ND in parts)
    mixed = functional.scaled_dot_product_attention(query, key, value, attn_mask=seen_BT[:, None, None, :])
    mixed_ND = mixed.transpose(1, 2).flatten(2)[seen_BT]
    x_ND = layer_norm(
        weights,
        f"{at}.attention.output.LayerNorm",
        apply_linear(weights, f"{at}.attention.output.dense", mixed_ND) + x_ND,
    )
    wide = functional.gelu(apply_linear(weights, f"{at}.intermediate.dense", x_ND))
    return layer_norm(weights, f"{at}.output.LayerNorm", apply_linear(weights, f"{at}.output.dense", wide) + x_ND)


def scatter_tokens(x_ND: Tensor, seen_BT: Tensor) -> Tensor:
    """Return tokens at their positions [B, T, D]; zero elsewhere."""
    x_BTD = x_ND.new_zeros(*seen_BT.shape, x_ND.shape[1])
    x_BTD[seen_BT] = x_ND
    return x_BTD


def split_heads(x_BTD: Tensor) -> Tensor:
    """[B, T, D] -> [B, H, T, D / H]"""
    return x_BTD.view(*x_BTD.shape[:2], HEADS, WIDTH // HEADS).transpose(1, 2)


def apply_linear(weights: Weights, name: str, x: Tensor) -> Tensor:
    """Apply a linear layer of the network, by its name."""
    return functional.linear(x, weights[f"{name}.weight"], weights[f"{name}.bias"])


def layer_norm(weights: Weights, name: str, x: Tensor) -> Tensor:
    """Apply a layer norm of the network, by its name."""
    return functional.layer_norm(x, (WIDTH,), weights[f"{name}.weight"], weights[f"{name}.bias"], 1e-12)


def mean_pool(x_ND: Tensor, seen_BT: Tensor) -> Tensor:
    """Return unit vectors [B, D] of the mean over each text's tokens."""
    return functional.normalize(scatter_tokens(x_ND, seen_BT).sum(1) / seen_BT.sum(1, keepdim=True), dim=1)


class FrozenLayers:
    """The output of the frozen layers for each text, computed once: [T, D] per text, 1.5 kB per token."""

    @one_thread()
    def __init__(self, weights: Weights, layers: int, ids: Sequence[Sequence[int]]) -> None:
        """layers: number of last layers that are not frozen. ids: each text's tokens."""
        self.first = LAYERS - layers
        self.kept: list[Tensor] = [torch.empty(0)] * len(ids)
        for places in group_by_length(ids):
            ids_BT = torch.tensor([ids[place] for place in places])
            with torch.no_grad():
                x_ND, seen_BT = embed_tokens(weights, ids_BT).flatten(0, 1), torch.ones_like(ids_BT, dtype=torch.bool)
                for index in range(self.first):
                    x_ND = apply_layer(weights, index, x_ND, seen_BT)
            for place, x_TD in zip(places, x_ND.view(*ids_BT.shape, WIDTH), strict=True):
                self.kept[place] = x_TD.clone()

    def of(self, places: Sequence[int]) -> "FrozenLayers":
        """Return the outputs of some of the texts."""
        part = copy(self)
        part.kept = [self.kept[place] for place in places]
        return part

    def upper(self, weights: Weights, places: Sequence[int]) -> Tensor:
        """Return unit vectors [B, D] of these texts, by the last layers of `weights`."""
        chosen = [self.kept[place] for place in places]
        lengths_B = torch.tensor([len(x_TD) for x_TD in chosen])
        seen_BT = torch.arange(int(lengths_B.max())) < lengths_B[:, None]
        x_ND = torch.cat(chosen)
        for index in range(self.first, LAYERS):
            x_ND = apply_layer(weights, index, x_ND, seen_BT)
        return mean_pool(x_ND, seen_BT)

    @one_thread()
    def vectors(self, weights: Weights) -> Tensor:
        """Return unit vectors [N, D] of all N texts."""
        found = torch.empty(len(self.kept), WIDTH)
        with torch.no_grad():
            for places in group_by_length(self.kept):
                found[places] = self.upper(weights, places)
        return found


def group_by_length(sequences: Sequence[Sequence[int]] | Sequence[Tensor], most: int = 64) -> Iterator[list[int]]:
    """Yield indices of sequences of equal length, at most `most` together, so that none needs padding."""
    order = sorted(range(len(sequences)), key=lambda place: (len(sequences[place]), place))
    start = 0
    for end in range(1, len(order) + 1):
        ended = end == len(order) or len(sequences[order[end]]) != len(sequences[order[start]])
        if ended or end - start == most:
            yield order[start:end]
            start = end


# training


class TrainedChange:
    """The trained change of the last layers: LoRA factors of their matrices or, for rank 0, all tensors."""

    def __init__(self, weights: Weights, tuning: TuningOptions) -> None:
        self.weights = weights
        names = [f"encoder.layer.{index}" for index in range(LAYERS - tuning.layers, LAYERS)]
        self.down: dict[str, Tensor] = {}  # [rank, in]
        self.up: dict[str, Tensor] = {}  # [out, rank], initially zero: no change
        self.whole: dict[str, Tensor] = {}
        if not tuning.rank:
            chosen = [name for name in weights if name.startswith(tuple(f"{at}." for at in names))]
            self.whole = {name: weights[name].clone().requires_grad_() for name in chosen}
            return
        draw = create_generator(tuning.seed, 0)
        for name in [f"{at}.{part}.weight" for at in names for part in LINEAR]:
            out, width = weights[name].shape
            start = draw.standard_normal((tuning.rank, width), np.float32) / np.sqrt(width, dtype=np.float32)
            self.down[name] = torch.from_numpy(start).requires_grad_()
            self.up[name] = torch.zeros(out, tuning.rank).requires_grad_()

    def trained(self) -> list[Tensor]:
        """Return the tensors that are trained."""
        return [*self.down.values(), *self.up.values(), *self.whole.values()]

    def changed(self) -> dict[str, Tensor]:
        """Return the tuned tensors, merged."""
        low = {name: self.weights[name] + self.up[name] @ self.down[name] for name in self.down}
        return {**low, **self.whole}


@one_thread()
def tune_layers(
    weights: Weights,
    lower: FrozenLayers,
    lessons: Sequence[TuningExample],
    tuning: TuningOptions,
    tick: Callable[[int, int, float], None] = lambda step, steps, loss: None,
) -> dict[str, NDArray[np.float32]]:
    """Return the tuned tensors of the last layers. `lower` holds the lessons' texts, in their order.

    tick(step, steps, loss) is called after each step and may raise to end the tuning.
    """
    frozen_ND = lower.vectors(weights)
    change = TrainedChange(weights, tuning)
    optimiser = torch.optim.AdamW(change.trained(), lr=tuning.rate, weight_decay=0.01)
    steps = tuning.epochs * -(-len(lessons) // tuning.pairs)
    for step, places in enumerate(draw_batches(lessons, tuning), 1):
        for group in optimiser.param_groups:
            group["lr"] = tuning.rate * min(1.0, step / (0.1 * steps)) * (1 - (step - 1) / steps)
        unit_BD = lower.upper({**weights, **change.changed()}, places)
        kept_in_place = (1 - (unit_BD * frozen_ND[places]).sum(1)).mean()
        loss = contrastive_loss(unit_BD, [lessons[place] for place in places], tuning.temperature)
        loss = loss + tuning.distil * kept_in_place
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        tick(step, steps, float(loss.detach()))
    return {name: tensor.detach().numpy().copy() for name, tensor in change.changed().items()}


def draw_batches(lessons: Sequence[TuningExample], tuning: TuningOptions) -> Iterator[list[int]]:
    """Yield indices of lessons.

    In each epoch every lesson once, with a partner of its class and of each rejected one.
    """
    members: dict[str, list[int]] = {}
    for place, lesson in enumerate(lessons):
        if lesson.label is not None:
            members.setdefault(lesson.label, []).append(place)
    for epoch in range(1, tuning.epochs + 1):
        draw = create_generator(tuning.seed, epoch)
        order = draw.permutation(len(lessons)).tolist()
        for start in range(0, len(order), tuning.pairs):
            chosen = dict.fromkeys(order[start : start + tuning.pairs])
            for place in list(chosen):
                labels = [lessons[place].label, *sorted(lessons[place].wrong)]
                for company in (members.get(label or "", []) for label in labels):
                    if company:
                        chosen[company[int(draw.integers(len(company)))]] = None
            yield list(chosen)


def contrastive_loss(unit_BD: Tensor, lessons: Sequence[TuningExample], temperature: float) -> Tensor:
    """Return mean over texts and their partners of -log(e^s+ / (e^s+ + sum e^s-)), s = cosine / temperature.

    A text that was rejected for a class and has no partner is compared with NEUTRAL_COSINE instead.
    """
    same_BB, apart_BB = pair_relations(lessons)
    scores_BB = unit_BD @ unit_BD.T / temperature
    against_B = torch.logsumexp(scores_BB.masked_fill(~apart_BB, -1e9), 1)  # without another class: e^-1e9 = 0
    near_BB = functional.softplus(against_B[:, None] - scores_BB)
    lone_B = apart_BB.any(1) & ~same_BB.any(1)
    lone = functional.softplus(against_B - NEUTRAL_COSINE / temperature)[lone_B].sum()
    counts_B = same_BB.sum(1)
    paired = ((near_BB * same_BB).sum(1) / counts_B.clamp(min=1)).sum()
    return (paired + lone) / ((counts_B > 0) | lone_B).sum().clamp(min=1)


def pair_relations(lessons: Sequence[TuningExample]) -> tuple[Tensor, Tensor]:
    """Return two masks, bool [B, B]: pairs known to share a class, and pairs known not to."""
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


def create_generator(seed: int, counter: int) -> np.random.Generator:
    """Return a generator that depends on its arguments alone."""
    return np.random.Generator(np.random.Philox(key=seed, counter=counter << 64))

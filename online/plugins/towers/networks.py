"""Networks that turn an input into a representation: a built-in MLP, a small CNN, or the user's torch module.

    x_BD -> forward(parameters of L copies) -> h_LBH      L copies of one network, each with its own weights

The tower owns the output layer; a network is its shapes, its initial weights and its forward pass.
Shapes: L copies, B rows, D inputs, H width of the representation.
"""

import math
import zlib
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Protocol, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.nn.functional import layer_norm, max_pool2d

from online.plugins.towers.fake_quantisation import FakeQuantiser

EPSILON = 1e-5  # added to the variance in a normalisation, torch's default

Parameters = Mapping[str, Tensor]
Shapes = Mapping[str, tuple[int, ...]]


class Network(Protocol):
    """A network. inputs, width: how many numbers it reads and returns. shapes: of one copy's parameters."""

    inputs: int
    width: int
    shapes: Shapes

    def first(self, seed: int) -> Mapping[str, Tensor]:
        """Return the initial weights of one copy, the same for the same seed."""

    def forward(self, parameters: Parameters, x_BD: Tensor, quantiser: FakeQuantiser | None = None) -> Tensor:
        """Return the representation [L, B, H], from parameters with a leading dimension L, by fake-quantised products if asked."""


class Mlp:
    """Layers of Linear, LayerNorm and ReLU. The L copies share one batched product per layer."""

    def __init__(self, inputs: int, hidden: Sequence[int]) -> None:
        self.inputs, self.hidden, self.width = inputs, tuple(hidden), hidden[-1]
        shapes: dict[str, tuple[int, ...]] = {}
        for layer, (before, after) in enumerate(zip((inputs, *hidden), hidden, strict=False)):
            shapes[f"{layer}.weight"] = (before, after)
            shapes |= {f"{layer}.{name}": (after,) for name in ("bias", "gain", "shift")}
        self.shapes: Shapes = shapes

    def first(self, seed: int) -> Mapping[str, Tensor]:
        """Return the first weights, which follow from the seed and their names."""
        return {
            name: gaussian(seed, name, shape, math.sqrt(2 / shape[0]))
            if len(shape) > 1
            else torch.full(shape, float(name.endswith("gain")))
            for name, shape in self.shapes.items()
        }

    def forward(self, parameters: Parameters, x_BD: Tensor, quantiser: FakeQuantiser | None = None) -> Tensor:
        """Return the representation [L, B, W] of each copy."""
        multiply = torch.baddbmm if quantiser is None else quantiser.multiply
        h = x_BD.expand(len(parameters["0.weight"]), *x_BD.shape)
        for layer, width in enumerate(self.hidden):
            weight, bias, gain, shift = (parameters[f"{layer}.{name}"] for name in ("weight", "bias", "gain", "shift"))
            h = layer_norm(multiply(bias.unsqueeze(1), h, weight), (width,), eps=EPSILON)
            h = torch.addcmul(shift.unsqueeze(1), h, gain.unsqueeze(1)).relu()
        return h


class Module:
    """A torch module [B, D] -> [B, H], created for each seed and run as a function of its parameters."""

    def __init__(self, inputs: int, make: Callable[[int], nn.Module]) -> None:
        self.inputs, self.make = inputs, make
        self.module = self._create(0)
        self._prepared: nn.Module | None = None
        if next(self.module.buffers(), None) is not None:
            raise ValueError("a tower's network keeps no buffers: use LayerNorm or GroupNorm instead of BatchNorm")
        with torch.no_grad():
            shape = self.module(torch.zeros(2, inputs)).shape
        if len(shape) != 2 or shape[0] != 2:
            raise ValueError(f"a tower's network must give [B, H] for [B, {inputs}], not {list(shape)} for B = 2")
        self.width = int(shape[1])
        self.shapes: Shapes = {name: tuple(parameter.shape) for name, parameter in self.module.named_parameters()}

    def _create(self, seed: int) -> nn.Module:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return self.make(self.inputs).eval()  # eval: dropout would draw from the global generator

    def first(self, seed: int) -> Mapping[str, Tensor]:
        """Return the first parameters of the user's module."""
        return {name: parameter.detach() for name, parameter in self._create(seed).named_parameters()}

    def forward(self, parameters: Parameters, x_BD: Tensor, quantiser: FakeQuantiser | None = None) -> Tensor:
        """Return the representation [L, B, W] of each copy."""
        own_of = {name: parameters[name] for name in self.shapes}
        if quantiser is not None:  # copy by copy: the operators of torchao have no rule for vmap
            module = self._prepare(quantiser)
            copies = zip(*(tensor.unbind(0) for tensor in own_of.values()), strict=True)
            return torch.stack(
                [functional_call(module, dict(zip(own_of, own, strict=True)), (x_BD,)) for own in copies]
            )

        def one(own: dict[str, Tensor]) -> Tensor:
            return cast(Tensor, functional_call(self.module, own, (x_BD,)))

        return vmap(one)(own_of)

    def _prepare(self, quantiser: FakeQuantiser) -> nn.Module:
        """Return the module with fake-quantised products, made with the first of them."""
        if self._prepared is None:
            self._prepared = quantiser.prepare(self.module)
        return self._prepared


class Cnn(nn.Module):
    """Two 3x3 convolutions with GroupNorm and pooling, then a layer of `width`.

    image: channels, height, width.
    """

    def __init__(self, image: Sequence[int], width: int) -> None:
        super().__init__()
        channels, height, image_width = image
        self.image = tuple(image)
        self.first, self.first_norm = nn.Conv2d(channels, 16, 3, padding=1), nn.GroupNorm(4, 16)
        self.second, self.second_norm = nn.Conv2d(16, 32, 3, padding=1), nn.GroupNorm(4, 32)
        self.last, self.last_norm = nn.Linear(32 * (height // 4) * (image_width // 4), width), nn.LayerNorm(width)

    def forward(self, x_BD: Tensor) -> Tensor:
        """Return the representation [B, W] of images."""
        x = x_BD.reshape(-1, *self.image)
        x = max_pool2d(self.first_norm(self.first(x)).relu(), 2)
        x = max_pool2d(self.second_norm(self.second(x)).relu(), 2)
        return cast(Tensor, self.last_norm(self.last(x.flatten(1))).relu())


def create_network(name: str, inputs: int, hidden: Sequence[int], image: Sequence[int]) -> Network:
    """Create mlp, cnn, or package.module:attribute, which is called with the input width.

    Raises ValueError that says what does not fit.
    """
    if name == "mlp":
        return Mlp(inputs, hidden)
    if name == "cnn":
        if len(image) != 3 or math.prod(image) != inputs or min(image[1:]) < 4:
            raise ValueError(
                f"a cnn reads images of {inputs} numbers: option 'image' must be [channels, height, width]"
            )
        return Module(inputs, lambda _: Cnn(image, hidden[-1]))
    return Module(inputs, import_factory(name))


def import_factory(name: str) -> Callable[[int], nn.Module]:
    """Import the function that creates the user's network. Raises ValueError."""
    module, _, attribute = name.partition(":")
    try:
        found = getattr(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError):
        raise ValueError(f"no network {name!r}: use mlp, cnn or package.module:attribute of your own") from None
    if not callable(found):
        raise ValueError(f"{name} is not callable: it must take the input width and return a torch module")
    return cast(Callable[[int], nn.Module], found)


def gaussian(seed: int, name: str, shape: Sequence[int], deviation: float) -> Tensor:
    """Return normally distributed numbers that depend on the arguments alone."""
    rng = np.random.Generator(np.random.Philox(key=np.array([seed, zlib.crc32(name.encode())], np.uint64)))
    drawn = rng.normal(0, deviation, tuple(shape)).astype(np.float32)
    return torch.from_numpy(drawn)

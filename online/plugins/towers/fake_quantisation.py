"""Quantisation-aware training: a tower learns by rounded products, nearly always those that an export of onnx-int8 will compute.

    h_LBD --int8, a scale for each row------> fake-quantised h \\
                                                                  product --> logits --> loss --> gradient
    weight_LDH --7 bits, a scale per column-> fake-quantised w /          straight through both, to the float weights

torchao rounds the values to whole multiples of a scale, and leaves them float32; the weights that learn, and those of
the state, keep all their digits. The numbers are those of the exported file, in which each row has a scale of its own too.
As there, only products by large matrices are quantised: dense layers and the head, and neither convolutions nor
normalisations. A matrix has the size that it has while it learns, with spare columns and classes. The export leaves these
out, so a first layer or a head that is large only with them is quantised here and float32 in the file.

Shapes: L copies, B rows, D inputs, H outputs of a layer.
"""

import logging
import math
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from functools import cached_property
from typing import Any, cast

import torch
from torch import Tensor, nn

from online.models.statistics.weight_bits import LARGEST_WEIGHT, LEAST_WEIGHTS

NOISY_LOGGERS = ("torchao", "torchao.kernel.intmm", "torch.utils._pytree")  # of kernels for GPUs that are not used here


@contextmanager
def quiet_import() -> Iterator[None]:
    """Drop the warnings of torchao's import: it misses Triton, CUDA libraries and an enum's registration, of no use here."""
    loggers = [logging.getLogger(name) for name in NOISY_LOGGERS]
    before = [each.level for each in loggers]
    for each in loggers:
        each.setLevel(logging.ERROR)
    try:
        yield
    finally:
        for each, level in zip(loggers, before, strict=True):
            each.setLevel(level)


class StraightThrough(torch.autograd.Function):
    """The quantised values, with the gradient of the values that were quantised (Bengio et al. 2013)."""

    @staticmethod
    def forward(values: Tensor, quantised: Tensor) -> Tensor:
        """Return the quantised values."""
        return quantised.clone()

    @staticmethod
    def setup_context(ctx: object, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        """Keep nothing for the backward pass."""

    @staticmethod
    def backward(ctx: object, gradient: Tensor) -> tuple[Tensor, None]:
        """Pass the gradient through unchanged."""
        return gradient, None


class FakeQuantiser:
    """Multiplies as the exported file will. torchao is imported with the first product."""

    @cached_property
    def _library(self) -> Any:
        with quiet_import():
            from torchao.quantization import qat, quant_primitives
        return qat, quant_primitives

    @cached_property
    def _activation_config(self) -> Any:
        """Whole numbers of 8 bits from the least to the largest value of a row, and 0 among them."""
        qat, _ = self._library
        return qat.IntxFakeQuantizeConfig(torch.int8, "per_token", is_symmetric=False)

    @cached_property
    def quantise_inputs(self) -> Any:
        """Inputs [..., D] -> the same, fake-quantised with a scale for each row."""
        qat, _ = self._library
        return qat.IntxFakeQuantizer(self._activation_config)

    def quantise_weights(self, weight: Tensor, along: int) -> Tensor:
        """Return weights with a scale for each output. along: the dimension of the inputs."""
        _, primitives = self._library
        block = [1] * weight.ndim
        block[along] = weight.shape[along]
        bounds = (torch.int8, -LARGEST_WEIGHT, LARGEST_WEIGHT)
        with torch.no_grad():
            scale, zero = primitives.choose_qparams_affine(weight, primitives.MappingType.SYMMETRIC, block, *bounds)
            whole = primitives.quantize_affine(weight, block, scale, zero, *bounds)
            quantised = primitives.dequantize_affine(whole, block, scale, zero, *bounds)
        return cast(Tensor, StraightThrough.apply(weight, quantised))  # type: ignore[no-untyped-call]

    def multiply(self, bias_L1H: Tensor, h_LBD: Tensor, weight_LDH: Tensor) -> Tensor:
        """bias + h @ weight [L, B, H], fake-quantised if the matrix is large."""
        if not is_large(weight_LDH[0]):
            return torch.baddbmm(bias_L1H, h_LBD, weight_LDH)
        return torch.baddbmm(bias_L1H, self.quantise_inputs(h_LBD), self.quantise_weights(weight_LDH, 1))

    def prepare(self, module: nn.Module) -> nn.Module:
        """Return a copy of a module whose large linear layers multiply in this way, with parameters of the same names."""
        qat, _ = self._library
        prepared = deepcopy(module)
        for name, layer in module.named_modules():
            if isinstance(layer, nn.Linear) and is_large(layer.weight):
                linear = qat.FakeQuantizedLinear.from_linear(layer, self._activation_config)
                linear.weight_fake_quantizer = WeightQuantiser(self)
                prepared.set_submodule(name, linear)
        return prepared


class WeightQuantiser(nn.Module):
    """Fake-quantises the weights [H, D] of a linear layer: torchao's own configurations have no range of -64 to 64."""

    def __init__(self, quantiser: FakeQuantiser) -> None:
        super().__init__()
        self._quantiser = quantiser

    def forward(self, weight_HD: Tensor) -> Tensor:
        """Return the quantised weights."""
        return self._quantiser.quantise_weights(weight_HD, 1)


def is_large(weight: Tensor) -> bool:
    """Return whether an export of onnx-int8 has whole numbers for a matrix of this shape, which has fewer rows or columns there if some are spare."""
    return math.prod(weight.shape) >= LEAST_WEIGHTS

"""Forward and backward passes of an MLP's copies over fixed memory, without autograd's graph.

    x_BD -> MlpPass.logits -> logits_LBC -> loss_gradient -> MlpPass.differentiate -> gradient_LP

The operations are those that autograd runs, in the same order, so the bits are equal (a test compares
them). A step of one example is small, and most of its time would be spent on recording and on views of
the flat parameters, which are taken once here.

Shapes: L copies, B rows, D inputs, H width, C classes, P parameters.
"""

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from online.plugins.towers.layout import HEAD_BIAS, HEAD_WEIGHT, ParameterLayout
from online.plugins.towers.networks import EPSILON, Mlp

LOWEST = -30.0  # log-probability of a right class below which its loss no longer grows


class LayerViews(NamedTuple):
    """One layer's tensors [L, ...], as views of flat memory; vectors have a dimension for the rows."""

    weight: Tensor
    bias: Tensor
    gain: Tensor
    shift: Tensor


class Activations(NamedTuple):
    """The results of a layer: its input, the product, its normalised form with its moments, and the output."""

    before: Tensor
    product: Tensor
    normal: Tensor
    mean: Tensor
    deviation: Tensor
    after: Tensor


class FlatViews:
    """Views of flat [L, P] by layer, and of the head."""

    def __init__(self, layout: ParameterLayout, flat_LP: Tensor) -> None:
        assert isinstance(layout.network, Mlp)
        named = layout.views(flat_LP)
        self.layers = [
            LayerViews(named[f"{at}.weight"], *(named[f"{at}.{n}"].unsqueeze(1) for n in ("bias", "gain", "shift")))
            for at in range(len(layout.network.hidden))
        ]
        self.head_weight, self.head_bias = named[HEAD_WEIGHT], named[HEAD_BIAS].unsqueeze(1)


class ForwardPass:
    """The forward pass of copies whose parameters [L, P] are updated in place, by someone else."""

    def __init__(self, layout: ParameterLayout, flat_LP: Tensor) -> None:
        self.views, self.copies = FlatViews(layout, flat_LP), len(flat_LP)

    def logits(self, x_BD: Tensor) -> Tensor:
        """Return logits [L, B, C]."""
        h = x_BD.expand(self.copies, *x_BD.shape)
        for layer in self.views.layers:
            product = torch.baddbmm(layer.bias, h, layer.weight)
            normal = torch.native_layer_norm(product, product.shape[2:], None, None, EPSILON)[0]
            h = torch.addcmul(layer.shift, normal, layer.gain).relu_()
        return torch.baddbmm(self.views.head_bias, h, self.views.head_weight)


class MlpPass:
    """The passes of copies whose parameters [L, P] are updated in place."""

    def __init__(self, layout: ParameterLayout, flat_LP: Tensor) -> None:
        self.views = FlatViews(layout, flat_LP)
        self.gradient_LP = torch.zeros_like(flat_LP)
        self.slopes = FlatViews(layout, self.gradient_LP)
        self.activations: list[Activations] = []

    def logits(self, x_BD: Tensor) -> Tensor:
        """Return logits [L, B, C]. Keeps the activations until the next call."""
        h = x_BD.expand(len(self.gradient_LP), *x_BD.shape)
        self.activations = []
        for layer in self.views.layers:
            product = torch.baddbmm(layer.bias, h, layer.weight)
            normal, mean, deviation = torch.native_layer_norm(product, product.shape[2:], None, None, EPSILON)
            after = torch.addcmul(layer.shift, normal, layer.gain).relu_()
            self.activations.append(Activations(h, product, normal, mean, deviation, after))
            h = after
        return torch.baddbmm(self.views.head_bias, h, self.views.head_weight)

    def differentiate(self, slope_LBC: Tensor) -> Tensor:
        """Return the gradient [L, P] from the one of the last logits. The next call overwrites it."""
        torch.bmm(self.activations[-1].after.transpose(1, 2), slope_LBC, out=self.slopes.head_weight)
        torch.sum(slope_LBC, 1, keepdim=True, out=self.slopes.head_bias)
        slope, weight = slope_LBC, self.views.head_weight
        for layer, into, done in zip(
            reversed(self.views.layers), reversed(self.slopes.layers), reversed(self.activations), strict=True
        ):
            slope = self._differentiate_layer(torch.bmm(slope, weight.transpose(1, 2)), layer, into, done)
            weight = layer.weight
        return self.gradient_LP

    def _differentiate_layer(self, slope_LBH: Tensor, layer: LayerViews, into: LayerViews, done: Activations) -> Tensor:
        """Write a layer's part of the gradient, and return the slope of its product."""
        slope_LBH = torch.ops.aten.threshold_backward(slope_LBH, done.after, 0)
        torch.sum(slope_LBH, 1, keepdim=True, out=into.shift)
        torch.sum(slope_LBH * done.normal, 1, keepdim=True, out=into.gain)
        product_LBH: Tensor = torch.ops.aten.native_layer_norm_backward(
            slope_LBH * layer.gain,
            done.product,
            done.product.shape[2:],
            done.mean,
            done.deviation,
            None,
            None,
            [True, False, False],
        )[0]
        torch.sum(product_LBH, 1, keepdim=True, out=into.bias)
        torch.bmm(done.before.transpose(1, 2), product_LBH, out=into.weight)
        return product_LBH


def log_probabilities(logits_LBC: Tensor, unknown_C: Tensor) -> Tensor:
    """log softmax over the known classes; -inf for the others."""
    return logits_LBC.masked_fill(unknown_C, -torch.inf).log_softmax(2)


def select_labels(logp_LBC: Tensor, label_B: NDArray[np.int64]) -> NDArray[np.float32]:
    """Return the log-probabilities [L, B] of the rows' classes. label_B: of the first B rows."""
    found_LB = logp_LBC.numpy()[:, np.arange(len(label_B)), label_B]
    return np.ascontiguousarray(found_LB)  # sums over rows depend on the order in memory


def loss_gradient(
    logp_LBC: Tensor, unknown_C: Tensor, label_B: NDArray[np.int64], share_B: NDArray[np.float32]
) -> Tensor:
    """Return the gradient [L, B, C] of the weighted -log p of right classes, all of them known, by the logits."""
    slope_LBC = np.zeros(logp_LBC.shape, np.float32)
    slope_LBC[:, np.arange(len(label_B)), label_B] = (
        np.where(select_labels(logp_LBC, label_B) >= LOWEST, -share_B, 0) + 0.0  # autograd has no -0.0 here
    )
    slope = torch.ops.aten._log_softmax_backward_data(torch.from_numpy(slope_LBC), logp_LBC, 2, torch.float32)
    return slope.masked_fill_(unknown_C, 0.0)  # type: ignore[no-any-return]

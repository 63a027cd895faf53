"""Matrix products of a few rows on a CPU, with weights laid out for oneDNN beforehand.

A pass over a draft tree multiplies few rows with every weight. torch's own fp32 product (MKL) takes several times as
long for ten rows as for one; oneDNN, given a weight that was laid out once, does not. In small products its own start
costs more than that saves. `benchmarks/products.py` measures both.
"""

from __future__ import annotations

import platform
from functools import cache

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from jakiro.machine import device_name

SMALLEST = 4096  # parameters of a weight that is laid out: smaller ones never get there
MOST = 4 << 30  # bytes of a model's weights that are kept a second time; larger models keep none


class Product:
    """x [..., in] -> x W^T + b [..., out]."""

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        self.weight, self.bias = weight, bias
        self.laid_out = torch.ops.mkldnn._reorder_linear_weight(weight.detach()) if _gains(weight) else None
        self.worth = worth()

    def __call__(self, x: Tensor) -> Tensor:
        return self.by_onednn(x) if self._pays(x) else F.linear(x, self.weight, self.bias)

    def added(self, residual: Tensor, x: Tensor) -> Tensor:
        """residual [n, out] + x [n, in] W^T; without a bias."""
        if self._pays(x):
            return residual + self.by_onednn(x)
        return torch.addmm(residual, x, self.weight.T)

    def by_onednn(self, x: Tensor) -> Tensor:
        """The product with the laid-out weight, whatever its size."""
        return torch.ops.mkldnn._linear_pointwise(x, self.laid_out, self.bias, "none", [], "")

    def _pays(self, x: Tensor) -> bool:
        """oneDNN's product has no gradient."""
        return self.laid_out is not None and x.numel() * len(self.weight) >= self.worth and not x.requires_grad


@cache
def worth() -> int:
    """Multiplications of a product from which on the laid-out weight is used; MKL is quicker on its maker's processors.

    Measured on two (benchmarks/products-cpu.json, products-xeon.json).
    """
    return 1_600_000 if "Intel" in device_name(torch.device("cpu")) else 400_000


def lay_out(model: nn.Module) -> None:
    """Let a model's linear layers multiply as `Product` does. Its code and its parameters stay as they are."""
    layers = [module for module in model.modules() if type(module) is nn.Linear and _gains(module.weight)]
    if sum(layer.weight.nbytes for layer in layers) <= MOST:
        for layer in layers:
            layer.forward = Product(layer.weight, layer.bias)


def _gains(weight: Tensor) -> bool:
    here = weight.device.type == "cpu" and platform.machine().lower() in ("x86_64", "amd64")
    return (
        here and torch.backends.mkldnn.is_available() and weight.dtype == torch.float32 and weight.numel() >= SMALLEST
    )

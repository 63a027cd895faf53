"""Matrix products of a few rows on a CPU, with weights laid out for them beforehand.

A pass over a draft tree multiplies few rows with every weight. torch's own fp32 product (MKL) takes several times as
long for a few rows as for one where the weight is kept row by row, as `nn.Linear` does. On its maker's processors
it does not where the weight is kept column by column. Elsewhere oneDNN multiplies with large weights, packed once; its
own start costs more than that saves with small ones. `benchmarks/products.py` measures all three. A pass gains so on an
EPYC (products-cpu.json) and on an older Xeon. On a Xeon with AMX single products do, and the pass does not: 20.96 ms
over 10 nodes with weights row by row and 21.18 column by column, over one 13.36 and 14.18 (products-xeon.json).
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
LARGE = 1 << 17  # parameters of a weight from which on it may be packed for oneDNN (benchmarks/products-cpu.json)


class Product:
    """x [..., in] -> x W^T + b [..., out]; `columns` keeps large weights from oneDNN, if a layout gains here at all."""

    def __init__(self, weight: Tensor, bias: Tensor | None = None, columns: bool | None = None) -> None:
        columns = prefers_columns() if columns is None else columns
        self.weight, self.bias, self.packed = weight, bias, None
        if _gains(weight) and not columns and weight.numel() >= LARGE:
            self.packed = torch.ops.mkldnn._reorder_linear_weight(weight.detach())
        elif _gains(weight):
            self.weight = weight.detach().T.contiguous().T

    def __call__(self, x: Tensor) -> Tensor:
        return self._by_onednn(x) if self._packs(x) else F.linear(x, self.weight, self.bias)

    def added(self, residual: Tensor, x: Tensor) -> Tensor:
        """residual [n, out] + x [n, in] W^T; without a bias."""
        if self._packs(x):
            return residual + self._by_onednn(x)
        return torch.addmm(residual, x, self.weight.T)

    def _by_onednn(self, x: Tensor) -> Tensor:
        return torch.ops.mkldnn._linear_pointwise(x, self.packed, self.bias, "none", [], "")

    def _packs(self, x: Tensor) -> bool:
        """oneDNN's product has no gradient."""
        return self.packed is not None and not x.requires_grad


@cache
def prefers_columns() -> bool:
    """Whether MKL is quicker than oneDNN here whatever the size: on its maker's processors (products-xeon.json)."""
    return "Intel" in device_name(torch.device("cpu"))


def lay_out(model: nn.Module, columns: bool | None = None) -> None:
    """Let a model's linear layers multiply as `Product` does. Its code and its parameters stay as they are."""
    layers = [module for module in model.modules() if type(module) is nn.Linear and _gains(module.weight)]
    if sum(layer.weight.nbytes for layer in layers) <= MOST:
        for layer in layers:
            layer.forward = Product(layer.weight, layer.bias, columns)


def _gains(weight: Tensor) -> bool:
    here = weight.device.type == "cpu" and platform.machine().lower() in ("x86_64", "amd64")
    return (
        here and torch.backends.mkldnn.is_available() and weight.dtype == torch.float32 and weight.numel() >= SMALLEST
    )

"""Matrix products of a few rows on a CPU, with weights laid out for them beforehand.

A pass over a draft tree multiplies few rows with every weight. torch's own fp32 product (MKL) takes several times as
long for a few rows as for one where the weight is kept row by row, as `nn.Linear` does. What is quicker depends on the
processor and on the weight's size (`benchmarks/products.py` measures each way, products-*.json):

- columns: the weight column by column, for MKL.
- onednn: large weights packed for oneDNN, whose own start costs more than that saves with small ones.
- halves: large weights in float16, packed for FBGEMM, which multiplies in float32 and so has half as much to read. Only
  where float16 holds them: what a checkpoint has in 16 bits, as most do.
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from jakiro.machine import device_name

SMALLEST = 4096  # parameters of a weight that is laid out: smaller ones never get there
MOST = 4 << 30  # bytes of a model's weights that are kept a second time; larger models keep none
LARGE = {"onednn": 1 << 17, "halves": 1 << 19}  # parameters from which on a weight is packed; below: columns
FEW = 64  # rows for which halves are quicker
FBGEMM = ("x86", "fbgemm")  # torch's engines that have it


class Product:
    """x [..., in] -> x W^T + b [..., out]. `way`: how a weight in fp32 is laid out, if that gains here at all."""

    def __init__(self, weight: Tensor, bias: Tensor | None = None, way: str | None = None) -> None:
        self.weight, self.bias, way = weight, bias, way or usual_way()
        self._packed: Callable[[Tensor], Tensor] | None = None
        self.nbytes = weight.nbytes  # that a product of few rows reads of the weight
        if not _gains(weight):
            return
        if way == "onednn" and weight.numel() >= LARGE[way]:
            self._packed = by_onednn(weight, bias)
        elif way == "halves" and weight.numel() >= LARGE[way] and fits_halves(weight):
            self._packed, self.nbytes = by_fbgemm(weight, bias), weight.nbytes // 2
        else:
            self.weight = weight.detach().T.contiguous().T

    def __call__(self, x: Tensor) -> Tensor:
        return self._packed(x) if self._packs(x) else F.linear(x, self.weight, self.bias)

    def added(self, residual: Tensor, x: Tensor) -> Tensor:
        """residual [n, out] + x [n, in] W^T; without a bias."""
        if self._packs(x):
            return residual + self._packed(x)
        return torch.addmm(residual, x, self.weight.T)

    def _packs(self, x: Tensor) -> bool:
        """Products with packed weights have no gradient."""
        return self._packed is not None and not x.requires_grad


def by_onednn(weight: Tensor, bias: Tensor | None = None) -> Callable[[Tensor], Tensor]:
    """A product of rows in float32 with a weight in oneDNN's layout."""
    packed = torch.ops.mkldnn._reorder_linear_weight(weight.detach())
    return lambda x: torch.ops.mkldnn._linear_pointwise(x, packed, bias, "none", [], "")


def by_fbgemm(weight: Tensor, bias: Tensor | None = None) -> Callable[[Tensor], Tensor]:
    """A product of rows in float32 with a weight in float16; of many rows with the weight as it is."""
    weight = weight.detach().contiguous()
    packed = torch.ops.quantized.linear_prepack_fp16(weight, bias)

    def multiply(x: Tensor) -> Tensor:
        few = x.numel() <= FEW * x.shape[-1]
        return torch.ops.quantized.linear_dynamic_fp16(x, packed) if few else F.linear(x, weight, bias)

    return multiply


def fits_halves(weight: Tensor) -> bool:
    """Whether float16 holds weights as well as float32 multiplies: off by what it rounds, in the mean square."""
    off = weight.half().float() - weight
    return bool(off.norm() <= torch.finfo(torch.float32).eps * weight.norm())


@cache
def usual_way() -> str:
    """What is quickest here: on Intel's processors MKL and FBGEMM (products-xeon.json), on others MKL and oneDNN."""
    if "Intel" not in device_name(torch.device("cpu")):
        return "onednn"
    return "halves" if torch.backends.quantized.engine in FBGEMM else "columns"


def lay_out(model: nn.Module, way: str | None = None) -> None:
    """Let a model's linear layers multiply as `Product` does. Its code and its parameters stay as they are."""
    layers = [module for module in model.modules() if type(module) is nn.Linear and _gains(module.weight)]
    if sum(layer.weight.nbytes for layer in layers) <= MOST:
        for layer in layers:
            layer.forward = Product(layer.weight, layer.bias, way)


def spared_bytes(model: nn.Module) -> int:
    """Bytes of a model's weights that a pass of few rows need not read, since they are laid out in fewer."""
    laid_out = [(module.weight, vars(module).get("forward")) for module in model.modules() if type(module) is nn.Linear]
    return sum(weight.nbytes - product.nbytes for weight, product in laid_out if isinstance(product, Product))


def _gains(weight: Tensor) -> bool:
    here = weight.device.type == "cpu" and platform.machine().lower() in ("x86_64", "amd64")
    return (
        here and torch.backends.mkldnn.is_available() and weight.dtype == torch.float32 and weight.numel() >= SMALLEST
    )

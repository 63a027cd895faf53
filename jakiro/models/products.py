"""Matrix products of a few rows on a CPU, with weights laid out for them beforehand.

A pass over a draft tree multiplies few rows with every weight. torch's own fp32 product (MKL) takes several times as
long for a few rows as for one where the weight is kept row by row, as `nn.Linear` does. What is quicker depends on the
processor and on the weight's size (`benchmarks/products.py` measures each way, products-*.json):

- columns: the weight column by column, for MKL.
- onednn: packed for oneDNN.
- halves: in float16, packed for FBGEMM, which multiplies in float32 and so has half as much to read. Only where float16
  holds the weight: what a checkpoint has in 16 bits, as most do.
"""

from __future__ import annotations

import math
import platform
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from jakiro.machine import device_name

SMALLEST = 4096  # parameters of a weight that is laid out: smaller ones never get there
MOST = 4 << 30  # bytes of a model's weights that are kept a second time; larger models keep none
FBGEMM = ("x86", "fbgemm")  # torch's engines that have it


class Layout(NamedTuple):
    """One way, and where it is the quickest."""

    way: str
    smallest: int = SMALLEST  # parameters of a weight: products with smaller ones cost less than the way's own start
    rows: float = math.inf  # of more of them a product is made with the weight as it is

    def takes(self, weight: Tensor) -> bool:
        """Whether a weight is large enough and can be laid out so."""
        return weight.numel() >= self.smallest and (self.way != "halves" or fits_halves(weight))


Plan = tuple[Layout, ...]  # the first that takes a weight; without any it stays as it is
INTEL = (Layout("halves", 1 << 19, rows=64), Layout("columns"))  # products-xeon.json
OTHERS = (Layout("halves", 1 << 16), Layout("onednn", 1 << 16))  # products-cpu.json


class Product:
    """x [..., in] -> x W^T + b [..., out]. `plan`: how a weight in fp32 is laid out, if that gains here at all."""

    def __init__(self, weight: Tensor, bias: Tensor | None = None, plan: Plan | None = None) -> None:
        self.weight, self.bias = weight, bias
        self._packed: Callable[[Tensor], Tensor] | None = None
        self._most = math.inf  # rows of a product with it
        self.nbytes = weight.nbytes  # that a product of few rows reads of the weight
        plan = usual_plan() if plan is None else plan
        layout = next((one for one in plan if one.takes(weight)), None) if _gains(weight) else None
        if layout is None:
            return
        if layout.way == "columns":
            self.weight = weight.detach().T.contiguous().T
            return
        self._most = layout.rows
        if layout.way == "onednn":
            self._packed = by_onednn(weight, bias)
        else:
            self._packed, self.nbytes = by_fbgemm(weight, bias), weight.nbytes // 2

    def __call__(self, x: Tensor) -> Tensor:
        return self._packed(x) if self._packs(x) else F.linear(x, self.weight, self.bias)

    def added(self, residual: Tensor, x: Tensor) -> Tensor:
        """residual [n, out] + x [n, in] W^T; without a bias."""
        if self._packs(x):
            return residual + self._packed(x)
        return torch.addmm(residual, x, self.weight.T)

    def _packs(self, x: Tensor) -> bool:
        """Products with packed weights have no gradient."""
        return self._packed is not None and not x.requires_grad and x.numel() <= self._most * x.shape[-1]


def by_onednn(weight: Tensor, bias: Tensor | None = None) -> Callable[[Tensor], Tensor]:
    """A product of rows in float32 with a weight in oneDNN's layout."""
    packed = torch.ops.mkldnn._reorder_linear_weight(weight.detach())
    return lambda x: torch.ops.mkldnn._linear_pointwise(x, packed, bias, "none", [], "")


def by_fbgemm(weight: Tensor, bias: Tensor | None = None) -> Callable[[Tensor], Tensor]:
    """A product of rows in float32 with a weight in float16."""
    packed = torch.ops.quantized.linear_prepack_fp16(weight.detach().contiguous(), bias)
    return lambda x: torch.ops.quantized.linear_dynamic_fp16(x, packed)


def fits_halves(weight: Tensor) -> bool:
    """Whether float16 holds weights as well as float32 multiplies: off by what it rounds, in the mean square."""
    off = weight.half().float() - weight
    return bool(off.norm() <= torch.finfo(torch.float32).eps * weight.norm())


@cache
def usual_plan() -> Plan:
    """What is quickest here."""
    plan = INTEL if "Intel" in device_name(torch.device("cpu")) else OTHERS
    return tuple(one for one in plan if one.way != "halves" or torch.backends.quantized.engine in FBGEMM)


def lay_out(model: nn.Module, plan: Plan | None = None) -> None:
    """Let a model's linear layers multiply as `Product` does. Its code and its parameters stay as they are."""
    layers = [module for module in model.modules() if type(module) is nn.Linear and _gains(module.weight)]
    if sum(layer.weight.nbytes for layer in layers) <= MOST:
        for layer in layers:
            layer.forward = Product(layer.weight, layer.bias, plan)


def spared_bytes(model: nn.Module) -> int:
    """Bytes of a model's weights that a pass of few rows need not read, since they are laid out in fewer."""
    laid_out = [(module.weight, vars(module).get("forward")) for module in model.modules() if type(module) is nn.Linear]
    return sum(weight.nbytes - product.nbytes for weight, product in laid_out if isinstance(product, Product))


def _gains(weight: Tensor) -> bool:
    here = weight.device.type == "cpu" and platform.machine().lower() in ("x86_64", "amd64")
    return (
        here and torch.backends.mkldnn.is_available() and weight.dtype == torch.float32 and weight.numel() >= SMALLEST
    )

"""Matrix products of a few rows on a CPU, with weights laid out for them beforehand.

A pass over a draft tree multiplies few rows with every weight. torch's own fp32 product (MKL) takes two to six times
as long for ten rows as for one where the weight is kept row by row, as `nn.Linear` does. What is quicker depends on the
processor and on the weight's size (`benchmarks/products.py` measures each way, products-*.json):

- columns: the weight column by column, for MKL.
- onednn: packed for oneDNN.
- halves: in float16, packed for FBGEMM, which multiplies in float32 and so has half as much to read. Only where float16
  holds the weight: what a checkpoint has in 16 bits, as most do.
"""

from __future__ import annotations

import math
import platform
import threading
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from jakiro.machine import device_name

SMALLEST = 4096  # parameters of a weight that is laid out: smaller ones never get there
MOST = 4 << 30  # bytes of a model's weights that are kept a second time; larger models keep none
TOGETHER = (("q_proj", "k_proj", "v_proj"), ("gate_proj", "up_proj"))  # layers of one module that read the same tensor
EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")  # what configs call their number
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
INTEL = (Layout("halves", 1 << 16, rows=64), Layout("columns"))  # products-xeon.json
OTHERS = (Layout("halves", 1 << 16), Layout("onednn", 1 << 16))  # products-cpu.json


class Packed(NamedTuple):
    """A weight laid out for a kernel of its own."""

    multiply: Callable[[Tensor], Tensor]
    rows: float  # of more of them a product is made with the weight as it is
    nbytes: int  # that a product of few rows reads of the weight

    def takes(self, x: Tensor) -> bool:
        """Products with packed weights have no gradient."""
        return not x.requires_grad and x.numel() <= self.rows * x.shape[-1]


class Product:
    """x [..., in] -> x W^T + b [..., out]. `plan`: how a weight in fp32 is laid out, if that gains here at all."""

    def __init__(self, weight: Tensor, bias: Tensor | None = None, plan: Plan | None = None) -> None:
        self.weight, self.bias = weight, bias
        layout = _layout(weight, plan)
        self._packed = layout and pack(weight, bias, layout)
        self.nbytes = self._packed.nbytes if self._packed else weight.nbytes  # that a product of few rows reads of it
        if layout and not self._packed:
            self.weight = weight.detach().T.contiguous().T

    def __call__(self, x: Tensor) -> Tensor:
        return self._packed.multiply(x) if self._packs(x) else F.linear(x, self.weight, self.bias)

    def added(self, residual: Tensor, x: Tensor) -> Tensor:
        """residual [n, out] + x [n, in] W^T; without a bias."""
        if self._packs(x):
            return residual + self._packed.multiply(x)
        return torch.addmm(residual, x, self.weight.T)

    def _packs(self, x: Tensor) -> bool:
        return self._packed is not None and self._packed.takes(x)


class Joint:
    """Linear layers that read the same tensor, as one product: the first that is called multiplies for all of them."""

    def __init__(self, sizes: Sequence[int], packed: Packed) -> None:
        self.packed, self.sizes = packed, list(sizes)
        self._last = threading.local()  # what it was called with, and what the others have not taken yet

    def part(self, at: int, x: Tensor) -> Tensor:
        """What the layer of that number makes of x."""
        last = vars(self._last)
        if last.get("x") is not x or at not in last["parts"]:
            last |= {"x": x, "parts": dict(enumerate(self.packed.multiply(x).split(self.sizes, -1)))}
        found = last["parts"].pop(at)
        if not last["parts"]:
            last.clear()
        return found


class Part:
    """One layer of several."""

    def __init__(self, joint: Joint, at: int, layer: nn.Linear) -> None:
        self.weight, self.bias = layer.weight, layer.bias
        self._joint, self._at = joint, at
        self.nbytes = joint.packed.nbytes * len(layer.weight) // sum(joint.sizes)

    def __call__(self, x: Tensor) -> Tensor:
        return self._joint.part(self._at, x) if self._joint.packed.takes(x) else F.linear(x, self.weight, self.bias)


def pack(weight: Tensor, bias: Tensor | None, layout: Layout) -> Packed | None:
    """The weight packed; None where the layout is another order of its numbers alone."""
    if layout.way == "onednn":
        return Packed(by_onednn(weight, bias), layout.rows, weight.nbytes)
    return Packed(by_fbgemm(weight, bias), layout.rows, weight.nbytes // 2) if layout.way == "halves" else None


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
    """Let a model's linear layers multiply as `Product` does, and as a `Joint` where they read the same. Its code and
    its parameters stay as they are."""
    layers = [module for module in model.modules() if type(module) is nn.Linear and _gains(module.weight)]
    if sum(layer.weight.nbytes for layer in layers) > MOST:
        return
    groups = [[getattr(parent, name, None) for name in names] for parent in model.modules() for names in TOGETHER]
    joined = [one for group in groups if all(one in layers for one in group) and join(group, plan) for one in group]
    for layer in layers:
        if layer not in joined:
            layer.forward = Product(layer.weight, layer.bias, plan)


def join(layers: Sequence[nn.Linear], plan: Plan | None = None) -> bool:
    """Let layers multiply as one, if their weights can be packed together."""
    weight = torch.cat([layer.weight.detach() for layer in layers])
    biases = [layer.bias.detach() for layer in layers if layer.bias is not None]
    layout = _layout(weight, plan) if len(biases) in (0, len(layers)) else None
    packed = layout and pack(weight, torch.cat(biases) if biases else None, layout)
    if packed:
        joint = Joint([len(layer.weight) for layer in layers], packed)
        for at, layer in enumerate(layers):
            layer.forward = Part(joint, at, layer)
    return bool(packed)


def spared_bytes(model: nn.Module) -> int:
    """Bytes of a model's weights that a pass of few rows need not read, since they are laid out in fewer."""
    laid_out = [(module.weight, vars(module).get("forward")) for module in model.modules() if type(module) is nn.Linear]
    return sum(weight.nbytes - product.nbytes for weight, product in laid_out if isinstance(product, (Product, Part)))


def read_by_pass(target: Any) -> tuple[int, int] | None:
    """Bytes and number of the parameters that every pass reads: the decoder's and the output embedding's.

    `target` is a `jakiro.target.Target`. Of other embeddings it takes a few rows, and parts for pictures or sound it
    leaves alone. None for a mixture of experts, whose tokens choose what is read.
    """
    config = target.model.config.get_text_config(decoder=True)
    if any(getattr(config, name, None) not in (None, 0, 1) for name in EXPERTS):
        return None
    tables = {one.weight for one in target.decoder.modules() if isinstance(one, nn.Embedding)}
    output = target.model.get_output_embeddings()
    found = ({*target.decoder.parameters()} - tables) | {*output.parameters()}
    spared = spared_bytes(target.decoder) + spared_bytes(output)
    return sum(one.nbytes for one in found) - spared, sum(one.numel() for one in found)


def _layout(weight: Tensor, plan: Plan | None) -> Layout | None:
    plan = usual_plan() if plan is None else plan
    return next((one for one in plan if one.takes(weight)), None) if _gains(weight) else None


def _gains(weight: Tensor) -> bool:
    here = weight.device.type == "cpu" and platform.machine().lower() in ("x86_64", "amd64")
    return (
        here and torch.backends.mkldnn.is_available() and weight.dtype == torch.float32 and weight.numel() >= SMALLEST
    )

"""What weights that are laid out beforehand save on a CPU: `python -m benchmarks.products`.

`products`: for each shape of the target's weights and of its heads', one product of so many rows as torch makes it by
itself, with the weight kept column by column, packed for oneDNN, and packed for FBGEMM in float16. `passes`: the
target's pass over a tree of n nodes, its picks included, in the same four ways, the packed ones with large weights
alone and columns for the others. jakiro/models/products.py chooses between the last two by the processor: `used` says
which it takes here. Medians; the ways take turns.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from benchmarks import common
from jakiro.assets import TARGET
from jakiro.commands.arguments import positive
from jakiro.measuring.limits import timed
from jakiro.measuring.rehearsal import verify_cost
from jakiro.methods import METHODS, on_heads
from jakiro.models.products import Product, by_fbgemm, by_onednn, lay_out, usual_way
from jakiro.target import Target

SCHEMA = "jakiro-products/3"
TURNS, CALLS = 9, 40
PLAIN = "plain"  # beside the ways of jakiro/models/products.py: not laid out at all
WAYS = (PLAIN, "columns", "onednn", "halves")


@torch.inference_mode()
def product_row(weight: torch.Tensor, rows: int) -> dict[str, Any]:
    """One product of `rows` rows, in four ways."""
    x = torch.randn(rows, weight.shape[1])
    makers = (partial(F.linear, weight=weight), Product(weight, way="columns"), by_onednn(weight), by_fbgemm(weight))
    works = {way: partial(multiply, x) for way, multiply in zip(WAYS, makers, strict=True)}
    found: dict[str, list[float]] = {way: [] for way in WAYS}
    for _ in range(TURNS):
        for way, work in works.items():
            found[way] += timed(weight.device, work, CALLS)
    return {"out": len(weight), "in": weight.shape[1], "rows": rows} | _medians(found)


def passes(target: Target, nodes: Sequence[int]) -> list[dict[str, Any]]:
    """Target passes, the four ways in turns; each lays its weights out once, as a target does."""
    laid_out = {way: _laid_out(target.model, way) for way in WAYS}
    found: dict[int, dict[str, list[float]]] = {n: {way: [] for way in WAYS} for n in nodes}
    for _ in range(TURNS):
        for way, products in laid_out.items():
            _choose(target.model, products)
            for n, seconds in verify_cost(target, nodes).items():
                found[n][way].append(seconds)
    return [{"nodes": n} | _medians(times) for n, times in found.items()]


def _medians(found: dict[str, list[float]]) -> dict[str, float]:
    return {f"{way}_s": median(times) for way, times in found.items()}


def _laid_out(model: nn.Module, way: str) -> dict[nn.Module, Product]:
    """The model's layers that are laid out so, and what multiplies in their place."""
    _choose(model, {})
    if way != PLAIN:
        lay_out(model, way)
    return {module: product for module in model.modules() if (product := _product_of(module))}


def _choose(model: nn.Module, products: dict[nn.Module, Product]) -> None:
    for module in model.modules():
        if _product_of(module):
            del module.forward
    for module, product in products.items():
        module.forward = product


def _product_of(module: nn.Module) -> Product | None:
    found = vars(module).get("forward")
    return found if isinstance(found, Product) else None


def report(options: argparse.Namespace) -> tuple[dict[str, Any], list[common.Table]]:
    target = Target.load(options.target)
    weights = {tuple(one.shape): one.contiguous() for one in [*_weights(target.model), *_weights_of_heads(target)]}
    laid_out = [one for one in weights.values() if Product(one, way="columns").weight is not one]
    if not laid_out:
        raise ValueError("no weight of this target is laid out here (fp32 on x86 alone); there is nothing to compare")
    rows = [product_row(weight, count) for weight in laid_out for count in options.rows]
    found = {"used": usual_way(), "products": rows, "passes": passes(target, options.nodes)}
    head = common.head(SCHEMA, target.device) | {"target": target.name, "dtype": "float32"}
    return head | found, [[_product(row) for row in rows], [_pass(row) for row in found["passes"]]]


def _weights(model: nn.Module) -> list[torch.Tensor]:
    return [one.weight for one in model.modules() if type(one) is nn.Linear]


def _weights_of_heads(target: Target) -> list[torch.Tensor]:
    """As decoding has them, several in one."""
    methods = [METHODS[name] for name in on_heads() if name in target.heads]
    heads = [method.load(target)(method.defaults(target)).head for method in methods]
    return [part.weight for head in heads for part in vars(head).values() if isinstance(part, Product)]


def _product(row: dict[str, Any]) -> dict[str, str]:
    shape = {"weight": f"{row['out']} × {row['in']}", "rows": str(row["rows"])}
    return shape | _ways(row, "µs", 1e6)


def _pass(row: dict[str, Any]) -> dict[str, str]:
    return {"nodes": str(row["nodes"])} | _ways(row, "ms", 1e3)


def _ways(row: dict[str, Any], unit: str, scale: float) -> dict[str, str]:
    return {f"{way} {unit}": common.cell(row[f"{way}_s"], scale=scale) for way in WAYS}


def main(argv: Sequence[str] | None = None) -> int:
    parser = common.parser("products", __doc__)
    parser.add_argument("--target", type=Path, default=TARGET, help="folder or hub id (default: the embedded model)")
    parser.add_argument("--rows", type=positive, nargs="+", default=[1, 5, 10, 60], help="(default: %(default)s)")
    parser.add_argument("--nodes", type=positive, nargs="+", default=[1, 5, 10, 60], help="(default: %(default)s)")
    return common.run(parser, report, argv)


if __name__ == "__main__":
    raise SystemExit(main())

"""What weights that are laid out for oneDNN beforehand save on a CPU: `python -m benchmarks.products`.

`products`: for each shape of the target's weights, one product of so many rows as torch makes it by itself and with the
weight laid out (the choice between the two is `worth` in jakiro/products.py). `passes`: the target's pass over a tree
of n nodes, its picks included, without and with them. Medians; both ways take turns.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from benchmarks import common
from jakiro import products
from jakiro.assets import TARGET
from jakiro.limits import timed
from jakiro.products import Product, lay_out
from jakiro.rehearsal import verify_cost
from jakiro.target import Target

SCHEMA = "jakiro-products/1"
TURNS, CALLS = 9, 40


@torch.inference_mode()
def product_row(weight: torch.Tensor, rows: int) -> dict[str, Any]:
    """One product of `rows` rows, both ways."""
    x, made = torch.randn(rows, weight.shape[1]), Product(weight)
    ways = {"plain_s": lambda: F.linear(x, weight), "laid_out_s": lambda: made.by_onednn(x)}
    found: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(TURNS):
        for name, work in ways.items():
            found[name] += timed(weight.device, work, CALLS)
    used = rows * weight.numel() >= products.worth()
    return {"out": len(weight), "in": weight.shape[1], "rows": rows, "used": used} | {
        name: median(times) for name, times in found.items()
    }


def passes(target: Target, nodes: Sequence[int]) -> list[dict[str, Any]]:
    """Target passes, both ways in turns."""
    ways: dict[str, dict[int, list[float]]] = {name: {n: [] for n in nodes} for name in ("plain_s", "laid_out_s")}
    for _ in range(TURNS):
        for name, found in ways.items():
            _choose(target.model, name == "laid_out_s")
            for n, seconds in verify_cost(target, nodes).items():
                found[n].append(seconds)
    return [{"nodes": n} | {name: median(found[n]) for name, found in ways.items()} for n in nodes]


def _choose(model: nn.Module, laid_out: bool) -> None:
    for module in model.modules():
        if isinstance(vars(module).get("forward"), Product):
            del module.forward
    if laid_out:
        lay_out(model)


def report(options: argparse.Namespace) -> tuple[dict[str, Any], list[common.Table]]:
    target = Target.load(options.target)
    weights = {tuple(one.weight.shape): one.weight for one in target.model.modules() if type(one) is nn.Linear}
    laid_out = [one for one in weights.values() if Product(one).laid_out is not None]
    if not laid_out:
        raise ValueError("no weight of this target is laid out here (fp32 on x86 alone); there is nothing to compare")
    rows = [product_row(weight, count) for weight in laid_out for count in options.rows]
    found = {"products": rows, "passes": passes(target, options.nodes)}
    head = common.head(SCHEMA, target.device) | {"target": target.name, "dtype": "float32"}
    return head | found, [[_product(row) for row in rows], [_pass(row) for row in found["passes"]]]


def _product(row: dict[str, Any]) -> dict[str, str]:
    shape = {"weight": f"{row['out']} × {row['in']}", "rows": str(row["rows"])}
    return shape | _both(row, "µs", 1e6) | {"used": "yes" if row["used"] else ""}


def _pass(row: dict[str, Any]) -> dict[str, str]:
    return {"nodes": str(row["nodes"])} | _both(row, "ms", 1e3)


def _both(row: dict[str, Any], unit: str, scale: float) -> dict[str, str]:
    cells = {f"plain {unit}": row["plain_s"], f"laid out {unit}": row["laid_out_s"]}
    return {name: common.cell(value, scale=scale) for name, value in cells.items()}


def main(argv: Sequence[str] | None = None) -> int:
    parser = common.parser("products", __doc__)
    parser.add_argument("--target", type=Path, default=TARGET, help="folder or hub id (default: the embedded model)")
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 5, 10, 60], help="(default: %(default)s)")
    parser.add_argument("--nodes", type=int, nargs="+", default=[1, 5, 10, 60], help="(default: %(default)s)")
    return common.run(parser, report, argv)


if __name__ == "__main__":
    raise SystemExit(main())

"""What weights that are laid out beforehand save on a CPU: `python -m benchmarks.products`.

`products`: for each shape of the target's weights and of its heads', one product of so many rows as torch makes it by
itself, with the weight kept column by column, packed for oneDNN, and packed for FBGEMM in float16, each from a tape, as
passes are: from Python some begin later than others. `passes`: the target's pass over a tree of n nodes, a walk's picks
included, as torch makes its products, with all weights in columns or all packed for oneDNN, and as
jakiro/models/products.py lays them out on an Intel processor and on others. `drafts`: those of its heads for one text,
likewise. `used` says which of these this processor gets. Medians; the ways take turns.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

import torch
from torch import nn
from torch.nn import functional as F

from benchmarks import common
from jakiro.assets import TARGET
from jakiro.commands.arguments import positive
from jakiro.drafting.eagle3_head import Eagle3Head
from jakiro.drafting.head import Head
from jakiro.engine import record
from jakiro.measuring.limits import timed
from jakiro.measuring.prompts import examples
from jakiro.measuring.rehearsal import verify_cost
from jakiro.methods import METHODS, on_heads
from jakiro.models import products as layouts
from jakiro.models.products import INTEL, OTHERS, Layout, Part, Plan, Product, by_fbgemm, by_onednn, lay_out, usual_plan
from jakiro.tape import Tape
from jakiro.target import Target
from jakiro.text import encode
from jakiro.verify import GREEDY

SCHEMA = "jakiro-products/5"
TURNS, CALLS = 9, 40
NEW_TOKENS = 48  # of a text that is drafted for
COLUMNS: Plan = (Layout("columns"),)
WAYS = ("plain", "columns", "onednn", "halves")  # of one product
PLANS = {"plain": (), "columns": COLUMNS, "onednn": (Layout("onednn"),), "intel": INTEL, "others": OTHERS}
LaidOut = dict[str, dict[nn.Module, Product | Part]]  # by plan: a model's layers, and what multiplies in their place


@torch.inference_mode()
def product_row(weight: torch.Tensor, rows: int) -> dict[str, Any]:
    """One product of `rows` rows, in four ways."""
    x = torch.randn(rows, weight.shape[1])
    makers = (partial(F.linear, weight=weight), Product(weight, plan=COLUMNS), by_onednn(weight), by_fbgemm(weight))
    works = {way: partial(Tape(partial(multiply, x), [x]), [x]) for way, multiply in zip(WAYS, makers, strict=True)}
    found: dict[str, list[float]] = {way: [] for way in WAYS}
    for _ in range(TURNS):
        for way, work in works.items():
            found[way] += timed(weight.device, work, CALLS)
    return {"out": len(weight), "in": weight.shape[1], "rows": rows} | _medians(found)


def passes(target: Target, nodes: Sequence[int], laid_out: LaidOut) -> list[dict[str, Any]]:
    """Target passes, the plans in turns."""
    found: dict[int, dict[str, list[float]]] = {n: {plan: [] for plan in laid_out} for n in nodes}
    for _ in range(TURNS):
        for plan, products in laid_out.items():
            _choose(target, products)
            for n, seconds in verify_cost(target, nodes).items():
                found[n][plan].append(seconds)
    return [{"nodes": n} | _medians(times) for n, times in found.items()]


def drafts(target: Target, laid_out: LaidOut) -> list[dict[str, Any]]:
    """Draft seconds of each head's rounds on one text, after those in which it reads the prompt."""
    prompt, found = encode(target.tokenizer, examples()[0].text), []
    for name in _heads(target):
        settings, makers = METHODS[name].defaults(target), {}
        for plan, usual in PLANS.items():
            with patch.object(layouts, "usual_plan", return_value=usual):
                makers[plan] = METHODS[name].load(target)
        times: dict[str, list[float]] = {plan: [] for plan in makers}
        for _ in range(TURNS):
            for plan, make in makers.items():
                _choose(target, laid_out[plan])
                run = record(target, make(settings), prompt, NEW_TOKENS, GREEDY, name, settings)
                times[plan] += [step.draft_s for step in run.steps[common.SETTLE :]]
        found.append({"method": name, "nodes": settings.total_tokens} | _medians(times))
    return found


def _medians(found: dict[str, list[float]]) -> dict[str, float]:
    return {f"{way}_s": median(times) for way, times in found.items()}


def _laid_out(target: Target, plan: Plan) -> dict[nn.Module, Product | Part]:
    """The model's layers, and what multiplies in their place."""
    _choose(target, {})
    lay_out(target.model, plan)
    return {module: product for module in target.model.modules() if (product := _product_of(module))}


def _choose(target: Target, products: dict[nn.Module, Product | Part]) -> None:
    for module in target.model.modules():
        if _product_of(module):
            del module.forward
    for module, product in products.items():
        module.forward = product
    target.record_passes(target.tapes is not None)  # those before have other products on them


def _product_of(module: nn.Module) -> Product | Part | None:
    found = vars(module).get("forward")
    return found if isinstance(found, (Product, Part)) else None


def report(options: argparse.Namespace) -> tuple[dict[str, Any], list[common.Table]]:
    target = Target.load(options.target)
    weights = {tuple(one.shape): one.contiguous() for one in [*_weights(target.model), *_weights_of_heads(target)]}
    gaining = [one for one in weights.values() if Product(one, plan=COLUMNS).weight is not one]
    if not gaining:
        raise ValueError("no weight of this target is laid out here (fp32 on x86 alone); there is nothing to compare")
    rows = [product_row(weight, count) for weight in gaining for count in options.rows]
    laid_out = {name: _laid_out(target, plan) for name, plan in PLANS.items()}  # once, as a target does
    used = next((name for name, plan in PLANS.items() if plan == usual_plan()), None)
    found = {"used": used, "products": rows, "passes": passes(target, options.nodes, laid_out)}
    found["drafts"] = drafts(target, laid_out)
    lines = {"products": _product, "passes": _pass, "drafts": _draft}
    head = common.head(SCHEMA, target.device) | {"target": target.name, "dtype": "float32"}
    return head | found, [[line(row) for row in found[part]] for part, line in lines.items()]


def _weights(model: nn.Module) -> list[torch.Tensor]:
    return [one.weight for one in model.modules() if type(one) is nn.Linear]


def _weights_of_heads(target: Target) -> list[torch.Tensor]:
    """As decoding has them, several in one."""
    methods = [METHODS[name] for name in _heads(target)]
    heads = [method.load(target)(method.defaults(target)).head for method in methods]
    return [part.weight for head in heads for part in vars(head).values() if isinstance(part, Product)]


def _heads(target: Target) -> list[str]:
    return [name for name in on_heads((Head, Eagle3Head)) if name in target.heads]


def _product(row: dict[str, Any]) -> dict[str, str]:
    shape = {"weight": f"{row['out']} × {row['in']}", "rows": str(row["rows"])}
    return shape | _ways(row, "µs", 1e6)


def _pass(row: dict[str, Any]) -> dict[str, str]:
    return {"nodes": str(row["nodes"])} | _ways(row, "ms", 1e3)


def _draft(row: dict[str, Any]) -> dict[str, str]:
    return {"draft of": row["method"], "nodes": str(row["nodes"])} | _ways(row, "ms", 1e3)


def _ways(row: dict[str, Any], unit: str, scale: float) -> dict[str, str]:
    ways = [key.removesuffix("_s") for key in row if key.endswith("_s")]
    return {f"{way} {unit}": common.cell(row[f"{way}_s"], scale=scale) for way in ways}


def main(argv: Sequence[str] | None = None) -> int:
    parser = common.parser("products", __doc__)
    parser.add_argument("--target", type=Path, default=TARGET, help="folder or hub id (default: the embedded model)")
    parser.add_argument("--rows", type=positive, nargs="+", default=[1, 5, 10, 60], help="(default: %(default)s)")
    parser.add_argument("--nodes", type=positive, nargs="+", default=[1, 5, 10, 60], help="(default: %(default)s)")
    return common.run(parser, report, argv)


if __name__ == "__main__":
    raise SystemExit(main())

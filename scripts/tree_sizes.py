"""Which draft tree pays on this machine: `python -m scripts.tree_sizes --prompts FILE.jsonl ... --out sizes.json`.

Two measurements on one target: what verifying n nodes costs against one (`cost`), and tokens per second of each method
over a grid of trees, interleaved prompt by prompt (`grid`). The default tree of `drafting/sizes.py` comes from here.
`make tree-sizes` measures benchmarks/tree-sizes-cpu.json anew.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

from benchmarks import common
from jakiro import bench
from jakiro.assets import TARGET
from jakiro.commands.arguments import at_least, positive
from jakiro.measuring.prompts import Prompt, read_prompts
from jakiro.measuring.rehearsal import verify_cost
from jakiro.measuring.report import means
from jakiro.settings import build
from jakiro.target import Target
from jakiro.verify import Sampling

SCHEMA = "jakiro-tree-sizes/1"
NODES = (1, 2, 4, 8, 10, 12, 14, 16, 20, 24, 32, 48, 60)
REPEATS = 25
BEST = 12  # trees in the table
TREE = ("top_k", "depth", "total_tokens", "draft_temperature")


def grid(
    target: Target, prompts: list[Prompt], trees: list[dict[str, float]], budget: int, sampling: Sampling
) -> list[dict]:
    """Mean speed-up and tau of both trained methods with each tree."""
    loaded = bench.load_methods(target, ["vanilla", "eagle2", "jakiro"], {})
    methods, names = {"vanilla": loaded.pop("vanilla")}, {}
    for tree in trees:
        for name, (make, base) in loaded.items():
            label = f"{name} {tree}"
            names[label] = name, tree
            methods[label] = make, build(type(base), base, tree)
    found = means(bench.Benchmark(target, prompts, methods, budget, [sampling]).run())
    return [{"method": name, **tree, **found[label]} for label, (name, tree) in names.items()]


def report(options: argparse.Namespace) -> tuple[dict[str, Any], list[common.Table]]:
    """Measure both."""
    prompts = read_prompts(options.prompts, options.limit)
    target = Target.load(options.target, options.device, options.dtype)
    sampling = Sampling(options.temperature)
    cost = verify_cost(target, NODES, REPEATS, sampling=sampling)
    sizes = product(options.top_k, options.depth, options.total_tokens, options.draft_temperature)
    trees = [dict(zip(TREE, one, strict=True)) for one in sizes]
    rows = sorted(grid(target, prompts, trees, options.max_new_tokens, sampling), key=lambda row: -row["tokens_per_s"])
    costs = {n: {"seconds": seconds, "over_one": seconds / cost[1]} for n, seconds in cost.items()}
    head = common.head(SCHEMA, target.device) | {"target": target.name, "dtype": options.dtype}
    head |= {"prompts": len(prompts), "max_new_tokens": options.max_new_tokens, "temperature": options.temperature}
    tables = [[_cost(*one) for one in costs.items()], [_line(row) for row in rows[:BEST]]]
    return head | {"cost": costs, "grid": rows}, tables


def _cost(nodes: int, one: dict[str, float]) -> dict[str, str]:
    return {
        "nodes": str(nodes),
        "ms": common.cell(one["seconds"], scale=1000),
        "over one": common.cell(one["over_one"]),
    }


def _line(row: dict[str, Any]) -> dict[str, str]:
    sizes = {name: str(row[name]) for name in ("method", *TREE)}
    return sizes | {name: common.cell(row[name]) for name in ("tau", "tokens_per_s", "speedup")}


def main(argv: Sequence[str] | None = None) -> int:
    parser = common.parser("tree_sizes", __doc__, "scripts")
    common.add_device(parser)
    parser.add_argument("--target", type=Path, default=TARGET, help="folder or hub id; its heads are its sub-folders")
    parser.add_argument("--prompts", type=Path, nargs="+", metavar="FILE.jsonl", required=True)
    parser.add_argument("--limit", type=positive, default=3, help="prompts of each file (default: %(default)s)")
    parser.add_argument("--max-new-tokens", type=at_least(2), default=64)
    parser.add_argument("--top-k", type=positive, nargs="+", default=[4, 6, 8])
    parser.add_argument("--depth", type=positive, nargs="+", default=[3, 4, 5, 6])
    parser.add_argument("--total-tokens", type=positive, nargs="+", default=[8, 12, 16, 24])
    parser.add_argument("--draft-temperature", type=float, nargs="+", default=[1.0])
    parser.add_argument("--temperature", type=float, default=0.0)
    return common.run(parser, report, argv)


if __name__ == "__main__":
    raise SystemExit(main())

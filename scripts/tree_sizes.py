"""Which draft tree pays on this machine: `python -m scripts.tree_sizes --prompts FILE.jsonl ... --out sizes.json`.

Two measurements on one target: what verifying n nodes costs against one (`cost`), and tokens per second of each method
over a grid of trees, interleaved prompt by prompt (`grid`). The default tree of `drafting/tree.py` comes from here.
"""

from __future__ import annotations

import argparse
import json
from itertools import product
from pathlib import Path

from jakiro import bench
from jakiro.assets import TARGET
from jakiro.files import write_text
from jakiro.machine import machine
from jakiro.rehearsal import verify_cost
from jakiro.report import means
from jakiro.target import Target
from jakiro.verify import Sampling

NODES = (1, 2, 4, 8, 10, 12, 14, 16, 20, 24, 32, 48, 60)
REPEATS = 25


def grid(target: Target, prompts: list[bench.Prompt], sizes: list[tuple[int, int, int]], budget: int) -> list[dict]:
    """Mean speed-up and tau of both trained methods for each (top_k, depth, total_tokens)."""
    methods = bench.load_methods(target, ["vanilla"], {})
    names = {}
    for size in sizes:
        changes = dict(zip(("top_k", "depth", "total_tokens"), map(str, size), strict=True))
        for name, loaded in bench.load_methods(target, ["eagle2", "jakiro"], changes).items():
            label = f"{name} {size}"
            names[label] = name, size
            methods[label] = loaded
    found = means(bench.run(target, prompts, methods, budget, [Sampling()]))
    return [
        {"method": name, "top_k": size[0], "depth": size[1], "total_tokens": size[2], **found[label]}
        for label, (name, size) in names.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", type=Path, default=TARGET)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--prompts", type=Path, nargs="+", required=True)
    parser.add_argument("--limit", type=int, default=3)
    parser.add_argument("--max-new-tokens", type=int, default=64)
    parser.add_argument("--top-k", type=int, nargs="+", default=[4, 6, 8])
    parser.add_argument("--depth", type=int, nargs="+", default=[3, 4, 5, 6])
    parser.add_argument("--total-tokens", type=int, nargs="+", default=[8, 12, 16, 24])
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    target = Target.load(options.target, options.device, options.dtype)
    sizes = list(product(options.top_k, options.depth, options.total_tokens))
    cost = verify_cost(target, NODES, REPEATS)
    rows = grid(target, bench.read_prompts(options.prompts, options.limit), sizes, options.max_new_tokens)
    report = {
        "target": target.name,
        "machine": machine(target.device),
        "cost": {n: {"seconds": seconds, "over_one": seconds / cost[1]} for n, seconds in cost.items()},
        "grid": sorted(rows, key=lambda row: -row["tokens_per_s"]),
    }
    write_text(options.out, json.dumps(report, indent=1) + "\n")
    print("nodes  cost over one")
    for n, seconds in cost.items():
        print(f"{n:5}  {seconds / cost[1]:.2f}")
    for row in report["grid"][:12]:
        print({key: round(value, 3) if isinstance(value, float) else value for key, value in row.items()})


if __name__ == "__main__":
    main()

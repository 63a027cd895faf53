"""What a pass of the target is made of on a CPU: `python -m benchmarks.operations [--nodes 1 60] [--context 64 1900]`.

torch's profiler over bare passes of a tree after --context tokens: how many operations a pass starts, and how its
time on the processor divides among matrix products, attention, and all the others, which move and scale little rows;
first from Python, then, where the target's passes are on tapes (jakiro/tape.py), from there. `between_s` is what lies
between operations: a pass timed without the profiler, less the operations' own time (below 0 where the profiler slows
them down more than that).
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch.autograd.profiler_util import FunctionEvent
from torch.profiler import ProfilerActivity, profile
from tqdm import tqdm

from benchmarks import common
from jakiro.assets import TARGET
from jakiro.commands.arguments import positive
from jakiro.measuring.limits import timed
from jakiro.target import Target

SCHEMA = "jakiro-operations/3"  # in the first one the context was 200 tokens, in the second passes were from Python
KINDS = ("products", "attention", "others")
TURNS, PASSES = 9, 10  # a machine's speed drifts, so rows take turns; of their values in these the median counts
PRODUCTS = ("aten::mm", "aten::addmm", "aten::bmm", "mkldnn::_linear_pointwise", "quantized::linear_dynamic_fp16")
ATTENTION = ("aten::_scaled_dot_product_flash_attention_for_cpu", "aten::_scaled_dot_product_efficient_attention",
             "aten::_scaled_dot_product_flash_attention", "aten::_scaled_dot_product_cudnn_attention")  # fmt: skip
COMPOSED = "aten::_scaled_dot_product_attention_math"  # how torch 2.8 takes grouped keys on a CPU


@torch.inference_mode()
def passes(target: Target, nodes: int, context: int) -> dict[str, float]:
    """One row's numbers: of a pass over a binary tree of that many nodes after that many tokens."""
    cache = target.new_cache(context + nodes)
    target.prefill(torch.arange(context, device=target.device) % target.vocab_size, cache)
    tokens = [token % target.vocab_size for token in range(nodes)]
    parents = [-1, *((node - 1) // 2 for node in range(1, nodes))]

    def once() -> None:
        target.score(tokens, parents, cache)

    plain = median(timed(target.device, once, PASSES))
    with profile(activities=[ProfilerActivity.CPU]) as found:
        for _ in range(PASSES):
            once()
    events = [one for one in found.events() if one.name.startswith(("aten::", "mkldnn::", "quantized::"))]
    spent = dict.fromkeys(KINDS, 0.0)
    for one in events:
        spent[_kind(one)] += one.self_cpu_time_total / 1e6 / PASSES
    return {"pass_s": plain, "operations": round(len(events) / PASSES)} | {f"{kind}_s": s for kind, s in spent.items()}


def _kind(event: FunctionEvent) -> str:
    """What an operation belongs to: attention (a kernel, or a step of the composed one), products, or others."""
    above = event
    while above is not None and above.name != COMPOSED:
        above = above.cpu_parent
    if above is not None or event.name in ATTENTION:
        return "attention"
    return "products" if event.name in PRODUCTS else "others"


def report(options: argparse.Namespace) -> tuple[dict[str, Any], list[common.Table]]:
    target = Target.load(options.target)
    most = target.context - max(options.nodes)
    if max(options.context) > most:
        raise ValueError(f"--context is at most {most} with these --nodes: {target.name} reads {target.context} tokens")
    found: dict[tuple[bool, int, int], list[dict[str, float]]] = {}
    taped = sorted({False, target.tapes is not None})
    for _, tape in tqdm([*product(range(TURNS), taped)], desc="turns", unit=""):
        target.record_passes(tape)
        for context, nodes in product(options.context, options.nodes):
            found.setdefault((tape, context, nodes), []).append(passes(target, nodes, context))
    rows = []
    for (tape, context, nodes), turns in sorted(found.items()):
        row = {name: median(one[name] for one in turns) for name in turns[0]}
        between = row["pass_s"] - sum(row[f"{kind}_s"] for kind in KINDS)
        rows.append({"tape": tape, "nodes": nodes, "context": context, **row, "between_s": between})
    head = common.head(SCHEMA, target.device) | {"target": target.name, "dtype": "float32"}
    return head | {"rows": rows}, [[_line(row) for row in rows]]


def _line(row: dict[str, Any]) -> dict[str, str]:
    names = ("pass", *KINDS, "between")
    cells = {f"{name} ms": common.cell(row[f"{name}_s"], scale=1000) for name in names}
    sizes = {name: str(row[name]) for name in ("context", "nodes", "operations")}
    return {"tape": "yes" if row["tape"] else "no"} | sizes | cells


def main(argv: Sequence[str] | None = None) -> int:
    parser = common.parser("operations", __doc__)
    parser.add_argument("--target", type=Path, default=TARGET, help="folder or hub id (default: the embedded model)")
    parser.add_argument("--nodes", type=positive, nargs="+", default=[1, 10, 60], help="(default: %(default)s)")
    parser.add_argument("--context", type=positive, nargs="+", default=[200], help="tokens (default: %(default)s)")
    return common.run(parser, report, argv)


if __name__ == "__main__":
    raise SystemExit(main())

"""How steady a CPU is: `python -m benchmarks.steadiness`.

Target passes over one node and over a small tree, with one thread and with all, in turns over a minute. Of each the
medians of short stretches: their tenth, half and nine tenths. Where two threads of a virtual machine do not have a core
each all the time, passes over a tree change by a third for seconds, and those over one node, which hardly use the
second thread, by less: a speed-up that was measured then is lower, whatever is compared.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from statistics import quantiles
from typing import Any

import torch

from benchmarks import common
from jakiro.assets import TARGET
from jakiro.commands.arguments import positive
from jakiro.measuring.rehearsal import verify_cost
from jakiro.target import Target

SCHEMA = "jakiro-steadiness/1"
PASSES = 9  # of a stretch


def report(options: argparse.Namespace) -> tuple[dict[str, Any], list[common.Table]]:
    """Time the passes. Raises ValueError for a single turn, which has no spread."""
    if options.turns < 2:
        raise ValueError("--turns is 1: ask for at least 2, which can differ")
    target, most = Target.load(options.target), torch.get_num_threads()
    found: dict[tuple[int, int], list[float]] = {}
    try:
        for _ in range(options.turns):
            for threads in dict.fromkeys((1, most)):
                torch.set_num_threads(threads)
                for nodes, seconds in verify_cost(target, (1, options.nodes), PASSES).items():
                    found.setdefault((threads, nodes), []).append(seconds)
    finally:
        torch.set_num_threads(most)
    rows = [
        {"threads": threads, "nodes": nodes} | _spread(seconds) for (threads, nodes), seconds in sorted(found.items())
    ]
    head = common.head(SCHEMA, target.device) | {"target": target.name, "turns": options.turns}
    return head | {"rows": rows}, [[_line(row) for row in rows]]


def _spread(seconds: list[float]) -> dict[str, float]:
    tenths = quantiles(seconds, n=10, method="inclusive")
    return {"tenth_s": tenths[0], "median_s": tenths[4], "nine_tenths_s": tenths[8]}


def _line(row: dict[str, Any]) -> dict[str, str]:
    times = {f"{name.removesuffix('_s')} ms": common.cell(row[name], scale=1000) for name in row if name.endswith("_s")}
    return {"threads": str(row["threads"]), "nodes": str(row["nodes"])} | times


def main(argv: Sequence[str] | None = None) -> int:
    parser = common.parser("steadiness", __doc__)
    parser.add_argument("--target", type=Path, default=TARGET, help="folder or hub id (default: the embedded model)")
    parser.add_argument("--nodes", type=positive, default=10, help="of the tree (default: %(default)s)")
    parser.add_argument("--turns", type=positive, default=120, help="(default: %(default)s)")
    return common.run(parser, report, argv)


if __name__ == "__main__":
    raise SystemExit(main())

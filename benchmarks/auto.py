"""Is auto as quick as the best fixed tree? `python -m benchmarks.auto --prompts FILE.jsonl ... --method jakiro`.

A grid of fixed trees, vanilla, and the tree that auto chooses before they start, on other prompts of the same files,
decode the same prompts, interleaved prompt by prompt in one run, in turns (jakiro/bench.py). `over_best` is the tokens
a second of auto's tree over those of the quickest fixed one; both are means over the tasks. Where auto chose a tree of
the grid, that decodes in both names: `rows` has each name's figures, `over_best` takes their mean for the one tree that
they are of. The best of many noisy figures is flattered by its noise, so it errs against auto.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from itertools import product
from pathlib import Path
from statistics import mean
from typing import Any

from benchmarks import common
from jakiro import bench
from jakiro.assets import TARGET
from jakiro.commands.arguments import at_least, positive
from jakiro.drafting.sizes import TreeSettings, pool
from jakiro.measuring.prompts import read_prompts
from jakiro.measuring.report import means
from jakiro.measuring.tuning import Tuner
from jakiro.methods import check_tree
from jakiro.settings import AUTO
from jakiro.target import Target
from jakiro.verify import Sampling

SCHEMA = "jakiro-auto/3"  # in the second one auto was tuned on the page's examples
SIZES = ("top_k", "depth", "total_tokens")


def report(options: argparse.Namespace) -> tuple[dict[str, Any], list[common.Table]]:
    """Tune, then race auto against the grid."""
    check_tree(options.method)
    prompts = read_prompts(options.prompts, options.limit)
    others = [one for one in read_prompts(options.prompts, 2 * options.limit) if one not in prompts]
    if not others:
        raise ValueError(f"no file has more than {options.limit} prompts: auto is tuned on others, so lower --limit")
    target = Target.load(options.target, options.device, options.dtype)
    tuner, sampling = Tuner(target, others), Sampling(options.temperature)
    loaded = bench.load_methods(target, ["vanilla", options.method], dict.fromkeys(SIZES, AUTO), sampling, tuner)
    make, chosen = loaded.pop(options.method)
    sizes = product(options.top_k, options.depth, options.total_tokens)
    fixed = [replace(chosen, **dict(zip(SIZES, size, strict=True))) for size in sizes]
    methods = loaded | {AUTO: (make, chosen)} | {label(one): (make, one) for one in fixed}
    budget, repeats = options.max_new_tokens, options.repeats
    found = bench.Benchmark(target, prompts, methods, budget, [sampling], repeats=repeats).run()
    rows = [{"tree": name} | values for name, values in means(found).items()]
    speed = {row["tree"]: row["tokens_per_s"] for row in rows}
    head = common.head(SCHEMA, target.device) | {
        "target": target.name,
        "dtype": options.dtype,
        "method": options.method,
        "temperature": options.temperature,
        "prompts": len(prompts),
        "max_new_tokens": options.max_new_tokens,
        "repeats": options.repeats,
        "chosen": label(chosen),
        "over_best": over_best(speed, chosen, fixed),
    }
    rows.sort(key=lambda row: -row["tokens_per_s"])
    [tuning] = map(asdict, tuner.found.values())
    return head | {"rows": rows, "tuning": tuning}, [[_line(row) for row in rows]]


def over_best(speed: Mapping[str, float], chosen: TreeSettings, fixed: Sequence[TreeSettings]) -> float:
    """Tokens a second of the chosen tree over those of the quickest fixed one, from those of AUTO and of each label."""
    figures: dict[tuple[int, int, int], list[float]] = {}
    for name, settings in [(AUTO, chosen), *((label(one), one) for one in fixed)]:
        figures.setdefault(_tree(settings), []).append(speed[name])
    return mean(figures[_tree(chosen)]) / max(mean(figures[_tree(one)]) for one in fixed)


def _tree(settings: TreeSettings) -> tuple[int, int, int]:
    """What two settings have in common if their trees are the same: room for more nodes than there are changes none."""
    top_k, depth = settings.top_k, settings.depth
    return top_k, depth, min(settings.total_tokens, 1 + pool(top_k, depth))


def label(settings: TreeSettings) -> str:
    """A fixed tree's name in the report."""
    return f"top_k {settings.top_k}, depth {settings.depth}, {settings.total_tokens} nodes"


def _line(row: dict[str, Any]) -> dict[str, str]:
    cells = {name: common.cell(row[name], digits) for name, digits in (("tau", 2), ("tokens_per_s", 1), ("speedup", 2))}
    return {"tree": row["tree"]} | cells


def main(argv: Sequence[str] | None = None) -> int:
    parser = common.parser("auto", __doc__)
    common.add_device(parser)
    parser.add_argument("--target", type=Path, default=TARGET, help="folder or hub id; its heads are its sub-folders")
    parser.add_argument("--method", default="jakiro", help="a method with a draft tree (default: %(default)s)")
    parser.add_argument("--prompts", type=Path, nargs="+", metavar="FILE.jsonl", required=True)
    first = "prompts of each file; auto is tuned on as many that follow them (default: %(default)s)"
    parser.add_argument("--limit", type=positive, default=2, help=first)
    parser.add_argument("--max-new-tokens", type=at_least(2), default=96)
    parser.add_argument("--temperature", type=float, default=0.0, help="0 is greedy")
    shown = "speeds are medians over them (default: %(default)s)"
    parser.add_argument("--repeats", type=positive, default=3, help=shown)
    parser.add_argument("--top-k", type=positive, nargs="+", default=[3, 5, 10])
    parser.add_argument("--depth", type=positive, nargs="+", default=[2, 3, 5])
    parser.add_argument("--total-tokens", type=positive, nargs="+", default=[6, 10, 20, 60])
    return common.run(parser, report, argv)


if __name__ == "__main__":
    raise SystemExit(main())

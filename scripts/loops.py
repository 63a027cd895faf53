"""How many of a target's answers go round: `python -m scripts.loops --targets DIR --data DIR --prompts FILE.jsonl ...`.

Greedy answers to the prompts, and to prompts that the last mix of the target's recipe holds out, with the cross-entropy
of that mix's own answers. An answer goes round when it says a block of tokens three times in a row. Prompts that would
leave the context no room are passed over.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks import common
from jakiro.commands.arguments import RECIPES, positive
from jakiro.measuring.prompts import Prompt, read_prompts
from jakiro.models.generation import generated
from jakiro.target import Target
from jakiro.text import encode
from jakiro.training.answers import batches
from jakiro.training.card import held_out_loss
from jakiro.training.repeats import goes_round
from jakiro.training.target_recipe import Recipe
from jakiro.training.trial import Trial, held_out_prompts

SCHEMA = "jakiro-loops/1"
BATCH = 32  # prompts answered at once
SEED = 5  # of the draw of held-out prompts


def count(target: Target, prompts: list[list[int]], new_tokens: int) -> dict[str, int]:
    """Of the greedy answers to prompts: how many there are, how many go round, their tokens."""
    room = [prompt for prompt in prompts if len(prompt) + new_tokens <= target.context]
    found = []
    for some in batches(iter(room), BATCH):
        found += generated(target.model, some, new_tokens, ends=target.ends)
    return {"answers": len(found), "go_round": sum(map(goes_round, found)), "tokens": sum(map(len, found))}


def measure(path: Path, recipe: Recipe, prompts: list[Prompt], options: argparse.Namespace) -> dict[str, Any]:
    """One target's counts and loss."""
    target = Target.load(path, options.device, options.dtype)
    how = Trial(every=1, prompts=options.held_out, new_tokens=options.max_new_tokens)
    mix = recipe.mixes[recipe.stages[-1].mix]
    held = held_out_prompts(target.model, target.tokenizer, how, mix, options.data, SEED)
    loss = held_out_loss(target, recipe, options.data)
    asked = {"prompts": [encode(target.tokenizer, one.text) for one in prompts], "held_out": held}
    counts = {name: count(target, some, options.max_new_tokens) for name, some in asked.items()}
    return {"target": str(path), "held_out_loss": loss, **counts}


def report(options: argparse.Namespace) -> tuple[dict[str, Any], list[common.Table]]:
    """Measure every target on the same prompts."""
    recipe, prompts = Recipe.read(options.recipe), read_prompts(options.prompts, options.limit)
    rows = [measure(path, recipe, prompts, options) for path in options.targets]
    head = common.head(SCHEMA, torch.device(options.device)) | {"max_new_tokens": options.max_new_tokens}
    return head | {"rows": rows}, [[_line(row) for row in rows]]


def _line(row: dict[str, Any]) -> dict[str, str]:
    cells = {"target": row["target"], "loss": common.cell(row["held_out_loss"], digits=3)}
    for name in ("prompts", "held_out"):
        cells[name] = f"{row[name]['go_round']} of {row[name]['answers']}"
        cells[f"tokens ({name})"] = f"{row[name]['tokens']:,}"
    return cells


def main(argv: Sequence[str] | None = None) -> int:
    parser = common.parser("loops", __doc__, "scripts")
    common.add_device(parser)
    parser.add_argument("--targets", type=Path, nargs="+", required=True, help="folders that `train target` wrote")
    parser.add_argument("--recipe", type=Path, default=RECIPES / "target-gpu.json", help="(default: %(default)s)")
    parser.add_argument("--data", type=Path, required=True, help="folder of the recipe's files")
    parser.add_argument("--prompts", type=Path, nargs="+", metavar="FILE.jsonl", required=True)
    parser.add_argument("--limit", type=positive, default=10, help="prompts of each file (default: %(default)s)")
    parser.add_argument("--held-out", type=positive, default=192, help="held-out prompts (default: %(default)s)")
    parser.add_argument("--max-new-tokens", type=positive, default=128)
    return common.run(parser, report, argv)


if __name__ == "__main__":
    raise SystemExit(main())

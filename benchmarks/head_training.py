"""What training a head takes: `python -m benchmarks.head_training`.

One step of head training on random text is run for each head of a recipe, unrolled over 1 and 3 passes: seconds
(median, without torch.compile) and FLOPs, counted by torch.utils.flop_counter, beside the formulas

    target        2 P_target                              once for a token
    EAGLE-2       6 k P_head + 2 V h s (1 + 2 k)          k passes, vocabulary V, width h, share s of scored positions
    Jakiro        6 k P_head + 2 V h s (2 + 8 k)          with the loss on the experts' own distributions

which leave out attention and the products of the optimizer (Muon). `extrapolated` puts published shapes into them for
`heads-chat.json`: FLOPs of all steps, and their hours at 40 % of an H100's 989 TFLOP/s in bfloat16 (NVIDIA's data
sheet, without sparsity). Not measured there, and without what the target's own answers take.

`recipes` are the two that docs/experiments.md compares, each as `train` runs it: one step for all heads, compiled. They
are timed in turns. `step_s` is the median of steps whose features are remembered, as from the second epoch on,
`first_s` of those that begin with the target's pass.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import replace
from statistics import median
from typing import Any

import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import AutoModelForCausalLM, PreTrainedModel

from benchmarks import common
from jakiro.assets import TARGET
from jakiro.commands.arguments import RECIPES, positive
from jakiro.target import Target
from jakiro.training import workers
from jakiro.training.head_job import HeadJob
from jakiro.training.head_recipe import HeadRecipe, new_head
from jakiro.training.packing import Rows
from jakiro.training.precision import product_dtype

SCHEMA = "jakiro-head-training/1"
PASSES = (1, 3)
TEXT = 200  # tokens of a text, of which a row has several
RATE = 0.4 * 989e12  # FLOP/s that are assumed
COMPARED = ({"own_features": 0.4, "passes": 1}, {"own_features": 0.0, "passes": 3})  # two ways to read own features
SHAPES = {  # decoder parameters without embeddings, width, key-value width, MLP width, vocabulary
    "0.6 B (Qwen3)": (0.44e9, 1024, 1024, 3072, 151936),
    "8 B (Llama 3)": (6.98e9, 4096, 1024, 14336, 128256),
}


def head_flops(kind: str, parameters: float, passes: int, read: float) -> float:
    """FLOPs a token of a step; `read` is 2 V h s, one reading of lm_head."""
    readings = 1 + 2 * passes if kind == "eagle2" else 2 + 8 * passes
    return 6 * passes * parameters + read * readings


def measure(recipe: HeadRecipe, repeats: int) -> list[dict[str, Any]]:
    """A row for every head and number of passes."""
    model = _target()
    decoder = sum(one.numel() for name, one in model.model.named_parameters() if "embed" not in name)
    tokens = recipe.rows * recipe.row
    read = 2 * model.config.vocab_size * model.config.hidden_size * recipe.scored / tokens
    found = []
    for passes in PASSES:
        for name, plan in recipe.heads.items():
            job = _job(model, replace(recipe, heads={name: plan}, passes=passes, own_features=0.0), compiled=False)
            first, again = (_counted(job, index) for index in (0, 2))  # the second time features are remembered
            size = sum(one.numel() for one in job.heads()[name].parameters())
            found.append(
                {
                    "head": name,
                    "passes": passes,
                    "parameters": size,
                    "step_s": median(_seconds(job, 4 + 2 * turn) for turn in range(repeats)),
                    "flops_a_token": again / tokens,
                    "formula": head_flops(plan.kind, size, passes, read),
                    "target_flops_a_token": (first - again) / tokens,
                    "target_formula": 2 * decoder,
                }
            )
    return found


def compare(recipe: HeadRecipe, repeats: int, compiled: bool) -> list[dict[str, Any]]:
    """A row for each recipe of COMPARED: seconds of a step of all heads."""
    model = _target()
    jobs = [_job(model, replace(recipe, **how), compiled) for how in COMPARED]
    times: list[dict[str, list[float]]] = [{"first_s": [], "step_s": []} for _ in jobs]
    for turn in range(1 + repeats):  # in the first one programs are compiled
        for job, found in zip(jobs, times, strict=True):
            job.known.clear()
            for at, name in enumerate(found):
                found[name].append(_seconds(job, 4 * turn + 2 * at))
    return [
        how | {"compiled": compiled} | {name: median(values[1:]) for name, values in found.items()}
        for how, found in zip(COMPARED, times, strict=True)
    ]


def extrapolated(recipe: HeadRecipe) -> list[dict[str, Any]]:
    """Both heads of published shapes by a recipe."""
    found, tokens = [], recipe.rows * recipe.row
    for name, (decoder, h, narrow, inner, vocab) in SHAPES.items():
        shared = 2 * h * h + 2 * h * h + 2 * h * narrow  # fc and attention
        read = 2 * vocab * h * recipe.scored / tokens
        sizes = {"eagle2": shared + 3 * h * inner, "jakiro": shared + 2 * 3 * h * h}
        one = 2 * decoder + sum(head_flops(kind, size, recipe.passes, read) for kind, size in sizes.items())
        whole = one * tokens * recipe.steps
        found.append({"target": name, "flops_a_token": one, "flops": whole, "hours": whole / RATE / 3600})
    return found


def report(options: argparse.Namespace) -> tuple[dict[str, Any], list[common.Table]]:
    """Measure and calculate."""
    recipe = HeadRecipe.read(RECIPES / "heads-cpu.json")
    rows, recipes = measure(recipe, options.repeats), compare(recipe, options.repeats, options.compile)
    large = extrapolated(HeadRecipe.read(RECIPES / "heads-chat.json"))
    head = common.head(SCHEMA, torch.device("cpu"))
    whole = head | {"target": TARGET.name, "rows": rows, "recipes": recipes, "extrapolated": large}
    return whole, [_table(rows), _recipes(recipes), _large(large)]


def _target() -> PreTrainedModel:
    model = AutoModelForCausalLM.from_pretrained(TARGET).to(product_dtype(torch.device("cpu")))
    return model.eval().requires_grad_(False)


def _job(model: PreTrainedModel, recipe: HeadRecipe, compiled: bool) -> HeadJob:
    """Steps on random text. There are two batches: every other step is on the same one."""
    rng = np.random.default_rng(0)
    rows = rng.integers(4, model.config.vocab_size, (2 * recipe.rows, recipe.row + 1)).astype(np.uint16)
    heads = {name: new_head(model, plan) for name, plan in recipe.heads.items()}
    texts = np.broadcast_to((np.arange(recipe.row + 1) // TEXT).astype(np.uint16), rows.shape)
    given = (replace(recipe, trial=None), [Rows(rows, np.ones(rows.shape, bool), texts)])
    return HeadJob(workers.start(), Target.wrap(model), heads, *given, compiled=compiled)


def _counted(job: HeadJob, index: int) -> int:
    with FlopCounterMode(display=False) as counter:
        job.step(index)
    return counter.get_total_flops()


def _seconds(job: HeadJob, index: int) -> float:
    start = time.perf_counter()
    job.step(index)
    return time.perf_counter() - start


def _table(rows: list[dict[str, Any]]) -> common.Table:
    return [
        {
            "head": row["head"],
            "passes": str(row["passes"]),
            "s a step": common.cell(row["step_s"]),
            "M FLOPs a token": common.cell(row["flops_a_token"], 1, 1e-6),
            "by formula": common.cell(row["formula"], 1, 1e-6),
            "target": common.cell(row["target_flops_a_token"], 1, 1e-6),
            "by its formula": common.cell(row["target_formula"], 1, 1e-6),
        }
        for row in rows
    ]


def _recipes(rows: list[dict[str, Any]]) -> common.Table:
    return [
        {
            "own_features": f"{row['own_features']:g}",
            "passes": str(row["passes"]),
            "s a step": common.cell(row["step_s"]),
            "with the target's pass": common.cell(row["first_s"]),
            "over the first recipe": common.cell(row["step_s"] / rows[0]["step_s"]),
        }
        for row in rows
    ]


def _large(rows: list[dict[str, Any]]) -> common.Table:
    return [
        {
            "target": row["target"],
            "G FLOPs a token": common.cell(row["flops_a_token"], 1, 1e-9),
            "e18 in all": common.cell(row["flops"], 1, 1e-18),
            "hours": common.cell(row["hours"], 1),
        }
        for row in rows
    ]


def main(argv: Sequence[str] | None = None) -> int:
    parser = common.parser("head_training", __doc__)
    parser.add_argument("--repeats", type=positive, default=3, help="timed steps (default: %(default)s)")
    parser.add_argument("--no-compile", dest="compile", action="store_false", help="time the recipes without it")
    return common.run(parser, report, argv)


if __name__ == "__main__":
    raise SystemExit(main())

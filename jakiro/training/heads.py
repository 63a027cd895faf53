"""Draft heads of a target: from a recipe to folders of weights."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, fields, replace
from pathlib import Path

import torch
from accelerate import Accelerator
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from jakiro.drafting.head import HeadConfig
from jakiro.drafting.weights import load_weights, save_head
from jakiro.files import write_text
from jakiro.training import answers, history, loop
from jakiro.training.data import Document, draw, take
from jakiro.training.head_job import HeadJob
from jakiro.training.head_recipe import KINDS, HeadRecipe
from jakiro.training.packing import Rows, load_rows, row_widths, save_rows
from jakiro.training.precision import product_dtype
from jakiro.training.trial import Trials


def train_heads(
    names: list[str],
    accelerator: Accelerator,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    recipe: HeadRecipe,
    data: Path,
    run: Path,
    out: dict[str, Path],
    compiled: bool = True,
    shard: bool = False,
    start: Path | None = None,
) -> None:
    """Train the heads named in `names` on `model` (the target) and write one head folder for each into `out`.

    The recipe is written beside the weights. With `start`, a folder of heads by name, they are trained further, as
    after a target has changed. Raises ValueError where the recipe has no such head, where `run` is one of another
    recipe, or where a head of `start` has another shape.
    """
    if unknown := [name for name in names if name not in recipe.heads]:
        raise ValueError(f"the recipe has no head {unknown[0]!r}; it has {', '.join(recipe.heads)}")
    if not recipe.mix:
        raise ValueError("the recipe names no texts: give --data one JSONL file, or the name of a dataset")
    recipe = replace(recipe, heads={name: recipe.heads[name] for name in names})
    with accelerator.main_process_first():
        _claim(run, recipe)
    heads, done = {}, {}
    for name, plan in recipe.heads.items():
        torch.manual_seed(recipe.seed)
        heads[name] = KINDS[plan.kind](head_config(model, plan.shape))
        done[name] = history.read(start / name) if start else []
        if start:
            load_weights(heads[name], start / name)
    rows = rows_of(accelerator, recipe, model, tokenizer, data, run)
    model = model.to(accelerator.device, product_dtype(accelerator.device)).eval().requires_grad_(False)
    trials = Trials.of(model, tokenizer, recipe.trial, recipe.mix, data, run, recipe.seed) if recipe.trial else None
    job = HeadJob(accelerator, model, heads, recipe, rows, compiled, shard, trials)
    loop.run(job, run, accelerator.is_main_process)
    for name, head in job.heads().items():
        save_head(out[name], head)
        shutil.copy(run / "recipe.json", out[name])
        history.write(out[name], [*done[name], _told(recipe, name, run)])


def _told(recipe: HeadRecipe, name: str, run: Path) -> dict:
    """What a run did for a head, for its history."""
    top1 = round(history.late(history.metrics(run), f"{name}_top1", 100), 4)
    own = {"epochs": recipe.epochs, "temperatures": recipe.answers and recipe.answers.temperatures}
    return {"steps": recipe.steps, "tokens": recipe.row * recipe.rows, **own, "top1": top1}


def _claim(run: Path, recipe: HeadRecipe) -> None:
    """A run folder is of one recipe: what it holds cannot be gone on with by another."""
    run.mkdir(parents=True, exist_ok=True)
    kept, own = run / "recipe.json", json.loads(json.dumps(asdict(recipe)))
    if kept.exists() and json.loads(kept.read_text()) != own:
        raise ValueError(f"{run} holds a run of another recipe or of other heads; choose another --run-folder")
    write_text(kept, json.dumps(own, indent=1) + "\n")


def head_config(model: PreTrainedModel, changes: dict) -> HeadConfig:
    """The shape of one of the target's own layers where the recipe names no other; rope scaling is left out."""
    target = model.config.get_text_config().to_dict()
    names = {one.name for one in fields(HeadConfig)} - {"num_local_experts", "bias"}
    taken = {name: target[name] for name in names if target.get(name) is not None}
    theta = (target.get("rope_parameters") or {}).get("rope_theta", target.get("rope_theta"))
    return HeadConfig(**{**taken, **({"rope_theta": theta} if theta else {}), **changes})


def rows_of(
    accelerator: Accelerator, recipe: HeadRecipe, model: PreTrainedModel, tokenizer, data: Path, run: Path
) -> list[Rows]:
    """The rows to train on, of each width: the mix's text, or the target's own answers. `run` keeps them."""
    cached, seed, widths = run / "rows.npz", recipe.seed + 77, row_widths(recipe.row, recipe.short)
    missing = not cached.exists()
    accelerator.wait_for_everyone()  # all have looked before one writes
    if missing and recipe.answers:
        own = answer(accelerator, recipe, model, tokenizer, data, run / "answers.jsonl")
    if missing and accelerator.is_main_process:
        if not recipe.answers:
            own = take(recipe.mix, data, tokenizer, _needed(recipe), recipe.row + 1, seed)
        save_rows(cached, own, widths, seed)
    accelerator.wait_for_everyone()
    return load_rows(cached, widths)


def answer(
    accelerator: Accelerator, recipe: HeadRecipe, model: PreTrainedModel, tokenizer, data: Path, file: Path
) -> list[Document]:
    """The target's own answers, as the recipe asks for; `file` is gone on with. Raises ValueError if none are asked."""
    if not recipe.answers:
        raise ValueError("the recipe says nothing of `answers`: how many new tokens, batch size and temperatures")
    seed, width = recipe.seed + 77, recipe.row + 1
    prompts = draw(recipe.mix, data, tokenizer, width, seed)
    model = model.to(accelerator.device)
    return answers.write(accelerator, model, prompts, recipe.answers, _needed(recipe), width, file, seed)


def _needed(recipe: HeadRecipe) -> int:
    return int(recipe.steps / recipe.epochs * recipe.rows * recipe.row)

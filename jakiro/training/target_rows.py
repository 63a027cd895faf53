"""What a stage of target training learns from: rows of its mix, and prompts whose answers go round."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path

from accelerate import Accelerator
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

from jakiro.files import write_text
from jakiro.training import repeats
from jakiro.training.answers import prompts_of
from jakiro.training.data import Shelf, draw, take
from jakiro.training.packing import load_rows, row_widths, save_rows
from jakiro.training.target_job import passes_of
from jakiro.training.target_recipe import Recipe, Stage


def make_rows(
    recipe: Recipe,
    stage: Stage,
    number: int,
    tokenizer: PreTrainedTokenizerFast,
    data: Path,
    folder: Path,
    shelf: Shelf,
) -> None:
    """The rows of a stage in `folder`, unless they are there. Raises ValueError where they are too few for a step."""
    cached, seed, widths = folder / "rows.npz", recipe.seed * 1000 + number, row_widths(stage.row, stage.short)
    if not cached.exists():
        mix, longest = recipe.mixes[stage.mix], stage.row + 1
        documents = draw(mix, data, tokenizer, longest, seed, shelf=shelf)
        save_rows(cached, take(documents, stage.tokens), widths, seed)
    passes_of(load_rows(cached, widths), stage)


def prompts_that_loop(
    accelerator: Accelerator,
    recipe: Recipe,
    stage: Stage,
    number: int,
    model: LlamaForCausalLM,
    tokenizer: PreTrainedTokenizerFast,
    data: Path,
    folder: Path,
) -> list[list[int]]:
    """The prompts of the stage's mix whose answers by `model` go round; none where the stage asks for none."""
    cached, longest = folder / "looping.json", repeats.room(model, stage.answers)
    if stage.looping and not cached.exists():
        documents = draw(recipe.mixes[stage.mix], data, tokenizer, longest, recipe.seed * 1000 + number)
        asked = list(islice(prompts_of(documents, longest), stage.looping))
        found = repeats.looping(model.to(accelerator.device).eval(), asked, stage.answers)
        write_text(cached, json.dumps(found) + "\n")
    return json.loads(cached.read_text(encoding="utf-8")) if stage.looping else []

"""What the stages of target training learn from: rows of their mixes, and prompts whose answers go round."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

from jakiro.files import write_text
from jakiro.training import repeats
from jakiro.training.answers import prompts_of
from jakiro.training.data import Document, Shelf, draw, take
from jakiro.training.packing import Rows, load_rows, row_widths, save_rows
from jakiro.training.target_job import passes_of
from jakiro.training.target_recipe import Recipe


@dataclass(frozen=True, slots=True)
class Stages:
    """The stages of a run by number, each with a folder for what it learns from."""

    recipe: Recipe
    tokenizer: PreTrainedTokenizerFast
    data: Path  # folder of the recipe's files
    run: Path

    def folder(self, number: int) -> Path:
        """Where a stage's files are."""
        return self.run / f"stage{number}"

    def make_rows(self, number: int, shelf: Shelf) -> None:
        """The rows of a stage, unless they are there. Raises ValueError where they are too few for a step."""
        cached, stage = self.folder(number) / "rows.npz", self.recipe.stages[number]
        if not cached.exists():
            documents = self._documents(number, stage.row + 1, shelf)
            save_rows(cached, take(documents, stage.tokens), row_widths(stage.row, stage.short), self._seed(number))
        passes_of(self.rows(number), stage)

    def rows(self, number: int) -> list[Rows]:
        """What `make_rows` made, of each width."""
        stage = self.recipe.stages[number]
        return load_rows(self.folder(number) / "rows.npz", row_widths(stage.row, stage.short))

    def looping(self, number: int, model: LlamaForCausalLM) -> list[list[int]]:
        """The prompts of a stage's mix whose answers by `model` go round; none where the stage asks for none."""
        cached, stage = self.folder(number) / "looping.json", self.recipe.stages[number]
        if not stage.looping:
            return []
        if not cached.exists():
            longest = repeats.room(model, stage.answers)
            asked = list(islice(prompts_of(self._documents(number, longest), longest), stage.looping))
            write_text(cached, json.dumps(repeats.looping(model.eval(), asked, stage.answers)) + "\n")
        return json.loads(cached.read_text(encoding="utf-8"))

    def _documents(self, number: int, longest: int, shelf: Shelf | None = None) -> Iterator[Document]:
        mix = self.recipe.mixes[self.recipe.stages[number].mix]
        return draw(mix, self.data, self.tokenizer, longest, self._seed(number), shelf=shelf)

    def _seed(self, number: int) -> int:
        return self.recipe.seed * 1000 + number

"""What heads learn from: rows of a mix's texts, or of the target's own answers to its prompts."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from accelerate import Accelerator
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from jakiro.models.generation import end_ids
from jakiro.models.lengths import positions
from jakiro.target import Target
from jakiro.text import check_ids
from jakiro.training import answers
from jakiro.training.claims import claim, contents, digest
from jakiro.training.data import Document, draw, take
from jakiro.training.head_recipe import HeadRecipe
from jakiro.training.packing import Rows, load_rows, row_widths, save_rows
from jakiro.training.precision import product_dtype
from jakiro.training.sources import is_plain

FREE = ("note", "trial", "remember", "dtype")  # fields of a recipe on which neither rows nor a run's weights depend


@dataclass(frozen=True, slots=True)
class Lesson:
    """What heads are taught with."""

    accelerator: Accelerator
    model: PreTrainedModel  # the target's
    tokenizer: PreTrainedTokenizerBase
    recipe: HeadRecipe
    data: Path  # folder of the recipe's files

    def made_from(self) -> dict[str, Any]:
        """What a run's files depend on. Raises ValueError where the recipe has no mix, or one that asks nothing where
        the target is to answer, OSError where a file is missing."""
        mix = self.recipe.mix
        if not mix:
            raise ValueError("the recipe names no texts: give --data one JSONL file, or the name of a dataset")
        if self.recipe.answers and all(map(is_plain, mix)):
            raise ValueError("the recipe asks for `answers`, and its mix holds no conversations: name a source of them")
        target = {"target": digest(self.model.state_dict()), "template": self.tokenizer.chat_template}
        return {"recipe": asked(self.recipe), **target, "data": contents(mix, self.data)}

    def needed(self) -> int:
        """Tokens of all rows."""
        return int(self.recipe.steps / self.recipe.epochs * self.recipe.rows * self.recipe.row)


def asked(recipe: HeadRecipe) -> dict[str, Any]:
    """What of a recipe a run depends on."""
    return {name: value for name, value in asdict(recipe).items() if name not in FREE}


def check_target(lesson: Lesson) -> Target:
    """Raise ValueError where no head can draft for the target, or rows go beyond its positions."""
    target, row = Target.wrap(lesson.model, graphs=False), lesson.recipe.row
    target.hook.remove()
    target.check_heads()
    config = lesson.model.config.get_text_config()
    if config.hidden_size != target.hidden_size:
        widths = f"layers of {config.hidden_size} and an output of {target.hidden_size}"
        kind = type(lesson.model).__name__
        raise ValueError(f"{kind} has {widths}, which no head is made for: use another target")
    if row > (context := positions(config)):
        raise ValueError(f"`row` of the recipe is {row}, and the target's context {context} tokens: lower it")
    return target


def rows_of(lesson: Lesson, run: Path) -> list[Rows]:
    """The rows to train on, of each width: the mix's text, or the target's own answers. `run` keeps them."""
    accelerator, recipe = lesson.accelerator, lesson.recipe
    cached, seed, widths = run / "rows.npz", recipe.seed + 77, row_widths(recipe.row, recipe.short)
    missing = not cached.exists()
    accelerator.wait_for_everyone()  # all have looked before one writes
    if missing and recipe.answers:
        own = _answers(lesson, run / "answers.jsonl")
    if missing and accelerator.is_main_process:
        if not recipe.answers:
            texts = draw(recipe.mix, lesson.data, lesson.tokenizer, recipe.row + 1, seed, every=True)
            own = take(texts, lesson.needed())
        save_rows(cached, own, widths, seed)
    accelerator.wait_for_everyone()
    rows = load_rows(cached, widths)
    ids = [edge for one in rows if one.ids.size for edge in (one.ids.min(), one.ids.max())]
    check_ids(ids, len(lesson.model.get_input_embeddings().weight), "a text")
    return rows


def answer(lesson: Lesson, file: Path) -> list[Document]:
    """The target's own answers, as the recipe asks for; `file` is gone on with.

    Raises ValueError if none are asked for, or if `file` has those of another target, other data or asked otherwise.
    """
    if not lesson.recipe.answers:
        raise ValueError("the recipe says nothing of `answers`: how many new tokens, batch size and temperatures")
    lesson.model.to(lesson.accelerator.device)
    check_target(lesson)
    return _answers(lesson, file)


def _answers(lesson: Lesson, file: Path) -> list[Document]:
    accelerator, recipe = lesson.accelerator, lesson.recipe
    with accelerator.main_process_first():
        made = lesson.made_from()
        made["recipe"] = {name: made["recipe"][name] for name in ("mix", "answers", "row", "seed")}
        claim(file, option="--run-folder or --out", **made, **{"order of batches": answers.ORDER})
    seed, width = recipe.seed + 77, recipe.row + 1
    prompts = draw(recipe.mix, lesson.data, lesson.tokenizer, width, seed)
    ends = end_ids(lesson.model, lesson.tokenizer)
    model = lesson.model.to(product_dtype(accelerator.device))  # a file's bfloat16 is emulated by many a processor
    return answers.write(accelerator, model, prompts, recipe.answers, lesson.needed(), width, file, seed, ends)

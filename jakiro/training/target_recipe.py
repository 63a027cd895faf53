"""What a run of target training is made of."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from huggingface_hub.errors import StrictDataclassError
from transformers import LlamaConfig, LlamaForCausalLM

from jakiro.models.loading import one_line
from jakiro.training import recipe_file
from jakiro.training.packing import row_widths
from jakiro.training.sources import Source

AS_SAVED = ("architectures", "dtype", "transformers_version", "_name_or_path")  # what a config has of being saved
SAID_ELSEWHERE = {  # fields of a LlamaConfig -> what gives them
    "vocab_size": "the recipe's own vocab_size",
    "num_hidden_layers": "each stage's layers",
    **dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id"), "the tokenizer"),
}


@dataclass(frozen=True, slots=True)
class Stage:
    """One stretch of a run at fixed depth, row length and mix."""

    layers: int
    tokens: int  # tokens seen in this stage
    row: int  # tokens in a row
    rows: int  # rows in one forward pass
    passes: int  # forward passes in one optimizer step
    mix: str  # name of a list of sources in the recipe
    rate: tuple[float, float]  # learning-rate factor at its start and end
    unlikelihood: float = 0.0  # weight of the loss on repeating recent tokens
    answers: int = 0  # tokens of the model's own answers in which repetition is a loss too; 0 for none
    looping: int = 0  # prompts answered before the stage, so that own answers are to those alone that go round
    schedule: str = "linear"  # or cosine, between the two rates
    average: int = 0  # its weights are averaged with those after so many stages (SWA, arXiv 1803.05407); 0: with none
    short: tuple[int, ...] = ()  # narrower rows, for documents that fit in them: attention costs less there
    note: str = ""  # for the model card

    @classmethod
    def of(cls, data: dict) -> Stage:
        """From JSON's types. Raises TypeError, KeyError or ValueError naming the field that is wrong or missing."""
        own = {"rate": tuple(data["rate"]), "short": tuple(data.get("short", ()))}
        found = recipe_file.made(cls, data | own, "a stage")
        recipe_file.check_positive(found, "layers", "row", "rows", "passes")
        recipe_file.check_numbers(found, "tokens", "rate", "unlikelihood", "answers", "looping", "average")
        row_widths(found.row, found.short)
        if len(found.rate) != 2:
            raise ValueError(f"rate is {list(found.rate)}: use two numbers, at the stage's start and at its end")
        return found


@dataclass(frozen=True, slots=True)
class Recipe:
    """Everything a run is made of, read from JSON."""

    vocab_size: int
    model: dict  # LlamaConfig fields
    prompt_weight: float  # weight of the loss on what the user says
    mixes: dict[str, list[Source]]
    stages: list[Stage]
    seed: int = 0
    dtype: str = "float32"  # of the weights as they are written
    parent: str = ""  # folder or hub id of a larger Llama that the target begins as a part of (pruning.py); "": of none

    @classmethod
    def read(cls, path: Path) -> Recipe:
        """Raises OSError, or ValueError naming the file and the field that is unknown or missing."""
        return recipe_file.read(path, cls.of, "a recipe of a target")

    @classmethod
    def of(cls, data: dict) -> Recipe:
        """From JSON's types. Raises TypeError, KeyError or ValueError naming the field that is wrong or missing."""
        data = dict(data)
        mixes = {name: [Source.of(one) for one in sources] for name, sources in data.pop("mixes").items()}
        stages = [Stage.of(stage) for stage in data.pop("stages")]
        if not stages:
            raise ValueError("`stages` is empty")
        if unknown := [stage.mix for stage in stages if stage.mix not in mixes]:
            raise ValueError(f"a stage names the mix {unknown[0]!r}, which `mixes` has not")
        for number, stage in enumerate(stages, 1):
            if stage.average not in range(number):
                raise ValueError(f"average is {stage.average} in stage {number}: name one before it, or 0")
            if stage.average and stages[stage.average - 1].layers != stage.layers:
                raise ValueError(f"stage {number} and stage {stage.average}, its average, differ in their layers")
        found = recipe_file.made(cls, data | {"mixes": mixes, "stages": stages}, "the recipe")
        recipe_file.check_positive(found, "vocab_size")
        recipe_file.check_numbers(found, "prompt_weight")
        recipe_file.check_seed(found)
        _check_names(found.model)
        _check_shape(found)
        return found


def _check_names(model: dict) -> None:
    """Raise ValueError at a field that LlamaConfig has not, and would take all the same, or that is said elsewhere."""
    known = LlamaConfig().to_dict().keys() | {"rope_theta", "rope_scaling"}  # which it takes for rope_parameters
    for name in model:
        if name in SAID_ELSEWHERE:
            raise ValueError(f"`model` says {name}, which {SAID_ELSEWHERE[name]} gives: leave it out there")
        if name not in known:
            raise ValueError(f"`model` has an unknown field {name!r}; its fields are those of LlamaConfig")


def _check_shape(recipe: Recipe) -> None:
    """Raise ValueError where transformers cannot make such a model; without memory for its weights."""
    try:
        config = LlamaConfig(**recipe.model, vocab_size=recipe.vocab_size, num_hidden_layers=1)
        if config.intermediate_size < 1:
            raise ValueError(f"intermediate_size is {config.intermediate_size}")
        with torch.device("meta"):
            LlamaForCausalLM(config)(input_ids=torch.zeros(1, 2, dtype=torch.long))
    except (StrictDataclassError, TypeError, ValueError, LookupError, RuntimeError, ArithmeticError) as error:
        raise ValueError(f"no model can be made of `model`: {one_line(error)}") from error
    longest, context = max(stage.row for stage in recipe.stages), config.max_position_embeddings
    if longest > context:
        raise ValueError(f"a stage has rows of {longest} tokens, its model positions for {context}")
    if (most := max(stage.answers for stage in recipe.stages)) >= context:
        raise ValueError(f"a stage has answers of {most} tokens, its model positions for {context}: lower `answers`")

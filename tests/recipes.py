"""Tiny recipes for targets and heads, and what is read of their runs."""

import csv

from transformers import AutoModelForCausalLM, AutoTokenizer

from jakiro.__main__ import main
from jakiro.training import workers
from jakiro.training.head_recipe import HeadRecipe
from jakiro.training.head_rows import Lesson
from jakiro.training.heads import train_heads
from jakiro.training.sources import Source
from jakiro.training.target_recipe import Recipe, Stage

CHAT = [Source("chat.jsonl", 1.0)]
MIX = [Source("chat.jsonl", 3.0), Source("plain/text.txt.xz", 1.0)]
SHAPE = {"hidden_size": 32, "intermediate_size": 48, "num_attention_heads": 2, "num_key_value_heads": 1}
SMALL = {"intermediate_size": 24, "num_attention_heads": 2, "bias": False}
TEMPLATE = (
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)


def recipe(*stages, **changes):
    """Of a target; one short stage unless others are given."""
    stages = list(stages) or [Stage(1, 600, 32, 4, 1, "all", (1.0, 1.0))]
    return Recipe(
        **{"vocab_size": 300, "model": SHAPE, "prompt_weight": 0.3, "mixes": {"all": CHAT}, "stages": stages} | changes
    )


def growing(**changes):
    """A recipe of two stages, long enough to learn something."""
    stages = [
        Stage(1, 6000, 32, 4, 2, "all", (1.0, 1.0)),
        Stage(2, 4000, 64, 2, 2, "all", (1.0, 0.1), unlikelihood=0.1, answers=6, short=(32,)),
    ]
    return recipe(*stages, **{"model": SHAPE | {"max_position_embeddings": 128}, "mixes": {"all": MIX}} | changes)


def losses(path, name="loss"):
    with path.open() as file:
        return [float(row[name]) for row in csv.DictReader(file)]


def given(**changes):
    """A recipe of an EAGLE-2 head, as it stands in a file."""
    heads, mix = {"eagle2": SMALL}, [{"file": "chat.jsonl", "weight": 1}]
    return {"steps": 2, "row": 64, "rows": 4, "scored": 24, "heads": heads, "mix": mix} | changes


def given_both(steps=6, **changes):
    """A recipe of both heads, as it stands in a file."""
    heads = {"eagle2": SMALL, "jakiro": SMALL | {"expert_intermediate_size": 16}}
    mine = {"steps": steps, "row": 32, "scored": 40, "epochs": 2, "own_features": 0.4, "heads": heads}
    return given(**mine | changes)


def head_recipe(steps=6, **changes):
    return HeadRecipe.of(given_both(steps, **changes))


def train_both(trained, data, run, out, steps=6, start=None, **changes):
    model = AutoModelForCausalLM.from_pretrained(trained / "out")
    tokenizer = AutoTokenizer.from_pretrained(trained / "out")
    folders = {"eagle2": out / "eagle2", "jakiro": out / "jakiro"}
    lesson = Lesson(workers.start(), model, tokenizer, head_recipe(steps, **changes), data)
    train_heads(lesson, run, folders, compiled=False, start=start)
    return folders


def command(*arguments):
    assert main([str(argument) for argument in arguments]) == 0

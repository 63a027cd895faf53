"""A teacher's texts: what a larger model answers, as chats that a small target is trained on.

Answers of one model are more alike than those of many authors, and so should be easier to learn (sequence-level
distillation: Kim and Rush, arXiv 1606.07947). Prompts come from a mix, and some from the teacher itself, which is given
its chat template up to where the user speaks (Magpie: Xu et al., arXiv 2406.08464, section 2).
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import torch
from tqdm import tqdm
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from jakiro.files import append_lines
from jakiro.models.generation import end_ids, generated
from jakiro.text import form_of, tokenize, with_system
from jakiro.training import recipe_file
from jakiro.training.claims import claim, contents, digest
from jakiro.training.repeats import goes_round
from jakiro.training.sentences import shorten
from jakiro.training.sources import Source, read_chats

HERE = "\N{SNOWMAN}"  # in a prompt, to find where the template puts it
SHORTEST = 12  # characters of a prompt that the teacher makes up
PATIENCE = 20  # batches of which nothing can be used, one after another, at which a teacher is taken to write nothing


@dataclass(frozen=True, slots=True)
class TextsRecipe:
    """What a teacher is asked, and how it answers; read from JSON."""

    tokens: int  # of answers, the teacher's
    batch: int  # prompts answered at once
    new_tokens: int  # length cap of an answer, which is then cut at the end of a sentence
    mix: list[Source]  # whose first user turns are asked, each once; weights are shares of the prompts
    system: str = ""  # told to the teacher, not to those who learn from it
    temperature: float = 0.6
    top_k: int = 40  # likeliest tokens that are drawn from; 0 is all
    longest: int = 1200  # characters of a prompt; longer ones are passed over
    own: float = 0.0  # share of the batches whose prompts the teacher makes up, at temperature 1
    own_tokens: int = 60  # length cap of those; longer ones are thrown away
    seed: int = 0
    note: str = ""

    @classmethod
    def read(cls, path: Path) -> TextsRecipe:
        """Raises OSError, or ValueError naming the file and the field that is unknown, missing or wrong."""
        return recipe_file.read(path, cls.of, "a recipe of texts")

    @classmethod
    def of(cls, data: dict) -> TextsRecipe:
        """From JSON's types. Raises KeyError, TypeError or ValueError naming the field."""
        found = recipe_file.made(cls, data | {"mix": [Source.of(one) for one in data["mix"]]}, "the recipe")
        recipe_file.check_positive(found, "tokens", "batch", "new_tokens", "longest", "own_tokens")
        recipe_file.check_numbers(found, "temperature", "top_k")
        recipe_file.check_seed(found)
        if not 0 <= found.own <= 1:
            raise ValueError(f"own is {found.own!r}: use a share, from 0 to 1")
        return found


class Teacher:
    """A chat model that is asked in its own template."""

    def __init__(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, recipe: TextsRecipe) -> None:
        """Raises ValueError where the tokenizer has no chat template, or one that changes what the user says, or that
        takes no system message where the recipe has one."""
        if not tokenizer.chat_template:
            raise ValueError("the teacher's tokenizer has no chat template: give it one with --chat-template FILE")
        self.model, self.tokenizer, self.recipe = model, tokenizer, recipe
        self.ends, self.form = end_ids(model, tokenizer), form_of(tokenizer)
        if self._templated(HERE, "").count(HERE) != 1:
            raise ValueError("the teacher's chat template does not show what the user says: mend the template")
        if recipe.system:
            with_system(tokenizer, recipe.system, "the recipe's `system`")  # refused as --system is

    def prompts(self, seed: int) -> list[str]:
        """What the teacher takes a user to ask: of a batch, what ends in time and is one paragraph."""
        begin = tokenize(self.tokenizer, self._templated(HERE, "").partition(HERE)[0])
        asked = self._written([begin] * self.recipe.batch, self.recipe.own_tokens, 1.0, seed)
        texts = [self._text(ids).strip() for ids in asked if ids[-1] in self.ends]
        return [text for text in texts if len(text) >= SHORTEST and "\n\n" not in text]

    def answers(self, prompts: list[str], seed: int) -> list[tuple[str, int]]:
        """To each prompt an answer, and its tokens; "" where it goes round, or does not end a sentence in time."""
        asked = [tokenize(self.tokenizer, self._templated(prompt, self.recipe.system)) for prompt in prompts]
        found = []
        for ids in self._written(asked, self.recipe.new_tokens, self.recipe.temperature, seed):
            text = "" if goes_round(ids) else self._text(ids).strip()
            found.append((text if ids[-1] in self.ends else shorten(text, len(text) - 1), len(ids)))
        return found

    def _templated(self, prompt: str, system: str) -> str:
        told = [{"role": "system", "content": self.form(system)}] if system else []
        messages = [*told, {"role": "user", "content": self.form(prompt)}]
        return self.tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)

    def _text(self, ids: list[int]) -> str:
        return self.tokenizer.decode(ids, skip_special_tokens=True)

    def _written(self, asked: list[list[int]], new_tokens: int, temperature: float, seed: int) -> list[list[int]]:
        """What the model goes on with after each of the prompts, its end included."""
        torch.manual_seed(seed)
        return generated(self.model, asked, new_tokens, temperature, self.ends, self.recipe.top_k)


def write(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, recipe: TextsRecipe, data: Path, file: Path
) -> None:
    """Write chats of one turn to `file`, a JSON object a line, until their answers have `recipe.tokens` tokens.

    `file` is gone on with where it was: a line says of which batch it is, and whether it is the batch's last. Raises
    ValueError where it is damaged or has those of another teacher, recipe or data, where the mix has too few prompts,
    and where the teacher writes nothing of use.
    """
    teacher = Teacher(model, tokenizer, recipe)
    made = {"recipe": {name: value for name, value in asdict(recipe).items() if name not in ("tokens", "note")}}
    made |= {"teacher": digest(model.state_dict()), "template": tokenizer.chat_template}
    claim(file, option="--out", **made, data=contents(recipe.mix, data))
    done = _done(file)
    number = done[-1].batch + 1 if done else 0
    total, barren = sum(record.tokens for record in done), 0
    known = {record.prompt for record in done}
    coming = asked(recipe, data)
    for before in range(number):
        if not _is_own(recipe, before):
            list(islice(coming, recipe.batch))
    with tqdm(total=recipe.tokens, initial=total, desc="texts", unit="token") as bar:
        while total < recipe.tokens:
            records = _batch(teacher, coming, number, known)
            append_lines(file, records)
            more = sum(record["tokens"] for record in records)
            bar.update(more)
            total, number, barren = total + more, number + 1, 0 if more else barren + 1
            if barren == PATIENCE:
                raise ValueError(
                    f"of {PATIENCE} batches nothing can be used: the mix may have no more prompts, or all answers "
                    f"go round or end no sentence. There are {total} of {recipe.tokens} tokens, and they are "
                    "kept: lower `tokens`, raise `new_tokens`, name more sources or take another teacher"
                )


def _batch(teacher: Teacher, coming: Iterator[str], number: int, known: set[str]) -> list[dict]:
    """The records of one batch, whose prompts become `known`; its number decides whose they are and what is drawn.

    An answer that cannot be used is "", of no tokens: its prompt stays known, and `read_chats` leaves it out.
    """
    recipe = teacher.recipe
    seed, own = recipe.seed * 1_000_003 + 2 * number, _is_own(recipe, number)
    prompts = teacher.prompts(seed) if own else list(islice(coming, recipe.batch))
    fresh = [prompt for prompt in dict.fromkeys(prompts) if prompt not in known]
    known.update(fresh)
    answers = teacher.answers(fresh, seed + 1) if fresh else []
    records = [
        {
            "source": "own" if own else "mix",
            "batch": number,
            "tokens": tokens if answer else 0,
            "messages": [{"role": "user", "content": prompt}, {"role": "assistant", "content": answer}],
        }
        for prompt, (answer, tokens) in zip(fresh, answers, strict=True)
    ]
    for record in records[-1:]:
        record["last"] = True
    return records


def asked(recipe: TextsRecipe, data: Path) -> Iterator[str]:
    """The first user turns of the mix, each once, always of the source that is furthest behind its share; none that are
    held out. The order is fixed by the seed."""
    left: dict[int, list[str]] = {}
    for index, source in enumerate(recipe.mix):
        users = (one["content"] for chat in read_chats(source, data) for one in chat[:2] if one["role"] == "user")
        found = [text for text in dict.fromkeys(users) if 0 < len(text) <= recipe.longest]
        random.Random(f"{recipe.seed} {source.file} {source.only}").shuffle(found)
        left[index] = found
    drawn = dict.fromkeys(left, 0)
    while left := {index: texts for index, texts in left.items() if texts}:
        index = min(left, key=lambda one: drawn[one] / recipe.mix[one].weight)
        drawn[index] += 1
        yield left[index].pop()


def _is_own(recipe: TextsRecipe, number: int) -> bool:
    """Whether the teacher makes up the prompts of a batch."""
    return int((number + 1) * recipe.own) > int(number * recipe.own)


class _Record(NamedTuple):
    """What going on needs of a line."""

    batch: int
    tokens: int
    prompt: str
    last: bool  # of its batch

    @classmethod
    def of(cls, line: bytes) -> _Record:
        record = json.loads(line)
        last = bool(record.get("last"))
        return cls(int(record["batch"]), int(record["tokens"]), str(record["messages"][0]["content"]), last)


def _done(file: Path) -> list[_Record]:
    """The records of a file's whole batches; what an interrupt left of another goes."""
    file.touch()
    lines = [line for line in file.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]
    records = []
    for number, line in enumerate(lines, start=1):
        try:
            records.append(_Record.of(line))
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise ValueError(
                f"{file} is damaged in line {number} ({error!r}): delete from there on, and it is written anew"
            ) from error
    if records and not records[-1].last:
        records = [record for record in records if record.batch < records[-1].batch]
    os.truncate(file, sum(map(len, lines[: len(records)])))
    return records

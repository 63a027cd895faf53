"""The target's own answers to the prompts of a mix: the text that its draft heads will have to draft.

They are kept as token ids, since text that is encoded again may not give the same ids. Several processes answer batches
side by side, and the file is the same whatever their number.
"""

from __future__ import annotations

import json
import os
import random
from bisect import bisect_left
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import accumulate, count, islice
from pathlib import Path

import torch
from accelerate import Accelerator
from accelerate.utils import gather_object
from tqdm import tqdm
from transformers import PreTrainedModel

from jakiro.files import append_lines
from jakiro.models.generation import generated
from jakiro.training.data import Document

CHUNK = 8  # batches whose prompts are sorted by length together, so that little is padding
ORDER = "shuffled"  # of a chunk's batches: what `claim` tells files of before from, whose shortest came first
PATIENCE = 20_000  # documents without a new prompt, one after another, at which a mix is taken to have no others


@dataclass(frozen=True, slots=True)
class Answers:
    """How answers are written."""

    new_tokens: int  # length cap
    batch: int  # prompts answered at once
    temperatures: tuple[float, ...]  # taken in turn, batch by batch, whose lengths are in no order; 0 is greedy


def write(
    accelerator: Accelerator,
    model: PreTrainedModel,
    documents: Iterator[Document],
    how: Answers,
    tokens: int,
    longest: int,
    file: Path,
    seed: int,
    ends: Collection[int] | None = None,
) -> list[Document]:
    """Answer the first prompts of `documents` until prompts and answers have `tokens` tokens together.

    Every prompt is answered once; one that leaves no room for an answer within `longest` tokens is passed over. Batches
    come in an order that `seed` draws, so that neither a temperature nor the last ones, which are not needed, are those
    of some lengths. They are appended to `file` as they are done, and those that it already holds are not made again;
    of more than are wanted the first are given. Answers end at one of `ends`, by default where the model's own do.
    Raises ValueError where the documents have too few prompts.
    """
    if accelerator.is_main_process:
        _cut(file, how.batch)
    accelerator.wait_for_everyone()
    done = _first(_read(file), tokens, how.batch)
    accelerator.wait_for_everyone()  # nobody writes before all have read
    total = sum(len(ids) for ids, _ in done)
    room = longest - how.new_tokens
    coming = islice(batches(prompts_of(documents, room), how.batch, seed), len(done) // how.batch, None)
    bar = tqdm(total=tokens, initial=total, desc="answers", unit="token", disable=not accelerator.is_main_process)
    with bar:
        while total < tokens:
            mine = next(islice(coming, accelerator.process_index, None), [])
            number = len(done) // how.batch + accelerator.process_index
            made = [_answered(model, mine, how, number, seed, ends)] if mine else []
            for _ in range(accelerator.process_index + 1, accelerator.num_processes):
                next(coming, None)  # is another's
            everyones = gather_object(made) if accelerator.num_processes > 1 else made
            if not everyones:
                raise ValueError(
                    f"the mix has only {len(done)} prompts of at most {room} tokens, with {total} of {tokens} tokens: "
                    "train on fewer rows, by more `epochs` or fewer `steps` in the recipe; these answers are kept"
                )
            for records in everyones:
                if total < tokens:
                    if accelerator.is_main_process:
                        append_lines(file, records)
                    found = [_document(**record) for record in records]
                    more = sum(len(ids) for ids, _ in found)
                    done += found
                    total += more
                    bar.update(more)
    return done


def prompts_of(documents: Iterator[Document], longest: int, patience: int = PATIENCE) -> Iterator[list[int]]:
    """What comes before the assistant's first word, of at most `longest` tokens, each once.

    They end where `patience` documents in a row bring no other, since documents are drawn without end.
    """
    seen: set[tuple[int, ...]] = set()
    waste = 0
    for ids, said in documents:
        prompt = tuple(ids[: said.index(True)]) if True in said else ()
        waste += 1
        if waste > patience:
            return
        if 0 < len(prompt) <= longest and prompt not in seen:
            seen.add(prompt)
            waste = 0
            yield list(prompt)


def batches(prompts: Iterator[list[int]], size: int, seed: int | None = None) -> Iterator[list[list[int]]]:
    """Prompts of about one length together, CHUNK batches at a time: the shortest first, or with a seed in the order
    that it draws for the chunk, but for a last batch that is not full."""
    for number in count():
        chunk = sorted(islice(prompts, CHUNK * size), key=len)
        if not chunk:
            return
        starts = list(range(0, len(chunk) - size + 1, size))
        if seed is not None:
            random.Random(f"{seed} {number}").shuffle(starts)
        yield from (chunk[start : start + size] for start in starts)
        if rest := chunk[len(starts) * size :]:
            yield rest


def _answered(
    model: PreTrainedModel, prompts: list[list[int]], how: Answers, number: int, seed: int, ends: Collection[int] | None
) -> list[dict[str, list[int]]]:
    """The records of one batch, whose number decides what is drawn and at which temperature."""
    torch.manual_seed(seed * 1_000_003 + number)
    found = generated(model, prompts, how.new_tokens, how.temperatures[number % len(how.temperatures)], ends)
    return [{"prompt": prompt, "answer": answer} for prompt, answer in zip(prompts, found, strict=True)]


def _cut(file: Path, batch: int) -> None:
    """Leave a file's whole batches; what an interrupt left of another goes."""
    file.touch()
    lines = [line for line in file.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]
    os.truncate(file, sum(map(len, lines[: len(lines) // batch * batch])))


def _read(file: Path) -> list[Document]:
    try:
        return [_document(**json.loads(line)) for line in file.read_text(encoding="utf-8").splitlines()]
    except (ValueError, TypeError) as error:
        raise ValueError(f"{file} is damaged ({error}): delete it, and the answers are written anew") from error


def _first(done: list[Document], tokens: int, batch: int) -> list[Document]:
    """The first whole batches that have `tokens` tokens together; all, where there are fewer."""
    totals = list(accumulate(len(ids) for ids, _ in done))
    wanted = bisect_left(totals, tokens) + 1
    return done[: -(-wanted // batch) * batch]


def _document(prompt: list[int], answer: list[int]) -> Document:
    return prompt + answer, [False] * len(prompt) + [True] * len(answer)

"""The target's own answers to the prompts of a mix: the text that its draft heads will have to draft.

They are kept as token ids, not as text, since text that is encoded again may not give the same ids.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import torch
from torch import Tensor
from tqdm import tqdm
from transformers import PreTrainedModel

from jakiro.training.data import Document

CHUNK = 8  # batches whose prompts are sorted by length together, so that little is padding
PATIENCE = 20_000  # prompts seen before, one after another, at which a mix is taken to have no others


@dataclass(frozen=True, slots=True)
class Answers:
    """How answers are written."""

    new_tokens: int  # length cap
    batch: int  # prompts answered at once
    temperatures: tuple[float, ...]  # taken in turn, batch by batch; 0 is greedy


def write(
    model: PreTrainedModel,
    documents: Iterator[Document],
    how: Answers,
    tokens: int,
    longest: int,
    file: Path,
    seed: int,
) -> list[Document]:
    """Answer the first prompts of `documents` until prompts and answers have `tokens` tokens together.

    Every prompt is answered once; one that leaves no room for an answer within `longest` tokens is passed over. Batches
    are appended to `file` as they are done, and those that it already holds are not made again.
    Raises ValueError where the documents have too few prompts.
    """
    done = _read(file, how.batch)
    total = sum(len(ids) for ids, _ in done)
    batches = islice(_batches(_prompts(documents, longest - how.new_tokens), how.batch), len(done) // how.batch, None)
    with file.open("a") as lines, tqdm(total=tokens, initial=total, desc="answers", unit="token") as bar:
        while total < tokens:
            number = len(done) // how.batch
            torch.manual_seed(seed * 1_000_003 + number)
            prompts = next(batches)
            written, real = generate(model, prompts, how.new_tokens, how.temperatures[number % len(how.temperatures)])
            start = max(map(len, prompts))
            answers = [row[mask].tolist() for row, mask in zip(written[:, start:], real[:, start:], strict=True)]
            records = [{"prompt": p, "answer": a} for p, a in zip(prompts, answers, strict=True)]
            lines.writelines(json.dumps(record) + "\n" for record in records)
            lines.flush()
            done += [_document(**record) for record in records]
            bar.update(sum(len(ids) for ids, _ in done) - total)
            total = sum(len(ids) for ids, _ in done)
    return done


@torch.inference_mode()
def generate(
    model: PreTrainedModel, prompts: list[list[int]], new_tokens: int, temperature: float = 0.0
) -> tuple[Tensor, Tensor]:
    """Prompts with their answers, [b, longest prompt + answer], and which of them are tokens, not padding.

    Prompts are padded in front, so that every answer starts in the same column; it ends with the end-of-sequence token.
    """
    width = max(map(len, prompts))
    ids = torch.tensor([[0] * (width - len(prompt)) + prompt for prompt in prompts], device=model.device)
    asked = torch.arange(width, device=model.device) >= width - ids.new_tensor(list(map(len, prompts)))[:, None]
    end = model.config.eos_token_id
    sampling = {"do_sample": True, "temperature": temperature, "top_k": 0} if temperature else {"do_sample": False}
    written = model.generate(
        ids, attention_mask=asked.long(), max_new_tokens=new_tokens, eos_token_id=end, pad_token_id=0, **sampling
    )
    ended = (written[:, width:] == end).cumsum(dim=1)
    real = (ended == 0) | ((ended == 1) & (written[:, width:] == end))
    return written, torch.cat([asked, real], dim=1)


def _prompts(documents: Iterator[Document], longest: int) -> Iterator[list[int]]:
    """What comes before the assistant's first word, each once."""
    seen: set[tuple[int, ...]] = set()
    waste = 0
    for ids, said in documents:
        prompt = tuple(ids[: said.index(True)]) if True in said else ()
        waste += 1
        if waste > PATIENCE:
            raise ValueError(f"the mix has only {len(seen)} prompts of at most {longest} tokens: train on fewer rows")
        if 0 < len(prompt) <= longest and prompt not in seen:
            seen.add(prompt)
            waste = 0
            yield list(prompt)


def _batches(prompts: Iterator[list[int]], size: int) -> Iterator[list[list[int]]]:
    while chunk := sorted(islice(prompts, CHUNK * size), key=len):
        for start in range(0, len(chunk), size):
            yield chunk[start : start + size]


def _read(file: Path, batch: int) -> list[Document]:
    """The whole batches of a file; what an interrupt left of another is cut off."""
    if not file.exists():
        return []
    lines = [line for line in file.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]
    whole = lines[: len(lines) // batch * batch]
    os.truncate(file, sum(map(len, whole)))
    return [_document(**json.loads(line)) for line in whole]


def _document(prompt: list[int], answer: list[int]) -> Document:
    return prompt + answer, [False] * len(prompt) + [True] * len(answer)

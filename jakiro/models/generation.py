"""Answers to many prompts at once, by the law that the engine decodes by."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad
from transformers import DynamicCache, GenerationConfig, PreTrainedModel, PreTrainedTokenizerBase

from jakiro.cache import argument_of
from jakiro.text import check_ids

LOOK = 8  # tokens after which it is looked which answers have ended; each look waits for the device


def end_ids(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase | None = None) -> frozenset[int]:
    """Ids that end the text: those `model.generate` stops at, and the tokenizer's own (the end of a chat turn)."""
    stops = [getattr(model.generation_config, "eos_token_id", None), getattr(tokenizer, "eos_token_id", None)]
    if stops[0] is None:
        stops[0] = getattr(model.config, "eos_token_id", None)
    listed = [one if isinstance(one, list | tuple) else [one] for one in stops if one is not None]
    found = [id for ids in listed for id in ids]
    if wrong := [id for id in found if type(id) is not int]:
        raise ValueError(f"generation_config.json or config.json ends texts with {wrong[0]!r}, which is no id: mend it")
    return frozenset(found)


@contextmanager
def plain(model: PreTrainedModel) -> Iterator[None]:
    """The model without its own generation config, which `generate` mixes into whatever it is given.

    A repetition penalty, top_p or min_p in it would make another law than the one that our methods sample from.
    """
    own = model.generation_config
    model.generation_config = GenerationConfig()
    try:
        yield
    finally:
        model.generation_config = own


@torch.inference_mode()
def generate(
    model: PreTrainedModel,
    prompts: list[list[int]],
    new_tokens: int,
    temperature: float = 0.0,
    ends: Collection[int] | None = None,
    top_k: int = 0,
) -> tuple[Tensor, Tensor]:
    """Prompts with their answers, [b, longest prompt + longest answer], and which of them are tokens, not padding.

    Prompts are padded in front, so that every answer starts in the same column; it ends with one of `ends`, by default
    the model's. Above temperature 0 tokens are drawn from the `top_k` likeliest, from all if that is 0. What
    `model.generate` gives, but answers that have ended leave the batch, which is most of the work where it is large.
    Raises ValueError for a prompt that is foreign to the vocabulary.
    """
    for prompt in prompts:
        check_ids(prompt, len(model.get_input_embeddings().weight))
    width, device = max(map(len, prompts)), model.device
    written = torch.tensor([[0] * (width - len(prompt)) + prompt for prompt in prompts], device=device)
    written = pad(written, (0, new_tokens))
    real = torch.arange(width, device=device) >= width - written.new_tensor(list(map(len, prompts)))[:, None]
    real = pad(real, (0, new_tokens))
    last = torch.tensor(sorted(end_ids(model) if ends is None else ends), dtype=torch.long, device=device)
    rows = torch.arange(len(prompts), device=device)  # those that are still being written
    going = torch.ones_like(rows, dtype=torch.bool)
    seen, cache = 0, DynamicCache(config=model.config)
    for at in range(width, width + new_tokens):
        before = real[rows, :at]
        positions = (before.cumsum(dim=1) - 1).clamp_min(0)[:, seen:]
        given = {"attention_mask": before.long(), "position_ids": positions, argument_of(model): cache}
        out = model(input_ids=written[rows, seen:at], use_cache=True, logits_to_keep=1, **given)
        chosen = _drawn(out.logits[:, -1].float(), temperature, top_k)
        written[rows, at], real[rows, at] = torch.where(going, chosen, 0), going
        going, seen = going & ~torch.isin(chosen, last), at
        if (at - width) % LOOK == LOOK - 1 and not going.all():
            rows, left = rows[going], going.nonzero()[:, 0]
            if not len(rows):
                break
            cache.batch_select_indices(left)
            going = going[left]
    end = max(width, int(real.any(dim=0).nonzero()[-1]) + 1)
    return written[:, :end], real[:, :end]


def generated(model: PreTrainedModel, prompts: list[list[int]], *how: Any, **more: Any) -> list[list[int]]:
    """What `generate` adds to each of the prompts, its end included."""
    written, real = generate(model, prompts, *how, **more)
    start = max(map(len, prompts))
    return [row[mask].tolist() for row, mask in zip(written[:, start:], real[:, start:], strict=True)]


def _drawn(logits: Tensor, temperature: float, top_k: int) -> Tensor:
    """A token of each row of logits [b, v]."""
    if not temperature:
        return logits.argmax(dim=-1)
    if not top_k:
        return torch.multinomial((logits / temperature).softmax(dim=-1), 1)[:, 0]
    best, tokens = logits.topk(min(top_k, logits.shape[-1]), dim=-1)
    return tokens.gather(-1, torch.multinomial((best / temperature).softmax(dim=-1), 1))[:, 0]

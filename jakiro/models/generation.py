"""What transformers' `generate` is given, so that it decodes by the law that the engine decodes by."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor
from transformers import GenerationConfig, PreTrainedModel, PreTrainedTokenizerBase


def end_ids(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase | None = None) -> frozenset[int]:
    """Ids that end the text: those `model.generate` stops at, and the tokenizer's own (the end of a chat turn)."""
    stops = [getattr(model.generation_config, "eos_token_id", None), getattr(tokenizer, "eos_token_id", None)]
    if stops[0] is None:
        stops[0] = getattr(model.config, "eos_token_id", None)
    return frozenset(id for ids in stops if ids is not None for id in ([ids] if isinstance(ids, int) else ids))


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
    """Prompts with their answers, [b, longest prompt + answer], and which of them are tokens, not padding.

    Prompts are padded in front, so that every answer starts in the same column; it ends with one of `ends`, by default
    the model's. Above temperature 0 tokens are drawn from the `top_k` likeliest, from all if that is 0.
    """
    width = max(map(len, prompts))
    ids = torch.tensor([[0] * (width - len(prompt)) + prompt for prompt in prompts], device=model.device)
    asked = torch.arange(width, device=model.device) >= width - ids.new_tensor(list(map(len, prompts)))[:, None]
    ends = sorted(end_ids(model) if ends is None else ends)
    sampling = (
        {"do_sample": True, "temperature": float(temperature), "top_k": top_k} if temperature else {"do_sample": False}
    )
    with plain(model):
        written = model.generate(
            ids,
            attention_mask=asked.long(),
            max_new_tokens=new_tokens,
            eos_token_id=ends or None,
            pad_token_id=0,
            **sampling,
        )
    end = torch.isin(written[:, width:], torch.tensor(ends, dtype=torch.long, device=model.device))
    ended = end.cumsum(dim=1)
    real = (ended == 0) | ((ended == 1) & end)
    return written, torch.cat([asked, real], dim=1)

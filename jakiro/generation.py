"""What transformers' `generate` is given, so that it decodes by the law that the engine decodes by."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

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

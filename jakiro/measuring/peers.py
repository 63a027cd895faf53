"""Decoders of transformers itself, to compare with: what a user would call instead."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import torch
from transformers import PreTrainedModel, StaticCache, StoppingCriteria, StoppingCriteriaList

from jakiro.bench import Generated, Peers
from jakiro.engine import stopwatch
from jakiro.methods import DRAFT_MODEL
from jakiro.models import hub
from jakiro.models.generation import plain
from jakiro.models.loading import alike, load_model
from jakiro.models.products import lay_out
from jakiro.target import Target
from jakiro.verify import Sampling

LOG = logging.getLogger(__name__)
LOOKUP = 10  # tokens that transformers' prompt lookup copies: its own default
COMPILED = ("cuda", "xpu")  # types of device on which `generate` compiles the steps of a static cache


class _Stopwatch(StoppingCriteria):
    """Notes when the first tokens are there, and how long the text is then; never stops."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.first: float | None = None
        self.length = 0

    def __call__(self, input_ids, scores, **kwargs) -> torch.Tensor:
        if self.first is None:
            self.first, self.length = self.clock(), input_ids.shape[1]
        return torch.zeros(len(input_ids), dtype=torch.bool, device=input_ids.device)


def generate_peers(target: Target) -> Peers:
    """`model.generate` with its default dynamic cache, its static cache, its prompt lookup, and assisted.

    The last one only where the target has a draft model of as many ids, as transformers needs it. Raises ValueError or
    FileNotFoundError where that cannot be read. On the devices in COMPILED the static cache's steps are compiled, and
    none of the times includes that (`_static`).
    """
    found = {
        "hf_generate_dynamic": _generator(target, {"cache_implementation": "dynamic"}),
        "hf_generate_static": _static(target, {}),
        "hf_prompt_lookup": _generator(target, {"prompt_lookup_num_tokens": LOOKUP}),
    }
    if assistant := _assistant(target):
        found["hf_assisted"] = _generator(target, {"assistant_model": assistant})
    return found


def _law(sampling: Sampling) -> dict[str, Any]:
    """The sampling as `generate` is told of it."""
    if not sampling.temperature:
        return {"do_sample": False}
    return {"do_sample": True, "temperature": sampling.temperature, "top_p": sampling.top_p, "top_k": 0}


def _assistant(target: Target) -> PreTrainedModel | None:
    if DRAFT_MODEL not in target.heads:
        return None
    folder = target.heads[DRAFT_MODEL]
    hub.check_weights(folder)
    model = load_model(folder, dtype=target.dtype, **alike(target.model)).to(target.device).eval()
    ids = model.config.get_text_config(decoder=True).vocab_size
    if ids != target.vocab_size:
        LOG.warning("without hf_assisted: %s has %d ids, the target %d", folder, ids, target.vocab_size)
        return None
    lay_out(model)
    return model


def _generator(target: Target, options: dict) -> Callable[[list[int], int, Sampling], Generated]:
    @torch.inference_mode()
    def generate(prompt: list[int], max_new_tokens: int, sampling: Sampling) -> Generated:
        torch.manual_seed(sampling.seed)  # of what `generate` draws from
        ids = torch.tensor([prompt], device=target.device)
        clock = stopwatch(target.device)
        watch = _Stopwatch(clock)
        budget = min(max_new_tokens, target.context - len(prompt))
        with plain(target.model):
            start = clock()
            output = target.model.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                max_new_tokens=budget,
                stopping_criteria=StoppingCriteriaList([watch]),
                eos_token_id=sorted(target.ends) or None,
                pad_token_id=min(target.ends, default=0),
                **_law(sampling),
                **options,
            )
            new = output[0, len(prompt) :].tolist()
            end = clock()
        assert watch.first is not None
        return Generated(new, watch.length - len(prompt), watch.first - start, end - watch.first)

    return generate


def _static(target: Target, options: dict) -> Callable[[list[int], int, Sampling], Generated]:
    """With a static cache of the text's own length: `generate` makes its own as long as the longest that it ever made,
    and every step reads the whole of it.

    On the devices in COMPILED (transformers 5.23, `_valid_auto_compile_criteria`) it compiles steps again for another
    length, and records their CUDA graphs again where the cache lies elsewhere. So there each prompt is decoded twice
    and the second time is given, with one cache for the longest text so far, emptied in between and kept for the
    prompts to come.
    """
    compiled, cache, length = target.device.type in COMPILED, None, 0

    @torch.inference_mode()
    def generate(prompt: list[int], max_new_tokens: int, sampling: Sampling) -> Generated:
        nonlocal cache, length
        needed = min(len(prompt) + max_new_tokens, target.context)
        if needed > length or not compiled:
            cache, length = StaticCache(target.model.config, max_cache_len=needed), needed
        decode = _generator(target, options | {target.takes_cache: cache})
        if compiled:
            cache.reset()
            decode(prompt, max_new_tokens, sampling)
            cache.reset()
        return decode(prompt, max_new_tokens, sampling)

    return generate

"""Decoders of transformers itself, to compare with: what a user would call instead."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
from transformers import StoppingCriteria, StoppingCriteriaList

from jakiro.target import Target
from jakiro.verify import Sampling


class _Stopwatch(StoppingCriteria):
    """Notes when the first token is there; never stops."""

    def __init__(self) -> None:
        self.first: float | None = None

    def __call__(self, input_ids, scores, **kwargs) -> torch.Tensor:
        self.first = self.first or time.perf_counter()
        return torch.zeros(len(input_ids), dtype=torch.bool, device=input_ids.device)


def generate_peers(target: Target, sampling: Sampling) -> dict[str, Callable]:
    """`model.generate` with its default dynamic cache and with its static cache."""
    options = {"do_sample": False}
    if sampling.temperature:
        options = {"do_sample": True, "temperature": sampling.temperature, "top_p": sampling.top_p, "top_k": 0}
    return {
        f"hf_generate_{kind}": _generator(target, {**options, "cache_implementation": kind})
        for kind in ("dynamic", "static")
    }


def _generator(target: Target, options: dict) -> Callable[[list[int], int], tuple[list[int], float, float]]:
    @torch.inference_mode()
    def generate(prompt: list[int], max_new_tokens: int) -> tuple[list[int], float, float]:
        ids = torch.tensor([prompt], device=target.device)
        watch = _Stopwatch()
        budget = min(max_new_tokens, target.context - len(prompt))
        start = time.perf_counter()
        output = target.model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=budget,
            stopping_criteria=StoppingCriteriaList([watch]),
            eos_token_id=sorted(target.ends) or None,
            pad_token_id=min(target.ends, default=0),
            **options,
        )
        new = output[0, len(prompt) :].tolist()
        end = time.perf_counter()
        assert watch.first is not None
        return new, watch.first - start, end - watch.first

    return generate

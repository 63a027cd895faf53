"""Decoders of transformers itself, to compare with: what a user would call instead."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from transformers import (
    AutoModelForCausalLM,
    GenerationConfig,
    PreTrainedModel,
    StoppingCriteria,
    StoppingCriteriaList,
)

from jakiro.bench import Generated
from jakiro.engine import stopwatch
from jakiro.target import Target
from jakiro.verify import Sampling

LOOKUP = 10  # tokens that transformers' prompt lookup copies: its own default
ASSISTANT = "assistant"  # folder beside a target's heads with a small model of the same tokenizer


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


def generate_peers(target: Target, sampling: Sampling) -> dict[str, Callable]:
    """`model.generate` with its default dynamic cache, its static cache, its prompt lookup, and assisted.

    The last one only where the target has an ASSISTANT. Raises ValueError where that has another vocabulary.
    """
    options = {"do_sample": False}
    if sampling.temperature:
        options = {"do_sample": True, "temperature": sampling.temperature, "top_p": sampling.top_p, "top_k": 0}
    kinds = {
        "hf_generate_dynamic": {"cache_implementation": "dynamic"},
        "hf_generate_static": {"cache_implementation": "static"},
        "hf_prompt_lookup": {"prompt_lookup_num_tokens": LOOKUP},
    }
    if ASSISTANT in target.heads:
        kinds["hf_assisted"] = {"assistant_model": _assistant(target)}
    return {name: _generator(target, options | own) for name, own in kinds.items()}


def _assistant(target: Target) -> PreTrainedModel:
    folder = target.heads[ASSISTANT]
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=target.dtype).to(target.device).eval()
    if model.config.vocab_size != target.vocab_size:
        raise ValueError(
            f"{folder} has {model.config.vocab_size} tokens, the target {target.vocab_size}: it cannot assist"
        )
    return model


@contextmanager
def _plain(model: PreTrainedModel) -> Iterator[None]:
    """The model without its own generation config, which `generate` mixes into whatever it is given.

    A repetition penalty or min_p in it would make another law than the one that our methods sample from.
    """
    own = model.generation_config
    model.generation_config = GenerationConfig()
    try:
        yield
    finally:
        model.generation_config = own


def _generator(target: Target, options: dict) -> Callable[[list[int], int], Generated]:
    @torch.inference_mode()
    def generate(prompt: list[int], max_new_tokens: int) -> Generated:
        ids = torch.tensor([prompt], device=target.device)
        clock = stopwatch(target.device)
        watch = _Stopwatch(clock)
        budget = min(max_new_tokens, target.context - len(prompt))
        with _plain(target.model):
            start = clock()
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
            end = clock()
        assert watch.first is not None
        return Generated(new, watch.length - len(prompt), watch.first - start, end - watch.first)

    return generate

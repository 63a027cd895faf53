"""Models that grow in depth and compute the same function before and after.

New layers are put between the old ones as copies whose output projections are zero (block expansion, as in LLaMA Pro,
arXiv 2401.02415, section 3).
"""

from __future__ import annotations

import torch
from transformers import LlamaConfig, LlamaForCausalLM


def grow(model: LlamaForCausalLM, layers: int) -> LlamaForCausalLM:
    """A model of `layers` layers that computes the same function. Raises ValueError where the depths do not fit."""
    before = model.config.num_hidden_layers
    if layers == before:
        return model
    check_growth(before, layers)
    copies = layers // before
    config = LlamaConfig(**{**model.config.to_dict(), "num_hidden_layers": layers})
    grown = LlamaForCausalLM(config)
    old = model.state_dict()
    grown.load_state_dict({name: old[_source_name(name, copies)] for name in grown.state_dict()})
    for index, layer in enumerate(grown.model.layers):
        if index % copies:
            silence(layer)
    return grown


def check_growth(before: int, layers: int) -> None:
    """Raise ValueError where a model of `before` layers cannot grow to `layers`."""
    if layers % before:
        raise ValueError(f"a model of {before} layers grows by whole copies; {layers} is not a multiple of {before}")


def _source_name(name: str, copies: int) -> str:
    head, mark, tail = name.partition("layers.")
    number, _, rest = tail.partition(".")
    return f"{head}layers.{int(number) // copies}.{rest}" if mark else name


def silence(layer: torch.nn.Module) -> None:
    """Let a layer give back what it is given."""
    with torch.no_grad():
        layer.self_attn.o_proj.weight.zero_()
        layer.mlp.down_proj.weight.zero_()

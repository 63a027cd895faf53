"""Models that grow and compute the same function before and after.

Targets grow in depth: new layers are put between the old ones as copies whose output projections are zero (block
expansion, as in LLaMA Pro, arXiv 2401.02415, section 3). Heads grow in width: nothing is read yet of the new units.
"""

from __future__ import annotations

import torch
from torch import Tensor
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


def widen(tensors: dict[str, Tensor], head: torch.nn.Module) -> dict[str, Tensor]:
    """Weights by key, of a head whose feed-forward part may be narrower than that of `head`, in the latter's shape.

    New units begin as those of `head` do; what else does not fit is left as it is.
    """
    found = dict(tensors)
    for key, wide in head.state_dict().items():
        across = {"gate_proj": 0, "up_proj": 0, "down_proj": 1}.get(key.split(".")[-2:][0])
        if across is None or key not in tensors:
            continue
        own = tensors[key]
        if own.ndim == 2 and own.shape[1 - across] == wide.shape[1 - across] and own.shape[across] < wide.shape[across]:
            new = wide.narrow(across, own.shape[across], wide.shape[across] - own.shape[across])
            found[key] = torch.cat([own, torch.zeros_like(new) if across else new], dim=across)
    return found


def mean(one: dict[str, Tensor], other: dict[str, Tensor]) -> dict[str, Tensor]:
    """The mean of two models' weights by name."""
    return {name: (weight + other[name]) / 2 for name, weight in one.items()}


def silence(layer: torch.nn.Module) -> None:
    """Let a layer give back what it is given."""
    with torch.no_grad():
        layer.self_attn.o_proj.weight.zero_()
        layer.mlp.down_proj.weight.zero_()

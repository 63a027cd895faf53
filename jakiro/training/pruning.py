"""A target that begins as a part of a larger model instead of as noise.

What is kept: the first merges of its vocabulary, which are the most frequent; the layers that change features most
(ShortGPT, arXiv 2403.03853, section 3.2), the first and the last always; and in each the feed-forward units whose
outputs are largest on average (Minitron, arXiv 2407.14679, section 2.2). Width and attention stay whole.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import isclose

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn.functional import cosine_similarity
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
)

from jakiro.training.target_recipe import AS_SAVED
from jakiro.training.tokenizer import SPECIAL, byte_level

ROWS = 64  # of the target's text, on which a parent's layers and units are measured
FREE = {  # fields of a LlamaConfig that a part need not share with the whole, and those of no weight
    *("vocab_size", "num_hidden_layers", "intermediate_size", "max_position_embeddings", "tie_word_embeddings"),
    *("bos_token_id", "eos_token_id", "pad_token_id", "use_cache", "initializer_range", "attention_dropout"),
    *("pretraining_tp", *AS_SAVED),
}


@dataclass(frozen=True, slots=True)
class Parent:
    """The larger model, and what its part's tokens are in it."""

    model: LlamaForCausalLM
    tokenizer: PreTrainedTokenizerFast  # the part's
    rows: Tensor  # [part's vocabulary]: which of the parent's tokens each is


def parent_of(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, vocab_size: int) -> Parent:
    """`model`, whose part has `vocab_size` tokens: those of the chat template, and its own first ones.

    Raises ValueError where it is no Llama, or its tokenizer no byte-level BPE of at least as many tokens.
    """
    if not isinstance(model, LlamaForCausalLM):
        raise ValueError(f"a target begins as a part of a Llama, and the parent is a {type(model).__name__}")
    whole = json.loads(tokenizer.backend_tokenizer.to_str()) if tokenizer.is_fast else {"model": {"type": None}}
    bpe = whole["model"]
    steps = json.dumps([whole.get("pre_tokenizer"), whole.get("decoder")])
    if bpe["type"] != "BPE" or '"ByteLevel"' not in steps:
        raise ValueError("a target takes the first tokens of a byte-level BPE, and the parent's tokenizer is another")
    merges = [tuple(one.split(" ")) if isinstance(one, str) else tuple(one) for one in bpe["merges"]]
    ids, made = bpe["vocab"], list(dict.fromkeys("".join(one) for one in merges))  # some are made in several ways
    added = {one["content"] for one in whole["added_tokens"]}
    single = [token for token in ids if len(token) == 1 and token not in added]
    room = vocab_size - len(SPECIAL) - len(single)
    if not 0 <= room <= len(made):
        raise ValueError(
            f"the recipe's vocab_size is {vocab_size}: of this parent's tokens use "
            f"{len(SPECIAL) + len(single)} to {len(SPECIAL) + len(single) + len(made)}"
        )
    kept = [*single, *made[:room]]
    vocab = {token: at for at, token in enumerate([*SPECIAL, *kept])}
    merges = [one for one in merges if vocab.keys() >= {*one, "".join(one)}]
    cut = {"version": "1.0", "model": bpe | {"vocab": vocab, "merges": merges}}
    end = tokenizer.eos_token_id if tokenizer.eos_token_id is not None else 0
    rows = torch.tensor([end] * len(SPECIAL) + [ids[token] for token in kept])
    return Parent(model, byte_level(Tokenizer.from_str(json.dumps(cut))), rows)


def check_shape(whole: LlamaConfig, config: LlamaConfig) -> None:
    """Raise ValueError where a model of `config` is no part of one of `whole`."""
    for name, value in config.to_dict().items():
        if name not in FREE and not _same(value, getattr(whole, name, value)):
            raise ValueError(f"the recipe's `model` has {name} {value}, its parent {getattr(whole, name)}: change it")
    for name in ("num_hidden_layers", "intermediate_size"):
        if getattr(config, name) > getattr(whole, name):
            raise ValueError(f"a part has {name} {getattr(config, name)}, its parent only {getattr(whole, name)}")


def _same(one: object, other: object) -> bool:
    """Whether values of a config are equal, of numbers up to rounding."""
    return isclose(one, other, rel_tol=1e-6) if isinstance(one, float) and isinstance(other, float) else one == other


def part(parent: Parent, config: LlamaConfig, ids: np.ndarray) -> LlamaForCausalLM:
    """A model of `config`'s depth and feed-forward width, of the parent's weights that count most on `ids` [n, s].

    `ids` are of the part's vocabulary, 0 is padding. Raises ValueError as `check_shape` does.
    """
    check_shape(parent.model.config, config)
    influence, outputs = _measured(parent, torch.from_numpy(ids.astype(np.int64)))
    layers, states = _best(influence, config.num_hidden_layers), parent.model.state_dict()
    found = LlamaForCausalLM(config)
    new = {"model.norm.weight": states["model.norm.weight"]}
    for name in ("model.embed_tokens.weight", "lm_head.weight"):
        new[name] = states[name][parent.rows.to(states[name].device)]
    for at, layer in enumerate(layers):
        units = outputs[layer].topk(config.intermediate_size).indices.sort().values
        for name in found.model.layers[at].state_dict():
            weight = states[f"model.layers.{layer}.{name}"]
            if name.startswith(("mlp.gate_proj", "mlp.up_proj")):
                weight = weight[units]
            elif name == "mlp.down_proj.weight":
                weight = weight[:, units]
            new[f"model.layers.{at}.{name}"] = weight
    found.load_state_dict(new)
    return found


def _best(influence: Tensor, count: int) -> list[int]:
    """The `count` layers of most influence in their order, the first and the last among them (of one: the first)."""
    last = len(influence) - 1
    inner = sorted(range(1, last), key=lambda at: -influence[at].item())
    return sorted(([0, last] if count > 1 else [0]) + inner[: max(0, count - 2)])


@torch.inference_mode()
def _measured(parent: Parent, ids: Tensor) -> tuple[Tensor, Tensor]:
    """[layers]: 1 - cosine between what enters a layer and what leaves it; [layers, units]: how large a unit's output
    is. Means over the tokens that are not padding."""
    model = parent.model.eval()
    count, device = model.config.num_hidden_layers, model.device
    influence = torch.zeros(count, device=device)
    units = torch.zeros(count, model.config.intermediate_size, device=device)
    for row in ids.to(device):
        real = row != 0
        with _watched(model) as seen:
            model.model(input_ids=parent.rows.to(device)[row[real]][None], use_cache=False)
        for at, (before, after, inner) in enumerate(seen):
            influence[at] += (1 - cosine_similarity(before.float(), after.float(), dim=-1)).sum()
            units[at] += inner.float().abs().sum(dim=(0, 1))
    columns = [layer.mlp.down_proj.weight.float().norm(dim=0) for layer in model.model.layers]
    tokens = max(1, int((ids != 0).sum()))
    return influence / tokens, units / tokens * torch.stack(columns)


@contextmanager
def _watched(model: LlamaForCausalLM) -> Iterator[list[list[Tensor]]]:
    """Of each layer, once the model has been called: what entered it, what left it, its units' outputs."""
    seen: list[list[Tensor]] = [[] for _ in model.model.layers]
    hooks = []
    for own, layer in zip(seen, model.model.layers, strict=True):
        hooks += [
            layer.register_forward_pre_hook(lambda _, given, own=own: own.insert(0, given[0])),
            layer.register_forward_hook(lambda _, __, out, own=own: own.insert(1, out)),
            layer.mlp.down_proj.register_forward_pre_hook(lambda _, given, own=own: own.append(given[0])),
        ]
    try:
        yield seen
    finally:
        for hook in hooks:
            hook.remove()

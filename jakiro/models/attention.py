"""Attention of a draft tree's tokens over a long text, on CUDA.

torch's fused kernels give each head of so few queries to one block, which walks through all keys alone, in float32 and
under a mask: 34 us over 256 rows on an H200 and 237 over 2,048, where a product, a softmax and a product, shared out
over the whole device, take 16 and 54 (`python -m benchmarks.attention`, attention-h200.json).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from transformers.integrations.sdpa_attention import sdpa_attention_forward

MOST = 256  # queries that count as few: scores of a long prompt are not written down


def attend(query: Tensor, keys: Tensor, values: Tensor, mask: Tensor, scale: float | None = None) -> Tensor:
    """[heads, n, d] of queries over keys and values [key heads, s, d], each shared by a group of the heads, under an
    additive mask that broadcasts to [n, s]. Scores and softmax are in float32 at least."""
    heads, count, width = query.shape
    scale = width**-0.5 if scale is None else scale
    grouped = query.reshape(len(keys), -1, width)  # [key heads, group * n, d]
    if query.dtype in (torch.float16, torch.bfloat16) and query.is_cuda:
        scores = torch.bmm(grouped, keys.transpose(1, 2), out_dtype=torch.float32)
    else:
        scores = torch.bmm(grouped, keys.transpose(1, 2))
    scores = scores.view(len(keys), -1, count, keys.shape[1]) * scale + mask
    weights = scores.softmax(-1, dtype=torch.promote_types(query.dtype, torch.float32)).to(values.dtype)
    return torch.bmm(weights.flatten(1, 2), values).view(heads, count, -1)


def sdpa(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **named: Any
) -> tuple[Tensor, None]:
    """What transformers calls `sdpa`, [1, n, heads, d]: by `attend` for few queries of one text under a mask."""
    mask, odd = attention_mask, {"position_bias", "softcap"} & {name for name in named if named[name] is not None}
    few = len(query) == 1 and query.shape[2] <= MOST and not named.get("dropout")
    if odd or not few or mask is None or not mask.is_floating_point() or mask.shape[1] != 1:
        return sdpa_attention_forward(module, query, key, value, attention_mask, **named)
    mixed = attend(query[0], key[0], value[0], mask[0, 0], named.get("scaling"))
    return mixed.transpose(0, 1)[None].contiguous(), None

"""Attention of a draft tree's tokens over a long text.

Heads that share keys take them as they are, where transformers would repeat them in every layer of a pass with a mask.
torch's kernel for a CPU can do that. Its fused ones on CUDA give each head of so few queries to one block, which walks
through all keys alone, in float32 and under a mask: 34 us over 256 rows on an H200 and 237 over 2,048, where a product,
a softmax and a product, shared out over the whole device, take 16 and 54 (`python -m benchmarks.attention`,
attention-h200.json).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers.integrations.sdpa_attention import sdpa_attention_forward

TORCHS, OURS = ("cpu",), ("cuda",)  # devices on which torch's kernel takes shared keys, and on which `attend` does
MOST = 256  # queries that count as few: scores of a long prompt are not written down


def attend(query: Tensor, keys: Tensor, values: Tensor, mask: Tensor, scale: float | None = None) -> Tensor:
    """[b, heads, n, d] of queries over keys and values [b, key heads, s, d], each shared by a group of the heads.

    `mask` is added to scores, or true where there is something to see, and broadcasts to [b, key heads, group, n, s].
    Softmax is in float32 at least; scores, too, but for half precision off CUDA.
    """
    batch, heads, count, width = query.shape
    shared, rows = keys.shape[1:3]
    grouped, keys = query.reshape(batch * shared, -1, width), keys.flatten(0, 1)  # [b * key heads, group * n, d]
    if query.dtype in (torch.float16, torch.bfloat16) and query.is_cuda:
        scores = torch.bmm(grouped, keys.transpose(1, 2), out_dtype=torch.float32)
    else:
        scores = torch.bmm(grouped, keys.transpose(1, 2))
    scores = scores.view(batch, shared, -1, count, rows) * (width**-0.5 if scale is None else scale)
    scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask
    weights = scores.softmax(-1, dtype=torch.promote_types(query.dtype, torch.float32)).to(values.dtype)
    return torch.bmm(weights.view(*grouped.shape[:2], rows), values.flatten(0, 1)).view(batch, heads, count, -1)


def sdpa(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **named: Any
) -> tuple[Tensor, None]:
    """What transformers calls `sdpa`, [b, n, heads, d], under a mask with shared keys.

    `attend` is for few queries, one text's or one of each of many texts, which are answered together.
    """
    mask, odd = attention_mask, {"position_bias", "softcap"} & {name for name in named if named[name] is not None}
    few = query.shape[2] == 1 or (len(query) == 1 and query.shape[2] <= MOST)
    here = query.device.type in (OURS + TORCHS if few else TORCHS)
    if not here or odd or named.get("dropout") or mask is None or mask.shape[1] != 1:
        return sdpa_attention_forward(module, query, key, value, attention_mask, **named)
    if query.device.type in OURS:
        mixed = attend(query, key, value, mask[:, :, None], named.get("scaling"))
    else:
        shared = query.shape[1] > key.shape[1]
        mixed = F.scaled_dot_product_attention(query, key, value, mask, scale=named.get("scaling"), enable_gqa=shared)
    return mixed.transpose(1, 2).contiguous(), None

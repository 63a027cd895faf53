"""Attention of few queries, against torch's own."""

from __future__ import annotations

import pytest
import torch
from test_engine import SAMPLED, Noise
from tiny import tiny_model
from torch.nn import functional as F
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from jakiro.engine import record
from jakiro.methods.vanilla import VanillaDrafter
from jakiro.models import attention
from jakiro.models.attention import attend, sdpa
from jakiro.target import Target


def case(heads=6, shared=2, count=5, rows=9, dtype=torch.float32):
    draw = torch.Generator().manual_seed(0)
    sizes = [(heads, count, 8), (shared, rows, 8), (shared, rows, 8), (count, rows)]
    *given, mask = (torch.randn(size, generator=draw).to(dtype) for size in sizes)
    return *given, torch.zeros_like(mask).masked_fill(mask < -0.5, torch.finfo(dtype).min)


@pytest.mark.parametrize(("heads", "shared", "count"), [(6, 2, 5), (4, 4, 1), (3, 1, 7)])
@pytest.mark.parametrize(("dtype", "near"), [(torch.float32, 1e-5), (torch.float64, 1e-12), (torch.bfloat16, 2e-2)])
def test_heads_that_share_keys_attend_as_torchs_do(heads, shared, count, dtype, near):
    query, keys, values, mask = case(heads, shared, count, dtype=dtype)
    for scale in (None, 0.7):
        found = attend(query, keys, values, mask, scale)
        wide = [one.double()[None] for one in (query, keys, values)]
        right = F.scaled_dot_product_attention(*wide, attn_mask=mask.double(), scale=scale, enable_gqa=True)[0]
        assert found.dtype == dtype
        torch.testing.assert_close(found.double(), right, atol=near, rtol=near)


def test_what_is_not_few_queries_of_one_text_under_a_mask_is_torchs(monkeypatch):
    query, keys, values, mask = (one[None] for one in case(heads=2))
    layer, other = torch.nn.Module(), []
    monkeypatch.setattr(attention, "sdpa_attention_forward", lambda *given, **named: other.append(named) or "torch's")
    mixed, _ = sdpa(layer, query, keys, values, mask[None], scaling=0.5)
    assert mixed.shape == (1, 5, 2, 8) and mixed.is_contiguous() and not other
    torch.testing.assert_close(mixed, sdpa_attention_forward(layer, query, keys, values, mask[None], scaling=0.5)[0])
    pairs = [torch.cat([one, one]) for one in (query, keys, values)]
    for given in (
        (query, keys, values, None),
        (query, keys, values, mask[None] == 0),
        (query, keys, values, mask[None].expand(1, 2, 5, 9)),
        (*pairs, mask[None]),
    ):
        assert sdpa(layer, *given) == "torch's"
    assert sdpa(layer, query, keys, values, mask[None], dropout=0.1) == "torch's"
    assert sdpa(layer, query, keys, values, mask[None], position_bias=mask) == "torch's"
    monkeypatch.setattr(attention, "MOST", 4)
    assert sdpa(layer, query, keys, values, mask[None]) == "torch's" and len(other) == 7


@pytest.mark.parametrize("family", ["llama", "mistral", "gpt2"])
def test_models_give_their_text_with_it(family, monkeypatch):
    """What transformers calls sdpa, replaced as it is on CUDA: in passes over trees, not over prompts."""
    seen = []
    monkeypatch.setattr(attention, "attend", lambda *given: seen.append(given) or attend(*given))
    texts = set()
    for way in (sdpa_attention_forward, sdpa):
        target = Target.wrap(tiny_model(family))
        monkeypatch.setitem(AttentionInterface._global_mapping, "sdpa", way)
        target.ends = frozenset()
        for drafter in (VanillaDrafter(), Noise(3, 7)):
            texts.add(tuple(record(target, drafter, [5, 9, 7, 11], 20, SAMPLED).tokens))
    assert len(texts) == 1 and seen

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


def case(heads=6, shared=2, count=5, rows=9, dtype=torch.float32, batch=1):
    draw = torch.Generator().manual_seed(0)
    sizes = [(batch, heads, count, 8), (batch, shared, rows, 8), (batch, shared, rows, 8), (batch, 1, count, rows)]
    *given, mask = (torch.randn(size, generator=draw).to(dtype) for size in sizes)
    return *given, torch.zeros_like(mask).masked_fill(mask < -0.5, torch.finfo(dtype).min)


@pytest.mark.parametrize(
    ("heads", "shared", "count", "batch"), [(6, 2, 5, 1), (4, 4, 1, 3), (3, 1, 7, 1), (4, 2, 1, 3)]
)
@pytest.mark.parametrize(("dtype", "near"), [(torch.float32, 1e-5), (torch.float64, 1e-12), (torch.bfloat16, 2e-2)])
def test_heads_that_share_keys_attend_as_torchs_do(heads, shared, count, batch, dtype, near):
    query, keys, values, mask = case(heads, shared, count, dtype=dtype, batch=batch)
    for scale, form in ((None, mask), (0.7, mask), (0.7, mask == 0)):
        found = attend(query, keys, values, form[:, :, None], scale)
        wide = [one.double() for one in (query, keys, values)]
        right = F.scaled_dot_product_attention(*wide, attn_mask=mask.double(), scale=scale, enable_gqa=True)
        assert found.dtype == dtype
        torch.testing.assert_close(found.double(), right, atol=near, rtol=near)


@pytest.fixture
def as_on_cuda(monkeypatch):
    monkeypatch.setattr(attention, "OURS", ("cpu",))


def test_what_is_not_few_queries_under_a_mask_is_torchs(as_on_cuda, monkeypatch):
    layer, other = torch.nn.Module(), []
    monkeypatch.setattr(attention, "TORCHS", ())
    monkeypatch.setattr(attention, "sdpa_attention_forward", lambda *given, **named: other.append(named) or "torch's")
    for batch, count in ((1, 5), (3, 1)):
        *given, mask = case(2, count=count, batch=batch)
        for form in (mask, mask == 0):
            mixed, _ = sdpa(layer, *given, form, scaling=0.5)
            assert mixed.shape == (batch, count, 2, 8) and mixed.is_contiguous() and not other
            torch.testing.assert_close(mixed, sdpa_attention_forward(layer, *given, form, scaling=0.5)[0])
    *given, mask = case(2)
    several = case(2, batch=3)
    for asked in ((*given, None), (*given, mask.expand(1, 2, 5, 9)), several):
        assert sdpa(layer, *asked) == "torch's"
    assert sdpa(layer, *given, mask, dropout=0.1) == "torch's"
    assert sdpa(layer, *given, mask, position_bias=mask) == "torch's"
    monkeypatch.setattr(attention, "MOST", 4)
    assert sdpa(layer, *given, mask) == "torch's" and len(other) == 6


def test_a_cpus_kernel_takes_shared_keys_under_a_mask(monkeypatch):
    layer = torch.nn.Module()
    layer.num_key_value_groups = 3
    *given, mask = case(count=5)
    expected = sdpa_attention_forward(layer, *given, mask, scaling=0.5)[0]
    repeated = []
    monkeypatch.setattr(attention, "sdpa_attention_forward", lambda *given, **named: repeated.append(given))
    mixed, _ = sdpa(layer, *given, mask, scaling=0.5)
    assert not repeated and mixed.is_contiguous()
    torch.testing.assert_close(mixed, expected)
    sdpa(layer, *given, None)
    assert repeated


@pytest.mark.parametrize("family", ["llama", "mistral", "gpt2"])
def test_models_give_their_text_with_it(family, as_on_cuda, monkeypatch):
    """What transformers calls sdpa, replaced as it is on CUDA: in passes over trees, not over prompts."""
    seen = []
    monkeypatch.setattr(attention, "attend", lambda *given: seen.append(given) or attend(*given))
    texts = set()
    for way in (sdpa_attention_forward, sdpa):
        target = Target.wrap(tiny_model(family), graphs=False)
        monkeypatch.setitem(AttentionInterface._global_mapping, "sdpa", way)
        target.ends = frozenset()
        for drafter in (VanillaDrafter(), Noise(3, 7)):
            texts.add(tuple(record(target, drafter, [5, 9, 7, 11], 20, SAMPLED).tokens))
    assert len(texts) == 1 and seen

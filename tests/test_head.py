"""The trainable heads against the formulas, written out in float64 with loops and complex rotations."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import naive
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

from jakiro.drafting import head as head_module
from jakiro.drafting.fused import FusedEagle
from jakiro.drafting.head import (
    EagleHead,
    HeadConfig,
    JakiroHead,
    attention,
    contrast_weights,
    rope_tables,
    rotate,
)
from jakiro.drafting.state import HeadState

PLAIN, GROUPED = naive.CONFIGS["plain"], naive.CONFIGS["grouped"]
LEAST = {"hidden_size": 32, "intermediate_size": 48, "num_attention_heads": 4, "vocab_size": 300}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
YARN = {"rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0, "truncate": False}
ROPES = {one["rope_type"]: one | {"original_max_position_embeddings": 64} for one in (LLAMA3, YARN)}
DYNAMIC = replace(PLAIN, rope_type="dynamic", rope_factor=2.0, max_position_embeddings=3)


def turned(x: Tensor, position: int, config: HeadConfig) -> Tensor:
    """Llama's rotary embedding of one head's vector: pairs (j, j + d/2) as complex numbers."""
    half = config.head_dim // 2
    base, where = config.rope_theta, float(position)
    if config.rope_type == "linear":
        where /= config.rope_factor
    if config.rope_type == "dynamic" and position + 1 > config.max_position_embeddings:
        length = config.rope_factor * (position + 1) / config.max_position_embeddings - (config.rope_factor - 1)
        base *= length ** (config.head_dim / (config.head_dim - 2))
    angles = torch.tensor([where / base ** (2 * j / config.head_dim) for j in range(half)], dtype=torch.float64)
    rotated = torch.complex(x[:half], x[half:]) * torch.polar(torch.ones_like(angles), angles)
    return torch.cat([rotated.real, rotated.imag])


def attended(w: dict[str, Tensor], config: HeadConfig, embeddings: Tensor, features: Tensor) -> tuple[Tensor, Tensor]:
    """u and z [s, h]."""
    dim, share = config.head_dim, config.num_attention_heads // config.num_key_value_heads
    entry = torch.cat([embeddings, features], dim=-1) @ w["fc.weight"].T + w.get("fc.bias", 0.0)
    part = {
        name: entry @ w[f"layers.0.self_attn.{name}_proj.weight"].T + w.get(f"layers.0.self_attn.{name}_proj.bias", 0.0)
        for name in "qkv"
    }
    out = torch.zeros_like(part["q"])
    for head in range(config.num_attention_heads):
        mine, shared = slice(head * dim, (head + 1) * dim), slice(head // share * dim, (head // share + 1) * dim)
        for t in range(len(entry)):
            query = turned(part["q"][t, mine], t, config)
            scores = [query @ turned(part["k"][j, shared], j, config) / math.sqrt(dim) for j in range(t + 1)]
            out[t, mine] = torch.stack(scores).softmax(0) @ part["v"][: t + 1, shared]
    u = entry + out @ w["layers.0.self_attn.o_proj.weight"].T
    norm = u / (u.pow(2).mean(-1, keepdim=True) + config.rms_norm_eps).sqrt()
    return u, norm * w["layers.0.post_attention_layernorm.weight"]


def swiglu(w: dict[str, Tensor], prefix: str, z: Tensor) -> Tensor:
    gate = z @ w[f"{prefix}.gate_proj.weight"].T
    return (gate / (1 + (-gate).exp()) * (z @ w[f"{prefix}.up_proj.weight"].T)) @ w[f"{prefix}.down_proj.weight"].T


@pytest.mark.parametrize("config", [PLAIN, GROUPED, DYNAMIC], ids=["plain", "grouped", "dynamic"])
def test_heads_follow_the_formulas(config: HeadConfig) -> None:
    embeddings, features = torch.randn(2, 1, 7, config.hidden_size, generator=torch.Generator().manual_seed(3))
    for cls in (EagleHead, JakiroHead):
        head = naive.strong(cls, config)
        w = {key: weight.double() for key, weight in head.state_dict().items()}
        u, z = attended(w, config, embeddings[0].double(), features[0].double())
        output = head(embeddings, features)
        if cls is EagleHead:
            torch.testing.assert_close(output[0].double(), u + swiglu(w, "layers.0.mlp", z), atol=1e-4, rtol=1e-4)
            continue
        e0, e1 = (swiglu(w, f"layers.0.mlp_moe.experts.{i}", z) for i in range(2))
        g = z @ w["layers.0.mlp_moe.gate.weight"].T
        left, right = g[:, :2].softmax(-1), g[:, 2:].softmax(-1)
        sign = torch.where(g[:, 2] > g[:, 3], 1.0, -1.0)[:, None]
        assert {-1.0, 1.0} == set(sign[:, 0].tolist()), "both orders of the experts must occur"
        expected = {
            "mixed": u + left[:, :1] * e0 + left[:, 1:] * e1,
            "contrast": u + sign * (right[:, :1] * e0 - right[:, 1:] * e1),
            "experts": torch.stack([u + e0, u + e1]),
            "gates": g,
        }
        for name, value in expected.items():
            found = getattr(output, name).squeeze(-3 if name != "experts" else 1).double()
            torch.testing.assert_close(found, value, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("masked", [True, False])
def test_keys_that_heads_share_count_the_same_repeated(masked: bool, monkeypatch) -> None:
    torch.manual_seed(0)
    query, keys, values = torch.randn(1, 6, 4, 8), torch.randn(1, 2, 9, 8), torch.randn(1, 2, 9, 8)
    mask = torch.zeros(4, 9).masked_fill(torch.rand(4, 9) < 0.3, -torch.inf) if masked else None
    found = attention(query, keys, values, mask)
    monkeypatch.setattr(head_module, "REPEATING", ("cpu",))
    torch.testing.assert_close(attention(query, keys, values, mask), found)
    one = F.scaled_dot_product_attention(query[:, 5:], keys[:, 1:], values[:, 1:], attn_mask=mask)
    torch.testing.assert_close(found[:, 5:], one)


def test_equal_router_logits_take_the_minus_sign() -> None:
    assert contrast_weights(torch.tensor([0.0, 0.0, 1.0, 1.0])).tolist() == [-0.5, 0.5]


def test_gradients_reach_every_weight() -> None:
    head = JakiroHead(PLAIN)
    output = head(torch.randn(2, 6, 32), torch.randn(2, 6, 32))
    (output.mixed.pow(2).sum() + output.contrast.pow(2).sum()).backward()
    assert all(weight.grad is not None and weight.grad.abs().sum() > 0 for weight in head.parameters())


def test_rotation_keeps_relative_positions() -> None:
    q, k = torch.randn(2, 8)
    cos, sin = rope_tables(PLAIN, torch.arange(40))
    products = [rotate(q, cos[i], sin[i]) @ rotate(k, cos[i + 5], sin[i + 5]) for i in (0, 11, 30)]
    torch.testing.assert_close(torch.stack(products), products[0].expand(3), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("name", ROPES)
def test_frequencies_of_all_pairs_are_those_of_transformers(name: str) -> None:
    """As LlamaRotaryEmbedding has them, and another base is another rope."""
    for theta in (10_000.0, 150_000.0):
        read = HeadConfig._from_dict(LEAST | {"rope_theta": 7.0, "rope_scaling": ROPES[name]})
        assert replace(read, rope_numbers=[*map(list, read.rope_numbers)]) == read, "as a recipe has them"
        config = LlamaConfig(**LEAST, rope_parameters=ROPES[name] | {"rope_theta": theta})
        positions = torch.arange(300)
        cos, sin = LlamaRotaryEmbedding(config)(torch.zeros(1), positions[None])
        found = rope_tables(replace(read, rope_theta=theta), positions)
        signs = torch.tensor([-1.0, 1.0]).repeat_interleave(4)
        assert torch.equal(found[0], cos[0]) and torch.equal(found[1], signs * sin[0])


def test_buffers_that_grow_change_nothing() -> None:
    head = FusedEagle(naive.strong(EagleHead))
    table = torch.randn(300, 32)
    small, large = (HeadState(head, lambda ids: table[ids], 3, 2, capacity=size) for size in (2, 500))
    generator = torch.Generator().manual_seed(0)
    for rows in (5, 1, 3, 40):
        tokens, features = [*range(rows)], torch.randn(rows, 32, generator=generator)
        first, second = (state.run(state.extend, tokens, features) for state in (small, large))
        torch.testing.assert_close(first, second)
        parents = torch.zeros(3, dtype=torch.long)
        for index in range(2):
            given = (index, torch.tensor([1, 2, 3]), features[:1].expand(3, -1), parents)
            torch.testing.assert_close(small.level(*given), large.level(*given))


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ({}, {"rope_theta": 10000.0, "num_key_value_heads": 4, "bias": True, "qkv_bias": False}),
        ({"rope_theta": 500000, "bias": False, "num_key_value_heads": 2}, {"rope_theta": 5e5, "bias": False}),
        ({"rope_parameters": {"rope_theta": 7.0, "rope_type": "default"}}, {"rope_theta": 7.0}),
        ({"rope_scaling": {"type": "linear", "factor": 4}}, {"rope_type": "linear", "rope_factor": 4.0}),
        ({"rope_scaling": ROPES["yarn"]}, {"rope_type": "yarn", "rope_theta": 10000.0}),
        ({"rope_scaling": ROPES["yarn"] | {"mrope_section": [16, 24, 24]}}, {"rope_type": "yarn"}),
        ({"rope_theta": 1e6, "rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]}}, {"rope_theta": 1e6}),
        ({"rope_theta": 5e5, "rope_scaling": ROPES["llama3"]}, {"rope_type": "llama3", "rope_theta": 5e5}),
        ({"num_key_value_heads": None, "rope_scaling": None}, {"num_key_value_heads": 4, "rope_type": "default"}),
        ({}, {"draft_temperature": 1.0, "head_dim": 8}),
        ({"head_dim": 16}, {"head_dim": 16, "hidden_size": 32}),
        ({"draft_temperature": 0.7}, {"draft_temperature": 0.7}),
        ({"draft_temperature": 2}, {"draft_temperature": 2.0}),
    ],
)
def test_config_is_read_as_raw_json(tmp_path, raw: dict, expected: dict) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(LEAST | raw))
    config = HeadConfig.from_json(path)
    assert {name: getattr(config, name) for name in expected} == expected
    path.write_text(config.to_json())
    assert HeadConfig.from_json(path) == config


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ({"rope_scaling": {"rope_type": "llama3", "factor": 8}}, "low_freq_factor"),
        ({"rope_scaling": {"rope_type": "yarn", "factor": 8, "original_max_position_embeddings": 0}}, "yarn"),
        ({"rope_scaling": {"rope_type": "yarn", "factor": 8, "partial_rotary_factor": 0.5}}, "turn all numbers"),
        ({"rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.25}}, "turn all numbers"),
        ({"partial_rotary_factor": 0.25}, "partial_rotary_factor is 0.25"),
        ({"rope_scaling": {"rope_type": "longrope", "factor": 8}}, "longrope"),
        ({"rope_scaling": ROPES["llama3"] | {"original_max_position_embeddings": None}}, "llama3"),
        ({"rope_scaling": {"type": "linear"}}, "linear"),
        ({"rope_scaling": {"type": "dynamic", "factor": 1.0, "alpha": 1000.0}}, "'alpha': 1000.0"),
        ({"num_hidden_layers": 2}, "num_hidden_layers"),
        ({"hidden_act": "gelu"}, "hidden_act"),
        ({"num_local_experts": 1}, "num_local_experts"),
        ({"head_dim": 7}, "head_dim must be an even whole number below 2**31, not 7"),
        ({"head_dim": "16"}, "head_dim must be"),
        ({"hidden_size": "32"}, "config.json"),
        ({"num_attention_heads": 5}, "5 heads"),
        ({"draft_temperature": 0}, "draft_temperature is 0"),
        ({"draft_temperature": "0.7"}, "config.json"),
    ],
)
def test_config_errors_name_file_and_field(tmp_path, raw: dict, message: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(LEAST | raw))
    with pytest.raises(ValueError, match=r"config\.json") as error:
        HeadConfig.from_json(path)
    assert message in str(error.value)

"""The trainable heads, in the published key layout: one Llama layer over [embedding; feature].

    u0 = fc([e(x_{t+1}); h_t])      embedding first, feature second; no activation
    u  = u0 + Attn(u0)              no input norm; a pair sits at the position of its feature
    z  = RMSNorm(u)

EAGLE (arXiv 2401.15077 and 2406.16858) answers with u + MLP(z); Jakiro (arXiv 2502.06282, released code) mixes two
experts of z (here also more, all of which always run) and adds a contrastive feature for the token after next. There is
no final norm: the answer stands where the target's last hidden state would, and the target's lm_head reads it. Decoding
uses `fused.py` on the same parameters.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from jakiro.models.attention import attend

from .config import HeadConfig

REPEATING = ("cuda",)  # devices whose fast kernels take either a mask or shared keys


class HeadOutput(NamedTuple):
    """What a Jakiro head says about each position t."""

    mixed: Tensor  # [b, s, h], L: stands for h_{t+1}
    contrast: Tensor  # [b, s, h], R: stands for h_{t+2}
    experts: Tensor  # [N, b, s, h], u + E_i(z): each expert's own answer
    gates: Tensor  # [b, s, 2 N], router logits: the first N rows weigh L, the others R


def rope_tables(config: HeadConfig, positions: Tensor) -> tuple[Tensor, Tensor]:
    """cos and signed sin for `rotate`, [n, head_dim] in fp32, at positions [n].

    Dynamic scaling takes the base that a sequence ending at that position has, as token-by-token decoding does.
    """
    dim, where = config.head_dim, positions.float()[:, None]
    if config.frequencies:
        angles = where * torch.tensor(config.frequencies, device=positions.device)
        cos, sin = angles.cos() * config.rope_scale, angles.sin() * config.rope_scale
        return cos.repeat(1, 2), torch.cat([-sin, sin], dim=-1)
    steps = torch.arange(0, dim, 2, dtype=torch.float32, device=positions.device) / dim  # [dim / 2]
    base = torch.full_like(where, config.rope_theta)
    if config.rope_type == "linear":
        where = where / config.rope_factor
    elif config.rope_type == "dynamic":
        longer = ((where + 1) / config.max_position_embeddings).clamp_min(1.0)
        base = base * (config.rope_factor * longer - (config.rope_factor - 1)) ** (dim / (dim - 2))
    angles = where / base**steps  # [n, dim / 2]
    return angles.cos().repeat(1, 2), torch.cat([-angles.sin(), angles.sin()], dim=-1)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Llama's rotary embedding of x [..., n, head_dim]; the half-turn's minus sign is in `sin`."""
    return torch.addcmul(x * cos, x.roll(x.shape[-1] // 2, dims=-1), sin)


def contrast_weights(gates: Tensor) -> Tensor:
    """Signed expert weights of R from router logits [..., 2 N]: the heaviest expert minus the others, [..., N]."""
    logits = gates[..., gates.shape[-1] // 2 :]
    heaviest = logits.sort(dim=-1, stable=True).indices[..., -1:]  # of equal logits the last, as released
    weights = logits.softmax(dim=-1)
    return (-weights).scatter(-1, heaviest, weights.gather(-1, heaviest))


Passes = list[tuple[Tensor, Tensor]]  # keys and values [b, heads, s, head_dim] of passes over one text


class Attention(nn.Module):
    """Causal self-attention with rotary positions 0..s-1, of rows `entry` times as wide as its answers."""

    def __init__(self, config: HeadConfig, entry: int = 1) -> None:
        super().__init__()
        self.config = config
        wide, narrow = (count * config.head_dim for count in (config.num_attention_heads, config.num_key_value_heads))
        self.q_proj = nn.Linear(entry * config.hidden_size, wide, bias=config.qkv_bias)
        self.k_proj = nn.Linear(entry * config.hidden_size, narrow, bias=config.qkv_bias)
        self.v_proj = nn.Linear(entry * config.hidden_size, narrow, bias=config.qkv_bias)
        self.o_proj = nn.Linear(wide, config.hidden_size, bias=False)
        if config.qk_norm:
            self.q_norm, self.k_norm = (RMSNorm(config.head_dim, eps=config.rms_norm_eps) for _ in range(2))

    def forward(self, x: Tensor, passes: Passes | None = None, texts: Tensor | None = None) -> Tensor:
        """[b, s, entry * h] -> [b, s, h]. `passes` holds those before, over the same rows, and gets this one
        (`staircase`). `texts` [b, s] numbers those of a row, which see nothing of one another; None: it has one."""
        batch, length, _ = x.shape
        query, key, value = (
            projection(x).view(batch, length, -1, self.config.head_dim).transpose(1, 2)
            for projection in (self.q_proj, self.k_proj, self.v_proj)
        )
        if self.config.qk_norm:
            query, key = self.q_norm(query), self.k_norm(key)
        cos, sin = rope_tables(self.config, torch.arange(length, device=x.device))
        query, key = (rotate(one, cos.to(one.dtype), sin.to(one.dtype)) for one in (query, key))
        mask, count = None, 1
        if passes is not None:
            passes.append((key, value))
            key, value = (torch.cat(parts, dim=2) for parts in zip(*passes, strict=True))
            count = len(passes)
        if passes is not None or texts is not None:
            mask = staircase(count, length, x.device)
        if texts is not None:
            mask = (mask & (texts[:, :, None] == texts[:, None]).repeat(1, 1, count))[:, None]
        mixed = attention(query, key, value, mask, causal=mask is None)
        return self.o_proj(mixed.transpose(1, 2).flatten(2))


def attention(query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, causal: bool = False) -> Tensor:
    """[b, heads, n, d] of queries over keys and values [b, key heads, s, d], each shared by a group of the heads."""
    groups = query.shape[1] // keys.shape[1]
    repeating = mask is not None and query.device.type in REPEATING
    if repeating and mask.is_floating_point():
        return attend(query, keys, values, mask)
    if repeating and groups > 1:
        keys, values, groups = keys.repeat_interleave(groups, 1), values.repeat_interleave(groups, 1), 1
    return F.scaled_dot_product_attention(query, keys, values, attn_mask=mask, is_causal=causal, enable_gqa=groups > 1)


def staircase(passes: int, length: int, device: torch.device) -> Tensor:
    """What the queries of the last pass see, bool [s, passes * s]: the chain of drafted positions that ends at each.

    Pass n reads at position s what pass n - 1 answered at s - 1, as the n-th level of a draft does. Its query at s sees
    of the first pass, whose features are the target's, the keys up to s - (n - 1), and of pass i that at s - (n - i).
    """
    back = torch.arange(length, device=device)[:, None] - torch.arange(length, device=device)  # s - t
    seen = [back >= passes - 1, *(back == passes - one for one in range(2, passes + 1))]
    return torch.cat(seen, dim=1)


class SwiGLU(nn.Module):
    """W_down(SiLU(W_gate z) * W_up z), without biases."""

    def __init__(self, hidden: int, inner: int) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(hidden, inner, bias=False)
        self.up_proj = nn.Linear(hidden, inner, bias=False)
        self.down_proj = nn.Linear(inner, hidden, bias=False)

    def forward(self, z: Tensor) -> Tensor:  # [..., h] -> [..., h]
        return self.down_proj(F.silu(self.gate_proj(z)) * self.up_proj(z))


class Experts(nn.Module):
    """N experts and their router; all always run (as published, N = K = 2)."""

    def __init__(self, hidden: int, inner: int, count: int) -> None:
        super().__init__()
        self.gate = nn.Linear(hidden, 2 * count, bias=False)
        self.experts = nn.ModuleList([SwiGLU(hidden, inner) for _ in range(count)])

    def forward(self, z: Tensor) -> tuple[Tensor, Tensor]:  # [..., h] -> [N, ..., h], [..., 2 N]
        return torch.stack([expert(z) for expert in self.experts]), self.gate(z)


class RMSNorm(nn.RMSNorm):
    """Root-mean-square norm in fp32 whatever the input's type, also under autocast."""

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x.float(), self.normalized_shape, self.weight.float(), self.eps).to(x.dtype)


class Layer(nn.Module):
    """Attention and norm, beside a feed-forward part under its published name (`mlp` or `mlp_moe`)."""

    def __init__(self, config: HeadConfig, name: str, feed_forward: nn.Module) -> None:
        super().__init__()
        self.self_attn = Attention(config)
        self.post_attention_layernorm = RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.add_module(name, feed_forward)


class Head(nn.Module):
    """What EAGLE's and Jakiro's heads share: fc, attention, norm. State-dict keys are the published ones."""

    Config = HeadConfig

    def __init__(self, config: HeadConfig, name: str, feed_forward: nn.Module) -> None:
        super().__init__()
        self.config = config
        self.fc = nn.Linear(2 * config.hidden_size, config.hidden_size, bias=config.bias)
        self.layers = nn.ModuleList([Layer(config, name, feed_forward)])

    def attend(self, embeddings: Tensor, features: Tensor, *seen: Any) -> tuple[Tensor, Tensor]:
        """u and z, each [b, s, h], from embeddings of x_{t+1} and features h_t, each [b, s, h], and what `Attention`
        takes besides."""
        entry = self.fc(torch.cat([embeddings, features], dim=-1))
        residual = entry + self.layers[0].self_attn(entry, *seen)
        return residual, self.layers[0].post_attention_layernorm(residual)


class EagleHead(Head):
    """The EAGLE-1 head, which EAGLE-2 uses as it is."""

    def __init__(self, config: HeadConfig) -> None:
        config = replace(config, num_local_experts=0, expert_intermediate_size=0)
        super().__init__(config, "mlp", SwiGLU(config.hidden_size, config.intermediate_size))

    def forward(self, embeddings: Tensor, features: Tensor, *seen: Any) -> Tensor:
        """Predicted features of the next position, [b, s, h]."""
        residual, normed = self.attend(embeddings, features, *seen)
        return residual + self.layers[0].mlp(normed)


class JakiroHead(Head):
    """The Jakiro head of the released code: experts, mixed for the next level and contrasted for the one after."""

    def __init__(self, config: HeadConfig) -> None:
        config = replace(config, num_local_experts=config.num_local_experts or 2)
        experts = Experts(config.hidden_size, config.expert_intermediate_size, config.num_local_experts)
        super().__init__(config, "mlp_moe", experts)

    def forward(self, embeddings: Tensor, features: Tensor, *seen: Any) -> HeadOutput:
        """Mixed and contrastive features, the experts' own and the router logits."""
        residual, normed = self.attend(embeddings, features, *seen)
        own, gates = self.layers[0].mlp_moe(normed)
        weights = gates[..., : len(own)].softmax(dim=-1)
        mixed = residual + _weighted(weights, own)
        contrast = residual + _weighted(contrast_weights(gates), own)
        return HeadOutput(mixed, contrast, residual + own, gates)


def _weighted(weights: Tensor, own: Tensor) -> Tensor:  # [..., N], [N, ..., h] -> [..., h]
    return sum(weight[..., None] * one for weight, one in zip(weights.unbind(dim=-1), own, strict=True))

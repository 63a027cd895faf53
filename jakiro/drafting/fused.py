"""A trained head prepared for decoding: the same parameters, in as few matrix products as the layer allows.

Query, key and value are one product; so are gate and up, for Jakiro both experts' and the router's together. Made once
for a head and shared by all runs; what belongs to a run (keys, values, mask) is in `state.py`. Rows are nodes: there is
no batch dimension.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .head import EagleHead, Head, JakiroHead, rotate

_ROUTER_ROWS = 8  # or a multiple, the last ones zero: 16-byte aligned outputs in half precision


class FusedHead:
    """fc, attention and norm of a head. Subclasses add the feed-forward part."""

    def __init__(self, head: Head) -> None:
        layer, attention = head.layers[0], head.layers[0].self_attn
        projections = (attention.q_proj, attention.k_proj, attention.v_proj)
        self.config = head.config
        self.fc = head.fc
        self.qkv = torch.cat([one.weight for one in projections])
        self.qkv_bias = torch.cat([one.bias for one in projections]) if head.config.qkv_bias else None
        self.out = attention.o_proj.weight.T
        self.norm = layer.post_attention_layernorm

    @property
    def nbytes(self) -> int:
        """Bytes of all parameters."""
        parts = vars(self).values()
        modules = [weight for part in parts if isinstance(part, nn.Module) for weight in part.parameters()]
        return sum(weight.nbytes for weight in [*modules, *(part for part in parts if isinstance(part, Tensor))])

    def enter(self, embeddings: Tensor, features: Tensor) -> Tensor:
        """u0 [n, h] from embeddings of the tokens and features of the tokens before them, each [n, h]."""
        return self.fc(torch.cat([embeddings, features], dim=-1))

    def project(self, entry: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Rotated queries [n, heads, d], rotated keys and values [n, key heads, d]; cos and sin are [n or 1, 1, d]."""
        heads, shared = self.config.num_attention_heads, self.config.num_key_value_heads
        fused = F.linear(entry, self.qkv, self.qkv_bias).view(len(entry), heads + 2 * shared, self.config.head_dim)
        turned = rotate(fused[:, : heads + shared], cos, sin)
        return turned[:, :heads], turned[:, heads:], fused[:, heads + shared :]

    def attend(self, entry: Tensor, query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
        """u [n, h]: u0 plus attention over keys and values [key heads, s, d] under an additive mask [n, s]."""
        grouped = self.config.num_key_value_heads != self.config.num_attention_heads
        mixed = F.scaled_dot_product_attention(
            query.transpose(0, 1)[None], keys[None], values[None], attn_mask=mask, enable_gqa=grouped
        )
        return torch.addmm(entry, mixed[0].transpose(0, 1).reshape(entry.shape), self.out)


class FusedEagle(FusedHead):
    """An EAGLE head: one dense MLP."""

    def __init__(self, head: EagleHead) -> None:
        super().__init__(head)
        mlp = head.layers[0].mlp
        self.gate_up = torch.cat([mlp.gate_proj.weight, mlp.up_proj.weight])
        self.down = mlp.down_proj.weight.T

    def predict(self, residual: Tensor) -> Tensor:
        """Features that stand for the next position's, [n, h], from u [n, h]."""
        gate, up = F.linear(self.norm(residual), self.gate_up).chunk(2, dim=-1)
        return torch.addmm(residual, F.silu(gate) * up, self.down)


class FusedJakiro(FusedHead):
    """A Jakiro head: N experts and the router. Mixing scales the experts' inner rows, so a mixture is one product."""

    def __init__(self, head: JakiroHead) -> None:
        super().__init__(head)
        part = head.layers[0].mlp_moe
        router = F.pad(part.gate.weight, (0, 0, 0, -len(part.gate.weight) % _ROUTER_ROWS))
        gates, ups = ([getattr(expert, name).weight for expert in part.experts] for name in ("gate_proj", "up_proj"))
        self.count, self.inner = len(gates), len(gates[0])
        self.wide = torch.cat([*gates, *ups, router])  # [2 * N * inner + 8, h]
        self.down = torch.stack([expert.down_proj.weight.T for expert in part.experts])  # [N, inner, h]

    def activate(self, residual: Tensor) -> tuple[Tensor, Tensor]:
        """The experts' inner activations [n, N, inner] and the router logits [n, 2 N] in fp32, from u [n, h]."""
        wide = F.linear(self.norm(residual), self.wide)
        all_ = self.count * self.inner
        active = F.silu(wide[:, :all_]) * wide[:, all_ : 2 * all_]
        return active.view(-1, self.count, self.inner), wide[:, 2 * all_ : 2 * (all_ + self.count)].float()

    def mix(self, residual: Tensor, active: Tensor, weights: Tensor) -> Tensor:
        """u + sum of weights [n, N] times the experts, [n, h]: L or R, by the weights."""
        scaled = active * weights.to(active.dtype)[..., None]
        return torch.addmm(residual, scaled.flatten(1), self.down.flatten(0, 1))

    def own(self, residual: Tensor, active: Tensor) -> Tensor:
        """Each expert's own answer u + E_i(z), [N, n, h]."""
        return torch.baddbmm(residual.expand(self.count, -1, -1), active.transpose(0, 1), self.down)

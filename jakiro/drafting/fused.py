"""A trained head prepared for decoding: the same parameters, in as few matrix products as the layer allows.

Query, key and value are one product; so are gate and up, for Jakiro both experts' and the router's together. Made once
for a head and shared by all runs; what belongs to a run (keys, values, mask) is in `state.py`. Rows are nodes: there is
no batch dimension.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from jakiro.models.products import Product
from jakiro.tape import Tapes

from .head import EagleHead, JakiroHead, attention, rotate

DRAFTS = 128  # whose tapes are kept: there is one for each tree and number of new tokens
_ROUTER_ROWS = 8  # or a multiple, the last ones zero: 16-byte aligned outputs in half precision


class FusedHead:
    """fc, attention and norm of a head with one layer. Subclasses add the feed-forward part."""

    def __init__(self, head: nn.Module, layer: nn.Module) -> None:
        own = layer.self_attn
        projections = (own.q_proj, own.k_proj, own.v_proj)
        self.config = head.config
        self.feature_size = head.config.hidden_size  # of what it reads of the target
        self.vocab: int | None = None  # tokens of its own; None: the target's
        self.embed: nn.Embedding | None = None  # of its own; None: the target's
        bias = torch.cat([one.bias for one in projections]) if head.config.qkv_bias else None
        self.fc = Product(head.fc.weight, head.fc.bias)
        self.qkv = Product(torch.cat([one.weight for one in projections]), bias)
        self.out = Product(own.o_proj.weight)
        self.query_norm, self.key_norm = getattr(own, "q_norm", None), getattr(own, "k_norm", None)
        self.norm = layer.post_attention_layernorm
        self.tapes = Tapes(DRAFTS)  # of drafts with it

    @property
    def nbytes(self) -> int:
        """Bytes of all parameters that a pass reads."""
        products = [part for part in vars(self).values() if isinstance(part, Product)]
        others = [part.bias for part in products if part.bias is not None]
        others += [part.weight for part in vars(self).values() if isinstance(part, nn.RMSNorm)]
        return sum(part.nbytes for part in [*products, *others])

    def enter(self, embeddings: Tensor, features: Tensor) -> Tensor:
        """u0 [n, h] from embeddings of the tokens and features of the tokens before them, each [n, h]."""
        return self.fc(torch.cat([embeddings, features], dim=-1))

    def project(self, entry: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Rotated queries [n, heads, d], rotated keys and values [n, key heads, d]; cos and sin are [n or 1, 1, d]."""
        heads, shared = self.config.num_attention_heads, self.config.num_key_value_heads
        fused = self.qkv(entry).view(len(entry), heads + 2 * shared, self.config.head_dim)
        turning = fused[:, : heads + shared]
        if self.config.qk_norm:
            turning = torch.cat([self.query_norm(turning[:, :heads]), self.key_norm(turning[:, heads:])], dim=1)
        turned = rotate(turning, cos, sin)
        return turned[:, :heads], turned[:, heads:], fused[:, heads + shared :]

    def attend(self, entry: Tensor, query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
        """u [n, h]: u0 plus attention over keys and values [key heads, s, d] under an additive mask [n, s]."""
        mixed = attention(query.transpose(0, 1)[None], keys[None], values[None], mask)
        return self.out.added(entry, mixed[0].transpose(0, 1).flatten(1))


class FusedDense(FusedHead):
    """A head with one dense MLP."""

    def __init__(self, head: nn.Module, layer: nn.Module) -> None:
        super().__init__(head, layer)
        self.gate_up = Product(torch.cat([layer.mlp.gate_proj.weight, layer.mlp.up_proj.weight]))
        self.down = Product(layer.mlp.down_proj.weight)

    def predict(self, residual: Tensor) -> Tensor:
        """Features that stand for the next position's, [n, h], from u [n, h]."""
        gate, up = self.gate_up(self.norm(residual)).chunk(2, dim=-1)
        return self.down.added(residual, F.silu(gate) * up)


class FusedEagle(FusedDense):
    """An EAGLE head."""

    def __init__(self, head: EagleHead) -> None:
        super().__init__(head, head.layers[0])


class FusedJakiro(FusedHead):
    """A Jakiro head: N experts and the router. Mixing scales the experts' inner rows, so a mixture is one product."""

    def __init__(self, head: JakiroHead) -> None:
        super().__init__(head, head.layers[0])
        part = head.layers[0].mlp_moe
        router = F.pad(part.gate.weight, (0, 0, 0, -len(part.gate.weight) % _ROUTER_ROWS))
        gates, ups = ([getattr(expert, name).weight for expert in part.experts] for name in ("gate_proj", "up_proj"))
        self.count, self.inner = len(gates), len(gates[0])
        self.wide = Product(torch.cat([*gates, *ups, router]))  # [2 * N * inner + 2 N or a little more, h]
        self.down = Product(torch.cat([expert.down_proj.weight for expert in part.experts], dim=1))  # [h, N * inner]

    def activate(self, residual: Tensor) -> tuple[Tensor, Tensor]:
        """The experts' inner activations [n, N, inner] and the router logits [n, 2 N] in fp32, from u [n, h]."""
        wide = self.wide(self.norm(residual))
        all_ = self.count * self.inner
        active = F.silu(wide[:, :all_]) * wide[:, all_ : 2 * all_]
        return active.view(-1, self.count, self.inner), wide[:, 2 * all_ : 2 * (all_ + self.count)].float()

    def mix(self, residual: Tensor, active: Tensor, weights: Tensor) -> Tensor:
        """u + sum of weights [n, N] times the experts, [n, h]: L or R, by the weights."""
        scaled = active * weights.to(active.dtype)[..., None]
        return self.down.added(residual, scaled.flatten(1))

    def alone(self, residual: Tensor, active: Tensor, expert: int) -> Tensor:
        """One expert's own answer u + E_i(z), [n, h]."""
        down = self.down.weight[:, expert * self.inner : (expert + 1) * self.inner]
        return torch.addmm(residual, active[:, expert], down.T)

    def own(self, residual: Tensor, active: Tensor) -> Tensor:
        """Each expert's own answer, [N, n, h]. One product for each, laid out for few rows, is no quicker."""
        down = self.down.weight.view(-1, self.count, self.inner).permute(1, 2, 0)  # [N, inner, h]
        return torch.baddbmm(residual.expand(self.count, -1, -1), active.transpose(0, 1), down)

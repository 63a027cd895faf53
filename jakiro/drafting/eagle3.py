"""The EAGLE-3 head (arXiv 2503.01840), read strictly from its published layout and prepared for decoding.

    g  = fc([low; mid; high])              inputs of three of the target's layers, instead of its last hidden state
    u  = g + Attn([norm(e); norm(g)])      e embeds the token after, as in EAGLE-1; a pair sits at g's position
    x  = u + MLP(norm(u))                  what the next level is fed with in place of g, without fc
    q  = softmax(lm_head(norm(x)))         over the head's own vocabulary: often the target's most frequent tokens

So an answer stands for no hidden state of the target, and the target's output embedding does not read it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from jakiro.models.products import Product
from jakiro.target import Target

from .config import HeadConfig
from .fused import FusedHead
from .head import RMSNorm, attention
from .weights import check_keys, read_tensors

LAYERS = 3  # that a target has at least


@dataclass(frozen=True, slots=True)
class Eagle3Config(HeadConfig):
    """Shape of an EAGLE-3 head; names are those of config.json."""

    head_dim: int = 0  # 0: hidden_size / num_attention_heads
    draft_vocab_size: int = 0  # tokens that can be drafted; 0: all of vocab_size
    target_hidden_size: int = 0  # width of the target; 0: hidden_size

    def __post_init__(self) -> None:
        usual = {"draft_vocab_size": self.vocab_size, "target_hidden_size": self.hidden_size}
        if type(self.num_attention_heads) is int and self.num_attention_heads > 0:  # else refused below
            usual["head_dim"] = self.hidden_size // self.num_attention_heads
        for name, value in usual.items():
            if type(given := getattr(self, name)) is not int or given < 0:
                raise ValueError(f"{name} must be a whole number of at least 1, not {given!r}")
            object.__setattr__(self, name, given or value)
        HeadConfig.__post_init__(self)
        if self.draft_vocab_size > self.vocab_size:
            raise ValueError(f"draft_vocab_size is {self.draft_vocab_size}, and vocab_size {self.vocab_size}")

    @classmethod
    def _from_dict(cls, raw: dict[str, Any], **more: Any) -> Eagle3Config:
        own = ("head_dim", "draft_vocab_size", "target_hidden_size")
        more = {name: raw[name] or 0 for name in own if isinstance(raw, dict) and name in raw}
        return super(Eagle3Config, cls)._from_dict(raw, **more)


class FusedEagle3(FusedHead):
    """The head's weights in as few products as its layer allows, with its own norms, vocabulary and output."""

    def __init__(self, config: Eagle3Config, tensors: dict[str, Tensor]) -> None:
        """From tensors by their published names, in the dtype and on the device that they decode in."""

        def matrices(*names: str) -> Tensor:
            return torch.cat([tensors[f"midlayer.{name}.weight"] for name in names])

        def norm(name: str) -> RMSNorm:
            found = RMSNorm(config.hidden_size, eps=config.rms_norm_eps, device="meta")
            found.weight = nn.Parameter(tensors[f"{name}.weight"], requires_grad=False)
            return found

        self.config, self.hidden = config, config.hidden_size
        self.feature_size, self.vocab = 3 * config.target_hidden_size, config.draft_vocab_size
        parts = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")
        bias = torch.cat([tensors[f"midlayer.{part}.bias"] for part in parts]) if config.qkv_bias else None
        self.fc = Product(tensors["fc.weight"])
        self.qkv = Product(matrices(*parts), bias)
        self.out = Product(matrices("self_attn.o_proj"))
        self.gate_up = Product(matrices("mlp.gate_proj", "mlp.up_proj"))
        self.down = Product(matrices("mlp.down_proj"))
        self.read_out = Product(tensors["lm_head.weight"])
        self.embedding_norm, self.hidden_norm = norm("midlayer.input_layernorm"), norm("midlayer.hidden_norm")
        self.norm, self.last_norm = norm("midlayer.post_attention_layernorm"), norm("norm")
        own = tensors.get("embed_tokens.weight")
        self.embed = None if own is None else nn.Embedding.from_pretrained(own)
        self.tokens = torch.arange(self.vocab, device=self.fc.weight.device)  # the target's id of each own one
        if "d2t" in tensors:
            self.tokens = self.tokens + tensors["d2t"]

    def enter(self, embeddings: Tensor, features: Tensor) -> Tensor:
        """[norm(e); norm(g); g] [n, 3 h], of the target's features [n, 3 target h], or of own answers [n, h]."""
        hidden = self.fc(features) if features.shape[-1] == self.feature_size else features
        return torch.cat([self.embedding_norm(embeddings), self.hidden_norm(hidden), hidden], dim=-1)

    def project(self, entry: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return super().project(entry[:, : 2 * self.hidden], cos, sin)

    def attend(self, entry: Tensor, query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
        """u [n, h]: g plus attention over keys and values [key heads, s, d] under an additive mask [n, s]."""
        mixed = attention(query.transpose(0, 1)[None], keys[None], values[None], mask)
        return self.out.added(entry[:, 2 * self.hidden :], mixed[0].transpose(0, 1).flatten(1))

    def predict(self, residual: Tensor) -> Tensor:
        """x [n, h] from u [n, h]."""
        gate, up = self.gate_up(self.norm(residual)).chunk(2, dim=-1)
        return self.down.added(residual, F.silu(gate) * up)

    def logits(self, features: Tensor) -> Tensor:
        """Of the own tokens, [..., vocab], from x [..., h]."""
        return self.read_out(self.last_norm(features))


def layers(target: Target) -> tuple[int, int, int]:
    """The target's layers whose inputs the head reads. Raises ValueError where they cannot be told."""
    count = len(getattr(target.decoder, "layers", []))
    if count < LAYERS:
        raise ValueError(
            f"{target.name} has {count or 'no list of'} layers, and an EAGLE-3 head reads three: use another method"
        )
    return 2, count // 2, count - 3


def load_eagle3(folder: str | Path, target: Target) -> FusedEagle3:
    """The head in `folder`, in the target's dtype and on its device.

    Its layer may be called `midlayer` or `layers.0`. Raises FileNotFoundError or ValueError, naming the file, key or
    shape that does not fit.
    """
    folder = Path(folder)
    if not (folder / "config.json").is_file():
        raise FileNotFoundError(f"{folder} has no config.json: give a folder that holds a draft head")
    config = Eagle3Config.from_json(folder / "config.json")
    for name, made_for, has in (
        ("hidden_size", config.target_hidden_size, target.hidden_size),
        ("vocab_size", config.vocab_size, target.vocab_size),
    ):
        if made_for != has:
            who = target.name or "this one"
            raise ValueError(f"the head in {folder} was made for a target of {name} {made_for}; {who} has {has}")
    found = {key.replace("layers.0.", "midlayer.", 1): tensor for key, tensor in read_tensors(folder).items()}
    if not any(key.startswith("midlayer.hidden_norm") for key in found):
        raise ValueError(f"{folder} holds no EAGLE-3 head (midlayer.hidden_norm.weight is missing): give one")
    own = config.hidden_size != config.target_hidden_size
    if not own:
        found.pop("embed_tokens.weight", None)  # a copy of the target's
    whole = config.draft_vocab_size == config.vocab_size
    for name in ("d2t", "t2d") if whole else ("t2d",):  # t2d says which tokens d2t leads to
        found.pop(name, None)
    check_keys(_expected(config, own), found, config, folder)
    if not whole:
        ids = torch.arange(config.draft_vocab_size) + found["d2t"]
        if ids.min() < 0 or ids.max() >= config.vocab_size or len(ids.unique()) < len(ids):
            raise ValueError(f"{folder}: d2t leads outside of the vocabulary, or twice to one token; download it again")
    dtypes = {"d2t": torch.long}
    return FusedEagle3(
        config, {key: one.to(target.device, dtypes.get(key, target.dtype)) for key, one in found.items()}
    )


def _expected(config: Eagle3Config, embeds: bool) -> dict[str, Tensor]:
    """Every tensor of such a head with its shape, on no device."""
    hidden, inner, vocab = config.hidden_size, config.intermediate_size, config.draft_vocab_size
    wide, narrow = (count * config.head_dim for count in (config.num_attention_heads, config.num_key_value_heads))
    shapes: dict[str, tuple[int, ...]] = {
        "fc.weight": (hidden, 3 * config.target_hidden_size),
        "midlayer.self_attn.q_proj.weight": (wide, 2 * hidden),
        "midlayer.self_attn.k_proj.weight": (narrow, 2 * hidden),
        "midlayer.self_attn.v_proj.weight": (narrow, 2 * hidden),
        "midlayer.self_attn.o_proj.weight": (hidden, wide),
        "midlayer.mlp.gate_proj.weight": (inner, hidden),
        "midlayer.mlp.up_proj.weight": (inner, hidden),
        "midlayer.mlp.down_proj.weight": (hidden, inner),
        "midlayer.input_layernorm.weight": (hidden,),
        "midlayer.hidden_norm.weight": (hidden,),
        "midlayer.post_attention_layernorm.weight": (hidden,),
        "norm.weight": (hidden,),
        "lm_head.weight": (vocab, hidden),
    }
    if config.qkv_bias:
        for name, width in (("q", wide), ("k", narrow), ("v", narrow)):
            shapes[f"midlayer.self_attn.{name}_proj.bias"] = (width,)
    if vocab < config.vocab_size:
        shapes["d2t"] = (vocab,)
    if embeds:
        shapes["embed_tokens.weight"] = (config.vocab_size, hidden)
    return {key: torch.empty(shape, device="meta") for key, shape in shapes.items()}

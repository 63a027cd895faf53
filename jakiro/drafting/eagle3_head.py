"""The EAGLE-3 head (arXiv 2503.01840) in its published layout: what is trained, and what is read strictly.

    g  = fc([low; mid; high])              inputs of three of the target's layers, instead of its last hidden state
    u  = g + Attn([norm(e); norm(g)])      e embeds the token after, as in EAGLE-1; a pair sits at g's position
    x  = u + MLP(norm(u))                  what the next level is fed with in place of g, without fc
    q  = softmax(lm_head(norm(x)))         over the head's own vocabulary: often the target's most frequent tokens

So an answer stands for no hidden state of the target, and the target's output embedding does not read it. Decoding uses
`eagle3.py` on the same parameters.

Later heads norm more, as their config.json says: what fc reads, at once (`norm_before_fc`) or each layer by itself
(`fc_norm`); what the residual begins with, u = norm(g) + Attn(...) (`norm_before_residual`); what the next level is fed
with, norm(x) (`norm_output`). EAGLE-3.1 (arXiv 2605.09992) is `fc_norm` and `norm_output`; heads by vLLM's speculators
have all but `fc_norm` (vllm-project/speculators, pull requests 610 and 692). Some read more layers than three.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from jakiro.models.loading import last_norm
from jakiro.target import Target

from .eagle3_config import LAYERS, Eagle3Config
from .head import Attention, RMSNorm, SwiGLU
from .weights import check_keys, drop_copy, extras, head_tensors, read_config

LOG = logging.getLogger(__name__)


class Eagle3Layer(nn.Module):
    """One Llama layer whose attention reads [norm(e); norm(g)]."""

    def __init__(self, config: Eagle3Config) -> None:
        super().__init__()
        self.config, hidden, eps = config, config.hidden_size, config.rms_norm_eps
        self.self_attn = Attention(config, entry=2)
        self.mlp = SwiGLU(hidden, config.intermediate_size)
        self.hidden_norm = RMSNorm(hidden, eps=eps)
        self.input_layernorm = RMSNorm(hidden, eps=eps)
        self.post_attention_layernorm = RMSNorm(hidden, eps=eps)

    def forward(self, embeddings: Tensor, features: Tensor, *seen: Any) -> Tensor:
        normed = self.hidden_norm(features)
        attended = self.self_attn(torch.cat([self.input_layernorm(embeddings), normed], dim=-1), *seen)
        residual = (normed if self.config.norm_before_residual else features) + attended
        return residual + self.mlp(self.post_attention_layernorm(residual))


class Eagle3Head(nn.Module):
    """State-dict keys are the published ones; of a head for all of the target's vocabulary d2t and t2d are left out."""

    Config = Eagle3Config

    def __init__(self, config: Eagle3Config) -> None:
        super().__init__()
        self.config, hidden = config, config.hidden_size
        width, eps = config.target_hidden_size, config.rms_norm_eps
        if config.norm_before_fc:
            self.input_norm = RMSNorm(config.entering_size, eps=eps)
        if config.fc_norm:
            self.fc_norm = nn.ModuleList([RMSNorm(width, eps=eps) for _ in range(config.entering_size // width)])
        self.fc = nn.Linear(config.entering_size, hidden, bias=config.bias)
        self.midlayer = Eagle3Layer(config)
        self.norm = RMSNorm(hidden, eps=eps)
        self.lm_head = nn.Linear(hidden, config.draft_vocab_size, bias=False)
        if config.draft_vocab_size < config.vocab_size:
            self.register_buffer("d2t", torch.zeros(config.draft_vocab_size, dtype=torch.long))
            self.register_buffer("t2d", torch.zeros(config.vocab_size, dtype=torch.bool))
        if hidden != width or config.embed_requires_grad:
            self.embed_tokens = nn.Embedding(config.vocab_size, hidden)

    def read(self, entering: Tensor) -> Tensor:
        """g [..., h] from what enters some of the target's layers, as a rule three, [..., entering_size]."""
        return self.fc(normed(entering, self.fc_norms))

    @property
    def fc_norms(self) -> list[nn.Module]:
        """Of what fc reads: one of it all, one of each layer's, or none."""
        return [self.input_norm] if self.config.norm_before_fc else list(getattr(self, "fc_norm", ()))

    def forward(self, embeddings: Tensor, features: Tensor, *seen: Any) -> Tensor:
        """What the next level is fed with, [b, s, h], from embeddings of x_{t+1} and fused features g_t, or own answers
        in their place, [b, s, h], and what `Attention` takes besides."""
        answers = self.midlayer(embeddings, features, *seen)
        return self.norm(answers) if self.config.norm_output else answers

    def logits(self, answers: Tensor) -> Tensor:
        """Of the own tokens, [..., draft_vocab_size], from what `forward` gives, [..., h]."""
        return self.lm_head(answers if self.config.norm_output else self.norm(answers))

    @property
    def tokens(self) -> Tensor:
        """The target's id of each own token, [draft_vocab_size]."""
        ids = torch.arange(self.config.draft_vocab_size, device=self.fc.weight.device)
        return ids + self.d2t if hasattr(self, "d2t") else ids

    def speak(self, tokens: Tensor) -> None:
        """Take these of the target's tokens, [draft_vocab_size] in ascending order, as the own ones."""
        if hasattr(self, "d2t"):  # else it has all of them
            self.d2t.copy_(tokens - torch.arange(len(tokens)))
            self.t2d.zero_()[tokens] = True


def normed(entering: Tensor, norms: Sequence[nn.Module]) -> Tensor:
    """What fc reads of what enters the target's layers, [..., entering_size], each part normed by one of the norms."""
    if not norms:
        return entering
    parts = zip(norms, entering.chunk(len(norms), dim=-1), strict=True)
    return torch.cat([norm(part) for norm, part in parts], dim=-1)


def layers(target: Target, config: Eagle3Config | None = None) -> tuple[int, ...]:
    """The layers of the target whose inputs a head reads: those that its config.json names, or the usual three. The one
    after the last stands for the target's final norm.

    There are two ways to count, told apart as SGLang does (sgl-project/sglang, pull requests 25454 and 32334): a list
    that begins with 1 has layers whose outputs are read, which enter the layers after them; any other, and each that
    was made for gpt-oss or by speculators, has those whose inputs are. Raises ValueError where they cannot be told or
    are not there.
    """
    count = len(getattr(target.decoder, "layers", []))
    if count < LAYERS:
        raise ValueError(
            f"{target.name} has {count or 'no list of'} layers, and an EAGLE-3 head reads three: use another method"
        )
    if getattr(target.model.config.get_text_config(), "altup_num_inputs", 1) > 1:
        raise ValueError(
            f"{target.name} has layers of several streams, which no EAGLE-3 head reads: use another method"
        )
    usual = 2, count // 2, count - 3
    if config is None or not (named := config.reads):
        return usual
    outputs = named[0] == 1 and not config.by_inputs and target.model.config.model_type != "gpt_oss"
    reads = tuple(layer + outputs for layer in named)
    last = count if last_norm(target.decoder) is not None else count - 1
    if reads != usual and not (reads[0] >= 0 and reads[-1] <= last and all(a < b for a, b in pairwise(reads))):
        raise ValueError(
            f"an EAGLE-3 head reads what enters layers of {target.name}, which has {count}, in ascending order, and "
            f"this one's config.json names {list(named)}: use another head"
        )
    return reads


def load_eagle3(folder: str | Path, target: Target) -> Eagle3Head:
    """The head in `folder`, in the target's dtype and on its device, ready to decode.

    Its layer may be called `midlayer` or `layers.0`; one without an output has the target's. Raises FileNotFoundError
    or ValueError, naming the file, key or shape that does not fit.
    """
    folder = Path(folder)
    config = read_config(folder, target, Eagle3Config)
    try:
        layers(target, config)
    except ValueError as error:
        raise ValueError(f"{folder}: {error}") from error
    found = head_tensors(folder)
    if not any(key.startswith("midlayer.hidden_norm") for key in found):
        raise ValueError(f"{folder} holds no EAGLE-3 head (midlayer.hidden_norm.weight is missing): give one")
    if config.window:
        LOG.warning("%s was made to see %d tokens, and here sees all: it drafts worse beyond", folder, config.window)
    alike = config.hidden_size == config.target_hidden_size
    if "lm_head.weight" not in found and alike and config.draft_vocab_size == config.vocab_size:
        found["lm_head.weight"] = target.model.get_output_embeddings().weight  # as such heads are meant
    config = replace(config, **extras(found))
    with torch.device("meta"):
        head = Eagle3Head(config)
    if alike and not config.embed_requires_grad:
        drop_copy(found, target, folder)
    if config.draft_vocab_size == config.vocab_size:
        found.pop("d2t", None)
        found.pop("t2d", None)
    elif "d2t" in found:
        if found["d2t"].is_floating_point() or found["d2t"].shape != (config.draft_vocab_size,):
            raise ValueError(f"{folder}: d2t must be {config.draft_vocab_size} whole numbers; download it again")
        ids = torch.arange(len(found["d2t"])) + found["d2t"]
        if ids.min() < 0 or ids.max() >= config.vocab_size or len(ids.unique()) < len(ids):
            raise ValueError(f"{folder}: d2t leads outside of the vocabulary, or twice to one token; download it again")
        known = torch.zeros(config.vocab_size, dtype=torch.bool)
        found["t2d"] = known.index_fill_(0, ids, True)  # not all files have it
    check_keys(head.state_dict(), found, config, folder)
    kept = {"d2t": torch.long, "t2d": torch.bool}
    found = {key: one.to(target.device, kept.get(key, target.dtype)) for key, one in found.items()}
    head.load_state_dict(found, assign=True)
    return head.eval().requires_grad_(False)

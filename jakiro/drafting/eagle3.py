"""An EAGLE-3 head prepared for decoding: the same parameters in fewer products, as in `fused.py`."""

from __future__ import annotations

import torch
from torch import Tensor

from jakiro.models.products import Product

from .eagle3_head import Eagle3Head, normed
from .fused import FusedDense


class FusedEagle3(FusedDense):
    """The head's weights in as few products as its layer allows, with its own norms, vocabulary and output."""

    def __init__(self, head: Eagle3Head) -> None:
        layer = head.midlayer
        super().__init__(head, layer)
        self.hidden, self.feature_size = head.config.hidden_size, head.config.entering_size
        self.vocab, self.tokens = head.config.draft_vocab_size, head.tokens  # the target's id of each own one
        self.embed = getattr(head, "embed_tokens", None)
        self.read_out = Product(head.lm_head.weight)
        self.fc_norms = head.fc_norms
        self.embedding_norm, self.hidden_norm, self.last_norm = layer.input_layernorm, layer.hidden_norm, head.norm

    def enter(self, embeddings: Tensor, features: Tensor) -> Tensor:
        """[norm(e); norm(g); g] [n, 3 h], of the target's features [n, entering], or of own answers [n, h]. Where the
        residual begins with norm(g), that is last, [n, 2 h]."""
        hidden = self.fc(normed(features, self.fc_norms)) if features.shape[-1] == self.feature_size else features
        parts = [self.embedding_norm(embeddings), self.hidden_norm(hidden)]
        return torch.cat(parts if self.config.norm_before_residual else [*parts, hidden], dim=-1)

    def project(self, entry: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return super().project(entry[:, : 2 * self.hidden], cos, sin)

    def attend(self, entry: Tensor, query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
        """u [n, h]: g plus attention over keys and values [key heads, s, d] under an additive mask [n, s]."""
        return super().attend(entry[:, -self.hidden :], query, keys, values, mask)

    def predict(self, residual: Tensor) -> Tensor:
        answers = super().predict(residual)
        return self.last_norm(answers) if self.config.norm_output else answers

    def logits(self, features: Tensor) -> Tensor:
        """Of the own tokens, [..., vocab], from what `predict` gives, [..., h]."""
        return self.read_out(features if self.config.norm_output else self.last_norm(features))

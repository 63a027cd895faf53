"""Heads that draft along a text. Each is one module, so that DDP and FSDP see one call a step.

Below the first level of a draft tree a head reads its own predictions, so it is trained on them too, in one of two
ways: `own_features` puts them here and there among the target's (scheduled sampling, arXiv 1506.03099); `passes` reads
them level after level, each seeing what it would see in a draft (HASS, arXiv 2408.15766, section 3.2; EAGLE-3's
training-time test, arXiv 2503.01840).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from jakiro.drafting.eagle3_head import Eagle3Head
from jakiro.drafting.head import Head, HeadOutput, Passes
from jakiro.training.head_recipe import HeadRecipe


class Unrolled(nn.Module):
    """A head whose answers stand for the target's last hidden states."""

    def __init__(self, head: Head, recipe: HeadRecipe) -> None:
        super().__init__()
        self.head, self.recipe = head, recipe

    def forward(
        self, embeddings: Tensor, features: Tensor, noise: Tensor, own: Tensor, texts: Tensor | None = None
    ) -> list[HeadOutput]:
        """What each pass answers, from embeddings of x_{t+1} and features h_t, noise on them, all [b, s, h], where the
        first pass reads the head's own predictions, [b, s] bool, and the texts of rows as `Attention` takes them."""
        read = features
        if self.recipe.own_features:
            with torch.no_grad():
                said = self._head(embeddings, features, None, texts).mixed
                read = torch.where(own[..., None], _next(features, said, texts), features)
        passes = [] if self.recipe.passes > 1 else None  # one pass has none before it
        found = [self._head(embeddings, read + noise, passes, texts)]
        for _ in range(self.recipe.passes - 1):
            found.append(self._head(embeddings, _next(features, found[-1].mixed, texts), passes, texts))
        return found

    def _head(self, *given: Any) -> HeadOutput:
        out = self.head(*given)
        return out if isinstance(out, HeadOutput) else HeadOutput(out, None, None, None)


class UnrolledEagle3(nn.Module):
    """A head with an output of its own. As published, no noise is on what it reads."""

    def __init__(self, head: Eagle3Head, recipe: HeadRecipe) -> None:
        super().__init__()
        self.head, self.recipe = head, recipe

    def forward(self, embeddings: Tensor, inner: Tensor, at: Tensor, texts: Tensor | None = None) -> list[Tensor]:
        """Logits [k, own tokens] of each pass, from embeddings of x_{t+1} [b, s, h] and inputs of target layers
        [b, s, entering_size], at k flat indices into [b, s - 1], and the texts of rows as `Attention` takes them."""
        fused = read = self.head.read(inner)
        passes: Passes | None = [] if self.recipe.passes > 1 else None
        found = []
        for _ in range(self.recipe.passes):
            answers = self.head(embeddings, read, passes, texts)
            found.append(self.head.logits(answers[:, :-1].flatten(0, 1)[at]))
            read = _next(fused, answers, texts)
        return found


def _next(first: Tensor, answers: Tensor, texts: Tensor | None) -> Tensor:
    """What the next level reads at each position: the answer at the one before it, if that is of its text."""
    found = torch.cat([first[:, :1], answers[:, :-1].to(first.dtype)], dim=1)
    return found if texts is None else torch.where(begins(texts)[..., None], first, found)


def begins(texts: Tensor) -> Tensor:
    """Where a text begins after another in its row, bool [b, s], from the texts' numbers."""
    return nn.functional.pad(texts[:, 1:] != texts[:, :-1], (1, 0))

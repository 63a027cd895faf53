"""Heads that draft along a text. Each is one module, so that DDP and FSDP see one call a step.

Below the first level of a draft tree a head reads its own predictions, so it is trained on them too, in one of two
ways: `own_features` puts them here and there among the target's (scheduled sampling, arXiv 1506.03099); `passes` reads
them level after level, each seeing what it would see in a draft (HASS, arXiv 2408.15766, section 3.2; EAGLE-3's
training-time test, arXiv 2503.01840).
"""

from __future__ import annotations

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

    def forward(self, embeddings: Tensor, features: Tensor, noise: Tensor, own: Tensor) -> list[HeadOutput]:
        """What each pass answers, from embeddings of x_{t+1} and features h_t, noise on them, all [b, s, h], and
        where the first pass reads the head's own predictions, [b, s] bool."""
        read = features
        if self.recipe.own_features:
            with torch.no_grad():
                read = torch.where(own[..., None], _next(features, self._head(embeddings, features).mixed), features)
        passes = [] if self.recipe.passes > 1 else None  # one pass needs no mask
        found = [self._head(embeddings, read + noise, passes)]
        for _ in range(self.recipe.passes - 1):
            found.append(self._head(embeddings, _next(features, found[-1].mixed), passes))
        return found

    def _head(self, embeddings: Tensor, features: Tensor, passes: Passes | None = None) -> HeadOutput:
        out = self.head(embeddings, features, passes)
        return out if isinstance(out, HeadOutput) else HeadOutput(out, None, None, None)


class UnrolledEagle3(nn.Module):
    """A head with an output of its own. As published, no noise is on what it reads."""

    def __init__(self, head: Eagle3Head, recipe: HeadRecipe) -> None:
        super().__init__()
        self.head, self.recipe = head, recipe

    def forward(self, embeddings: Tensor, inner: Tensor, at: Tensor) -> list[Tensor]:
        """Logits [k, own tokens] of each pass, from embeddings of x_{t+1} [b, s, h] and inputs of three of the target's
        layers [b, s, 3 h], at k flat indices into [b, s - 1]."""
        fused = read = self.head.fc(inner)
        passes: Passes | None = [] if self.recipe.passes > 1 else None
        found = []
        for _ in range(self.recipe.passes):
            answers = self.head(embeddings, read, passes)
            found.append(self.head.logits(answers[:, :-1].flatten(0, 1)[at]))
            read = _next(fused, answers)
        return found


def _next(first: Tensor, answers: Tensor) -> Tensor:
    """What the next level reads at each position: the answer at the one before it."""
    return torch.cat([first[:, :1], answers[:, :-1].to(first.dtype)], dim=1)

"""EAGLE-3 (Li et al., arXiv 2503.01840): a head that reads three layers and answers in its own vocabulary.

The tree is EAGLE-2's. What is not in the head's vocabulary is never proposed; where the target chooses it, the column
`pick_rank` counts it after all that are.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from jakiro.drafter import Drafter
from jakiro.drafting.builder import Children, best
from jakiro.drafting.copying import copying
from jakiro.drafting.drafter import HeadDrafter
from jakiro.drafting.eagle3 import FusedEagle3
from jakiro.drafting.eagle3_head import Eagle3Head, layers, load_eagle3
from jakiro.drafting.passes import Step
from jakiro.drafting.sizes import TreeSettings
from jakiro.drafting.weights import OnHead
from jakiro.noise import Noise
from jakiro.target import Target
from jakiro.tree import LOWEST


class Eagle3Drafter(HeadDrafter):
    """Proposes the likeliest of the head's own tokens."""

    head: FusedEagle3

    def __init__(self, head: FusedEagle3, target: Target, settings: TreeSettings) -> None:
        super().__init__(head, target, settings)
        self.reads = layers(target, head.config)

    @property
    def pass_bytes(self) -> int:
        """Of the head's parameters, its output among them, but for fc, which the first pass alone reads."""
        return self.head.nbytes - self.head.fc.nbytes

    def propose(self, residual: Tensor, level: int) -> Step:
        features = self.head.predict(residual)
        logprobs = self.logprobs(features, level)
        tokens, scores = best(logprobs, self.width)
        return Step(Children(self.head.tokens[tokens], scores), features, (logprobs,))

    def coupling(self, noise: Noise, start: int) -> Tensor:
        return super().coupling(noise, start)[:, self.head.tokens]

    def logits(self, features: Tensor) -> Tensor:
        return self.head.logits(features)

    def widened(self, logprobs: Tensor) -> Tensor:
        wide = logprobs.new_full((len(logprobs), self.target.vocab_size), LOWEST)
        wide[:, self.head.tokens] = logprobs.clamp_min(LOWEST + 1)
        return wide


class Eagle3(OnHead):
    """Features of three layers, and a vocabulary of its own."""

    name = "eagle3"
    title = "EAGLE-3"
    summary = "A one-layer head reads three of the target's layers and guesses tokens of its own vocabulary."
    settings = TreeSettings
    head = Eagle3Head
    levels = 8  # its released code's depth of 7

    def load(self, target: Target) -> Callable[[TreeSettings], Drafter]:
        """Read the head. Raises FileNotFoundError or ValueError, naming what does not fit."""
        layers(target)
        head = FusedEagle3(load_eagle3(self.opened(target), target))
        return lambda settings: copying(Eagle3Drafter(head, target, settings), settings)

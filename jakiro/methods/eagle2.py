"""EAGLE-2 (Li et al., 2024, arXiv 2406.16858): one head over features, a dynamic tree by its own confidence."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from jakiro.drafter import Drafter
from jakiro.drafting.builder import best
from jakiro.drafting.copying import copying
from jakiro.drafting.drafter import HeadDrafter
from jakiro.drafting.fused import FusedEagle
from jakiro.drafting.head import EagleHead
from jakiro.drafting.passes import Step
from jakiro.drafting.sizes import TreeSettings
from jakiro.drafting.weights import OnHead, load_head
from jakiro.target import Target


class Eagle2Drafter(HeadDrafter):
    """Proposes the likeliest tokens of the one predicted feature."""

    head: FusedEagle

    def propose(self, residual: Tensor, level: int) -> Step:
        features = self.head.predict(residual)
        logprobs = self.logprobs(features, level)
        return Step(best(logprobs, self.width), features, (logprobs,))


class Eagle2(OnHead):
    """One feature predictor, and the tree that its own probabilities suggest."""

    name = "eagle2"
    title = "EAGLE-2"
    summary = "A one-layer head guesses the target's next features; the likeliest paths form the tree."
    settings = TreeSettings
    head = EagleHead

    def load(self, target: Target) -> Callable[[TreeSettings], Drafter]:
        """Read the head. Raises FileNotFoundError or ValueError, naming what does not fit."""
        head = FusedEagle(load_head(self.opened(target), target, self.head))
        return lambda settings: copying(Eagle2Drafter(head, target, settings), settings)

"""Jakiro (Huang et al., arXiv 2502.06282): two experts propose, and a contrastive feature saves the last pass.

Paper and released code differ, so both are settings. `mixture` is the code: the level's candidates are the top-k of
the gate-weighted sum L of the experts. `decoupled` is our reading of the paper: each expert proposes its own top-k
from u + E_i(z), and the union, ranked by q = w0 p0 + w1 p1, is cut to k. The next level is fed with L in both.

With `contrastive`, the last level is read off the pass two levels above it: that pass also gives R, one feature for
the token after next (so its candidates are R's top-k in both modes), and all children of a node share what its R
proposes. That saves one pass and needs two levels. In the released code row j of the R table belongs to node j of one
level and is given to node j of the next, whose parent is another; `aligned` gives each node its parent's row. The
mix-up needs three levels, as the release does: with two, the table has one row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from jakiro.drafter import Drafter
from jakiro.drafting.builder import Children
from jakiro.drafting.columns import Places, common, of_experts, spread
from jakiro.drafting.copying import copying
from jakiro.drafting.drafter import HeadDrafter
from jakiro.drafting.fused import FusedJakiro
from jakiro.drafting.head import JakiroHead, contrast_weights
from jakiro.drafting.passes import Round, Step
from jakiro.drafting.sizes import TreeSettings
from jakiro.drafting.weights import OnHead, load_head
from jakiro.settings import AUTO, setting
from jakiro.target import Target
from jakiro.tree import DraftTree


@dataclass(frozen=True, slots=True)
class JakiroSettings(TreeSettings):
    """A dynamic tree, and which of paper and released code fills it."""

    candidates: str = setting(
        "mixture",
        "mixture: from the weighted sum of the experts, as released; decoupled: each proposes, as we read the paper.",
        choices=("mixture", "decoupled"),
    )
    contrastive: bool = setting(True, "Take the last level from the contrastive feature, without a pass of its own.")
    expert: str = setting(
        "all",
        "Only expert 0 or only expert 1 proposes, to see what it is worth; with contrastive off.",
        choices=("all", "0", "1"),
    )
    aligned: bool = setting(True, "Give each node of the last level its own parent's row; off: the released mix-up.")

    def __post_init__(self) -> None:
        TreeSettings.__post_init__(self)
        if self.contrastive and self.expert != "all":
            raise ValueError(
                "contrastive has both experts propose the last level: turn it off where one proposes alone"
            )
        if self.depth == AUTO:
            return
        if self.contrastive and self.depth < 2:
            raise ValueError(
                "contrastive needs a depth of at least 2, as its level has no pass of its own: turn it off"
            )
        if self.contrastive and not self.aligned and self.depth < 3:
            raise ValueError("aligned=off needs a depth of at least 3, as the released code does: turn aligned on")


class JakiroDrafter(HeadDrafter):
    """Proposes from two experts, together or each for itself."""

    head: FusedJakiro
    settings: JakiroSettings

    def propose(self, residual: Tensor, level: int) -> Step:
        """Candidates from the mixed feature, from each expert's own, or from one expert's alone.

        On the last level but one also what the contrastive feature says of their children (`ahead`).
        """
        active, gates = self.head.activate(residual)
        count = self.head.count
        weights = gates[:, :count].softmax(-1)
        if self.settings.expert != "all":
            read = [mixed := self.head.alone(residual, active, int(self.settings.expert))]
        elif self._decoupled:
            own = self.head.own(residual, active)
            mixed = (own * weights.T[..., None]).sum(0).to(own.dtype)  # in float32, where the weights sum to one
            read = [*own]
        else:
            mixed = self.head.mix(residual, active, weights)
            read = [mixed]
        levels, contrast = [level] * len(read), None
        if self.settings.contrastive and level == self.settings.depth - 2:
            contrast = self.head.mix(residual, active, contrast_weights(gates))
            read.append(contrast)
            levels.append(level + 1)
        logprobs = self.logprobs(torch.stack(read), levels)  # one reading of lm_head for all features of the level
        values, tokens = logprobs.topk(self.width)  # [features, n, k]
        known, ahead = (residual, active.flatten(1), gates), None
        if contrast is not None:
            ahead = Step(Children(tokens[-1], values[-1]), contrast, (*known, logprobs[-1]))
        if self._decoupled:
            return Step(union(logprobs[:count], tokens[:count], weights), mixed, (*known, logprobs[0]), ahead)
        return Step(Children(tokens[0], values[0]), mixed, (*known, logprobs[0]), ahead)

    def follow(self, level: int, tokens: Tensor, rows: Tensor, before: Step) -> Step:
        """What the level above already said of this one, row by parent or, unaligned, as the released code has it."""
        if before.ahead is None:
            return super().follow(level, tokens, rows, before)
        return before.ahead.take(rows) if self.settings.aligned else before.ahead

    def columns(self, tree: DraftTree, picks: list[int], rows: Places, last: Round, used: Tensor) -> dict[str, list]:
        residual, active, gates, logprobs = last.known(used)
        first = 1 + (self.settings.depth - 2) * self.width  # row of the last level, which a contrastive one fills
        contrast = (used >= first) if self.settings.contrastive else torch.zeros_like(used, dtype=torch.bool)
        weights = torch.where(contrast[:, None], *gates.chunk(2, dim=-1)[::-1]).softmax(-1)
        some = len(used) - int(contrast.sum())  # rows of which experts are asked: they come first
        active = active[:some].unflatten(1, (self.head.count, -1))
        experts = self.logprobs(self.head.own(residual[:some], active), last.level_of(used[:some]))
        best, pool = experts.topk(self.width).indices, last.proposed(used)
        if self._decoupled:  # a row of experts proposes the best of what each of them would
            logprobs = torch.cat([blend(experts, weights[:some]), logprobs[some:]])
            pool = pool.repeat(1, 1 + len(best))
            pool[:some, self.width :] = torch.cat([*best], dim=-1)
        return {
            **common(tree, picks, rows, logprobs, min(last.kept.scores), pool),
            **of_experts(tree, picks, rows, experts, weights, best),
            "head": spread(contrast.int().tolist(), rows.hung),
        }

    @property
    def _decoupled(self) -> bool:
        return self.settings.candidates == "decoupled" and self.settings.expert == "all"


def blend(logprobs: Tensor, weights: Tensor) -> Tensor:
    """log(w0 p0 + w1 p1 + ...) [n, m] from log-probabilities [N, n, m] and weights [n, N]."""
    return (logprobs + weights.log().T[..., None]).logsumexp(0).clamp_max(0.0)


def union(logprobs: Tensor, tokens: Tensor, weights: Tensor) -> Children:
    """The best k of what N experts propose, tokens [N, n, k], by their blend; each token once.

    logprobs [N, n, vocab] are the experts' own, weights [n, N] the gate's.
    """
    width = tokens.shape[-1]
    pool = torch.cat([*tokens], dim=-1)  # [n, N k]
    scores = blend(logprobs.gather(-1, pool.expand(len(tokens), -1, -1)), weights)
    again = (pool[:, :, None] == pool[:, None, :]).tril(-1).any(-1)
    scores.masked_fill_(again, -torch.inf)
    scores, order = scores.sort(dim=-1, descending=True, stable=True)
    return Children(pool.gather(-1, order[:, :width]), scores[:, :width])


class Jakiro(OnHead):
    """Two experts over one attention, and a last level without a pass."""

    name = "jakiro"
    title = "Jakiro"
    summary = "Two routed experts guess the next features; a contrastive one gives the last level without another pass."
    settings = JakiroSettings
    head = JakiroHead

    def load(self, target: Target) -> Callable[[JakiroSettings], Drafter]:
        """Read the head. Raises FileNotFoundError or ValueError, naming what does not fit."""
        head = FusedJakiro(load_head(self.opened(target), target, self.head))
        return lambda settings: copying(JakiroDrafter(head, target, settings), settings)

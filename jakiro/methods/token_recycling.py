"""Token recycling (Luo et al., 2024, arXiv 2408.08696): drafts from what the target found likely after each token.

A matrix has for every token the next tokens that the target's logits put first where that token was last seen, in the
text or in a draft, rejected nodes too. It needs no model and no training. Two differences: the paper's tree has one
shape, this one grows best first by the probabilities that those logits gave, and the paper's matrix outlasts a text.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from heapq import heappop, heappush, nsmallest
from itertools import islice

import torch
from torch import Tensor

from jakiro.drafter import Context, Drafter
from jakiro.settings import check, setting
from jakiro.target import Target
from jakiro.tree import LOWEST, MAX_CUT, CutNodes, DraftTree

READ = 64  # last tokens before the first round that are learnt from: each costs its row of the output embedding

Place = tuple[int | None, float | None]  # rank from 0 and log-probability; None: not known


@dataclass(frozen=True, slots=True)
class Settings:
    """How much is remembered, and the tree."""

    remembered: int = setting(8, "Next tokens remembered of each token.", 1, 64)
    depth: int = setting(6, "Levels below the root.", 1, 16)
    total_tokens: int = setting(60, "Nodes kept for the target to verify, with the root.", 1, 512)

    def __post_init__(self) -> None:
        check(self)


class TokenRecyclingDrafter(Drafter):
    """The likeliest paths through the matrix. A score is the sum of what each token had where its parent was seen."""

    def __init__(self, target: Target, settings: Settings) -> None:
        self.target, self.settings = target, settings
        self.memory: dict[int, dict[int, float]] = {}  # token -> next token -> log-probability, the likeliest first
        self._left: list[tuple[float, int, int]] = []  # of the last draft, what did not fit: -score, parent, token
        self._deepest = 0  # level that it might reach
        self._first = True  # whether nothing was drafted yet

    def draft(self, context: Context) -> DraftTree:
        """Best first: again and again the likeliest node that may follow one of the tree, until that is full."""
        self._learn(context)
        tokens, parents, scores, depths = [context.tokens[-1]], [-1], [0.0], [0]
        self._left, self._deepest = [], min(self.settings.depth, context.room)
        while True:
            node = len(tokens) - 1
            if depths[node] < self._deepest:
                for token, logprob in self._known(tokens[node]).items():
                    heappush(self._left, (-(scores[node] + logprob), node, token))
            if not self._left or len(tokens) == self.settings.total_tokens:
                return DraftTree(tokens, parents, scores)
            cost, parent, token = heappop(self._left)
            tokens.append(token)
            parents.append(parent)
            scores.append(-cost)
            depths.append(depths[parent] + 1)

    def inspect(self, tree: DraftTree, picks: list[int]) -> dict[str, list]:
        """Where each token stood among those remembered, and the target's pick after each node that had followers."""
        depths = tree.depths()
        own = [self._place(tree.tokens[above], token) for above, token in zip(tree.parents, tree.tokens, strict=True)]
        picked = [
            self._place(token, pick) if depth < self._deepest else (None, None)
            for token, pick, depth in zip(tree.tokens, picks, depths, strict=True)
        ]
        own[0] = (None, None)
        [rank, logprob], [pick_rank, pick_logprob] = zip(*own, strict=True), zip(*picked, strict=True)
        columns = {"rank": rank, "logprob": logprob, "pick_rank": pick_rank, "pick_draft_logprob": pick_logprob}
        return {name: list(column) for name, column in columns.items()}

    def cut(self, tree: DraftTree) -> CutNodes:
        """The best of what might have followed."""
        best = nsmallest(MAX_CUT, self._left)
        return CutNodes([one[2] for one in best], [one[1] for one in best], [-one[0] for one in best])

    def _learn(self, context: Context) -> None:
        """From the last tree; where there is none from the text, whose logits are then made of its features."""
        first, self._first = self._first, False
        if context.tree is not None:
            tokens, logits = context.tree.tokens, context.logits
        elif not self.target.logit_scale or (first and self.memory):
            return  # features that cannot be read, or a memory that was given and knows the text
        else:
            features = context.features[-READ:]
            tokens, logits = context.tokens[-1 - len(features) : -1], self.target.logits(features)
        self.memory |= zip(tokens, _likeliest(logits, self.settings.remembered), strict=True)

    def _known(self, token: int) -> dict[int, float]:
        return dict(islice(self.memory.get(token, {}).items(), self.settings.remembered))

    def _place(self, token: int, after: int) -> Place:
        known = self._known(token)
        return ([*known].index(after), known[after]) if after in known else (None, None)


def _likeliest(logits: Tensor, count: int) -> list[dict[int, float]]:
    """Of each row [n, vocab] the first tokens and their log-probabilities."""
    best = logits.topk(min(count, logits.shape[-1]))
    logprobs = best.values.float() - logits.float().logsumexp(-1, keepdim=True)
    both = torch.stack([best.indices.float(), logprobs.clamp(LOWEST, 0)])  # one copy, for which a device is waited
    return [dict(zip(map(int, row), values, strict=True)) for row, values in zip(*both.tolist(), strict=True)]


class TokenRecycling:
    """Goes on with what the target once found likely."""

    name = "token_recycling"
    title = "Token recycling"
    summary = "Goes on with what the target last found likely after each token; needs no trained head."
    settings = Settings
    head = None

    def defaults(self, target: Target) -> Settings:
        """The paper's eight, and a tree as large as others'. On a CPU nodes cost more: of the embedded model 3 to 8 are
        within 4 % of one another, and 12 are slower (benchmarks/token-recycling-trees-cpu.json)."""
        return Settings(depth=3, total_tokens=5) if target.device.type == "cpu" else Settings()

    def unavailable(self, target: Target) -> str:
        return ""

    def load(self, target: Target) -> Callable[[Settings], TokenRecyclingDrafter]:
        return lambda settings: TokenRecyclingDrafter(target, settings)

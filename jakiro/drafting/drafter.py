"""Drafting with a trained head: the round that EAGLE-2, Jakiro and their kin share.

A method says how one pass answers (`propose`) and what else it knows of a row (`columns`); the tree, the caches and the
copy to the host are common.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from jakiro.drafter import Context, Drafter
from jakiro.models.products import spared_bytes
from jakiro.noise import Noise
from jakiro.settings import autos
from jakiro.target import Target
from jakiro.tree import MAX_CUT, CutNodes, DraftTree

from .builder import Children, Growth, Kept
from .columns import Rows
from .fused import FusedHead
from .sizes import TreeSettings
from .state import FixedState, HeadState, TapedState


@dataclass(frozen=True, slots=True)
class Step:
    """One pass's answer for n rows."""

    children: Children  # [n, k]
    features: Tensor  # [n, h], in the place of the target's: what the children's own pass is fed with
    known: tuple[Tensor, ...]  # [n, ...] each: what the columns are made from
    ahead: Step | None = None  # what each row's children would answer, where this pass already says so
    rows: Tensor | None = None  # [n], of those in `known`; None: all of them

    def take(self, rows: Tensor) -> Step:
        """The answer for the given rows, which may repeat."""
        children = Children(*(part.index_select(0, rows) for part in self.children))
        return Step(children, self.features.index_select(0, rows), self.known, rows=rows)


@dataclass(frozen=True, slots=True)
class Round:
    """The last draft, for inspection. Rows run through the steps: the root's is 0, then k a level."""

    kept: Kept
    growth: Growth
    steps: list[Step]  # one for each level below the root

    def levels(self, used: Tensor) -> Tensor:
        """The level that rows `used` [r] answer for, [r]: 0 is the root's children's."""
        return (used + self.growth.width - 1) // self.growth.width

    def proposed(self, used: Tensor) -> Tensor:
        """The tokens that rows `used` [r] proposed, [r, k]; ranks do not tell where log-probabilities tie."""
        return torch.cat([step.children.tokens for step in self.steps]).index_select(0, used)

    def known(self, used: Tensor) -> list[Tensor]:
        """What the passes knew of rows `used` [r]."""
        parts = zip(*(step.known for step in self.steps), strict=True)
        return [self._together(part).index_select(0, used) for part in parts]

    def _together(self, parts: Sequence[Tensor]) -> Tensor:
        taken = zip(parts, (step.rows for step in self.steps), strict=True)
        return torch.cat([part if rows is None else part.index_select(0, rows) for part, rows in taken])

    def rows(self, count: int) -> Rows:
        """The rows of the first `count` nodes."""
        ids = self.kept.ids[: count - 1]
        own = {index: row for row, index in enumerate(self.growth.frontier_ids().tolist(), start=1)}
        return Rows([None, *(index // self.growth.width for index in ids)], [0, *(own.get(index) for index in ids)])


class HeadDrafter(Drafter):
    """A drafter for one run over a shared head."""

    def __init__(self, head: FusedHead, target: Target, settings: TreeSettings) -> None:
        assert not autos(settings), "what is auto is measured before a drafter is made"
        self.head, self.target, self.settings = head, target, settings
        self.width = min(settings.top_k, head.vocab or target.vocab_size)
        sizes = (head, head.embed or target.embed, self.width, settings.depth - 1)
        if target.graphs:
            self._state = FixedState(*sizes, fresh=settings.depth + 1, compile=target.compiled)
        elif target.tapes:
            self._state = TapedState(*sizes, key=(type(self), settings))
        else:
            self._state = HeadState(*sizes)
        self._round: Round | None = None
        self._noise: Tensor | None = None  # [depth, vocab] of the draft at hand: what is added to a level's logits
        self._divisor = settings.draft_temperature  # of logits
        self._idle = settings.total_tokens == 1  # nothing is drafted

    @property
    def pass_bytes(self) -> int:
        """Of the head's parameters and the output embedding."""
        output = self.target.model.get_output_embeddings()
        return self.head.nbytes + output.weight.nbytes - spared_bytes(output)

    @torch.inference_mode()
    def draft(self, context: Context) -> DraftTree:
        """The reranked tree under the context's last token; only the root where nothing below it could count."""
        root = context.tokens[-1]
        self._round = None
        if self._idle or context.room == 0:  # a round without room is the last one
            return DraftTree([root], [-1], [0.0])
        drawn = context.noise if self.settings.coupled else None
        noise = [self.coupling(drawn, len(context.tokens))] if drawn else []
        heat = drawn.temperature if drawn else None
        self._divisor = self.settings.draft_temperature * (heat or 1.0)
        growth, steps, packed = self._state.run(self._grow, _fresh(context), context.features, *noise, kind=heat)
        self._noise, kept = noise[0] if noise else None, Kept.read(packed)
        if any(map(math.isnan, kept.scores)):
            raise ValueError(f"the head answers with what is no number in {self.target.dtype}: use bfloat16 or float32")
        self._round = Round(kept, growth, steps)
        return DraftTree([root, *kept.tokens], [-1, *kept.parents], [0.0, *kept.scores])

    def coupling(self, noise: Noise, start: int) -> Tensor:
        """What is added to the logits of each level, [depth, vocab]: the noise of the target's picks there, from
        position `start` on. As the logits it is divided by the draft's own temperature."""
        rows = noise.at(range(start, start + self.settings.depth)) / self.settings.draft_temperature
        return rows.to(self.target.device, torch.float32)

    def _grow(self, tokens: Tensor, features: Tensor, noise: Tensor | None = None) -> tuple[Growth, list[Step], Tensor]:
        """All of a draft that runs on the device: no value of a tensor is asked for."""
        self._noise = noise
        growth = Growth(self.width)
        steps = [self.propose(self._state.extend(tokens, features), 0)]
        growth.add(steps[0].children)
        for level in range(1, self.settings.depth):
            frontier, rows = growth.frontier()
            steps.append(self.follow(level, frontier, rows, steps[-1]))
            growth.add(steps[-1].children)
        return growth, steps, growth.rerank(self.settings.total_tokens - 1)

    @torch.inference_mode()
    def bare(self, context: Context) -> int:
        if self._idle:
            return 0
        length = self._state.length
        steps = self._state.run(self._pass, _fresh(context), context.features)
        self._state.length = length
        return 1 + sum(step.ahead is None for step in steps[:-1])

    def _pass(self, tokens: Tensor, features: Tensor) -> list[Step]:
        """Of every level; TorchScript leaves out what nothing is made from."""
        self._noise = None
        steps = [self.propose(self._state.extend(tokens, features), 0)]
        tokens, rows = tokens[-1:].expand(self.width), tokens.new_zeros(self.width)
        for level in range(1, self.settings.depth):
            steps.append(self.follow(level, tokens, rows, steps[-1]))
        return steps

    @torch.inference_mode()
    def inspect(self, tree: DraftTree, picks: list[int]) -> dict[str, list]:
        """Columns of the tree just drafted, or of its first nodes, given the target's pick after each node."""
        if self._round is None:
            return {}
        rows = self._round.rows(len(tree))
        used = sorted({*rows.hung, *rows.own} - {None})
        place = {row: at for at, row in enumerate(used)} | {None: None}
        rows = Rows([place[row] for row in rows.hung], [place[row] for row in rows.own])
        return self.columns(tree, picks, rows, self._round, torch.tensor(used, device=self.target.device))

    def cut(self, tree: DraftTree) -> CutNodes:
        """The best nodes of the pool after those kept."""
        last = self._round
        if last is None:
            return CutNodes()
        tokens, parents, scores, ids = last.growth.rest(len(last.kept.ids), MAX_CUT)
        numbers = {-1: 0} | {index: node for node, index in enumerate([*last.kept.ids, *ids], start=1)}
        return CutNodes(tokens, [numbers[parent] for parent in parents], scores)

    def follow(self, level: int, tokens: Tensor, rows: Tensor, before: Step) -> Step:
        """The answer of a frontier at depth `level`; rows [k] say which row of the step before is each one's parent."""
        features = before.features.index_select(0, rows)
        return self.propose(self._state.level(level - 1, tokens, features, rows), level)

    def logits(self, features: Tensor) -> Tensor:
        """Logits [..., vocab] of features [..., h]: the target's, unless a head has an output of its own."""
        return self.target.logits(features)

    def logprobs(self, features: Tensor, level: int | list[int] | Tensor) -> Tensor:
        """What features [..., h] say, [..., vocab] in fp32, at the draft's own temperature; where it is coupled, given
        the noise. `level` is the one that they answer for: of all, of each [f, n, h], or of each row, a tensor [n]."""
        logits = self.logits(features)
        if self._divisor != 1:
            logits = logits.float() / self._divisor
        if self._noise is not None:
            many = isinstance(level, list)
            logits = logits + (torch.stack([self._noise[at] for at in level])[:, None] if many else self._noise[level])
        return torch.log_softmax(logits, -1, dtype=torch.float32)

    @abstractmethod
    def propose(self, residual: Tensor, level: int) -> Step:
        """The answer of rows at depth `level`, given u [n, h]."""

    @abstractmethod
    def columns(self, tree: DraftTree, picks: list[int], rows: Rows, last: Round, used: Tensor) -> dict[str, list]:
        """The method's columns. `rows` index `used` [r], which are row numbers of the round."""


def _fresh(context: Context) -> list[int]:
    """The token after each new feature, [m]: a pair sits at the position of its feature."""
    return context.tokens[-len(context.features) :]

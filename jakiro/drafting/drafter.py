"""Drafting with a network: the round that EAGLE-2, Jakiro and their kin share, and what it shares with a draft model's.

A method says how one pass answers and what else it knows of a row (`columns`); the tree and the copy to the host are
common, and of heads (`HeadDrafter`) their memory, too.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import Any, TypeVar

import torch
from torch import Tensor

from jakiro.drafter import Context, Drafter
from jakiro.models.products import spared_bytes
from jakiro.noise import Noise
from jakiro.settings import check_numbers
from jakiro.target import Target
from jakiro.tree import MAX_CUT, CutNodes, DraftTree

from .builder import Growth, Kept
from .columns import Places, common
from .fused import FusedHead
from .passes import Round, Step
from .sizes import TreeSettings
from .state import FixedState, HeadState, TapedState

T = TypeVar("T")


class TreeDrafter(Drafter):
    """A drafter for one run that grows EAGLE-2's tree, a network's pass a level."""

    def __init__(self, target: Target, settings: TreeSettings, vocab: int) -> None:
        """`vocab`: tokens that it may propose. Raises ValueError for sizes that are still to be measured."""
        check_numbers(settings)
        self.target, self.settings = target, settings
        self.width = min(settings.top_k, vocab)
        self._round: Round | None = None
        self._noise: Tensor | None = None  # [depth, vocab] of the draft at hand: what is added to a level's logits
        self._divisor = settings.draft_temperature  # of logits
        self._levels = settings.depth  # of the draft at hand

    def idle(self, context: Context) -> bool:
        """Whether nothing is drafted; a round without room is the last one."""
        return self.settings.total_tokens == 1 or context.room == 0

    def levels(self, context: Context) -> int:
        """How deep to draft. What is recorded is as deep in every round, and beyond the room it is cut off."""
        return self.settings.depth

    @torch.inference_mode()
    def draft(self, context: Context) -> DraftTree:
        """The reranked tree under the context's last token; only the root where nothing below it could count."""
        root = context.tokens[-1]
        self._round = None
        if self.idle(context):
            return DraftTree([root], [-1], [0.0])
        drawn = context.noise if self.settings.coupled else None
        noise = [self.coupling(drawn, len(context.tokens))] if drawn else []
        heat = drawn.temperature if drawn else None
        self._divisor = self.settings.draft_temperature * (heat or 1.0)
        self._levels = self.levels(context)
        growth, steps, packed = self.run(self._grow, context, *noise, kind=heat)
        self._noise, kept = noise[0] if noise else None, Kept.read(packed)
        if any(map(math.isnan, kept.scores)):
            half = "bfloat16 or float32, or " * (self.target.dtype == torch.float16)
            raise ValueError(f"the drafter answers with what is no number: use {half}another head or draft model")
        self._round = Round(kept, growth, steps)
        return DraftTree([root, *kept.tokens], [-1, *kept.parents], [0.0, *kept.scores])

    def coupling(self, noise: Noise, start: int) -> Tensor:
        """What is added to the logits of each level, [depth, vocab]: the noise of the target's picks there, from
        position `start` on. As the logits it is divided by the draft's own temperature."""
        rows = noise.at(range(start, start + self.settings.depth)) / self.settings.draft_temperature
        return rows.to(self.target.device, torch.float32)

    def _grow(self, tokens: Any, features: Tensor, noise: Tensor | None = None) -> tuple[Growth, list[Step], Tensor]:
        """All of a draft but the copy to the host."""
        self._noise = noise
        growth = Growth(self.width)
        steps = [self.begin(tokens, features)]
        growth.add(steps[0].children)
        for level in range(1, self._levels):
            frontier, rows = growth.frontier()
            steps.append(self.follow(level, frontier, rows, steps[-1]))
            growth.add(steps[-1].children)
        return growth, steps, growth.rerank(self.settings.total_tokens - 1)

    @torch.inference_mode()
    def inspect(self, tree: DraftTree, picks: list[int]) -> dict[str, list]:
        """Columns of the tree just drafted, or of its first nodes, given the target's pick after each node."""
        if self._round is None:
            return {}
        rows = self._round.rows(len(tree))
        used = sorted({*rows.hung, *rows.own} - {None})
        place = {row: at for at, row in enumerate(used)} | {None: None}
        rows = Places([place[row] for row in rows.hung], [place[row] for row in rows.own])
        return self.columns(tree, picks, rows, self._round, torch.tensor(used, device=self.target.device))

    def cut(self, tree: DraftTree) -> CutNodes:
        """The best nodes of the pool after those kept."""
        last = self._round
        if last is None:
            return CutNodes()
        tokens, parents, scores, ids = last.growth.rest(len(last.kept.ids), MAX_CUT)
        numbers = {-1: 0} | {index: node for node, index in enumerate([*last.kept.ids, *ids], start=1)}
        return CutNodes(tokens, [numbers[parent] for parent in parents], scores)

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
    def run(self, work: Callable[..., T], context: Context, *more: Tensor, kind: Hashable = None) -> T:
        """What `work` makes of the context's tokens and features, as `begin` takes them, and `more`. `kind`: what else
        decides on the work."""

    @abstractmethod
    def begin(self, tokens: Any, features: Tensor) -> Step:
        """The answer of the root, for which what is new of the text is read."""

    @abstractmethod
    def follow(self, level: int, tokens: Tensor, rows: Tensor, before: Step) -> Step:
        """The answer of a frontier at depth `level`; rows [k] say which row of the step before is each one's parent."""

    @abstractmethod
    def logits(self, features: Tensor) -> Tensor:
        """Logits [..., vocab] of features [..., h]."""

    def columns(self, tree: DraftTree, picks: list[int], rows: Places, last: Round, used: Tensor) -> dict[str, list]:
        """The method's columns. `rows` index `used` [r], which are row numbers of the round."""
        [logprobs] = last.known(used)
        return common(tree, picks, rows, self.widened(logprobs), min(last.kept.scores), last.proposed(used))

    def widened(self, logprobs: Tensor) -> Tensor:
        """Log-probabilities [r, vocab] of what may be proposed, over all of the target's tokens."""
        return logprobs


class HeadDrafter(TreeDrafter):
    """A drafter for one run over a shared head. A draft runs on the device: no value of a tensor is asked for."""

    def __init__(self, head: FusedHead, target: Target, settings: TreeSettings) -> None:
        super().__init__(target, settings, head.vocab or target.vocab_size)
        self.head = head
        sizes = (head, head.embed or target.embed, self.width, settings.depth - 1)
        if target.graphs:
            self._state = FixedState(*sizes, fresh=settings.depth + 1, compile=target.compiled)
        elif target.tapes:
            self._state = TapedState(*sizes, key=(type(self), replace(settings, lookup=0)))
        else:
            self._state = HeadState(*sizes)

    @property
    def pass_bytes(self) -> int:
        """Of the head's parameters and the output embedding."""
        output = self.target.model.get_output_embeddings()
        return self.head.nbytes + output.weight.nbytes - spared_bytes(output)

    def run(self, work: Callable[..., T], context: Context, *more: Tensor, kind: Hashable = None) -> T:
        """Given the token after each new feature, [m]: a pair sits at the position of its feature."""
        fresh = context.tokens[-len(context.features) :]
        return self._state.run(work, fresh, context.features, *more, kind=kind)

    @torch.inference_mode()
    def bare(self, context: Context) -> int:
        if self.idle(context):
            return 0
        length = self._state.length
        steps = self.run(self._pass, context)
        self._state.length = length
        return 1 + sum(step.ahead is None for step in steps[:-1])

    def _pass(self, tokens: Tensor, features: Tensor) -> list[Step]:
        """Of every level; TorchScript leaves out what nothing is made from."""
        self._noise = None
        steps = [self.begin(tokens, features)]
        tokens, rows = tokens[-1:].expand(self.width), tokens.new_zeros(self.width)
        for level in range(1, self.settings.depth):
            steps.append(self.follow(level, tokens, rows, steps[-1]))
        return steps

    def begin(self, tokens: Tensor, features: Tensor) -> Step:
        return self.propose(self._state.extend(tokens, features), 0)

    def follow(self, level: int, tokens: Tensor, rows: Tensor, before: Step) -> Step:
        features = before.features.index_select(0, rows)
        return self.propose(self._state.level(level - 1, tokens, features, rows), level)

    def logits(self, features: Tensor) -> Tensor:
        """The target's, unless a head has an output of its own."""
        return self.target.logits(features)

    @abstractmethod
    def propose(self, residual: Tensor, level: int) -> Step:
        """The answer of rows at depth `level`, given u [n, h]."""

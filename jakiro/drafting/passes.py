"""What the passes of a draft answer, and what is kept of the last draft for inspection."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from .builder import Children, Growth, Kept
from .columns import Places


@dataclass(frozen=True, slots=True)
class Step:
    """One pass's answer for n rows."""

    children: Children  # [n, k]
    features: Tensor | None  # [n, h], in the place of the target's: what the children's own pass is fed with, if it is
    known: tuple[Tensor, ...]  # [n, ...] each: what the columns are made from
    ahead: Step | None = None  # what each row's children would answer, where this pass already says so
    rows: Tensor | None = None  # [n], of those in `known`; None: all of them

    def take(self, rows: Tensor) -> Step:
        """The answer for the given rows, which may repeat."""
        children = Children(*(part.index_select(0, rows) for part in self.children))
        return Step(children, self.features.index_select(0, rows), self.known, rows=rows)

    def told(self) -> tuple[Tensor, ...]:
        """`known` of the answer's own rows, [n, ...] each."""
        if self.rows is None:
            return self.known
        return tuple(part.index_select(0, self.rows) for part in self.known)


@dataclass(frozen=True, slots=True)
class Round:
    """The last draft, for inspection. Rows run through the steps: the root's is 0, then k a level."""

    kept: Kept
    growth: Growth
    steps: list[Step]  # one for each level below the root

    def level_of(self, used: Tensor) -> Tensor:
        """The level that rows `used` [r] answer for, [r]: 0 is the root's children's."""
        return (used + self.growth.width - 1) // self.growth.width

    def proposed(self, used: Tensor) -> Tensor:
        """The tokens that rows `used` [r] proposed, [r, k]; ranks do not tell where log-probabilities tie."""
        return torch.cat([step.children.tokens for step in self.steps]).index_select(0, used)

    def known(self, used: Tensor) -> list[Tensor]:
        """What the passes knew of rows `used` [r]."""
        parts = zip(*(step.told() for step in self.steps), strict=True)
        return [torch.cat(part).index_select(0, used) for part in parts]

    def rows(self, count: int) -> Places:
        """The rows of the first `count` nodes."""
        ids = self.kept.ids[: count - 1]
        own = {index: row for row, index in enumerate(self.growth.row_ids().tolist())}
        return Places([None, *(index // self.growth.width for index in ids)], [0, *(own.get(index) for index in ids)])

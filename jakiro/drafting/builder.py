"""The dynamic draft tree of EAGLE-2 (arXiv 2406.16858: expand, then rerank), as tensors: no node is touched in Python.

Every level hangs `top_k` children under each frontier row; all of them join the pool and the best `top_k` of the level
become the next frontier. At the end the best nodes of the whole pool are kept. Pool indices run level by level, row by
row, so the children of frontier row r are k consecutive entries and `index // k` numbers the rows: 0 is the root's,
1..k those of level 1's frontier, and so on.

Scores are path log-probabilities in fp32 and order is by (-score, index) throughout. A child never scores above its
parent and comes after it, so what is kept is always a tree, ties included. How children come about is the method's
business.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor


class Children(NamedTuple):
    """Candidates under n rows."""

    tokens: Tensor  # [n, k]
    logprobs: Tensor  # [n, k] in fp32, at most 0


def best(logprobs: Tensor, width: int) -> Children:
    """The `width` likeliest tokens under each row of log-probabilities [n, vocab], likeliest first."""
    values, tokens = logprobs.topk(width)
    return Children(tokens, values)


@dataclass(frozen=True, slots=True)
class Kept:
    """The reranked nodes below the root, in pool order: a parent before its children, shallow before deep."""

    tokens: list[int]  # [n]
    parents: list[int]  # [n], node numbers with the root as 0
    scores: list[float]  # [n]
    ids: list[int]  # [n], pool indices

    @classmethod
    def read(cls, packed: Tensor) -> Kept:
        """From what `Growth.rerank` gives. The one copy to the host."""
        packed = packed.cpu()
        return cls(*packed[:2].int().tolist(), packed[2].tolist(), packed[3].int().tolist())


class Growth:
    """The pool of one round while the tree grows: `add` a level, take its `frontier`, and at the end `rerank`."""

    def __init__(self, width: int) -> None:
        self.width = width
        self._tokens: list[Tensor] = []  # a level's tokens, flat
        self._scores: list[Tensor] = []  # a level's path scores, flat
        self._frontier: Tensor | None = None  # [k] scores of the frontier
        self._chosen: list[Tensor] = []  # [k] indices of a frontier within its level

    def add(self, children: Children) -> None:
        """Hang children under the frontier's rows (the first time: under the root's single row)."""
        scores = children.logprobs if self._frontier is None else self._frontier[:, None] + children.logprobs
        self._tokens.append(children.tokens.flatten())
        self._scores.append(scores.flatten())

    def frontier(self) -> tuple[Tensor, Tensor]:
        """The best nodes of the last level: their tokens [k] and the rows that they hang under [k]."""
        scores, order = torch.sort(self._scores[-1], descending=True, stable=True)
        chosen = order[: self.width]
        self._frontier = scores[: self.width]
        self._chosen.append(chosen)
        return self._tokens[-1].index_select(0, chosen), chosen // self.width

    def row_ids(self) -> Tensor:
        """The pool index of the node that each row hangs under, [rows]; -1 the root."""
        sizes = [len(level) for level in self._scores]
        starts = [sum(sizes[:level]) for level in range(len(self._chosen))]
        ids = [chosen + start for chosen, start in zip(self._chosen, starts, strict=True)]
        return torch.cat([self._tokens[0].new_full((1,), -1), *ids])

    def rest(self, count: int, more: int) -> tuple[list[int], list[int], list[float], list[int]]:
        """Up to `more` nodes of the pool after the best `count`, best first: tokens, parents (pool indices, -1 the
        root), scores, pool indices."""
        tokens, scores = torch.cat(self._tokens), torch.cat(self._scores)
        ids = torch.sort(scores, descending=True, stable=True).indices[count : count + more]
        parents = self.row_ids()[ids // self.width]
        return tokens[ids].tolist(), parents.tolist(), scores[ids].tolist(), ids.tolist()

    def rerank(self, count: int) -> Tensor:
        """The best `count` nodes of the pool, or all where it has fewer, packed for `Kept.read`: fp32 [4, n].

        That holds whole numbers up to 2^24, so one copy carries them beside the scores.
        """
        tokens, scores = torch.cat(self._tokens), torch.cat(self._scores)
        order = torch.sort(scores, descending=True, stable=True).indices
        ids = order[:count].sort().values
        above = self.row_ids()
        nodes = torch.searchsorted(torch.cat([above[:1], ids]), above[ids // self.width])
        return torch.stack([tokens[ids].float(), nodes.float(), scores[ids], ids.float()])

"""Copying from the text: a chain of what followed the same tokens before, alone or in place of another's draft.

Prompt lookup decoding (Saxena, 2023). A head cannot look up a passage that the target repeats, and a copy takes no
pass: so the length of a match decides who drafts, as in SAM Decoding (arXiv 2411.10666).
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from jakiro.drafter import Context, Drafter
from jakiro.tree import MAX_LEVELS, CutNodes, DraftTree

from .sizes import TreeSettings

LONGER = 2  # tokens beyond what has to match: of two places where it does, that with the longer match is copied


class Repeats:
    """Where a growing text has its last tokens a second time."""

    def __init__(self, least: int, most: int) -> None:
        """A match has from `least` to `most` tokens."""
        self._sizes = range(least, most + 1)
        self._follower: dict[tuple[int, ...], int] = {}  # n-gram -> index of the token after its latest occurrence
        self._indexed = 0  # tokens whose n-grams are in it

    def chain(self, tokens: list[int], depth: int) -> DraftTree:
        """A copy of up to `depth` tokens after the longest match, of several the most recent; only the root where there
        is none. What reaches the end of the text goes on with what it has drafted, as LZ77 does, so that a loop of any
        period is drafted to full depth.

        A copy has no draft distribution, so every score is 0.0: it is proposed without a doubt.
        """
        self._index(tokens)
        start = self._match(tokens)
        copied = [] if start is None else [start + level % (len(tokens) - start) for level in range(depth)]
        return DraftTree(
            [tokens[-1], *(tokens[index] for index in copied)],
            list(range(-1, len(copied))),
            [0.0] * (len(copied) + 1),
            {"copied_from": [None, *copied]},
        )

    def _index(self, tokens: list[int]) -> None:
        """Note the follower of every n-gram but the last, which nothing follows yet."""
        for end in range(self._indexed + 1, len(tokens)):
            for size in self._sizes:
                if size <= end:
                    self._follower[tuple(tokens[end - size : end])] = end
        self._indexed = len(tokens) - 1

    def _match(self, tokens: list[int]) -> int | None:
        found = (self._follower.get(tuple(tokens[-size:])) for size in reversed(self._sizes) if size < len(tokens))
        return next((start for start in found if start is not None), None)


class Copying(Drafter):
    """Copies where the text's last `lookup` tokens occurred before, and has another draft everywhere else.

    A copy is a chain of as many nodes as the other's tree, of MAX_LEVELS levels at most; the engine cuts off what the
    text has no room for, and so knows that no program has to be recorded for it. Features that come meanwhile are kept
    until the other drafts again, and are read then.
    """

    def __init__(self, other: Drafter, settings: TreeSettings) -> None:
        self.other, self.reads = other, other.reads
        self._depth = min(settings.total_tokens - 1, MAX_LEVELS)
        self._text = Repeats(settings.lookup, settings.lookup + LONGER)
        self._unread: list[Tensor] = []  # features of the rounds that were copied
        self._copies = False

    def draft(self, context: Context) -> DraftTree:
        tree = self._text.chain(context.tokens, self._depth if context.room else 0)
        self._copies = len(tree) > 1
        if self._copies:
            self._unread.append(context.features)
            return tree
        features, self._unread = torch.cat([*self._unread, context.features]), []
        return self.other.draft(replace(context, features=features))

    def inspect(self, tree: DraftTree, picks: list[int]) -> dict[str, list]:
        return {} if self._copies else self.other.inspect(tree, picks)

    def cut(self, tree: DraftTree) -> CutNodes:
        return CutNodes() if self._copies else self.other.cut(tree)


def copying(drafter: Drafter, settings: TreeSettings) -> Drafter:
    """The drafter, with copies where its settings ask for them."""
    return Copying(drafter, settings) if settings.lookup else drafter

"""Draft trees as plain data."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from jakiro.reading import Fields, TraceError, ids, numbers, typed

SHARES = ("gate0", "gate1", "overlap")  # columns that are between 0 and 1
RANKS = ("rank", "pick_rank", "expert0_rank", "expert1_rank", "pick_expert0_rank", "pick_expert1_rank")
COUNTS = ("pick", "copied_from", *RANKS)  # columns of whole numbers from 0: a -1 would be better than the best
LOWEST = -1e4  # for the log of a zero probability, and of what a head cannot draft: traces hold finite numbers
MAX_LEVELS = 64  # below a root, those of cut nodes included
MAX_CUT = 32  # nodes of a round that did not fit into its tree


@dataclass(frozen=True, slots=True)
class CutNodes:
    """Nodes that were drafted but did not fit into the node budget: the best MAX_CUT at most, best first."""

    tokens: list[int] = field(default_factory=list)  # [m]
    parents: list[int] = field(default_factory=list)  # [m], a node of the tree, or n + the index of an earlier cut node
    scores: list[float] = field(default_factory=list)  # [m], as in the tree

    def __len__(self) -> int:
        return len(self.tokens)


@dataclass(frozen=True, slots=True)
class DraftTree:
    """One round's proposal, in an order in which a parent precedes its children. Node 0 is the root."""

    tokens: list[int]  # [n]
    parents: list[int]  # [n], -1 at the root, else smaller than the node's own index
    scores: list[float]  # [n], log-probability of the path under the draft, 0.0 at the root
    columns: dict[str, list] = field(default_factory=dict)  # name -> [n] of float, int or None (does not apply)
    cut: CutNodes = field(default_factory=CutNodes)

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def copied(self) -> bool:
        """Whether its tokens were copied from the text: what they have for scores are no probabilities."""
        return "copied_from" in self.columns

    def depths(self) -> list[int]:
        """Levels below the root, [n]."""
        depths = [0] * len(self)
        for node, parent in enumerate(self.parents[1:], start=1):
            depths[node] = depths[parent] + 1
        return depths

    def children(self) -> dict[tuple[int, int], int]:
        """(node, token) -> the child of the node that holds the token; of siblings with one token the first."""
        nodes = range(len(self) - 1, 0, -1)
        return {(self.parents[node], self.tokens[node]): node for node in nodes}

    def below(self, node: int) -> list[int]:
        """The children of a node."""
        return [child for child, parent in enumerate(self.parents) if parent == node]

    def along(self, tokens: Iterable[int]) -> list[int]:
        """The nodes of the tree's path along the tokens that follow the root, in path order."""
        children, node, path = self.children(), 0, []
        for token in tokens:
            if (node := children.get((node, token), 0)) == 0:
                break
            path.append(node)
        return path

    def paths(self) -> list[tuple[int, ...]]:
        """The tokens from the root down to every node, [n]; those of siblings with one token are alike."""
        found: list[tuple[int, ...]] = []
        for token, parent in zip(self.tokens, self.parents, strict=True):
            found.append((*found[parent], token) if parent >= 0 else (token,))
        return found


def read_tree(data: Any, where: str) -> DraftTree:
    """Build a tree from parsed JSON, checking every field. Raises TraceError; `where` is its place in the trace."""
    get = Fields(data, where)
    tokens = ids(get("tokens", list), f"{where}.tokens")
    parents = [typed(parent, int, f"{where}.parents", at) for at, parent in enumerate(get("parents", list))]
    if not tokens or len(parents) != len(tokens) or parents[0] != -1:
        raise TraceError(f"{where} needs as many parents as tokens, at least one, the first parent being -1")
    for node, parent in enumerate(parents[1:], start=1):
        if not 0 <= parent < node:
            raise TraceError(f"{where}.parents[{node}] is {parent}; a parent must come before its child")
    scores = numbers(get("scores", list), len(tokens), f"{where}.scores")
    if scores[0] != 0:
        raise TraceError(f"{where}.scores[0] is {scores[0]:g}, expected 0: the root is not drafted")
    columns = {
        name: numbers(values, len(tokens), f"{where}.columns.{name}", True, name in SHARES, name in COUNTS)
        for name, values in get("columns", dict).items()
    }
    cut = _cut(data["cut"], len(tokens), f"{where}.cut") if "cut" in data else CutNodes()
    return DraftTree(tokens, parents, scores, columns, cut)


def _cut(data: Any, size: int, where: str) -> CutNodes:
    get = Fields(data, where)
    tokens = ids(get("tokens", list), f"{where}.tokens")
    given = numbers(get("parents", list), len(tokens), f"{where}.parents")
    parents = [typed(parent, int, f"{where}.parents", at) for at, parent in enumerate(given)]
    for at, parent in enumerate(parents):
        if not 0 <= parent < size + at:
            raise TraceError(f"{where}.parents[{at}] is {parent}; a parent must come before its child")
    return CutNodes(tokens, parents, numbers(get("scores", list), len(tokens), f"{where}.scores"))

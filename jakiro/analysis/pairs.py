"""Two drafts at one prefix, laid over one another: who has the path along the text, which nodes both have, and how much
of the target's probability stays in either tree."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import zip_longest

from jakiro.analysis.diversity import coverage
from jakiro.trace import StepTrace

MOST = 5  # pairs that are told of


@dataclass(frozen=True, slots=True)
class Pair:
    """Two drafts after one token of a text, the root of both trees; `accepted` is a tree's path along the text."""

    steps: tuple[StepTrace, StepTrace]

    @property
    def reach(self) -> tuple[int, int]:
        """Drafted tokens along the text."""
        return tuple(len(step.accepted) for step in self.steps)

    @property
    def shared(self) -> int:
        """Nodes below the root that both trees have."""
        first, second = (set(step.tree.paths()) for step in self.steps)
        return len(first & second) - 1

    def coverage(self) -> list[tuple[float, float]]:
        """Target mass in either tree, level by level, [(0..1, 0..1)]; a tree that ends above counts 0."""
        return list(zip_longest(*map(coverage, self.steps), fillvalue=0.0))


def telling(pairs: list[Pair]) -> list[int]:
    """Of the pairs that differ in how far they get those that do most, then in how much of the target they cover; where
    none does, those that differ in that. MOST at most."""

    def gap(at: int) -> tuple[int, float]:
        first, second = pairs[at].reach
        return abs(first - second), sum(abs(a - b) for a, b in pairs[at].coverage())

    gaps = [gap(at) for at in range(len(pairs))]
    differ = [at for at, found in enumerate(gaps) if found[0]] or [at for at, found in enumerate(gaps) if any(found)]
    return sorted(differ, key=gaps.__getitem__, reverse=True)[:MOST]

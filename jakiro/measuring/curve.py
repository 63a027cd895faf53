"""The curve of what it costs the target to verify a tree, over the tree's size."""

from __future__ import annotations

from bisect import bisect_left
from statistics import median

Curve = list[tuple[int, float]]  # (nodes, seconds of one pass of the target), by nodes


def corrected(alone: Curve, between: dict[int, float]) -> Curve:
    """A curve of passes timed alone, given seconds of some that were timed between drafts: these in their places, the
    others as much dearer as these are in the median."""
    dearer = median(seconds / cost(alone, nodes) for nodes, seconds in between.items())
    return sorted(({nodes: dearer * seconds for nodes, seconds in alone} | between).items())


def rising(curve: Curve) -> Curve:
    """The nearest curve that never falls (pool adjacent violators): more nodes cost no less, what is less is noise."""
    blocks: list[tuple[list[int], float]] = []  # neighbours that share a mean
    for nodes, seconds in curve:
        blocks.append(([nodes], seconds))
        while len(blocks) > 1 and blocks[-2][1] > blocks[-1][1]:
            (after, late), (before, early) = blocks.pop(), blocks.pop()
            both = [*before, *after]
            blocks.append((both, (early * len(before) + late * len(after)) / len(both)))
    return [(nodes, seconds) for together, seconds in blocks for nodes in together]


def cost(curve: Curve, nodes: int) -> float:
    """Seconds of a pass over that many nodes, on the line through the two measured sizes around it or nearest to it."""
    at = min(max(bisect_left(curve, (nodes,)), 1), len(curve) - 1)
    (low, before), (high, after) = curve[at - 1], curve[at]
    return before + (after - before) * (nodes - low) / (high - low)

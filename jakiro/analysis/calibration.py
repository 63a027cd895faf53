"""Whether the target chooses candidates as often as the draft's probability of them says.

Trees are grown and cut by these probabilities, which take the place of acceptance rates (EAGLE-2, arXiv 2406.16858,
section 3.1).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from statistics import fmean

from jakiro.graph import draft_probabilities
from jakiro.trace import StepTrace, Trace

BINS = 10  # of q, equally wide


@dataclass(frozen=True, slots=True)
class Bin:
    """The candidates whose q lies in one of the equal parts of 0 to 1."""

    middle: float
    q: float  # their mean
    chosen: float  # the share of them that the target chose, or would choose
    candidates: int


def calibration(trace: Trace) -> list[Bin]:
    """Candidates at the places that the walk came to, by their q. Copies have no q."""
    return binned((pair for step in trace.steps for pair in _weighed(step)), BINS)


def binned(pairs: Iterable[tuple[float, float]], count: int) -> list[Bin]:
    """Pairs of a candidate's q and of how often it is chosen, in `count` bins; those without any are left out."""
    bins: list[list[tuple[float, float]]] = [[] for _ in range(count)]
    for q, chosen in pairs:
        bins[min(int(q * count), count - 1)].append((q, chosen))
    return [
        Bin((at + 0.5) / count, fmean(q for q, _ in found), fmean(chosen for _, chosen in found), len(found))
        for at, found in enumerate(bins)
        if found
    ]


def error(bins: list[Bin]) -> float:
    """Expected calibration error: the mean distance between q and the share that was chosen (arXiv 1706.04599)."""
    return sum(one.candidates * abs(one.q - one.chosen) for one in bins) / sum(one.candidates for one in bins)


def _weighed(step: StepTrace) -> Iterator[tuple[float, bool]]:
    """q of every candidate that the target chose between, and whether it chose that one."""
    choice = dict(zip((0, *step.accepted), step.emitted, strict=True))
    for node, q in enumerate(draft_probabilities(step.tree)):
        parent = step.tree.parents[node]
        if q is not None and parent in choice:
            yield q, step.tree.tokens[node] == choice[parent]

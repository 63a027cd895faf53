"""How different the candidates of a draft are, and what that bought.

Every number asks for columns, not for a method: a trace without experts still has unique tokens and covered mass.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import zip_longest

from jakiro.analysis.endings import alone
from jakiro.trace import StepTrace, Trace

SOURCES = 4  # values of the column `source`: expert 0, expert 1, both, only the mixture


@dataclass(frozen=True, slots=True)
class Experts:
    """How far the experts disagree at one node, about the children below it."""

    parent: int
    depth: int  # of the children
    overlap: float | None  # share of the top-k that two of them both have, 0 to 1
    js: float | None  # Jensen-Shannon divergence in nats, 0 to the log of their number


@dataclass(frozen=True, slots=True)
class RoundDiversity:
    """One round's candidates."""

    drafted: int  # nodes below the root
    unique: int  # different tokens among them
    coverage: list[float]  # as `coverage` below has it
    experts: list[Experts]  # one a parent; empty where the trace has neither overlap nor js
    rescues: int | None  # accepted tokens that one of two experts proposes; None: not known, or one is alone


@dataclass(frozen=True, slots=True)
class RunDiversity:
    """Means over the rounds of a run that drafted anything; sums where it says so."""

    drafted: float
    unique: float
    coverage: list[float]  # by level, a round whose tree is shallower counts 0 there; [] where a round's is not known
    overlap: dict[int, float]  # depth of the children -> mean over parents
    js: dict[int, float]
    proposed_by_source: list[int] | None  # sum over the run, [SOURCES]
    accepted_by_source: list[int] | None  # sum over the run, [SOURCES]
    rescued_rounds: int | None  # rounds with at least one rescue; None as above


def round_diversity(trace: Trace, step: StepTrace) -> RoundDiversity:
    """The candidates of one of its rounds."""
    tree, accepted = step.tree, _by_source([(step, step.accepted)])
    return RoundDiversity(
        drafted=len(tree) - 1,
        unique=len(set(tree.tokens[1:])),
        coverage=coverage(step),
        experts=_experts(step),
        rescues=None if accepted is None or alone(trace) else sum(accepted[:2]),
    )


def coverage(step: StepTrace) -> list[float]:
    """Target mass covered by level: the sum over a level's paths of the probability that the target walks to the end of
    one. [] where the trace does not know it of every node.

    Taken at temperature 1 from the target's own log-probabilities, along the path from the root.
    """
    if None in step.target_logprobs:
        return []
    reach: dict[tuple[int, ...], float] = {}  # siblings may hold one token, whose mass is in the tree once
    for path, logp in zip(step.tree.paths(), step.target_logprobs, strict=True):
        reach[path] = reach.get(path[:-1], 0.0) + logp
    mass = [0.0] * max(step.tree.depths())
    for path, logp in reach.items():
        if len(path) > 1:
            mass[len(path) - 2] += math.exp(logp)
    return [min(level, 1.0) for level in mass]


def run_diversity(trace: Trace) -> RunDiversity | None:
    """The candidates of a whole run; None where nothing was drafted."""
    steps = [step for step in trace.steps if len(step.tree) > 1]
    rounds = [round_diversity(trace, step) for step in steps]
    if not rounds:
        return None
    known = all(found.coverage for found in rounds)
    levels = zip_longest(*(found.coverage for found in rounds), fillvalue=0.0)
    accepted = _by_source([(step, step.accepted) for step in steps])
    experts = [node for found in rounds for node in found.experts]
    return RunDiversity(
        drafted=sum(found.drafted for found in rounds) / len(rounds),
        unique=sum(found.unique for found in rounds) / len(rounds),
        coverage=[sum(level) / len(rounds) for level in levels] if known else [],
        overlap=_by_depth([(node.depth, node.overlap) for node in experts]),
        js=_by_depth([(node.depth, node.js) for node in experts]),
        proposed_by_source=_by_source([(step, range(1, len(step.tree))) for step in steps]),
        accepted_by_source=accepted,
        rescued_rounds=None if accepted is None or alone(trace) else sum(bool(found.rescues) for found in rounds),
    )


def _experts(step: StepTrace) -> list[Experts]:
    columns, depths = step.tree.columns, step.tree.depths()
    nothing = [None] * len(step.tree)
    overlap, js = columns.get("overlap", nothing), columns.get("js", nothing)
    found: dict[int, Experts] = {}
    for node, parent in enumerate(step.tree.parents[1:], start=1):
        if parent not in found and not (overlap[node] is None and js[node] is None):
            found[parent] = Experts(parent, depths[node], overlap[node], js[node])
    return list(found.values())


def _by_source(chosen: Iterable[tuple[StepTrace, Iterable[int]]]) -> list[int] | None:
    """Of rounds and nodes of theirs, how many each of the sources proposed, [SOURCES]; None where no round says it."""
    known = [(step.tree.columns["source"], nodes) for step, nodes in chosen if "source" in step.tree.columns]
    counts = Counter(column[node] for column, nodes in known for node in nodes)
    return [counts[source] for source in range(SOURCES)] if known else None


def _by_depth(pairs: list[tuple[int, float | None]]) -> dict[int, float]:
    values: dict[int, list[float]] = defaultdict(list)
    for depth, value in pairs:
        if value is not None:
            values[depth].append(value)
    return {depth: sum(found) / len(found) for depth, found in sorted(values.items())}

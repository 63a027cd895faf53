"""What the router of a two-expert head did: its weights over depths and rounds, and how they go with acceptance.

Router weights belong to a parent: they mix the experts that propose its children. A trace stores them at the children
(columns `gate0`, `gate1`), equal for all siblings; here they are read once a parent. Traces without them give None.
On the contrastive level they are the weights of its feature, a difference of the experts: a round shows them, but they
do not count for a run.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import fmean

from jakiro.analysis.endings import alone
from jakiro.trace import StepTrace, Trace

BINS = 5  # of the weight of expert 0, for acceptance against the gate


@dataclass(frozen=True, slots=True)
class Gate:
    """The router's weights at one node, for the children below it."""

    parent: int
    depth: int  # of the children
    weights: tuple[float, float]  # expert 0, expert 1; they sum to 1
    walked: bool  # the walk stood at this node: it is the root or was accepted
    stepped: bool  # and stepped into one of the children, or ended the text with it
    contrastive: bool  # the children belong to the contrastive level

    @property
    def dominant(self) -> int:
        """The expert with the larger weight."""
        return int(self.weights[1] > self.weights[0])

    @property
    def entropy(self) -> float:
        """Entropy of the weights in nats: 0 for one expert alone, log 2 for an even mixture."""
        return -sum(weight * math.log(weight) for weight in self.weights if weight > 0)


@dataclass(frozen=True, slots=True)
class RunRouting:
    """The router over a whole run, the contrastive level apart."""

    by_round: list[dict[int, tuple[float, float]]]  # of each round: depth of the children -> mean weights
    entropy: list[float | None]  # mean over each round's parents, [rounds]
    by_depth: dict[int, tuple[float, float]]  # depth of the children -> mean weights
    dominant_share: tuple[float, float]  # share of all parents at which expert 0, expert 1 has the larger weight
    mean_entropy: float
    acceptance: list[tuple[float, float | None, int]]  # a bin of expert 0's weight: middle, share stepped in, parents

    @property
    def root(self) -> list[tuple[float, float] | None]:
        """Weights at each round's root, [rounds]."""
        return [found.get(1) for found in self.by_round]


def round_routing(step: StepTrace) -> list[Gate] | None:
    """The gates of one round, one a parent, in node order; None where the trace has none."""
    columns = step.tree.columns
    if "gate0" not in columns or "gate1" not in columns:
        return None
    return list(_gates(step, columns["gate0"], columns["gate1"]))


def run_routing(trace: Trace) -> RunRouting | None:
    """The router over a run; None where no round has gates, or where one expert alone proposed, whatever they say."""
    if alone(trace):
        return None
    rounds = [[gate for gate in round_routing(step) or [] if not gate.contrastive] for step in trace.steps]
    gates = [gate for found in rounds for gate in found]
    if not gates:
        return None
    share1 = fmean([gate.dominant for gate in gates])
    return RunRouting(
        by_round=[_by_depth(found) for found in rounds],
        entropy=[fmean([gate.entropy for gate in found]) if found else None for found in rounds],
        by_depth=_by_depth(gates),
        dominant_share=(1 - share1, share1),
        mean_entropy=fmean([gate.entropy for gate in gates]),
        acceptance=_acceptance([gate for gate in gates if gate.walked]),
    )


def _gates(step: StepTrace, gate0: list, gate1: list) -> Iterator[Gate]:
    depths, heads = step.tree.depths(), step.tree.columns.get("head")
    walked = {0, *step.accepted}
    stepped = {step.tree.parents[node] for node in step.accepted}
    last = [step.tree.tokens[node] for node in step.tree.below(step.stop_node)]
    if step.bonus in last:  # it was drafted, and ends the text
        stepped.add(step.stop_node)
    seen = set()
    for node, parent in enumerate(step.tree.parents):
        weights = (gate0[node], gate1[node])
        if parent < 0 or parent in seen or None in weights:
            continue
        seen.add(parent)
        contrastive = bool(heads and heads[node] == 1)
        yield Gate(parent, depths[node], weights, parent in walked, parent in stepped, contrastive)


def _by_depth(gates: list[Gate]) -> dict[int, tuple[float, float]]:
    found: dict[int, list[tuple[float, float]]] = defaultdict(list)
    for gate in gates:
        found[gate.depth].append(gate.weights)
    return {depth: tuple(map(fmean, zip(*weights, strict=True))) for depth, weights in sorted(found.items())}


def _acceptance(walked: list[Gate]) -> list[tuple[float, float | None, int]]:
    bins: list[list[bool]] = [[] for _ in range(BINS)]
    for gate in walked:
        bins[min(int(gate.weights[0] * BINS), BINS - 1)].append(gate.stepped)
    return [((i + 0.5) / BINS, fmean(found) if found else None, len(found)) for i, found in enumerate(bins)]

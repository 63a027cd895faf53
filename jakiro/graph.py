"""One round as a networkx graph: who is below whom, what became of each node, and where to draw it.

The layout is a tidy tree: x is the depth, leaves take one row each in depth-first order with siblings in draft order,
and a parent sits in the middle of its children. Every subtree owns a block of rows, so no two edges cross.
"""

from __future__ import annotations

import math

import networkx as nx

from jakiro.trace import StepTrace, Trace
from jakiro.tree import DraftTree

ROOT, ACCEPTED, REJECTED, PASSED, UNREACHED = STATES = ("root", "accepted", "rejected", "passed over", "unreached")
BONUS = "bonus"  # key and state of the extra node; the nodes of the tree have their index as key
CUT = "cut"  # state of nodes that the budget left out; their keys go on counting


def states(step: StepTrace) -> list[str]:
    """What became of every node, [n] of STATES.

    Rejected are the first to fail: the children of the node where the walk stopped. Where the target chose one of their
    siblings they are passed over. All others off the accepted path are unreached: the target never chose between them.
    A child that holds the bonus itself was not rejected (the text ended with it), so it counts as unreached, and its
    siblings as passed over.
    """
    found, path = [UNREACHED] * len(step.tree), {0, *step.accepted}
    last = step.tree.children().get((step.stop_node, step.bonus))
    for node, parent in enumerate(step.tree.parents):
        if parent in path and node != last:
            found[node] = REJECTED if parent == step.stop_node and last is None else PASSED
    for node in step.accepted:
        found[node] = ACCEPTED
    found[0] = ROOT
    return found


def draft_logprobs(tree: DraftTree) -> list[float]:
    """Log q of every node given its parent, [n]: the recorded one, or else the step between the two path scores."""
    steps = [0.0] + [tree.scores[node] - tree.scores[parent] for node, parent in enumerate(tree.parents) if node]
    recorded = tree.columns.get("logprob", steps)
    return [step if value is None else value for step, value in zip(steps, recorded, strict=True)]


def draft_probabilities(tree: DraftTree) -> list[float | None]:
    """q of every node given its parent, [n]; None for the root and for copies, which have none."""
    if tree.copied:
        return [None] * len(tree)
    return [None, *map(probability, draft_logprobs(tree)[1:])]


def round_graph(trace: Trace, index: int, cut: bool = False) -> nx.DiGraph:
    """The draft tree of one round with the bonus as one more node under the node where the walk stopped.

    Node attributes: token, piece, depth, state, q, p (probabilities given the parent; q of copies, which have none, is
    1, and p is None where the trace does not know it), score (path log-probability under the draft), x, y (depth and
    row) and every column of the trace that has another name. The bonus knows only
    token, piece, depth, state, p, x and y. Edge attributes: q and state of the child. With `cut` the nodes that the
    budget left out are there too; they know token, piece, depth, state, q, score, x and y.
    """
    step = trace.steps[index]
    tree = step.tree
    graph = nx.DiGraph(stop=step.stop_node)
    rows = zip(
        tree.tokens, tree.depths(), states(step), draft_logprobs(tree), step.target_logprobs, tree.scores, strict=True
    )
    for node, (token, depth, state, logq, logp, score) in enumerate(rows):
        facts = {name: values[node] for name, values in tree.columns.items()}
        facts |= {"token": token, "piece": trace.piece(token), "depth": depth, "state": state, "score": score}
        facts |= {"q": probability(logq), "p": probability(logp)}
        graph.add_nodes_from([(node, facts)])
        if node:
            graph.add_edge(tree.parents[node], node, q=graph.nodes[node]["q"], state=state)
    if cut:
        _add_cut(graph, trace, tree)
    _add_bonus(graph, trace, step)
    place(graph)
    return graph


def place(graph: nx.DiGraph) -> None:
    """Give every node its x and y."""
    for node, (x, y) in positions(children_in_draft_order(graph)).items():
        graph.nodes[node].update(x=x, y=y)


def children_in_draft_order(graph: nx.DiGraph) -> dict:
    """Node -> its children, the draft's favourite first and the bonus last."""

    def order(node: int | str) -> tuple[bool, float, int]:
        return (True, 0.0, 0) if node == BONUS else (False, -graph.nodes[node]["score"], node)

    return {node: sorted(graph.successors(node), key=order) for node in graph}


def positions(children: dict) -> dict:
    """Node -> (depth, row) of the tidy tree; rows count from 0 at the top."""
    depth, order, stack = {0: 0}, [], [0]
    while stack:
        node = stack.pop()
        order.append(node)
        depth.update(dict.fromkeys(children[node], depth[node] + 1))
        stack.extend(reversed(children[node]))
    leaves = [node for node in order if not children[node]]
    row = {leaf: float(place) for place, leaf in enumerate(leaves)}
    for node in reversed(order):  # children come before their parents
        if children[node]:
            row[node] = (row[children[node][0]] + row[children[node][-1]]) / 2
    return {node: (depth[node], row[node]) for node in order}


def probability(logprob: float | None) -> float | None:
    """exp, held within [0, 1] against rounding; None stays None: a trace need not know what the target thought."""
    return None if logprob is None else math.exp(min(logprob, 0.0))


def _add_cut(graph: nx.DiGraph, trace: Trace, tree: DraftTree) -> None:
    rows = zip(tree.cut.tokens, tree.cut.parents, tree.cut.scores, strict=True)
    for node, (token, parent, score) in enumerate(rows, start=len(tree)):
        above = graph.nodes[parent]
        q = probability(score - above["score"])
        facts = {"token": token, "piece": trace.piece(token), "depth": above["depth"] + 1, "score": score, "q": q}
        graph.add_node(node, **facts, state=CUT)
        graph.add_edge(parent, node, q=q, state=CUT)


def _add_bonus(graph: nx.DiGraph, trace: Trace, step: StepTrace) -> None:
    stop = step.stop_node
    known = step.tree.columns.get("pick_logprob")
    p = probability(known[stop] if known else None)
    facts = {"token": step.bonus, "piece": trace.piece(step.bonus), "depth": graph.nodes[stop]["depth"] + 1}
    graph.add_node(BONUS, **facts, state=BONUS, p=p)
    graph.add_edge(stop, BONUS, q=None, state=BONUS)

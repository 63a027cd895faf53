"""The round graph: states, probabilities, and a layout without crossings."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest
from hand import FIRST, HAND, SECOND, run
from synthetic import lookup_trace, text, tree_trace, vanilla_trace

from jakiro.graph import BONUS, children_in_draft_order, draft_logprobs, positions, round_graph, states


def test_states_tell_accepted_passed_over_first_rejected_and_unreached_apart():
    assert states(FIRST) == ["root", "accepted", "passed over", "accepted", "passed over"]
    assert states(SECOND) == ["root", "rejected", "rejected"]


def test_children_of_the_last_accepted_node_are_the_first_rejected():
    assert states(replace(FIRST, accepted=[1])) == ["root", "accepted", "passed over", "rejected", "rejected"]
    assert states(replace(FIRST, accepted=[2], bonus=9)) == ["root", "passed over", "accepted", *["unreached"] * 2]


def test_a_child_that_holds_the_token_that_ended_the_text_was_not_rejected():
    assert states(replace(SECOND, bonus=16)) == ["root", "unreached", "passed over"]


def test_draft_log_probability_is_the_recorded_one_or_the_step_between_scores():
    steps = draft_logprobs(FIRST.tree)
    assert steps == pytest.approx([0.0] + [math.log(q) for q in (0.5, 0.25, 0.5, 0.25)])
    recorded = replace(FIRST.tree, columns={"logprob": [None, -9.0, None, -8.0, -7.0]})
    assert draft_logprobs(recorded) == pytest.approx([0.0, -9.0, math.log(0.25), -8.0, -7.0])


def test_the_graph_carries_columns_and_the_bonus():
    graph = round_graph(HAND, 0)
    assert graph.nodes[1]["piece"] == " a" and graph.nodes[1]["gate0"] == 0.75 and graph.nodes[1]["q"] == 0.5
    assert graph.nodes[BONUS]["token"] == 15 and graph.nodes[BONUS]["depth"] == 3 and graph.nodes[BONUS]["p"] is None
    assert list(graph.predecessors(BONUS)) == [3] and graph.edges[0, 1]["q"] == 0.5
    assert round_graph(HAND, 1).nodes[BONUS]["p"] == pytest.approx(0.5)  # the trace knows the pick there


def test_a_column_cannot_take_the_place_of_what_the_graph_knows():
    ours = round_graph(HAND, 0).nodes[1]
    for name in ("q", "p", "x", "y", "depth", "state", "token", "piece", "score", "self", "node_for_adding"):
        tree = replace(FIRST.tree, columns=FIRST.tree.columns | {name: [9.0] * 5})
        graph = round_graph(run(replace(FIRST, tree=tree)), 0)
        assert {key: value for key, value in graph.nodes[1].items() if key in ours} == ours


def test_parents_are_centred_and_siblings_stand_in_draft_order():
    graph = round_graph(HAND, 0)
    place = {node: (facts["x"], facts["y"]) for node, facts in graph.nodes(data=True)}
    # depth-first leaves: the bonus below 13, then 14, then 12
    assert place == {0: (0, 1.25), 1: (1, 0.5), 3: (2, 0), BONUS: (3, 0), 4: (2, 1), 2: (1, 2)}


def test_a_better_score_comes_first_whatever_the_index():
    tree = replace(SECOND.tree, scores=[0.0, -3.0, -1.0])
    assert children_in_draft_order(round_graph(run(replace(SECOND, tree=tree)), 0))[0] == [2, 1, BONUS]


@pytest.mark.parametrize("seed", range(5))
def test_no_two_edges_cross_and_no_two_nodes_share_a_place(seed):
    draw = random.Random(seed)
    children = {0: []}
    for node in range(1, 60):
        children[node] = []
        children[draw.randrange(max(0, node - 8), node)].append(node)
    place = positions(children)
    assert len(set(place.values())) == 60
    edges = [(place[parent], place[child]) for parent, found in children.items() for child in found]
    for i, ((x, a), (_, b)) in enumerate(edges):
        for (other, c), (_, d) in edges[:i]:
            assert other != x or (a - c) * (b - d) >= 0


def test_a_chain_is_one_row_and_a_deep_one_needs_no_recursion():
    place = positions({i: [i + 1] for i in range(5000)} | {5000: []})
    assert place[5000] == (5000, 0.0) and {row for _, row in place.values()} == {0.0}


@pytest.mark.parametrize(
    "trace", [vanilla_trace(text(4)), lookup_trace(text(20)), tree_trace(3), tree_trace(3, experts=False)]
)
def test_every_kind_of_trace_has_a_graph(trace):
    for index, step in enumerate(trace.steps):
        graph = round_graph(trace, index)
        assert len(graph) == len(step.tree) + 1 and graph.number_of_edges() == len(step.tree)
